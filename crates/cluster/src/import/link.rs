// SPDX-License-Identifier: BSD-3-Clause
//! The connection to a primary: its snapshot, and then its stream, as a replica receives them.
//!
//! What is acknowledged has been applied. A connection that is lost is made again where the stream
//! was left; if the primary has no more what came since, that is the end.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use braid_client::connection::encode;
use braid_client::reply::{ParseError, Reply};
use braid_client::{Stream, Target, cannot_connect};
use braid_rdb::{FileReader, RdbType, Record};

/// How long a read waits before something else is looked at.
const NAP: Duration = Duration::from_millis(5);
/// How often the offset is acknowledged.
const ACKNOWLEDGED: Duration = Duration::from_millis(500);
/// A primary sends something every ten seconds at least.
const SILENCE: Duration = Duration::from_secs(60);
/// How long a lost connection is tried again.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes received at once.
const CHUNK: usize = 256 * 1024;
/// Changes that are applied at once, in bytes of the stream.
const BATCH: usize = 1 << 20;

/// What a snapshot has.
pub(super) enum Loaded<'a> {
    Database(u64),
    Function(Vec<u8>),
    Key { name: &'a [u8], kind: RdbType, value: &'a [u8], version: u16, expire_at: Option<i64> },
}

/// A connection.
pub(super) struct Link {
    target: Target,
    stream: Stream,
    /// Received, and not used from `used` on.
    received: Vec<u8>,
    used: usize,
    /// The primary's history, and up to where it is used.
    history: String,
    offset: u64,
    acknowledged: Instant,
    heard: Instant,
}

/// The socket, for the reader of snapshots: waits for bytes.
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

/// Where the snapshot ends.
enum Form {
    Length(u64),
    Mark([u8; 40]),
}

impl Link {
    /// Connects and asks for everything.
    pub(super) fn open(target: &Target) -> Result<Link, String> {
        let mut link = Link::connect(target)?;
        let answer = link.ask(&["PSYNC", "?", "-1"])?;
        let mut words = answer.split_whitespace();
        match (words.next(), words.next(), words.next().and_then(|offset| offset.parse().ok())) {
            (Some("+FULLRESYNC"), Some(history), Some(offset)) => {
                (link.history, link.offset) = (history.to_owned(), offset);
                Ok(link)
            }
            _ => Err(format!("it does not let itself be followed: {answer}")),
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

    /// Up to where the stream has been used.
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

    /// Sends a command; the line that answers it.
    fn ask(&mut self, words: &[&str]) -> Result<String, String> {
        self.send(words)?;
        self.line()
    }

    /// The next line that is not empty: empty ones say that it takes time.
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

    /// Receives more. Whether something has come.
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
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it has closed the connection")),
            Ok(_) => {
                self.heard = Instant::now();
                Ok(true)
            }
            Err(error) if is_later(&error) && self.heard.elapsed() < SILENCE => Ok(false),
            Err(error) if is_later(&error) => Err(io::Error::new(io::ErrorKind::TimedOut, "it is silent")),
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
                Form::Mark(mark.as_bytes().try_into().map_err(|_| format!("no mark: {line}"))?)
            }
            Some((None, Ok(len))) => Form::Length(len),
            _ => return Err(format!("no snapshot comes: {line}")),
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
                        return Err(format!(
                            "its snapshot: key {told} has a value of no known type ({kind:?})"
                        ));
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
                return Err("its snapshot does not end where it should".into());
            }
            link.used = mark.len();
        }
        // Some begin the stream only now.
        link.acknowledge(true)?;
        Ok(link)
    }

    /// Receives changes for a moment, and hands each to `take`. Whether the primary wants to know
    /// how far we are.
    pub(super) fn receive(
        &mut self,
        mut take: impl FnMut(Vec<Vec<u8>>) -> Result<(), String>,
    ) -> Result<bool, String> {
        if self.used == self.received.len() || Reply::parse(&self.received[self.used..]).is_err() {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) => return self.resume(&error).map(|()| false),
            }
        }
        let (mut wants_answer, begin) = (false, self.offset);
        while self.offset - begin < BATCH as u64 {
            match Reply::parse(&self.received[self.used..]) {
                Ok((change, len)) => {
                    self.used += len;
                    self.offset += len as u64;
                    let words = words(change).ok_or("its stream is not understood")?;
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
                Err(ParseError::Incomplete) => break,
                Err(ParseError::Malformed(_)) => return Err("its stream is not understood".into()),
            }
        }
        Ok(wants_answer)
    }

    /// Says how far we are, if it is time.
    pub(super) fn acknowledge(&mut self, is_asked: bool) -> Result<(), String> {
        if is_asked || self.acknowledged.elapsed() > ACKNOWLEDGED {
            self.acknowledged = Instant::now();
            let offset = self.offset.to_string();
            // A connection that is lost shows at the next read.
            let _ = self.send(&["REPLCONF", "ACK", &offset]);
        }
        Ok(())
    }

    /// Connects again, and goes on where the stream was left.
    fn resume(&mut self, why: &io::Error) -> Result<(), String> {
        let begin = Instant::now();
        let mut last = why.to_string();
        while begin.elapsed() < PATIENCE {
            match self.reconnect() {
                Ok(true) => return Ok(()),
                Ok(false) => {
                    return Err(format!("the connection was lost ({why}), and what came since is lost"));
                }
                Err(error) => last = error,
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Err(format!("the connection was lost ({why}) and is not to be had again: {last}"))
    }

    /// Whether the primary has what comes next.
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

/// A change's words.
fn words(change: Reply) -> Option<Vec<Vec<u8>>> {
    let Reply::Array(items) = change else { return None };
    let word = |item: Reply| match item {
        Reply::Bulk(bytes) => Some(bytes),
        _ => None,
    };
    let words: Option<Vec<Vec<u8>>> = items.into_iter().map(word).collect();
    words.filter(|words| !words.is_empty())
}
