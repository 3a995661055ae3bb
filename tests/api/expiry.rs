// SPDX-License-Identifier: BSD-3-Clause
//! Keys expire on time: not early, not much later, and without being accessed.

use std::time::{Duration, Instant};

use braid_tests::{RawClient, TestServer, Value, wait_for};

#[test]
fn key_is_present_until_its_expiry_time() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    for lifetime_ms in [5_u64, 20, 100, 300] {
        let before = Instant::now();
        client.ok(&format!("SET k v PX {lifetime_ms}"));
        let after = Instant::now();
        loop {
            let asked = Instant::now();
            let there = client.call("GET k") == Value::bulk("v");
            let answered = Instant::now();
            // The server's clock has a resolution of one millisecond, so an error of one either
            // way is right.
            if there {
                assert!(
                    asked - after <= Duration::from_millis(lifetime_ms + 1),
                    "{lifetime_ms} ms: still there after {:?}",
                    asked - after
                );
            } else {
                assert!(
                    answered - before >= Duration::from_millis(lifetime_ms - 1),
                    "{lifetime_ms} ms: expired after {:?}",
                    answered - before
                );
                break;
            }
        }
    }
}

#[test]
fn remaining_ttl_is_reported_exactly() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.ok("SET k v PX 100000");
    let left = client.call("PTTL k").integer().expect("a number");
    assert!((99_000..=100_000).contains(&left), "{left}");
    let now_ms =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis()
            as i64;
    assert_eq!(client.call(&format!("PEXPIREAT k {}", now_ms + 500_000)), Value::Integer(1));
    assert_eq!(client.call("PEXPIRETIME k"), Value::Integer(now_ms + 500_000));
    assert_eq!(client.call("EXPIRETIME k"), Value::Integer((now_ms + 500_000 + 500) / 1000));
    assert_eq!(client.call("EXPIRE k 5 GT"), Value::Integer(0));
    assert_eq!(client.call("EXPIRE k 5 LT"), Value::Integer(1));
    assert_eq!(client.call("PERSIST k"), Value::Integer(1));
    assert_eq!(client.call("TTL k"), Value::Integer(-1));
    assert_eq!(client.call("TTL nosuch"), Value::Integer(-2));
}

#[test]
fn expiry_in_the_past_deletes_immediately() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    for command in ["EXPIRE k -1", "PEXPIRE k 0", "EXPIREAT k 1", "PEXPIREAT k 1"] {
        client.ok("SET k v");
        assert_eq!(client.call(command), Value::Integer(1), "{command}");
        assert_eq!(client.call("DBSIZE"), Value::Integer(0), "{command}");
    }
}

#[test]
fn expired_keys_are_removed_without_being_asked_for() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let mut request = Vec::new();
    for number in 0..20_000 {
        request.extend(braid_tests::request(&format!("SET key:{number} v PX {}", 1 + number % 200)));
    }
    client.send(&request);
    for _ in 0..20_000 {
        assert_eq!(client.read(), Value::ok());
    }
    client.ok("SET keep v");
    wait_for("all expired keys to be removed", || client.call("DBSIZE") == Value::Integer(1));
    // DBSIZE may exclude keys that have expired but are not removed yet.
    let mut expired = || client.info_field("stats", "expired_keys").and_then(|text| text.parse::<u64>().ok());
    wait_for("all expired keys to be counted", || expired() >= Some(20_000));
    assert_eq!(expired(), Some(20_000));
}

#[test]
fn an_expired_key_is_absent_for_every_command() {
    // Background removal is switched off where the server allows it: expired keys must be
    // invisible anyway.
    let server = TestServer::start(&["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    client.call("DEBUG SET-ACTIVE-EXPIRE 0");
    for (command, expected) in [
        ("GET k", Value::NullBulk),
        ("EXISTS k", Value::Integer(0)),
        ("TYPE k", Value::Simple(b"none".to_vec())),
        ("STRLEN k", Value::Integer(0)),
        ("DEL k", Value::Integer(0)),
        ("RENAME k x", Value::Error(b"ERR no such key".to_vec())),
        ("COPY k x", Value::Integer(0)),
        ("TTL k", Value::Integer(-2)),
        ("EXPIRE k 100", Value::Integer(0)),
        ("SETNX k new", Value::Integer(1)),
        ("APPEND k new", Value::Integer(3)),
        ("INCR k", Value::Integer(1)),
        ("SET k new XX", Value::NullBulk),
        ("GETDEL k", Value::NullBulk),
        ("MGET k", Value::Array(vec![Value::NullBulk])),
        ("KEYS *", Value::Array(Vec::new())),
        ("RANDOMKEY", Value::NullBulk),
        ("OBJECT ENCODING k", Value::NullBulk),
    ] {
        client.ok("FLUSHALL");
        client.ok("SET k 5 PX 1");
        std::thread::sleep(Duration::from_millis(3));
        assert_eq!(client.call(command), expected, "{command}");
    }
}

/// In import mode no key expires or is evicted until the import is over. The importing client
/// sees keys past their expiry, other clients do not. The replies equal those of Valkey 9.
#[test]
fn imported_keys_do_not_expire_until_import_ends() {
    let server = TestServer::start(&[]);
    let (mut source, mut other) = (server.connect(), server.connect());
    if source.call("CONFIG SET import-mode yes").is_error() {
        println!("skipped: the server under test has no import mode");
        return;
    }
    source.ok("CONFIG SET import-mode no");
    assert_eq!(source.call("CLIENT IMPORT-SOURCE ON").text(), "ERR Server is not in import mode");
    assert_eq!(source.call("CLIENT IMPORT-SOURCE maybe").text(), "ERR Server is not in import mode");
    source.ok("CLIENT IMPORT-SOURCE OFF");
    source.ok("CONFIG SET import-mode yes");
    assert_eq!(source.call("CLIENT IMPORT-SOURCE maybe").text(), "ERR syntax error");
    source.ok("CLIENT IMPORT-SOURCE ON");
    assert!(source.call("CLIENT INFO").text().contains(" flags=I "));

    source.ok("SET past 1 PXAT 1");
    source.ok("SET number 1 PX 20");
    source.call("HSET hash f v");
    source.call("HPEXPIRE hash 20 FIELDS 1 f");
    let count = |client: &mut RawClient| client.call("DBSIZE").integer();
    wait_for("all keys to be past their expiry", || {
        other.call("EXISTS past number").integer() == Some(0)
            && other.call("HGETALL hash").elements().is_some_and(<[Value]>::is_empty)
    });
    assert_eq!((count(&mut other), count(&mut source)), (Some(3), Some(3)));
    for (line, seen, unseen) in [
        ("GET past", "\"1\"", "(nil)"),
        ("TTL past", "(integer) 0", "(integer) -2"),
        ("PTTL number", "(integer) 0", "(integer) -2"),
        ("TYPE number", "+string", "+none"),
        ("HGETALL hash", "[\"f\", \"v\"]", "[]"),
        ("EXISTS past number hash", "(integer) 3", "(integer) 1"),
        ("EVAL \"return redis.call('get', KEYS[1])\" 1 past", "\"1\"", "(nil)"),
        ("EVAL \"return redis.call('get', 'pa' .. 'st')\" 0", "\"1\"", "(nil)"),
    ] {
        assert_eq!(source.call(line).to_string(), seen, "{line}");
        assert_eq!(other.call(line).to_string(), unseen, "{line}");
    }
    let names = |value: &Value| {
        let mut names: Vec<String> = value.elements().expect("names").iter().map(Value::text).collect();
        names.sort();
        names
    };
    assert_eq!(names(&source.call("KEYS *")), ["hash", "number", "past"]);
    assert_eq!(names(&other.call("KEYS *")), ["hash"]);
    assert_eq!(source.call("SCAN 0 COUNT 100").elements().map(|parts| names(&parts[1]).len()), Some(3));
    assert_eq!(other.call("SCAN 0 COUNT 100").elements().map(|parts| names(&parts[1]).len()), Some(1));
    source.send(b"MULTI\r\nGET past\r\nINCR number\r\nEXEC\r\n");
    let replies = [(); 4].map(|()| source.read().to_string());
    assert_eq!(replies[3], "[\"1\", (integer) 2]");
    // Blocking timeouts follow the real clock, whatever has expired.
    let began = Instant::now();
    assert!(source.call("BLPOP none 0.2").is_null());
    assert!(began.elapsed() >= Duration::from_millis(199));
    assert_eq!(source.call("SET later 1 EX 100"), Value::ok());
    assert!(source.call("TTL later").integer().is_some_and(|left| (90..=100).contains(&left)));
    assert_eq!(count(&mut other), Some(4));

    // The client stops being the import source; later the import ends.
    source.ok("CLIENT IMPORT-SOURCE OFF");
    assert!(source.call("GET past").is_null());
    assert_eq!(count(&mut other), Some(4));
    source.ok("CLIENT IMPORT-SOURCE ON");
    source.ok("CONFIG SET import-mode no");
    assert!(source.call("GET past").is_null());
    wait_for("expired keys to be removed", || count(&mut other) == Some(1) || count(&mut other) == Some(2));
    assert!(source.call("CLIENT INFO").text().contains(" flags=I "));
    source.call("RESET");
    assert!(source.call("CLIENT INFO").text().contains(" flags=N "));
}

#[test]
fn nothing_is_evicted_while_data_is_imported() {
    let server = TestServer::start(&["--maxmemory-policy", "allkeys-lru"]);
    let mut client = server.connect();
    if client.call("CONFIG SET import-mode yes").is_error() {
        println!("skipped: the server under test has no import mode");
        return;
    }
    let value = "x".repeat(10_000);
    for number in 0..100 {
        assert_eq!(client.call_arguments(&["SET", &format!("key:{number}"), &value]), Value::ok());
    }
    client.ok("CONFIG SET maxmemory 1");
    let refused = "OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(client.call("SET more 1").text(), refused);
    assert_eq!(client.call("DBSIZE").integer(), Some(100));
    client.ok("CONFIG SET import-mode no");
    wait_for("keys to be evicted", || {
        client.call("GET key:0");
        client.call("DBSIZE").integer() == Some(0)
    });
}
