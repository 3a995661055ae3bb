// SPDX-License-Identifier: BSD-3-Clause
//! Clients that each write to one region, and record the outcomes.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use braid_tests::{RawClient, Value, words};
use fastrand::Rng;

use super::asking::connect;
use super::ledger::{ElementKind, Operation, What};

const CLIENTS_EACH: usize = 2;
const PAUSE: Duration = Duration::from_millis(3);
/// Time limit for a reply, because the server may be stopped.
const PATIENCE: Duration = Duration::from_secs(2);
/// Number of keys of each kind, including those with counters.
const KEYS: u8 = 3;

/// The clients of a round.
pub struct Clients {
    start: Instant,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Operation>>>,
}

impl Clients {
    /// Starts clients at all regions. Key names contain the round's number.
    pub fn start(addresses: Vec<IpAddr>, round: u64, mut random: Rng) -> Clients {
        let (stop, values) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let start = Instant::now();
        let mut threads = Vec::new();
        for (region, address) in addresses.into_iter().enumerate() {
            for _ in 0..CLIENTS_EACH {
                let client = Client {
                    region,
                    address,
                    round,
                    start,
                    values: Arc::clone(&values),
                    connection: None,
                    random: random.fork(),
                    known: Vec::new(),
                    done: Vec::new(),
                };
                let stop = Arc::clone(&stop);
                threads.push(std::thread::spawn(move || client.run(&stop)));
            }
        }
        Clients { start, stop, threads }
    }

    /// Microseconds since the start, the unit of recorded operations.
    pub fn now(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    /// Stops the clients and returns their operations.
    pub fn stop(self) -> Vec<Operation> {
        self.stop.store(true, Relaxed);
        let threads = self.threads.into_iter();
        threads.flat_map(|thread| thread.join().expect("no client panics")).collect()
    }
}

/// An element that this client has added.
struct Known {
    kind: ElementKind,
    key: String,
    element: u64,
    /// The ID of a stream entry.
    id: String,
}

struct Client {
    region: usize,
    address: IpAddr,
    round: u64,
    start: Instant,
    values: Arc<AtomicU64>,
    connection: Option<RawClient>,
    random: Rng,
    known: Vec<Known>,
    done: Vec<Operation>,
}

impl Client {
    fn run(mut self, stop: &AtomicBool) -> Vec<Operation> {
        while !stop.load(Relaxed) {
            std::thread::sleep(PAUSE);
            if self.connection.is_none() {
                self.connection = connect(self.address, PATIENCE);
                continue;
            }
            match self.random.u8(0..10) {
                0..4 => self.add(),
                4..6 => self.remove(),
                6..8 => self.count(),
                _ => self.mix(),
            }
        }
        self.done
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_micros() as u64
    }

    fn key(&mut self, name: &str) -> String {
        format!("{name}:{}:{}", self.round, self.random.u8(0..KEYS))
    }

    /// Sends a command; `None` without a reply.
    fn send(&mut self, line: &str) -> Option<Value> {
        let connection = self.connection.as_mut()?;
        let sent = connection.try_send(&words::encode(&braid_tests::words(line)));
        let reply = sent.ok().and_then(|()| connection.try_read().ok());
        if reply.is_none() {
            self.connection = None;
        }
        reply
    }

    /// Sends a command and records it, unless it is refused. Returns the reply, if there is one.
    fn note(&mut self, kind: ElementKind, key: &str, what: What, line: &str) -> Option<Value> {
        let reply = self.send(line);
        if reply.as_ref().is_some_and(Value::is_error) {
            return None;
        }
        let (region, done) = (self.region, reply.as_ref().map(|_| self.now()));
        self.done.push(Operation { region, kind, key: key.to_owned(), what, done });
        reply
    }

    fn add(&mut self) {
        let kind = ElementKind::WITH_ELEMENTS[self.random.usize(..ElementKind::WITH_ELEMENTS.len())];
        let element = self.values.fetch_add(1, Relaxed) + 1;
        let key = match kind {
            // Each element is a separate key.
            ElementKind::Key => format!("key:{}:{element}", self.round),
            _ => self.key(kind.name()),
        };
        let line = match kind {
            ElementKind::Set => format!("SADD {key} {element}"),
            ElementKind::Hash => format!("HSET {key} {element} x"),
            ElementKind::SortedSet => format!("ZADD {key} {} {element}", self.random.u8(..)),
            ElementKind::List if self.random.bool() => format!("LPUSH {key} {element}"),
            ElementKind::List => format!("RPUSH {key} {element}"),
            ElementKind::Stream => format!("XADD {key} * e {element}"),
            ElementKind::Key => format!("SET {key} {element}"),
            ElementKind::Counter => unreachable!("counters have no elements"),
        };
        if let Some(reply) = self.note(kind, &key, What::Add(element), &line) {
            self.known.push(Known { kind, key, element, id: reply.text() });
        }
    }

    /// Removes an element that this client has added, and thus seen.
    fn remove(&mut self) {
        if self.known.is_empty() {
            return;
        }
        let place = self.random.usize(..self.known.len());
        let Known { kind, key, element, id } = self.known.swap_remove(place);
        let line = match kind {
            ElementKind::Set => format!("SREM {key} {element}"),
            ElementKind::Hash => format!("HDEL {key} {element}"),
            ElementKind::SortedSet => format!("ZREM {key} {element}"),
            ElementKind::List => format!("LREM {key} 1 {element}"),
            ElementKind::Stream => format!("XDEL {key} {id}"),
            ElementKind::Key | ElementKind::Counter => format!("DEL {key}"),
        };
        // A removal may find nothing, because a kill has lost the element.
        self.note(kind, &key, What::Remove(element), &line);
    }

    fn count(&mut self) {
        let by = self.random.u64(1..10);
        let (key, line) = match self.random.u8(0..4) {
            0 => {
                let key = self.key("counter");
                (key.clone(), format!("INCRBY {key} {by}"))
            }
            1 => {
                let key = self.key("floats");
                (key.clone(), format!("INCRBYFLOAT {key} {by}"))
            }
            2 => {
                let key = self.key("hashes");
                (key.clone(), format!("HINCRBY {key} f {by}"))
            }
            _ => {
                let key = self.key("scores");
                (key.clone(), format!("ZINCRBY {key} {by} f"))
            }
        };
        self.note(ElementKind::Counter, &key, What::Count(by), &line);
    }

    /// An operation that conflicts with those of other clients: all regions must agree on the
    /// result, and nothing more is checked.
    fn mix(&mut self) {
        let key = self.key("mixed");
        let (element, number) = (self.random.u8(0..8), self.random.u8(0..40));
        let line = MIXED[self.random.usize(..MIXED.len())];
        let line = line.replace("KEY", &key).replace("ELEMENT", &format!("m{element}"));
        let line = line.replace("NUMBER", &number.to_string());
        for part in line.split("; ") {
            self.send(part);
        }
    }
}

const MIXED: [&str; 34] = [
    "SET KEY ELEMENT",
    "APPEND KEY ELEMENT",
    "SETRANGE KEY NUMBER x",
    "SETBIT KEY NUMBER 1",
    "INCRBY KEY NUMBER",
    "GETSET KEY ELEMENT",
    "GETDEL KEY",
    "DEL KEY",
    "SADD KEY ELEMENT NUMBER",
    "SREM KEY ELEMENT",
    "SPOP KEY",
    "HSET KEY ELEMENT NUMBER",
    "HDEL KEY ELEMENT",
    "HINCRBY KEY ELEMENT NUMBER",
    "ZADD KEY NUMBER ELEMENT",
    "ZINCRBY KEY NUMBER ELEMENT",
    "ZREM KEY ELEMENT",
    "ZPOPMIN KEY",
    "RPUSH KEY ELEMENT",
    "LPUSH KEY ELEMENT NUMBER",
    "LPOP KEY",
    "RPOP KEY",
    "LREM KEY 1 ELEMENT",
    "LTRIM KEY -20 -1",
    "LSET KEY 0 ELEMENT",
    "LINSERT KEY BEFORE ELEMENT NUMBER",
    "XADD KEY * ELEMENT NUMBER",
    "XTRIM KEY MAXLEN 10",
    "XDEL KEY 0-1",
    "COPY KEY KEYcopy REPLACE",
    "RENAME KEYcopy KEYrenamed",
    "SUNIONSTORE KEYunion KEY KEYunion",
    "MULTI; SADD KEYs ELEMENT; HINCRBY KEYh ELEMENT 1; RPUSH KEYl ELEMENT; EXEC",
    "MULTI; SET KEYa NUMBER; SET KEYb NUMBER; DEL KEYs; EXEC",
];
