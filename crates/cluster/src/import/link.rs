// SPDX-License-Identifier: BSD-3-Clause
//! The connection to a primary: receives its snapshot and then its stream, as a replica does.
//!
//! Acknowledged changes have been applied. A lost connection is re-established at the same offset;
//! if the primary's backlog no longer reaches back that far, the import fails.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use braid_client::connection::encode;
use braid_client::reply::{Arrival, Reply};
use braid_client::{Stream, Target, cannot_connect};
use braid_rdb::{FileReader, RdbType, Record};

/// Timeout of a read, after which other work gets a turn.
const NAP: Duration = Duration::from_millis(5);
/// Interval of acknowledgements.
const ACKNOWLEDGED: Duration = Duration::from_millis(500);
/// Timeout of a silent primary. A primary sends something at least every ten seconds.
const SILENCE: Duration = Duration::from_secs(60);
/// Time limit for reconnecting.
const PATIENCE: Duration = Duration::from_secs(60);
/// Receive size in bytes.
const CHUNK: usize = 256 * 1024;
/// Changes applied per call, in bytes of the stream.
const BATCH: usize = 1 << 20;

/// A record of a snapshot.
pub(super) enum Loaded<'a> {
    Database(u64),
    Function(Vec<u8>),
    Key { name: &'a [u8], kind: RdbType, value: &'a [u8], version: u16, expire_at: Option<i64> },
}

/// A connection to a primary.
pub(super) struct Link {
    target: Target,
    stream: Stream,
    /// Received bytes; those from `used` on are unprocessed.
    received: Vec<u8>,
    used: usize,
    /// How much of the next change has arrived.
    arrival: Arrival,
    /// The primary's replication ID, and the offset processed so far.
    history: String,
    offset: u64,
    acknowledged: Instant,
    heard: Instant,
}

/// The socket as a blocking reader for the snapshot.
struct Waiting {
    stream: Stream,
    first: Vec<u8>,
}

impl Read for Waiting {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.first.is_empty() {
            let count = self.first.len().min(buffer.len());
            buffer[..count].copy_from_slice(&self.first[..count]);
            self.first.drain(..count);
            return Ok(count);
        }
        let begin = Instant::now();
        loop {
            match self.stream.read(buffer) {
                Err(error) if is_later(&error) && begin.elapsed() < SILENCE => {}
                other => return other,
            }
        }
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// How the end of the snapshot is marked.
enum Form {
    Length(u64),
    Mark([u8; 40]),
}

impl Link {
    /// Connects and requests a full sync.
    pub(super) fn open(target: &Target) -> Result<Link, String> {
        let mut link = Link::connect(target)?;
        let answer = link.ask(&["PSYNC", "?", "-1"])?;
        let mut words = answer.split_whitespace();
        match (words.next(), words.next(), words.next().and_then(|offset| offset.parse().ok())) {
            (Some("+FULLRESYNC"), Some(history), Some(offset)) => {
                (link.history, link.offset) = (history.to_owned(), offset);
                Ok(link)
            }
            _ => Err(format!("it refuses to replicate: {answer}")),
        }
    }

    fn connect(target: &Target) -> Result<Link, String> {
        let (stream, _) = target.connect().map_err(|error| cannot_connect(&target.address, &error))?;
        stream.socket().set_read_timeout(Some(NAP)).map_err(|error| error.to_string())?;
        let now = Instant::now();
        let mut link = Link {
            target: target.clone(),
            stream,
            received: Vec::new(),
            used: 0,
            arrival: Arrival::default(),
            history: String::new(),
            offset: 0,
            acknowledged: now,
            heard: now,
        };
        for command in target.greeting() {
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            let answer = link.ask(&words)?;
            if answer.starts_with('-') {
                return Err(format!("{}: {answer}", words[0]));
            }
        }
        link.ask(&["REPLCONF", "capa", "eof", "capa", "psync2"])?;
        Ok(link)
    }

    /// The offset of the stream processed so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    fn send(&mut self, words: &[&str]) -> Result<(), String> {
        let mut bytes = Vec::new();
        encode(words, &mut bytes);
        let mut sent = 0;
        while sent < bytes.len() {
            sent += self.stream.write(&bytes[sent..]).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Sends a command and returns the line that answers it.
    fn ask(&mut self, words: &[&str]) -> Result<String, String> {
        self.send(words)?;
        self.line()
    }

    /// The next non-empty line. Empty lines are keep-alives.
    fn line(&mut self) -> Result<String, String> {
        loop {
            let rest = &self.received[self.used..];
            if let Some(len) = rest.iter().position(|&byte| byte == b'\n') {
                let line = String::from_utf8_lossy(&rest[..len]).trim().to_owned();
                self.used += len + 1;
                if !line.is_empty() {
                    return Ok(line);
                }
                continue;
            }
            self.fill().map_err(|error| error.to_string())?;
        }
    }

    /// Receives more. True if bytes arrived.
    fn fill(&mut self) -> io::Result<bool> {
        if self.used > 0 {
            self.received.drain(..self.used);
            self.used = 0;
        }
        let old = self.received.len();
        self.received.resize(old + CHUNK, 0);
        let read = self.stream.read(&mut self.received[old..]);
        self.received.truncate(old + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it closed the connection")),
            Ok(_) => {
                self.heard = Instant::now();
                Ok(true)
            }
            Err(error) if is_later(&error) && self.heard.elapsed() < SILENCE => Ok(false),
            Err(error) if is_later(&error) => {
                Err(io::Error::new(io::ErrorKind::TimedOut, "it stopped sending"))
            }
            Err(error) => Err(error),
        }
    }

    /// Receives the snapshot, record by record.
    pub(super) fn snapshot(
        mut self,
        mut take: impl FnMut(Loaded<'_>) -> Result<(), String>,
    ) -> Result<Link, String> {
        let line = self.line()?;
        let form = match line.strip_prefix('$').map(|text| (text.strip_prefix("EOF:"), text.parse())) {
            Some((Some(mark), _)) => {
                Form::Mark(mark.as_bytes().try_into().map_err(|_| format!("invalid end mark: {line}"))?)
            }
            Some((None, Ok(len))) => Form::Length(len),
            _ => return Err(format!("it sends no snapshot: {line}")),
        };
        let first = self.received.split_off(self.used);
        let input = Waiting { stream: self.stream, first };
        let len = match form {
            Form::Length(len) => Some(len),
            Form::Mark(_) => None,
        };
        let failed = |error: braid_rdb::Error| format!("its snapshot: {error}");
        let mut reader = FileReader::new(input, len, true, true).map_err(failed)?;
        loop {
            match reader.record().map_err(failed)? {
                Record::Database(db) => take(Loaded::Database(db))?,
                Record::Function(code) => take(Loaded::Function(code))?,
                Record::Key { kind, expire_at, .. } => {
                    let version = reader.version();
                    let told = reader.name().escape_ascii().to_string();
                    let entry = reader.raw_entry(kind, usize::MAX >> 8);
                    let Some((name, value)) = entry else {
                        return Err(format!("its snapshot: key {told} has an unknown type ({kind:?})"));
                    };
                    take(Loaded::Key { name, kind, value, version, expire_at })?;
                }
                Record::End { .. } => break,
                Record::ModuleData(_) | Record::Note { .. } | Record::Size { .. } => {}
            }
        }
        let (rest, input) = reader.into_rest();
        let mut rest = rest;
        rest.extend_from_slice(&input.first);
        let mut link = Link { stream: input.stream, received: rest, used: 0, heard: Instant::now(), ..self };
        if let Form::Mark(mark) = form {
            while link.received.len() < mark.len() {
                link.fill().map_err(|error| error.to_string())?;
            }
            if link.received[..mark.len()] != mark {
                return Err("its snapshot has no valid end".into());
            }
            link.used = mark.len();
        }
        // Some primaries start the stream only after an acknowledgement.
        link.acknowledge(true)?;
        Ok(link)
    }

    /// Receives the available changes and passes each to `take`. True if the primary asked for an
    /// acknowledgement.
    pub(super) fn receive(
        &mut self,
        mut take: impl FnMut(Vec<Vec<u8>>) -> Result<(), String>,
    ) -> Result<bool, String> {
        if !self.arrival.is_complete(&self.received[self.used..]) {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => return self.resume(&error).map(|()| false),
            }
        }
        let (mut wants_answer, begin) = (false, self.offset);
        while self.offset - begin < BATCH as u64 && self.arrival.is_complete(&self.received[self.used..]) {
            let Ok((change, len)) = Reply::parse(&self.received[self.used..]) else {
                return Err("its replication stream is invalid".into());
            };
            self.arrival = Arrival::default();
            self.used += len;
            self.offset += len as u64;
            let words = words(change).ok_or("its replication stream is invalid")?;
            let is_question = |words: &[Vec<u8>]| {
                words.len() > 1
                    && words[0].eq_ignore_ascii_case(b"replconf")
                    && words[1].eq_ignore_ascii_case(b"getack")
            };
            if is_question(&words) {
                wants_answer = true;
                continue;
            }
            take(words)?;
        }
        Ok(wants_answer)
    }

    /// Acknowledges the offset if the primary asked for it or the interval is over.
    pub(super) fn acknowledge(&mut self, is_asked: bool) -> Result<(), String> {
        if is_asked || self.acknowledged.elapsed() > ACKNOWLEDGED {
            self.acknowledged = Instant::now();
            let offset = self.offset.to_string();
            // A lost connection shows at the next read.
            let _ = self.send(&["REPLCONF", "ACK", &offset]);
        }
        Ok(())
    }

    /// Reconnects and resumes the stream.
    fn resume(&mut self, why: &io::Error) -> Result<(), String> {
        let begin = Instant::now();
        let mut last = why.to_string();
        while begin.elapsed() < PATIENCE {
            match self.reconnect() {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    return Err(format!(
                        "the connection was lost ({why}), and later changes are no longer in its backlog"
                    ));
                }
                Err(error) => last = error,
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Err(format!("the connection was lost ({why}) and cannot be restored: {last}"))
    }

    /// Reconnects. False if the primary cannot resume the stream.
    fn reconnect(&mut self) -> Result<bool, String> {
        let mut link = Link::connect(&self.target)?;
        let next = (self.offset + 1).to_string();
        let answer = link.ask(&["PSYNC", &self.history, &next])?;
        let mut words = answer.split_whitespace();
        match words.next() {
            Some("+CONTINUE") => {
                let history = words.next().unwrap_or(&self.history).to_owned();
                *self = Link { history, offset: self.offset, ..link };
                Ok(true)
            }
            Some("+FULLRESYNC") => Ok(false),
            _ => Err(answer),
        }
    }
}

/// The words of a change.
fn words(change: Reply) -> Option<Vec<Vec<u8>>> {
    let Reply::Array(items) = change else { return None };
    let word = |item: Reply| match item {
        Reply::Bulk(bytes) => Some(bytes),
        _ => None,
    };
    let words: Option<Vec<Vec<u8>>> = items.into_iter().map(word).collect();
    words.filter(|words| !words.is_empty())
}
