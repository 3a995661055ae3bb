// SPDX-License-Identifier: BSD-3-Clause
//! CLIENT: listing, naming, killing, pausing; and the distribution of clients over threads.

use std::time::{Duration, Instant};

use braid_tests::{RawClient, TestServer, Value, wait_for, words};

/// A field of a CLIENT LIST line.
fn field(line: &str, name: &str) -> String {
    let prefix = format!("{name}=");
    line.split_whitespace()
        .find_map(|word| word.strip_prefix(&prefix))
        .unwrap_or_else(|| panic!("no {name} in: {line}"))
        .to_owned()
}

fn is_closed(client: &mut RawClient) -> bool {
    client.set_patience(Duration::from_secs(5)).expect("a socket");
    client.read_to_close().is_some()
}

#[test]
fn client_list_describes_every_client() {
    let server = TestServer::start(&[]);
    let mut one = server.connect();
    let mut other = server.connect();
    one.ok("CLIENT SETNAME one");
    other.ok("SELECT 3");
    other.ok("MULTI");
    other.call("GET k");
    let list = one.call("CLIENT LIST").text();
    assert_eq!(list.lines().count(), 2, "{list}");
    let id = one.call("CLIENT ID").integer().expect("a number");
    let mine = list.lines().find(|line| field(line, "name") == "one").expect("the named client");
    assert_eq!(field(mine, "id"), id.to_string());
    assert_eq!(field(mine, "addr"), one.local_address());
    assert_eq!(field(mine, "laddr"), server.address().to_string());
    assert_eq!(field(mine, "cmd"), "client|list");
    assert_eq!(field(mine, "multi"), "-1");
    let its = list.lines().find(|line| field(line, "name").is_empty()).expect("the other client");
    assert_eq!(field(its, "db"), "3");
    assert_eq!(field(its, "multi"), "1");
    assert_eq!(field(its, "cmd"), "get");
    for name in [
        "age", "idle", "flags", "sub", "psub", "qbuf", "argv-mem", "obl", "oll", "omem", "events", "user",
        "resp",
    ] {
        field(its, name);
    }
    let only = one.call(&format!("CLIENT LIST ID {id}")).text();
    assert_eq!(only.lines().count(), 1, "{only}");
    assert_eq!(field(&only, "name"), "one");
    assert_eq!(field(&one.call("CLIENT INFO").text(), "id"), id.to_string());
}

#[test]
fn killing_by_id_address_and_type() {
    let server = TestServer::start(&["--io-threads", "4"]);
    let mut judge = server.connect();
    let mut victims: Vec<RawClient> = (0..6).map(|_| server.connect()).collect();
    let ids: Vec<i64> =
        victims.iter_mut().map(|victim| victim.call("CLIENT ID").integer().expect("a number")).collect();
    assert_eq!(judge.call(&format!("CLIENT KILL ID {}", ids[0])), Value::Integer(1));
    assert!(is_closed(&mut victims[0]));
    assert_eq!(judge.call(&format!("CLIENT KILL ID {}", ids[0])), Value::Integer(0));
    judge.ok(&format!("CLIENT KILL {}", victims[1].local_address()));
    assert!(is_closed(&mut victims[1]));
    assert_eq!(judge.call("CLIENT KILL 127.0.0.1:1"), Value::Error(b"ERR No such client".to_vec()));
    assert_eq!(judge.call(&format!("CLIENT KILL ADDR {}", victims[2].local_address())), Value::Integer(1));
    assert!(is_closed(&mut victims[2]));
    assert_eq!(judge.call("CLIENT KILL TYPE normal"), Value::Integer(3), "SKIPME is the default");
    for victim in &mut victims[3..] {
        assert!(is_closed(victim));
    }
    assert_eq!(judge.call("PING").text(), "PONG");
    assert_eq!(judge.call("CLIENT KILL TYPE normal SKIPME no"), Value::Integer(1));
    assert!(is_closed(&mut judge), "SKIPME no leaves the judge connected");
}

#[test]
fn a_killed_client_in_the_middle_of_a_pipeline_leaves_no_trace() {
    let server = TestServer::start(&["--io-threads", "4"]);
    let mut judge = server.connect();
    for _ in 0..50 {
        let mut victim = server.connect();
        let id = victim.call("CLIENT ID").integer().expect("a number");
        let _ = victim.try_send(&braid_tests::request("INCR n").repeat(200));
        assert!(judge.call(&format!("CLIENT KILL ID {id}")).integer().is_some());
        // Acknowledged commands have been executed.
        let answered = victim.read_to_close().expect("it is closed");
        let last = String::from_utf8_lossy(&answered)
            .lines()
            .filter_map(|line| line.strip_prefix(':')?.parse::<i64>().ok())
            .max();
        let now: i64 = judge.call("GET n").text().parse().unwrap_or(0);
        assert!(last.unwrap_or(0) <= now, "the last reply was {last:?}, but {now} is stored");
    }
    assert_eq!(judge.call("CLIENT LIST").text().lines().count(), 1);
}

#[test]
fn a_pause_of_writes_holds_writes_and_lets_reads_pass() {
    let server = TestServer::start(&["--io-threads", "4"]);
    let (mut pauser, mut reader, mut writer) = (server.connect(), server.connect(), server.connect());
    pauser.ok("SET k before");
    pauser.ok("CLIENT PAUSE 60000 WRITE");
    writer.send(&braid_tests::request("SET k after"));
    assert_eq!(reader.call("GET k"), Value::bulk("before"));
    wait_for("the writer to be blocked", || {
        reader.info_field("clients", "blocked_clients").is_some_and(|count| count == "1")
    });
    assert_eq!(reader.call("GET k"), Value::bulk("before"));
    pauser.ok("CLIENT UNPAUSE");
    assert_eq!(writer.read(), Value::ok());
    assert_eq!(reader.call("GET k"), Value::bulk("after"));
}

/// A script that may write waits; one that declares that it does not continues.
/// As in stock servers: nothing is evicted during a pause, and the next command after it evicts.
#[test]
fn a_pause_keeps_keys_from_being_evicted() {
    let server = TestServer::start(&["--io-threads", "3"]);
    let mut client = server.connect();
    client.ok("SET k v");
    // Before there is a limit: a cron may evict between the commands of a transaction.
    client.ok("CLIENT PAUSE 60000 WRITE");
    client.ok("CONFIG SET maxmemory-policy allkeys-random");
    client.ok("CONFIG SET maxmemory 1");
    for _ in 0..20 {
        assert_eq!(client.call("GET k").text(), "v");
        assert_eq!(client.info_field("stats", "evicted_keys").as_deref(), Some("0"));
    }
    client.ok("CLIENT UNPAUSE");
    wait_for("the key to be evicted", || client.info_field("stats", "evicted_keys").as_deref() == Some("1"));
}

#[test]
fn a_pause_of_writes_lets_scripts_pass_that_declare_to_read_only() {
    const READS: &str = "#!lua flags=no-writes\nreturn 'read'";
    let server = TestServer::start(&["--io-threads", "2"]);
    let mut client = server.connect();
    let function =
        "redis.register_function{function_name='NAME', callback=function() return 'read' end, flags={FLAGS}}";
    let library = ["#!lua name=l", &function.replace("NAME", "reads").replace("FLAGS", "'no-writes'")];
    let library =
        [&library.join("\n")[..], &function.replace("NAME", "writes").replace("FLAGS", "")].join("\n");
    client.call_arguments(&["FUNCTION", "LOAD", &library]);
    let known = client.call_arguments(&["SCRIPT", "LOAD", "return 'undeclared'"]).text();
    let reads = client.call_arguments(&["SCRIPT", "LOAD", READS]).text();
    client.call("PFADD seen a");
    client.ok("CLIENT PAUSE 60000 WRITE");
    for line in [
        &["EVAL", READS, "0"][..],
        &["EVALSHA", &reads, "0"],
        &["FCALL", "reads", "0"],
        &["EVAL_RO", READS, "0"],
    ] {
        assert_eq!(client.call_arguments(line).text(), "read", "{line:?}");
    }
    // So does a transaction of such scripts.
    client.ok("MULTI");
    for line in [&["EVAL", READS, "0"][..], &["EVALSHA", &reads, "0"]] {
        assert_eq!(client.call_arguments(line).text(), "QUEUED");
    }
    assert_eq!(client.call("EXEC").to_string(), "[\"read\", \"read\"]");
    let held: &[(&[&str], &str)] = &[
        (&["EVAL", "return 'undeclared'", "0"], "undeclared"),
        (&["EVAL", "#!lua\nreturn 'declared'", "0"], "declared"),
        (&["EVALSHA", &known, "0"], "undeclared"),
        (&["FCALL", "writes", "0"], "read"),
        (&["PUBLISH", "channel", "message"], "0"),
        (&["PFCOUNT", "seen"], "1"),
    ];
    let mut waiting: Vec<_> = held.iter().map(|_| server.connect()).collect();
    for (other, (line, _)) in waiting.iter_mut().zip(held) {
        other.send(&words::encode(line));
    }
    wait_for("the pause to hold all commands", || {
        client.info_field("clients", "blocked_clients") == Some(held.len().to_string())
    });
    client.ok("CLIENT UNPAUSE");
    for (other, (line, reply)) in waiting.iter_mut().zip(held) {
        let got = other.read();
        let got = got.integer().map_or_else(|| got.text(), |number| number.to_string());
        assert_eq!(got, *reply, "{line:?}");
    }
}

#[test]
fn full_pause_ends_after_its_timeout() {
    let server = TestServer::start(&["--io-threads", "4"]);
    let (mut pauser, mut other) = (server.connect(), server.connect());
    let start = Instant::now();
    pauser.ok("CLIENT PAUSE 300");
    assert_eq!(other.call("PING").text(), "PONG");
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(295), "not held: {took:?}");
    assert!(took < Duration::from_secs(5), "held far too long: {took:?}");
}

#[test]
fn names_and_libraries() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    assert_eq!(client.call("CLIENT GETNAME"), Value::NullBulk);
    client.ok("CLIENT SETNAME me");
    assert_eq!(client.call("CLIENT GETNAME"), Value::bulk("me"));
    assert!(client.call("CLIENT SETNAME \"a b\"").is_error());
    client.ok("CLIENT SETNAME \"\"");
    assert_eq!(client.call("CLIENT GETNAME"), Value::NullBulk);
}

#[test]
fn clients_are_spread_over_the_threads() {
    let server = TestServer::start(&["--io-threads", "4"]);
    if !server.is_braid() {
        println!("skipped: only Braid reports the thread of a client");
        return;
    }
    let mut clients: Vec<RawClient> = (0..40).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.call("PING");
    }
    let list = clients[0].call("CLIENT LIST").text();
    let mut counts = std::collections::BTreeMap::new();
    for line in list.lines() {
        *counts.entry(field(line, "io-thread")).or_insert(0_usize) += 1;
    }
    let info = clients[0].info("threads");
    let polling = match field_of(&info, "threading_model") {
        "handoff" => &["1", "2", "3"][..],
        "fanout" => &["0"],
        _ => &["0", "1", "2", "3"],
    };
    assert!(counts.keys().eq(polling), "{counts:?}");
    assert!(counts.values().all(|&count| count >= 5), "{counts:?}");
    assert_eq!(info.lines().filter(|line| line.contains("clients=")).count(), 4, "{info}");
}

#[test]
fn info_threads_counts_commands_per_thread() {
    let server = TestServer::start(&["--io-threads", "2"]);
    if !server.is_braid() {
        println!("skipped: only Braid has INFO threads");
        return;
    }
    let mut clients: Vec<RawClient> = (0..8).map(|_| server.connect()).collect();
    for _ in 0..500 {
        for client in &mut clients {
            client.call("INCR n");
        }
    }
    let info = clients[0].info("threads");
    let commands: Vec<u64> = info
        .lines()
        .filter_map(|line| {
            line.split([',', ':']).find_map(|part| part.strip_prefix("commands="))?.parse().ok()
        })
        .collect();
    assert_eq!(commands.len(), 2, "{info}");
    assert!(commands.iter().sum::<u64>() >= 4_000, "{info}");
    let executing = match field_of(&info, "threading_model") {
        // Only the main thread executes.
        "handoff" | "fanout" => 1,
        _ => 2,
    };
    assert_eq!(commands.iter().filter(|&&count| count > 500).count(), executing, "{info}");
}

/// The value of a field in a section of INFO.
fn field_of<'a>(info: &'a str, name: &str) -> &'a str {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap_or_default()
}

/// Starts a request with a big argument and sends all of it except the end.
fn fill(client: &mut RawClient, bytes: usize) {
    let mut part = format!("*2\r\n${}\r\n", bytes + 1).into_bytes();
    part.resize(part.len() + bytes, b'v');
    client.send(&part);
}

fn names(judge: &mut RawClient) -> Vec<String> {
    let list = judge.call("CLIENT LIST").text();
    let mut names: Vec<String> = list.lines().map(|line| field(line, "name")).collect();
    names.sort();
    names
}

#[test]
fn the_largest_clients_go_when_all_hold_too_much() {
    for model in ["parallel", "handoff", "fanout"] {
        let server = TestServer::start(&["--io-threads", "3", "--threading-model", model]);
        let mut judge = server.connect();
        judge.ok("CLIENT NO-EVICT on");
        judge.ok("CLIENT SETNAME judge");
        wait_for("the startup check's connection to close", || names(&mut judge) == ["judge"]);
        let sizes = [("small", 100_000), ("middle", 1_000_000), ("big", 3_000_000), ("huge", 4_000_000)];
        let mut clients: Vec<RawClient> = Vec::new();
        for (name, bytes) in sizes {
            let mut client = server.connect();
            client.ok(&format!("CLIENT SETNAME {name}"));
            if name == "huge" {
                client.ok("CLIENT NO-EVICT on");
            }
            fill(&mut client, bytes);
            clients.push(client);
        }
        wait_for("all data to arrive", || {
            let list = judge.call("CLIENT LIST").text();
            let held = |name: &str| {
                let line = list.lines().find(|line| field(line, "name") == name).expect("it is connected");
                field(line, "qbuf").parse::<usize>().expect("a number")
            };
            sizes.iter().all(|(name, bytes)| held(name) == *bytes)
        });
        judge.ok("CONFIG SET maxmemory-clients 2mb");
        assert_eq!(names(&mut judge), ["huge", "judge", "middle", "small"], "{model}");
        assert!(is_closed(&mut clients[2]), "{model}");
        judge.ok("CONFIG SET maxmemory-clients 500kb");
        assert_eq!(names(&mut judge), ["huge", "judge", "small"], "{model}");
        // A client that grows beyond the limit is evicted itself.
        let mut greedy = server.connect();
        greedy.ok("CLIENT SETNAME greedy");
        let mut part = b"*2\r\n$2000000\r\n".to_vec();
        part.resize(1_500_000, b'v');
        let _ = greedy.try_send(&part);
        assert!(is_closed(&mut greedy), "{model}");
        // Queued commands count too.
        let mut queueing = server.connect();
        queueing.ok("MULTI");
        let value = "v".repeat(200_000);
        for _ in 0..5 {
            let _ = queueing.try_send(&braid_tests::request(&format!("SET k {value}")));
        }
        assert!(is_closed(&mut queueing), "{model}");
        assert_eq!(judge.info_field("stats", "evicted_clients").as_deref(), Some("4"), "{model}");
        assert_eq!(names(&mut judge), ["huge", "judge", "small"], "{model}");
    }
}
