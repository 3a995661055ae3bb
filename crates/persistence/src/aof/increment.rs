// SPDX-License-Identifier: BSD-3-Clause
//! The file that the append-only file's writer appends to.
//!
//! Bytes are gathered in memory first ([`Tail`]): a processor has much less to do for a few large
//! writes, which the disk takes right out of that memory, than for many small ones through the
//! kernel's page cache. How long they are gathered is the caller's choice; nothing counts as
//! written before [`Increment::flush`] has succeeded.
//!
//! Under `always` zeros are written some way ahead: to force to disk what overwrites them takes a
//! fraction of the time that it takes when the file grows. They are cut off when the file is
//! closed; what a crash leaves of them a load passes over ([`super::data_len`]).
//!
//! Otherwise disk space is reserved ahead ([`Increment::reserve`]), so that a full disk is noticed
//! while what is acknowledged meanwhile still has a place. The file's length does not change by it;
//! a crash leaves the blocks to the next process that appends.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use braid_base::clock::unix_ms;
use braid_base::crc::crc64;
use braid_journal::Reader;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::check::{self, Check};
use super::requests::timestamp;
use crate::tail::{BLOCK, Tail};

/// Zeros that are written at once.
pub(super) const AHEAD: u64 = 1 << 20;
/// Bytes of a line of our own among the journal's, at most.
const LINE_MAX: u64 = 64;

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
    pub file: Arc<File>,
    tail: Tail,
    /// Where the zeros end.
    ahead: u64,
    /// Disk space is reserved up to here.
    reserved: u64,
    /// The file system reserves space.
    can_reserve: bool,
    /// Second of the last line that tells the time.
    told_s: i64,
    /// The next byte begins a unit.
    at_boundary: bool,
    /// Checksum since the last annotation with one, and of how many bytes.
    crc: u64,
    unchecked: u64,
}

impl Increment {
    pub(super) fn new(file: File) -> Increment {
        let len = file.metadata().map_or(0, |data| data.len());
        let tail = Tail::new(&file, len);
        let mut increment = Increment {
            file: Arc::new(file),
            tail,
            ahead: len,
            reserved: len,
            can_reserve: true,
            told_s: 0,
            at_boundary: true,
            crc: 0,
            unchecked: 0,
        };
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
        let fits = line.len() <= self.tail.room();
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

    /// Reserves disk space for `least` bytes behind everything gathered so far, and for some more.
    /// True if it is there; false if that is not known, because the file system reserves none.
    ///
    /// # Errors
    /// The disk, a quota or a limit on the size of files leaves no room for `least` bytes.
    pub(super) fn reserve(&mut self, least: u64) -> io::Result<bool> {
        let needed = self.len() + least;
        // No reservation notices this limit, since it does not make the file longer.
        if getrlimit(Resource::Fsize).current.is_some_and(|most| needed > most) {
            return Err(Errno::FBIG.into());
        }
        if needed <= self.reserved {
            return Ok(true);
        }
        while self.can_reserve {
            let end = (needed + least).next_multiple_of(BLOCK as u64);
            let reserved = self.reserve_up_to(end).or_else(|_| self.reserve_up_to(needed));
            match reserved {
                Ok(()) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => return Err(error.into()),
                // What is wrong otherwise is seen when the file is written.
                Err(_) => self.can_reserve = false,
            }
        }
        Ok(false)
    }

    fn reserve_up_to(&mut self, end: u64) -> Result<(), Errno> {
        let from = self.reserved.max(self.written_len());
        if from < end {
            fallocate(&self.file, FallocateFlags::KEEP_SIZE, from, end - from)?;
            self.reserved = end;
        }
        Ok(())
    }

    /// Cuts off what was only written ahead, and gives back what was only reserved.
    pub(super) fn cut(&mut self) {
        let len = self.written_len();
        if self.ahead <= len && self.reserved > len {
            if let Err(error) = self.file.set_len(len) {
                log::warn!("Cannot give back the space reserved for the AOF file: {error}");
            }
            self.reserved = len;
        }
        self.cut_zeros();
    }

    /// Cuts off what was only written ahead. Nothing may be pending.
    fn cut_zeros(&mut self) {
        let len = self.written_len();
        if self.ahead > len {
            if let Err(error) = self.file.set_len(len).and_then(|()| self.file.sync_data()) {
                log::warn!("Cannot cut off the zeros at the end of the AOF file: {error}");
            }
            // The space behind goes with them.
            self.reserved = len;
        }
        self.ahead = len;
    }

    /// Writes zeros ahead, if more than what is there is needed for the next `len` bytes. If that
    /// fails it does not matter.
    fn write_ahead(&mut self, len: u64) {
        let needed = (self.len() + len + LINE_MAX).next_multiple_of(BLOCK as u64);
        if needed > self.ahead {
            let from = self.ahead.max(self.written_len());
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
            self.cut_zeros();
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
