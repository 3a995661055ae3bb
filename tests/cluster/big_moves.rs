// SPDX-License-Identifier: BSD-3-Clause
//! Moves of 4,096 slots with much data under load, in rounds with faults: the source or the
//! target is killed, or etcd stops for a while. Takes minutes and gigabytes, so it must be
//! started explicitly:
//!
//!   BRAID_MOVE_MB=2048 BRAID_MOVE_ROUNDS=8 \
//!       cargo test -p braid-tests --test cluster big_moves -- --ignored --nocapture
//!
//! Meanwhile clients change keys in transactions, and know every expected reply. After each round
//! all keys are there, each exactly once.

use std::time::{Duration, Instant};

use braid_tests::{RawClient, Value, random, request};
use rustix::process::Signal;

use crate::Cluster;
use crate::moves::{Wait, begin, keys_of, leads, loaded, newest, ok};

/// Number of slots that move.
const SLOTS: u16 = 4096;
const VALUE: usize = 4096;
/// Requests in flight while the cluster is filled.
const DEPTH: usize = 256;
const CLIENTS: usize = 2;

/// The fault of a round.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    None,
    Source,
    Target,
    Etcd,
}

/// Hash tags of the slots that move.
fn tags(client: &mut RawClient) -> Vec<String> {
    let all: Vec<String> = (0..4 * usize::from(SLOTS)).map(|number| format!("t{number}")).collect();
    let mut found = Vec::new();
    for chunk in all.chunks(DEPTH) {
        let requests =
            chunk.iter().map(|tag| request(&format!("CLUSTER KEYSLOT {tag}"))).collect::<Vec<_>>().concat();
        client.send(&requests);
        for tag in chunk {
            if matches!(client.read(), Value::Integer(slot) if slot < i64::from(SLOTS)) {
                found.push(tag.clone());
            }
        }
    }
    found
}

fn key(tags: &[String], number: usize) -> String {
    format!("fill:{{{}}}:{number}", tags[number % tags.len()])
}

fn value(number: usize) -> String {
    format!("{number:016}").repeat(VALUE / 16)
}

fn fill(client: &mut RawClient, tags: &[String], count: usize) {
    let numbers: Vec<usize> = (0..count).collect();
    for chunk in numbers.chunks(DEPTH) {
        let requests =
            chunk.iter().flat_map(|&number| request(&format!("SET {} {}", key(tags, number), value(number))));
        client.send(&requests.collect::<Vec<u8>>());
        chunk.iter().for_each(|_| assert_eq!(client.read(), ok()));
    }
}

/// The primaries of the two shards; the one with the slots comes first.
fn leaders(cluster: &Cluster) -> (usize, usize) {
    let mut found = (0, 0);
    cluster.wait_for("both shards have a primary and a replica in sync", || {
        let leaders: Vec<usize> = (0..4)
            .filter(|&index| leads(cluster, index))
            .filter(|&index| {
                let info = cluster.client(index).info("group");
                info.lines().any(|line| line.starts_with("group_in_sync:") && line.contains(','))
            })
            .collect();
        let [one, other] = leaders[..] else { return false };
        let has_them = |index: usize| match cluster.client(index).call("CLUSTER COUNTKEYSINSLOT 0") {
            Value::Integer(_) => cluster.lines(index).iter().any(|line| {
                line.contains("myself")
                    && line.split_whitespace().skip(8).any(|range| range.starts_with("0-"))
            }),
            _ => false,
        };
        found = if has_them(one) { (one, other) } else { (other, one) };
        has_them(found.0)
    });
    found
}

/// Moves the slots. Returns the duration and the time of completion, possibly by successors of
/// both primaries; `None` if the move did not start or did not complete.
fn move_them(cluster: &Cluster, from: usize, to: usize) -> Option<(Duration, Instant)> {
    let started = Instant::now();
    let range = format!("0 {}", SLOTS - 1);
    if begin(cluster, from, to, &range) != ok() {
        return None;
    }
    // One side may be dead; its successor reports the same move.
    let shards = [from % 2, to % 2];
    loop {
        let is_alive = |index: usize| RawClient::tcp(cluster.nodes[index].address()).is_ok();
        // The node may die at this moment.
        let told = |index: usize| std::panic::catch_unwind(|| newest(cluster, index)).ok().flatten();
        let states = (0..4).map(|index| is_alive(index).then(|| told(index)).flatten());
        let states: Vec<Option<String>> = states.map(|state| Some(state?.0)).collect();
        let is_done = shards.iter().all(|&shard| {
            [shard, shard + 2].iter().any(|&index| states[index].as_deref() == Some("success"))
        });
        let is_under_way =
            states.iter().flatten().any(|state| !["success", "failed"].contains(&state.as_str()));
        match () {
            () if is_done && !is_under_way => return Some((started.elapsed(), Instant::now())),
            () if started.elapsed() > Duration::from_secs(300) => return None,
            () => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// The longest wait in words, and its time: a pause ends just before the move is complete.
fn told(wait: Wait, done: Option<Instant>) -> String {
    let text = format!("longest wait {:.1?} ({} tries)", wait.time, wait.tries);
    let (Some(ended), Some(done)) = (wait.ended, done) else { return text };
    match done.checked_duration_since(ended) {
        Some(earlier) => format!("{text}, over {earlier:.1?} before the move was done"),
        None => format!("{text}, over {:.1?} after the move was done", ended.duration_since(done)),
    }
}

/// The waiting time of commands according to the source's log.
fn pause_of(cluster: &Cluster, source: usize) -> Option<String> {
    let log = cluster.nodes[source].log();
    let line = log.lines().rfind(|line| line.contains("commands waited for") && line.contains("etcd"))?;
    Some(format!("\n    {}", line.split_once("commands waited for")?.1.trim()))
}

#[test]
#[ignore = "takes minutes and gigabytes: by command"]
fn gigabytes_move_under_load_with_faults() {
    let megabytes = random::number("BRAID_MOVE_MB", 512) as usize;
    let rounds = random::number("BRAID_MOVE_ROUNDS", 4) as usize;
    let mut random = random::source("big_moves");
    let durable = ["--sync-writes", "yes", "--client-output-buffer-limit", "replica 4gb 4gb 0"];
    let Some(mut cluster) = Cluster::create(4, 2, &durable) else { return };
    let tags = tags(&mut cluster.client(0));
    let count = (megabytes << 20) / VALUE;
    leaders(&cluster);
    fill(&mut cluster.client(0), &tags, count);
    println!("{count} keys of {VALUE} bytes in {SLOTS} slots");
    let mut usual = Duration::from_secs(2);
    let mut changed = 0;
    for round in 0..rounds {
        let fault = [Fault::None, Fault::Source, Fault::Target, Fault::Etcd][round % 4];
        let (from, to) = leaders(&cluster);
        let tags_of_round = 100 * (round + 1);
        let (took, seen) = loaded(&cluster, tags_of_round..tags_of_round + CLIENTS, || {
            let took = std::thread::scope(|scope| {
                let mover = scope.spawn(|| move_them(&cluster, from, to));
                if fault != Fault::None {
                    std::thread::sleep(usual.mul_f64(random.f64()));
                }
                match fault {
                    Fault::None => {}
                    Fault::Source => cluster.nodes[from].signal(Signal::KILL),
                    Fault::Target => cluster.nodes[to].signal(Signal::KILL),
                    Fault::Etcd => {
                        cluster.etcd.pause();
                        std::thread::sleep(Duration::from_secs(3));
                        cluster.etcd.resume();
                    }
                }
                mover.join().unwrap_or(None)
            });
            // Until the remaining clients continue.
            std::thread::sleep(Duration::from_secs(if fault == Fault::None { 1 } else { 5 }));
            took
        });
        changed += seen.keys;
        if fault == Fault::None {
            usual = took.expect("a move without faults succeeds").0;
        }
        if let Some(dead) =
            [(Fault::Source, from), (Fault::Target, to)].iter().find(|(what, _)| *what == fault)
        {
            cluster.nodes[dead.1].wait();
            cluster.restart(dead.1);
            cluster.wait_until_ready(2);
        }
        let (holder, other) = leaders(&cluster);
        let mut sum = 0;
        let is_whole = braid_tests::wait_for_within(Duration::from_secs(120), || {
            sum = keys_of(&cluster, &[holder, other]);
            sum == (count + changed) as i64
        });
        assert!(is_whole, "round {round}: {sum} keys, not {}\n{}", count + changed, cluster.logs());
        let mut client = cluster.client(holder);
        for _ in 0..2000 {
            let number = random.usize(0..count);
            assert_eq!(
                client.call(&format!("GET {}", key(&tags, number))),
                Value::Bulk(value(number).into())
            );
        }
        println!(
            "round {round}, {fault:?}: {}, {} transactions, {}; slots at node {holder}{}",
            took.map_or("the move failed, the slots stayed".to_owned(), |(took, _)| format!(
                "moved in {took:.1?}"
            )),
            seen.changes,
            told(seen.longest, took.map(|(_, done)| done)),
            took.and_then(|_| pause_of(&cluster, from)).unwrap_or_default()
        );
    }
}
