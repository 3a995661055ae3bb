// SPDX-License-Identifier: BSD-3-Clause
//! Logs: a sequence of records, each preceded by its length (4 bytes, not 0) and its checksum
//! (8 bytes). A crash may tear the last one, or leave zeros in its place.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use braid_base::crc::crc64;

use crate::files::{self, File};

/// Bytes of the header before a record.
pub(super) const HEAD: usize = 12;
/// Longer records are treated as damage.
const RECORD_MAX: u32 = 1 << 30;
/// Bytes per read.
const CHUNK: usize = 256 << 10;

/// The path of a log.
pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("active-{number}.log"))
}

/// Records to be appended to a log.
#[derive(Default)]
pub struct Records {
    /// With their headers. The checksums are still missing.
    bytes: Vec<u8>,
}

impl Records {
    /// Adds a record: the bytes that `write` appends. If `write` returns `None`, nothing is added.
    pub fn push<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Option<R>) -> Option<R> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; HEAD]);
        let result = write(&mut self.bytes);
        match result {
            Some(_) => {
                let len = (self.bytes.len() - start - HEAD) as u32;
                self.bytes[start..start + 4].copy_from_slice(&len.to_le_bytes());
            }
            None => self.bytes.truncate(start),
        }
        result
    }

    /// Adds a record.
    pub fn add(&mut self, record: &[u8]) {
        self.push(|bytes| {
            bytes.extend_from_slice(record);
            Some(())
        });
    }

    /// Their size in the log, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The records, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let (len, behind) = rest.split_at_checked(HEAD)?;
            let (record, next) = behind.split_at_checked(len_of(len))?;
            rest = next;
            Some(record)
        })
    }

    /// Removes all records, and keeps at most `kept` bytes of capacity.
    pub fn clear(&mut self, kept: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(kept);
    }

    /// Fills in the checksums.
    fn seal(&mut self) {
        let mut rest = &mut self.bytes[..];
        while let Some((head, behind)) = rest.split_at_mut_checked(HEAD)
            && let Some((record, next)) = behind.split_at_mut_checked(len_of(head))
        {
            head[4..].copy_from_slice(&crc64(0, record).to_le_bytes());
            rest = next;
        }
    }
}

/// The length of the record after a header.
fn len_of(head: &[u8]) -> usize {
    head.first_chunk().map_or(0, |len| u32::from_le_bytes(*len) as usize)
}

/// A log that is being written. Only one thread at a time appends.
pub struct Log {
    file: File,
    /// The end of the last record, in bytes.
    len: AtomicU64,
    /// A sync has failed.
    is_doubtful: AtomicBool,
}

impl Log {
    pub(super) fn new(file: File, len: u64) -> Log {
        Log { file, len: AtomicU64::new(len), is_doubtful: AtomicBool::new(false) }
    }

    /// Appends records, which survive the end of this process from then on. Returns the log's new
    /// length in bytes.
    ///
    /// # Errors
    /// Not all of them could be written; then none is in the log.
    pub fn append(&self, records: &mut Records) -> io::Result<u64> {
        records.seal();
        let len = self.bytes();
        if let Err(error) = self.file.write_all_at(&records.bytes, len) {
            // No record may follow an incomplete one.
            self.file.set_len(len)?;
            return Err(error);
        }
        let len = len + records.bytes.len() as u64;
        self.len.store(len, Relaxed);
        Ok(len)
    }

    /// Forces the log to disk.
    ///
    /// # Errors
    /// It may not be on disk, and no later call succeeds: Linux reports data that could not be
    /// written once, and drops it.
    pub fn sync(&self) -> io::Result<()> {
        if self.is_doubtful() {
            return Err(io::Error::other("an earlier attempt has failed"));
        }
        self.file.sync_data().inspect_err(|_| self.is_doubtful.store(true, Release))
    }

    /// True if a sync has failed: records may be missing on disk.
    pub(super) fn is_doubtful(&self) -> bool {
        self.is_doubtful.load(Acquire)
    }

    /// Its size.
    pub fn bytes(&self) -> u64 {
        self.len.load(Relaxed)
    }
}

/// The bytes are not a valid record.
#[derive(Debug)]
pub(super) struct Damaged;

/// The record at the start of `bytes`; `None` if it is incomplete.
pub(super) fn record_at(bytes: &[u8]) -> Result<Option<&[u8]>, Damaged> {
    let Some((len, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let len = u32::from_le_bytes(*len);
    // A power failure can leave zeros at the end of a file.
    if len == 0 || len > RECORD_MAX {
        return Err(Damaged);
    }
    let Some((sum, rest)) = rest.split_first_chunk::<8>() else { return Ok(None) };
    let Some(record) = rest.get(..len as usize) else { return Ok(None) };
    if crc64(0, record) == u64::from_le_bytes(*sum) { Ok(Some(record)) } else { Err(Damaged) }
}

/// Reads consecutive logs from a position on, even while the last one is being written.
pub struct LogReader {
    folder: PathBuf,
    file: File,
    number: u64,
    /// Bytes read, and their offset in the file.
    buffer: Vec<u8>,
    offset: u64,
    /// Number of those bytes already returned.
    used: usize,
}

impl LogReader {
    /// # Errors
    /// The log no longer exists.
    pub fn open(folder: &Path, number: u64, offset: u64) -> io::Result<LogReader> {
        let file = files::open(&path(folder, number))?;
        Ok(LogReader { folder: folder.to_owned(), file, number, buffer: Vec::new(), offset, used: 0 })
    }

    /// Log number, and offset after the last returned record.
    pub fn place(&self) -> (u64, u64) {
        (self.number, self.offset + self.used as u64)
    }

    /// The next record; `None` at the end of the data written so far.
    ///
    /// # Errors
    /// A file cannot be read, or is damaged.
    pub fn next_record(&mut self) -> io::Result<Option<&[u8]>> {
        let damaged =
            |number| io::Error::new(io::ErrorKind::InvalidData, format!("active-{number}.log is damaged"));
        let len = loop {
            match record_at(&self.buffer[self.used..]).map(|record| record.map(<[u8]>::len)) {
                Ok(Some(len)) => break len,
                Ok(None) if self.read_more()? => {}
                Ok(None) => {
                    let next = path(&self.folder, self.number + 1);
                    if !files::exists(&next) {
                        return Ok(None);
                    }
                    // This log may have grown before the next one began.
                    if self.read_more()? {
                        continue;
                    }
                    if self.used < self.buffer.len() {
                        return Err(damaged(self.number));
                    }
                    self.file = files::open(&next)?;
                    (self.number, self.offset, self.used) = (self.number + 1, 0, 0);
                    self.buffer.clear();
                }
                Err(Damaged) => return Err(damaged(self.number)),
            }
        };
        let start = self.used + HEAD;
        self.used = start + len;
        Ok(Some(&self.buffer[start..start + len]))
    }

    /// Reads more bytes; false at the end of the file.
    fn read_more(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.used);
        self.offset += self.used as u64;
        self.used = 0;
        let had = self.buffer.len();
        self.buffer.resize(had + CHUNK, 0);
        let outcome = self.file.read_at(&mut self.buffer[had..], self.offset + had as u64);
        self.buffer.truncate(had + outcome.as_ref().map_or(0, |read| *read));
        outcome.map(|read| read > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, Write};

    fn records(all: &[&[u8]]) -> Records {
        let mut records = Records::default();
        all.iter().for_each(|record| records.add(record));
        records
    }

    fn append(folder: &Path, number: u64, all: &[&[u8]]) {
        let file = files::open_to_write(&path(folder, number)).expect("a log");
        let len = file.metadata().expect("there").len();
        Log::new(file, len).append(&mut records(all)).expect("written");
    }

    fn rest(reader: &mut LogReader) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while let Some(record) = reader.next_record().expect("readable") {
            all.push(record.to_vec());
        }
        all
    }

    #[test]
    fn logs_are_read_while_they_are_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        assert!(LogReader::open(folder, 3, 0).is_err());
        let long = vec![7; 3 * CHUNK];
        append(folder, 3, &[b"one", b"1", &long]);
        let mut reader = LogReader::open(folder, 3, 0).expect("there");
        assert_eq!(rest(&mut reader), [b"one".to_vec(), b"1".to_vec(), long.clone()]);
        let place = reader.place();
        assert_eq!(place, (3, (3 * HEAD + 4 + long.len()) as u64));
        // More records arrive, and then another log.
        append(folder, 3, &[b"two"]);
        append(folder, 4, &[b"three"]);
        assert_eq!(rest(&mut reader), [b"two", &b"three"[..]]);
        assert_eq!(reader.place(), (4, (HEAD + 5) as u64));
        let mut reader = LogReader::open(folder, place.0, place.1).expect("there");
        assert_eq!(rest(&mut reader), [b"two", &b"three"[..]]);
        // An incomplete record.
        let mut half = records(&[b"half"]);
        half.seal();
        let half = half.bytes;
        let mut file = files::open_to_write(&path(folder, 4)).expect("a log");
        file.seek(io::SeekFrom::End(0)).expect("sought");
        file.write_all(&half[..HEAD + 1]).expect("written");
        assert!(rest(&mut reader).is_empty());
        file.write_all(&half[HEAD + 1..]).expect("written");
        assert_eq!(rest(&mut reader), [b"half"]);
    }

    #[test]
    fn records_are_listed_without_the_abandoned_ones() {
        let mut all = records(&[b"one", b"1"]);
        assert_eq!(
            all.push(|bytes| {
                bytes.extend_from_slice(b"abandoned");
                None::<()>
            }),
            None
        );
        all.add(&[7]);
        assert!(all.iter().eq([&b"one"[..], b"1", &[7]]));
        assert_eq!(all.bytes(), 3 * HEAD + 5);
        all.clear(0);
        assert!(all.bytes() == 0 && all.iter().next().is_none());
    }

    /// The disk was full in the middle of a record: the next attempt continues where the last
    /// complete record ends.
    #[test]
    fn a_failed_append_leaves_no_gap() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        let log = Log::new(files::create(&path(folder, 0)).expect("a log"), 0);
        log.append(&mut records(&[b"one"])).expect("written");
        // What an incomplete append leaves: the file's position is behind the end.
        (&log.file).seek(io::SeekFrom::Start(log.bytes() + 100)).expect("sought");
        log.file.set_len(log.bytes()).expect("truncated");
        log.append(&mut records(&[b"two"])).expect("written");
        let mut reader = LogReader::open(folder, 0, 0).expect("there");
        assert_eq!(rest(&mut reader), [b"one", b"two"]);
    }

    #[test]
    fn damage_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        append(folder, 0, &[b"one", b"two"]);
        let read = || {
            let mut reader = LogReader::open(folder, 0, 0)?;
            while reader.next_record()?.is_some() {}
            Ok::<_, io::Error>(())
        };
        read().expect("whole");
        // A torn record, although another log follows.
        files::cut_off(&path(folder, 0), 20).expect("cut");
        read().expect("a torn record in the last log is tolerated");
        append(folder, 1, &[]);
        assert!(read().is_err());
        // A flipped bit, an impossible length, and zeros.
        for bytes in [&[1, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 1][..], &[0xFF; 13], &[0; 4096]] {
            std::fs::write(path(folder, 1), bytes).expect("written");
            let mut reader = LogReader::open(folder, 1, 0).expect("there");
            assert!(reader.next_record().is_err());
        }
    }
}
