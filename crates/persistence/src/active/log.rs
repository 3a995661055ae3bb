// SPDX-License-Identifier: BSD-3-Clause
//! Logs: a sequence of records, each preceded by its length (4 bytes) and its checksum (8 bytes).
//! A crash may tear the last one.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

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

/// Appends a record with its header to `out`.
pub(super) fn push(record: &[u8], out: &mut Vec<u8>) {
    out.extend((record.len() as u32).to_le_bytes());
    out.extend(crc64(0, record).to_le_bytes());
    out.extend_from_slice(record);
}

/// The bytes are not a valid record.
#[derive(Debug)]
pub(super) struct Damaged;

/// The record at the start of `bytes`; `None` if it is incomplete.
pub(super) fn record_at(bytes: &[u8]) -> Result<Option<&[u8]>, Damaged> {
    let Some((len, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let len = u32::from_le_bytes(*len);
    if len > RECORD_MAX {
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
    use std::io::Write;

    fn append(folder: &Path, number: u64, records: &[&[u8]]) {
        let mut bytes = Vec::new();
        records.iter().for_each(|record| push(record, &mut bytes));
        let mut file = files::append_to(&path(folder, number)).expect("a log");
        file.write_all(&bytes).expect("written");
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
        append(folder, 3, &[b"one", b"", &long]);
        let mut reader = LogReader::open(folder, 3, 0).expect("there");
        assert_eq!(rest(&mut reader), [b"one".to_vec(), Vec::new(), long.clone()]);
        let place = reader.place();
        assert_eq!(place, (3, (3 * HEAD + 3 + long.len()) as u64));
        // More records arrive, and then another log.
        append(folder, 3, &[b"two"]);
        append(folder, 4, &[b"three"]);
        assert_eq!(rest(&mut reader), [b"two", &b"three"[..]]);
        assert_eq!(reader.place(), (4, (HEAD + 5) as u64));
        let mut reader = LogReader::open(folder, place.0, place.1).expect("there");
        assert_eq!(rest(&mut reader), [b"two", &b"three"[..]]);
        // An incomplete record.
        let mut half = Vec::new();
        push(b"half", &mut half);
        let mut file = files::append_to(&path(folder, 4)).expect("a log");
        file.write_all(&half[..HEAD + 1]).expect("written");
        assert!(rest(&mut reader).is_empty());
        file.write_all(&half[HEAD + 1..]).expect("written");
        assert_eq!(rest(&mut reader), [b"half"]);
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
        // A flipped bit, and an impossible length.
        for bytes in [&[1, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 1][..], &[0xFF; 13]] {
            std::fs::write(path(folder, 1), bytes).expect("written");
            let mut reader = LogReader::open(folder, 1, 0).expect("there");
            assert!(reader.next_record().is_err());
        }
    }
}
