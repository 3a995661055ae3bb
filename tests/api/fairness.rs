// SPDX-License-Identifier: BSD-3-Clause
//! A client's long pipeline must not keep the other clients of its thread waiting: the thread
//! serves them in between. Judged by the order in which requests are served, not by their times.

use std::collections::BTreeSet;

use braid_tests::{RawClient, TestServer, Value, request};

/// A script that runs for one or a few milliseconds, and then increments a counter.
const MEDIUM: &str = "for i = 1, 400000 do end return redis.call('INCR', KEYS[1])";

fn one_thread() -> Option<TestServer> {
    let server = TestServer::start(&["--io-threads", "1", "--enable-debug-command", "yes"]);
    if !server.is_braid() {
        println!(
            "skipped: stock servers execute what they have received of a client before they look at another one"
        );
        return None;
    }
    Some(server)
}

/// The number of distinct results of `look` that another client observes while a pipeline is
/// executed, until `look` returns `end`.
fn seen_meanwhile(other: &mut RawClient, end: u64, mut look: impl FnMut(&mut RawClient) -> u64) -> usize {
    let mut seen = BTreeSet::new();
    loop {
        let now = look(other);
        if now >= end {
            return seen.len();
        }
        seen.insert(now);
    }
}

#[test]
fn a_pipeline_of_scripts_takes_turns_with_other_clients() {
    const SCRIPTS: u64 = 200;
    let Some(server) = one_thread() else { return };
    let (mut heavy, mut other) = (server.connect(), server.connect());
    let sha = heavy.call_arguments(&["SCRIPT", "LOAD", MEDIUM]).text();
    // Requests after the scripts are not served before them, and nothing is lost or served twice.
    let mut pipeline = Vec::new();
    for number in 0..SCRIPTS {
        pipeline.extend_from_slice(&request(&format!("EVALSHA {sha} 1 done")));
        pipeline.extend_from_slice(&request(&format!("ECHO {number}")));
    }
    heavy.send(&pipeline);
    let seen = seen_meanwhile(&mut other, SCRIPTS, |other| {
        String::from_utf8_lossy(other.call("GET done").bytes().unwrap_or(b"0")).parse().expect("a number")
    });
    println!("{seen} different counts seen by another client");
    assert!(seen >= 20, "another client saw only {seen} different states of a pipeline of {SCRIPTS} scripts");
    for number in 0..SCRIPTS {
        assert_eq!(heavy.read(), Value::Integer(number as i64 + 1));
        assert_eq!(heavy.read(), Value::bulk(number.to_string()));
    }
    let cut = other.info_field("stats", "client_turns_cut_short").and_then(|count| count.parse::<u64>().ok());
    assert!(cut.is_some_and(|cut| cut >= 20), "{cut:?}");
}

#[test]
fn several_clients_with_long_pipelines_progress_together() {
    const SCRIPTS: usize = 60;
    let Some(server) = one_thread() else { return };
    let mut clients: Vec<RawClient> = (0..4).map(|_| server.connect()).collect();
    let sha = clients[0].call_arguments(&["SCRIPT", "LOAD", MEDIUM]).text();
    let pipeline = request(&format!("EVALSHA {sha} 1 done")).repeat(SCRIPTS);
    clients.iter_mut().for_each(|client| client.send(&pipeline));
    // All clients increment the same key, so the counts tell when each client's scripts ran.
    let got: Vec<Vec<i64>> = clients
        .iter_mut()
        .map(|client| (0..SCRIPTS).map(|_| client.read().integer().expect("a count")).collect())
        .collect();
    for counts in &got {
        assert!(counts.is_sorted(), "{counts:?}");
        let (first, last) = (counts[SCRIPTS / 4], counts[SCRIPTS - 1]);
        assert!(last - first > SCRIPTS as i64, "this client was served while the others waited: {got:?}");
    }
}

#[test]
fn keys_and_smembers_of_huge_things_take_turns() {
    let Some(server) = one_thread() else { return };
    let (mut heavy, mut other) = (server.connect(), server.connect());
    heavy.ok("DEBUG POPULATE 20000");
    let members: Vec<String> = (0..20_000).map(|member| format!("member:{member}")).collect();
    let words: Vec<&str> = ["SADD", "huge"].into_iter().chain(members.iter().map(String::as_str)).collect();
    assert_eq!(heavy.call_arguments(&words), Value::Integer(20_000));
    const ROUNDS: u64 = 40;
    let pipeline = request("KEYS key:1*9").into_iter().chain(request("SMEMBERS huge")).collect::<Vec<_>>();
    heavy.send(&pipeline.repeat(ROUNDS as usize));
    let seen = seen_meanwhile(&mut other, ROUNDS, |other| {
        let stats = other.info_field("commandstats", "cmdstat_smembers").unwrap_or_default();
        let calls = stats.strip_prefix("calls=").and_then(|rest| rest.split(',').next()?.parse().ok());
        calls.unwrap_or(0)
    });
    println!("{seen} different counts seen by another client");
    assert!(seen >= 8, "another client saw only {seen} different states of a pipeline of {ROUNDS} rounds");
    for _ in 0..ROUNDS {
        assert_eq!(heavy.read().elements().map(<[Value]>::len), Some(1111));
        assert_eq!(heavy.read().elements().map(<[Value]>::len), Some(20_000));
    }
}

/// Blocking, pausing, transactions, big arguments: features that interrupt a client and resume it
/// elsewhere must work with turns that are cut short.
#[test]
fn requests_behind_a_slow_one_run_in_order() {
    let Some(server) = one_thread() else { return };
    let (mut heavy, mut other) = (server.connect(), server.connect());
    let sha = heavy.call_arguments(&["SCRIPT", "LOAD", MEDIUM]).text();
    let big = "x".repeat(100_000);
    let slow = request(&format!("EVALSHA {sha} 1 done"));
    let set = braid_tests::words::encode(&["SET", "big", &big]);
    let mut pipeline = Vec::new();
    for part in [
        &slow[..],
        &set,
        &slow,
        &request("STRLEN big"),
        &slow,
        &request("MULTI"),
        &slow,
        &request("EXEC"),
        &slow,
        &request("BLPOP list 0"),
        &slow,
        b"ECHO inline\r\n",
        &slow,
        &slow,
        b"*1\r\n$x\r\n",
    ] {
        pipeline.extend_from_slice(part);
    }
    heavy.send(&pipeline);
    braid_tests::wait_for("the client to wait", || {
        other.info_field("clients", "blocked_clients").as_deref() == Some("1")
    });
    assert_eq!(other.call("RPUSH list a"), Value::Integer(1));
    let expected = [
        Value::Integer(1),
        Value::ok(),
        Value::Integer(2),
        Value::Integer(100_000),
        Value::Integer(3),
        Value::ok(),
        Value::Simple(b"QUEUED".to_vec()),
        Value::Array(vec![Value::Integer(4)]),
        Value::Integer(5),
        Value::Array(vec![Value::bulk("list"), Value::bulk("a")]),
        Value::Integer(6),
        Value::bulk("inline"),
        Value::Integer(7),
        Value::Integer(8),
    ];
    for reply in expected {
        assert_eq!(heavy.read(), reply);
    }
    assert!(heavy.read().is_error(), "the protocol error comes last");
    assert!(heavy.try_read().is_err(), "the connection is closed after the error");
}

#[test]
fn a_pipeline_of_ordinary_requests_is_not_cut() {
    let Some(server) = one_thread() else { return };
    let mut client = server.connect();
    let pipeline = request("GET something").repeat(64);
    const PIPELINES: u64 = 300;
    for _ in 0..PIPELINES {
        client.send(&pipeline);
        (0..64).for_each(|_| assert_eq!(client.read(), Value::NullBulk));
    }
    let cut =
        client.info_field("stats", "client_turns_cut_short").and_then(|count| count.parse::<u64>().ok());
    // Any pipeline is slow if the processor is preempted in the middle.
    assert!(cut.is_some_and(|cut| cut <= PIPELINES / 20), "{cut:?} of {PIPELINES}");
}
