// SPDX-License-Identifier: BSD-3-Clause
//! Reads one file of commands, from its start or after a dump at its start.
//!
//! ```text
//! file:        [dump] records
//! record:      "*" number of arguments CR LF, for each argument "$" length CR LF, its bytes, CR LF
//! annotation:  "#" text CR LF      between records; "#TS:" and seconds since the Unix epoch: the
//!                                  time of the following records
//! ```
//! Braid's own annotations are checksums of the bytes before them (`check.rs`) and places in the
//! replication history (`history_position.rs`); other servers skip them. A file that was being
//! written at a power failure ends within a record: [`ReadError::Truncated`].
//! [`CommandReader::usable`] is the length of the usable part before it, without an unfinished
//! transaction. Other invalid bytes mean that the file is damaged ([`ReadError::Format`]) or has a
//! hole ([`super::hole_before`]). Every proper prefix of a valid file is truncated or valid, never
//! damaged.
//!
//! The file's content is not trusted: the buffer grows only with bytes that arrive, to at most
//! twice the size of the largest record.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;

use braid_base::crc::crc64;

use super::check::Check;
use super::history_position::HistoryPosition;
use super::manifest::{FileInfo, Manifest};

/// Why there is no next record.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("unexpected end of file")]
    Truncated,
    /// The content at this byte is not the expected one.
    #[error("expected {expected} at byte {position}")]
    Format { position: u64, expected: &'static str },
    /// The checksum at this byte does not match the bytes before it.
    #[error("wrong checksum at byte {position}")]
    Checksum { position: u64 },
    #[error("{}", braid_base::system_text::reason(.0))]
    Io(#[from] io::Error),
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AofRecord {
    /// A command; [`CommandReader::args`] has its arguments until the next call.
    Command,
    /// The time of the following commands, in Unix seconds.
    Timestamp(i64),
    /// A checksum that matches the bytes before it.
    Checked,
    /// Another annotation.
    Annotation,
}

/// The buffer's first size.
const BUFFER: usize = 256 * 1024;
/// A larger buffer, grown for one record, is freed afterwards.
const BUFFER_KEPT: usize = 4 * 1024 * 1024;
/// Longest annotation, with its line end.
const ANNOTATION_MAX: usize = 1024;
/// Longest line of a count or a length, with its line end.
const NUMBER_LINE_MAX: usize = 32;
/// Maximum number of arguments of a command.
const ARGUMENTS_MAX: u64 = i32::MAX as u64;

/// The end of a file's data: with `appendfsync always` a killed process leaves zeros after it, and
/// no record ends with a zero. Rewinds the file.
///
/// # Errors
/// If the file cannot be read.
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

/// True if no data follows the file at index `at` of [`Manifest::data`]: there are no later files,
/// or they (at the paths that `path` returns) are empty. A manifest names the next increment before
/// the current one is complete on disk; until then the next one stays empty. Therefore a killed
/// server may leave a file that ends within a command although it is not the last one.
pub fn ends_data(manifest: &Manifest, at: usize, path: impl Fn(&FileInfo) -> PathBuf) -> bool {
    let mut behind = manifest.data().skip(at + 1);
    behind.all(|(_, info)| {
        File::open(path(info)).and_then(|mut file| data_len(&mut file)).is_ok_and(|len| len == 0)
    })
}

/// Reads commands.
pub struct CommandReader<R> {
    input: R,
    /// Bytes of the file, of which `start..end` are unread.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Position in the file of the buffer's first byte.
    base: u64,
    /// Length of the file, if known.
    len: Option<u64>,
    /// Locations in the buffer of the arguments of the commands in `ahead`.
    args: Vec<Range<usize>>,
    /// Parsed records, starting with the last one returned.
    ahead: Vec<Found>,
    /// Number of them that have been returned.
    taken: usize,
    /// Position after the last complete command.
    whole: u64,
    /// Position before the MULTI of an open transaction.
    multi: Option<u64>,
    /// Checksum since the last checksum annotation, or since the start of the file.
    crc: u64,
    /// Position after the last matching checksum.
    checked: u64,
    /// The last place in the file, and whether it is that of all data so far.
    place: Option<HistoryPosition>,
    is_at_place: bool,
}

/// A record in the buffer.
struct Found {
    record: AofRecord,
    /// Its end in the buffer.
    end: usize,
    /// Its arguments.
    args: Range<usize>,
}

/// Records parsed at once, so that the keys that they need can be prefetched together.
const AHEAD: usize = 16;

/// Result of parsing the buffer.
enum Scanned {
    /// A record that ends here.
    Whole(AofRecord, usize),
    /// An incomplete record; at least this many bytes are needed in all.
    More(u64),
    /// Invalid; the position in the buffer, and the expected content.
    Bad(usize, &'static str),
}

impl<R: Read> CommandReader<R> {
    /// A reader of a file of `len` bytes, if the length is known.
    pub fn new(input: R, len: Option<u64>) -> CommandReader<R> {
        CommandReader::resume(input, len, 0, Vec::new())
    }

    /// A reader that continues at byte `position` of the file; `read` holds bytes from there on
    /// that are already read.
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
            checked: position,
            place: None,
            is_at_place: false,
        }
    }

    /// The next record; `None` at the end of the file.
    ///
    /// # Errors
    /// If the file ends within a record, cannot be read, or has something other than a record at
    /// this place.
    #[inline]
    pub fn read(&mut self) -> Result<Option<AofRecord>, ReadError> {
        if self.taken == self.ahead.len() && !self.find_more()? {
            return Ok(None);
        }
        let found = &self.ahead[self.taken];
        self.taken += 1;
        let begin = std::mem::replace(&mut self.start, found.end);
        let record = found.record;
        match record {
            AofRecord::Command => self.note_command(),
            AofRecord::Annotation => self.note_annotation(begin),
            AofRecord::Timestamp(_) | AofRecord::Checked => {}
        }
        Ok(Some(record))
    }

    /// Parses at least one record in the buffer. False at the end of the file.
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
                match self.scan(at) {
                    Scanned::Whole(record, end) => {
                        let record = match self.sum_up(record, at..end) {
                            // The commands before it are returned first: the caller tells by them
                            // how much of the file it has executed.
                            Err(_) if !self.ahead.is_empty() => return Ok(true),
                            record => record?,
                        };
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
                // The rest of the buffer is parsed later.
                return Ok(true);
            }
            match found {
                Scanned::More(needed) => {
                    let left = self.len.map(|len| len.saturating_sub(self.position()));
                    if left.is_some_and(|left| left < needed) || !self.fill(needed)? {
                        return Err(ReadError::Truncated);
                    }
                }
                Scanned::Bad(at, expected) => {
                    return Err(ReadError::Format { position: self.base + at as u64, expected });
                }
                Scanned::Whole(..) => {}
            }
        }
    }

    /// Adds a record's bytes to the checksum, or compares the checksum.
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
                self.checked = self.base + place.end as u64;
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

    /// The arguments of the commands just parsed: the last one returned, and some after it. Empty
    /// if they have been returned before.
    #[inline]
    pub fn just_found(&self) -> impl Iterator<Item = impl Iterator<Item = &[u8]>> {
        let found = if self.taken == 1 { &self.ahead[..] } else { &[] };
        found
            .iter()
            .map(|found| self.args[found.args.clone()].iter().map(|range| &self.buffer[range.clone()]))
    }

    /// Number of bytes read.
    #[inline]
    pub fn position(&self) -> u64 {
        self.base + self.start as u64
    }

    /// Position after the last complete command.
    pub fn whole(&self) -> u64 {
        self.whole
    }

    /// Position after the last usable command: a transaction without its EXEC is not usable.
    pub fn usable(&self) -> u64 {
        self.multi.unwrap_or(self.whole)
    }

    /// Position after the last matching checksum, or where reading began.
    pub fn checked(&self) -> u64 {
        self.checked
    }

    /// True between MULTI and EXEC.
    pub fn in_transaction(&self) -> bool {
        self.multi.is_some()
    }

    /// The place in the replication history of all data read so far, if the file says so.
    pub fn place(&self) -> Option<HistoryPosition> {
        self.place.filter(|_| self.is_at_place && self.multi.is_none())
    }

    #[cold]
    fn note_annotation(&mut self, begin: usize) {
        let line = &self.buffer[begin..self.start];
        if let Some(place) = HistoryPosition::parse(line, self.place.as_ref(), self.base + begin as u64) {
            (self.place, self.is_at_place) = (Some(place), true);
        }
    }

    fn note_command(&mut self) {
        self.is_at_place = false;
        let name = &self.buffer[self.args[self.ahead[self.taken - 1].args.start].clone()];
        match name.len() {
            5 if name.eq_ignore_ascii_case(b"multi") => self.multi = Some(self.multi.unwrap_or(self.whole)),
            4 if name.eq_ignore_ascii_case(b"exec") => self.multi = None,
            7 if name.eq_ignore_ascii_case(b"discard") => self.multi = None,
            _ => {}
        }
        self.whole = self.position();
    }

    /// Parses the record that begins at `start`, as far as it is in the buffer, and records its
    /// arguments.
    #[inline]
    fn scan(&mut self, start: usize) -> Scanned {
        let buffer = &self.buffer[..self.end];
        match buffer[start] {
            b'*' => {}
            b'#' => return scan_annotation(&buffer[start..], start),
            _ => return Scanned::Bad(start, "'*' or '#'"),
        }
        let missing = |more: usize| Scanned::More((buffer.len() - start + more) as u64);
        let (count, mut at) = match number_line(buffer, start + 1) {
            Ok(Some((count, at))) if (1..=ARGUMENTS_MAX).contains(&count) => (count, at),
            Ok(None) => return missing(1),
            Ok(Some(_)) | Err(_) => return Scanned::Bad(start + 1, "a number of arguments"),
        };
        for _ in 0..count {
            match buffer.get(at) {
                Some(b'$') => {}
                Some(_) => return Scanned::Bad(at, "'$'"),
                None => return missing(1),
            }
            let (len, from) = match number_line(buffer, at + 1) {
                Ok(Some(found)) => found,
                Ok(None) => return missing(1),
                Err(()) => return Scanned::Bad(at + 1, "the length of an argument"),
            };
            // An effectively unlimited bound; below it no addition overflows.
            if len > u64::from(u32::MAX) << 16 {
                return Scanned::Bad(at + 1, "the length of an argument");
            }
            let to = from as u64 + len;
            if to + 2 > buffer.len() as u64 {
                // A partial line end must be a valid prefix.
                let there = buffer.get(to as usize).copied().filter(|_| to < buffer.len() as u64);
                if there.is_some_and(|byte| byte != b'\r') {
                    return Scanned::Bad(to as usize, "a line end");
                }
                return Scanned::More(to + 2 - start as u64);
            }
            // Within the buffer, as checked above.
            let to = to as usize;
            if buffer[to..to + 2] != *b"\r\n" {
                return Scanned::Bad(to, "a line end");
            }
            self.args.push(from..to);
            at = to + 2;
        }
        Scanned::Whole(AofRecord::Command, at)
    }

    /// Reads until the buffer has `needed` bytes, or is full. False if the file ends without more
    /// bytes.
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
                // A file is at least as long as the bytes received: sizes are trusted only up to
                // that.
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

/// Parses an annotation at the start of `text`, which is at `start` of the buffer.
#[cold]
fn scan_annotation(text: &[u8], start: usize) -> Scanned {
    let Some(end) = text.iter().take(ANNOTATION_MAX).position(|&byte| byte == b'\n') else {
        if text.len() >= ANNOTATION_MAX {
            return Scanned::Bad(start, "an annotation of at most 1024 bytes");
        }
        return Scanned::More(text.len() as u64 + 1);
    };
    let line = text[1..end].strip_suffix(b"\r").unwrap_or(&text[1..end]);
    let time = line.strip_prefix(b"TS:").and_then(|time| std::str::from_utf8(time).ok()?.parse().ok());
    Scanned::Whole(time.map_or(AofRecord::Annotation, AofRecord::Timestamp), start + end + 1)
}

/// Parses a line with a number at `at`: the number, and the position after the line. `None` if the
/// line's end has not arrived yet.
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
            // Hand-written files may have bare line feeds.
            b'\n' if index > 0 => return Ok(Some((number, at + index + 1))),
            _ => return Err(()),
        }
    }
    if line.len() < NUMBER_LINE_MAX { Ok(None) } else { Err(()) }
}

#[cfg(test)]
mod tests;
