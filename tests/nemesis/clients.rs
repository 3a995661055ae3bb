// SPDX-License-Identifier: BSD-3-Clause
//! Clients that use the server that claims to be the primary, and record their operations and
//! observations.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use braid_tests::{RawClient, Value, wait_for, words};

use crate::history::{Action, History, Operation, Outcome};

const CLIENTS: usize = 4;
/// Time limit for a reply. Longer than a failover, or most outcomes would be unknown.
const PATIENCE: Duration = Duration::from_millis(1500);
const CONNECT_PATIENCE: Duration = Duration::from_millis(300);
/// Approximate pause between a client's operations.
const PAUSE: Duration = Duration::from_millis(4);
/// Lists, sets and counters: new ones at this interval, so that they stay short.
const KEY_SECONDS: u64 = 60;
/// Registers: new ones at this interval, because the cost of checking one grows quickly with its
/// length.
const REGISTER_MILLISECONDS: u64 = 150;

/// The running clients.
pub struct Workload {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Operation>>>,
}

struct Client {
    number: usize,
    addresses: Vec<SocketAddr>,
    start: Instant,
    values: Arc<AtomicU64>,
    connection: Option<RawClient>,
    random: fastrand::Rng,
}

impl Workload {
    pub fn start(addresses: Vec<SocketAddr>) -> Workload {
        let (stop, values) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let start = Instant::now();
        let threads = (0..CLIENTS).map(|number| {
            let (addresses, stop, values) = (addresses.clone(), Arc::clone(&stop), Arc::clone(&values));
            let random = fastrand::Rng::with_seed(number as u64);
            let client = Client { number, addresses, start, values, connection: None, random };
            std::thread::spawn(move || client.run(&stop))
        });
        Workload { threads: threads.collect(), stop }
    }

    /// Stops the clients, and reads the final state from the primary.
    pub fn stop(self, addresses: &[SocketAddr]) -> History {
        self.stop.store(true, Relaxed);
        let threads = self.threads.into_iter();
        let operations: Vec<Operation> =
            threads.flat_map(|thread| thread.join().expect("no client panics")).collect();
        let mut history = History { operations, ..History::default() };
        let mut primary = None;
        wait_for("a primary answers", || {
            primary = addresses.iter().find_map(|&address| connect(address));
            primary.is_some()
        });
        let mut primary = primary.expect("found");
        let keys = |action: Action| {
            let used = history.operations.iter().filter(|one| one.action == action);
            let mut keys: Vec<String> = used.map(|one| one.key.clone()).collect();
            keys.sort_unstable();
            keys.dedup();
            keys
        };
        let mut all = |command: &str, keys: Vec<String>| -> Vec<(String, Vec<u64>)> {
            let read = |key: String| {
                let numbers = numbers(&primary.call(&command.replace("KEY", &key)));
                (key, numbers.expect("numbers"))
            };
            keys.into_iter().map(read).collect()
        };
        let lists = all("LRANGE KEY 0 -1", keys(Action::Push));
        let sets = all("SMEMBERS KEY", keys(Action::Add));
        let counters = all("GET KEY", keys(Action::Count));
        let counters = counters.into_iter().map(|(key, count)| (key, count.first().copied().unwrap_or(0)));
        (history.lists, history.sets, history.counters) = (lists, sets, counters.collect());
        history
    }
}

/// A connection to a server that claims to be the primary.
fn connect(address: SocketAddr) -> Option<RawClient> {
    let socket = TcpStream::connect_timeout(&address, CONNECT_PATIENCE).ok()?;
    let mut client = RawClient::from_tcp(socket).ok()?;
    client.set_patience(PATIENCE).ok()?;
    client.try_send(b"*1\r\n$4\r\nROLE\r\n").ok()?;
    client.try_read().ok()?.to_string().contains("master").then_some(client)
}

/// The numbers of a reply; `None` if it is an error.
fn numbers(reply: &Value) -> Option<Vec<u64>> {
    let number = |value: &Value| value.text().parse().ok();
    match reply {
        Value::Integer(number) => Some(vec![*number as u64]),
        Value::NullBulk => Some(Vec::new()),
        Value::Array(items) => items.iter().map(number).collect(),
        reply if reply.is_error() => None,
        Value::Bulk(_) => Some(vec![number(reply)?]),
        _ => Some(Vec::new()),
    }
}

/// True if the error means that nothing was executed. Other errors leave that open.
fn says_not_executed(error: &str) -> bool {
    ["READONLY", "MASTERDOWN", "NOREPLICAS", "LOADING", "UNBLOCKED"]
        .iter()
        .any(|word| error.starts_with(word))
}

impl Client {
    fn run(mut self, stop: &AtomicBool) -> Vec<Operation> {
        let mut done = Vec::new();
        // An operation with an unknown outcome may never end, so the following ones belong to a
        // new client.
        let mut life = 0;
        while !stop.load(Relaxed) {
            std::thread::sleep(PAUSE);
            if self.connection.is_none() {
                self.random.shuffle(&mut self.addresses);
                self.connection = self.addresses.iter().find_map(|&address| connect(address));
                continue;
            }
            let operation = self.act(self.number + CLIENTS * life);
            life += usize::from(operation.outcome == Outcome::Unknown);
            done.push(operation);
        }
        done
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    fn act(&mut self, client: usize) -> Operation {
        let actions = [Action::Push, Action::List, Action::Count, Action::Add, Action::Write, Action::Read];
        let action = actions[self.random.usize(..actions.len())];
        let window = match action {
            Action::Write | Action::Read => self.start.elapsed().as_millis() as u64 / REGISTER_MILLISECONDS,
            _ => self.start.elapsed().as_secs() / KEY_SECONDS,
        };
        let (letter, command) = match action {
            Action::Push => ('l', "RPUSH"),
            Action::List => ('l', "LRANGE"),
            Action::Count => ('c', "INCR"),
            Action::Add => ('s', "SADD"),
            Action::Write => ('r', "SET"),
            Action::Read => ('r', "GET"),
        };
        let key = format!("{letter}{window}");
        let value = match action {
            Action::Push | Action::Add | Action::Write => self.values.fetch_add(1, Relaxed) + 1,
            _ => 0,
        };
        let text = value.to_string();
        let request: Vec<&str> = match action {
            Action::List => vec![command, &key, "0", "-1"],
            Action::Count | Action::Read => vec![command, &key],
            _ => vec![command, &key, &text],
        };
        let sent = self.now();
        let outcome = self.ask(&words::encode(&request), action);
        Operation { client, action, key, value, sent, ended: self.now(), outcome }
    }

    fn ask(&mut self, request: &[u8], action: Action) -> Outcome {
        let Some(connection) = &mut self.connection else { return Outcome::Fail };
        let reply = match connection.try_send(request) {
            Ok(()) => connection.try_read().ok(),
            Err(_) => None,
        };
        let Some(reply) = reply else {
            self.connection = None;
            return Outcome::Unknown;
        };
        match numbers(&reply) {
            Some(_) if matches!(action, Action::Push | Action::Add | Action::Write) => {
                Outcome::Ok(Vec::new())
            }
            Some(numbers) => Outcome::Ok(numbers),
            None => {
                self.connection = None;
                if says_not_executed(&reply.text()) { Outcome::Fail } else { Outcome::Unknown }
            }
        }
    }
}
