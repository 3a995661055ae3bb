// SPDX-License-Identifier: BSD-3-Clause
//! Prefix consistency: readers of a replica see a state that the primary had. They never see a
//! later change without an earlier one, never part of a transaction, and never an older state
//! after a newer one.
//!
//! Writers count upwards in keys, in a known order; readers query these keys in all ways and
//! orders, and [`history`] judges the replies. A server without locks (`without_locks`) proves that
//! the test can fail: as a replica it applies the requests of a batch one by one, sorted by key.

mod history;

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use braid_tests::client::ReadError;
use braid_tests::random::source;
use braid_tests::server::{Options, without_locks};
use braid_tests::{RawClient, TestServer, Value, request, wait_for};
use rustix::process::Signal;

use crate::{figure, primary, wait_until_in_sync};
use history::{Observer, STEPS, Seen, Violation};

const WRITERS: usize = 3;
const READERS: usize = 3;
/// Duration of the test of each manner.
const DURATION: Duration = Duration::from_millis(1500);
/// Twice the number of received bytes from which on all threads take part in applying them.
const MUCH: i64 = 400 << 10;

/// How changes reach the replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    /// In small batches, applied by the link's thread.
    Steady,
    /// Held back at times, and then applied by all threads.
    Bursts,
    /// By full syncs, because too much was missed while a link was cut.
    FullSyncs,
}

/// How a reading thread ended.
enum Outcome {
    /// The number of reads, and the last round seen of each writer.
    Fine(u64, Vec<u64>),
    Violation(Violation),
    /// The server is gone.
    Gone,
}

struct Load<'a> {
    primary: &'a TestServer,
    replica: &'a TestServer,
    stop: AtomicBool,
    /// Rounds written by all writers.
    rounds: AtomicU64,
}

impl Load<'_> {
    fn is_over(&self) -> bool {
        self.stop.load(SeqCst)
    }

    fn write(&self, writer: usize, mut random: fastrand::Rng) {
        // A change acknowledged on one connection precedes later changes on the other one.
        let mut clients = [self.primary.connect(), self.primary.connect()];
        let (mut round, padding) = (0_u64, "x".repeat(600));
        while !self.is_over() {
            let client = &mut clients[random.usize(..2)];
            let (mut sent, mut requests) = (Vec::new(), 0);
            for _ in 0..random.u64(1..20) {
                round += 1;
                for keys in STEPS {
                    let key = |index: usize| format!("{{{writer}}}{}", keys[index]);
                    let lines = match (keys[0], keys.len()) {
                        ("multi0", _) => vec![
                            "MULTI".into(),
                            format!("SET {} {round}", key(0)),
                            format!("SET {} {round}", key(1)),
                            "EXEC".into(),
                        ],
                        ("eval0", _) => {
                            let script = "for i = 1, 2 do redis.call('SET', KEYS[i], ARGV[1]) end";
                            vec![format!("EVAL \"{script}\" 2 {} {} {round}", key(0), key(1))]
                        }
                        (_, 2) => vec![format!("MSET {} {round} {} {round}", key(0), key(1))],
                        _ => vec![format!("SET {} {round}", key(0)), format!("SET pad:{writer} {padding}")],
                    };
                    requests += lines.len();
                    lines.iter().for_each(|line| sent.extend(request(line)));
                }
            }
            client.send(&sent);
            (0..requests).for_each(|_| assert!(!client.read().is_error()));
            self.rounds.fetch_add(1, SeqCst);
            // Readers need processor time too.
            std::thread::sleep(Duration::from_micros(random.u64(..2000)));
        }
    }

    fn read(&self, mut random: fastrand::Rng) -> Outcome {
        let mut observers: Vec<Observer> = (0..WRITERS).map(|_| Observer::default()).collect();
        let mut clients = [self.replica.connect(), self.replica.connect()];
        let mut reads = 0;
        while !self.is_over() {
            let writer = random.usize(..WRITERS);
            let mut keys: Vec<&'static str> = STEPS.iter().flat_map(|keys| keys.iter().copied()).collect();
            // The last keys first, which reveals premature changes; or in random order.
            keys.reverse();
            if random.bool() {
                random.shuffle(&mut keys);
            }
            let client = &mut clients[random.usize(..2)];
            let observations = match ask(client, writer, &keys, random.u32(..6)) {
                Ok(observations) => observations,
                Err(_) => return Outcome::Gone,
            };
            for values in observations {
                if let Err(violation) = observers[writer].note(&values) {
                    return Outcome::Violation(violation);
                }
                reads += 1;
            }
        }
        Outcome::Fine(reads, observers.iter().map(Observer::round).collect())
    }

    /// Disturbs the replica meanwhile.
    fn disturb(&self, manner: Manner) {
        let began = Instant::now();
        let (mut client, mut its) = (self.primary.connect(), self.replica.connect());
        while began.elapsed() < DURATION && !self.is_over() {
            match manner {
                Manner::Steady => std::thread::sleep(Duration::from_millis(10)),
                Manner::Bursts => {
                    its.ok("CLIENT PAUSE 10000 WRITE");
                    let applied = figure(&mut its, "replication", "slave_repl_offset");
                    wait_for("enough changes are pending", || {
                        self.is_over()
                            || figure(&mut client, "replication", "master_repl_offset") > applied + MUCH
                    });
                    its.ok("CLIENT UNPAUSE");
                    wait_for("the pending changes are applied", || {
                        self.is_over()
                            || figure(&mut its, "replication", "slave_repl_offset") > applied + MUCH
                    });
                }
                Manner::FullSyncs => {
                    let full_syncs = figure(&mut client, "stats", "sync_full");
                    self.replica.signal(Signal::STOP);
                    let rounds = self.rounds.load(SeqCst);
                    client.call("CLIENT KILL TYPE replica");
                    wait_for("the backlog no longer covers the replica", || {
                        self.rounds.load(SeqCst) > rounds + 30
                    });
                    self.replica.signal(Signal::CONT);
                    wait_for("a full sync", || figure(&mut client, "stats", "sync_full") > full_syncs);
                    wait_for("the link is up", || {
                        its.info_field("replication", "master_link_status").as_deref() == Some("up")
                    });
                }
            }
        }
    }
}

/// Queries a writer's keys in one of six ways. Each list holds values that were read at one
/// moment.
fn ask(
    client: &mut RawClient,
    writer: usize,
    keys: &[&'static str],
    way: u32,
) -> Result<Vec<Vec<Seen>>, ReadError> {
    let names: Vec<String> = keys.iter().map(|key| format!("{{{writer}}}{key}")).collect();
    let all = names.join(" ");
    let lines = match way {
        0 => vec![format!("MGET {all}")],
        1 => vec![format!("EVAL \"return redis.call('MGET', unpack(KEYS))\" {} {all}", keys.len())],
        // The script reads keys that it does not declare, so it runs alone.
        2 => vec![format!("EVAL \"return redis.call('MGET', unpack(ARGV))\" 0 {all}")],
        3 => {
            let gets = names.iter().map(|name| format!("GET {name}"));
            std::iter::once("MULTI".to_owned()).chain(gets).chain(["EXEC".to_owned()]).collect()
        }
        _ => names.iter().map(|name| format!("GET {name}")).collect(),
    };
    let mut replies = Vec::new();
    if way == 5 {
        // One request at a time.
        for line in &lines {
            let _ = client.try_send(&request(line));
            replies.push(client.try_read()?);
        }
    } else {
        let _ = client.try_send(&lines.iter().map(|line| request(line)).collect::<Vec<_>>().concat());
        for _ in &lines {
            replies.push(client.try_read()?);
        }
    }
    // Replies are errors while a full sync is being loaded.
    let values = |replies: &[Value]| -> Vec<Seen> {
        let read = keys.iter().copied().zip(replies).filter(|(_, reply)| !reply.is_error());
        read.map(|(key, reply)| (key, reply.text().parse().unwrap_or(0))).collect()
    };
    Ok(match way {
        0..=3 => {
            let last = replies.last().and_then(Value::elements);
            last.map(|replies| vec![values(replies)]).unwrap_or_default()
        }
        _ => values(&replies).into_iter().map(|seen| vec![seen]).collect(),
    })
}

/// Reads from a replica while its primary is written to. `None` if the replica died.
fn observe(manner: Manner, load: &str, options: Options) -> Option<Result<(), Violation>> {
    println!("{manner:?}, load {load}");
    let mut random = source("prefix");
    let backlog = if manner == Manner::FullSyncs { "16kb" } else { "64mb" };
    let primary = primary(&["--repl-backlog-size", backlog, "--io-threads", "2"]);
    let port = primary.port().to_string();
    let arguments = ["--replicaof", "127.0.0.1", &port, "--io-threads", "3", "--repl-diskless-load", load];
    let arguments = arguments.map(str::to_owned).to_vec();
    let replica = TestServer::start_with(Options { arguments, ..options });
    wait_until_in_sync(&mut primary.connect(), &mut replica.connect());
    let load = Load {
        primary: &primary,
        replica: &replica,
        stop: AtomicBool::new(false),
        rounds: AtomicU64::new(0),
    };
    let load = &load;
    let outcomes: Vec<Outcome> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let random = random.fork();
                scope.spawn(move || load.write(writer, random))
            })
            .collect();
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let random = random.fork();
                scope.spawn(move || {
                    let outcome = load.read(random);
                    // The first reader that has seen enough ends the test.
                    load.stop.store(true, SeqCst);
                    outcome
                })
            })
            .collect();
        let disturbed = scope.spawn(move || load.disturb(manner)).join();
        load.stop.store(true, SeqCst);
        let outcomes = readers.into_iter().map(|reader| reader.join().expect("the reader did not panic"));
        let outcomes = outcomes.collect();
        writers.into_iter().for_each(|writer| writer.join().expect("the writer did not panic"));
        disturbed.expect("the disturbing thread did not panic");
        outcomes
    });
    let mut seen = Vec::new();
    for outcome in outcomes {
        match outcome {
            Outcome::Violation(violation) => {
                println!("the replica's log:\n{}", replica.log());
                return Some(Err(violation));
            }
            Outcome::Gone => return None,
            Outcome::Fine(reads, rounds) => seen.push((reads, rounds)),
        }
    }
    for (reads, rounds) in seen {
        println!("{reads} reads, rounds {rounds:?}");
        assert!(reads > 100 && rounds.iter().all(|&round| round > 5), "too few reads or rounds");
    }
    Some(Ok(()))
}

#[test]
fn readers_see_states_that_the_primary_had() {
    for (manner, load) in [
        (Manner::Steady, "disabled"),
        (Manner::Bursts, "disabled"),
        (Manner::FullSyncs, "disabled"),
        (Manner::FullSyncs, "flush-before-load"),
        (Manner::FullSyncs, "swapdb"),
    ] {
        match observe(manner, load, Options::default()) {
            Some(Ok(())) => {}
            Some(Err(violation)) => panic!("{manner:?}, load {load}: {violation}"),
            None => panic!("{manner:?}, load {load}: the replica died"),
        }
    }
}

/// Proves that this test can fail.
#[test]
fn a_replica_that_applies_out_of_order_is_convicted() {
    let Some(options) = without_locks() else { return };
    for manner in [Manner::Steady, Manner::Bursts] {
        // Without locks the server may crash before it is convicted.
        let convicted = (0..5).find_map(|_| observe(manner, "disabled", options())?.err());
        let violation = convicted.unwrap_or_else(|| panic!("{manner:?}: no violation was found"));
        println!("{manner:?}: {violation}");
    }
}
