// SPDX-License-Identifier: BSD-3-Clause
//! Long commands do not block the other clients of their loop, and their replies still show a
//! state that existed at one moment.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use braid_tests::random::source;
use braid_tests::{RawClient, TestServer, Value, request};

fn start(threads: &str) -> Option<TestServer> {
    let server = TestServer::start(&["--io-threads", threads, "--enable-debug-command", "yes", "--save", ""]);
    if !server.is_braid() {
        println!("skipped: stock servers execute one command at a time");
        return None;
    }
    Some(server)
}

fn calls(client: &mut RawClient, command: &str) -> u64 {
    let stats = client.info_field("commandstats", &format!("cmdstat_{command}")).unwrap_or_default();
    stats.strip_prefix("calls=").and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
}

/// Fills a list with random numbers.
fn fill_list(client: &mut RawClient, key: &str, count: u64) {
    let mut random = source("numbers");
    for _ in 0..count / 1000 {
        let numbers: Vec<String> = (0..1000).map(|_| random.u64(0..1 << 40).to_string()).collect();
        client.call(&format!("RPUSH {key} {}", numbers.join(" ")));
    }
}

/// Stops the concurrent threads, however the test ends.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends `command` until another client of the same loop has observed its client waiting, and
/// returns the reply. Panics if that never happens.
#[track_caller]
fn others_are_served(server: &TestServer, command: &str, mut prepare: impl FnMut(&mut RawClient)) -> Value {
    let (mut heavy, mut other) = (server.connect(), server.connect());
    let name = command.split(' ').next().expect("a name").to_lowercase();
    for _ in 0..20 {
        prepare(&mut heavy);
        let before = calls(&mut other, &name);
        heavy.send(&request(command));
        let mut seen = 0;
        while calls(&mut other, &name) == before {
            seen += u32::from(other.info_field("clients", "blocked_clients").as_deref() == Some("1"));
        }
        let reply = heavy.read();
        if seen > 0 {
            println!("{command:.80}: found waiting {seen} times");
            return reply;
        }
    }
    panic!("no client is served while {command:.80} runs");
}

#[test]
fn other_clients_of_the_loop_are_served_meanwhile() {
    let Some(server) = start("1") else { return };
    let mut client = server.connect();
    client.ok("DEBUG POPULATE 300000");
    let reply = others_are_served(&server, "KEYS key:*7*1*", |_| {});
    let expected =
        (0..300_000).filter(|n| n.to_string().split_once('7').is_some_and(|(_, rest)| rest.contains('1')));
    assert_eq!(reply.elements().map(<[Value]>::len), Some(expected.count()));
    fill_list(&mut client, "list", 200_000);
    let reply = others_are_served(&server, "SORT list DESC LIMIT 0 100000 GET # GET nothing", |_| {});
    let sorted: Vec<u64> = reply
        .elements()
        .expect("elements")
        .iter()
        .step_by(2)
        .map(|n| n.text().parse().expect("a number"))
        .collect();
    assert!(sorted.len() == 100_000 && sorted.is_sorted_by(|one, other| one >= other));
    let reply = others_are_served(&server, "SORT_RO list ALPHA", |_| {});
    let sorted: Vec<String> = reply.elements().expect("elements").iter().map(Value::text).collect();
    assert!(sorted.len() == 200_000 && sorted.is_sorted());
    client.call("RPUSH list text");
    let reply = others_are_served(&server, "SORT list", |_| {});
    assert_eq!(reply.text(), "ERR One or more scores can't be converted into double");
    for command in ["FLUSHALL", "FLUSHDB SYNC"] {
        let reply = others_are_served(&server, command, |client| client.ok("DEBUG POPULATE 300000"));
        assert_eq!(reply, Value::ok());
        assert_eq!(client.call("DBSIZE"), Value::Integer(0));
        assert_eq!(
            client.info_field("memory", "lazyfree_pending_objects").as_deref(),
            Some("0"),
            "values are still being freed"
        );
    }
}

#[test]
fn pipelined_requests_run_after_long_commands() {
    let Some(server) = start("2") else { return };
    let (mut client, mut other) = (server.connect(), server.connect());
    for round in 0..5 {
        client.ok("DEBUG POPULATE 100000");
        fill_list(&mut client, "list", 30_000);
        let pipeline = [
            "SET mine 1",
            "KEYS mine",
            "DEL mine",
            "KEYS mine",
            "SORT list LIMIT 0 1",
            "DEL list",
            "SORT list",
            "MULTI",
            "KEYS key:77777",
            "SORT list",
            "EXEC",
            "FLUSHALL",
            "DBSIZE",
            "SET mine 2",
            "KEYS *",
        ];
        client.send(&pipeline.iter().map(|line| request(line)).collect::<Vec<_>>().concat());
        let replies: Vec<Value> = pipeline.iter().map(|_| client.read()).collect();
        let found = |name: &str| Value::Array(vec![Value::bulk(name)]);
        let nothing = || Value::Array(Vec::new());
        assert_eq!((&replies[1], &replies[3]), (&found("mine"), &nothing()), "round {round}");
        assert_eq!(replies[4].elements().map(<[Value]>::len), Some(1));
        assert_eq!(replies[6], nothing());
        assert_eq!(replies[10], Value::Array(vec![found("key:77777"), nothing()]));
        assert_eq!(
            (&replies[11], &replies[12], &replies[14]),
            (&Value::ok(), &Value::Integer(0), &found("mine"))
        );
    }
    // In a script they run at a single moment.
    client.ok("DEBUG POPULATE 100000");
    assert_eq!(
        client.call_arguments(&["EVAL", "return #redis.call('KEYS', '*')", "0"]),
        Value::Integer(100_001)
    );
    assert_eq!(
        client.call_arguments(&["EVAL", "redis.call('FLUSHALL', 'SYNC') return redis.call('DBSIZE')", "0"]),
        Value::Integer(0)
    );
    assert!(calls(&mut other, "keys") >= 15 && calls(&mut other, "flushall") >= 5, "calls are not counted");
    assert_eq!(other.info_field("clients", "blocked_clients").as_deref(), Some("0"));
}

#[test]
fn client_in_a_long_command_can_be_killed_but_not_unblocked() {
    let Some(server) = start("2") else { return };
    let mut client = server.connect();
    client.ok("DEBUG POPULATE 300000");
    for _ in 0..10 {
        let mut heavy = server.connect();
        let id = heavy.call("CLIENT ID").integer().expect("an id");
        heavy.send(&request("KEYS *"));
        assert_eq!(client.call(&format!("CLIENT UNBLOCK {id}")), Value::Integer(0));
        client.call(&format!("CLIENT KILL ID {id}"));
    }
    braid_tests::wait::wait_for("killed clients to be removed", || {
        client.info_field("clients", "blocked_clients").as_deref() == Some("0")
    });
    assert_eq!(client.call("KEYS key:4"), Value::Array(vec![Value::bulk("key:4")]));
}

#[test]
fn keys_command_returns_stable_keys_exactly_once() {
    const STABLE: usize = 60_000;
    const OTHER: u32 = 30_000;
    let Some(server) = start("4") else { return };
    let mut client = server.connect();
    client.ok(&format!("DEBUG POPULATE {STABLE} stable"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&done);
        for writer in 0..2 {
            let (server, done) = (&server, &done);
            scope.spawn(move || {
                let (mut client, mut random) = (server.connect(), source("writer"));
                let line = |random: &mut fastrand::Rng| {
                    let name = format!("other:{writer}:{}", random.u32(0..OTHER));
                    request(&if random.bool() { format!("SET {name} v") } else { format!("DEL {name}") })
                };
                // Written once: the writers compete with the server for the processors.
                let batch =
                    |random: &mut fastrand::Rng| (0..500).map(|_| line(random)).collect::<Vec<_>>().concat();
                let batches: Vec<Vec<u8>> = (0..100).map(|_| batch(&mut random)).collect();
                while !done.load(Ordering::Relaxed) {
                    client.send(&batches[random.usize(..batches.len())]);
                    (0..500).for_each(|_| drop(client.read()));
                }
            });
        }
        // Counted by the numbers in the names: a map of a hundred thousand names takes longer than
        // the command, and the writers are busy meanwhile.
        let index = |name: &str| {
            let (kind, number) = name.rsplit_once(':')?;
            let first = match kind {
                "stable" => 0,
                "other:0" => STABLE,
                "other:1" => STABLE + OTHER as usize,
                _ => return None,
            };
            Some(first + number.parse::<usize>().ok()?)
        };
        for round in 0..15 {
            let reply = client.call("KEYS *");
            let mut counts = vec![0u8; STABLE + 2 * OTHER as usize];
            for key in reply.elements().expect("keys") {
                let name = str::from_utf8(key.bytes().expect("a name")).expect("text");
                counts[index(name).expect("a name of this test")] += 1;
            }
            assert!(counts.iter().all(|&count| count <= 1), "round {round}: a key was returned twice");
            assert!(
                counts[..STABLE].iter().all(|&count| count == 1),
                "round {round}: a stable key is missing"
            );
        }
    });
}

/// Writes acknowledged before FLUSHALL was sent are gone once it is answered; writes sent after
/// the answer stay.
#[test]
fn flushall_removes_earlier_writes_and_keeps_later_ones() {
    let Some(server) = start("4") else { return };
    let mut client = server.connect();
    let (done, acknowledged) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)]);
    std::thread::scope(|scope| {
        let _ends = Ends(&done);
        for (writer, acknowledged) in acknowledged.iter().enumerate() {
            let (server, done) = (&server, &done);
            scope.spawn(move || {
                let mut client = server.connect();
                for n in 0.. {
                    if done.load(Ordering::Relaxed) {
                        return;
                    }
                    client.ok(&format!("SET {writer}:{n} v"));
                    acknowledged.store(n + 1, Ordering::SeqCst);
                }
            });
        }
        for round in 0..20 {
            client.ok("DEBUG POPULATE 30000 filling");
            let before: Vec<u64> = acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect();
            client.ok(["FLUSHALL SYNC", "FLUSHALL", "FLUSHDB"][round % 3]);
            // One write may be in flight now; the next one is sent after the answer.
            let sent: Vec<u64> = acknowledged.iter().map(|count| count.load(Ordering::SeqCst) + 1).collect();
            braid_tests::wait::wait_for("more writes", || {
                acknowledged.iter().zip(&sent).all(|(count, &sent)| count.load(Ordering::SeqCst) > sent + 2)
            });
            for writer in 0..2 {
                let (old, new) = (before[writer].saturating_sub(1), sent[writer] + 1);
                let exists =
                    |client: &mut RawClient, n| client.call(&format!("EXISTS {writer}:{n}")).integer();
                if before[writer] > 0 {
                    assert_eq!(
                        exists(&mut client, old),
                        Some(0),
                        "round {round}: {writer}:{old} is still there"
                    );
                }
                assert_eq!(exists(&mut client, new), Some(1), "round {round}: {writer}:{new} is lost");
            }
            let filling = client.call("EXISTS filling:0 filling:29999").integer();
            assert_eq!(filling, Some(0));
        }
    });
}

/// Other clients rotate the list, and add or remove two elements atomically: each reply is the
/// list at a single moment.
#[test]
fn sort_sees_a_consistent_list_state() {
    const LEN: u64 = 30_000;
    let Some(server) = start("4") else { return };
    let mut client = server.connect();
    for start in (0..LEN).step_by(1000) {
        let numbers: Vec<String> = (start..start + 1000).map(|n| n.to_string()).collect();
        client.call(&format!("RPUSH list {}", numbers.join(" ")));
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _ends = Ends(&done);
        let (server, done) = (&server, &done);
        scope.spawn(move || {
            let mut client = server.connect();
            while !done.load(Ordering::Relaxed) {
                (0..50).for_each(|_| drop(client.call("LMOVE list list LEFT RIGHT")));
                for lines in [
                    ["RPUSH list 1000001", "LPUSH list 1000002"],
                    ["LREM list -1 1000001", "LREM list 1 1000002"],
                ] {
                    client.ok("MULTI");
                    lines.iter().for_each(|line| drop(client.call(line)));
                    client.call("EXEC");
                }
            }
        });
        let mut lens = BTreeSet::new();
        for round in 0..60 {
            let reply = client.call("SORT list");
            let numbers: Vec<u64> = reply
                .elements()
                .expect("elements")
                .iter()
                .map(|n| n.text().parse().expect("a number"))
                .collect();
            assert!(numbers[..LEN as usize].iter().copied().eq(0..LEN), "round {round}");
            assert!(
                matches!(numbers[LEN as usize..], [] | [1_000_001, 1_000_002]),
                "round {round}: {:?}",
                &numbers[LEN as usize..]
            );
            lens.insert(numbers.len());
        }
        println!("{lens:?}");
    });
}

/// Fills two sorted sets and two sets with `count` members each, half of which are in both.
fn fill_sets(client: &mut RawClient, count: u64) {
    for (command, keys) in [("ZADD", ["z1", "z2"]), ("SADD", ["s1", "s2"])] {
        for (key, first) in keys.into_iter().zip([0, count / 2]) {
            for start in (first..first + count).step_by(1000) {
                let member = |n: u64| match command {
                    "ZADD" => format!("{} member:{n}", n * 7 % 1_000_003),
                    _ => format!("member:{n}"),
                };
                let members: Vec<String> = (start..start + 1000).map(member).collect();
                client.call(&format!("{command} {key} {}", members.join(" ")));
            }
        }
    }
}

fn sorted(reply: &Value) -> Vec<&[u8]> {
    let elements = reply.elements().expect("elements").iter();
    let mut elements: Vec<&[u8]> = elements.map(|element| element.bytes().expect("a text")).collect();
    elements.sort_unstable();
    elements
}

const READING: &[&str] = &[
    "ZUNION 2 z1 z2 WEIGHTS 2 3 WITHSCORES",
    "ZINTER 3 z1 z2 s1 AGGREGATE MAX WITHSCORES",
    "ZDIFF 2 z1 z2 WITHSCORES",
    "ZINTERCARD 2 z1 z2",
    "ZINTERCARD 3 z1 z1 s2 LIMIT 15000",
    "SUNION s1 s2",
    "SINTER s1 s2",
    "SDIFF s1 s2 none",
    "SINTERCARD 2 s1 s2",
];

const STORING: &[&str] = &[
    "ZUNIONSTORE d 3 z1 z2 s1 WEIGHTS 1 2.5 3 AGGREGATE MIN",
    "ZINTERSTORE d 2 z1 z2",
    "ZDIFFSTORE d 2 z1 z2",
    "ZDIFFSTORE d 3 z1 z2 s1",
    "ZRANGESTORE d z1 (17 +inf BYSCORE",
    "COPY z1 d REPLACE",
    "SUNIONSTORE d s1 s2",
    "SINTERSTORE d s1 s2",
    "SDIFFSTORE d s1 s2",
    "SORT list STORE d",
    "SORT z1 ALPHA DESC LIMIT 10 30000 STORE d",
    "SORT s1 BY nosort GET # GET nothing STORE d",
];

/// A command's reply, and the digest and encoding of the value stored at `d`.
fn stored(client: &mut RawClient, command: &str) -> (Value, Value, Value) {
    let reply = client.call(command);
    (reply, client.call("DEBUG DIGEST-VALUE d"), client.call("OBJECT ENCODING d"))
}

#[test]
fn background_set_operations_match_results_in_a_transaction() {
    let Some(server) = start("1") else { return };
    let mut client = server.connect();
    fill_sets(&mut client, 60_000);
    fill_list(&mut client, "list", 60_000);
    for command in READING {
        let reply = others_are_served(&server, command, |_| {});
        client.ok("MULTI");
        client.call(command);
        let inline = client.call("EXEC").elements().expect("one reply")[0].clone();
        match reply.elements() {
            None => assert_eq!(reply, inline, "{command}"),
            Some(elements) => {
                assert!(elements.len() >= 30_000, "{command}");
                assert_eq!(sorted(&reply), sorted(&inline), "{command}");
            }
        }
    }
    for command in STORING {
        others_are_served(&server, command, |client| drop(client.call("DEL d")));
        let before = calls(&mut client, &command.split(' ').next().expect("a name").to_lowercase());
        let found = stored(&mut client, command);
        let after = calls(&mut client, &command.split(' ').next().expect("a name").to_lowercase());
        assert_eq!(after, before + 1, "{command} is counted once");
        client.ok("SET d other");
        client.ok("MULTI");
        client.call(command);
        let inline = client.call("EXEC").elements().expect("one reply")[0].clone();
        let inline = (inline, client.call("DEBUG DIGEST-VALUE d"), client.call("OBJECT ENCODING d"));
        assert_eq!(found, inline, "{command}");
    }
    // The destination is one of the sources.
    let expected = stored(&mut client, "ZUNIONSTORE d 2 z1 z2");
    client.call("ZUNIONSTORE d 1 z1");
    assert_eq!(stored(&mut client, "ZUNIONSTORE d 2 d z2"), expected);
    assert_eq!(client.call("SDIFFSTORE s1 s1 s1"), Value::Integer(0));
    assert_eq!(client.call("EXISTS s1"), Value::Integer(0));
    // Other types, and texts that are not numbers.
    client.ok("SET text x");
    for command in ["ZUNIONSTORE d 2 z1 text", "ZINTER 2 z1 text", "SUNION s2 text", "SUNIONSTORE d s2 z1"] {
        assert!(client.call(command).text().starts_with("WRONGTYPE"), "{command}");
    }
    client.call("RPUSH list text");
    let refused = client.call("SORT list STORE d");
    assert_eq!(refused.text(), "ERR One or more scores can't be converted into double");
    // Collections with expiring members are not shared.
    if !client.call("ZPEXPIRE z1 1 FIELDS 1 member:3").is_error() {
        braid_tests::wait::wait_for("the member to expire", || client.call("ZSCORE z1 member:3").is_null());
        assert_eq!(client.call("ZUNIONSTORE d 1 z1"), Value::Integer(59_999));
    }
    for field in ["total_watched_keys", "blocked_clients"] {
        braid_tests::wait::wait_for("watches and blocked clients to end", || {
            client.info_field("clients", field).as_deref() == Some("0")
        });
    }
}

/// A server with an append-only file and DEBUG.
fn journalling_server(model: &str) -> TestServer {
    TestServer::start(&[
        "--io-threads",
        "3",
        "--threading-model",
        model,
        "--enable-debug-command",
        "yes",
        "--appendonly",
        "yes",
    ])
}

/// A member moves between two sets atomically while they are combined. Replaying the append-only
/// file yields the same state. With `BRAID_ROUNDS`, as at night, up to 12 rounds.
#[test]
fn set_operations_read_and_store_atomically() {
    const COUNT: u64 = 20_000;
    let rounds = braid_tests::random::number("BRAID_ROUNDS", 4).min(12);
    for model in ["parallel", "global-lock", "handoff", "hybrid", "fanout"] {
        let server = journalling_server(model);
        if !server.is_braid() {
            return;
        }
        let mut client = server.connect();
        fill_sets(&mut client, COUNT);
        client.call("ZADD z1 5 wanderer");
        client.call("SADD s1 wanderer");
        let all = i64::try_from(COUNT + COUNT / 2 + 1).expect("small");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _ends = Ends(&done);
            let (server, done) = (&server, &done);
            scope.spawn(move || {
                let mut client = server.connect();
                let mut there = 0;
                while !done.load(Ordering::Relaxed) {
                    let (from, to) = ([1, 2][there], [2, 1][there]);
                    client.ok("MULTI");
                    client.call(&format!("ZREM z{from} wanderer"));
                    client.call(&format!("ZADD z{to} 5 wanderer"));
                    client.call(&format!("SMOVE s{from} s{to} wanderer"));
                    client.call("EXEC");
                    there = 1 - there;
                    // Some results are valid at the first attempt, others must be recomputed.
                    std::thread::sleep(std::time::Duration::from_millis([1, 60][there]));
                }
            });
            for round in 0..rounds {
                for command in ["ZUNIONSTORE zd 2 z1 z2", "SUNIONSTORE sd s1 s2"] {
                    assert_eq!(client.call(command), Value::Integer(all), "{model}, {round}: {command}");
                }
                for command in ["ZINTERCARD 2 z1 z2", "SINTERCARD 2 s1 s2"] {
                    let common = i64::try_from(COUNT / 2).expect("small");
                    assert_eq!(client.call(command), Value::Integer(common), "{model}, {round}: {command}");
                }
                let members = client.call("SUNION s1 s2").elements().map(<[Value]>::len);
                assert_eq!(members, usize::try_from(all).ok(), "{model}, {round}");
                client.call("SDIFFSTORE copy:s s1 s2");
                client.call("COPY z1 copy:z REPLACE");
                client.call("SORT z1 ALPHA STORE sorted");
            }
        });
        let digest = client.call("DEBUG DIGEST");
        client.ok("DEBUG LOADAOF");
        assert_eq!(client.call("DEBUG DIGEST"), digest, "{model}");
    }
}

#[test]
fn a_stored_result_comes_by_the_way_of_all_commands() {
    let Some(server) = start("2") else { return };
    let mut client = server.connect();
    fill_sets(&mut client, 200_000);
    client.ok("CONFIG SET notify-keyspace-events KEA");
    let (mut listener, mut monitor) = (server.connect(), server.connect());
    listener.call("SUBSCRIBE __keyevent@0__:zunionstore");
    monitor.ok("MONITOR");
    // The command waits with its precomputed result while writes are paused. A client that sees
    // it wait sends the pause.
    let mut heavy = server.connect();
    let mut is_paused = false;
    for _ in 0..20 {
        client.call("DEL d");
        heavy.send(&[request("ZUNIONSTORE d 2 z1 z2"), request("ZCARD d"), request("PING")].concat());
        braid_tests::wait::wait_for("the command to wait or finish", || {
            client.info_field("clients", "blocked_clients").as_deref() == Some("1")
                || client.call("EXISTS d") == Value::Integer(1)
        });
        client.ok("CLIENT PAUSE 100000 WRITE");
        if client.call("EXISTS d") == Value::Integer(0) {
            is_paused = true;
            let id = heavy_id(&mut client);
            assert_eq!(client.call(&format!("CLIENT UNBLOCK {id}")), Value::Integer(0));
            braid_tests::wait::wait_for("the command to be held back", || {
                let list = client.call("CLIENT LIST").text();
                list.lines().any(|line| line.contains("cmd=zunionstore") && line.contains("flags=b"))
            });
            assert_eq!(client.call("EXISTS d"), Value::Integer(0));
        }
        client.ok("CLIENT UNPAUSE");
        let replies = [heavy.read(), heavy.read(), heavy.read()];
        assert_eq!(replies[..2], [Value::Integer(300_000), Value::Integer(300_000)]);
        assert_eq!(replies[2].text(), "PONG");
        let event = listener.read();
        assert_eq!(event.elements().expect("an event")[2].text(), "d");
        if is_paused {
            break;
        }
    }
    assert!(is_paused, "the command was never paused");
    // MONITOR shows each command once.
    client.call("ECHO end");
    let mut seen = Vec::new();
    loop {
        let line = monitor.read().text();
        if line.contains("\"ECHO\" \"end\"") {
            break;
        }
        seen.extend(["ZUNIONSTORE", "\"PING\""].into_iter().filter(|word| line.contains(word)));
    }
    let count = |word: &str| seen.iter().filter(|other| **other == word).count();
    assert_eq!(count("ZUNIONSTORE"), count("\"PING\""));
    assert_eq!(count("ZUNIONSTORE") as u64, calls(&mut client, "zunionstore"));
    // No other event was sent.
    listener.send(&request("PING"));
    assert_eq!(listener.read().elements().expect("a pong")[0].text(), "pong");
    // The stored result serves a client that waits for a member of it.
    let mut waiting = server.connect();
    waiting.send(&request("BZPOPMIN d2 0"));
    braid_tests::wait::wait_for("the client to block", || {
        client.info_field("clients", "blocked_clients").as_deref() == Some("1")
    });
    assert_eq!(client.call("ZUNIONSTORE d2 2 z1 z2"), Value::Integer(300_000));
    assert_eq!(waiting.read().elements().expect("a member")[1].text(), "member:0");
    assert_eq!(client.call("ZCARD d2"), Value::Integer(299_999));
    // Clients that disconnect, or are killed, during the computation.
    for round in 0..10 {
        let mut heavy = server.connect();
        let id = heavy.call("CLIENT ID").integer().expect("an id");
        heavy.send(&request("ZUNIONSTORE gone 2 z1 z2"));
        if round % 2 == 0 {
            client.call(&format!("CLIENT KILL ID {id}"));
        }
    }
    for field in ["total_watched_keys", "blocked_clients"] {
        braid_tests::wait::wait_for("watches and blocked clients to end", || {
            client.info_field("clients", field).as_deref() == Some("0")
        });
    }
    assert_eq!(client.call("ZUNIONSTORE d 2 z1 z2"), Value::Integer(300_000));
    // The memory limit applies, but not while replaced values are still to be freed, which would
    // make room.
    braid_tests::wait::wait_for("replaced values to be freed", || {
        client.info_field("memory", "lazyfree_pending_objects").as_deref() == Some("0")
    });
    client.ok("CONFIG SET maxmemory 1");
    assert!(client.call("ZUNIONSTORE d 2 z1 z2").text().starts_with("OOM"));
    client.ok("CONFIG SET maxmemory 0");
}

/// The ID of the client whose last command is the long one.
fn heavy_id(client: &mut RawClient) -> String {
    let list = client.call("CLIENT LIST").text();
    let line = list.lines().find(|line| line.contains("cmd=zunionstore")).expect("the long command's client");
    line.strip_prefix("id=").and_then(|rest| rest.split(' ').next()).expect("an id").to_owned()
}

/// A JSON text of about 8 MB, and the number of its records.
fn large_document() -> (String, usize) {
    let count = 60_000;
    let record =
        |n: usize| format!("{{\"id\":{n},\"text\":\"{}\",\"list\":[{n},\"x\"]}}", "lorem ".repeat(16));
    let records: Vec<String> = (0..count).map(record).collect();
    (format!("{{\"rows\":[{}],\"n\":1}}", records.join(",")), count)
}

#[test]
fn large_json_documents_are_parsed_and_printed_in_the_background() {
    let Some(server) = start("1") else { return };
    let mut client = server.connect();
    let (text, count) = large_document();
    let set = |key: &str, path: &str, text: &str| format!("JSON.SET {key} {path} '{text}'");
    let reply = others_are_served(&server, &set("d", "$", &text), |client| _ = client.call("DEL d"));
    assert_eq!(reply, Value::ok());
    let reply = others_are_served(&server, "JSON.GET d", |_| {});
    assert_eq!(reply.text(), text);
    let reply = others_are_served(&server, "JSON.GET d $..id", |_| {});
    let ids: Vec<String> = (0..count).map(|n| n.to_string()).collect();
    assert_eq!(reply.text(), format!("[{}]", ids.join(",")));
    // As without a background thread: conditions, other paths, errors, transactions.
    assert_eq!(client.call(&format!("{} NX", set("d", "$", &text))), Value::NullBulk);
    assert_eq!(client.call(&format!("{} XX", set("none", "$", &text))), Value::NullBulk);
    assert_eq!(client.call(&set("d", "$.copy", &text)), Value::ok());
    assert_eq!(
        client.call(&format!("JSON.GET d $.copy.rows[{}].id", count - 1)).text(),
        format!("[{}]", count - 1)
    );
    let cut = &text[..text.len() - 1];
    let error = format!("EOF while parsing an object at line 1 column {}", cut.len());
    assert_eq!(client.call(&set("d", "$", cut)).text(), error);
    assert_eq!(client.call("JSON.GET d $.n .zz").text(), r#"{"$.n":[1],".zz":[]}"#);
    client.ok("MULTI");
    client.call(&set("e", "$", &text));
    client.call("JSON.GET e");
    let replies = client.call("EXEC");
    let replies = replies.elements().expect("two replies");
    assert_eq!((&replies[0], replies[1].text()), (&Value::ok(), text.clone()));
    // Changes of the whole, and in the midst of it.
    client.call("PEXPIRE e 1000000");
    assert_eq!(client.call(&set("e", "$", &text)), Value::ok());
    assert!(client.call("PTTL e").integer().is_some_and(|ms| ms > 0), "the time to live stays");
    for (command, reply) in [
        ("JSON.NUMINCRBY e $.rows[30000].id 1000000", "[1030000]"),
        ("JSON.ARRPOP e $.rows[0].list", r#"["\"x\""]"#),
        ("JSON.DEL e $.rows[1:59998]", "59997"),
        ("JSON.GET e $.rows[*].id", "[0,59998,59999]"),
    ] {
        let got = client.call(command);
        let got = match (got.elements(), got.integer()) {
            (Some(all), _) => format!("[{}]", line_of(all)),
            (None, Some(number)) => number.to_string(),
            (None, None) => got.text(),
        };
        assert_eq!(got, reply, "{command}");
    }
}

/// Elements as JSON strings.
fn line_of(elements: &[Value]) -> String {
    elements.iter().map(|element| format!("{:?}", element.text())).collect::<Vec<String>>().join(",")
}

const DIMENSIONS: usize = 2048;

/// A vector of small integers in the words of VADD and VSIM.
fn vector_words(random: &mut fastrand::Rng) -> String {
    let values: Vec<String> = (0..DIMENSIONS).map(|_| random.i32(-9..10).to_string()).collect();
    format!("VALUES {DIMENSIONS} {}", values.join(" "))
}

fn fill_vectors(client: &mut RawClient, key: &str, count: usize, random: &mut fastrand::Rng) {
    for n in 0..count {
        let vector = vector_words(random);
        let line = format!("VADD {key} {vector} e{n} NOQUANT EF 10 M 4 SETATTR '{{\"n\":{n}}}'");
        assert_eq!(client.call(&line), Value::Integer(1));
    }
}

/// The reply of a command in a transaction, where nothing runs in the background.
fn inline(client: &mut RawClient, command: &str) -> Value {
    client.ok("MULTI");
    client.call(command);
    client.call("EXEC").elements().expect("one reply")[0].clone()
}

#[test]
fn long_searches_of_vectors_leave_their_loop_alone() {
    let Some(server) = start("1") else { return };
    let mut client = server.connect();
    let mut random = fastrand::Rng::with_seed(46);
    fill_vectors(&mut client, "v", 3000, &mut random);
    for search in [
        format!("VSIM v {} TRUTH WITHSCORES COUNT 20", vector_words(&mut random)),
        "VSIM v ELE e7 COUNT 3000 WITHATTRIBS".to_owned(),
        "VSIM v ELE e7 EF 2900 FILTER .n%1000==7".to_owned(),
    ] {
        let reply = others_are_served(&server, &search, |_| {});
        assert!(reply.elements().is_some_and(|found| found.len() >= 3), "{search}");
        assert_eq!(reply, inline(&mut client, &search));
    }
    for (search, error) in [
        ("VSIM v ELE none TRUTH", "ERR element not found in set"),
        ("VSIM v ELE e7 TRUTH COUNT 0", "ERR invalid COUNT"),
    ] {
        assert_eq!(client.call(search).text(), error);
    }
    // An element is added with the same links as without a background thread.
    let add = format!("VADD KEY {} new NOQUANT EF 2000 SETATTR {{}}", vector_words(&mut random));
    client.call("COPY v copy");
    let reply = others_are_served(&server, &add.replace("KEY", "v"), |client| {
        client.call("COPY copy v REPLACE");
    });
    assert_eq!(
        (reply, inline(&mut client, &add.replace("KEY", "copy"))),
        (Value::Integer(1), Value::Integer(1))
    );
    for what in
        ["VLINKS KEY new WITHSCORES", "VLINKS KEY e1", "VEMB KEY new", "VGETATTR KEY new", "VCARD KEY"]
    {
        let of = |client: &mut RawClient, key| client.call(&what.replace("KEY", key));
        assert_eq!(of(&mut client, "v"), of(&mut client, "copy"), "{what}");
    }
    // The next one with this name only changes it, whether or not it has to wait.
    assert_eq!(client.call(&add.replace("KEY", "v")), Value::Integer(0));
    let other = "VADD v VALUES 3 1 2 3 other NOQUANT EF 2000";
    assert_eq!(client.call(other).text(), "ERR Vector dimension mismatch - got 3 but set has 2048");
}

/// Elements come and go, and keys, while others look for places of theirs.
#[test]
fn long_additions_of_vectors_are_all_there() {
    for model in ["parallel", "hybrid"] {
        let server = journalling_server(model);
        if !server.is_braid() {
            return;
        }
        let mut client = server.connect();
        let mut random = fastrand::Rng::with_seed(47);
        fill_vectors(&mut client, "v", 1500, &mut random);
        std::thread::scope(|scope| {
            for name in ["a", "b", "c"] {
                let (server, mut random) = (&server, random.fork());
                scope.spawn(move || {
                    let mut client = server.connect();
                    for n in 0..60 {
                        let vector = vector_words(&mut random);
                        let line = format!("VADD v {vector} {name}{n} NOQUANT EF 400");
                        assert_eq!(client.call(&line), Value::Integer(1), "{name}{n}");
                        if name == "a" && n % 10 == 0 {
                            client.call(&format!("VADD gone {vector} {name}{n} NOQUANT EF 400"));
                            client.call("DEL gone");
                        }
                    }
                });
            }
            let server = &server;
            scope.spawn(move || {
                let mut client = server.connect();
                for n in 0..200 {
                    assert_eq!(client.call(&format!("VREM v e{n}")), Value::Integer(1), "e{n}");
                }
            });
        });
        assert_eq!(client.call("VCARD v"), Value::Integer(1480), "{model}");
        for name in ["a", "b", "c"] {
            for n in 0..60 {
                let reply = client.call(&format!("VSIM v ELE {name}{n} COUNT 1"));
                assert_eq!(reply.elements().expect("elements")[0].text(), format!("{name}{n}"), "{model}");
            }
        }
        let digest = client.call("DEBUG DIGEST");
        client.ok("DEBUG LOADAOF");
        assert_eq!(client.call("DEBUG DIGEST"), digest, "{model}");
    }
}
