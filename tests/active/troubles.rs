// SPDX-License-Identifier: BSD-3-Clause
//! Problems that users of KeyDB's `active-replica` have reported: a test for each of six, named
//! after the failure in KeyDB. The numbers are those of Snapchat/KeyDB's issues.

use std::path::Path;

use super::{NEEDS_COPIES, cut, link_all, server, texts, wait_until_equal};
use braid_tests::process::{set_clock, shifted_clock};
use braid_tests::server::Options;
use braid_tests::{TestServer, Value, wait_for};
use rustix::process::Signal;

/// A server whose files outlive it.
fn kept(region: u8, folder: &Path, more: &[&str]) -> TestServer {
    server(region, &[&["--dir", folder.to_str().expect("a name")], more].concat())
}

fn end(mut server: TestServer, signal: Signal) {
    server.signal(signal);
    server.wait();
}

/// 83: if one of three servers is down while a key is deleted on another, the key is back on all
/// of them once that server is up.
#[test]
fn keys_deleted_while_a_server_is_down_stay_deleted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two, three) = (server(1, &[]), server(2, &[]), kept(3, folder.path(), &[]));
    link_all(&[&one, &two, &three]);
    let mut client = one.connect();
    for line in
        ["SET s x", "HSET h f v", "RPUSH l a b", "SADD set a", "ZADD z 1 a", "XADD x * f v", "SET stays x"]
    {
        client.call(line);
    }
    wait_until_equal(&[&one, &two, &three]);
    end(three, Signal::TERM);
    assert_eq!(client.call("DEL s h l"), Value::Integer(3));
    assert_eq!(two.connect().call("DEL set z x"), Value::Integer(3));
    let three = kept(3, folder.path(), &[]);
    assert_eq!(three.connect().call("DBSIZE"), Value::Integer(7), "the deletions have not arrived yet");
    link_all(&[&one, &two, &three]);
    wait_until_equal(&[&one, &two, &three]);
    for server in [&one, &two, &three] {
        assert_eq!(texts(&server.connect().call("KEYS *")), ["stays"]);
    }
}

/// 111: if all of three servers increment a counter and one is restarted meanwhile, its counter
/// permanently stays below the others'.
#[test]
fn counters_lose_increments_when_a_server_restarts() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two, mut three) = (server(1, &[]), server(2, &[]), kept(3, folder.path(), &[]));
    link_all(&[&one, &two, &three]);
    let mut expected = 0;
    let mut count = |servers: &[&TestServer]| {
        let mut clients: Vec<_> = servers.iter().map(|server| server.connect()).collect();
        for _ in 0..500 {
            for client in &mut clients {
                client.call("INCR counter");
                client.call("HINCRBY hash counter 1");
                client.call("ZINCRBY board 1 counter");
                expected += 1;
            }
        }
    };
    count(&[&one, &two, &three]);
    for _ in 0..2 {
        end(three, Signal::TERM);
        count(&[&one, &two]);
        three = kept(3, folder.path(), &[]);
        link_all(&[&one, &two, &three]);
        // The server takes new increments while it catches up.
        count(&[&one, &two, &three]);
    }
    wait_until_equal(&[&one, &two, &three]);
    let expected = expected.to_string();
    for server in [&one, &two, &three] {
        let mut client = server.connect();
        assert_eq!(client.call("GET counter").text(), expected);
        assert_eq!(client.call("HGET hash counter").text(), expected);
        assert_eq!(client.call("ZSCORE board counter").text(), expected);
    }
}

/// A server whose clock can be changed while it runs.
fn with_clock(region: u8, clock: &Path, more: &[&str]) -> Option<TestServer> {
    let mut environment = shifted_clock("+0")?;
    environment.retain(|(name, _)| *name != "FAKETIME");
    environment.push(("FAKETIME_TIMESTAMP_FILE", clock.into()));
    environment.push(("FAKETIME_NO_CACHE", "1".into()));
    let region = region.to_string();
    let usual = ["--active-replica", "yes", "--active-region", &region, "--enable-debug-command", "yes"];
    let arguments = usual.iter().chain(more).map(|&word| word.to_owned()).collect();
    Some(TestServer::start_with(Options { arguments, environment, ..Options::default() }))
}

/// The server's own clock in seconds.
fn time_of(server: &TestServer) -> i64 {
    texts(&server.connect().call("TIME"))[0].parse().expect("seconds")
}

/// 247 and others: after a clock is set back, its server's writes lose to older writes, locally
/// or remotely, and the servers differ; after it is set ahead, its server's writes can no longer
/// be overwritten.
#[test]
fn servers_differ_after_a_clock_step() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = folder.path().join("clock");
    set_clock(&clock, 0);
    let ahead = ["--active-clock-ahead-max", "7200000"];
    let Some(one) = with_clock(1, &clock, &ahead) else { return };
    let two = server(2, &ahead);
    link_all(&[&one, &two]);
    let step_clock = |by: i64| {
        set_clock(&clock, by);
        wait_for("the clock to be set", || (time_of(&one) - time_of(&two) - by).abs() < 300);
    };
    for (step, by) in [0, -3600, 3600, 0, -1800].into_iter().enumerate() {
        step_clock(by);
        two.connect().ok(&format!("SET turn two:{step}"));
        two.connect().ok(&format!("SET gone two:{step}"));
        wait_until_equal(&[&one, &two]);
        // Each has seen the value that it overwrites.
        one.connect().ok(&format!("SET turn one:{step}"));
        assert_eq!(one.connect().call("DEL gone"), Value::Integer(1));
        wait_until_equal(&[&one, &two]);
        assert_eq!(two.connect().call("GET turn").text(), format!("one:{step}"), "the clock is {by} s off");
        assert_eq!(two.connect().call("EXISTS gone"), Value::Integer(0), "the clock is {by} s off");
        // And again from the other side.
        two.connect().ok(&format!("SET turn back:{step}"));
        two.connect().call("INCR counter");
        one.connect().call("INCR counter");
        wait_until_equal(&[&one, &two]);
        assert_eq!(one.connect().call("GET turn").text(), format!("back:{step}"), "the clock is {by} s off");
        // Both write while they are disconnected: either may win, but the same one on both.
        cut(&[&one, &two]);
        one.connect().ok(&format!("SET apart one:{step}"));
        two.connect().ok(&format!("SET apart two:{step}"));
        link_all(&[&one, &two]);
        wait_until_equal(&[&one, &two]);
    }
    assert_eq!(one.connect().call("GET counter").text(), "10");
}

/// 366: both sides of a cut set the same keys, and afterwards each has the other's values.
#[test]
fn values_are_swapped_after_a_cut() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    link_all(&[&one, &two]);
    for round in 0..5 {
        cut(&[&one, &two]);
        let (mut of_one, mut of_two) = (one.connect(), two.connect());
        for key in 0..50 {
            of_one.ok(&format!("SET key:{key} first:{round}"));
            of_two.ok(&format!("SET key:{key} second:{round}"));
            of_one.call(&format!("HSET hash {key} first:{round}"));
            of_two.call(&format!("HSET hash {key} second:{round}"));
        }
        // A write stamped later than all of these wins.
        for client in [&mut of_one, &mut of_two] {
            client.call("ACTIVE DIGEST");
        }
        super::pair::let_time_pass(&two);
        for key in 0..25 {
            of_one.ok(&format!("SET key:{key} last:{round}"));
        }
        link_all(&[&one, &two]);
        wait_until_equal(&[&one, &two]);
        for client in [&mut of_one, &mut of_two] {
            for key in 0..50 {
                let value = client.call(&format!("GET key:{key}")).text();
                let expected = if key < 25 { &["last"][..] } else { &["first", "second"] };
                let is_expected = expected.iter().any(|word| value == format!("{word}:{round}"));
                assert!(is_expected, "key:{key} is {value} in round {round}");
            }
        }
    }
}

/// 390: a key is deleted, both servers know that, and one restarts from its append-only file: the
/// key is back.
#[test]
fn deleted_keys_stay_deleted_after_restart_from_aof() {
    for signal in [Signal::TERM, Signal::KILL] {
        let (one_folder, two_folder) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two"));
        let files = ["--appendonly", "yes", "--appendfsync", "always"];
        let one = kept(1, one_folder.path(), &files);
        let two = kept(2, two_folder.path(), &files);
        link_all(&[&one, &two]);
        one.connect().ok("SET foo bar");
        wait_until_equal(&[&one, &two]);
        assert_eq!(one.connect().call("DEL foo"), Value::Integer(1));
        wait_until_equal(&[&one, &two]);
        end(two, signal);
        let two = kept(2, two_folder.path(), &files);
        link_all(&[&one, &two]);
        one.connect().ok("SET marker x");
        wait_until_equal(&[&one, &two]);
        for server in [&one, &two] {
            assert_eq!(server.connect().call("EXISTS foo"), Value::Integer(0));
        }
    }
}

/// 447: keys deleted on one side of a cut are restored from the other side, which still has them.
#[test]
fn keys_deleted_on_one_side_of_a_partition_stay_deleted() {
    let (one, two) = (server(1, &[]), server(2, &NEEDS_COPIES));
    link_all(&[&one, &two]);
    let (mut of_one, mut of_two) = (one.connect(), two.connect());
    for key in 0..200 {
        of_one.ok(&format!("SET key:{key} {key:0>100}"));
    }
    wait_until_equal(&[&one, &two]);
    cut(&[&one, &two]);
    for key in 0..100 {
        assert_eq!(of_one.call(&format!("DEL key:{key}")), Value::Integer(1));
    }
    // The other side writes so much that only a full copy can transfer it.
    for key in 0..2000 {
        of_two.ok(&format!("SET other:{key} {key:0>100}"));
    }
    link_all(&[&one, &two]);
    wait_until_equal(&[&one, &two]);
    assert_eq!(of_two.call("EXISTS key:0 key:50 key:99"), Value::Integer(0));
    assert_eq!(of_one.call("EXISTS key:100 key:199"), Value::Integer(2));
    for client in [&mut of_one, &mut of_two] {
        assert_eq!(client.call("DBSIZE"), Value::Integer(2100));
    }
}
