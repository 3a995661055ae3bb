// SPDX-License-Identifier: BSD-3-Clause
//! A client that is to be closed takes nothing: from the moment at which a client's end is decided,
//! for whatever reason, no element goes to it, although its connection is closed a little later.
//! Each reason meets each blocking command.

use braid_tests::{RawClient, TestServer, Value, request, wait_for};

const MODELS: [&str; 5] = ["parallel", "global-lock", "handoff", "hybrid", "fanout"];

/// Creates the group that XREADGROUP needs.
const GROUP: &str = "XGROUP CREATE v g $ MKSTREAM";

/// Blocking commands, and the command that fills their key with one element.
const COMMANDS: [(&str, &str); 9] = [
    ("BLPOP v 0", "RPUSH v 1"),
    ("BRPOP none v 0", "RPUSH v 1"),
    ("BLMOVE v w LEFT RIGHT 0", "RPUSH v 1"),
    ("BRPOPLPUSH v w 0", "RPUSH v 1"),
    ("BLMPOP 0 1 v LEFT", "RPUSH v 1"),
    ("BZPOPMIN v 0", "ZADD v 1 m"),
    ("BZPOPMAX v 0", "ZADD v 1 m"),
    ("BZMPOP 0 2 none v MIN", "ZADD v 1 m"),
    ("XREADGROUP GROUP g me BLOCK 0 STREAMS v >", "XADD v * field x"),
];

/// Number of elements that nobody has taken.
fn left(client: &mut RawClient, command: &str) -> Value {
    if command.starts_with("BZ") {
        client.call("ZCARD v")
    } else if command.starts_with('X') {
        // Entries given to a consumer are pending.
        let pending = client.call("XPENDING v g");
        let given = pending.elements().and_then(|fields| fields[0].integer()).expect("a number");
        Value::Integer(client.call("XLEN v").integer().expect("a number") - given)
    } else {
        client.call("LLEN v")
    }
}

fn blocked(client: &mut RawClient, count: usize) {
    wait_for("clients to wait", || {
        client.info_field("clients", "blocked_clients").as_deref() == Some(&count.to_string())
    });
}

fn id(client: &mut RawClient) -> i64 {
    client.call("CLIENT ID").integer().expect("an id")
}

/// A request after a blocking command, as long as its sender is to hold memory.
fn long_request(bytes: usize) -> Vec<u8> {
    let mut request = format!("*2\r\n$3\r\nGET\r\n${bytes}\r\n").into_bytes();
    request.resize(request.len() + bytes, b'n');
    request.extend_from_slice(b"\r\n");
    request
}

/// Waits until clients together hold more than this.
fn held(client: &mut RawClient, bytes: u64) {
    wait_for("the requests to arrive", || {
        let list = client.call("CLIENT LIST").text();
        let sizes = list.split_whitespace().filter_map(|field| field.strip_prefix("tot-mem="));
        sizes.map(|size| size.parse::<u64>().expect("a number")).sum::<u64>() > bytes
    });
}

/// Sends requests in one packet; none may fail.
#[track_caller]
fn packet(client: &mut RawClient, lines: &[&str]) {
    client.send(&lines.iter().map(|line| request(line)).collect::<Vec<_>>().concat());
    for line in lines {
        let reply = client.read();
        assert!(!matches!(reply, Value::Error(_)), "{line}: {reply}");
    }
}

/// Calls `work` with each threading model's server, an administrator's connection, and each
/// blocking command, on an empty keyspace.
fn with_each(
    arguments: &[&str],
    models: &[&str],
    mut work: impl FnMut(&TestServer, &mut RawClient, &str, &str),
) {
    for model in models {
        let server = TestServer::start(&[arguments, &["--threading-model", model]].concat());
        let mut admin = server.connect();
        admin.ok("CLIENT NO-EVICT ON");
        for (command, fill) in COMMANDS {
            admin.ok("FLUSHALL");
            if command.starts_with('X') {
                admin.ok(GROUP);
            }
            println!("{model}: {command}");
            work(&server, &mut admin, command, fill);
            blocked(&mut admin, 0);
        }
    }
}

const THREADS: [&str; 2] = ["--io-threads", "3"];

#[test]
fn a_client_that_the_memory_limit_closes_takes_nothing() {
    with_each(&THREADS, &MODELS, |server, admin, command, fill| {
        let mut big = server.connect();
        big.send(&[request(command), long_request(1_500_000)].concat());
        blocked(admin, 1);
        held(admin, 1_500_000);
        packet(admin, &["CONFIG SET maxmemory-clients 1mb", fill]);
        assert_eq!(left(admin, command), Value::Integer(1), "{command}");
        assert_eq!(big.read_to_close(), Some(Vec::new()), "{command}");
        admin.ok("CONFIG SET maxmemory-clients 0");
    });
}

#[test]
fn of_waiting_clients_only_those_within_the_memory_limit_are_served() {
    with_each(&THREADS, &MODELS, |server, admin, command, fill| {
        let mut big = [server.connect(), server.connect()];
        for client in &mut big {
            client.send(&[request(command), long_request(1_500_000)].concat());
        }
        blocked(admin, 2);
        held(admin, 3_000_000);
        let mut small = server.connect();
        small.send(&request(command));
        blocked(admin, 3);
        // In a transaction, too, clients are served after the limit has changed.
        packet(admin, &["MULTI", "CONFIG SET maxmemory-clients 1mb", fill, "EXEC"]);
        assert!(!matches!(small.read(), Value::Error(_)), "{command}");
        for client in &mut big {
            assert_eq!(client.read_to_close(), Some(Vec::new()), "{command}");
        }
        admin.ok("CONFIG SET maxmemory-clients 0");
    });
}

#[test]
fn a_killed_client_takes_nothing() {
    with_each(&THREADS, &MODELS, |server, admin, command, fill| {
        let mut client = server.connect();
        let kill = format!("CLIENT KILL ID {}", id(&mut client));
        client.send(&request(command));
        blocked(admin, 1);
        packet(admin, &[&kill, fill]);
        assert_eq!(left(admin, command), Value::Integer(1), "{command}");
        assert_eq!(client.read_to_close(), Some(Vec::new()), "{command}");
    });
}

#[test]
fn a_client_of_a_deleted_user_takes_nothing() {
    with_each(&THREADS, &MODELS, |server, admin, command, fill| {
        admin.ok("ACL SETUSER guest on nopass +@all ~* &*");
        let mut client = server.connect();
        client.ok("AUTH guest x");
        client.send(&request(command));
        blocked(admin, 1);
        packet(admin, &["ACL DELUSER guest", fill]);
        assert_eq!(left(admin, command), Value::Integer(1), "{command}");
        assert_eq!(client.read_to_close(), Some(Vec::new()), "{command}");
    });
}

/// With one thread the order of what happens in a turn is known.
const ONE_THREAD: [&str; 4] = ["--io-threads", "1", "--enable-debug-command", "local"];

#[test]
fn a_client_beyond_its_output_limit_takes_nothing() {
    let message = "m".repeat(3_000_000);
    with_each(&ONE_THREAD, &["parallel"], |server, admin, command, fill| {
        admin.ok("CONFIG SET client-output-buffer-limit \"pubsub 1mb 0 0\"");
        let mut client = server.connect();
        client.call("HELLO 3");
        client.call("SUBSCRIBE channel");
        client.send(&request(command));
        blocked(admin, 1);
        // Messages are delivered at the latest after some dozens of requests.
        let publish = format!("PUBLISH channel {message}");
        let mut lines = vec![&*publish];
        lines.resize(80, "PING");
        lines.push(fill);
        packet(admin, &lines);
        assert_eq!(left(admin, command), Value::Integer(1), "{command}");
        let closed = admin.info_field("stats", "client_output_buffer_limit_disconnections");
        assert_ne!(closed.as_deref(), Some("0"), "{command}");
    });
}

/// Ends a connection, and waits until the server's side of it has ended: on a busy machine the
/// kernel may deliver what is sent afterwards on another connection first.
fn end(client: RawClient) {
    let address = client.local_address();
    let port: u16 = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
    drop(client);
    let (peer, established) = (format!(":{port:04X}"), "01");
    wait_for("the end of the connection to arrive", || {
        let sockets = std::fs::read_to_string("/proc/net/tcp").expect("the kernel's list of sockets");
        let mut fields = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        !fields.any(|fields| fields[2].ends_with(&peer) && fields[3] == established)
    });
}

/// The end of a connection and the element are found in the same turn: the loop sleeps until both
/// are there. The end comes first.
#[test]
fn a_client_whose_connection_has_ended_takes_nothing() {
    for is_reset in [false, true] {
        with_each(&ONE_THREAD, &["parallel"], |server, admin, command, fill| {
            let mut client = server.connect();
            if is_reset {
                // A socket closed with unread input resets its connection.
                client.send(&request("PING"));
            }
            client.send(&request(command));
            blocked(admin, 1);
            let mut sleeper = server.connect();
            sleeper.send(&request("DEBUG SLEEP 0.1"));
            end(client);
            packet(admin, &[fill]);
            assert_eq!(left(admin, command), Value::Integer(1), "{command}, reset: {is_reset}");
            sleeper.read();
        });
    }
}

/// Requests that a client sent before it was closed are not executed afterwards, even if they have
/// been received together with the request that closes it.
#[test]
fn requests_received_with_the_one_that_closes_their_client_are_not_executed() {
    let server = TestServer::start(&ONE_THREAD);
    let mut admin = server.connect();
    for close in ["CLIENT KILL ID @", "ACL DELUSER guest", "CONFIG SET maxmemory-clients 1mb"] {
        for take in ["LPOP v", "BLPOP v 0", "LMOVE v w LEFT LEFT", "EVAL \"return redis.call('lpop','v')\" 0"]
        {
            admin.ok("FLUSHALL");
            admin.ok("CLIENT NO-EVICT ON");
            admin.ok("ACL SETUSER guest on nopass +@all ~* &*");
            let mut client = server.connect();
            client.ok("AUTH guest x");
            client.ok("MULTI");
            if close.starts_with("CONFIG") {
                client.call(&format!("SET k {}", "x".repeat(1_500_000)));
            }
            let close = close.replace('@', &id_of(&mut admin, &client));
            let mut sleeper = server.connect();
            sleeper.send(&request("DEBUG SLEEP 0.1"));
            admin.send(&[request(&close), request("RPUSH v 1")].concat());
            let _ = client.try_send(&[request("DISCARD"), request(take)].concat());
            assert!(!matches!(admin.read(), Value::Error(_)), "{close}");
            assert_eq!(admin.read(), Value::Integer(1));
            client.read_to_close();
            assert_eq!(admin.call("LLEN v"), Value::Integer(1), "{close}, {take}");
            admin.ok("CONFIG SET maxmemory-clients 0");
            sleeper.read();
        }
    }
}

/// A client's id, found by its address.
fn id_of(admin: &mut RawClient, client: &RawClient) -> String {
    let list = admin.call("CLIENT LIST").text();
    let line = list.lines().find(|line| line.contains(&format!(" addr={} ", client.local_address())));
    let id = line.and_then(|line| line.split_whitespace().find_map(|field| field.strip_prefix("id=")));
    id.expect("it is connected").to_owned()
}
