// SPDX-License-Identifier: BSD-3-Clause
//! Random commands of all families from several concurrent clients, while the append-only file is
//! written and rewritten: a server started with the resulting files holds the same data, and so
//! does a stock server.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use braid_tests::random::{number, seed};
use braid_tests::server::{is_braid, newer_peers};
use braid_tests::{RawClient, TestServer, Value, wait_for};
use rustix::process::Signal;

use crate::families::FAMILIES;
use crate::family::Family;
use crate::generator::Generator;

/// Families whose commands only work on data.
const OF_DATA: &[&str] = &[
    "strings",
    "bitmaps",
    "keys",
    "transactions",
    "lists",
    "hashes",
    "sets",
    "sorted_sets",
    "streams",
    "hyperloglog",
    "geo",
];
/// Families of this kind for newer servers.
const NEWER: &[&str] = &["newer-valkey", "newer-redis", "hash-expiry-valkey"];

const CLIENTS: u64 = 4;
/// Keys that expire within this many milliseconds could do so between two digests.
const SOON_MS: i64 = 120_000;

fn families(names: &[&str]) -> Vec<&'static Family> {
    FAMILIES.iter().filter(|family| names.contains(&family.name)).collect()
}

fn arguments<'a>(folder: &'a Path, more: &[&'a str]) -> Vec<&'a str> {
    let folder = folder.to_str().expect("a readable path");
    let own = [
        "--dir",
        folder,
        "--appendonly",
        "yes",
        "--enable-debug-command",
        "yes",
        "--auto-aof-rewrite-percentage",
        "0",
    ];
    own.iter().chain(more).copied().collect()
}

/// Sends random commands, partly in pipelines, and ignores the replies.
fn send_commands(server: &TestServer, seed: u64, families: &[&'static Family], commands: u64) {
    let mut generator = Generator::new(seed, families);
    let mut client = server.connect();
    let mut sent = 0;
    while sent < commands {
        let len = generator.random().u64(1..30);
        let lines: Vec<_> = (0..len).map(|_| generator.command()).collect();
        let lines: Vec<_> = lines.into_iter().filter(|line| !ends_something(line)).collect();
        let bytes: Vec<u8> =
            lines.iter().map(|line| braid_tests::words::encode(line)).collect::<Vec<_>>().concat();
        client.send(&bytes);
        lines.iter().for_each(|_| drop(client.read()));
        sent += lines.len() as u64;
    }
}

/// True for commands that would end the connection or change its replies.
fn ends_something(line: &[Vec<u8>]) -> bool {
    let name = line.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
    [&b"quit"[..], b"reset", b"client", b"hello", b"subscribe", b"monitor", b"debug", b"config"]
        .contains(&&name[..])
}

/// Removes keys that expire soon, and returns one line per key: its database, its name, and the
/// digest of its value and expiry.
fn digest(client: &mut RawClient) -> Vec<String> {
    let mut lines = Vec::new();
    for db in 0..16 {
        client.ok(&format!("SELECT {db}"));
        for key in client.call("KEYS *").elements().expect("keys").to_vec() {
            let key = key.bytes().expect("a key").to_vec();
            let mut call = |args: &[&[u8]]| client.call_arguments(args);
            let ttl = call(&[b"PTTL", &key]).integer().expect("a time");
            let mut expires = (0..SOON_MS).contains(&ttl);
            if call(&[b"TYPE", &key]).text() == "hash" {
                for field in call(&[b"HKEYS", &key]).elements().expect("fields").to_vec() {
                    let field = field.bytes().expect("a field");
                    let times = call(&[b"HPTTL", &key, b"FIELDS", b"1", field]);
                    let time = times.elements().and_then(|times| times[0].integer());
                    expires |= time.is_some_and(|time| (0..SOON_MS).contains(&time));
                }
            }
            if expires {
                call(&[b"DEL", &key]);
            } else {
                let digest = call(&[b"DEBUG", b"DIGEST-VALUE", &key]).to_string();
                let time = call(&[b"PEXPIRETIME", &key]).to_string();
                lines.push(format!("{db} {} {digest} {time}", braid_tests::words::quote(&key)));
            }
        }
    }
    lines.sort();
    lines
}

/// Asserts that two digests are equal; otherwise shows the lines that they do not share.
#[track_caller]
fn assert_same(before: &[String], after: &[String], log: &str) {
    let gone: Vec<_> = before.iter().filter(|line| !after.contains(line)).collect();
    let new: Vec<_> = after.iter().filter(|line| !before.contains(line)).collect();
    assert!(gone.is_empty() && new.is_empty(), "before: {gone:#?}\nafter: {new:#?}\nthe log: {log}");
}

/// Writes with these families, and returns the digest at the time the server was killed.
fn write(folder: &Path, families: &[&'static Family], more: &[&str]) -> Vec<String> {
    let server = TestServer::start(&arguments(folder, more));
    let (seed, commands) = (seed(), number("BRAID_COMMANDS", 20_000) / 8);
    println!("append only: BRAID_SEED={seed}");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let server = &server;
                scope.spawn(move || send_commands(server, seed.wrapping_add(number), families, commands))
            })
            .collect();
        let (server, done) = (&server, &done);
        let rewriter = scope.spawn(move || {
            let mut client = server.connect();
            while !done.load(Relaxed) {
                client.call("BGREWRITEAOF");
                wait_for("the rewrite", || {
                    client.info_field("persistence", "aof_rewrite_in_progress").as_deref() == Some("0")
                });
            }
        });
        let outcomes: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Relaxed);
        let rewritten = rewriter.join();
        outcomes.into_iter().chain([rewritten]).for_each(|outcome| outcome.expect("no thread panicked"));
    });
    let mut client = server.connect();
    assert_eq!(client.info_field("persistence", "aof_last_bgrewrite_status").as_deref(), Some("ok"));
    // Changes since the last rewrite are in the increment alone.
    send_commands(&server, seed.wrapping_sub(1), families, commands);
    // WAITAOF waits for this client's own last change, which follows all others.
    client.ok("SET last change");
    let digest = digest(&mut client);
    assert_eq!(client.call("WAITAOF 1 0 10000"), Value::Array(vec![Value::Integer(1), Value::Integer(0)]));
    server.signal(Signal::KILL);
    digest
}

#[test]
fn aof_restores_the_data_set_after_a_crash() {
    if !is_braid() {
        return;
    }
    for (policy, preamble) in [("everysec", "yes"), ("always", "yes"), ("everysec", "no")] {
        let folder = tempfile::tempdir().expect("a folder");
        let more = ["--appendfsync", policy, "--aof-use-rdb-preamble", preamble];
        let before = write(folder.path(), &families(&[OF_DATA, NEWER].concat()), &more);
        let server = TestServer::start(&arguments(folder.path(), &[]));
        let mut client = server.connect();
        assert_same(&before, &digest(&mut client), &server.log());
        assert!(!server.log().contains("were refused"), "{}", server.log());
    }
}

#[test]
fn stock_servers_load_our_append_only_file() {
    if !is_braid() {
        return;
    }
    let preambles = ["yes", "no"];
    for (peer, preamble) in newer_peers().iter().flat_map(|peer| preambles.map(|preamble| (peer, preamble))) {
        let folder = tempfile::tempdir().expect("a folder");
        let more = ["--appendfsync", "everysec", "--aof-use-rdb-preamble", preamble];
        let before = write(folder.path(), &families(OF_DATA), &more);
        let server = TestServer::start_program(&peer.program, &arguments(folder.path(), &[]));
        let mut client = server.connect();
        assert_same(&before, &digest(&mut client), &server.log());
    }
}
