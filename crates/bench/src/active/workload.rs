// SPDX-License-Identifier: BSD-3-Clause
//! Clients that each write to one server and record the acknowledged writes.
//!
//! Elements are unique across all clients. An element is removed only by a client of a server that
//! has it, so the removal has seen the addition. Error replies are counted but not recorded: such a
//! write may or may not have taken effect.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use braid_client::{Connection, Value};
use fastrand::Rng;

use super::kinds::{KeyKind, name, second};
use super::ledger::{Note, What};

/// Maximum number of elements that a client remembers for removal.
const REMEMBERED: usize = 2_000;
/// Deletion of write-once keys starts when there are this many.
const ONCE_MIN: usize = 8;
/// Counter fields per hash and sorted set.
const FIELDS: u8 = 3;
/// Maximum sleep until a write is due.
const NAP: Duration = Duration::from_millis(20);

/// State shared by all clients.
pub struct Shared {
    pub start: Instant,
    pub stop: AtomicBool,
    pub prefix: String,
    /// Number of keys per kind.
    pub keys: u32,
    next: AtomicU64,
    /// Write-once keys that have not been deleted yet.
    once: Mutex<Vec<u32>>,
}

impl Shared {
    pub fn new(prefix: String, keys: u32) -> Shared {
        Shared {
            start: Instant::now(),
            stop: AtomicBool::new(false),
            prefix,
            keys,
            next: AtomicU64::new(0),
            once: Mutex::default(),
        }
    }

    /// Microseconds since the start.
    pub fn now(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    fn unique(&self) -> u64 {
        self.next.fetch_add(1, Relaxed) + 1
    }
}

/// A client's results.
#[derive(Default)]
pub struct Done {
    pub notes: Vec<Note>,
    pub sent: u64,
    /// Error replies by their first word, with one text each.
    pub errors: BTreeMap<String, (u64, String)>,
}

/// An element known to be present.
struct Known {
    kind: KeyKind,
    key: u32,
    element: u64,
    /// The entry ID of a stream element.
    id: String,
}

/// A client.
pub struct Client<'s> {
    server: usize,
    connection: Connection,
    shared: &'s Shared,
    random: Rng,
    known: VecDeque<Known>,
    done: Done,
}

impl<'s> Client<'s> {
    pub fn new(server: usize, connection: Connection, shared: &'s Shared, random: Rng) -> Client<'s> {
        Client { server, connection, shared, random, known: VecDeque::new(), done: Done::default() }
    }

    /// Writes until told to stop or until a connection error. `each`: time between two writes.
    ///
    /// # Errors
    /// If the connection fails.
    pub fn run(mut self, each: Duration) -> Result<Done, String> {
        let mut due = Instant::now();
        while !self.shared.stop.load(Relaxed) {
            let wait = due.saturating_duration_since(Instant::now());
            if !wait.is_zero() {
                std::thread::sleep(wait.min(NAP));
                continue;
            }
            // Do not catch up on more than ten writes after a stall.
            due = (due + each).max(Instant::now() - each * 10);
            self.act()?;
        }
        Ok(self.done)
    }

    fn act(&mut self) -> Result<(), String> {
        let kind = KeyKind::ALL[self.random.usize(..KeyKind::ALL.len())];
        match kind {
            KeyKind::Mixed => self.mix(),
            KeyKind::Deleted => self.write_once(),
            KeyKind::Transaction => self.transact(),
            KeyKind::String => {
                let (key, value) = (self.key(), self.shared.unique());
                let text = format!("v{value}");
                self.write(kind, key, What::Write(value), &["SET", &self.full(kind, key), &text])
            }
            _ if kind.counts() => self.count(kind),
            _ if kind.has_elements() && self.random.u8(..3) == 0 => self.remove(),
            _ => self.add(kind),
        }
    }

    fn key(&mut self) -> u32 {
        self.random.u32(..self.shared.keys)
    }

    fn full(&self, kind: KeyKind, key: u32) -> String {
        format!("{}{}", self.shared.prefix, name(kind, key))
    }

    /// Sends a command; `None` for an error reply.
    fn ask(&mut self, words: &[&str]) -> Result<Option<Value>, String> {
        let reply = self.connection.command(words).map_err(|error| error.to_string())?;
        self.done.sent += 1;
        let Value::Error(text) = reply else { return Ok(Some(reply)) };
        let code = text.split(' ').next().unwrap_or_default().to_owned();
        self.done.errors.entry(code).or_insert_with(|| (0, text)).0 += 1;
        Ok(None)
    }

    fn note(&mut self, kind: KeyKind, key: u32, what: What, sent: u64) {
        let done = self.shared.now();
        self.done.notes.push(Note { server: self.server, kind, key, what, sent, done });
    }

    /// Sends a command, and records the write if it succeeds.
    fn write(&mut self, kind: KeyKind, key: u32, what: What, words: &[&str]) -> Result<(), String> {
        let sent = self.shared.now();
        if self.ask(words)?.is_some() {
            self.note(kind, key, what, sent);
        }
        Ok(())
    }

    fn count(&mut self, kind: KeyKind) -> Result<(), String> {
        let (key, field) = (self.key(), self.random.u8(..FIELDS));
        let whole = self.random.i64(-20..100);
        let (quarters, amount) = match kind {
            KeyKind::FloatCounter | KeyKind::ScoreCounter => (whole, (whole as f64 / 4.0).to_string()),
            _ => (whole * 4, whole.to_string()),
        };
        let (full, member) = (self.full(kind, key), format!("f{field}"));
        let words: &[&str] = match kind {
            KeyKind::Counter => &["INCRBY", &full, &amount],
            KeyKind::FloatCounter => &["INCRBYFLOAT", &full, &amount],
            KeyKind::HashCounter => &["HINCRBY", &full, &member, &amount],
            _ => &["ZINCRBY", &full, &amount, &member],
        };
        let has_fields = matches!(kind, KeyKind::HashCounter | KeyKind::ScoreCounter);
        let field = if has_fields { field } else { 0 };
        self.write(kind, key, What::Count { field, quarters }, words)
    }

    fn add(&mut self, kind: KeyKind) -> Result<(), String> {
        let (key, element) = (self.key(), self.shared.unique());
        let (full, text) = (self.full(kind, key), element.to_string());
        let score = self.random.u8(..100).to_string();
        let words: &[&str] = match kind {
            KeyKind::Hash => &["HSET", &full, &text, "x"],
            KeyKind::Set => &["SADD", &full, &text],
            KeyKind::SortedSet => &["ZADD", &full, &score, &text],
            KeyKind::List if self.random.bool() => &["LPUSH", &full, &text],
            KeyKind::List => &["RPUSH", &full, &text],
            KeyKind::Stream => &["XADD", &full, "*", "e", &text],
            _ => &["PFADD", &full, &text],
        };
        let sent = self.shared.now();
        let Some(reply) = self.ask(words)? else { return Ok(()) };
        self.note(kind, key, What::Add(element), sent);
        if kind.has_elements() {
            let id = if kind == KeyKind::Stream { reply.text() } else { String::new() };
            self.known.push_back(Known { kind, key, element, id });
            if self.known.len() > REMEMBERED {
                self.known.pop_front();
            }
        }
        Ok(())
    }

    /// Removes an element that this client has added, or pops one from an end of a list.
    fn remove(&mut self) -> Result<(), String> {
        if self.random.u8(..6) == 0 {
            return self.pop();
        }
        if self.known.is_empty() {
            return Ok(());
        }
        let place = self.random.usize(..self.known.len());
        let Some(Known { kind, key, element, id }) = self.known.swap_remove_back(place) else {
            return Ok(());
        };
        let (full, text) = (self.full(kind, key), element.to_string());
        let words: &[&str] = match kind {
            KeyKind::Hash => &["HDEL", &full, &text],
            KeyKind::Set => &["SREM", &full, &text],
            KeyKind::SortedSet => &["ZREM", &full, &text],
            KeyKind::Stream => &["XDEL", &full, &id],
            _ => &["LREM", &full, "1", &text],
        };
        let sent = self.shared.now();
        // A missing element was popped or is lost; the verdict will tell.
        if self.ask(words)?.and_then(|reply| reply.integer()) == Some(1) {
            self.note(kind, key, What::Remove(element), sent);
        }
        Ok(())
    }

    fn pop(&mut self) -> Result<(), String> {
        let key = self.key();
        let full = self.full(KeyKind::List, key);
        let command = if self.random.bool() { "LPOP" } else { "RPOP" };
        let sent = self.shared.now();
        if let Some(element) = self.ask(&[command, &full])?.and_then(|reply| reply.text().parse().ok()) {
            self.note(KeyKind::List, key, What::Remove(element), sent);
        }
        Ok(())
    }

    /// Writes a new write-once key of any type, or deletes one.
    fn write_once(&mut self) -> Result<(), String> {
        let old = {
            let mut once = self.shared.once.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = once.len() >= ONCE_MIN && self.random.bool();
            is_due.then(|| {
                let place = self.random.usize(..once.len());
                once.swap_remove(place)
            })
        };
        let sent = self.shared.now();
        if let Some(key) = old {
            let full = self.full(KeyKind::Deleted, key);
            let command = if self.random.bool() { "DEL" } else { "UNLINK" };
            if self.ask(&[command, &full])?.and_then(|reply| reply.integer()) == Some(1) {
                self.note(KeyKind::Deleted, key, What::Delete, sent);
            } else {
                // The key has not arrived at this server yet.
                self.shared.once.lock().unwrap_or_else(PoisonError::into_inner).push(key);
            }
            return Ok(());
        }
        let key = self.shared.unique() as u32;
        let full = self.full(KeyKind::Deleted, key);
        let words: &[&str] = match key % 6 {
            0 => &["SET", &full, "x"],
            1 => &["HSET", &full, "a", "1", "b", "2"],
            2 => &["RPUSH", &full, "a", "b"],
            3 => &["SADD", &full, "a", "b"],
            4 => &["ZADD", &full, "1", "a"],
            _ => &["XADD", &full, "*", "a", "b"],
        };
        if self.ask(words)?.is_some() {
            self.note(KeyKind::Deleted, key, What::Create, sent);
            self.shared.once.lock().unwrap_or_else(PoisonError::into_inner).push(key);
        }
        Ok(())
    }

    fn transact(&mut self) -> Result<(), String> {
        let kind = KeyKind::Transaction;
        let (key, value) = (self.key(), self.shared.unique());
        let (first, text) = (self.full(kind, key), format!("v{value}"));
        let second = second(&first);
        let sent = self.shared.now();
        if self.ask(&["MULTI"])?.is_none() {
            return Ok(());
        }
        self.ask(&["SET", &first, &text])?;
        self.ask(&["SET", &second, &text])?;
        if let Some(Value::Array(replies)) = self.ask(&["EXEC"])?
            && !replies.iter().any(|reply| matches!(reply, Value::Error(_)))
        {
            self.note(kind, key, What::Write(value), sent);
        }
        Ok(())
    }

    /// A random write to a contended key, mostly of the key's own type.
    fn mix(&mut self) -> Result<(), String> {
        let key = self.key();
        let full = self.full(KeyKind::Mixed, key);
        let own = MIXED[key as usize % MIXED.len()];
        let commands = if self.random.u8(..5) == 0 { MIXED[self.random.usize(..MIXED.len())] } else { own };
        let line = match self.random.u8(..20) {
            0 => "DEL KEY",
            _ => commands[self.random.usize(..commands.len())],
        };
        let element = format!("m{}", self.random.u8(..8));
        let number = self.random.u8(..50).to_string();
        let words: Vec<String> = line
            .split(' ')
            .map(|word| word.replace("KEY", &full).replace("ELEMENT", &element).replace("NUMBER", &number))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let sent = self.shared.now();
        let reply = self.connection.command(&words).map_err(|error| error.to_string())?;
        self.done.sent += 1;
        // Errors about a wrong type or a non-number are expected.
        if !matches!(reply, Value::Error(_)) {
            self.note(KeyKind::Mixed, key, What::Other, sent);
        }
        Ok(())
    }
}

/// Commands on mixed keys, by type. Their results must not depend only on the server that runs
/// them.
const MIXED: [&[&str]; 8] = [
    &[
        "SET KEY ELEMENT",
        "APPEND KEY ELEMENT",
        "SETRANGE KEY NUMBER x",
        "SETBIT KEY NUMBER 1",
        "SET KEY NUMBER",
        "INCRBY KEY NUMBER",
        "GETSET KEY ELEMENT",
    ],
    &["SADD KEY ELEMENT", "SADD KEY ELEMENT NUMBER", "SREM KEY ELEMENT", "SPOP KEY"],
    &["HSET KEY ELEMENT NUMBER", "HDEL KEY ELEMENT", "HINCRBY KEY ELEMENT NUMBER", "HSETNX KEY ELEMENT 1"],
    &[
        "ZADD KEY NUMBER ELEMENT",
        "ZINCRBY KEY NUMBER ELEMENT",
        "ZREM KEY ELEMENT",
        "ZADD KEY XX NUMBER ELEMENT",
        "ZPOPMIN KEY",
    ],
    &[
        "RPUSH KEY ELEMENT",
        "LPUSH KEY ELEMENT NUMBER",
        "LPOP KEY",
        "RPOP KEY",
        "LREM KEY 1 ELEMENT",
        "LTRIM KEY -20 -1",
        "LSET KEY 0 ELEMENT",
    ],
    &["XADD KEY * ELEMENT NUMBER", "XADD KEY MAXLEN 20 * ELEMENT NUMBER", "XTRIM KEY MAXLEN 10"],
    &[
        r#"JSON.SET KEY $ {"o":{"n":1},"l":[1]}"#,
        "JSON.SET KEY $.o.ELEMENT NUMBER",
        "JSON.SET KEY $.o NUMBER",
        r#"JSON.SET KEY $.o {"n":NUMBER,"ELEMENT":null}"#,
        "JSON.DEL KEY $.o.ELEMENT",
        "JSON.DEL KEY $.o",
        "JSON.NUMINCRBY KEY $.o.n NUMBER",
        "JSON.NUMINCRBY KEY $..n 1.5",
        "JSON.ARRAPPEND KEY $.l NUMBER",
        r#"JSON.MERGE KEY $ {"o":{"ELEMENT":NUMBER,"n":null}}"#,
        "JSON.STRAPPEND KEY $.* \"ELEMENT\"",
    ],
    &[
        "VADD KEY VALUES 2 NUMBER 1 ELEMENT",
        "VADD KEY VALUES 2 1 NUMBER ELEMENT SETATTR NUMBER",
        "VADD KEY VALUES 3 1 NUMBER 1 ELEMENT NOQUANT",
        "VSETATTR KEY ELEMENT NUMBER",
        "VREM KEY ELEMENT",
    ],
];
