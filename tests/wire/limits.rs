// SPDX-License-Identifier: BSD-3-Clause
//! The server's limits: connections, files, memory, output buffers, time.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use braid_tests::server::Options;
use braid_tests::{RawClient, TestServer, Value, wait_for, words};
use socket2::{Domain, Socket, Type};

#[test]
fn connections_beyond_maxclients_get_an_error_and_are_closed() {
    let server = TestServer::start(&["--maxclients", "10"]);
    let mut kept: Vec<RawClient> = Vec::new();
    // The test harness's own first connection may linger for a moment.
    wait_for("ten connections", || {
        while kept.len() < 10 {
            let mut client = server.connect();
            client.send(b"PING\r\n");
            match client.try_read() {
                Ok(reply) if reply.text() == "PONG" => kept.push(client),
                _ => return false,
            }
        }
        true
    });
    for _ in 0..50 {
        let mut refused = server.connect();
        let bytes = refused.read_to_close().expect("the server closes it");
        assert_eq!(bytes, b"-ERR max number of clients reached\r\n");
    }
    let rejected = kept[0].info_field("stats", "rejected_connections").expect("a counter");
    assert!(rejected.parse::<u64>().expect("a number") >= 50, "rejected_connections:{rejected}");
    // A freed place can be taken again.
    drop(kept.pop());
    wait_for("a free place", || {
        let mut client = server.connect();
        client.try_send(b"PING\r\n").is_ok() && client.try_read().is_ok_and(|reply| reply.text() == "PONG")
    });
}

/// A client from 127.0.0.2, or the error it got.
fn connect_from_other(server: &TestServer) -> Result<RawClient, String> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.bind(&SocketAddr::from(([127, 0, 0, 2], 0)).into()).expect("another loopback address");
    socket.connect(&server.address().into()).expect("a connection");
    greeted(RawClient::from_tcp(socket.into()).expect("a client"))
}

/// The client once it is served, or the error it got.
fn greeted(mut client: RawClient) -> Result<RawClient, String> {
    client.send(b"PING\r\n");
    match client.read().text() {
        reply if reply == "PONG" => Ok(client),
        reply => Err(reply),
    }
}

/// As Valkey 9.2 tests it (tests/unit/qos.tcl).
#[test]
fn connections_are_reserved_for_priority_subnets() {
    let server = TestServer::start(&["--maxclients", "6", "--maxclients-reserved", "3"]);
    let full = "ERR max number of clients reached".to_owned();
    let mut admin = server.connect();
    wait_for("the harness's own connection to close", || {
        admin.info_field("clients", "connected_clients").is_some_and(|count| count == "1")
    });
    // Without priority-subnets nothing is reserved.
    let more: Vec<RawClient> = (0..5).map(|_| greeted(server.connect()).expect("a place")).collect();
    assert_eq!(greeted(server.connect()).err(), Some(full.clone()));
    drop(more);
    wait_for("the clients to close", || {
        admin.info_field("clients", "connected_clients").is_some_and(|count| count == "1")
    });
    admin.ok("CONFIG SET priority-subnets 127.0.0.2/32,10.0.0.0/8");
    let mut others: Vec<RawClient> = (0..2).map(|_| greeted(server.connect()).expect("a place")).collect();
    assert_eq!(greeted(server.connect()).err(), Some(full.clone()), "three are reserved");
    let mut first: Vec<RawClient> = (0..3).map(|_| connect_from_other(&server).expect("a place")).collect();
    assert_eq!(admin.info_field("clients", "connected_priority_clients").as_deref(), Some("3"));
    let list = admin.call("CLIENT LIST").text();
    assert_eq!(list.matches("flags=H ").count(), 3, "{list}");
    admin.ok("CONFIG RESETSTAT");
    assert_eq!(connect_from_other(&server).err(), Some(full.clone()), "maxclients is the limit of all");
    for field in ["rejected_connections", "rejected_priority_connections"] {
        assert_eq!(admin.info_field("stats", field).as_deref(), Some("1"), "{field}");
    }
    // A change holds for new connections.
    admin.ok("CONFIG SET priority-subnets ::1");
    assert_eq!(admin.info_field("clients", "connected_priority_clients").as_deref(), Some("3"));
    // Clients with priority beyond the reserved number do not take the places of others.
    admin.ok("CONFIG SET maxclients 10 priority-subnets 127.0.0.2");
    first.extend((0..2).map(|_| connect_from_other(&server).expect("a place")));
    others.extend((0..2).map(|_| greeted(server.connect()).expect("a place")));
    assert_eq!(greeted(server.connect()).err(), Some(full));
    drop(first);
    wait_for("them to be gone", || {
        admin.info_field("clients", "connected_priority_clients").is_some_and(|count| count == "0")
    });
    let refused = admin.call("CONFIG SET priority-subnets 127.0.0.1/99").text();
    assert!(refused.contains("Invalid IP address or CIDR subnet"), "{refused}");
    // Reserving more than there are leaves nothing for others.
    drop(others);
    admin.ok("CONFIG SET maxclients-reserved 100");
    assert!(greeted(server.connect()).is_err());
    assert!(connect_from_other(&server).is_ok());
}

#[test]
fn a_storm_of_connections_is_survived() {
    let server = TestServer::start(&["--maxclients", "50"]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..300 {
                    let Ok(mut client) = RawClient::tcp(server.address()) else { continue };
                    if round % 3 == 0 {
                        let _ = client.try_send(b"PING\r\n");
                    } else if round % 3 == 1 {
                        let _ = client.try_send(b"*2\r\n$4\r\nECHO\r\n$100\r\nhalf");
                    }
                }
            });
        }
    });
    wait_for("an answer after the storm", || {
        let mut client = server.connect();
        client.try_send(b"PING\r\n").is_ok() && client.try_read().is_ok_and(|reply| reply.text() == "PONG")
    });
    let mut client = server.connect();
    wait_for("the storm's connections to close", || {
        client.info_field("clients", "connected_clients").is_some_and(|count| count == "1")
    });
}

#[test]
fn few_file_descriptors_mean_few_clients_not_a_dead_server() {
    // Redis reserves 32 descriptors for itself, which leaves some for clients.
    let server = TestServer::start_with(Options {
        arguments: words_of("--maxclients 1000"),
        open_files_max: Some(64),
        ..Options::default()
    });
    let mut first = server.connect();
    let maxclients = first.call("CONFIG GET maxclients").elements().expect("name and value")[1].text();
    assert!(maxclients.parse::<u32>().expect("a number") < 1000, "maxclients was not lowered: {maxclients}");
    let mut opened: Vec<RawClient> = Vec::new();
    for _ in 0..100 {
        if let Ok(client) = RawClient::tcp(server.address()) {
            opened.push(client);
        }
    }
    // Connected clients are served throughout.
    assert_eq!(first.call("PING").text(), "PONG");
    first.ok("SET k v");
    let used = braid_tests::process::processor_time(server.process_id());
    std::thread::sleep(Duration::from_millis(500));
    let spent = braid_tests::process::processor_time(server.process_id()) - used;
    assert!(
        spent < Duration::from_millis(250),
        "refusing connections must not spin: {spent:?} in half a second"
    );
    drop(opened);
    wait_for("new connections to be served again", || {
        let Ok(mut client) = RawClient::tcp(server.address()) else { return false };
        client.try_send(b"PING\r\n").is_ok() && client.try_read().is_ok_and(|reply| reply.text() == "PONG")
    });
}

#[test]
fn idle_clients_are_closed_after_the_timeout() {
    let server = TestServer::start(&["--timeout", "1"]);
    let mut busy = server.connect();
    let mut idle = server.connect();
    idle.ok("SET k v");
    let start = Instant::now();
    idle.set_patience(Duration::from_millis(200)).expect("an open connection");
    let mut closed = false;
    while !closed && start.elapsed() < Duration::from_secs(15) {
        assert_eq!(busy.call("PING").text(), "PONG");
        closed = idle.read_to_close().is_some();
    }
    assert!(closed, "the idle connection is closed");
    assert!(start.elapsed() >= Duration::from_millis(900), "closed too early: {:?}", start.elapsed());
    assert_eq!(busy.call("PING").text(), "PONG");
}

#[test]
fn full_memory_refuses_writes_that_may_grow_and_nothing_else() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    client.ok("SET old value");
    client.ok("CONFIG SET maxmemory 1");
    let refused = "OOM command not allowed when used memory > 'maxmemory'.";
    for command in
        ["SET k v", "APPEND old x", "MSET a 1 b 2", "SETRANGE old 10 x", "SETBIT old 1000 1", "INCR n"]
    {
        assert_eq!(client.call(command), Value::Error(refused.into()), "{command}");
    }
    assert_eq!(client.call("GET old"), Value::bulk("value"));
    assert_eq!(client.call("DEL nosuch"), Value::Integer(0));
    assert_eq!(client.call("EXPIRE old 1000"), Value::Integer(1));
    client.ok("MULTI");
    assert_eq!(client.call("SET k v"), Value::Error(refused.into()));
    assert!(client.call("EXEC").text().starts_with("EXECABORT"), "a refused command aborts the transaction");
    assert_eq!(client.call("DEL old"), Value::Integer(1));
    client.ok("CONFIG SET maxmemory 0");
    client.ok("SET k v");
}

#[test]
fn noeviction_stops_before_memory_runs_far_over() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let used: u64 =
        client.info_field("memory", "used_memory").and_then(|text| text.parse().ok()).expect("a number");
    client.ok(&format!("CONFIG SET maxmemory {}", used + 4_000_000));
    let value = vec![b'v'; 1000];
    let mut stored = 0;
    let refusal = loop {
        match client.call_arguments(&[b"SET", format!("key:{stored}").as_bytes(), &value]) {
            Value::Simple(_) => stored += 1,
            other => break other,
        }
        assert!(stored < 20_000, "20 MB were stored despite a limit of 4 MB");
    };
    assert!(refusal.text().starts_with("OOM "), "{refusal}");
    assert!(stored > 1_000, "only {stored} values of 1000 bytes fit into 4 MB");
    assert_eq!(client.call("DBSIZE"), Value::Integer(stored));
}

/// Fills a server far beyond its memory under one policy. Returns the number of evicted keys and
/// the last write's reply.
fn overfill(policy: &str, expiring: bool) -> (usize, Value) {
    let server = TestServer::start(&["--maxmemory-policy", policy]);
    let mut client = server.connect();
    let used: u64 =
        client.info_field("memory", "used_memory").and_then(|text| text.parse().ok()).expect("a number");
    client.ok(&format!("CONFIG SET maxmemory {}", used + 3_000_000));
    let value = vec![b'v'; 1000];
    let mut last = Value::Null;
    for number in 0..10_000 {
        let key = format!("key:{number}");
        let mut command: Vec<&[u8]> = vec![b"SET", key.as_bytes(), &value];
        if expiring {
            command.extend([&b"EX"[..], b"100000"]);
        }
        last = client.call_arguments(&command);
        if last.is_error() {
            break;
        }
    }
    let evicted = client
        .info_field("stats", "evicted_keys")
        .and_then(|text| text.parse::<usize>().ok())
        .expect("a number");
    let left = client.call("DBSIZE").integer().expect("a number");
    assert!(left < 9_000, "{policy}: {left} keys of 1000 bytes in 3 MB");
    (evicted, last)
}

#[test]
fn policies_on_all_keys_evict() {
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        let (evicted, last) = overfill(policy, false);
        assert!(evicted > 3_000, "{policy} evicted {evicted}");
        assert_eq!(last, Value::ok(), "{policy}");
    }
}

#[test]
fn policies_on_expiring_keys_evict_these() {
    for policy in ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl"] {
        let (evicted, last) = overfill(policy, true);
        assert!(evicted > 3_000, "{policy} evicted {evicted}");
        assert_eq!(last, Value::ok(), "{policy}");
    }
}

#[test]
fn policies_on_expiring_keys_leave_the_others() {
    for policy in ["volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "noeviction"] {
        let (evicted, last) = overfill(policy, false);
        assert_eq!(evicted, 0, "{policy}");
        assert!(last.text().starts_with("OOM "), "{policy}: {last}");
    }
}

#[test]
fn a_reader_that_does_not_read_is_cut_off_at_the_output_buffer_limit() {
    let server = TestServer::start(&["--client-output-buffer-limit", "normal 4mb 2mb 10"]);
    let mut client = server.connect();
    let value = vec![b'v'; 1_000_000];
    assert_eq!(client.call_arguments(&[b"SET", &b"big"[..], &value]), Value::ok());
    // A small receive buffer, so that the system holds little of the unread data.
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(8 * 1024).expect("a small buffer");
    socket.connect(&server.address().into()).expect("the server accepts");
    let mut lazy = RawClient::from_tcp(socket.into()).expect("a client");
    let before = braid_tests::process::resident_bytes(server.process_id());
    let request: Vec<u8> = (0..200).map(|_| words::encode(&["GET", "big"])).collect::<Vec<_>>().concat();
    lazy.send(&request);
    wait_for("the lazy reader to be disconnected", || {
        let list = client.call("CLIENT LIST").text();
        list.lines().count() == 1
    });
    let after = braid_tests::process::resident_bytes(server.process_id());
    assert!(after < before + 60_000_000, "unread replies were kept: {before} to {after} bytes");
    let got = lazy.read_to_close().expect("the connection ends");
    assert!(got.len() < 100_000_000, "{} bytes were received", got.len());
    assert_eq!(client.call("STRLEN big"), Value::Integer(1_000_000));
}

#[test]
fn a_query_buffer_beyond_its_limit_closes_the_connection() {
    let server = TestServer::start(&["--client-query-buffer-limit", "1mb"]);
    let mut client = server.connect();
    client.send(b"*2\r\n$3\r\nGET\r\n$3000000\r\n");
    let chunk = vec![b'x'; 100_000];
    let mut closed = false;
    for _ in 0..30 {
        if client.try_send(&chunk).is_err() {
            closed = true;
            break;
        }
    }
    assert!(closed || client.read_to_close().is_some(), "the server accepted 3 MB");
    assert_eq!(server.connect().call("PING").text(), "PONG");
}

fn words_of(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn idle_connections_cost_little_memory_and_no_time() {
    const COUNT: u64 = 400;
    let server = TestServer::start(&[]);
    if !server.is_braid() {
        println!("skipped: the memory of an idle connection is specific to Braid");
        return;
    }
    let process = server.process_id();
    let mut first: Vec<RawClient> = (0..50).map(|_| server.connect()).collect();
    first.iter_mut().for_each(|client| assert_eq!(client.call("PING").text(), "PONG"));
    let before = braid_tests::process::resident_bytes(process);
    let mut clients: Vec<RawClient> = (0..COUNT).map(|_| server.connect()).collect();
    clients.iter_mut().for_each(|client| assert_eq!(client.call("PING").text(), "PONG"));
    let each = braid_tests::process::resident_bytes(process).saturating_sub(before) / COUNT;
    assert!(each <= 4096, "{each} bytes for each idle connection");
    let used = braid_tests::process::processor_time(process);
    std::thread::sleep(Duration::from_secs(1));
    let spent = braid_tests::process::processor_time(process) - used;
    assert!(spent <= Duration::from_millis(40), "{spent:?} of processor time in an idle second");
}

#[test]
fn a_reply_beyond_the_output_limit_is_not_sent() {
    let server = TestServer::start(&["--client-output-buffer-limit", "normal 100000 0 0"]);
    let (mut client, mut other) = (server.connect(), server.connect());
    assert_eq!(client.call_arguments(&[b"SET", &b"big"[..], &vec![b'v'; 200_000]]), Value::ok());
    client.send(&words::encode(&["GET", "big"]));
    assert_eq!(client.read_to_close().expect("the connection ends"), b"");
    assert_eq!(other.call("STRLEN big"), Value::Integer(200_000));
}

#[test]
fn a_reply_without_end_stops_at_the_output_limit() {
    let server = TestServer::start(&["--client-output-buffer-limit", "normal 1000000 0 0"]);
    let mut other = server.connect();
    for number in 0..3_000 {
        let key = format!("{:-<400}{number}", "long-key-name");
        assert_eq!(other.call_arguments(&[b"SET", key.as_bytes(), b"v"]), Value::ok());
    }
    for member in 0..100 {
        other.call(&format!("SADD set member:{member}"));
        other.call(&format!("ZADD zset {member} member:{member}"));
        other.call(&format!("HSET hash field:{member} value:{member}"));
        other.call(&format!("RPUSH list {:x<20000}", member));
        other.call(&format!("XADD stream * f {:x<20000}", member));
    }
    let before = braid_tests::process::resident_bytes(server.process_id());
    for request in [
        // Billions of elements would take hundreds of billions of bytes.
        "SRANDMEMBER set -999999999",
        "HRANDFIELD hash -999999999 WITHVALUES",
        "ZRANDMEMBER zset -999999999 WITHSCORES",
        "LRANGE list 0 -1",
        "SORT list ALPHA",
        "XRANGE stream - +",
        "XREAD STREAMS stream 0",
        "KEYS *",
    ] {
        let mut client = server.connect();
        client.send(&words::encode(&request.split(' ').collect::<Vec<_>>()));
        assert_eq!(client.read_to_close().expect("the connection ends"), b"", "{request}");
    }
    let mut client = server.connect();
    client.send(&words::encode(&["MULTI"]));
    let queued: Vec<u8> =
        (0..50).map(|_| words::encode(&["SRANDMEMBER", "set", "-999999999"])).collect::<Vec<_>>().concat();
    client.send(&queued);
    client.send(&words::encode(&["EXEC"]));
    let sent = client.read_to_close().expect("the connection ends");
    let first = |line: &[u8]| line == b"+OK\r" || line == b"+QUEUED\r" || line.is_empty();
    assert!(sent.split(|&byte| byte == b'\n').all(first), "part of EXEC's reply was sent");
    let after = braid_tests::process::resident_bytes(server.process_id());
    assert!(after < before + 40_000_000, "replies were kept: {before} to {after} bytes");
    assert_eq!(other.call("SCARD set"), Value::Integer(100));
}
