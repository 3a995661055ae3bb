// SPDX-License-Identifier: BSD-3-Clause
//! The end of a file in memory, on its way to the disk.
//!
//! Bytes are gathered first: a processor has much less to do for a few large writes, which the disk
//! takes right out of that memory, than for many small ones through the kernel's page cache, which
//! has to copy them and to write them back later. Files that are only appended to are written so:
//! increments of the append-only file (`aof/increment.rs`) and whole dumps (`synced_file.rs`). File
//! systems that know no such writes get the usual ones.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// What is written past the page cache begins and ends at multiples of this, in the file and in memory.
pub(crate) const BLOCK: usize = 4096;
/// Bytes that are gathered at most.
pub(crate) const GATHERED_MAX: usize = 1 << 20;
/// Fewer bytes go through the page cache: to write past it costs the same for few as for many.
const DIRECT_LEAST: usize = 256 << 10;

/// The end of a file in memory: what has not been written yet, and the begin of the block in which
/// that begins.
pub(crate) struct Tail {
    /// A block more than is used, so that what is used can begin at a multiple of [`BLOCK`].
    memory: Vec<u8>,
    /// Where in the memory the tail begins.
    start: usize,
    /// Where in the file it begins: at a multiple of [`BLOCK`].
    at: u64,
    /// Bytes of it, and how many of these are in the file.
    len: usize,
    written: usize,
    /// The file can be written past the page cache, and is set to do so at present.
    can_be_direct: bool,
    is_direct: bool,
}

impl Tail {
    /// Goes on with a file of this length.
    pub(crate) fn new(file: &File, len: u64) -> Tail {
        let memory = vec![0; GATHERED_MAX + BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK).min(BLOCK);
        let begun = (len % BLOCK as u64) as usize;
        let mut tail = Tail {
            memory,
            start,
            at: len - begun as u64,
            len: begun,
            written: begun,
            can_be_direct: true,
            is_direct: false,
        };
        // Of what is there already only the last block is needed, to be written once more with what follows.
        let (at, begin) = (tail.at, tail.start);
        tail.can_be_direct = file.read_exact_at(&mut tail.memory[begin..begin + begun], at).is_ok();
        tail
    }

    /// Where in the file the next byte goes.
    pub(crate) fn end(&self) -> u64 {
        self.at + self.len as u64
    }

    pub(crate) fn pending(&self) -> usize {
        self.len - self.written
    }

    /// How many bytes more can be gathered before some must be written.
    pub(crate) fn room(&self) -> usize {
        GATHERED_MAX - self.len
    }

    /// What was written last went past the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Takes what there is room for; how many bytes that were.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        let begin = self.start + self.len;
        self.memory[begin..begin + taken].copy_from_slice(&bytes[..taken]);
        self.len += taken;
        taken
    }

    /// Writes everything, past the page cache if that is better. After an error what has not been
    /// written is still there. `zeros_end`: up to here the file has zeros behind its data.
    pub(crate) fn flush(&mut self, file: &File, direct: bool, zeros_end: u64) -> io::Result<()> {
        let whole = self.len / BLOCK * BLOCK;
        let padded = self.len.next_multiple_of(BLOCK);
        if !direct || self.pending() == 0 {
            // Nothing to be had.
        } else if self.at + padded as u64 <= zeros_end {
            // It is to be forced to disk at once, and the zeros that fill the last block are in the
            // file already.
            self.memory[self.start + self.len..self.start + padded].fill(0);
            self.write_directly(file, padded);
        } else if whole >= DIRECT_LEAST {
            self.write_directly(file, whole);
        }
        if self.pending() > 0 {
            self.set_direct(file, false);
        }
        while self.pending() > 0 {
            let (begin, end) = (self.start + self.written, self.start + self.len);
            match file.write_at(&self.memory[begin..end], self.at + self.written as u64) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => self.written += taken,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.memory.copy_within(self.start + whole..self.start + self.len, self.start);
        self.at += whole as u64;
        self.len -= whole;
        self.written = self.len;
        Ok(())
    }

    /// Writes the first `len` bytes, if the file can be written so. What is wrong otherwise is seen
    /// when they are written again.
    fn write_directly(&mut self, file: &File, len: usize) {
        self.set_direct(file, true);
        if self.is_direct {
            match file.write_at(&self.memory[self.start..self.start + len], self.at) {
                Ok(taken) => self.written = self.written.max(taken.min(self.len)),
                Err(error) => self.can_be_direct &= error.kind() != io::ErrorKind::InvalidInput,
            }
        }
    }

    pub(crate) fn set_direct(&mut self, file: &File, direct: bool) {
        if self.is_direct == direct || (direct && !self.can_be_direct) {
            return;
        }
        let set = fcntl_getfl(file).and_then(|flags| {
            let others = flags - OFlags::DIRECT;
            fcntl_setfl(file, if direct { others | OFlags::DIRECT } else { others })
        });
        match set {
            Ok(()) => self.is_direct = direct,
            Err(_) => self.can_be_direct = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Whatever is written in which way, before and after a restart, stands in the file one
        /// after the other.
        #[test]
        fn everything_is_in_the_file_in_order(
            begin in 0..3 * BLOCK,
            pieces in prop::collection::vec((0..700_000usize, any::<bool>(), any::<bool>()), 1..8),
            zeros in prop::option::of(0..100u64),
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("file");
            let mut expected: Vec<u8> = (0..begin).map(|at| at as u8).collect();
            std::fs::write(&path, &expected).expect("a file");
            // As if so many blocks of zeros had been written ahead.
            let zeros_end = zeros.map_or(0, |blocks| (begin as u64).next_multiple_of(BLOCK as u64) + blocks * BLOCK as u64);
            let data = |mut bytes: Vec<u8>, len: usize| {
                assert!(bytes.split_off(len).iter().all(|&byte| byte == 0));
                bytes
            };
            let open = || File::options().read(true).write(true).open(&path).expect("a file");
            let mut file = open();
            let mut tail = Tail::new(&file, begin as u64);
            for (number, (len, direct, again)) in pieces.into_iter().enumerate() {
                let bytes: Vec<u8> = (0..len).map(|at| (at / 7 + number) as u8).collect();
                let mut left = &bytes[..];
                while !left.is_empty() {
                    let taken = tail.push(left);
                    left = &left[taken..];
                    if !left.is_empty() {
                        tail.flush(&file, direct, zeros_end).expect("written");
                        prop_assert!(tail.len < BLOCK);
                    }
                }
                expected.extend_from_slice(&bytes);
                prop_assert_eq!(tail.end(), expected.len() as u64);
                if direct || again {
                    tail.flush(&file, direct, zeros_end).expect("written");
                    prop_assert_eq!(tail.pending(), 0);
                    prop_assert!(data(std::fs::read(&path).expect("read"), expected.len()) == expected);
                }
                if again {
                    file = open();
                    tail = Tail::new(&file, expected.len() as u64);
                }
            }
            tail.flush(&file, false, zeros_end).expect("written");
            prop_assert!(data(std::fs::read(&path).expect("read"), expected.len()) == expected);
            prop_assert!(tail.memory[tail.start..].as_ptr().addr().is_multiple_of(BLOCK));
        }
    }

    /// A file that cannot be read is written through the page cache, from any length on.
    #[test]
    fn a_file_that_cannot_be_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, b"begin").expect("a file");
        let file = File::options().write(true).open(&path).expect("a file");
        let mut tail = Tail::new(&file, 5);
        let bytes = vec![b'x'; 2 * DIRECT_LEAST];
        assert_eq!(tail.push(&bytes), bytes.len());
        tail.flush(&file, true, 0).expect("written");
        assert_eq!(std::fs::read(&path).expect("read"), [&b"begin"[..], &bytes].concat());
    }

    /// After an error nothing is forgotten: what was gathered is written once the file takes it.
    #[test]
    fn an_error_loses_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let unwritable = File::create(&path).and_then(|_| File::open(&path)).expect("a file to read");
        let mut tail = Tail::new(&unwritable, 0);
        for direct in [true, false] {
            assert_eq!(tail.push(&vec![b'y'; DIRECT_LEAST + 10]), DIRECT_LEAST + 10);
            tail.flush(&unwritable, direct, 0).expect_err("cannot be written");
        }
        assert_eq!(tail.pending(), 2 * DIRECT_LEAST + 20);
        let writable = File::options().write(true).open(&path).expect("a file to write");
        tail.flush(&writable, false, 0).expect("written");
        assert_eq!(std::fs::read(&path).expect("read"), vec![b'y'; 2 * DIRECT_LEAST + 20]);
    }
}
