//! Keys end when they should: not before, not much later, and without being asked.

use std::time::{Duration, Instant};

use braid_tests::{TestServer, Value, wait_for};

#[test]
fn a_key_is_there_until_its_time_and_gone_right_after() {
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
            // The server's clock counts whole milliseconds: one more or less is right.
            if there {
                assert!(
                    asked - after <= Duration::from_millis(lifetime_ms + 1),
                    "{lifetime_ms} ms: still there after {:?}",
                    asked - after
                );
            } else {
                assert!(
                    answered - before >= Duration::from_millis(lifetime_ms - 1),
                    "{lifetime_ms} ms: gone after {:?}",
                    answered - before
                );
                break;
            }
        }
    }
}

#[test]
fn remaining_times_are_told_exactly() {
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
fn a_time_in_the_past_deletes_at_once() {
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
    wait_for("all of them to be removed", || client.call("DBSIZE") == Value::Integer(1));
    // DBSIZE may leave out keys that are past their time and not removed yet.
    let mut expired = || client.info_field("stats", "expired_keys").and_then(|text| text.parse::<u64>().ok());
    wait_for("all of them to be counted", || expired() >= Some(20_000));
    assert_eq!(expired(), Some(20_000));
}

#[test]
fn an_expired_key_is_absent_for_every_command() {
    // Removal in the background is switched off where the server allows it: what is expired must not show
    // anyway.
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
