// SPDX-License-Identifier: BSD-3-Clause
//! Clients that record their operations and observations.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use braid_tests::{Value, wait_for, words};

use crate::history::{Action, History, Operation, Outcome};
use crate::route::Route;

const CLIENTS: usize = 4;
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
    start: Instant,
    /// When the last write that was acknowledged was sent, in nanoseconds since the start.
    acknowledged: Arc<AtomicU64>,
    threads: Vec<JoinHandle<Vec<Operation>>>,
}

struct Client {
    number: usize,
    /// Added to the keys; selects their slots.
    tags: Vec<String>,
    start: Instant,
    values: Arc<AtomicU64>,
    acknowledged: Arc<AtomicU64>,
    route: Route,
    random: fastrand::Rng,
}

impl Workload {
    /// Starts the clients, each with a route of its own. Keys end in one of the tags.
    pub fn start(route: impl Fn() -> Route, tags: &[String]) -> Workload {
        let (stop, values) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let acknowledged = Arc::new(AtomicU64::new(0));
        let start = Instant::now();
        let threads = (0..CLIENTS).map(|number| {
            let (stop, values, acknowledged) =
                (Arc::clone(&stop), Arc::clone(&values), Arc::clone(&acknowledged));
            let random = fastrand::Rng::with_seed(number as u64);
            let tags = tags.to_vec();
            let client = Client { number, tags, start, values, acknowledged, route: route(), random };
            std::thread::spawn(move || client.run(&stop))
        });
        Workload { threads: threads.collect(), stop, start, acknowledged }
    }

    /// True if a write has been acknowledged that was sent after this time.
    pub fn acknowledged_since(&self, time: Instant) -> bool {
        u128::from(self.acknowledged.load(Relaxed)) > time.duration_since(self.start).as_nanos()
    }

    /// Stops the clients, and reads the final state.
    pub fn stop(self, mut route: Route) -> History {
        self.stop.store(true, Relaxed);
        let threads = self.threads.into_iter();
        let operations: Vec<Operation> =
            threads.flat_map(|thread| thread.join().expect("no client panics")).collect();
        let mut history = History { operations, ..History::default() };
        let mut random = fastrand::Rng::with_seed(0);
        let keys = |action: Action| {
            let used = history.operations.iter().filter(|one| one.action == action);
            let mut keys: Vec<String> = used.map(|one| one.key.clone()).collect();
            keys.sort_unstable();
            keys.dedup();
            keys
        };
        let mut all = |command: &str, keys: Vec<String>| -> Vec<(String, Vec<u64>)> {
            let read = |key: String| {
                let request = words::encode(&words(&command.replace("KEY", &key)));
                let mut read = None;
                wait_for(&format!("an answer about {key}"), || {
                    let is_ready = route.prepare(&mut random);
                    let reply = is_ready.then(|| route.ask(&key, &request, &mut random)).flatten();
                    read = reply.as_ref().and_then(numbers);
                    read.is_some()
                });
                (key, read.expect("numbers"))
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
    let words = ["READONLY", "MASTERDOWN", "NOREPLICAS", "LOADING", "UNBLOCKED", "MISCONF"];
    let of_clusters = ["CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK"];
    words.iter().chain(&of_clusters).any(|word| error.starts_with(word))
}

impl Client {
    fn run(mut self, stop: &AtomicBool) -> Vec<Operation> {
        let mut done = Vec::new();
        // An operation with an unknown outcome may never end, so the following ones belong to a
        // new client.
        let mut life = 0;
        while !stop.load(Relaxed) {
            std::thread::sleep(PAUSE);
            if !self.route.prepare(&mut self.random) {
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
        let tag = self.random.choice(&self.tags).map_or("", String::as_str);
        let key = format!("{letter}{window}{tag}");
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
        let outcome = self.ask(&key, &words::encode(&request), action);
        let operation = Operation { client, action, key, value, sent, ended: self.now(), outcome };
        if operation.is_acknowledged() {
            self.acknowledged.fetch_max(sent, Relaxed);
        }
        operation
    }

    fn ask(&mut self, key: &str, request: &[u8], action: Action) -> Outcome {
        let Some(reply) = self.route.ask(key, request, &mut self.random) else { return Outcome::Unknown };
        match numbers(&reply) {
            Some(_) if matches!(action, Action::Push | Action::Add | Action::Write) => {
                Outcome::Ok(Vec::new())
            }
            Some(numbers) => Outcome::Ok(numbers),
            None if says_not_executed(&reply.text()) => Outcome::Fail,
            None => Outcome::Unknown,
        }
    }
}
