// SPDX-License-Identifier: BSD-3-Clause
//! BGSAVE: the file holds the state at a single moment despite concurrent writes, and failures
//! are handled as users expect.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use braid_tests::server::is_braid;
use braid_tests::{RawClient, TestServer, request, wait_for};
use rustix::process::Signal;

const ACCOUNTS: u32 = 2000;
const STAKE: u32 = 100;

fn in_progress(client: &mut RawClient) -> bool {
    client.info_field("persistence", "rdb_bgsave_in_progress").as_deref() == Some("1")
}

fn wait_for_end(client: &mut RawClient) {
    wait_for("the save ends", || !in_progress(client));
}

fn begin(client: &mut RawClient) {
    assert_eq!(client.call("BGSAVE").text(), "Background saving started");
}

/// Moves amounts between accounts until stopped. Every transaction preserves their sum.
fn move_amounts(server: &TestServer, stop: &AtomicBool, seed: u64) {
    let (mut client, mut random) = (server.connect(), fastrand::Rng::with_seed(seed));
    while !stop.load(Relaxed) {
        let mut batch = String::new();
        for _ in 0..20 {
            let (from, to, amount) = (random.u32(0..ACCOUNTS), random.u32(0..ACCOUNTS), random.u32(1..9));
            // Half of the accounts are counters, half are fields of hashes.
            let lines = if random.bool() {
                format!("DECRBY {from} {amount}\r\nINCRBY {to} {amount}\r\n")
            } else {
                format!("HINCRBY h:{from} f -{amount}\r\nHINCRBY h:{to} f {amount}\r\n")
            };
            batch.push_str(&format!("MULTI\r\n{lines}EXEC\r\n"));
        }
        client.send(batch.as_bytes());
        (0..80).for_each(|_| drop(client.read()));
    }
}

#[test]
fn a_save_in_the_background_has_the_state_of_one_moment() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path");
    let server = TestServer::start(&["--dir", path, "--io-threads", "2"]);
    let mut client = server.connect();
    for number in 0..ACCOUNTS {
        client.ok(&format!("SET {number} {STAKE}"));
        client.call(&format!("HSET h:{number} f {STAKE}"));
    }
    /// Stops the threads however the test ends.
    struct Stop<'s>(&'s AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Relaxed);
        }
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = Stop(&stop);
        for seed in 0..4 {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || move_amounts(server, stop, seed));
        }
        for _ in 0..5 {
            begin(&mut client);
            wait_for_end(&mut client);
            let reader = TestServer::start(&["--dir", path]);
            let mut other = reader.connect();
            assert_eq!(other.call("DBSIZE").integer(), Some(2 * i64::from(ACCOUNTS)));
            let sum: i64 = (0..ACCOUNTS)
                .map(|number| {
                    let one: i64 = other.call(&format!("GET {number}")).text().parse().expect("a number");
                    one + other.call(&format!("HGET h:{number} f")).text().parse::<i64>().expect("a number")
                })
                .sum();
            assert_eq!(sum, i64::from(2 * ACCOUNTS * STAKE), "half of a transaction is in the file");
        }
    });
}

/// A server whose background saves take a while.
fn slow_saver(arguments: &[&str]) -> (TestServer, RawClient, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path").to_owned();
    let server = TestServer::start(&[&["--dir", &path], arguments].concat());
    let mut client = server.connect();
    for number in 0..2000 {
        client.ok(&format!("SET key:{number} value"));
    }
    client.ok("CONFIG SET rdb-key-save-delay 2000");
    (server, client, folder)
}

fn files(folder: &tempfile::TempDir) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path()).expect("a folder");
    entries.map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn one_save_at_a_time_and_the_end_of_the_server_does_not_wait_for_it() {
    let (mut server, mut client, folder) = slow_saver(&[]);
    begin(&mut client);
    assert!(in_progress(&mut client));
    assert_eq!(client.call("BGSAVE").text(), "ERR Background save already in progress");
    assert_eq!(client.call("SAVE").text(), "ERR Background save already in progress");
    assert_eq!(client.call("BGSAVE SOON").text(), "ERR syntax error");
    client.ok("SET key:1 other");
    assert_eq!(client.call("GET key:1").text(), "other");
    wait_for("progress to be reported", || {
        let done = client.info_field("persistence", "current_save_keys_processed").expect("a field");
        done.parse::<u32>().expect("a number") > 0
    });
    client.send(b"SHUTDOWN NOSAVE\r\n");
    assert!(server.wait().success());
    assert!(files(&folder).is_empty(), "{:?}", files(&folder));
}

#[test]
fn a_transaction_only_schedules_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path");
    let server = TestServer::start(&["--dir", path]);
    let mut client = server.connect();
    client.ok("MULTI");
    for line in ["SET k 1", "BGSAVE", "SET k 2"] {
        assert_eq!(client.call(line).text(), "QUEUED");
    }
    let replies = client.call("EXEC");
    assert_eq!(replies.elements().expect("three replies")[1].text(), "Background saving scheduled");
    wait_for("it is saved", || folder.path().join("dump.rdb").exists());
    let other = TestServer::start(&["--dir", path]);
    assert_eq!(other.connect().call("GET k").text(), "2");
}

#[test]
fn keys_flushed_during_a_save_do_not_return() {
    let (server, mut client, folder) = slow_saver(&["--save", "3600 1000000"]);
    begin(&mut client);
    client.ok("FLUSHALL");
    assert_eq!(client.call("DBSIZE").integer(), Some(0));
    wait_for_end(&mut client);
    assert_eq!(files(&folder), ["dump.rdb"]);
    let path = folder.path().to_str().expect("a readable path");
    drop(server);
    let other = TestServer::start(&["--dir", path]);
    assert_eq!(other.connect().call("DBSIZE").integer(), Some(0));
}

#[test]
fn a_save_point_saves() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path");
    let server = TestServer::start(&["--dir", path, "--save", "1 3"]);
    let mut client = server.connect();
    client.ok("SET a 1");
    client.ok("SET b 1");
    assert_eq!(client.info_field("persistence", "rdb_changes_since_last_save").as_deref(), Some("2"));
    client.ok("SET c 1");
    wait_for("it is saved", || folder.path().join("dump.rdb").exists());
    wait_for_end(&mut client);
    assert_eq!(client.info_field("persistence", "rdb_changes_since_last_save").as_deref(), Some("0"));
    assert_eq!(client.info_field("persistence", "rdb_last_bgsave_status").as_deref(), Some("ok"));
}

#[test]
fn while_it_fails_nothing_is_written_and_afterwards_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("inner");
    std::fs::create_dir(&inner).expect("a folder");
    let path = inner.to_str().expect("a readable path");
    let protected = ["--enable-protected-configs", "yes"];
    let server = TestServer::start(&[&["--dir", path, "--save", "3600 1000000"][..], &protected].concat());
    let mut client = server.connect();
    client.ok("SET k 1");
    std::fs::remove_dir(&inner).expect("the folder is empty");
    begin(&mut client);
    wait_for_end(&mut client);
    assert_eq!(client.info_field("persistence", "rdb_last_bgsave_status").as_deref(), Some("err"));
    for refused in ["SET k 2", "PING", "DEL k"] {
        let text = client.call(refused).text();
        assert!(text.starts_with("MISCONF Redis is configured to save RDB snapshots"), "{text}");
    }
    assert_eq!(client.call("GET k").text(), "1");
    client.ok("MULTI");
    assert!(client.call("SET k 2").text().starts_with("MISCONF"));
    assert!(client.call("EXEC").text().starts_with("EXECABORT"));
    client.ok("CONFIG SET stop-writes-on-bgsave-error no");
    client.ok("SET k 2");
    client.ok("CONFIG SET stop-writes-on-bgsave-error yes");
    assert!(client.call("SET k 3").text().starts_with("MISCONF"));
    // The disk is available again.
    std::fs::create_dir(&inner).expect("a folder");
    client.ok(&format!("CONFIG SET dir {path}"));
    begin(&mut client);
    wait_for_end(&mut client);
    assert_eq!(client.info_field("persistence", "rdb_last_bgsave_status").as_deref(), Some("ok"));
    client.ok("SET k 3");
}

/// Fills a server whose save at shutdown takes about a second, and signals it to shut down.
/// Returns the server and the path of the file being written.
fn ending(path: &str, signal: Signal) -> (TestServer, std::path::PathBuf) {
    let server = TestServer::start(&["--dir", path, "--save", "3600 1"]);
    let mut client = server.connect();
    for number in 0..100 {
        client.ok(&format!("SET key:{number} value"));
    }
    client.ok("CONFIG SET rdb-key-save-delay 10000");
    server.signal(signal);
    let file = std::path::Path::new(path).join(format!("temp-{}.rdb", server.process_id()));
    wait_for("the save at shutdown", || file.exists());
    (server, file)
}

#[test]
fn second_sigint_exits_immediately_and_second_sigterm_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path");
    let (mut server, file) = ending(path, Signal::TERM);
    server.signal(Signal::INT);
    assert!(!server.wait().success());
    assert!(!file.exists() && !folder.path().join("dump.rdb").exists());
    let (mut server, file) = ending(path, Signal::INT);
    server.signal(Signal::TERM);
    assert!(server.wait().success());
    assert!(!file.exists() && folder.path().join("dump.rdb").exists());
}

#[test]
fn a_signal_that_is_not_heeded_yet_can_be_taken_back() {
    let server = TestServer::start(&["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    assert_eq!(client.call("SHUTDOWN ABORT").text(), "ERR No shutdown in progress.");
    client.ok("DEBUG PAUSE-CRON 1");
    server.signal(Signal::TERM);
    wait_for("the signal", || server.log().contains("Received SIGTERM scheduling shutdown..."));
    wait_for("the shutdown to be cancelled", || client.call("SHUTDOWN ABORT").text() == "OK");
    client.ok("DEBUG PAUSE-CRON 0");
    client.ok("SET k v");
    let mut server = server;
    server.signal(Signal::TERM);
    assert!(server.wait().success());
}

#[test]
fn save_and_rewrite_never_run_concurrently() {
    let (server, mut client, folder) = slow_saver(&["--appendonly", "yes"]);
    client.ok("CONFIG SET rdb-key-save-delay 500");
    let is_one =
        |client: &mut RawClient, name: &str| client.info_field("persistence", name).as_deref() == Some("1");
    assert_eq!(client.call("BGREWRITEAOF").text(), "Background append only file rewriting started");
    let refusal = client.call("BGSAVE").text();
    assert!(
        refusal.starts_with("ERR Another child process is active (AOF?): can't BGSAVE right now."),
        "{refusal}"
    );
    assert_eq!(
        client.call("BGREWRITEAOF").text(),
        "ERR Background append only file rewriting already in progress"
    );
    assert_eq!(client.call("BGSAVE SCHEDULE").text(), "Background saving scheduled");
    assert!(is_one(&mut client, "aof_rewrite_in_progress") && !in_progress(&mut client));
    client.ok("SET key:1 between");
    wait_for("the scheduled save", || in_progress(&mut client));
    assert!(!is_one(&mut client, "aof_rewrite_in_progress"));
    assert_eq!(client.call("BGREWRITEAOF").text(), "Background append only file rewriting scheduled");
    assert!(is_one(&mut client, "aof_rewrite_scheduled"));
    client.ok("SET key:2 later");
    wait_for("the scheduled rewrite", || is_one(&mut client, "aof_rewrite_in_progress"));
    assert!(!in_progress(&mut client));
    client.ok("CONFIG SET rdb-key-save-delay 0");
    assert_eq!(client.info_field("persistence", "aof_last_bgrewrite_status").as_deref(), Some("ok"));
    drop(server);
    let path = folder.path().to_str().expect("a readable path");
    let other = TestServer::start(&["--dir", path]);
    let mut other = other.connect();
    assert_eq!(other.call("GET key:1").text(), "between");
    assert_eq!(other.call("GET key:2").text(), "value");
}

#[test]
fn copy_on_write_size_is_reported_during_a_save() {
    let (_server, mut client, _folder) = slow_saver(&[]);
    if !is_braid() {
        return;
    }
    let number = |client: &mut RawClient, name: &str| -> u64 {
        client.info_field("persistence", name).expect("a field").parse().expect("a number")
    };
    begin(&mut client);
    // Change all keys, most of which have not been saved yet.
    let changes: Vec<u8> = (0..2000)
        .map(|number| request(&format!("SETRANGE key:{number} 0 other")))
        .collect::<Vec<_>>()
        .concat();
    client.send(&changes);
    (0..2000).for_each(|_| assert!(client.read().integer().is_some()));
    let copied = number(&mut client, "current_cow_size");
    assert!(copied > 10_000, "{copied}");
    client.ok("CONFIG SET rdb-key-save-delay 0");
    wait_for_end(&mut client);
    assert!(number(&mut client, "rdb_last_cow_size") >= copied);
    assert_eq!(number(&mut client, "current_cow_size"), 0);
}
