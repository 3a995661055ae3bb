// SPDX-License-Identifier: BSD-3-Clause
//! The stream of a watch: one JSON object per line, for as long as the connection lasts.

use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use ureq::http::Response;
use ureq::{Body, BodyReader, Timeout};

use crate::Error;
use crate::endpoints::Endpoints;
use crate::http::{self, Failure, REPLY_LIMIT};
use crate::json::{self, Wrong};
use crate::kv::KeyValue;

/// Changes in the order in which etcd sends them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Empty if etcd only reports its revision.
    pub events: Vec<Event>,
    /// The store's revision when etcd sent this. Later events may have lower ones: a reopened
    /// watch continues from [`Watch::next_revision`].
    pub revision: i64,
}

/// A change of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Put(KeyValue),
    /// By a request, or because its lease ended.
    Delete {
        key: Vec<u8>,
        mod_revision: i64,
    },
}

impl Event {
    fn decode(value: &Value) -> Result<Event, Wrong> {
        let pair = KeyValue::decode(json::required(value, "kv")?)?;
        match json::text_of(value, "type")?.as_str() {
            "" | "PUT" => Ok(Event::Put(pair)),
            "DELETE" => Ok(Event::Delete { key: pair.key, mod_revision: pair.mod_revision }),
            other => Err(format!("an event of type '{}'", other.chars().take(20).collect::<String>())),
        }
    }

    pub fn key(&self) -> &[u8] {
        match self {
            Event::Put(pair) => &pair.key,
            Event::Delete { key, .. } => key,
        }
    }

    pub fn mod_revision(&self) -> i64 {
        match self {
            Event::Put(pair) => pair.mod_revision,
            Event::Delete { mod_revision, .. } => *mod_revision,
        }
    }
}

/// An open watch. Dropping it ends it. An error ends it as well: a new one continues from
/// [`Watch::next_revision`].
///
/// While nothing changes etcd sends only its revision, every ten minutes, so silence does not
/// reveal a dead connection. A watch ends as soon as any other call of its client finds that the
/// endpoint has failed; a caller that makes no other calls must make one now and then.
pub struct Watch {
    endpoints: Arc<Endpoints>,
    index: usize,
    /// Failures of the endpoint when the watch was opened.
    failures: u64,
    reader: BodyReader<'static>,
    pause: Duration,
    /// Received data, consumed up to `taken`.
    buffer: Vec<u8>,
    taken: usize,
    /// There is no line feed before this index.
    searched: usize,
    next_revision: i64,
    is_over: bool,
}

impl Watch {
    pub(crate) fn open(
        endpoints: Arc<Endpoints>,
        index: usize,
        failures: u64,
        response: Response<Body>,
        pause: Duration,
    ) -> Watch {
        let reader = response.into_body().into_reader();
        let (buffer, taken, searched) = (Vec::new(), 0, 0);
        Watch {
            endpoints,
            index,
            failures,
            reader,
            pause,
            buffer,
            taken,
            searched,
            next_revision: 0,
            is_over: false,
        }
    }

    /// Waits for etcd's confirmation that the watch is open.
    pub(crate) fn created(mut self, from_revision: i64, deadline: Instant) -> Result<Watch, Failure> {
        let reply = loop {
            if let Some(line) = self.line(deadline)? {
                break line;
            }
            if Instant::now() >= deadline {
                let text = format!("{} did not open the watch in time", self.address());
                return Err(Failure::Final(Error::Unknown(text)));
            }
        };
        let result = http::stream_message(self.address(), &reply)?;
        if self.read(|| json::truth_of(result, "canceled"))? {
            let error = self.cancelled(result)?;
            return Err(match error {
                // etcd 3.4 reports an expired login as a lack of permission.
                Error::Refused(text) => Failure::Login(text),
                error => Failure::Final(error),
            });
        }
        if !self.read(|| json::truth_of(result, "created"))? {
            return Err(Failure::Final(http::wrong(self.address(), "expected the confirmation of a watch")));
        }
        let revision = self.read(|| json::revision_of(result))?;
        self.next_revision = if from_revision > 0 { from_revision } else { revision.saturating_add(1) };
        Ok(self)
    }

    /// The next changes; `None` if nothing arrived within the pause. Blocks for at most two pauses.
    ///
    /// # Errors
    /// If the connection or the member fails, or etcd ends the watch ([`Error::Compacted`], or a
    /// refusal). After any error but a refusal and [`Error::Compacted`], open a new watch.
    pub fn wait(&mut self) -> Result<Option<Batch>, Error> {
        if self.is_over {
            return Err(Error::Unreachable("the watch has ended".into()));
        }
        let result = self.batch();
        match result {
            Ok(Some(batch)) => Ok(Some(batch)),
            Ok(None) if self.endpoints.failures(self.index) != self.failures => {
                self.is_over = true;
                Err(Error::Unreachable(format!("{} failed: its watch is cancelled", self.address())))
            }
            Ok(None) => Ok(None),
            Err(failure) => {
                self.is_over = true;
                let error = failure.into_error();
                if matches!(error, Error::Unknown(_) | Error::Invalid(_)) {
                    self.endpoints.leave(self.index);
                }
                // A watch executes nothing, so there is no unknown outcome.
                Err(match error {
                    Error::Unknown(text) => Error::Unreachable(text),
                    error => error,
                })
            }
        }
    }

    /// The first revision not yet seen, at which a new watch continues.
    pub fn next_revision(&self) -> i64 {
        self.next_revision
    }

    fn address(&self) -> &str {
        self.endpoints.address(self.index)
    }

    /// Turns a decoding error into a failure of the call.
    fn read<T>(&self, decode: impl FnOnce() -> Result<T, Wrong>) -> Result<T, Failure> {
        decode().map_err(|reason| Failure::Final(http::wrong(self.address(), &reason)))
    }

    fn batch(&mut self) -> Result<Option<Batch>, Failure> {
        let deadline = Instant::now() + self.pause;
        let Some(reply) = self.line(deadline)? else { return Ok(None) };
        let result = http::stream_message(self.address(), &reply)?;
        if self.read(|| json::truth_of(result, "canceled"))? {
            return Err(Failure::Final(self.cancelled(result)?));
        }
        let batch = self.read(|| decode(result))?;
        let seen = batch.events.iter().map(Event::mod_revision).max().unwrap_or(batch.revision);
        self.next_revision = self.next_revision.max(seen.saturating_add(1));
        Ok(Some(batch))
    }

    /// The reason for which etcd ended the watch.
    fn cancelled(&self, result: &Value) -> Result<Error, Failure> {
        let oldest = self.read(|| json::integer_of(result, "compact_revision"))?;
        if oldest > 0 {
            return Ok(Error::Compacted { oldest });
        }
        let reason = self.read(|| json::text_of(result, "cancel_reason"))?;
        let reason: String = reason.chars().take(300).collect();
        let is_refusal =
            ["permission", "auth", "user name is empty"].iter().any(|word| reason.contains(word));
        Ok(if is_refusal {
            Error::Refused(format!("{} rejects the watch: {reason}", self.address()))
        } else {
            Error::Unknown(format!("{} ended the watch: {reason}", self.address()))
        })
    }

    /// One line; `None` if no line is complete by the deadline or within a pause.
    fn line(&mut self, deadline: Instant) -> Result<Option<Value>, Failure> {
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|&byte| byte == b'\n') {
                let end = self.searched + at;
                let line = serde_json::from_slice(&self.buffer[self.taken..end]);
                self.taken = end + 1;
                self.searched = self.taken;
                return match line {
                    Ok(value @ Value::Object(_)) => Ok(Some(value)),
                    _ => Err(Failure::Final(http::wrong(
                        self.address(),
                        "a line of the watch is not an object",
                    ))),
                };
            }
            self.buffer.drain(..self.taken);
            (self.taken, self.searched) = (0, self.buffer.len());
            if self.buffer.len() as u64 > REPLY_LIMIT {
                return Err(Failure::Final(http::wrong(self.address(), "it is too long")));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            if !self.receive()? {
                return Ok(None);
            }
        }
    }

    /// Returns true if data arrived within the pause.
    fn receive(&mut self) -> Result<bool, Failure> {
        let mut chunk = [0; 16 << 10];
        match self.reader.read(&mut chunk) {
            Ok(0) => Err(Failure::Final(Error::Unknown(format!(
                "{} closed the watch's connection",
                self.address()
            )))),
            Ok(count) => {
                self.buffer.extend_from_slice(&chunk[..count]);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(true),
            Err(error) => match ureq::Error::from(error) {
                ureq::Error::Timeout(Timeout::PerRead) => Ok(false),
                error => Err(http::exchange_failed(self.address(), &error)),
            },
        }
    }
}

pub(crate) fn decode(result: &Value) -> Result<Batch, Wrong> {
    let events = json::list_of(result, "events")?.iter().map(Event::decode).collect::<Result<_, _>>()?;
    Ok(Batch { events, revision: json::revision_of(result)? })
}
