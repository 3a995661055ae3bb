// SPDX-License-Identifier: BSD-3-Clause
//! Reads one file of commands, from its start or after a dump at its start.
//!
//! ```text
//! file:        [dump] records
//! record:      "*" number of arguments CR LF, for each argument "$" length CR LF, its bytes, CR LF
//! annotation:  "#" text CR LF      between records; "#TS:" and seconds since the Unix epoch: the
//!                                  time of what follows
//! ```
//! Braid's own annotations (`check.rs`) are checksums of the bytes before them; other servers skip
//! them. A file that was being written at a power failure ends within a record:
//! [`ReadError::Truncated`]. [`CommandReader::usable`] is the length of the usable part before it,
//! without an unfinished transaction. Other invalid bytes mean that the file is damaged:
//! [`ReadError::Format`]. Every proper prefix of a valid file is truncated or valid, never damaged.
//!
//! The file's content is not trusted: the buffer grows with the bytes that really arrive, to at
//! most twice the size of the largest record.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;

use braid_base::crc::crc64;

use super::check::Check;
use super::manifest::{FileInfo, Manifest};

/// Why there is no next record.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("unexpected end of file")]
    Truncated,
    /// Expected content at this byte.
    #[error("expected {expected} at byte {position}")]
    Format { position: u64, expected: &'static str },
    /// The checksum at this byte is not that of what stands before it.
    #[error("wrong checksum at byte {position}")]
    Checksum { position: u64 },
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AofRecord {
    /// A command; [`CommandReader::args`] has its arguments until the next call.
    Command,
    /// The time of what follows, in seconds since the Unix epoch.
    Timestamp(i64),
    /// A checksum: what stands before it is as it was written.
    Checked,
    /// Another annotation.
    Annotation,
}

/// The buffer's first size.
const BUFFER: usize = 256 * 1024;
/// A buffer that was grown beyond for one record is given back.
const BUFFER_KEPT: usize = 4 * 1024 * 1024;
/// Longest annotation, with its line end.
const ANNOTATION_MAX: usize = 1024;
/// Longest line of a count or a length, with its line end.
const NUMBER_LINE_MAX: usize = 32;
/// Most arguments of a command.
const ARGUMENTS_MAX: u64 = i32::MAX as u64;

/// Where a file's data end: `appendfsync always` leaves zeros behind them when the process is
/// killed, and no record ends with a zero. Leaves the file at its begin.
pub fn data_len(file: &mut File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut block = vec![0; 64 * 1024];
    while end > 0 {
        let len = end.min(block.len() as u64);
        let block = &mut block[..len as usize];
        file.seek(SeekFrom::Start(end - len))?;
        file.read_exact(block)?;
        end -= len;
        if let Some(last) = block.iter().rposition(|&byte| byte != 0) {
            end += last as u64 + 1;
            break;
        }
    }
    file.rewind()?;
    Ok(end)
}

/// Whether nothing was appended behind the file at this place of [`Manifest::data`]: there is none,
/// or those behind it, whose paths `path` tells, are empty. A manifest names the next increment
/// before the present one is complete on disk; until it is, nothing is written to the next one. So
/// a server that is killed then leaves a file that ends within a command although it is not the
/// last one.
pub fn ends_data(manifest: &Manifest, at: usize, path: impl Fn(&FileInfo) -> PathBuf) -> bool {
    let mut behind = manifest.data().skip(at + 1);
    behind.all(|(_, info)| {
        File::open(path(info)).and_then(|mut file| data_len(&mut file)).is_ok_and(|len| len == 0)
    })
}

/// Reads commands.
pub struct CommandReader<R> {
    input: R,
    /// Bytes of the file, of which `start..end` are still to be read.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Position in the file of the buffer's first byte.
    base: u64,
    /// Length of the file, if known.
    len: Option<u64>,
    /// Where the arguments of the commands in `ahead` are in the buffer.
    args: Vec<Range<usize>>,
    /// Records that have been found, from the one that was read last on.
    ahead: Vec<Found>,
    /// How many of them have been read.
    taken: usize,
    /// Position behind the last whole command.
    whole: u64,
    /// Position before the MULTI of an open transaction.
    multi: Option<u64>,
    /// Checksum of what was found since the last annotation with one, or since the begin.
    crc: u64,
}

/// A record in the buffer.
struct Found {
    record: AofRecord,
    /// Where it ends in the buffer.
    end: usize,
    /// Its arguments.
    args: Range<usize>,
}

/// So many records are found at once, so that what they need can be fetched into the cache at once.
const AHEAD: usize = 16;

/// Result of parsing the buffer.
enum Look {
    /// A record that ends here.
    Whole(AofRecord, usize),
    /// A record may begin here, but more bytes are needed: so many in all, at least.
    More(u64),
    /// None begins here; where in the buffer, and what was expected.
    Bad(usize, &'static str),
}

impl<R: Read> CommandReader<R> {
    /// A reader of a file of `len` bytes, if that is known.
    pub fn new(input: R, len: Option<u64>) -> CommandReader<R> {
        CommandReader::resume(input, len, 0, Vec::new())
    }

    /// A reader that goes on at byte `position` of the file; `read` is what has been read of it
    /// from there on.
    pub fn resume(input: R, len: Option<u64>, position: u64, read: Vec<u8>) -> CommandReader<R> {
        CommandReader {
            input,
            start: 0,
            end: read.len(),
            buffer: read,
            base: position,
            len,
            args: Vec::new(),
            ahead: Vec::new(),
            taken: 0,
            whole: position,
            multi: None,
            crc: 0,
        }
    }

    /// The next record; nothing at the end of the file.
    #[inline]
    pub fn read(&mut self) -> Result<Option<AofRecord>, ReadError> {
        if self.taken == self.ahead.len() && !self.find_more()? {
            return Ok(None);
        }
        let found = &self.ahead[self.taken];
        self.taken += 1;
        self.start = found.end;
        let record = found.record;
        if record == AofRecord::Command {
            self.note_command();
        }
        Ok(Some(record))
    }

    /// Finds records in the buffer, at least one. False at the end of the file.
    fn find_more(&mut self) -> Result<bool, ReadError> {
        self.taken = 0;
        loop {
            self.ahead.clear();
            self.args.clear();
            if self.start == self.end && !self.fill(1)? {
                return Ok(false);
            }
            let mut at = self.start;
            let found = loop {
                let args = self.args.len();
                match self.look(at) {
                    Look::Whole(record, end) => {
                        let record = self.sum_up(record, at..end)?;
                        self.ahead.push(Found { record, end, args: args..self.args.len() });
                        at = end;
                        if at == self.end || self.ahead.len() == AHEAD {
                            return Ok(true);
                        }
                    }
                    other => break other,
                }
            };
            if !self.ahead.is_empty() {
                // The bytes behind it are parsed later.
                return Ok(true);
            }
            match found {
                Look::More(needed) => {
                    let left = self.len.map(|len| len.saturating_sub(self.position()));
                    if left.is_some_and(|left| left < needed) || !self.fill(needed)? {
                        return Err(ReadError::Truncated);
                    }
                }
                Look::Bad(at, expected) => {
                    return Err(ReadError::Format { position: self.base + at as u64, expected });
                }
                Look::Whole(..) => {}
            }
        }
    }

    /// Adds a record's bytes to the checksum, or compares it.
    #[inline]
    fn sum_up(&mut self, record: AofRecord, place: Range<usize>) -> Result<AofRecord, ReadError> {
        let bytes = &self.buffer[place.clone()];
        let check = if record == AofRecord::Annotation { Check::parse(bytes) } else { None };
        match check {
            None => self.crc = crc64(self.crc, bytes),
            Some(Check::Sum(sum)) if sum != self.crc => {
                return Err(ReadError::Checksum { position: self.base + place.start as u64 });
            }
            Some(Check::Begin) => self.crc = 0,
            Some(Check::Sum(_)) => {
                self.crc = 0;
                return Ok(AofRecord::Checked);
            }
        }
        Ok(record)
    }

    /// The arguments of the last command.
    #[inline]
    pub fn args(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let args = self.taken.checked_sub(1).map_or(0..0, |last| self.ahead[last].args.clone());
        self.args[args].iter().map(|range| &self.buffer[range.clone()])
    }

    /// The arguments of the commands that will be read next, if they have just been found: of the
    /// last one, and of some behind it. Nothing where this has been told already.
    #[inline]
    pub fn just_found(&self) -> impl Iterator<Item = impl Iterator<Item = &[u8]>> {
        let found = if self.taken == 1 { &self.ahead[..] } else { &[] };
        found
            .iter()
            .map(|found| self.args[found.args.clone()].iter().map(|range| &self.buffer[range.clone()]))
    }

    /// Bytes read.
    #[inline]
    pub fn position(&self) -> u64 {
        self.base + self.start as u64
    }

    /// Position behind the last whole command.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// Position behind the last command that can be used: a transaction whose EXEC has not come is not.
    pub fn usable(&self) -> u64 {
        self.multi.unwrap_or(self.whole)
    }

    /// True between MULTI and EXEC.
    pub fn in_transaction(&self) -> bool {
        self.multi.is_some()
    }

    fn note_command(&mut self) {
        let name = &self.buffer[self.args[self.ahead[self.taken - 1].args.start].clone()];
        match name.len() {
            5 if name.eq_ignore_ascii_case(b"multi") => self.multi = Some(self.multi.unwrap_or(self.whole)),
            4 if name.eq_ignore_ascii_case(b"exec") => self.multi = None,
            7 if name.eq_ignore_ascii_case(b"discard") => self.multi = None,
            _ => {}
        }
        self.whole = self.position();
    }

    /// Looks at the record that begins at `start`, as far as it is there, and notes its arguments.
    #[inline]
    fn look(&mut self, start: usize) -> Look {
        let buffer = &self.buffer[..self.end];
        match buffer[start] {
            b'*' => {}
            b'#' => return look_at_annotation(&buffer[start..], start),
            _ => return Look::Bad(start, "'*' or '#'"),
        }
        let missing = |more: usize| Look::More((buffer.len() - start + more) as u64);
        let (count, mut at) = match number_line(buffer, start + 1) {
            Ok(Some((count, at))) if (1..=ARGUMENTS_MAX).contains(&count) => (count, at),
            Ok(None) => return missing(1),
            Ok(Some(_)) | Err(_) => return Look::Bad(start + 1, "a number of arguments"),
        };
        for _ in 0..count {
            match buffer.get(at) {
                Some(b'$') => {}
                Some(_) => return Look::Bad(at, "'$'"),
                None => return missing(1),
            }
            let (len, from) = match number_line(buffer, at + 1) {
                Ok(Some(found)) => found,
                Ok(None) => return missing(1),
                Err(()) => return Look::Bad(at + 1, "the length of an argument"),
            };
            // As good as endless; no sum of it with what comes overflows.
            if len > u64::from(u32::MAX) << 16 {
                return Look::Bad(at + 1, "the length of an argument");
            }
            let to = from as u64 + len;
            if to + 2 > buffer.len() as u64 {
                // A partial line end must be a valid prefix.
                let there = buffer.get(to as usize).copied().filter(|_| to < buffer.len() as u64);
                if there.is_some_and(|byte| byte != b'\r') {
                    return Look::Bad(to as usize, "a line end");
                }
                return Look::More(to + 2 - start as u64);
            }
            // Not beyond the buffer, as was just seen.
            let to = to as usize;
            if buffer[to..to + 2] != *b"\r\n" {
                return Look::Bad(to, "a line end");
            }
            self.args.push(from..to);
            at = to + 2;
        }
        Look::Whole(AofRecord::Command, at)
    }

    /// Reads until there are `needed` bytes, or a full buffer of them. False if the file ends with
    /// what was there.
    #[cold]
    fn fill(&mut self, needed: u64) -> Result<bool, ReadError> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.base += self.start as u64;
        (self.start, self.end) = (0, self.end - self.start);
        if self.buffer.len() > BUFFER_KEPT && self.end <= BUFFER && needed <= BUFFER as u64 {
            self.buffer.truncate(BUFFER);
            self.buffer.shrink_to_fit();
        }
        let before = self.end;
        while (self.end as u64) < needed {
            if self.end == self.buffer.len() {
                // The file has at least as many bytes as are there: that far its numbers may be believed.
                let size = (self.end * 2).max(BUFFER);
                self.buffer.resize(size, 0);
            }
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(self.end > before)
    }
}

/// Looks at an annotation at the begin of `text`, which is at `start` of the buffer.
#[cold]
fn look_at_annotation(text: &[u8], start: usize) -> Look {
    let Some(end) = text.iter().take(ANNOTATION_MAX).position(|&byte| byte == b'\n') else {
        if text.len() >= ANNOTATION_MAX {
            return Look::Bad(start, "an annotation of at most 1024 bytes");
        }
        return Look::More(text.len() as u64 + 1);
    };
    let line = text[1..end].strip_suffix(b"\r").unwrap_or(&text[1..end]);
    let time = line.strip_prefix(b"TS:").and_then(|time| std::str::from_utf8(time).ok()?.parse().ok());
    Look::Whole(time.map_or(AofRecord::Annotation, AofRecord::Timestamp), start + end + 1)
}

/// A line with a number that begins at `at`: the number, and where what follows begins. Nothing if
/// the line has no end yet.
#[inline]
fn number_line(buffer: &[u8], at: usize) -> Result<Option<(u64, usize)>, ()> {
    let line = &buffer[at..buffer.len().min(at + NUMBER_LINE_MAX)];
    let mut number = 0u64;
    for (index, &byte) in line.iter().enumerate() {
        match byte {
            b'0'..=b'9' => {
                let sum = number.checked_mul(10).and_then(|sum| sum.checked_add(u64::from(byte - b'0')));
                number = sum.ok_or(())?;
            }
            b'\r' if index > 0 => {
                return match line.get(index + 1) {
                    Some(b'\n') => Ok(Some((number, at + index + 2))),
                    Some(_) => Err(()),
                    None if line.len() < NUMBER_LINE_MAX => Ok(None),
                    None => Err(()),
                };
            }
            // Files that people write.
            b'\n' if index > 0 => return Ok(Some((number, at + index + 1))),
            _ => return Err(()),
        }
    }
    if line.len() < NUMBER_LINE_MAX { Ok(None) } else { Err(()) }
}

#[cfg(test)]
mod tests;
