// SPDX-License-Identifier: BSD-3-Clause
//! Random commands, sent both to the server under test and to a stock server; replies must agree
//! byte for byte.
//!
//!   cargo test -p braid-tests --test differential
//!   BRAID_TEST_SERVER=/usr/bin/redis-server cargo test -p braid-tests --test differential  # stock
//!
//! Variables, in addition to those of `support/lib.rs`:
//! - `BRAID_COMMANDS`: total number of commands in a run (default 20000)
//! - `BRAID_FAMILIES`: names of families (files in `families/`) separated by commas, or `all`
//! - `BRAID_MISMATCHES`: number of different mismatches to collect and shrink before the test
//!   stops (default 5)
//! - `BRAID_STACK`: a Redis Stack 7.4, for JSON documents and time series (`json.rs`, `series.rs`)
//! - `BRAID_PEER`: a program to compare with, instead of a stock Redis 7
//! - `BRAID_ENCODINGS=0`: do not compare OBJECT ENCODING of the whole keyspace
//!
//! Flow: `generator` draws commands from the templates of the `families`; `pair` runs them on
//! both servers and `compare`s their replies and periodically the whole `keyspace`; `search` lets
//! `shrink` minimize a mismatch and prints it as commands that can be pasted into `redis-cli`.
//! Deliberate differences are listed in `tests/known_differences.txt`.

mod append_only;
mod compare;
mod debugger;
mod effects;
mod events;
mod families;
mod family;
mod generator;
mod grammar;
mod json;
mod keyspace;
mod known;
mod pair;
mod payloads;
mod queries;
mod search;
mod series;
mod shrink;
mod slots;
mod thresholds;
mod vectors;

use braid_tests::random::number;
use braid_tests::server::{Peer, newer_peers, peer, stock};
use braid_tests::words;

use family::Family;
use pair::{Manner, Pair};
use search::{report, search};

/// The peer to compare with: `BRAID_PEER`, or a stock Redis 7. Newer servers reply differently to
/// some of the random commands, which would not be faults of Braid.
fn usual_peer() -> Option<Peer> {
    match std::env::var_os("BRAID_PEER") {
        Some(program) => Some(peer(program.as_ref()).expect("BRAID_PEER names a server")),
        None => stock().filter(|peer| peer.version.starts_with("redis 7.")),
    }
}

/// Compares a quarter of the commands in the given manner with the usual peer.
fn usual(test: &str, protocol: u8, pipeline: usize) {
    let Some(peer) = usual_peer() else {
        assert!(std::env::var_os("CI").is_none(), "{test}: no Redis 7");
        println!("{test}: skipped, no Redis 7");
        return;
    };
    println!("{test}: peer {} ({})", peer.program.display(), peer.version);
    let manner = Manner { protocol, pipeline, encodings: number("BRAID_ENCODINGS", 1) == 1 };
    let families: Vec<_> = families::enabled().into_iter().filter(|family| family.peer.is_empty()).collect();
    search::compare(test, &mut Pair::start(&peer), &families, manner, number("BRAID_COMMANDS", 20_000) / 4);
}

#[test]
fn random_commands_get_the_same_replies_in_resp2() {
    usual("resp2", 2, 1);
}

#[test]
fn random_commands_get_the_same_replies_in_resp3() {
    usual("resp3", 3, 1);
}

#[test]
fn random_pipelines_get_the_same_replies_in_resp2() {
    usual("pipelined resp2", 2, 40);
}

#[test]
fn random_pipelines_get_the_same_replies_in_resp3() {
    usual("pipelined resp3", 3, 40);
}

/// Commands that only a newer server knows, against the matching server in `BRAID_PEERS_DIR`.
#[test]
fn newer_commands_get_the_same_replies_as_on_newer_servers() {
    let families: Vec<_> = families::enabled().into_iter().filter(|family| !family.peer.is_empty()).collect();
    for family in families {
        let Some(peer) = newer_peers().into_iter().find(|peer| peer.version.starts_with(family.peer)) else {
            println!("{}: skipped, no {} in BRAID_PEERS_DIR", family.name, family.peer);
            continue;
        };
        if !braid_tests::server::is_braid() {
            // A stock server under test is compared only with another instance of the same
            // program.
            let mut pair = Pair::of_program(peer.program.clone(), &[]);
            let manner = Manner { protocol: 3, pipeline: 1, encodings: true };
            search::compare(family.name, &mut pair, &[family], manner, number("BRAID_COMMANDS", 20_000) / 20);
            continue;
        }
        let manner = Manner { protocol: 3, pipeline: 1, encodings: false };
        search::compare(
            family.name,
            &mut Pair::start(&peer),
            &[family],
            manner,
            number("BRAID_COMMANDS", 20_000) / 10,
        );
    }
}

/// The types' commands against Redis 8, whose collections have the same encodings as Braid's.
/// (Valkey 9 words too many errors differently; its own features are compared above.)
#[test]
fn commands_on_types_get_the_same_replies_as_on_a_newer_redis() {
    let families = families::enabled().into_iter().filter(|family| families::TYPES.contains(&family.name));
    let families: Vec<_> = families.collect();
    if families.is_empty() || !braid_tests::server::is_braid() {
        println!("skipped: Braid is not under test, or not these families");
        return;
    }
    for peer in newer_peers().into_iter().filter(|peer| peer.version.starts_with("redis")) {
        for protocol in [2, 3] {
            let manner = Manner { protocol, pipeline: 20, encodings: number("BRAID_ENCODINGS", 1) == 1 };
            let commands = number("BRAID_COMMANDS", 20_000) / 4;
            search::compare(&peer.version, &mut Pair::start(&peer), &families, manner, commands);
        }
    }
}

/// Every entry of `known_differences.txt` must still be needed: its example differs, and the
/// entry excuses that.
#[test]
fn known_differences_are_still_there() {
    let mut peers: Vec<Peer> = usual_peer().into_iter().collect();
    peers.extend(newer_peers());
    if !braid_tests::server::is_braid() || peers.is_empty() {
        println!("skipped: needs Braid under test and a stock server");
        return;
    }
    let mut checked = Vec::new();
    for peer in &peers {
        let mut pair = Pair::start(peer);
        for place in 0..pair.known().len() {
            let example = pair.known()[place].example.clone();
            let [one, other] = pair.replies(&example);
            let known = &pair.known()[place];
            let last = example.last().expect("an example has a command");
            let what = format!("{} ({}), under test: {one}, peer: {other}", words::line(last), known.reason);
            if !compare::agree(last, &[], &one, &other, &|_, _, _| false) {
                assert!(
                    known.excuses(last, &one, &other),
                    "known difference does not excuse its own example: {what}"
                );
                checked.push(known.reason.clone());
            }
        }
    }
    for known in known::read() {
        let has_peer = peers.iter().any(|peer| words::glob(known.peer.as_bytes(), peer.version.as_bytes()));
        if !has_peer {
            println!("skipped, no such peer: {} ({})", known.command, known.peer);
        } else {
            assert!(checked.contains(&known.reason), "outdated known difference: {known:?}");
        }
    }
}

/// The test of the test: a short sequence must tell apart two stock servers that differ in one
/// setting.
#[test]
fn a_difference_is_found_and_made_small() {
    let Some(peer) = stock() else {
        println!("skipped, no Redis 7");
        return;
    };
    let families: Vec<&'static Family> =
        families::FAMILIES.iter().filter(|family| family.name == "hashes").collect();
    let mut pair = Pair::of_program(peer.program, &["--hash-max-listpack-entries", "1"]);
    let manner = Manner { protocol: 3, pipeline: 10, encodings: false };
    let found = search(&mut pair, &families, manner, 4_000, 1, 1);
    let shrunk = found.first().expect("the difference is found");
    assert_eq!(shrunk.mismatch.signature, "OBJECT", "{}", report(shrunk));
    let commands: Vec<String> = shrunk.items.iter().map(|item| compare::name(&item.command)).collect();
    assert!(commands.len() <= 3, "not small: {}", report(shrunk));
    assert_eq!((shrunk.manner.protocol, shrunk.manner.pipeline), (2, 1));
}
