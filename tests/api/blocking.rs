// SPDX-License-Identifier: BSD-3-Clause
//! Blocking commands: which client is served by whom, when, and with which element, across
//! threads.

use std::time::{Duration, Instant};

use braid_tests::{RawClient, TestServer, Value, request, wait_for};

fn start() -> TestServer {
    TestServer::start(&["--io-threads", "4"])
}

/// Makes a client send a blocking command, and waits until `blocked` clients are blocked.
fn block(client: &mut RawClient, line: &str, other: &mut RawClient, blocked: usize) {
    client.send(&request(line));
    wait_for_blocked(other, blocked);
}

fn wait_for_blocked(client: &mut RawClient, blocked: usize) {
    wait_for("clients to wait", || {
        client.info_field("clients", "blocked_clients").as_deref() == Some(&blocked.to_string())
    });
}

fn pair(key: &str, element: &str) -> Value {
    Value::Array(vec![Value::bulk(key), Value::bulk(element)])
}

fn id(client: &mut RawClient) -> i64 {
    client.call("CLIENT ID").integer().expect("an id")
}

#[test]
fn longest_waiter_is_served_first_across_threads() {
    let server = start();
    let mut other = server.connect();
    let mut clients: Vec<RawClient> = (0..8).map(|_| server.connect()).collect();
    for round in 0..5 {
        for (number, client) in clients.iter_mut().enumerate() {
            block(client, "BLPOP k 0", &mut other, number + 1);
        }
        let elements: Vec<String> = (0..8).map(|number| format!("{round}-{number}")).collect();
        // The reply has the length before the waiters were served; by the time it arrives, they
        // have taken their elements.
        assert_eq!(other.call(&format!("RPUSH k {}", elements.join(" "))), Value::Integer(8));
        assert_eq!(other.call("EXISTS k"), Value::Integer(0));
        assert_eq!(other.info_field("clients", "blocked_clients").unwrap(), "0");
        for (client, element) in clients.iter_mut().zip(&elements) {
            assert_eq!(client.read(), pair("k", element));
        }
    }
}

#[test]
fn a_wait_ends_when_its_time_is_over_and_not_before() {
    let server = start();
    let mut client = server.connect();
    let mut late = Vec::new();
    for (line, millis) in [
        ("BLPOP k 0.03", 30),
        ("BZPOPMIN k 0.0201", 21),
        ("BLMOVE k l LEFT LEFT 0.05", 50),
        ("XREAD BLOCK 15 STREAMS s $", 15),
        ("BRPOP k 0.001", 1),
        ("BLMPOP 0.04 1 k LEFT", 40),
    ] {
        let (start, timeout) = (Instant::now(), Duration::from_millis(millis));
        assert_eq!(client.call(line), Value::NullArray, "{line}");
        // The server's clock has a resolution of one millisecond.
        let waited = start.elapsed() + Duration::from_millis(1);
        assert!(waited >= timeout, "{line}: {waited:?}");
        late.push(waited.saturating_sub(timeout));
    }
    // A busy machine may delay some of them, but not all.
    let least = late.iter().min().expect("late is not empty");
    assert!(*least < Duration::from_millis(10), "{late:?}");
    // A client that has timed out takes nothing.
    assert_eq!(client.call("RPUSH k x"), Value::Integer(1));
    assert_eq!(client.call("LLEN k"), Value::Integer(1));
}

/// A reader of a series gets what there is when its time is over, although that is too little.
#[test]
fn a_series_is_read_after_the_time_with_what_it_has() {
    let server = start();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.call("TS.CREATE s");
    client.call("TS.MADD s 100 1 s 200 2");
    let start = Instant::now();
    assert_eq!(client.call("TS.READ s 101 BLOCK 40 10").to_string(), "[[(integer) 200, +2]]");
    assert!(start.elapsed() + Duration::from_millis(1) >= Duration::from_millis(40));
    assert_eq!(client.call("TS.READ s 301 BLOCK 10 1"), Value::Array(Vec::new()));
    // Samples that come meanwhile do not begin its time anew, and the time to read from stays.
    block(&mut client, "TS.READ s $ BLOCK 300 3", &mut other, 1);
    let start = Instant::now();
    other.call("TS.ADD s 300 3");
    other.call("TS.ADD s 400 4");
    assert_eq!(client.read().to_string(), "[[(integer) 300, +3], [(integer) 400, +4]]");
    assert!(start.elapsed() < Duration::from_secs(20), "it ended by itself");
    block(&mut client, "TS.READ s $ BLOCK 0 1", &mut other, 1);
    other.call("TS.ADD s 500 5");
    assert_eq!(client.read().to_string(), "[[(integer) 500, +5]]");
}

#[test]
fn requests_pipelined_after_a_blocked_command_run_afterwards() {
    let server = start();
    let (mut client, mut other) = (server.connect(), server.connect());
    let big = "x".repeat(100_000);
    let behind = [
        request("SET done 1"),
        request("PING"),
        request(&format!("SET big {big}")),
        request("BLPOP k 0"),
        b"PING inline\r\n".to_vec(),
        request("STRLEN big"),
    ]
    .concat();
    let (now, later) = behind.split_at(50_000);
    client.send(&[request("BLPOP k 0"), now.to_vec()].concat());
    wait_for_blocked(&mut other, 1);
    client.send(later);
    assert_eq!(other.call("GET done"), Value::NullBulk);
    other.call("RPUSH k a");
    assert_eq!(client.read(), pair("k", "a"));
    for expected in [Value::ok(), Value::Simple("PONG".into()), Value::ok()] {
        assert_eq!(client.read(), expected);
    }
    wait_for_blocked(&mut other, 1);
    other.call("RPUSH k b");
    assert_eq!(client.read(), pair("k", "b"));
    assert_eq!(client.read(), Value::bulk("inline"));
    assert_eq!(client.read(), Value::Integer(100_000));
}

#[test]
fn a_big_argument_of_the_waiting_command_itself() {
    let server = start();
    let (mut client, mut other) = (server.connect(), server.connect());
    let key = "k".repeat(70_000);
    client.send(&[request(&format!("BLPOP {key} 0")), request("PING")].concat());
    wait_for_blocked(&mut other, 1);
    other.call(&format!("RPUSH {key} a"));
    assert_eq!(client.read(), pair(&key, "a"));
    assert_eq!(client.read(), Value::Simple("PONG".into()));
}

#[test]
fn unblocking_from_another_connection() {
    let server = start();
    let (mut client, mut other) = (server.connect(), server.connect());
    let number = id(&mut client);
    for (reason, reply) in [
        ("", Value::NullArray),
        ("TIMEOUT", Value::NullArray),
        ("ERROR", Value::Error(b"UNBLOCKED client unblocked via CLIENT UNBLOCK".to_vec())),
    ] {
        block(&mut client, "BLPOP k 0", &mut other, 1);
        assert_eq!(other.call(&format!("CLIENT UNBLOCK {number} {reason}")), Value::Integer(1));
        // From this moment on the client takes nothing.
        assert_eq!(other.call("RPUSH k x"), Value::Integer(1));
        assert_eq!(other.call("LPOP k"), Value::bulk("x"));
        assert_eq!(client.read(), reply);
        assert_eq!(other.call(&format!("CLIENT UNBLOCK {number}")), Value::Integer(0));
    }
    assert_eq!(client.call("PING"), Value::Simple("PONG".into()));
}

#[test]
fn disconnected_blocked_client_consumes_no_element() {
    let server = start();
    let mut other = server.connect();
    let mut killed = server.connect();
    let number = id(&mut killed);
    block(&mut killed, "BLPOP k 0", &mut other, 1);
    assert_eq!(other.call(&format!("CLIENT KILL ID {number}")), Value::Integer(1));
    assert_eq!(other.call("RPUSH k x"), Value::Integer(1));
    assert_eq!(other.call("LPOP k"), Value::bulk("x"));
    assert_eq!(killed.read_to_close(), Some(Vec::new()));

    let mut leaving = server.connect();
    block(&mut leaving, "BRPOPLPUSH k l 0", &mut other, 1);
    drop(leaving);
    wait_for_blocked(&mut other, 0);
    assert_eq!(other.info_field("clients", "total_blocking_keys").as_deref().unwrap_or("0"), "0");
    assert_eq!(other.call("RPUSH k x"), Value::Integer(1));
    assert_eq!(other.call("EXISTS k l"), Value::Integer(1));
}

#[test]
fn all_blocked_stream_readers_get_new_entries() {
    let server = start();
    let mut other = server.connect();
    let mut readers: Vec<RawClient> = (0..12).map(|_| server.connect()).collect();
    for (number, reader) in readers.iter_mut().enumerate() {
        block(reader, "XREAD BLOCK 0 STREAMS none s 0 $", &mut other, number + 1);
    }
    other.call("XADD s 5-1 f v");
    let fields = Value::Array(vec![Value::bulk("f"), Value::bulk("v")]);
    let entry = Value::Array(vec![Value::bulk("5-1"), fields]);
    let stream = Value::Array(vec![Value::bulk("s"), Value::Array(vec![entry])]);
    for reader in &mut readers {
        assert_eq!(reader.read(), Value::Array(vec![stream.clone()]));
    }
}

/// XREADGROUP with CLAIM also waits for entries that others do not acknowledge in time. Redis has
/// the option from 8.4 on.
#[test]
fn a_stream_reader_gets_entries_that_become_idle() {
    let server = start();
    if !server.is_braid() {
        return;
    }
    let mut other = server.connect();
    let mut clients: Vec<RawClient> = (0..2).map(|_| server.connect()).collect();
    let has = |reply: &Value, id: &str| format!("{reply:?}").contains(&format!("{:?}", Value::bulk(id)));
    other.call("XGROUP CREATE s g 0 MKSTREAM");
    other.call("XADD s 1 f v");
    other.call("XREADGROUP GROUP g slow STREAMS s >");
    // Pending before the wait begins, and delivered to another consumer during the wait.
    let start = Instant::now();
    let reply = clients[0].call("XREADGROUP GROUP g a BLOCK 20000 CLAIM 100 STREAMS s >");
    assert!(has(&reply, "1-0"), "{reply:?}");
    assert!(start.elapsed() >= Duration::from_millis(80) && start.elapsed() < Duration::from_secs(10));
    assert_eq!(other.call("XACK s g 1-0"), Value::Integer(1));
    block(&mut clients[1], "XREADGROUP GROUP g b BLOCK 0 CLAIM 60 STREAMS s >", &mut other, 1);
    other.call("XGROUP SETID s g 0");
    other.call("XREADGROUP GROUP g slow STREAMS s >");
    let reply = clients[1].read();
    assert!(has(&reply, "1-0"), "{reply:?}");
    // New entries come at once, and requests sent meanwhile are run afterwards.
    other.call("XACK s g 1-0");
    block(&mut clients[0], "XREADGROUP GROUP g a BLOCK 0 CLAIM 5000 STREAMS s >", &mut other, 1);
    clients[0].send(&request("PING"));
    other.call("XADD s 2 f v");
    let reply = clients[0].read();
    assert!(has(&reply, "2-0"), "{reply:?}");
    assert_eq!(clients[0].read(), Value::Simple(b"PONG".to_vec()));
    other.call("XACK s g 2-0");
    // The wait ends in time, however often the command has looked meanwhile.
    let start = Instant::now();
    let reply = clients[0].call("XREADGROUP GROUP g a BLOCK 150 CLAIM 20 STREAMS s >");
    assert_eq!(reply, Value::NullArray);
    assert!(start.elapsed() >= Duration::from_millis(149) && start.elapsed() < Duration::from_secs(10));
    // Another client can end it.
    let id = id(&mut clients[0]);
    block(&mut clients[0], "XREADGROUP GROUP g a BLOCK 0 CLAIM 3000 STREAMS s >", &mut other, 1);
    assert_eq!(other.call(&format!("CLIENT UNBLOCK {id}")), Value::Integer(1));
    assert_eq!(clients[0].read(), Value::NullArray);
    // A reply that nobody wants is still dropped after the command has run again.
    for line in ["CLIENT REPLY SKIP", "XREADGROUP GROUP g a BLOCK 60 CLAIM 20 STREAMS s >", "PING"] {
        clients[0].send(&request(line));
    }
    assert_eq!(clients[0].read(), Value::Simple(b"PONG".to_vec()));
    // In a transaction it does not wait.
    clients[0].call("MULTI");
    clients[0].call("XREADGROUP GROUP g a BLOCK 0 CLAIM 20 STREAMS s >");
    assert_eq!(clients[0].call("EXEC"), Value::Array(vec![Value::NullArray]));
}

#[test]
fn a_chain_of_moves_runs_to_its_end() {
    let server = start();
    let mut other = server.connect();
    let mut movers: Vec<RawClient> = (0..6).map(|_| server.connect()).collect();
    for (number, mover) in movers.iter_mut().enumerate() {
        let line = format!("BLMOVE k{number} k{} LEFT RIGHT 0", number + 1);
        block(mover, &line, &mut other, number + 1);
    }
    // Sent in one packet: the whole chain runs before the same client's next command.
    other.send(&[request("RPUSH k0 x"), request("LRANGE k6 0 -1")].concat());
    assert_eq!(other.read(), Value::Integer(1));
    assert_eq!(other.read(), Value::Array(vec![Value::bulk("x")]));
    for mover in &mut movers {
        assert_eq!(mover.read(), Value::bulk("x"));
    }
}

#[test]
fn waiting_counts_in_info_and_client_list() {
    let server = start();
    let (mut client, mut other) = (server.connect(), server.connect());
    let number = id(&mut client);
    block(&mut client, "BLPOP a b 100", &mut other, 1);
    let line = other.call(&format!("CLIENT LIST ID {number}")).text();
    assert!(line.contains(" flags=b ") && line.contains(" cmd=blpop "), "{line}");
    assert_eq!(other.info_field("clients", "clients_in_timeout_table").unwrap(), "1");
    other.call("RPUSH b x");
    assert_eq!(client.read(), pair("b", "x"));
    let line = other.call(&format!("CLIENT LIST ID {number}")).text();
    assert!(line.contains(" flags=N "), "{line}");
    assert_eq!(other.info_field("clients", "clients_in_timeout_table").unwrap(), "0");
}

/// A timeout and a push at the same moment: either the client gets the element or the list keeps
/// it.
#[test]
fn timeouts_and_pushes_at_the_same_time() {
    let server = start();
    let (mut client, mut other) = (server.connect(), server.connect());
    let (mut served, mut timed_out) = (0, 0);
    for round in 0..300 {
        let start = Instant::now();
        client.send(&request("BLPOP k 0.002"));
        while start.elapsed() < Duration::from_micros(1_500 + round * 5) {
            std::hint::spin_loop();
        }
        other.call("RPUSH k x");
        let left = other.call("LPOP k");
        match client.read() {
            Value::NullArray => {
                timed_out += 1;
                assert_eq!(left, Value::bulk("x"));
            }
            reply => {
                served += 1;
                assert_eq!((reply, left), (pair("k", "x"), Value::NullBulk));
            }
        }
    }
    println!("{served} served, {timed_out} timed out");
}

/// The clients may be on different threads.
#[test]
fn client_unblock_counts_the_command_before_it_replies() {
    let server = TestServer::start(&[]);
    for round in 0..100 {
        let (mut waiting, mut client) = (server.connect(), server.connect());
        let Value::Integer(id) = waiting.call("CLIENT ID") else { panic!("CLIENT ID returns a number") };
        client.ok("CONFIG RESETSTAT");
        waiting.send(&request("BLPOP nothing 0"));
        wait_for("the client to block", || client.info("clients").contains("blocked_clients:1\r\n"));
        let (reason, failed) = [("TIMEOUT", 0), ("ERROR", 1)][round % 2];
        assert_eq!(client.call(&format!("CLIENT UNBLOCK {id} {reason}")), Value::Integer(1));
        let stats = client.info_field("commandstats", "cmdstat_blpop").unwrap_or_default();
        assert!(stats.starts_with("calls=1,"), "{stats}");
        // Stock servers' versions differ in how they count the failure.
        if server.is_braid() {
            assert!(stats.ends_with(&format!("failed_calls={failed}")), "{stats}");
            let errors = client.info_field("errorstats", "errorstat_UNBLOCKED");
            assert_eq!(errors.as_deref(), (failed > 0).then_some("count=1"));
        }
        waiting.read();
    }
}

#[test]
fn key_expired_by_end_of_transaction_serves_no_blocked_client() {
    let server = TestServer::start(&["--enable-debug-command", "yes"]);
    let (mut waiting, mut client) = (server.connect(), server.connect());
    block(&mut waiting, "BRPOP k 0", &mut client, 1);
    client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
    client.ok("MULTI");
    for step in ["RPUSH k early", "PEXPIRE k 50", "DEBUG SLEEP 0.1"] {
        assert_eq!(client.call(step).text(), "QUEUED");
    }
    assert!(!client.call("EXEC").is_error());
    client.call("RPUSH k late");
    assert_eq!(waiting.read().elements().map(|parts| parts[1].text()), Some("late".to_owned()));
}
