// SPDX-License-Identifier: BSD-3-Clause
//! Direct writer: buffers the end of a file and writes it past the page cache (`O_DIRECT`).
//!
//! A few large writes that the disk takes straight from the buffer cost much less processor time
//! than many small ones through the page cache, which copies them and writes them back later. Used
//! for files that are only appended to: increments of the append-only file (`aof/increment.rs`) and
//! dump files (`synced_file.rs`). File systems without direct writes get buffered ones.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Alignment of direct writes, in the file and in memory.
pub(crate) const BLOCK: usize = 4096;
/// Size of the buffer, in bytes.
pub(crate) const BUFFER_BYTES_MAX: usize = 1 << 20;
/// Fewer bytes go through the page cache: a direct write has a high fixed cost.
const DIRECT_BYTES_MIN: usize = 256 << 10;

/// The buffered end of a file: the unwritten bytes, and the start of the block in which they begin.
pub(crate) struct DirectWriter {
    /// One block larger than the buffer, so that the buffer can begin at a multiple of [`BLOCK`].
    memory: Vec<u8>,
    /// Start of the buffer in `memory`.
    start: usize,
    /// Start of the buffer in the file: a multiple of [`BLOCK`].
    at: u64,
    /// Number of bytes in the buffer, and of those that are already in the file.
    len: usize,
    written: usize,
    /// The file supports direct writes, and `O_DIRECT` is currently set.
    can_be_direct: bool,
    is_direct: bool,
}

impl DirectWriter {
    /// Continues a file of `len` bytes.
    pub(crate) fn new(file: &File, len: u64) -> DirectWriter {
        let memory = vec![0; BUFFER_BYTES_MAX + BLOCK];
        let start = memory.as_ptr().align_offset(BLOCK).min(BLOCK);
        let begun = (len % BLOCK as u64) as usize;
        let mut writer = DirectWriter {
            memory,
            start,
            at: len - begun as u64,
            len: begun,
            written: begun,
            can_be_direct: true,
            is_direct: false,
        };
        // Only the last block of the existing content is needed: it is rewritten with the next
        // bytes.
        let (at, begin) = (writer.at, writer.start);
        writer.can_be_direct = file.read_exact_at(&mut writer.memory[begin..begin + begun], at).is_ok();
        writer
    }

    /// Offset of the next byte in the file.
    pub(crate) fn end(&self) -> u64 {
        self.at + self.len as u64
    }

    /// Number of buffered bytes that are not yet in the file.
    pub(crate) fn pending(&self) -> usize {
        self.len - self.written
    }

    /// Bytes that fit in the buffer before it must be flushed.
    pub(crate) fn room(&self) -> usize {
        BUFFER_BYTES_MAX - self.len
    }

    /// True if the last write was direct.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Buffers as many bytes as fit and returns their number.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room());
        let begin = self.start + self.len;
        self.memory[begin..begin + taken].copy_from_slice(&bytes[..taken]);
        self.len += taken;
        taken
    }

    /// Writes all pending bytes, directly if `direct` is set and worthwhile. After an error the
    /// unwritten bytes are still pending. `zeros_end`: end of the zeros that follow the file's
    /// data.
    pub(crate) fn flush(&mut self, file: &File, direct: bool, zeros_end: u64) -> io::Result<()> {
        let whole = self.len / BLOCK * BLOCK;
        let padded = self.len.next_multiple_of(BLOCK);
        if !direct || self.pending() == 0 {
            // Handled by the buffered write below.
        } else if self.at + padded as u64 <= zeros_end {
            // The bytes are synced next, and the zeros that pad the last block are already in the
            // file.
            self.memory[self.start + self.len..self.start + padded].fill(0);
            self.write_directly(file, padded);
        } else if whole >= DIRECT_BYTES_MIN {
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

    /// Writes the first `len` bytes directly, if the file supports it. Other errors recur in the
    /// buffered write that follows.
    fn write_directly(&mut self, file: &File, len: usize) {
        self.set_direct(file, true);
        if self.is_direct {
            match file.write_at(&self.memory[self.start..self.start + len], self.at) {
                Ok(taken) => self.written = self.written.max(taken.min(self.len)),
                Err(error) => self.can_be_direct &= error.kind() != io::ErrorKind::InvalidInput,
            }
        }
    }

    /// Sets or clears `O_DIRECT`.
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

        /// Direct and buffered writes, before and after a restart, end up in the file in order.
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
            // As if this many blocks of zeros had been written ahead.
            let zeros_end = zeros.map_or(0, |blocks| (begin as u64).next_multiple_of(BLOCK as u64) + blocks * BLOCK as u64);
            let data = |mut bytes: Vec<u8>, len: usize| {
                assert!(bytes.split_off(len).iter().all(|&byte| byte == 0));
                bytes
            };
            let open = || File::options().read(true).write(true).open(&path).expect("a file");
            let mut file = open();
            let mut writer = DirectWriter::new(&file, begin as u64);
            for (number, (len, direct, again)) in pieces.into_iter().enumerate() {
                let bytes: Vec<u8> = (0..len).map(|at| (at / 7 + number) as u8).collect();
                let mut left = &bytes[..];
                while !left.is_empty() {
                    let taken = writer.push(left);
                    left = &left[taken..];
                    if !left.is_empty() {
                        writer.flush(&file, direct, zeros_end).expect("written");
                        prop_assert!(writer.len < BLOCK);
                    }
                }
                expected.extend_from_slice(&bytes);
                prop_assert_eq!(writer.end(), expected.len() as u64);
                if direct || again {
                    writer.flush(&file, direct, zeros_end).expect("written");
                    prop_assert_eq!(writer.pending(), 0);
                    prop_assert!(data(std::fs::read(&path).expect("read"), expected.len()) == expected);
                }
                if again {
                    file = open();
                    writer = DirectWriter::new(&file, expected.len() as u64);
                }
            }
            writer.flush(&file, false, zeros_end).expect("written");
            prop_assert!(data(std::fs::read(&path).expect("read"), expected.len()) == expected);
            prop_assert!(writer.memory[writer.start..].as_ptr().addr().is_multiple_of(BLOCK));
        }
    }

    /// A file that cannot be read is written through the page cache, from any length on.
    #[test]
    fn a_file_that_cannot_be_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, b"begin").expect("a file");
        let file = File::options().write(true).open(&path).expect("a file");
        let mut writer = DirectWriter::new(&file, 5);
        let bytes = vec![b'x'; 2 * DIRECT_BYTES_MIN];
        assert_eq!(writer.push(&bytes), bytes.len());
        writer.flush(&file, true, 0).expect("written");
        assert_eq!(std::fs::read(&path).expect("read"), [&b"begin"[..], &bytes].concat());
    }

    /// After an error the buffer is kept, and written once the file accepts it.
    #[test]
    fn an_error_loses_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let unwritable = File::create(&path).and_then(|_| File::open(&path)).expect("a file to read");
        let mut writer = DirectWriter::new(&unwritable, 0);
        for direct in [true, false] {
            assert_eq!(writer.push(&vec![b'y'; DIRECT_BYTES_MIN + 10]), DIRECT_BYTES_MIN + 10);
            writer.flush(&unwritable, direct, 0).expect_err("cannot be written");
        }
        assert_eq!(writer.pending(), 2 * DIRECT_BYTES_MIN + 20);
        let writable = File::options().write(true).open(&path).expect("a file to write");
        writer.flush(&writable, false, 0).expect("written");
        assert_eq!(std::fs::read(&path).expect("read"), vec![b'y'; 2 * DIRECT_BYTES_MIN + 20]);
    }
}
