// SPDX-License-Identifier: BSD-3-Clause
//! Long values that are read repeatedly: each thread keeps a copy, and no copy outlives a change.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use braid_tests::{RawClient, TestServer, Value};

/// Longer than values stored inside a key's entry.
const LONG: usize = 3000;
/// Enough reads for every thread to have a copy, whichever of them serves the client.
const READS: usize = 40;

fn value(number: u64) -> String {
    format!("{number:012}").repeat(LONG / 12)
}

fn from_copies(client: &mut RawClient) -> u64 {
    let field = client.info_field("threads", "reads_from_copies").expect("the field");
    field.parse().expect("a number")
}

/// Clients of different threads, if the server has several.
fn clients(server: &TestServer) -> Vec<RawClient> {
    (0..6).map(|_| server.connect()).collect()
}

#[test]
fn no_copy_outlives_a_change() {
    let server = TestServer::start(&["--io-threads", "3", "--enable-debug-command", "yes"]);
    let mut writer = server.connect();
    let mut readers = clients(&server);
    let text = value(1);
    let other = value(2);
    let before = |writer: &mut RawClient| {
        writer.ok("FLUSHALL");
        writer.ok(&format!("SET hot {text}"));
        writer.ok(&format!("SET other {other}"));
        writer.ok("SELECT 1");
        writer.ok(&format!("SET hot {other}"));
        writer.ok("SELECT 0");
        writer.call("DUMP other")
    };
    let changes: &[(&str, &[&str], Option<String>)] = &[
        ("set", &["SET hot short"], Some("short".into())),
        ("longer", &["APPEND hot more"], Some(format!("{text}more"))),
        ("in place", &["SETRANGE hot 5 X"], Some(format!("{}X{}", &text[..5], &text[6..]))),
        ("bits", &["SETBIT hot 7 1"], Some(format!("1{}", &text[1..]))),
        ("deleted", &["DEL hot"], None),
        ("unlinked", &["UNLINK hot"], None),
        ("renamed over", &["RENAME other hot"], Some(other.clone())),
        ("copied over", &["COPY other hot REPLACE"], Some(other.clone())),
        ("moved away", &["RENAME hot elsewhere"], None),
        ("flushed", &["FLUSHALL"], None),
        ("flushed database", &["FLUSHDB ASYNC"], None),
        ("swapped", &["SWAPDB 0 1"], Some(other.clone())),
        ("expired", &["PEXPIREAT hot 1"], None),
        ("transaction", &["MULTI", "SET hot a", "SET other b", "EXEC"], Some("a".into())),
        ("script", &["EVAL \"return redis.call('SET', KEYS[1], 'lua')\" 1 hot"], Some("lua".into())),
        (
            "script with an undeclared key",
            &["EVAL \"local k = 'ho' .. 't' return redis.call('SET', k, 'lua')\" 0"],
            Some("lua".into()),
        ),
        ("reloaded", &["SET hot new", "DEBUG RELOAD"], Some("new".into())),
        ("sorted into", &["SORT none STORE hot"], None),
        ("taken", &["GETDEL hot"], None),
    ];
    for (what, requests, expected) in changes {
        before(&mut writer);
        for _ in 0..READS {
            for reader in &mut readers {
                assert_eq!(reader.call("GET hot"), Value::bulk(&text), "before {what}");
            }
        }
        let served = if server.is_braid() { from_copies(&mut writer) } else { 0 };
        for reader in &mut readers {
            reader.call("GET hot");
        }
        if server.is_braid() {
            assert!(from_copies(&mut writer) > served, "no read came from a copy before {what}");
        }
        for line in *requests {
            let reply = writer.call(line);
            assert!(!reply.is_error(), "{line}: {reply:?}");
        }
        for reader in &mut readers {
            let now = reader.call("GET hot");
            match expected {
                Some(text) => assert_eq!(now, Value::bulk(text), "after {what}"),
                None => assert!(now.is_null(), "after {what}: {now:?}"),
            }
        }
    }
}

#[test]
fn cached_copy_expires_with_its_key() {
    let server = TestServer::start(&["--io-threads", "2"]);
    let mut client = server.connect();
    client.ok(&format!("SET hot {} PX 300", value(1)));
    let begun = std::time::Instant::now();
    while !client.call("GET hot").is_null() {
        assert!(begun.elapsed().as_secs() < 5, "the cached copy outlived its key");
    }
    assert_eq!(client.call("EXISTS hot"), Value::Integer(0));
}

#[test]
fn reads_of_a_hot_value_follow_its_writer() {
    let server = TestServer::start(&["--io-threads", "3"]);
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    server.connect().ok(&format!("SET hot {}", value(0)));
    std::thread::scope(|scope| {
        for mut reader in clients(&server) {
            let (stop, written) = (&stop, &written);
            scope.spawn(move || {
                let mut last = 0;
                while !stop.load(Ordering::Relaxed) {
                    let least = written.load(Ordering::SeqCst);
                    let text = reader.call("GET hot").text();
                    let number: u64 = text[..12].parse().expect("a number");
                    assert_eq!(text, value(number), "a reader got a mix of two values");
                    assert!(number >= least.max(last), "stale read: {number} after {least} and {last}");
                    last = number;
                }
            });
        }
        let mut writer = server.connect();
        for number in 1..300 {
            writer.ok(&format!("SET hot {}", value(number)));
            written.store(number, Ordering::SeqCst);
            // Now and then a pause long enough for copies to be made.
            if number % 3 == 0 {
                for _ in 0..READS {
                    writer.call("PING");
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    if server.is_braid() {
        assert!(from_copies(&mut server.connect()) > 0, "no read came from a copy");
    }
}
