// SPDX-License-Identifier: BSD-3-Clause
//! Keys as the requests that create them: the base of an append-only file with
//! `aof-use-rdb-preamble no`, and the form of its old entries.
//!
//! ```text
//! [#TS:seconds] functions (FUNCTION LOAD code), and for each key, after a SELECT where the
//! database changes:
//!     SET | RPUSH | SADD | ZADD | HMSET | XADD ... XSETID XGROUP XCLAIM,
//!     [HPEXPIREAT | SPEXPIREAT | ZPEXPIREAT per member], [PEXPIREAT]
//! ```
//! Requests have at most 64 elements, like those of stock servers, and are written one at a time,
//! so that a huge collection takes no more memory than a small one. As in stock servers, streams
//! lose deleted pending entries and the last-seen time of consumers. Checksums are placed between
//! requests (`check.rs`).

use std::io::{self, Write};

use braid_base::crc::crc64;
use braid_keyspace::ValueRef;
use braid_keyspace::eviction::protection_request;
use braid_keyspace::object::RequestSink;
use braid_resp::request;

use super::check::Check;

/// Bytes gathered before a write.
const BUFFER: usize = 256 * 1024;

/// Writes a file of requests.
pub(crate) struct RequestWriter<W> {
    out: W,
    /// Complete requests and annotations.
    buffer: Vec<u8>,
    held: bool,
    /// Bytes written before those in the buffer.
    passed_on: u64,
    selected: Option<u32>,
}

impl<W: Write> RequestSink for RequestWriter<W> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    fn complete(&mut self) -> io::Result<()> {
        if self.buffer.len() >= BUFFER && !self.held { self.pass_on() } else { Ok(()) }
    }
}

impl<W: Write> RequestWriter<W> {
    /// Begins a file, with a timestamp annotation of `time_s` if given.
    pub(crate) fn new(out: W, time_s: Option<i64>) -> RequestWriter<W> {
        let buffer = time_s.map_or_else(Vec::new, |time_s| timestamp(time_s).into_bytes());
        RequestWriter { out, buffer, held: false, passed_on: 0, selected: None }
    }

    /// Writes a request as it is.
    pub(crate) fn request(&mut self, args: &[Vec<u8>]) -> io::Result<()> {
        let args: Vec<&[u8]> = args.iter().map(|arg| &arg[..]).collect();
        request::push(&mut self.buffer, &args);
        self.complete()
    }

    /// Writes a library of functions: its code.
    pub(crate) fn function(&mut self, code: &[u8]) -> io::Result<()> {
        request::push(&mut self.buffer, &[b"FUNCTION", b"LOAD", code]);
        self.complete()
    }

    /// Sets the database of the following keys.
    pub(crate) fn select(&mut self, db: u32) {
        if self.selected != Some(db) {
            self.selected = Some(db);
            request::push(&mut self.buffer, &[b"SELECT", itoa::Buffer::new().format(db).as_bytes()]);
        }
    }

    /// Writes a key with its value.
    pub(crate) fn key(&mut self, name: &[u8], value: ValueRef<'_>, expire_at: Option<i64>) -> io::Result<()> {
        push_key(self, name, value, expire_at)
    }

    /// Protects a key that has been written from eviction.
    pub(crate) fn protect(&mut self, name: &[u8]) -> io::Result<()> {
        push_protection(&mut self.buffer, name);
        self.complete()
    }

    /// Appends requests encoded by [`push_key`].
    pub(crate) fn encoded_keys(&mut self, requests: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(requests);
        self.complete()
    }

    /// Keeps everything in memory until [`RequestWriter::let_go`] is called.
    pub(crate) fn hold(&mut self) {
        self.held = true;
    }

    /// Ends the hold, and writes the buffer if it is large.
    pub(crate) fn let_go(&mut self) -> io::Result<()> {
        self.held = false;
        self.complete()
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.passed_on + self.buffer.len() as u64
    }

    /// Ends the file. Returns the sink and the file's size in bytes.
    pub(crate) fn finish(mut self) -> io::Result<(W, u64)> {
        if !self.buffer.is_empty() {
            self.pass_on()?;
        }
        self.out.flush()?;
        Ok((self.out, self.passed_on))
    }

    fn pass_on(&mut self) -> io::Result<()> {
        let sum = Check::Sum(crc64(0, &self.buffer)).line();
        self.buffer.extend_from_slice(sum.as_bytes());
        self.out.write_all(&self.buffer)?;
        self.passed_on += self.buffer.len() as u64;
        self.buffer.clear();
        // Frees the memory of a large value.
        self.buffer.shrink_to(4 * BUFFER);
        Ok(())
    }
}

/// A timestamp annotation.
pub(crate) fn timestamp(time_s: i64) -> String {
    format!("#TS:{time_s}\r\n")
}

/// Appends the requests that create a key in the current database.
///
/// # Errors
/// If the sink fails.
pub fn push_key(
    out: &mut dyn RequestSink,
    name: &[u8],
    value: ValueRef<'_>,
    expire_at: Option<i64>,
) -> io::Result<()> {
    match value {
        ValueRef::Bytes(text) => request::push(out.buffer(), &[b"SET", name, text]),
        ValueRef::Blob(text) => request::push(out.buffer(), &[b"SET", name, text]),
        ValueRef::Integer(number) => {
            request::push(out.buffer(), &[b"SET", name, itoa::Buffer::new().format(number).as_bytes()]);
        }
        ValueRef::Object(object) => object.collection().rewrite(name, out)?,
    }
    if let Some(time) = expire_at {
        request::push(out.buffer(), &[b"PEXPIREAT", name, itoa::Buffer::new().format(time).as_bytes()]);
    }
    out.complete()
}

/// Appends a request that protects a key from eviction.
pub(crate) fn push_protection(out: &mut Vec<u8>, name: &[u8]) {
    request::push(out, &protection_request(name));
}

#[cfg(test)]
mod tests {
    use braid_keyspace::object::Object;
    use braid_keyspace::testing::Texts;

    use super::*;
    use crate::aof::{AofRecord, CommandReader};

    /// The requests of a file as text, and the number of its bytes that checksums cover.
    fn requests(file: &[u8]) -> (Vec<String>, usize) {
        let mut reader = CommandReader::new(file, Some(file.len() as u64));
        let (mut requests, mut sums) = (Vec::new(), 0);
        while let Some(record) = reader.read().expect("a proper file") {
            match record {
                AofRecord::Command => {
                    let words = reader.args().map(|arg| String::from_utf8_lossy(arg).into_owned());
                    requests.push(words.collect::<Vec<_>>().join(" "));
                }
                AofRecord::Checked => sums += 1,
                AofRecord::Timestamp(time_s) => requests.push(format!("at {time_s}")),
                AofRecord::Annotation => {}
            }
        }
        (requests, sums)
    }

    fn of(value: ValueRef<'_>, expire_at: Option<i64>) -> Vec<String> {
        let mut out = Vec::new();
        push_key(&mut out, b"k", value, expire_at).unwrap();
        requests(&out).0
    }

    #[test]
    fn a_keys_time_follows_its_value() {
        assert_eq!(of(ValueRef::Integer(-7), Some(5)), ["SET k -7", "PEXPIREAT k 5"]);
        let texts = Object::new(Texts(vec![b"a".to_vec(), b"b".to_vec()]));
        assert_eq!(of(ValueRef::Object(texts.as_ref()), Some(6)), ["RPUSH k a b", "PEXPIREAT k 6"]);
    }

    /// Counts bytes, and fails at a limit.
    struct Sink {
        largest: usize,
        room: usize,
    }

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.largest = self.largest.max(bytes.len());
            self.room = self.room.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_huge_collection_is_written_piece_by_piece() {
        let texts = (0..50_000).map(|number| format!("{number:030}").into_bytes());
        let texts = Object::new(Texts(texts.collect()));
        for room in [usize::MAX, 3 * BUFFER] {
            let mut writer = RequestWriter::new(Sink { largest: 0, room }, None);
            let written = writer.key(b"k", ValueRef::Object(texts.as_ref()), None);
            assert_eq!(written.is_ok(), room == usize::MAX);
            assert!(writer.passed_on > 2 * BUFFER as u64);
            // A request has a few kilobytes.
            assert!(writer.out.largest < BUFFER + 10_000, "{} bytes in one write", writer.out.largest);
            assert!(writer.buffer.len() < BUFFER + 10_000);
        }
    }

    #[test]
    fn sums_stand_between_requests() {
        let mut writer = RequestWriter::new(Vec::new(), Some(77));
        writer.function(b"code").unwrap();
        let text = vec![b'x'; 1000];
        writer.hold();
        for number in 0..1000 {
            writer.select(number / 500);
            writer.key(number.to_string().as_bytes(), ValueRef::Bytes(&text), None).unwrap();
        }
        assert_eq!(writer.passed_on, 0, "held");
        writer.let_go().unwrap();
        assert!(writer.passed_on > 1_000_000);
        writer.encoded_keys(b"*1\r\n$1\r\nX\r\n").unwrap();
        let (mut file, bytes) = writer.finish().unwrap();
        assert_eq!(file.len() as u64, bytes);
        let (requests, sums) = requests(&file);
        assert_eq!((requests.len(), sums), (2 + 1000 + 2 + 1, 2));
        assert_eq!(requests[..2], ["at 77", "FUNCTION LOAD code"]);
        assert_eq!((requests[2].as_str(), requests[503].as_str()), ("SELECT 0", "SELECT 1"));
        assert_eq!(requests.last().map(String::as_str), Some("X"));
        // Within a value, where only the checksum detects it.
        file[500] ^= 1;
        let mut reader = CommandReader::new(&file[..], Some(file.len() as u64));
        assert!(std::iter::from_fn(|| reader.read().transpose()).any(|record| record.is_err()));
    }
}
