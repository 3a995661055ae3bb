// SPDX-License-Identifier: BSD-3-Clause
//! The increment: the part of the append-only file to which changes are appended.
//!
//! Bytes are buffered by a [`DirectWriter`]. The caller decides when to flush; nothing counts as
//! written before [`Increment::flush`] has succeeded.
//!
//! Under `always` zeros are written ahead, because syncing overwritten bytes takes a fraction of
//! the time that syncing a growing file takes. They are cut off when the file is closed; loading
//! skips zeros that a crash has left ([`super::data_len`]).
//!
//! Otherwise disk space is reserved ahead ([`Increment::reserve`]), so that a full disk is noticed
//! while acknowledged changes still have room. Reserving does not change the file's length; after a
//! crash the next process that appends uses the blocks.

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
use super::history_position::HistoryPosition;
use super::requests::timestamp;
use crate::direct_writer::{BLOCK, DirectWriter};

/// Zeros per write.
pub(super) const AHEAD: u64 = 1 << 20;
/// Longest annotations of one write, in bytes.
const LINES_MAX: u64 = 256;

/// Options of a write besides the journal's bytes.
#[derive(Clone, Copy)]
pub(super) struct Extras {
    /// Timestamp annotations.
    pub timestamps: bool,
    /// Zeros written ahead.
    pub ahead: bool,
    /// Direct writes are allowed, because the disk keeps up.
    pub direct: bool,
}

/// The file being appended to.
pub(super) struct Increment {
    pub file: Arc<File>,
    writer: DirectWriter,
    /// End of the zeros.
    ahead: u64,
    /// End of the reserved space.
    reserved: u64,
    /// The file system supports reservation.
    can_reserve: bool,
    /// Time of the last timestamp annotation, Unix seconds.
    told_s: i64,
    /// The next byte begins a unit.
    at_boundary: bool,
    /// Checksum since the last checksum annotation, and the number of bytes it covers.
    crc: u64,
    unchecked: u64,
    /// The last place noted in the file by this process.
    place: Option<HistoryPosition>,
}

impl Increment {
    pub(super) fn new(file: File) -> Increment {
        let len = file.metadata().map_or(0, |data| data.len());
        let writer = DirectWriter::new(&file, len);
        let mut increment = Increment {
            file: Arc::new(file),
            writer,
            ahead: len,
            reserved: len,
            can_reserve: true,
            told_s: 0,
            at_boundary: true,
            crc: 0,
            unchecked: 0,
            place: None,
        };
        if len > 0 {
            // Earlier bytes have checksums of their own; the last of them may have none.
            increment.annotate(&Check::Begin.line());
            increment.crc = 0;
            increment.unchecked = 0;
        }
        increment
    }

    /// Length of the file, in bytes.
    pub(super) fn written_len(&self) -> u64 {
        self.len() - self.pending() as u64
    }

    /// Length of the file in bytes, including buffered ones.
    fn len(&self) -> u64 {
        self.writer.end()
    }

    /// Bytes that are not written yet.
    pub(super) fn pending(&self) -> usize {
        self.writer.pending()
    }

    /// Writes the pending bytes.
    pub(super) fn flush(&mut self, direct: bool) -> io::Result<()> {
        self.writer.flush(&self.file, direct, self.ahead)
    }

    /// Buffers an annotation between two units, if it fits.
    fn annotate(&mut self, line: &str) -> bool {
        let fits = line.len() <= self.writer.room();
        if fits {
            self.push(line.as_bytes());
        }
        fits
    }

    /// Buffers the place of everything before it, if a unit has just ended.
    pub(super) fn note_place(&mut self, place: HistoryPosition) {
        if self.at_boundary
            && self.place != Some(place)
            && self.annotate(&place.line(self.place.as_ref(), self.len()))
        {
            self.place = Some(place);
        }
    }

    fn push(&mut self, bytes: &[u8]) -> usize {
        let taken = self.writer.push(bytes);
        self.crc = crc64(self.crc, &bytes[..taken]);
        self.unchecked += taken as u64;
        taken
    }

    /// Reserves disk space for `least` bytes beyond the buffered ones, plus a margin. False if
    /// the file system does not support reservation.
    ///
    /// # Errors
    /// The disk, a quota or a limit on the size of files leaves no room for `least` bytes.
    pub(super) fn reserve(&mut self, least: u64) -> io::Result<bool> {
        let needed = self.len() + least;
        // A reservation does not check this limit, because it does not make the file longer.
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
                // Other errors recur when the file is written.
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

    /// Cuts off the zeros written ahead and releases reserved space.
    pub(super) fn cut(&mut self) {
        let len = self.written_len();
        if self.ahead <= len && self.reserved > len {
            if let Err(error) = self.file.set_len(len) {
                log::warn!("Cannot release the preallocated space of the AOF file: {error}");
            }
            self.reserved = len;
        }
        self.cut_zeros();
    }

    /// Cuts off the zeros written ahead. Nothing may be pending.
    fn cut_zeros(&mut self) {
        let len = self.written_len();
        if self.ahead > len {
            if let Err(error) = self.file.set_len(len).and_then(|()| self.file.sync_data()) {
                log::warn!("Cannot truncate the zeros at the end of the AOF file: {error}");
            }
            // This also releases the reserved space.
            self.reserved = len;
        }
        self.ahead = len;
    }

    /// Writes zeros ahead for the next `len` bytes, if needed. A failure is harmless.
    fn write_ahead(&mut self, len: u64) {
        let needed = (self.len() + len + LINES_MAX).next_multiple_of(BLOCK as u64);
        if needed > self.ahead {
            let from = self.ahead.max(self.written_len());
            let zeros = vec![0; AHEAD as usize + BLOCK];
            let start = zeros.as_ptr().align_offset(BLOCK).min(BLOCK);
            // The first write ends at a block boundary.
            let count = AHEAD - from % BLOCK as u64;
            self.writer.set_direct(&self.file, count == AHEAD);
            if self.file.write_all_at(&zeros[start..start + count as usize], from).is_ok() {
                self.ahead = from + count;
            }
        }
    }

    /// Buffers the journal's bytes up to `end` and writes those that do not fit.
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
