// SPDX-License-Identifier: BSD-3-Clause
//! Replication: stock servers as replicas of the server under test, and the server under test as
//! a replica of theirs. Full syncs, the stream of changes, recovery from broken links, and the
//! clients' view of it.
//!
//!   cargo test -p braid-tests --test replica
//!
//! Needs stock servers: the `redis-server` on PATH and those in `BRAID_PEERS_DIR`. Variables, in
//! addition to those of `support/lib.rs`:
//! - `BRAID_ROUNDS`: random rounds of `rounds.rs` (default 3)
//! - `BRAID_STACK`: a program that starts Redis Stack, for `sources.rs`
//!
//! At the end of each test the replica has the primary's dataset: the digests of both are
//! compared.

mod cli;
mod copies;
mod dual_channel;
mod ending;
mod extremes;
mod failover;
mod following;
mod forms;
mod limits;
mod lying;
mod messages;
mod moving;
mod prefix;
mod proxy;
mod raw;
mod redirect;
mod redis6;
mod restart;
mod rounds;
mod seen;
mod sentinel;
mod siblings;
mod sources;
mod stream;
mod streams;
mod waiting;
mod workload;

#[path = "../dump/content.rs"]
mod content;
#[path = "../dump/fill.rs"]
mod fill;

/// Random commands, drawn as in the differential tests.
#[path = "../differential"]
#[allow(dead_code, reason = "only the differential tests use all of it")]
mod differential {
    pub mod families;
    pub mod family;
    pub mod generator;
    pub mod grammar;
    pub mod payloads;
    pub mod slots;
}

use braid_tests::server::{Peer, newer_peers, stock};
use braid_tests::wait::PATIENCE;
use braid_tests::words::encode;
use braid_tests::{RawClient, TestServer, Value, wait_for, wait_for_within};

use content::content;
use differential::{families, family, generator, grammar, payloads, slots};

/// The stock servers of this machine.
fn peers() -> Vec<Peer> {
    let peers: Vec<Peer> = stock().into_iter().chain(newer_peers()).collect();
    if peers.is_empty() {
        println!("skipped: no stock server");
    }
    peers
}

/// The first of them.
fn any_peer() -> Option<Peer> {
    peers().into_iter().next()
}

/// Starts a server under test whose full syncs do not wait for more replicas.
fn primary(arguments: &[&str]) -> TestServer {
    let usual = ["--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"];
    TestServer::start(&[&usual[..], arguments].concat())
}

/// Starts a stock server as its replica.
fn replica(peer: &Peer, of: &TestServer, arguments: &[&str]) -> TestServer {
    replica_at(peer, &of.port().to_string(), arguments)
}

/// As [`replica`], for the primary on this port.
fn replica_at(peer: &Peer, port: &str, arguments: &[&str]) -> TestServer {
    let usual = ["--replicaof", "127.0.0.1", port, "--enable-debug-command", "yes"];
    TestServer::start_program(&peer.program, &[&usual[..], arguments].concat())
}

/// A replica that has caught up, and a client of it. `client`: a client of the primary.
fn replica_in_sync(peer: &Peer, of: &TestServer, client: &mut RawClient) -> (TestServer, RawClient) {
    let other = replica(peer, of, &[]);
    let mut its = other.connect();
    wait_until_in_sync(client, &mut its);
    (other, its)
}

/// A numeric INFO field.
fn figure(client: &mut RawClient, section: &str, field: &str) -> i64 {
    let text = client.info_field(section, field).unwrap_or_else(|| panic!("INFO has no {field}"));
    text.parse().unwrap_or_else(|_| panic!("{field} is {text}"))
}

/// Waits until a replica has caught up with its primary.
#[track_caller]
fn wait_until_in_sync(primary: &mut RawClient, replica: &mut RawClient) {
    wait_for("the replica is in sync", || {
        let link = replica.info_field("replication", "master_link_status");
        let offset = primary.info_field("replication", "master_repl_offset");
        link.as_deref() == Some("up") && replica.info_field("replication", "slave_repl_offset") == offset
    });
}

/// Waits until both have the same dataset: keys expired on the primary are soon removed on the
/// replica.
#[track_caller]
fn assert_same(primary: &mut RawClient, replica: &mut RawClient) {
    wait_until_in_sync(primary, replica);
    assert_same_dataset(primary, replica);
}

/// As [`assert_same`], for servers without a link.
#[track_caller]
fn assert_same_dataset(primary: &mut RawClient, replica: &mut RawClient) {
    // Equal digests settle it quickly. Different ones do not, because versions format scores
    // differently.
    let is_same = wait_for_within(PATIENCE, || {
        primary.call("DEBUG DIGEST") == replica.call("DEBUG DIGEST") || dataset(primary) == dataset(replica)
    });
    if !is_same {
        panic_with_difference(&dataset(primary), &dataset(replica));
    }
}

#[track_caller]
fn panic_with_difference(ours: &[String], theirs: &[String]) -> ! {
    let lacks = |some: &[String], other: &[String]| {
        some.iter().filter(|line| !other.contains(line)).cloned().collect::<Vec<_>>().join("\n")
    };
    panic!("only the primary has:\n{}\nonly the replica has:\n{}", lacks(ours, theirs), lacks(theirs, ours));
}

/// All keys of all databases with their content and expiry, one line each.
fn dataset(client: &mut RawClient) -> Vec<String> {
    dataset_of(client, false, |content| content)
}

/// As [`dataset`], with the times of fields if all servers support them. `told` filters a key's
/// content.
fn dataset_of(
    client: &mut RawClient,
    times_of_fields: bool,
    told: fn(Vec<String>) -> Vec<String>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for db in 0..16 {
        client.ok(&format!("SELECT {db}"));
        let keys = client.call("KEYS *");
        // Most values are strings, and there are tens of thousands: asked for in batches.
        for keys in keys.elements().unwrap_or_default().chunks(200) {
            let keys: Vec<&[u8]> = keys.iter().map(|key| key.bytes().unwrap_or_default()).collect();
            let of_key = |key: &&[u8]| {
                ["EXISTS", "PEXPIRETIME", "TYPE", "GET"].map(|word| encode(&[word.as_bytes(), key]))
            };
            client.send(&keys.iter().flat_map(of_key).collect::<Vec<_>>().concat());
            let replies: Vec<[Value; 4]> =
                keys.iter().map(|_| std::array::from_fn(|_| client.read())).collect();
            for (key, [exists, expiry, kind, string]) in keys.into_iter().zip(replies) {
                if exists != Value::Integer(1) {
                    continue;
                }
                let mut content = match kind.text().as_str() {
                    "string" => vec![kind.text(), string.to_string()],
                    _ => content(client, key, times_of_fields),
                };
                // Each server records by its own clock when it last saw a consumer.
                while let Some(at) = content.iter().position(|line| line == "\"seen-time\"") {
                    content.drain(at..at + 2);
                }
                lines.push(format!("{db} {} {expiry} {:?}", key.escape_ascii(), told(content)));
            }
        }
    }
    client.ok("SELECT 0");
    lines.sort();
    lines
}
