// SPDX-License-Identifier: BSD-3-Clause
//! The script debugger (SCRIPT DEBUG): what other clients notice of it, and how sessions end. Their
//! output is compared with a stock server's in `tests/differential/debugger.rs`.

use std::time::{Duration, Instant};

use braid_tests::server::is_braid;
use braid_tests::words::encode;
use braid_tests::{RawClient, TestServer, Value, wait_for};

/// A session that has stopped at the script's first line.
fn session(server: &TestServer, mode: &str, script: &str) -> RawClient {
    let mut client = server.connect();
    client.set_patience(Duration::from_secs(30)).expect("an option");
    client.ok(&format!("SCRIPT DEBUG {mode}"));
    let stopped = client.call_arguments(&["EVAL", script, "1", "key"]).to_string();
    assert!(stopped.contains("* Stopped at 1, stop reason = step over"), "{stopped}");
    client
}

fn end(client: &mut RawClient) -> Value {
    let last = client.read().to_string();
    assert!(last.contains("<endsession>"), "{last}");
    let reply = client.read();
    assert_eq!(client.read_to_close().as_deref(), Some(&b""[..]), "the connection is closed");
    reply
}

#[test]
fn a_script_debugged_in_a_copy_changes_nothing_and_stops_nobody() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&["--io-threads", "2", "--databases", "4"]);
    let mut other = server.connect();
    for text in ["SET key 1", "SET gone x PX 1", "SELECT 3", "RPUSH list a b", "SELECT 0", "HSET hash f v"] {
        other.call(text);
    }
    let set = Instant::now();
    wait_for("one key to expire", || set.elapsed() > Duration::from_millis(2));
    let mut client =
        session(&server, "yes", "local n = redis.call('incr', KEYS[1])\nreturn {n, redis.call('dbsize')}");
    assert!(!other.call("CLIENT LIST").text().contains("cmd=eval"), "the session is a client of the server");
    assert!(client.call("step").to_string().contains("<reply> 2"));
    // The script's own change counts, not a later one of another client.
    other.ok("SET key 100");
    assert!(client.call("redis get key").to_string().contains(r#"\"2\""#));
    assert!(client.call("redis hget hash f").to_string().contains(r#"\"v\""#));
    assert!(client.call("redis copy key list DB 3").to_string().contains("<reply> 0"), "the list is there");
    client.send(&encode(&["continue"]));
    assert_eq!(end(&mut client), Value::Array(vec![Value::Integer(2), Value::Integer(2)]));
    assert_eq!(other.call("GET key").text(), "100");
}

#[test]
fn a_script_debugged_in_the_server_can_be_killed() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&["--io-threads", "2", "--busy-reply-threshold", "50"]);
    let mut other = server.connect();
    let mut client = session(&server, "sync", "local a = 1\nreturn a");
    assert!(other.call("GET key").to_string().contains("BUSY"));
    other.ok("SCRIPT KILL");
    assert!(end(&mut client).text().contains("Script killed by user"));
    assert_eq!(other.call("GET key"), Value::NullBulk);
    // With changes, which stay.
    let mut client = session(&server, "sync", "redis.call('set', KEYS[1], 'x')\nreturn 7");
    assert!(client.call("step").to_string().contains("Stopped at 2"));
    client.send(&encode(&["continue"]));
    assert_eq!(end(&mut client), Value::Integer(7));
    assert_eq!(other.call("GET key").text(), "x");
}

#[test]
fn a_script_whose_developer_has_left_runs_to_its_end() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&["--busy-reply-threshold", "50"]);
    let mut other = server.connect();
    drop(session(&server, "sync", "local a = 1\nredis.call('set', KEYS[1], a)"));
    wait_for("the script to end", || other.call("GET key").text() == "1");
    // One that has no end is ended.
    let mut client = session(&server, "sync", "local a = 1\nwhile true do a = a + 1 end");
    client.send(&encode(&["continue"]));
    drop(client);
    wait_for("the script to be ended", || other.call("GET key").text() == "1");
}

#[test]
fn an_endless_script_and_endless_code_are_stopped() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&["--busy-reply-threshold", "50"]);
    let mut client = session(&server, "yes", "local a = 1\nwhile true do a = a + 1 end");
    assert!(client.call("continue").to_string().contains("timeout reached, infinite loop?"));
    assert!(client.call("eval \"while true do end\"").to_string().contains("timeout reached"));
    assert!(client.call("eval \"string.rep(string.rep('x', 1e6), 1e7)\"").to_string().contains("<error>"));
    assert!(client.call("eval 6*7").to_string().contains("<retval> 42"));
    client.send(&encode(&["abort"]));
    assert!(end(&mut client).text().contains("script aborted for user request"));
    // Not even by a handler of the script.
    let mut client = session(&server, "yes", "while true do pcall(function()\n local a = 1\n end) end");
    client.call("break 2");
    assert!(client.call("continue").to_string().contains("Stopped at 2"));
    client.send(&encode(&["abort"]));
    let reply = end(&mut client);
    assert!(reply.text().contains("script aborted for user request"), "{reply}");
}

#[test]
fn bad_input_ends_a_session() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&[]);
    for mode in ["yes", "sync"] {
        for (bad, error) in [
            (b"step\r\n".to_vec(), "protocol error"),
            (b"*1\r\n$2000\r\n".to_vec(), "protocol error"),
            (
                [b"*1000\r\n".to_vec(), b"$1024\r\n".to_vec(), vec![b'x'; 1024], b"!!".to_vec()].concat(),
                "protocol error",
            ),
        ] {
            let mut client = session(&server, mode, "return 1");
            client.send(&bad);
            assert!(end(&mut client).text().contains(error), "{}", bad.escape_ascii());
        }
    }
    let mut client = server.connect();
    client.ok("SCRIPT DEBUG yes");
    assert!(client.call("EVALSHA ffffffffffffffffffffffffffffffffffffffff 0").text().contains("use EVAL"));
    client.ok("MULTI");
    client.call("EVAL \"return 1\" 0");
    assert!(client.call("EXEC").to_string().contains("in a transaction"));
    client.ok("SCRIPT DEBUG no");
    assert_eq!(client.call("EVAL \"return 1\" 0"), Value::Integer(1));
    client.send(&[encode(&["PING"]), encode(&["SCRIPT", "DEBUG", "yes"])].concat());
    assert_eq!(client.read().text(), "PONG");
    assert!(client.read().text().contains("outside a pipeline"));
}

#[test]
fn permissions_hold_in_sessions() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&[]);
    server.connect().ok("ACL SETUSER dev on nopass +@all -flushall ~key resetchannels");
    for mode in ["yes", "sync"] {
        let mut client = server.connect();
        client.ok("AUTH dev x");
        client.ok(&format!("SCRIPT DEBUG {mode}"));
        client.call_arguments(&["EVAL", "return 1", "0"]);
        for denied in ["redis flushall", "redis get other", "redis keys *"] {
            let shown = client.call(denied).to_string();
            assert!(denied == "redis keys *" || shown.contains("ACL failure in script"), "{denied}: {shown}");
        }
        assert!(client.call("redis get key").to_string().contains("NULL"));
        client.send(&encode(&["continue"]));
        assert_eq!(end(&mut client), Value::Integer(1));
    }
}
