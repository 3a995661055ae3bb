// SPDX-License-Identifier: BSD-3-Clause
//! Push messages across threads: published messages, keyspace events, MONITOR lines,
//! invalidations.

use braid_tests::{RawClient, TestServer, Value, request, wait_for};

fn start() -> TestServer {
    TestServer::start(&["--io-threads", "4"])
}

fn message(channel: &str, text: &str) -> Value {
    Value::Array(vec![Value::bulk("message"), Value::bulk(channel), Value::bulk(text)])
}

fn listen(client: &mut RawClient, channel: &str) {
    let reply = client.call(&format!("SUBSCRIBE {channel}"));
    assert_eq!(reply.elements().expect("an array")[0], Value::bulk("subscribe"));
}

#[test]
fn all_subscribers_see_channel_messages_in_the_same_order() {
    const EACH: usize = 500;
    let server = start();
    let mut listeners: Vec<RawClient> = (0..6).map(|_| server.connect()).collect();
    for client in &mut listeners {
        listen(client, "c");
    }
    std::thread::scope(|scope| {
        for publisher in 0..4 {
            let mut client = server.connect();
            scope.spawn(move || {
                // Some as single requests, some in a pipeline, some in transactions and scripts.
                for number in (0..EACH).step_by(5) {
                    let text = |at: usize| format!("PUBLISH c {publisher}:{}", number + at);
                    assert_eq!(client.call(&text(0)), Value::Integer(6));
                    client.send(
                        &[request(&text(1)), request("MULTI"), request(&text(2)), request("EXEC")].concat(),
                    );
                    let script =
                        "EVAL \"redis.call('publish', 'c', ARGV[1]); redis.call('publish', 'c', ARGV[2])\" 0";
                    let script = format!("{script} {publisher}:{} {publisher}:{}", number + 3, number + 4);
                    client.send(&request(&script));
                    for _ in 0..5 {
                        client.read();
                    }
                }
            });
        }
    });
    let read_all = |client: &mut RawClient| -> Vec<String> {
        (0..4 * EACH).map(|_| client.read().elements().expect("a message")[2].text()).collect()
    };
    let first = read_all(&mut listeners[0]);
    for publisher in 0..4 {
        let prefix = format!("{publisher}:");
        let numbers: Vec<usize> =
            first.iter().filter_map(|text| text.strip_prefix(&prefix)?.parse().ok()).collect();
        assert_eq!(numbers, (0..EACH).collect::<Vec<_>>(), "publisher {publisher}");
    }
    for client in &mut listeners[1..] {
        assert_eq!(read_all(client), first);
    }
}

#[test]
fn confirmed_subscriber_gets_all_later_messages() {
    let server = start();
    let mut listeners: Vec<RawClient> = (0..8).map(|_| server.connect()).collect();
    let mut publishers: Vec<RawClient> = (0..4).map(|_| server.connect()).collect();
    for round in 0..200 {
        let listener = &mut listeners[round % 8];
        let publisher = &mut publishers[round % 4];
        let channel = format!("channel:{}", round % 3);
        listen(listener, &channel);
        assert_eq!(publisher.call(&format!("PUBLISH {channel} {round}")), Value::Integer(1));
        // The message was published before the unsubscription was requested, so it comes first.
        let reply = listener.call(&format!("UNSUBSCRIBE {channel}"));
        assert_eq!(reply, message(&channel, &round.to_string()));
        assert_eq!(listener.read().elements().expect("an array")[0], Value::bulk("unsubscribe"));
        assert_eq!(publisher.call(&format!("PUBLISH {channel} late")), Value::Integer(0));
        assert_eq!(listener.call("PING"), Value::Simple("PONG".into()));
    }
}

#[test]
fn earlier_messages_precede_the_reply() {
    let server = start();
    let mut listener = server.connect();
    listener.call("HELLO 3");
    listen_resp3(&mut listener);
    let mut publishers: Vec<RawClient> = (0..4).map(|_| server.connect()).collect();
    for round in 0..400 {
        publishers[round % 4].call(&format!("PUBLISH c {round}"));
        let first = listener.call("PING");
        assert_eq!(first.elements().expect("the message")[2], Value::bulk(round.to_string()));
        assert_eq!(listener.read(), Value::Simple("PONG".into()));
    }
}

fn listen_resp3(client: &mut RawClient) {
    let reply = client.call("SUBSCRIBE c");
    assert_eq!(reply.elements().expect("a push")[0], Value::bulk("subscribe"));
}

#[test]
fn slow_subscriber_is_dropped_and_blocks_no_other_client() {
    let server = start();
    let (mut slow, mut quick, mut publisher) = (server.connect(), server.connect(), server.connect());
    publisher.ok("CONFIG SET client-output-buffer-limit \"pubsub 1mb 0 0\"");
    slow.ok("CLIENT SETNAME slow");
    listen(&mut slow, "c");
    listen(&mut quick, "c");
    let text = "x".repeat(100_000);
    wait_for("the slow listener to be dropped", || {
        publisher.call(&format!("PUBLISH c {text}"));
        assert_eq!(quick.read(), message("c", &text));
        !publisher.call("CLIENT LIST").text().contains("name=slow")
    });
    assert_eq!(publisher.call("PUBLISH c end"), Value::Integer(1));
    assert_eq!(quick.read(), message("c", "end"));
    // The slow client was limited as a subscriber, because ordinary clients have no output limit.
    assert_eq!(publisher.call("PUBSUB NUMSUB c").elements().expect("pairs")[1], Value::Integer(1));
}

#[test]
fn listeners_are_killed_by_type_and_leave_no_trace() {
    let server = start();
    let mut other = server.connect();
    let mut listeners: Vec<RawClient> = (0..5).map(|_| server.connect()).collect();
    for client in &mut listeners {
        listen(client, "c");
    }
    assert_eq!(other.call("CLIENT KILL TYPE pubsub"), Value::Integer(5));
    for client in &mut listeners {
        assert!(client.read_to_close().is_some());
    }
    wait_for("the channel to be forgotten", || {
        other.call("PUBSUB CHANNELS") == Value::Array(vec![])
            && other.info_field("stats", "pubsub_channels").as_deref() == Some("0")
    });
}

/// The number in a message like `1:27`.
fn number(text: &str) -> Option<u64> {
    text.split(':').nth(1)?.parse().ok()
}

#[test]
fn key_events_arrive_in_order_of_changes() {
    const ROUNDS: usize = 300;
    let server = start();
    let mut listener = server.connect();
    server.connect().ok("CONFIG SET notify-keyspace-events Kgl");
    assert_eq!(listener.call("SUBSCRIBE __keyspace@0__:k").elements().expect("an array").len(), 3);
    // A push creates the key and the pop that empties it deletes it. In the order of the changes,
    // lengths are never negative, and each deletion follows the pop that took the last element.
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let mut client = server.connect();
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    client.call(if (round + thread) % 2 == 0 { "RPUSH k x" } else { "LPOP k" });
                }
            });
        }
    });
    let mut other = server.connect();
    other.call("PUBLISH __keyspace@0__:k end");
    let (mut len, mut events) = (0i64, 0);
    loop {
        let event = listener.read().elements().expect("a message")[2].text();
        match event.as_str() {
            "rpush" => len += 1,
            "lpop" => len -= 1,
            "del" => assert_eq!(len, 0, "after {events} events"),
            "end" => break,
            _ => panic!("{event}"),
        }
        assert!(len >= 0, "after {events} events");
        events += 1;
    }
    assert_eq!(other.call("LLEN k"), Value::Integer(len));
    assert!(events >= 2 * ROUNDS, "{events}");
}

/// The channels and messages that a listener has got, up to one on the channel `end`.
fn heard(listener: &mut RawClient) -> Vec<(String, String)> {
    let mut all = Vec::new();
    loop {
        let message = listener.read();
        let parts = message.elements().expect("a message");
        let (channel, text) = (parts[2].text(), parts[3].text());
        if channel == "__subend" {
            return all;
        }
        all.push((channel, text));
    }
}

#[test]
fn changed_fields_of_hashes_are_published() {
    let server = start();
    let (mut listener, mut client) = (server.connect(), server.connect());
    listener.call("PSUBSCRIBE __sub*");
    let mut check = |flags: &str, line: &str, expected: &[(&str, &str)]| {
        client.ok(&format!("CONFIG SET notify-keyspace-events {flags}"));
        let reply = client.call(line);
        assert!(!format!("{reply:?}").contains("ERR"), "{line}: {reply:?}");
        client.call("PUBLISH __subend x");
        let expected: Vec<(String, String)> =
            expected.iter().map(|(channel, text)| ((*channel).to_owned(), (*text).to_owned())).collect();
        assert_eq!(heard(&mut listener), expected, "{flags}: {line}");
    };
    check("S", "HSET h a 1 bb 2", &[("__subkeyspace@0__:h", "hset|1:a,2:bb")]);
    check("T", "HSET h a 1 bb 2", &[("__subkeyevent@0__:hset", "1:h|1:a,2:bb")]);
    check(
        "I",
        "HSET h a 1 bb 2",
        &[("__subkeyspaceitem@0__:h\na", "hset"), ("__subkeyspaceitem@0__:h\nbb", "hset")],
    );
    check("V", "HSET h a 1 bb 2", &[("__subkeyspaceevent@0__:hset|h", "1:a,2:bb")]);
    check("KEA", "HSET h a 1 bb 2", &[]);
    check("S", "HSETNX h a 1", &[]);
    check("S", "HSETNX h c 1", &[("__subkeyspace@0__:h", "hset|1:c")]);
    check("S", "HINCRBY h c 1", &[("__subkeyspace@0__:h", "hincrby|1:c")]);
    check("S", "HINCRBYFLOAT h c 1", &[("__subkeyspace@0__:h", "hincrbyfloat|1:c")]);
    check("S", "HEXPIRE h 100 FIELDS 2 a x", &[("__subkeyspace@0__:h", "hexpire|1:a")]);
    check("S", "HPERSIST h FIELDS 2 a bb", &[("__subkeyspace@0__:h", "hpersist|1:a")]);
    check("S", "HGETEX h EX 100 FIELDS 2 bb x", &[("__subkeyspace@0__:h", "hexpire|2:bb")]);
    check("S", "HGETEX h PERSIST FIELDS 2 a bb", &[("__subkeyspace@0__:h", "hpersist|2:bb")]);
    check(
        "S",
        "HSETEX h EX 100 FIELDS 1 d 4",
        &[("__subkeyspace@0__:h", "hset|1:d"), ("__subkeyspace@0__:h", "hexpire|1:d")],
    );
    check("S", "HEXPIRE h 0 FIELDS 1 d", &[("__subkeyspace@0__:h", "hdel|1:d")]);
    check("S", "HGETDEL h FIELDS 2 c x", &[("__subkeyspace@0__:h", "hdel|1:c")]);
    check("STh", "HDEL h x a", &[("__subkeyspace@0__:h", "hdel|1:a"), ("__subkeyevent@0__:hdel", "1:h|1:a")]);
    check("S", "HDEL h x", &[]);
    check("S", "SADD s m", &[]);
    // A line break separates the key from the field, so such a key has no channels of this kind.
    check("IV", "HSET \"h\\n\" a 1", &[("__subkeyspaceevent@0__:hset|h\n", "1:a")]);
    // Fields that expire by themselves.
    client.ok("CONFIG SET notify-keyspace-events S");
    client.call("HSET e a 1 b 2 c 3");
    client.call("HPEXPIRE e 30 FIELDS 2 a b");
    wait_for("the fields to expire", || client.call("HLEN e") == Value::Integer(1));
    // If they are still there, this removes them.
    client.call("HDEL e c");
    client.call("PUBLISH __subend x");
    let all = heard(&mut listener);
    let both = ["hexpired|1:a,1:b", "hexpired|1:b,1:a"];
    assert!(all.iter().any(|(_, text)| both.contains(&text.as_str())), "{all:?}");
}

/// Caching clients read and write concurrently: once a client knows that a write is done, it must
/// not find the old value in a cache whose connection has been read since.
#[test]
fn a_cache_is_never_stale_behind_a_later_reply() {
    for model in ["parallel", "handoff", "hybrid", "fanout", "global-lock"] {
        let server = TestServer::start(&["--io-threads", "3", "--threading-model", model]);
        check_cache_with_concurrent_writers(&server, model);
    }
}

/// One client caches, four clients write.
pub fn check_cache_with_concurrent_writers(server: &TestServer, model: &str) {
    let mut reader = server.connect();
    reader.call("HELLO 3");
    reader.ok("CLIENT TRACKING ON");
    let mut writers: Vec<RawClient> = (0..4).map(|_| server.connect()).collect();
    let mut cached: Option<Vec<u8>> = None;
    for round in 0..400u64 {
        let written = format!("v:{round}");
        if round % 3 != 2 {
            writers[round as usize % 4].ok(&format!("SET k {written}"));
        }
        if cached.is_none() {
            let mut reply = reader.call("GET k");
            while reply.bytes().is_none() {
                // An invalidation of the previously cached value.
                reply = reader.read();
            }
            cached = reply.bytes().map(<[u8]>::to_vec);
        }
        // Read all pushes that were sent before this reply.
        let mut reply = reader.call("PING");
        while reply != Value::Simple("PONG".into()) {
            assert_eq!(reply.elements().expect("a push")[0], Value::bulk("invalidate"), "{model}");
            cached = None;
            reply = reader.read();
        }
        if let Some(text) = cached.as_ref().and_then(|text| number(std::str::from_utf8(text).ok()?)) {
            let last = if round % 3 == 2 { round - 1 } else { round };
            assert_eq!(text, last, "{model}: stale in round {round}");
        }
    }
}

#[test]
fn messages_reach_clients_that_travel() {
    for model in ["handoff", "hybrid", "fanout", "global-lock"] {
        let server = TestServer::start(&["--io-threads", "3", "--threading-model", model]);
        let mut listeners: Vec<RawClient> = (0..6).map(|_| server.connect()).collect();
        for client in &mut listeners {
            client.call("HELLO 3");
            listen(client, "c");
        }
        let mut publisher = server.connect();
        for round in 0..200 {
            // The requests are in flight when the message arrives.
            for client in &mut listeners {
                client.send(
                    &[request("MGET a b"), request("GET a"), request("MULTI"), request("EXEC")].concat(),
                );
            }
            assert_eq!(publisher.call(&format!("PUBLISH c {round}")), Value::Integer(6), "{model}");
        }
        for client in &mut listeners {
            let (mut replies, mut messages) = (0, 0);
            while replies < 800 || messages < 200 {
                let value = client.read();
                match value.elements() {
                    Some([kind, _, text]) if *kind == Value::bulk("message") => {
                        assert_eq!(*text, Value::bulk(messages.to_string()), "{model}");
                        messages += 1;
                    }
                    _ => replies += 1,
                }
            }
        }
    }
}

#[test]
fn a_monitor_sees_the_commands_of_all_threads() {
    let server = start();
    let mut monitor = server.connect();
    monitor.ok("MONITOR");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut client = server.connect();
            scope.spawn(move || {
                for _ in 0..200 {
                    client.call("INCR k");
                    client.call("GET k");
                }
            });
        }
    });
    server.connect().call("ECHO end");
    let (mut increments, mut reads) = (0, 0);
    loop {
        let line = monitor.read().text();
        increments += usize::from(line.ends_with("\"INCR\" \"k\""));
        reads += usize::from(line.ends_with("\"GET\" \"k\""));
        if line.ends_with("\"ECHO\" \"end\"") {
            break;
        }
    }
    assert_eq!((increments, reads), (800, 800));
}

/// If each request is sent only after the previous reply, on any connection, MONITOR shows them
/// in that order, however many threads there are.
#[test]
fn monitor_shows_sequential_commands_in_order() {
    const ROUNDS: usize = 400;
    let server = start();
    let mut monitors: Vec<RawClient> = (0..5).map(|_| server.connect()).collect();
    monitors.iter_mut().for_each(|monitor| monitor.ok("MONITOR"));
    // On all threads, in changing order.
    let mut clients: Vec<RawClient> = (0..8).map(|_| server.connect()).collect();
    let mut sent = Vec::new();
    for number in 0..ROUNDS {
        let at = (number * 5 + number / 7) % clients.len();
        let command = match number % 7 {
            0 => format!("SET key:{number} {number}"),
            1 => format!("GET key:{}", number - 1),
            2 => format!("MSET a {number} b {number}"),
            3 => format!("PING {number}"),
            4 => format!("EVAL \"return {number}\" 0"),
            5 => format!("LPUSH list:{number} {number}"),
            _ => format!("KEYS nothing:{number}*"),
        };
        clients[at].call(&command);
        sent.push(command.replace('"', ""));
    }
    clients[0].call("ECHO end");
    for monitor in &mut monitors {
        let mut told = Vec::new();
        loop {
            let line = monitor.read().text();
            let words: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
            if words == ["ECHO", "end"] {
                break;
            }
            told.push(words.join(" "));
        }
        assert_eq!(told, sent);
    }
}

/// A blocking command's MONITOR line precedes those of all clients that observe it waiting, and
/// is not repeated when the command is served.
#[test]
fn monitor_shows_a_blocking_command_once_before_it_blocks() {
    let server = start();
    let mut client = server.connect();
    for round in 0..50 {
        // One monitor ends just as another one starts.
        let mut old = server.connect();
        old.ok("MONITOR");
        let mut monitor = server.connect();
        old.send(&request("QUIT"));
        monitor.ok("MONITOR");
        let mut waiting = server.connect();
        waiting.send(&request("BLPOP list 0"));
        wait_for("the client to block", || {
            client.info_field("clients", "blocked_clients").as_deref() == Some("1")
        });
        client.call(&format!("RPUSH list {round}"));
        assert_eq!(waiting.read().to_string(), format!("[\"list\", \"{round}\"]"));
        client.call("ECHO end");
        let mut told = Vec::new();
        while told.last().is_none_or(|command| command != "ECHO end") {
            let line = monitor.read().text();
            let words: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
            told.push(words.join(" "));
        }
        // INFO may also have been called before the client was blocked. The QUIT of the other
        // monitor may be shown.
        told.retain(|command| command != "QUIT");
        let place = |wanted: &str| told.iter().position(|command| command == wanted).expect("a MONITOR line");
        let (waits, served) = (place("BLPOP list 0"), place(&format!("RPUSH list {round}")));
        assert!(waits < served && told[waits..served].contains(&"INFO clients".to_owned()), "{told:?}");
        assert_eq!(told.iter().filter(|command| *command != "INFO clients").count(), 3, "{told:?}");
    }
}

/// Clients that cache evicted keys are notified. Memory for these notifications must not cause
/// further evictions until no key is left.
#[test]
fn eviction_notifications_do_not_cause_more_evictions() {
    const KEYS: usize = 300;
    let server = TestServer::start(&["--io-threads", "2", "--maxmemory-policy", "allkeys-lru"]);
    let mut client = server.connect();
    client.ok("CONFIG SET maxmemory-eviction-tenacity 100");
    let mut caches: Vec<RawClient> = (0..10).map(|_| server.connect()).collect();
    for cache in &mut caches {
        cache.call("HELLO 3");
        cache.ok("CLIENT TRACKING ON");
    }
    let names: Vec<String> = (0..KEYS).map(|number| format!("{number}{}", "x".repeat(1000))).collect();
    for name in &names {
        client.ok(&format!("SET {name} x"));
        for cache in &mut caches {
            assert_eq!(cache.call(&format!("GET {name}")).text(), "x");
        }
    }
    let used = |client: &mut RawClient| -> usize {
        client.info_field("memory", "used_memory").and_then(|text| text.parse().ok()).expect("a number")
    };
    // About forty keys above the limit.
    let limit = used(&mut client) - 40_000;
    client.ok(&format!("CONFIG SET maxmemory {limit}"));
    wait_for("memory to be below the limit", || used(&mut client) <= limit);
    let left = client.call("DBSIZE").integer().expect("a number");
    assert!((150..KEYS as i64).contains(&left), "{left} keys are left");
}

/// A MONITOR client that does not read its lines is closed before they fill the memory.
#[test]
fn a_monitor_that_does_not_read_is_closed() {
    if !braid_tests::server::is_braid() {
        return;
    }
    let server = start();
    let (mut deaf, mut reading, mut client) = (server.connect(), server.connect(), server.connect());
    deaf.ok("MONITOR");
    reading.ok("MONITOR");
    let value = "x".repeat(1 << 20);
    let limit =
        |client: &mut RawClient| client.info_field("stats", "client_output_buffer_limit_disconnections");
    for _ in 0..100 {
        assert_eq!(client.call_arguments(&["SET", "k", &value]), Value::ok());
        // The other monitor reads all of its lines, and is not closed.
        let line = reading.read_bytes(value.len());
        assert_eq!(line.len(), value.len());
    }
    wait_for("the deaf monitor to be closed", || limit(&mut client).as_deref() == Some("1"));
    reading.read_bytes(100);
    assert!(client.call("CLIENT LIST").text().contains(&reading.local_address()));
    assert!(server.log().contains("(monitor-output-limit)"), "{}", server.log());
    assert!(deaf.read_to_close().is_some_and(|bytes| bytes.len() < 64 << 20));

    // With another limit, and without a limit.
    client.ok("CONFIG SET monitor-output-limit 0");
    let mut deaf = server.connect();
    deaf.ok("MONITOR");
    for _ in 0..50 {
        assert_eq!(client.call_arguments(&["SET", "k", &value]), Value::ok());
    }
    assert!(client.call("CLIENT LIST").text().contains("cmd=monitor"));
    client.ok("CONFIG SET monitor-output-limit 1mb");
    wait_for("the deaf monitor to be closed", || {
        client.ok("SET k v");
        !client
            .call("CLIENT LIST TYPE normal")
            .text()
            .lines()
            .any(|line| line.contains("cmd=monitor") && line.contains(&deaf.local_address()))
    });
}
