// SPDX-License-Identifier: BSD-3-Clause
//! Switching the append-only file on and off while clients write.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use braid_tests::server::is_braid;
use braid_tests::{RawClient, TestServer, Value, wait_for};
use rustix::process::Signal;

/// After a rewrite was stopped by switching it off, another one may be requested immediately.
#[test]
fn rewritten_while_a_rewrite_that_was_stopped_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path");
    let server = TestServer::start(&["--dir", path]);
    let mut client = server.connect();
    (0..2000).for_each(|number| client.ok(&format!("SET key:{number} x")));
    for _ in 0..5 {
        client.ok("CONFIG SET rdb-key-save-delay 1000");
        client.ok("CONFIG SET appendonly yes");
        client.ok("CONFIG SET rdb-key-save-delay 0");
        client.ok("CONFIG SET appendonly no");
        let reply = client.call("BGREWRITEAOF");
        assert!(!reply.is_error(), "{reply}");
        wait_for("the rewrite", || {
            let info = client.info("persistence");
            info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
        });
        assert_eq!(client.info_field("persistence", "aof_last_bgrewrite_status").as_deref(), Some("ok"));
    }
}

/// No client is refused or disconnected meanwhile, and data present while it is on survives a
/// crash.
#[test]
fn switched_on_and_off_under_load() {
    if !is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path");
    let server = TestServer::start(&["--dir", path, "--appendfsync", "always", "--io-threads", "2"]);
    let done = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4)
            .map(|number| {
                let (server, done) = (&server, &done);
                scope.spawn(move || {
                    let mut client = server.connect();
                    let mut written = 0;
                    while !done.load(Relaxed) {
                        written += 1;
                        assert_eq!(client.call(&format!("INCR count:{number}")).integer(), Some(written));
                    }
                    written
                })
            })
            .collect();
        let mut client = server.connect();
        let is_on = |client: &mut braid_tests::RawClient, what: &str| {
            let info = client.info("persistence");
            info.contains("aof_rewrite_in_progress:0")
                && info.contains("aof_rewrite_scheduled:0")
                && info.contains(what)
        };
        for round in 0..5 {
            client.ok("CONFIG SET appendonly yes");
            wait_for("the first base", || is_on(&mut client, "aof_enabled:1"));
            client.ok(&format!("SET round {round}"));
            if round < 4 {
                client.ok("CONFIG SET appendonly no");
                assert!(is_on(&mut client, "aof_enabled:0"));
            }
        }
        done.store(true, Relaxed);
        writers.into_iter().map(|writer| writer.join().expect("no panic")).collect::<Vec<i64>>()
    });
    server.signal(Signal::KILL);
    drop(server);
    let server = TestServer::start(&["--dir", path, "--appendonly", "yes"]);
    let mut client = server.connect();
    for (number, written) in written.into_iter().enumerate() {
        assert_eq!(client.call(&format!("GET count:{number}")), Value::bulk(written.to_string()));
    }
    assert_eq!(client.call("GET round").text(), "4");
    let files = std::fs::read_dir(folder.path().join("appendonlydir")).expect("a folder").count();
    assert_eq!(files, 3, "a manifest, a base, an increment");
}

/// Without a base on disk the dataset would be lost: the server does not exit, unless it is
/// forced to.
#[test]
fn the_first_base_is_waited_for() {
    if !is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path");
    let slow = |server: &TestServer| {
        let mut client = server.connect();
        for number in 0..100 {
            client.ok(&format!("SET key:{number} value"));
        }
        client.ok("CONFIG SET rdb-key-save-delay 10000000");
        client.ok("CONFIG SET appendonly yes");
        wait_for("the rewrite", || {
            client.info_field("persistence", "aof_rewrite_in_progress").as_deref() == Some("1")
        });
        client
    };
    let mut server = TestServer::start(&["--dir", path]);
    let mut client = slow(&server);
    for ending in ["SHUTDOWN", "SHUTDOWN NOSAVE"] {
        assert_eq!(client.call(ending).text(), "ERR Errors trying to SHUTDOWN. Check logs.");
    }
    server.signal(Signal::TERM);
    wait_for("the signal", || server.log().contains("SIGTERM received but errors trying to shut down"));
    assert!(server.log().contains("Writing initial AOF, can't exit."), "{}", server.log());
    client.ok("SET last 1");
    client.ok("CONFIG SET rdb-key-save-delay 0");
    client.ok("CONFIG SET appendonly no");
    client.ok("CONFIG SET appendonly yes");
    wait_for("the base", || {
        let info = client.info("persistence");
        info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0")
    });
    client.send(b"SHUTDOWN NOSAVE\r\n");
    assert!(server.wait().success());
    let server = TestServer::start(&["--dir", path, "--appendonly", "yes"]);
    assert_eq!(server.connect().call("DBSIZE").integer(), Some(101));
    drop(server);

    let empty = tempfile::tempdir().expect("a folder");
    let path = empty.path().to_str().expect("a readable path");
    let mut server = TestServer::start(&["--dir", path]);
    slow(&server).send(b"SHUTDOWN NOSAVE FORCE\r\n");
    assert!(server.wait().success());
}

fn wait_for_rest(client: &mut RawClient) {
    wait_for("saves and rewrites to end", || {
        let info = client.info("persistence");
        ["aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0", "rdb_bgsave_in_progress:0"]
            .iter()
            .all(|rest| info.contains(rest))
    });
}

/// The set of files after each step and their numbers equal those of stock servers, so this test
/// passes on them too.
#[test]
fn files_and_their_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path");
    let start = || {
        let rewrites = ["--auto-aof-rewrite-percentage", "0", "--enable-debug-command", "yes"];
        TestServer::start(&[&["--dir", path, "--appendonly", "yes"][..], &rewrites].concat())
    };
    let appendonly = folder.path().join("appendonlydir");
    // The manifest in short form: type and number of each file. Every file in it exists, and no
    // other.
    let check = |step: &str, expected: &str| {
        wait_for("replaced files to be deleted", || {
            let manifest =
                std::fs::read_to_string(appendonly.join("appendonly.aof.manifest")).expect("a manifest");
            let lines: Vec<Vec<&str>> =
                manifest.lines().map(|line| line.split(' ').collect::<Vec<_>>()).collect();
            let short: Vec<String> = lines.iter().map(|line| format!("{}{}", line[5], line[3])).collect();
            assert_eq!(short.join(" "), expected, "{step}");
            let mut named: Vec<&str> = lines.iter().map(|line| line[1]).collect();
            named.push("appendonly.aof.manifest");
            named.sort_unstable();
            let entries = std::fs::read_dir(&appendonly).expect("a folder");
            let mut there: Vec<String> = entries
                .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
                .collect();
            there.sort_unstable();
            there == named
        });
    };
    let rewrite = |client: &mut RawClient| {
        assert!(!client.call("BGREWRITEAOF").is_error());
        wait_for_rest(client);
    };
    let mut server = start();
    let mut client = server.connect();
    client.ok("SET k 1");
    check("started", "b1 i1");
    rewrite(&mut client);
    check("rewritten", "b2 i2");
    client.ok("CONFIG SET appendonly no");
    check("switched off", "b2 i2");
    rewrite(&mut client);
    check("rewritten while it is off", "b3");
    // Stock servers restart the numbering of increments at 1 only after they have read the
    // manifest.
    client.ok("DEBUG LOADAOF");
    client.ok("CONFIG SET appendonly yes");
    wait_for_rest(&mut client);
    check("switched on", "b4 i1");
    client.ok("CONFIG SET aof-disable-auto-gc yes");
    client.ok("SET k 2");
    rewrite(&mut client);
    check("with replaced files kept", "b5 h1 h4 i2");
    rewrite(&mut client);
    check("once more", "b6 h2 h5 h1 h4 i3");
    client.ok("CONFIG SET aof-disable-auto-gc no");
    rewrite(&mut client);
    check("with replaced files deleted", "b7 i4");
    client.send(b"SHUTDOWN NOSAVE\r\n");
    assert!(server.wait().success());
    server = start();
    let mut client = server.connect();
    check("started again", "b7 i4");
    rewrite(&mut client);
    check("rewritten after that", "b8 i5");

    // Switched on during a save, it starts once the save is over; until then nothing is written.
    client.ok("CONFIG SET appendonly no");
    client.ok("CONFIG SET rdb-key-save-delay 500000");
    assert!(!client.call("BGSAVE").is_error());
    client.ok("CONFIG SET appendonly yes");
    client.ok("SET k 3");
    check("switched on during a save", "b8 i5");
    client.ok("CONFIG SET rdb-key-save-delay 0");
    wait_for_rest(&mut client);
    check("after that", "b9 i6");
    assert_eq!(client.call("GET k").text(), "3");
    drop(client);
    server.signal(Signal::KILL);
    drop(server);
    let server = start();
    assert_eq!(server.connect().call("GET k").text(), "3");
}

/// A second rewrite starts before the writing thread has reached the first one's cut. Changes
/// between the two cuts must be in the first one's increment, not in a file that is gone.
#[test]
fn writes_between_two_aof_cuts_survive_a_crash() {
    if !is_braid() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a readable path");
    let arguments = ["--dir", path, "--appendonly", "yes", "--enable-debug-command", "yes"];
    let server = TestServer::start(&[&arguments[..], &["--auto-aof-rewrite-percentage", "0"]].concat());
    let mut client = server.connect();
    client.ok("SET first 1");
    client.ok("DEBUG AOF-FLUSH-SLEEP 3000000");
    client.ok("SET second 1");
    assert!(!client.call("BGREWRITEAOF").is_error());
    wait_for_rest(&mut client);
    client.ok("SET between 1");
    // The next rewrite does not complete.
    client.ok("CONFIG SET rdb-key-save-delay 10000000");
    assert!(!client.call("BGREWRITEAOF").is_error());
    let manifest = folder.path().join("appendonlydir/appendonly.aof.manifest");
    wait_for("the second cut", || {
        std::fs::read_to_string(&manifest).is_ok_and(|text| text.contains("seq 3 type i"))
            && client.info("persistence").contains("aof_rewrite_in_progress:1")
    });
    client.ok("SET last 1");
    let on_disk = client.call("WAITAOF 1 0 60000");
    assert_eq!(on_disk, Value::Array(vec![Value::Integer(1), Value::Integer(0)]));
    server.signal(Signal::KILL);
    drop(server);
    let server = TestServer::start(&arguments);
    let found = server.connect().call("MGET first second between last");
    assert_eq!(found, Value::Array(vec![Value::bulk("1"); 4]));
}
