// SPDX-License-Identifier: BSD-3-Clause
//! DUMP and RESTORE move values between the server under test and stock servers, in both
//! directions.
//!
//!   cargo test -p braid-tests --test dump
//!
//! Commands fill each server with random values of every type and encoding; every key is dumped
//! on one server and restored on the other, and the content on both is compared. Needs stock
//! servers: the `redis-server` on PATH and those in `BRAID_PEERS_DIR`.
//!
//! A server refuses payloads of versions newer than its own, so a payload for an older server is
//! resealed with its version if it knows the type (Redis 7.0 is one version behind Redis 7.2 and
//! Braid).

mod background;
mod content;
mod files;
mod fill;
mod keydb;
mod migrate;
mod payload;
mod stack;

use braid_tests::random::source;
use braid_tests::server::{Peer, newer_peers, stock};
use braid_tests::{RawClient, TestServer, Value};

use content::content;
use payload::Payload;

/// Number of times that the keyspace is filled and moved.
const ROUNDS: usize = 3;

/// A server, and what it can load.
struct Side {
    server: TestServer,
    client: RawClient,
    name: String,
    /// The newest version of Redis's format that it loads.
    version: u16,
    /// True if it supports expiring fields.
    has_field_expiry: bool,
    is_valkey: bool,
}

impl Side {
    fn start(peer: Option<&Peer>) -> Side {
        let server = match peer {
            Some(peer) => TestServer::start_program(&peer.program, &[]),
            None => TestServer::start(&[]),
        };
        let name = peer.map_or("the server under test".to_owned(), |peer| peer.version.clone());
        let mut client = server.connect();
        let has_field_expiry = !client.call("HPEXPIRE nosuch 1000 FIELDS 1 f").is_error();
        client.call("SET probe x");
        let probe = client.call("DUMP probe");
        let version = Payload::new(probe.bytes().expect("a payload")).version();
        client.call("DEL probe");
        let is_valkey = name.starts_with("valkey");
        Side { server, client, name, version, has_field_expiry, is_valkey }
    }

    fn keys(&mut self) -> Vec<Vec<u8>> {
        let reply = self.client.call("KEYS *");
        let mut keys: Vec<Vec<u8>> = reply
            .elements()
            .unwrap_or_default()
            .iter()
            .filter_map(|key| Some(key.bytes()?.to_vec()))
            .collect();
        keys.sort();
        keys
    }
}

/// Moves every key of one server to the other and compares; returns the number of keys that
/// arrived.
fn move_all(from: &mut Side, to: &mut Side) -> usize {
    let mut arrived = 0;
    to.client.ok("FLUSHALL");
    for key in from.keys() {
        let dumped = from.client.call_arguments(&[&b"DUMP"[..], &key]);
        let mut payload = Payload::new(dumped.bytes().expect("a payload"));
        let expires = payload.has_field_expiry();
        if expires && (!to.has_field_expiry || payload.version() == 80 && to.is_redis_8()) {
            // Redis 8 does not know the form that Valkey and Braid write: it must refuse it, not
            // misread it.
            assert!(to.restore(&key, &payload).is_error(), "{}: {key:?}", to.name);
            continue;
        }
        if !expires && payload.version() > to.version && !to.is_valkey {
            if payload.kind() > to.kind_max() {
                assert!(to.restore(&key, &payload).is_error(), "{}: {key:?}", to.name);
                continue;
            }
            payload.reseal(to.version);
        } else if payload.version() == 80 && !expires {
            payload.reseal(11.min(to.version));
        }
        let reply = to.restore(&key, &payload);
        let (here, there) = (&from.name, &to.name);
        assert_eq!(reply, Value::ok(), "{here} to {there}: {}", String::from_utf8_lossy(&key));
        let times = from.has_field_expiry && to.has_field_expiry;
        let (one, other) = (content(&mut from.client, &key, times), content(&mut to.client, &key, times));
        assert_eq!(one, other, "{here} to {there}: {}", String::from_utf8_lossy(&key));
        arrived += 1;
    }
    arrived
}

impl Side {
    fn restore(&mut self, key: &[u8], payload: &Payload) -> Value {
        self.client.call_arguments(&[&b"RESTORE"[..], key, b"0", payload.bytes(), b"REPLACE"])
    }

    fn is_redis_8(&self) -> bool {
        self.name.starts_with("redis 8")
    }

    /// The highest type number that the server knows.
    fn kind_max(&self) -> u8 {
        match self.version {
            ..=9 => 17,
            10 => 19,
            _ => 22,
        }
    }
}

#[test]
fn values_travel_between_servers() {
    let mut random = source("values_travel_between_servers");
    let peers: Vec<Peer> = stock().into_iter().chain(newer_peers()).collect();
    if peers.is_empty() {
        println!("skipped: no stock server");
    }
    let mut own = Side::start(None);
    for peer in &peers {
        let mut other = Side::start(Some(peer));
        for _ in 0..ROUNDS {
            let seed = random.u64(..);
            for side in [&mut own, &mut other] {
                let mut random = fastrand::Rng::with_seed(seed);
                side.client.ok("FLUSHALL");
                fill::fill(&mut side.client, &mut random, side.has_field_expiry);
            }
            let filled = own.keys().len();
            let back = move_all(&mut other, &mut own);
            assert_eq!(back, other.keys().len(), "not every payload of {} was restored", other.name);
            side_refill(&mut own, seed);
            let there = move_all(&mut own, &mut other);
            println!("{}: {back} of its values read, {there} of {filled} read by it", other.name);
            assert!(there * 2 > filled);
        }
    }
}

/// Refills the server under test, whose keys were replaced by the other server's.
fn side_refill(side: &mut Side, seed: u64) {
    side.client.ok("FLUSHALL");
    fill::fill(&mut side.client, &mut fastrand::Rng::with_seed(seed), side.has_field_expiry);
}
