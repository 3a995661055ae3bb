//! The file that the append-only file's writer appends to.
//!
//! Bytes are gathered in memory first ([`Tail`]): a processor has much less to do for a few large writes, which the disk takes right out of that
//! memory, than for many small ones through the kernel's page cache. How long they are gathered is the caller's choice; nothing counts as written
//! before [`Increment::flush`] has succeeded.
//!
//! Under `always` zeros are written some way ahead: to force to disk what overwrites them takes a fraction of the time that it takes when the file grows.
//! They are cut off when the file is closed; what a crash leaves of them a load passes over ([`super::data_len`]).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use braid_base::clock::unix_ms;
use braid_base::crc::crc64;
use braid_journal::Reader;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::check::{self, Check};
use super::requests::timestamp;

/// Zeros that are written at once.
pub(super) const AHEAD: u64 = 1 << 20;
/// What is written past the page cache begins and ends at multiples of this, in the file and in memory.
const BLOCK: usize = 4096;
/// Bytes of a line of our own among the journal's, at most.
const LINE_MAX: u64 = 64;
/// Bytes that are gathered at most.
pub(super) const GATHERED_MAX: usize = 1 << 20;
/// Fewer bytes go through the page cache: to write past it costs the same for few as for many.
const DIRECT_LEAST: usize = 256 << 10;

/// What a file's writer is asked to add to the journal's bytes.
#[derive(Clone, Copy)]
pub(super) struct Extras {
    /// Lines that tell the time.
    pub timestamps: bool,
    /// Zeros ahead.
    pub ahead: bool,
    /// The disk keeps up: bytes may be written past the page cache.
    pub direct: bool,
}

/// The file that is written.
pub(super) struct Increment {
    pub file: File,
    tail: Tail,
    /// Where the zeros end.
    ahead: u64,
    /// Second of the last line that tells the time.
    told_s: i64,
    /// The next byte begins a unit.
    at_boundary: bool,
    /// Checksum since the last annotation with one, and of how many bytes.
    crc: u64,
    unchecked: u64,
}

/// The end of a file in memory: what has not been written yet, and the begin of the block in which that begins.
struct Tail {
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
    fn new(file: &File, len: u64) -> Tail {
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
    fn end(&self) -> u64 {
        self.at + self.len as u64
    }

    fn pending(&self) -> usize {
        self.len - self.written
    }

    /// Takes what there is room for; how many bytes that were.
    fn push(&mut self, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(GATHERED_MAX - self.len);
        let begin = self.start + self.len;
        self.memory[begin..begin + taken].copy_from_slice(&bytes[..taken]);
        self.len += taken;
        taken
    }

    /// Writes everything, past the page cache if that is better. After an error what has not been written is still there. `zeros_end`: up to here
    /// the file has zeros behind its data.
    fn flush(&mut self, file: &File, direct: bool, zeros_end: u64) -> io::Result<()> {
        let whole = self.len / BLOCK * BLOCK;
        let padded = self.len.next_multiple_of(BLOCK);
        if !direct || self.pending() == 0 {
            // Nothing to be had.
        } else if self.at + padded as u64 <= zeros_end {
            // It is to be forced to disk at once, and the zeros that fill the last block are in the file already.
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

    /// Writes the first `len` bytes, if the file can be written so. What is wrong otherwise is seen when they are written again.
    fn write_directly(&mut self, file: &File, len: usize) {
        self.set_direct(file, true);
        if self.is_direct {
            match file.write_at(&self.memory[self.start..self.start + len], self.at) {
                Ok(taken) => self.written = self.written.max(taken.min(self.len)),
                Err(error) => self.can_be_direct &= error.kind() != io::ErrorKind::InvalidInput,
            }
        }
    }

    fn set_direct(&mut self, file: &File, direct: bool) {
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

impl Increment {
    pub(super) fn new(file: File) -> Increment {
        let len = file.metadata().map_or(0, |data| data.len());
        let tail = Tail::new(&file, len);
        let mut increment =
            Increment { file, tail, ahead: len, told_s: 0, at_boundary: true, crc: 0, unchecked: 0 };
        if len > 0 {
            // What was written before has its own sums, and perhaps an end without.
            increment.annotate(&Check::Begin.line());
            increment.crc = 0;
            increment.unchecked = 0;
        }
        increment
    }

    /// Bytes of the file.
    pub(super) fn written_len(&self) -> u64 {
        self.len() - self.pending() as u64
    }

    /// Bytes of the file, with those that were gathered.
    fn len(&self) -> u64 {
        self.tail.end()
    }

    /// Bytes that were gathered and are not written yet.
    pub(super) fn pending(&self) -> usize {
        self.tail.pending()
    }

    /// Writes what was gathered.
    pub(super) fn flush(&mut self, direct: bool) -> io::Result<()> {
        self.tail.flush(&self.file, direct, self.ahead)
    }

    /// Gathers a line between two units, if there is room for it.
    fn annotate(&mut self, line: &str) -> bool {
        let fits = self.tail.len + line.len() <= GATHERED_MAX;
        if fits {
            self.push(line.as_bytes());
        }
        fits
    }

    fn push(&mut self, bytes: &[u8]) -> usize {
        let taken = self.tail.push(bytes);
        self.crc = crc64(self.crc, &bytes[..taken]);
        self.unchecked += taken as u64;
        taken
    }

    /// Cuts off what was only written ahead. Nothing may be pending.
    pub(super) fn cut(&mut self) {
        let len = self.len();
        if self.ahead > len
            && let Err(error) = self.file.set_len(len).and_then(|()| self.file.sync_data())
        {
            log::warn!("Cannot cut off the zeros at the end of the AOF file: {error}");
        }
        self.ahead = len;
    }

    /// Writes zeros ahead, if more than what is there is needed for the next `len` bytes. If that fails it does not matter.
    fn write_ahead(&mut self, len: u64) {
        let needed = (self.len() + len + LINE_MAX).next_multiple_of(BLOCK as u64);
        if needed > self.ahead {
            let from = self.ahead.max(self.tail.at + self.tail.written as u64);
            let zeros = vec![0; AHEAD as usize + BLOCK];
            let start = zeros.as_ptr().align_offset(BLOCK).min(BLOCK);
            // The first ones end at the begin of a block.
            let count = AHEAD - from % BLOCK as u64;
            self.tail.set_direct(&self.file, count == AHEAD);
            if self.file.write_all_at(&zeros[start..start + count as usize], from).is_ok() {
                self.ahead = from + count;
            }
        }
    }

    /// Gathers the journal's bytes up to `end`, and writes what there is no room for.
    pub(super) fn write(
        &mut self,
        journal: &braid_journal::Journal,
        reader: &mut Reader,
        end: u64,
        extras: Extras,
    ) -> io::Result<()> {
        if self.at_boundary && extras.timestamps {
            let now_s = unix_ms() / 1000;
            if now_s != self.told_s && self.annotate(&timestamp(now_s)) {
                self.told_s = now_s;
            }
        }
        if !extras.ahead && self.pending() == 0 {
            self.cut();
        }
        while reader.position() < end {
            if extras.ahead {
                self.write_ahead((end - reader.position()).min(AHEAD));
            }
            reader.read(journal, end, |piece| self.push(piece));
            if reader.position() < end {
                self.flush(extras.direct)?;
            }
        }
        self.at_boundary = reader.position() == end;
        if self.at_boundary && self.unchecked >= check::EVERY && self.annotate(&Check::Sum(self.crc).line()) {
            self.crc = 0;
            self.unchecked = 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Whatever is written in which way, before and after a restart, stands in the file one after the other.
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
