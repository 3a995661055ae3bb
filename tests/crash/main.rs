// SPDX-License-Identifier: BSD-3-Clause
//! Servers killed in the middle of their work, alone or by a power failure: acknowledged writes are
//! there after a restart, and the data is a state that clients could have seen.
//!
//!   cargo test -p braid-tests --test crash
//!   BRAID_ROUNDS=200 cargo test -p braid-tests --test crash   more kills (default: 3 of each kind)

mod disk;
mod held;
mod journal;
mod replaced;
mod search;
mod switch;
mod sync;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use braid_tests::acknowledged::Known;
use braid_tests::random::{number, source};
use braid_tests::server::is_braid;
use braid_tests::small_disk::Place;
use braid_tests::{RawClient, TestServer, Value, words};
use rustix::process::Signal;

const CLIENTS: usize = 8;
/// Number of a client's transactions in flight.
const PIPELINE: usize = 8;
/// After this many kills or transactions the next server starts empty, so that the data to read
/// after each round stays bounded.
const ROUNDS_OF_A_FOLDER: u64 = 10;
const TRANSACTIONS_OF_A_FOLDER: u64 = 200_000;
/// Size of a disk whose power fails.
const DISK_BYTES: u64 = 512 << 20;

/// How a server ends.
#[derive(Clone, Copy)]
enum Ending {
    Killed,
    /// What it has not forced to the disk is lost as well.
    PowerFailure,
}

impl Ending {
    /// Where a server has its files. `None`, with a message, if the test may not mount a disk.
    fn place(self) -> Option<Place> {
        match self {
            Ending::Killed => Some(Place::folder()),
            Ending::PowerFailure => Place::disk(DISK_BYTES),
        }
    }
}

/// The common list as an observer has read it so far.
type Seen = Mutex<Vec<String>>;

fn arguments(folder: &Path, more: &[&str]) -> Vec<String> {
    let folder = folder.to_str().expect("a readable path");
    let own = ["--dir", folder, "--io-threads", "2"];
    own.iter().chain(more).map(|&argument| argument.to_owned()).collect()
}

fn start(folder: &Path, more: &[&str]) -> TestServer {
    let arguments = arguments(folder, more);
    TestServer::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Commands of a transaction.
const COMMANDS: usize = 8;

/// A document of a megabyte, of which transactions change a part.
fn document() -> String {
    let records: Vec<String> =
        (0..10_000).map(|number| format!("\"r{number}\":\"{}\"", "x".repeat(90))).collect();
    format!("{{\"number\":0,\"records\":{{{}}}}}", records.join(","))
}

/// A transaction over its client's own keys and shared ones: a reader that sees one part of it
/// must see all of it.
fn transaction(client: usize, number: u64) -> Vec<u8> {
    let number = number.to_string();
    let own = |name: &str| format!("{name}:{client}");
    let lines: [&[&str]; COMMANDS] = [
        &["MULTI"],
        &["INCR", "all:count"],
        &["RPUSH", "all", &format!("{client}:{number}")],
        &["SET", &own("last"), &number],
        &["HSET", &own("hash"), &number, &"x".repeat(client * 30)],
        &["JSON.NUMINCRBY", &own("document"), "$.number", "1"],
        &["JSON.SET", &own("document"), "$.records.last", &number],
        &["EXEC"],
    ];
    lines.iter().map(|line| words::encode(line)).collect::<Vec<_>>().concat()
}

/// Sends transactions until the server is gone.
fn work(server: &TestServer, number: usize, begin: u64) -> Known {
    let mut known = Known { sent: begin, acknowledged: Vec::new() };
    let Ok(mut client) = RawClient::tcp(server.address()) else { return known };
    let mut acknowledged = begin;
    let own = format!("document:{number}");
    if client.try_send(&words::encode(&["JSON.SET", &own, "$", &document(), "NX"])).is_err()
        || client.try_read().is_err()
    {
        return known;
    }
    loop {
        let pipeline: Vec<u8> = (0..PIPELINE as u64)
            .map(|at| transaction(number, known.sent + at + 1))
            .collect::<Vec<_>>()
            .concat();
        known.sent += PIPELINE as u64;
        if client.try_send(&pipeline).is_err() {
            return known;
        }
        for _ in 0..PIPELINE {
            let replies = (0..COMMANDS).map(|_| client.try_read()).collect::<Result<Vec<_>, _>>();
            match replies {
                Ok(replies) if matches!(replies[COMMANDS - 1], Value::Array(_)) => {
                    acknowledged += 1;
                    known.acknowledged.push((Instant::now(), acknowledged));
                }
                Ok(replies) => panic!("{replies:?}"),
                Err(_) => return known,
            }
        }
    }
}

/// Reads the common list until the server is gone.
fn observe(server: &TestServer, seen: &Seen) {
    let Ok(mut client) = RawClient::tcp(server.address()) else { return };
    loop {
        let known = seen.lock().expect("no thread panicked while holding it").len();
        client.send(&words::encode(&["LRANGE", "all", &known.to_string(), "-1"]));
        let Ok(Value::Array(items)) = client.try_read() else { return };
        seen.lock().expect("no thread panicked while holding it").extend(items.iter().map(Value::text));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A server's data after a restart.
struct Found {
    all: Vec<String>,
    /// The last transaction of each client.
    last: Vec<u64>,
}

/// Reads the whole dataset and asserts that it consists of complete transactions.
#[track_caller]
fn read(server: &TestServer) -> Found {
    let mut client = server.connect();
    let all: Vec<String> = match client.call("LRANGE all 0 -1") {
        Value::Array(items) => items.iter().map(Value::text).collect(),
        other => panic!("{other:?}"),
    };
    let count = client.call("GET all:count");
    assert_eq!(all.len().to_string(), if all.is_empty() { "0".into() } else { count.text() });
    let mut per_client: HashMap<usize, u64> = HashMap::new();
    for item in &all {
        let (number, transaction) = item.split_once(':').expect("a client and a number");
        let last = per_client.entry(number.parse().expect("a number")).or_default();
        assert_eq!(transaction.parse(), Ok(*last + 1), "{item}: a transaction is missing or out of order");
        *last += 1;
    }
    let last = (0..CLIENTS).map(|number| per_client.get(&number).copied().unwrap_or(0)).collect::<Vec<_>>();
    for (number, last) in last.iter().enumerate() {
        let expected = if *last == 0 { Value::NullBulk } else { Value::bulk(last.to_string()) };
        assert_eq!(client.call(&format!("GET last:{number}")), expected);
        assert_eq!(client.call(&format!("HLEN hash:{number}")).integer(), Some(*last as i64));
        if *last > 0 {
            let paths = format!("JSON.GET document:{number} $.number $.records.last");
            let expected = format!("{{\"$.number\":[{last}],\"$.records.last\":[{last}]}}");
            assert_eq!(client.call(&paths).text(), expected);
            let kept = client.call(&format!("JSON.OBJLEN document:{number} $.records"));
            assert_eq!(kept.elements().and_then(|all| all[0].integer()), Some(10_001));
        }
    }
    Found { all, last }
}

/// Repeatedly kills a server at random moments; `check` gets the data found, the clients'
/// records, the time of the kill, and the observed list.
fn kill_again_and_again(
    test: &str,
    ending: Ending,
    more: &[&str],
    every_now_and_then: &[&str],
    longest_ms: u64,
    check: impl Fn(&Found, &[Known], Instant, &[String]),
) {
    if !is_braid() {
        return;
    }
    let mut random = source(test);
    let Some(mut place) = ending.place() else { return };
    let mut begin = [0; CLIENTS];
    for round in 0..number("BRAID_ROUNDS", 3) {
        let is_full = begin.iter().sum::<u64>() > TRANSACTIONS_OF_A_FOLDER;
        if is_full || round > 0 && round % ROUNDS_OF_A_FOLDER == 0 {
            place = ending.place().expect("as before");
            begin = [0; CLIENTS];
        }
        let server = start(place.path(), more);
        let (seen, done) = (Seen::default(), AtomicBool::new(false));
        let life = Duration::from_millis(random.u64(1..longest_ms));
        let (known, killed_at) = std::thread::scope(|scope| {
            let (server, seen, done) = (&server, &seen, &done);
            let workers: Vec<_> = (0..CLIENTS)
                .map(|number| {
                    let begin = begin[number];
                    scope.spawn(move || work(server, number, begin))
                })
                .collect();
            scope.spawn(move || observe(server, seen));
            scope.spawn(move || {
                let Ok(mut client) = RawClient::tcp(server.address()) else { return };
                for request in every_now_and_then.iter().cycle() {
                    if done.load(Relaxed)
                        || client.try_send(&braid_tests::request(request)).is_err()
                        || client.try_read().is_err()
                    {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            std::thread::sleep(life);
            let killed_at = Instant::now();
            server.signal(Signal::KILL);
            done.store(true, Relaxed);
            let known =
                workers.into_iter().map(|worker| worker.join().expect("no panic")).collect::<Vec<_>>();
            (known, killed_at)
        });
        drop(server);
        place.fail_power();
        let server = start(place.path(), more);
        let found = read(&server);
        println!("{test}, round {round}: {} transactions after {life:?}", found.all.len());
        let seen = seen.into_inner().expect("no thread panicked while holding it");
        let common = seen.len().min(found.all.len());
        assert_eq!(found.all[..common], seen[..common], "the loaded list differs from the observed one");
        for (number, known) in known.iter().enumerate() {
            assert!(found.last[number] <= known.sent);
        }
        check(&found, &known, killed_at, &seen);
        begin.copy_from_slice(&found.last);
    }
}

#[track_caller]
fn assert_has(found: &Found, known: &[Known], acknowledged_before: Instant) {
    for (number, known) in known.iter().enumerate() {
        let promised = known.acknowledged_by(acknowledged_before);
        assert!(found.last[number] >= promised, "client {number}: {} of {promised}", found.last[number]);
    }
}

const ON: &[&str] = &["--appendonly", "yes", "--auto-aof-rewrite-percentage", "0"];

fn nothing_acknowledged_is_lost(
    test: &str,
    ending: Ending,
    more: &[&str],
    every_now_and_then: &[&str],
    longest_ms: u64,
) {
    let more = [&["--appendfsync", "always"], more].concat();
    kill_again_and_again(test, ending, &more, every_now_and_then, longest_ms, |found, known, _, seen| {
        assert_has(found, known, Instant::now());
        assert!(found.all.len() >= seen.len(), "a value that a client had read is missing");
    });
}

fn at_most_two_seconds_are_lost(test: &str, ending: Ending, more: &[&str]) {
    let more = [&["--appendfsync", "everysec"], more].concat();
    kill_again_and_again(test, ending, &more, &["BGREWRITEAOF"], 3000, |found, known, killed_at, _| {
        assert_has(found, known, killed_at.checked_sub(Duration::from_secs(2)).unwrap_or(killed_at));
    });
}

#[test]
fn with_fsync_always_nothing_that_was_acknowledged_is_lost() {
    nothing_acknowledged_is_lost("always", Ending::Killed, ON, &["BGREWRITEAOF"], 600);
}

#[test]
fn with_fsync_always_a_power_failure_loses_nothing_that_was_acknowledged() {
    nothing_acknowledged_is_lost("power, always", Ending::PowerFailure, ON, &["BGREWRITEAOF"], 600);
}

#[test]
fn with_fsync_always_a_power_failure_loses_nothing_that_was_acknowledged_by_an_active_active_server() {
    let more = [ON, &["--active-replica", "yes"]].concat();
    nothing_acknowledged_is_lost("power, active", Ending::PowerFailure, &more, &["BGREWRITEAOF"], 600);
}

#[test]
fn with_fsync_every_second_at_most_two_seconds_are_lost() {
    at_most_two_seconds_are_lost("everysec", Ending::Killed, ON);
}

#[test]
fn with_fsync_every_second_a_power_failure_loses_at_most_two_seconds() {
    at_most_two_seconds_are_lost("power, everysec", Ending::PowerFailure, ON);
}

#[test]
fn a_power_failure_loses_at_most_two_seconds_of_an_active_active_server() {
    at_most_two_seconds_are_lost("power, active alone", Ending::PowerFailure, &["--active-replica", "yes"]);
}

#[test]
fn a_dump_file_is_a_state_that_was_there() {
    kill_again_and_again("dump file", Ending::Killed, &[], &["BGSAVE"], 600, |_, _, _, _| ());
}

#[test]
fn a_dump_file_is_a_state_that_was_there_before_a_power_failure() {
    kill_again_and_again("power, dump file", Ending::PowerFailure, &[], &["BGSAVE"], 600, |_, _, _, _| ());
}

#[test]
fn aof_with_concurrent_saves_loses_no_acknowledged_write() {
    let more = [ON, &["--save", "1 100"]].concat();
    let turns = ["BGREWRITEAOF", "BGSAVE SCHEDULE", "BGSAVE", "BGREWRITEAOF"];
    nothing_acknowledged_is_lost("mixed", Ending::Killed, &more, &turns, 900);
}
