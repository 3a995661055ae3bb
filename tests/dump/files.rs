// SPDX-License-Identifier: BSD-3-Clause
//! Dump files move between servers: one saves, another starts with its file.

use std::net::{Ipv4Addr, SocketAddr};

use braid_tests::random::source;
use braid_tests::server::{Peer, free_port, newer_peers, stock};
use braid_tests::{RawClient, TestServer, wait_for};
use rustix::process::{Pid, Signal, kill_process};

use crate::content::content;
use crate::fill;

/// Starts the server under test, or a stock one.
fn start(peer: Option<&Peer>, arguments: &[&str]) -> TestServer {
    match peer {
        Some(peer) => TestServer::start_program(&peer.program, arguments),
        None => TestServer::start(arguments),
    }
}

fn name(peer: Option<&Peer>) -> &str {
    peer.map_or("the server under test", |peer| peer.version.as_str())
}

fn keys(client: &mut RawClient) -> Vec<Vec<u8>> {
    let reply = client.call("KEYS *");
    let mut keys: Vec<Vec<u8>> =
        reply.elements().unwrap_or_default().iter().filter_map(|key| Some(key.bytes()?.to_vec())).collect();
    keys.sort();
    keys
}

/// The content of database 0, and of a key with an expiry in another database.
fn all(client: &mut RawClient, times: bool) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = keys(client)
        .iter()
        .map(|key| {
            let mut lines = content(client, key, times);
            lines.insert(0, String::from_utf8_lossy(key).into_owned());
            lines
        })
        .collect();
    client.ok("SELECT 3");
    all.push(vec![client.call("GET far").text(), client.call("PEXPIRETIME far").to_string()]);
    client.ok("SELECT 0");
    all
}

/// The value of `rdb-target` for a stock server.
fn target_of(peer: &Peer) -> &'static str {
    let names = [
        ("redis 7.0", "redis-7.0"),
        ("redis 7", "redis-7.2"),
        ("redis 8", "redis-8"),
        ("valkey 9", "valkey-9"),
    ];
    let found = names.iter().find(|(version, _)| peer.version.starts_with(version));
    found.map_or("redis-7.2", |(_, target)| target)
}

/// Saves with one server and loads with another. `times`: with expiring fields. `more`: arguments
/// of the saving server.
fn move_file(from: Option<&Peer>, to: Option<&Peer>, times: bool, seed: u64, more: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path");
    let mut server = start(from, &[&["--dir", path][..], more].concat());
    let mut client = server.connect();
    fill::fill(&mut client, &mut fastrand::Rng::with_seed(seed), times);
    client.ok("SELECT 3");
    client.ok("SET far away PXAT 4000000000000");
    client.ok("SELECT 0");
    client.ok("SAVE");
    let saved = all(&mut client, times);
    // The file must be sufficient by itself: no save at shutdown.
    client.send(b"SHUTDOWN NOSAVE\r\n");
    server.wait();
    let other = start(to, &["--dir", path]);
    let loaded = all(&mut other.connect(), times);
    assert_eq!(saved.len(), loaded.len(), "{} to {}", name(from), name(to));
    for (one, two) in saved.iter().zip(&loaded) {
        assert_eq!(one, two, "{} to {}", name(from), name(to));
    }
}

#[test]
fn dump_files_travel_between_servers() {
    let mut random = source("dump_files_travel_between_servers");
    let peers: Vec<Peer> = stock().into_iter().chain(newer_peers()).collect();
    let own_times = !TestServer::start(&[]).connect().call("HPEXPIRE nosuch 1 FIELDS 1 f").is_error();
    move_file(None, None, own_times, random.u64(..), &[]);
    for peer in &peers {
        let has_times = own_times && !peer.version.starts_with("redis 7");
        move_file(Some(peer), None, has_times, random.u64(..), &[]);
        // Redis 7.0 is one version behind; Redis 8 does not know Valkey's form of expiring
        // fields.
        if !peer.version.starts_with("redis 7.0") {
            let times = own_times && peer.version.starts_with("valkey");
            move_file(None, Some(peer), times, random.u64(..), &[]);
        }
        if own_times {
            let arguments = ["--rdb-target", target_of(peer)];
            move_file(None, Some(peer), has_times, random.u64(..), &arguments);
            move_file(None, None, has_times, random.u64(..), &arguments);
        }
        println!("{}: dump files travel", peer.version);
    }
}

/// Features that the target servers do not know are left out of the file, here the members' times
/// but not the members, and the log says so.
#[test]
fn dump_omits_features_unknown_to_the_target() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path");
    let server = TestServer::start(&["--dir", path, "--enable-debug-command", "yes"]);
    if !server.is_braid() {
        return;
    }
    let mut client = server.connect();
    for target in ["keydb", "redis-7.0", "redis-7.2", "redis-8", "valkey-9", "braid"] {
        client.ok("FLUSHALL");
        client.ok(&format!("CONFIG SET rdb-target {target}"));
        client.call("FUNCTION FLUSH");
        client.call_arguments(&[
            "FUNCTION",
            "LOAD",
            "#!lua name=l\nredis.register_function('f', function() return 1 end)",
        ]);
        client.call("HSET hash a 1 b 2");
        client.call("SADD set a b");
        client.call("ZADD sorted 1 a 2 b");
        for (command, key, word) in [
            ("HPEXPIREAT", "hash", "FIELDS"),
            ("SPEXPIREAT", "set", "MEMBERS"),
            ("ZPEXPIREAT", "sorted", "MEMBERS"),
        ] {
            client.call(&format!("{command} {key} 4000000000000 {word} 1 a"));
        }
        let before = server.log().len();
        client.ok("DEBUG RELOAD");
        let log = server.log().split_off(before);
        let mut time = |line: &str| client.call(line).elements().and_then(|times| times[0].integer());
        let times = [
            time("HPEXPIRETIME hash FIELDS 1 a"),
            time("SPEXPIRETIME set MEMBERS 1 a"),
            time("ZPEXPIRETIME sorted MEMBERS 1 a"),
        ];
        let kept = match target {
            "keydb" | "braid" => [true, true, true],
            "redis-8" | "valkey-9" => [true, false, false],
            _ => [false, false, false],
        };
        assert_eq!(times, kept.map(|kept| Some(if kept { 4_000_000_000_000 } else { -1 })), "{target}");
        let lost = kept.iter().filter(|kept| !**kept).count();
        let warning = format!("rdb-target: {lost} members of collections lose their expiry");
        assert_eq!(log.contains(&warning), lost > 0, "{target}: {log}");
        assert_eq!(client.call("FCALL f 0").integer().is_some(), target != "keydb");
        assert_eq!(log.contains("functions are omitted"), target == "keydb");
        let version = match target {
            "keydb" => 9,
            "redis-7.0" => 10,
            "redis-8" => 12,
            "valkey-9" => 80,
            _ => 11,
        };
        let payload = client.call("DUMP hash");
        let payload = payload.bytes().expect("a payload");
        let found = payload[payload.len() - 10];
        assert!(found == version || (target, found) == ("braid", 80), "{target}: {found}");
    }
}

#[test]
fn the_end_of_the_server_saves_if_it_shall() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path");
    let restart = |arguments: &[&str], ending: &str, expected: &str, then: &str| {
        let mut server = TestServer::start(&[&["--dir", path][..], arguments].concat());
        let mut client = server.connect();
        assert_eq!(client.call("GET k").text(), expected);
        client.ok(&format!("SET k {then}"));
        client.send(format!("{ending}\r\n").as_bytes());
        assert!(client.read_to_close().is_some_and(|rest| rest.is_empty()), "no reply");
        assert!(server.wait().success());
    };
    restart(&[], "SHUTDOWN", "", "not-saved");
    restart(&[], "SHUTDOWN SAVE", "", "one");
    restart(&["--save", "3600 1"], "SHUTDOWN NOSAVE", "one", "two");
    restart(&["--save", "3600 1"], "SHUTDOWN", "one", "three");
    let mut server = TestServer::start(&["--dir", path, "--save", "3600 1"]);
    let mut client = server.connect();
    assert_eq!(client.call("GET k").text(), "three");
    client.ok("SET k four");
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    restart(&[], "SHUTDOWN NOSAVE", "four", "five");
    // The save fails because the folder is gone. The server continues, unless it is forced to
    // exit.
    drop(folder);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path").to_owned();
    let mut server = TestServer::start(&["--dir", &path]);
    let mut client = server.connect();
    drop(folder);
    let refusal = client.call("SHUTDOWN SAVE").text();
    assert_eq!(refusal, "ERR Errors trying to SHUTDOWN. Check logs.");
    assert_eq!(client.call("SAVE").text(), "ERR");
    client.ok("SET k v");
    client.send(b"SHUTDOWN SAVE FORCE\r\n");
    assert!(server.wait().success());
}

#[test]
fn functions_are_in_the_file() {
    const LIBRARY: &str =
        "#!lua name=kept\nredis.register_function('f', function() return 'it is there' end)";
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path");
    let mut server = TestServer::start(&["--dir", path, "--enable-debug-command", "yes"]);
    let mut client = server.connect();
    client.call_arguments(&["FUNCTION", "LOAD", LIBRARY]);
    client.ok("DEBUG RELOAD");
    assert_eq!(client.call("FCALL f 0").text(), "it is there");
    // Without a flush, the library would be loaded a second time.
    let refusal = client.call("DEBUG RELOAD NOFLUSH").text();
    assert_eq!(refusal, "ERR Error trying to load the RDB dump, check server logs.");
    client.ok("DEBUG RELOAD NOFLUSH MERGE");
    assert_eq!(client.call("FUNCTION LIST").elements().map(<[_]>::len), Some(1));
    client.call("BGSAVE");
    wait_for("it is saved", || {
        client.info_field("persistence", "rdb_bgsave_in_progress").as_deref() == Some("0")
    });
    client.send(b"SHUTDOWN NOSAVE\r\n");
    server.wait();
    let readers = stock().into_iter().chain(newer_peers()).filter(|peer| !peer.version.contains("7.0"));
    for reader in readers.map(Some).chain([None]) {
        let other = start(reader.as_ref(), &["--dir", path]);
        assert_eq!(other.connect().call("FCALL f 0").text(), "it is there", "{}", name(reader.as_ref()));
    }
}

#[test]
fn a_file_that_is_none_ends_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("dump.rdb"), b"REDIS0009\xfe\x00\x02\x03set\x02\x01a\x01a\xff")
        .expect("a file");
    let output = std::process::Command::new(braid_tests::server::program_under_test())
        .args(["--port", &free_port().to_string(), "--save", "", "--dir"])
        .arg(folder.path())
        .output()
        .expect("the program runs");
    assert!(!output.status.success());
    let log = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(log.contains("Terminating server after rdb file reading failure."), "{log}");
}

#[test]
fn a_load_is_seen_from_outside_and_can_be_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path");
    let file = folder.path().join("dump.rdb");
    let mut server = TestServer::start(&["--dir", path]);
    let mut client = server.connect();
    for number in 0..3000 {
        client.ok(&format!("SET key:{number} value"));
    }
    client.ok("SAVE");
    client.send(b"SHUTDOWN NOSAVE\r\n");
    server.wait();
    let before = std::fs::read(&file).expect("a dump file");
    // With this delay per key, the load takes seconds. (Not a `TestServer`: that waits until
    // commands work.)
    let port = free_port();
    let mut child = std::process::Command::new(braid_tests::server::program_under_test())
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir", path, "--save", "1 1"])
        .args(["--key-load-delay", "3000", "--loading-process-events-interval-bytes", "1024"])
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("the program runs");
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut connected = None;
    wait_for("the server listens", || {
        connected = RawClient::tcp(address).ok();
        connected.is_some()
    });
    let mut client = connected.expect("just connected");
    let refusal = client.call("GET key:1").text();
    assert!(
        refusal.starts_with("LOADING ") && refusal.ends_with(" is loading the dataset in memory"),
        "{refusal}"
    );
    assert_eq!(client.info_field("persistence", "loading").as_deref(), Some("1"));
    assert!(client.info_field("persistence", "loading_loaded_perc").is_some());
    // The partly loaded dataset must not be saved over the file that it is loaded from.
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a process id");
    kill_process(id, Signal::TERM).expect("it runs");
    child.wait().expect("our own child");
    assert_eq!(std::fs::read(&file).expect("a dump file"), before);
    let server = TestServer::start(&["--dir", path, "--key-load-delay", "10"]);
    let mut client = server.connect();
    wait_for("the load is done", || client.call("GET key:2999").text() == "value");
    assert_eq!(client.info_field("persistence", "loading").as_deref(), Some("0"));
    assert_eq!(client.info_field("persistence", "rdb_last_load_keys_loaded").as_deref(), Some("3000"));
}
