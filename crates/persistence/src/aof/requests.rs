// SPDX-License-Identifier: BSD-3-Clause
//! Keys as the requests that make them: the base of an append-only file with `aof-use-rdb-preamble no`, and what its old forms are kept in.
//!
//! ```text
//! [#TS:seconds] functions (FUNCTION LOAD code), and for each key, behind a SELECT where the database changes:
//! SET | RPUSH | SADD | ZADD | HMSET | XADD ... XSETID XGROUP XCLAIM, [HPEXPIREAT | SPEXPIREAT | ZPEXPIREAT per member], [PEXPIREAT]
//! ```
//! Elements come in requests of at most [`BATCH`], as stock servers write them, and go to the file before the next ones are looked at, so that a huge
//! collection takes no more memory than a small one. What streams lose in this form they lose there, too: pending
//! entries that were deleted, and when a consumer was last seen. Checksums stand between requests (`check.rs`).

use std::io::{self, Write};

use braid_base::crc::crc64;
use braid_base::number::format_f64_shortest;
use braid_containers::listpack::Element;
use braid_containers::stream::{Group, Stream, StreamId};
use braid_journal::push_request;
use braid_rdb::ValueRef;

use super::check::Check;

/// Elements of a request.
const BATCH: usize = 64;
/// Bytes that are gathered before they are written.
const BUFFER: usize = 256 * 1024;

/// Takes requests.
pub(crate) trait Requests {
    /// What a request is added to.
    fn buffer(&mut self) -> &mut Vec<u8>;

    /// One or more requests are complete.
    fn complete(&mut self) -> io::Result<()>;
}

/// Keeps them all.
impl Requests for Vec<u8> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        self
    }

    fn complete(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a file of requests.
pub(crate) struct RequestWriter<W> {
    out: W,
    /// Whole requests, or annotations.
    buffer: Vec<u8>,
    held: bool,
    /// Bytes before those in the buffer.
    passed_on: u64,
    selected: Option<u32>,
}

impl<W: Write> Requests for RequestWriter<W> {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    fn complete(&mut self) -> io::Result<()> {
        if self.buffer.len() >= BUFFER && !self.held { self.pass_on() } else { Ok(()) }
    }
}

impl<W: Write> RequestWriter<W> {
    /// Begins a file; `time_s` stands at its begin if there is one.
    pub(crate) fn new(out: W, time_s: Option<i64>) -> RequestWriter<W> {
        let buffer = time_s.map_or_else(Vec::new, |time_s| timestamp(time_s).into_bytes());
        RequestWriter { out, buffer, held: false, passed_on: 0, selected: None }
    }

    /// A library of functions: its code.
    pub(crate) fn function(&mut self, code: &[u8]) -> io::Result<()> {
        push_request(&mut self.buffer, &[b"FUNCTION", b"LOAD", code]);
        self.complete()
    }

    /// The database of what follows.
    pub(crate) fn select(&mut self, db: u32) {
        if self.selected != Some(db) {
            self.selected = Some(db);
            push_request(&mut self.buffer, &[b"SELECT", itoa::Buffer::new().format(db).as_bytes()]);
        }
    }

    /// A key with its value.
    pub(crate) fn key(&mut self, name: &[u8], value: ValueRef<'_>, expire_at: Option<i64>) -> io::Result<()> {
        push_key(self, name, value, expire_at)
    }

    /// Keys that [`push_key`] has written.
    pub(crate) fn encoded_keys(&mut self, requests: &[u8]) -> io::Result<()> {
        self.buffer.extend_from_slice(requests);
        self.complete()
    }

    /// Until [`RequestWriter::let_go`] is called what is written is kept in memory.
    pub(crate) fn hold(&mut self) {
        self.held = true;
    }

    /// Writes what was held, if it is much.
    pub(crate) fn let_go(&mut self) -> io::Result<()> {
        self.held = false;
        self.complete()
    }

    /// Bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.passed_on + self.buffer.len() as u64
    }

    /// Ends the file. The sink, back, and the file's size in bytes.
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
        // A large value has made it large.
        self.buffer.shrink_to(4 * BUFFER);
        Ok(())
    }
}

/// The annotation that tells the time.
pub(crate) fn timestamp(time_s: i64) -> String {
    format!("#TS:{time_s}\r\n")
}

/// Adds the requests that make a key in the database that is chosen.
pub(crate) fn push_key<R: Requests>(
    out: &mut R,
    name: &[u8],
    value: ValueRef<'_>,
    expire_at: Option<i64>,
) -> io::Result<()> {
    match value {
        ValueRef::Text(text) => push_request(out.buffer(), &[b"SET", name, text]),
        ValueRef::Integer(number) => {
            push_request(out.buffer(), &[b"SET", name, itoa::Buffer::new().format(number).as_bytes()]);
        }
        ValueRef::List(list) => {
            let mut batches = Batches::new(out, b"RPUSH", name, 1, list.len());
            list.range(0, list.len(), |element| batches.element(element));
            batches.outcome?;
        }
        ValueRef::Set(set) => {
            let mut batches = Batches::new(out, b"SADD", name, 1, set.len());
            set.iter_with_expiry().for_each(|(member, _)| batches.element(member));
            batches.outcome?;
            if set.expiring_len() > 0 {
                for (member, expire_at) in set.iter_with_expiry() {
                    push_expiry(out, [b"SPEXPIREAT", b"MEMBERS"], name, member, expire_at)?;
                }
            }
        }
        ValueRef::SortedSet(set) => {
            let view = set.view(i64::MIN);
            let mut batches = Batches::new(out, b"ZADD", name, 2, view.len());
            let mut score_text = Vec::new();
            for (member, score) in view.iter(0..view.len()) {
                score_text.clear();
                format_f64_shortest(&mut score_text, score);
                batches.text(&score_text);
                batches.element(member);
            }
            batches.outcome?;
            if set.next_expiry().is_some() {
                for (member, _, expire_at) in set.iter_back_with_expiry() {
                    push_expiry(out, [b"ZPEXPIREAT", b"MEMBERS"], name, member, expire_at)?;
                }
            }
        }
        ValueRef::Hash(hash) => {
            let mut batches = Batches::new(out, b"HMSET", name, 2, hash.len());
            for (field, value, _) in hash.iter_with_expiry() {
                batches.element(field);
                batches.element(value);
            }
            batches.outcome?;
            if hash.expiring_len() > 0 {
                for (field, _, expire_at) in hash.iter_with_expiry() {
                    push_expiry(out, [b"HPEXPIREAT", b"FIELDS"], name, field, expire_at)?;
                }
            }
        }
        ValueRef::Stream(stream) => push_stream(out, name, stream)?,
    }
    if let Some(time) = expire_at {
        push_request(out.buffer(), &[b"PEXPIREAT", name, itoa::Buffer::new().format(time).as_bytes()]);
    }
    out.complete()
}

/// Elements of a collection, in as many requests as are needed.
struct Batches<'o, R> {
    out: &'o mut R,
    command: &'static [u8],
    name: &'o [u8],
    /// Arguments still to come of the present request, and of all.
    now: usize,
    left: usize,
    batch: usize,
    /// After an error nothing is added any more.
    outcome: io::Result<()>,
}

impl<'o, R: Requests> Batches<'o, R> {
    /// For `len` elements of `width` arguments each.
    fn new(
        out: &'o mut R,
        command: &'static [u8],
        name: &'o [u8],
        width: usize,
        len: usize,
    ) -> Batches<'o, R> {
        Batches { out, command, name, now: 0, left: len * width, batch: BATCH * width, outcome: Ok(()) }
    }

    fn element(&mut self, element: Element<'_>) {
        self.text(element.text(&mut itoa::Buffer::new()));
    }

    fn text(&mut self, text: &[u8]) {
        if self.outcome.is_err() {
            return;
        }
        let buffer = self.out.buffer();
        if self.now == 0 {
            self.now = self.left.min(self.batch);
            self.left -= self.now;
            push_count(buffer, 2 + self.now);
            push_bulk(buffer, self.command);
            push_bulk(buffer, self.name);
        }
        self.now -= 1;
        push_bulk(buffer, text);
        if self.now == 0 {
            self.outcome = self.out.complete();
        }
    }
}

fn push_count(out: &mut Vec<u8>, arguments: usize) {
    out.push(b'*');
    out.extend_from_slice(itoa::Buffer::new().format(arguments).as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn push_bulk(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'$');
    out.extend_from_slice(itoa::Buffer::new().format(text.len()).as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

/// When a member expires, if it does.
fn push_expiry(
    out: &mut impl Requests,
    [command, word]: [&[u8]; 2],
    name: &[u8],
    member: Element<'_>,
    expire_at: Option<i64>,
) -> io::Result<()> {
    let Some(time) = expire_at else { return Ok(()) };
    let (mut time_digits, mut digits) = (itoa::Buffer::new(), itoa::Buffer::new());
    let time = time_digits.format(time).as_bytes();
    push_request(out.buffer(), &[command, name, time, word, b"1", member.text(&mut digits)]);
    out.complete()
}

fn push_stream(out: &mut impl Requests, name: &[u8], stream: &Stream) -> io::Result<()> {
    let log = stream.log();
    let id_text = |id: StreamId| id.to_string();
    for entry in log.range(StreamId::MIN, StreamId::MAX) {
        let (fields, buffer) = (entry.fields.clone(), out.buffer());
        push_count(buffer, 3 + 2 * fields.count());
        push_bulk(buffer, b"XADD");
        push_bulk(buffer, name);
        push_bulk(buffer, id_text(entry.id).as_bytes());
        for (field, value) in entry.fields {
            push_bulk(buffer, field.text(&mut itoa::Buffer::new()));
            push_bulk(buffer, value.text(&mut itoa::Buffer::new()));
        }
        out.complete()?;
    }
    if log.is_empty() {
        // A stream without entries: one is added and trimmed away by the same request.
        push_request(out.buffer(), &[b"XADD", name, b"MAXLEN", b"0", b"0-1", b"x", b"y"]);
    }
    let (last, deleted) = (id_text(log.last_id()), id_text(log.max_deleted_id()));
    let added = log.entries_added().to_string();
    let words: [&[u8]; 7] = [
        b"XSETID",
        name,
        last.as_bytes(),
        b"ENTRIESADDED",
        added.as_bytes(),
        b"MAXDELETEDID",
        deleted.as_bytes(),
    ];
    push_request(out.buffer(), &words);
    for (group_name, group) in stream.groups().iter() {
        push_group(out, name, group_name, group)?;
    }
    Ok(())
}

fn push_group(out: &mut impl Requests, name: &[u8], group_name: &[u8], group: &Group) -> io::Result<()> {
    let last = group.last_id.to_string();
    let read = group.entries_read.map_or_else(|| "-1".to_owned(), |read| read.to_string());
    let words: [&[u8]; 7] =
        [b"XGROUP", b"CREATE", name, group_name, last.as_bytes(), b"ENTRIESREAD", read.as_bytes()];
    push_request(out.buffer(), &words);
    for (_, consumer) in group.consumers() {
        if consumer.pending_len() == 0 {
            push_request(out.buffer(), &[b"XGROUP", b"CREATECONSUMER", name, group_name, consumer.name()]);
        }
        for id in consumer.pending_from(StreamId::MIN) {
            let Some(pending) = group.pending(id) else { continue };
            let (id, time) = (id.to_string(), pending.delivery_time.to_string());
            let count = pending.delivery_count.to_string();
            let words: [&[u8]; 12] = [
                b"XCLAIM",
                name,
                group_name,
                consumer.name(),
                b"0",
                id.as_bytes(),
                b"TIME",
                time.as_bytes(),
                b"RETRYCOUNT",
                count.as_bytes(),
                b"JUSTID",
                b"FORCE",
            ];
            push_request(out.buffer(), &words);
            out.complete()?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use braid_containers::hash::{Expiry, Hash, HashLimits};
    use braid_containers::list::{End, List, ListLimits};
    use braid_containers::sorted_set::{AddRule, PackedLimits, SortedSet};

    use super::*;
    use crate::aof::{AofRecord, CommandReader};

    /// The requests of a file as text, and how many of its bytes sums vouch for.
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
    fn elements_come_in_requests_of_limited_length() {
        for (len, expected) in [(1, &[1][..]), (64, &[64]), (65, &[64, 1]), (200, &[64, 64, 64, 8])] {
            let mut list = List::new();
            let texts: Vec<String> = (0..len).map(|number: i32| number.to_string()).collect();
            texts.iter().for_each(|text| list.push(End::Back, text.as_bytes(), &ListLimits::default()));
            let requests = of(ValueRef::List(&list), None);
            let elements: Vec<Vec<&str>> =
                requests.iter().map(|request| request.split(' ').skip(2).collect()).collect();
            assert_eq!(elements.iter().map(Vec::len).collect::<Vec<_>>(), expected);
            assert_eq!(elements.concat(), texts);
            assert!(requests.iter().all(|request| request.starts_with("RPUSH k ")));
        }
    }

    #[test]
    fn times_follow_what_they_are_for() {
        assert_eq!(of(ValueRef::Integer(-7), Some(5)), ["SET k -7", "PEXPIREAT k 5"]);
        let mut hash = Hash::new();
        hash.set(b"f", b"1", Expiry::Keep, i64::MIN, &HashLimits::default());
        hash.set(b"g", b"x", Expiry::At(9), i64::MIN, &HashLimits::default());
        let mut requests = of(ValueRef::Hash(&hash), Some(10));
        assert!(["HMSET k f 1 g x", "HMSET k g x f 1"].contains(&requests.remove(0).as_str()));
        assert_eq!(requests, ["HPEXPIREAT k 9 FIELDS 1 g", "PEXPIREAT k 10"]);
        let mut set = SortedSet::new();
        for (member, score) in [(&b"a"[..], 0.1), (b"b", f64::INFINITY), (b"c", -2.0)] {
            set.add(member, score, AddRule::default(), &PackedLimits::default());
        }
        set.set_expiry(b"b", Some(11));
        assert_eq!(
            of(ValueRef::SortedSet(&set), None),
            ["ZADD k -2 c 0.1 a inf b", "ZPEXPIREAT k 11 MEMBERS 1 b"]
        );
    }

    #[test]
    fn a_stream_keeps_what_its_entries_do_not_tell() {
        let empty = Stream::new();
        assert_eq!(
            of(ValueRef::Stream(&empty), None),
            ["XADD k MAXLEN 0 0-1 x y", "XSETID k 0-0 ENTRIESADDED 0 MAXDELETEDID 0-0"]
        );
    }

    /// Counts bytes, and fails when it has had enough.
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
        let mut hash = Hash::new();
        for number in 0..50_000 {
            let text = format!("{number:030}");
            hash.set(text.as_bytes(), b"x", Expiry::At(9), i64::MIN, &HashLimits::default());
        }
        for room in [usize::MAX, 3 * BUFFER] {
            let mut writer = RequestWriter::new(Sink { largest: 0, room }, None);
            let written = writer.key(b"k", ValueRef::Hash(&hash), None);
            assert_eq!(written.is_ok(), room == usize::MAX);
            assert!(writer.passed_on > 2 * BUFFER as u64);
            // A request is of a few kilobytes.
            assert!(writer.out.largest < BUFFER + 10_000, "{} at once", writer.out.largest);
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
            writer.key(number.to_string().as_bytes(), ValueRef::Text(&text), None).unwrap();
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
        // Within a value, where nothing but the sum can tell.
        file[500] ^= 1;
        let mut reader = CommandReader::new(&file[..], Some(file.len() as u64));
        assert!(std::iter::from_fn(|| reader.read().transpose()).any(|record| record.is_err()));
    }
}
