// SPDX-License-Identifier: BSD-3-Clause
//! MIGRATE: keys move from one server to another, and are on one of them whatever happens.

use std::io::Read;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use braid_tests::server::{Peer, newer_peers, stock};
use braid_tests::{RawClient, TestServer, Value, request, wait_for};
use rustix::process::Signal;

const TO_TARGET: &str = "IOERR error or timeout";

fn start(arguments: &[&str]) -> (TestServer, RawClient) {
    let server = TestServer::start(arguments);
    let client = server.connect();
    (server, client)
}

/// The server under test and each installed stock server, as targets.
fn targets() -> Vec<Option<Peer>> {
    let peers: Vec<Peer> = stock().into_iter().chain(newer_peers()).collect();
    if peers.is_empty() {
        println!("skipped, stock targets: no stock server");
    }
    [None].into_iter().chain(peers.into_iter().map(Some)).collect()
}

fn start_target(peer: Option<&Peer>, arguments: &[&str]) -> (TestServer, RawClient) {
    let server = match peer {
        Some(peer) => TestServer::start_program(&peer.program, arguments),
        None => TestServer::start(arguments),
    };
    let client = server.connect();
    (server, client)
}

#[track_caller]
fn says(client: &mut RawClient, line: &str, reply: &str) {
    let said = client.call(line).text();
    assert_eq!(said, reply, "{line}");
}

#[test]
fn migrate_options_take_effect() {
    for peer in targets() {
        let (from, mut client) = start(&[]);
        let (to, mut there) = start_target(peer.as_ref(), &["--requirepass", "right"]);
        there.ok("AUTH right");
        let at = format!("127.0.0.1 {}", to.port());
        let refused = "ERR Target instance replied with error:";
        client.ok("SET k one");
        let no_auth = format!("{refused} NOAUTH Authentication required.");
        says(&mut client, &format!("MIGRATE {at} k 0 5000"), &no_auth);
        let wrong = format!("{refused} WRONGPASS invalid username-password pair or user is disabled.");
        says(&mut client, &format!("MIGRATE {at} k 0 5000 AUTH wrong"), &wrong);
        says(&mut client, &format!("MIGRATE {at} k 0 5000 AUTH2 nobody right"), &wrong);
        let range = format!("{refused} ERR DB index is out of range");
        client.ok("SET astray v");
        says(&mut client, &format!("MIGRATE {at} astray 99 5000 AUTH right"), &range);
        assert_eq!(client.call("DEL astray"), Value::Integer(1));
        assert_eq!(there.call("EXISTS k"), Value::Integer(0));
        if from.is_braid() {
            // Stock servers put the key into another database.
            assert_eq!(there.call("EXISTS astray"), Value::Integer(0));
        }
        says(&mut client, &format!("MIGRATE {at} k 0 5000 COPY AUTH right"), "OK");
        assert_eq!((client.call("GET k").text(), there.call("GET k").text()), ("one".into(), "one".into()));
        client.ok("SET k two PX 5000000");
        let busy = format!("{refused} BUSYKEY Target key name already exists.");
        says(&mut client, &format!("MIGRATE {at} k 0 5000 AUTH right"), &busy);
        says(&mut client, &format!("MIGRATE {at} k 0 5000 COPY AUTH2 default right"), &busy);
        says(&mut client, &format!("MIGRATE {at} k 0 5000 REPLACE AUTH2 default right"), "OK");
        assert_eq!((client.call("EXISTS k"), there.call("GET k").text()), (Value::Integer(0), "two".into()));
        let left = there.call("PTTL k").integer().unwrap_or_default();
        assert!((4_000_000..=5_000_000).contains(&left), "{left}");
        says(&mut client, &format!("MIGRATE {at} k 0 5000 AUTH right"), "NOKEY");
        // Several keys, some of which are missing and one of which already exists on the target.
        client.ok("MSET a 1 b 2 c 3 k 4");
        says(&mut client, &format!("MIGRATE {at} \"\" 2 5000 AUTH right KEYS a x b y"), "OK");
        says(&mut client, &format!("MIGRATE {at} \"\" 0 5000 AUTH right KEYS k c"), &busy);
        assert_eq!(client.call("KEYS *"), Value::Array(vec![Value::bulk("k")]));
        assert_eq!(there.call("GET c").text(), "3");
        there.ok("SELECT 2");
        assert_eq!(there.call("MGET a b"), Value::Array(vec![Value::bulk("1"), Value::bulk("2")]));
        // The connection is kept for the next MIGRATE with the same password, and closed
        // eventually.
        if from.is_braid() {
            let kept = client.info_field("stats", "migrate_cached_sockets");
            assert!(kept.is_some_and(|kept| kept != "0"));
        }
    }
}

/// Replicas and append-only files get a DEL of the moved keys, listeners a `del` event.
#[test]
fn a_move_is_a_deletion_for_all_others() {
    let (from, mut client) =
        start(&["--appendonly", "yes", "--notify-keyspace-events", "KEA", "--enable-debug-command", "yes"]);
    let (to, _) = start(&[]);
    let mut listener = from.connect();
    listener.call("PSUBSCRIBE __keyevent@0__:*");
    client.ok("MSET a 1 b 2 c 3");
    let at = format!("127.0.0.1 {}", to.port());
    says(&mut client, &format!("MIGRATE {at} \"\" 0 5000 KEYS a b"), "OK");
    says(&mut client, &format!("MIGRATE {at} c 0 5000 COPY"), "OK");
    let mut events = Vec::new();
    while !events.contains(&"del b".to_owned()) {
        let reply = listener.read();
        let words: Vec<String> = reply.elements().unwrap_or_default().iter().map(Value::text).collect();
        events.push(format!("{} {}", words[2].rsplit(':').next().unwrap_or_default(), words[3]));
    }
    events.retain(|event| event.starts_with("del"));
    assert_eq!(events, ["del a", "del b"]);
    client.ok("DEBUG LOADAOF");
    assert_eq!(client.call("KEYS *"), Value::Array(vec![Value::bulk("c")]));
    // In a transaction or a script it is synchronous.
    client.ok("SET k v");
    client.ok("MULTI");
    client.call(&format!("MIGRATE {at} k 0 5000"));
    client.call("EXISTS k");
    assert_eq!(client.call("EXEC"), Value::Array(vec![Value::ok(), Value::Integer(0)]));
    client.ok("SET s v");
    let script =
        "return {redis.call('MIGRATE', ARGV[1], ARGV[2], KEYS[1], 0, 5000), redis.call('EXISTS', KEYS[1])}";
    let reply = client.call(&format!("EVAL \"{script}\" 1 s {at}"));
    assert_eq!(reply, Value::Array(vec![Value::ok(), Value::Integer(0)]));
    client.ok("DEBUG LOADAOF");
    assert_eq!(client.call("KEYS *"), Value::Array(vec![Value::bulk("c")]));
}

/// A target that accepts connections and never replies.
fn silent() -> (u16, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let thread = std::thread::spawn(move || {
        if let Ok((mut socket, _)) = listener.accept() {
            let _ = std::io::copy(&mut socket.by_ref(), &mut std::io::sink());
        }
    });
    (port, thread)
}

#[test]
fn others_are_served_while_a_target_is_silent() {
    let (from, mut client) = start(&["--io-threads", "1"]);
    if !from.is_braid() {
        println!("skipped: stock servers block during MIGRATE");
        return;
    }
    let (port, thread) = silent();
    let mut other = from.connect();
    client.ok("SET k v");
    let began = Instant::now();
    client.send(&request(&format!("MIGRATE 127.0.0.1 {port} k 0 1500")));
    wait_for("the client to wait", || other.info_field("clients", "blocked_clients").as_deref() == Some("1"));
    assert_eq!(other.call("GET k").text(), "v");
    assert_eq!(
        other.call("SORT k STORE another").text(),
        "WRONGTYPE Operation against a key holding the wrong kind of value"
    );
    assert_eq!(other.call("APPEND other w"), Value::Integer(1));
    assert_eq!(other.call("EVAL \"return redis.call('DEL', KEYS[1])\" 1 other"), Value::Integer(1));
    assert!(began.elapsed() < Duration::from_millis(1400), "other clients had to wait");
    // A client that changes the key waits until the outcome of the move is known.
    other.send(b"MULTI\r\nAPPEND k w\r\nEXEC\r\n");
    assert_eq!(client.read().text(), format!("{TO_TARGET} reading to target instance"));
    assert!(began.elapsed() >= Duration::from_millis(1400));
    assert_eq!((other.read(), other.read().text()), (Value::ok(), "QUEUED".into()));
    assert_eq!(other.read(), Value::Array(vec![Value::Integer(2)]));
    assert_eq!(client.call("GET k").text(), "vw");
    thread.join().expect("no panic");
    let unused =
        TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let refused = format!("{TO_TARGET} writing to target instance");
    says(&mut client, &format!("MIGRATE 127.0.0.1 {unused} k 0 1000"), &refused);
    says(
        &mut client,
        "MIGRATE no-such-host.invalid 1 k 0 1000",
        &format!("{TO_TARGET} connecting to the client"),
    );
}

/// A connection that is closed without a reply is opened once more, from the configured address.
#[test]
fn connections_start_at_the_configured_address() {
    let (from, mut client) = start(&["--bind-source-addr", "127.0.0.5"]);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    client.ok("SET k v");
    client.send(&request(&format!("MIGRATE 127.0.0.1 {port} k 0 5000")));
    for _ in 0..2 {
        let (socket, peer) = listener.accept().expect("a connection");
        if from.is_braid() {
            assert_eq!(peer.ip().to_string(), "127.0.0.5");
        }
        drop(socket);
    }
    assert!(client.read().text().starts_with(TO_TARGET));
    assert_eq!(client.call("GET k").text(), "v");
}

/// A client that disconnects while its key is being moved: the key still ends up in exactly one
/// place.
#[test]
fn a_move_is_finished_without_its_client() {
    let (from, mut client) = start(&[]);
    let (to, mut there) = start(&[]);
    client.ok("SET k v");
    to.signal(Signal::STOP);
    let mut mover = from.connect();
    mover.send(&request(&format!("MIGRATE 127.0.0.1 {} k 0 20000", to.port())));
    if from.is_braid() {
        // Before that, the move would be dropped with its client.
        wait_for("the key to be sent", || {
            client.info_field("clients", "total_watched_keys").as_deref() == Some("1")
        });
    }
    drop(mover);
    if from.is_braid() {
        wait_for("the client to be removed", || {
            client.info_field("clients", "blocked_clients").as_deref() == Some("0")
        });
    }
    to.signal(Signal::CONT);
    wait_for("the key to arrive", || there.call("EXISTS k") == Value::Integer(1));
    wait_for("the key to be deleted", || client.call("EXISTS k") == Value::Integer(0));
}

/// Changes by scripts with undeclared keys are not held back: they reach the target too.
#[test]
fn keys_changed_during_migrate_are_resent() {
    let (from, mut client) = start(&[]);
    if !from.is_braid() {
        println!("skipped: stock servers block during MIGRATE");
        return;
    }
    let (to, mut there) = start(&[]);
    let mut mover = from.connect();
    client.ok("MSET changed 1 gone 2 same 3");
    // The connection is established and the keys are small: they are sent whether or not the
    // target reads.
    says(&mut client, &format!("MIGRATE 127.0.0.1 {} same 0 5000 COPY", to.port()), "OK");
    there.ok("FLUSHALL");
    to.signal(Signal::STOP);
    mover.send(&request(&format!("MIGRATE 127.0.0.1 {} \"\" 0 20000 KEYS changed gone same", to.port())));
    let mut writer = from.connect();
    let mut held = from.connect();
    // From the moment the keys are watched, changes are noticed.
    wait_for("the keys to be sent", || {
        client.info_field("clients", "total_watched_keys").as_deref() == Some("3")
    });
    held.send(b"SETNX same 4\r\n");
    wait_for("the writer to wait", || {
        client.info_field("clients", "blocked_clients").as_deref() == Some("2")
    });
    assert_eq!(writer.call("EVAL \"return redis.call('INCR', 'chan' .. 'ged')\" 0"), Value::Integer(2));
    assert_eq!(writer.call("EVAL \"return redis.call('DEL', 'go' .. 'ne')\" 0"), Value::Integer(1));
    to.signal(Signal::CONT);
    assert_eq!(mover.read(), Value::ok());
    assert_eq!(held.read(), Value::Integer(1));
    assert_eq!(
        client.call("MGET changed gone same"),
        Value::Array(vec![Value::NullBulk, Value::NullBulk, Value::bulk("4"),])
    );
    assert_eq!(
        there.call("MGET changed gone same"),
        Value::Array(vec![Value::bulk("2"), Value::NullBulk, Value::bulk("3"),])
    );
}

#[test]
fn a_killed_target_leaves_every_unacknowledged_key_here() {
    let (_from, mut client) = start(&[]);
    for round in 0..3 {
        let (mut to, mut there) = start(&[]);
        client.ok("FLUSHALL");
        for key in 0..2000 {
            client.ok(&format!("SET key:{key} {}", "x".repeat(1000)));
        }
        let names: Vec<String> = (0..2000).map(|key| format!("key:{key}")).collect();
        // Some keys are moved first, so that the connection is a reused one.
        let at = format!("MIGRATE 127.0.0.1 {} \"\" 0 5000 KEYS", to.port());
        says(&mut client, &format!("{at} {}", names[..10].join(" ")), "OK");
        client.send(&request(&format!("{at} {}", names[10..].join(" "))));
        if round > 0 {
            wait_for("some keys to arrive", || {
                there.send(b"DBSIZE\r\n");
                there.try_read().map_or(true, |size| size.integer().unwrap_or_default() > 10 * round)
            });
        }
        to.signal(Signal::KILL);
        to.wait();
        let reply = client.read().text();
        let left = client.call("DBSIZE").integer().unwrap_or_default();
        assert!(
            reply == "OK" && left == 0 || reply.starts_with(TO_TARGET) && left > 0,
            "{reply}, {left} left"
        );
        println!("killed: {reply}, {left} of 1990 left");
    }
}

#[test]
fn a_big_value_is_moved_while_others_are_served() {
    let (from, mut client) = start(&["--io-threads", "2", "--enable-debug-command", "yes"]);
    let (to, mut there) = start(&["--proto-max-bulk-len", "1gb", "--enable-debug-command", "yes"]);
    client.call(&format!("SETRANGE big {} x", 100_000_000 - 1));
    client.ok("CONFIG SET list-max-listpack-size 512");
    for _ in 0..40 {
        let element = "element:of:the:list".repeat(10);
        client.call(&format!("RPUSH list {}", vec![element.as_str(); 2000].join(" ")));
    }
    let digest = client.call("DEBUG DIGEST-VALUE big list");
    assert!(!digest.is_error(), "{digest}");
    let mut other = from.connect();
    let mut longest = Duration::ZERO;
    client.send(&request(&format!("MIGRATE 127.0.0.1 {} \"\" 0 30000 KEYS big list", to.port())));
    let mut turns = 0;
    loop {
        let began = Instant::now();
        let is_there = other.call("EXISTS big list");
        longest = longest.max(began.elapsed());
        turns += 1;
        if is_there == Value::Integer(0) {
            break;
        }
        assert_eq!(is_there, Value::Integer(2), "one key was deleted before the other");
    }
    println!("{turns} looks meanwhile, the longest took {longest:?}");
    assert_eq!(client.read(), Value::ok());
    assert_eq!(there.call("STRLEN big"), Value::Integer(100_000_000));
    assert_eq!(digest, there.call("DEBUG DIGEST-VALUE big list"));
    if from.is_braid() {
        assert!(turns > 3, "other clients had to wait");
    }
}

/// Increments a counter if it exists, since moves decide which server has it. By a script that
/// runs in parallel with others, by one that may touch any key and runs alone, or by a
/// transaction that needs all keys.
fn increment_if_there(client: &mut RawClient, counter: usize, way: usize) -> bool {
    let script = |name: &str| {
        format!(
            "EVAL \"if redis.call('EXISTS', {name}) == 1 then return redis.call('INCR', {name}) end return 0\" \
             1 counter:{counter}"
        )
    };
    let reply = match way {
        0 => client.call(&script("KEYS[1]")),
        1 => client.call(&script("KEYS[1]..''")),
        _ => {
            client.ok(&format!("WATCH counter:{counter}"));
            if client.call(&format!("EXISTS counter:{counter}")) != Value::Integer(1) {
                client.ok("UNWATCH");
                return false;
            }
            client.ok("MULTI");
            client.call(&format!("INCR counter:{counter}"));
            client.call("DBSIZE");
            let reply = client.call("EXEC");
            if reply.is_null() {
                return false;
            }
            reply.elements().expect("two replies")[0].clone()
        }
    };
    reply.integer().unwrap_or_else(|| panic!("{reply}")) > 0
}

/// Counters are incremented while they are moved back and forth. Each increment is acknowledged
/// by exactly one server and present in the final counter, which is in exactly one place.
#[test]
fn nothing_is_lost_under_writers() {
    const COUNTERS: usize = 4;
    const MOVES: usize = 60;
    let (one, mut first) = start(&["--io-threads", "2"]);
    let (two, mut second) = start(&["--io-threads", "2"]);
    for counter in 0..COUNTERS {
        first.ok(&format!("SET counter:{counter} 0"));
    }
    let done = AtomicBool::new(false);
    let acknowledged: [AtomicU64; COUNTERS] = Default::default();
    std::thread::scope(|scope| {
        for server in [&one, &two] {
            for _ in 0..2 {
                let mut client = server.connect();
                let (done, acknowledged) = (&done, &acknowledged);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::new();
                    while !done.load(Ordering::Relaxed) {
                        let counter = random.usize(..COUNTERS);
                        if increment_if_there(&mut client, counter, random.usize(..3)) {
                            acknowledged[counter].fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        }
        let names: Vec<String> = (0..COUNTERS).map(|counter| format!("counter:{counter}")).collect();
        for turn in 0..MOVES {
            let (client, port) =
                if turn % 2 == 0 { (&mut first, two.port()) } else { (&mut second, one.port()) };
            let reply =
                client.call(&format!("MIGRATE 127.0.0.1 {port} \"\" 0 10000 KEYS {}", names.join(" ")));
            assert_eq!(reply, Value::ok(), "move {turn}");
        }
        done.store(true, Ordering::Relaxed);
    });
    for (counter, acknowledged) in acknowledged.iter().enumerate() {
        let places = [&mut first, &mut second].map(|client| client.call(&format!("GET counter:{counter}")));
        let held: Vec<String> = places.iter().filter(|value| !value.is_null()).map(Value::text).collect();
        assert_eq!(held, [acknowledged.load(Ordering::Relaxed).to_string()], "counter {counter}");
    }
}

/// Concurrent moves of the same keys with REPLACE: all but the first find nothing, and delete
/// nothing.
#[test]
fn a_key_is_moved_once() {
    let (from, mut client) = start(&["--io-threads", "2"]);
    let (to, mut there) = start(&[]);
    let move_all = format!("MIGRATE 127.0.0.1 {} \"\" 0 10000 REPLACE KEYS a b c a", to.port());
    for _ in 0..50 {
        there.ok("FLUSHALL");
        client.ok("MSET a 1 b 2 c 3");
        let mut movers: Vec<RawClient> = (0..4).map(|_| from.connect()).collect();
        movers.iter_mut().for_each(|mover| mover.send(&request(&move_all)));
        let replies: Vec<String> = movers.iter_mut().map(|mover| mover.read().text()).collect();
        assert!(replies.iter().all(|reply| reply == "OK" || reply == "NOKEY"), "{replies:?}");
        assert_eq!((client.call("DBSIZE"), there.call("DBSIZE")), (Value::Integer(0), Value::Integer(3)));
    }
}
