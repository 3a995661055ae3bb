// SPDX-License-Identifier: BSD-3-Clause
//! Long scripts: visible and killable from every thread, whatever they are doing, and never at
//! the expense of unrelated clients.

use std::time::{Duration, Instant};

use braid_tests::server::is_braid;
use braid_tests::{RawClient, TestServer, wait_for};
use rustix::process::Signal;

/// A command with arbitrary arguments.
fn request(arguments: &[&str]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", arguments.len());
    for argument in arguments {
        request.push_str(&format!("${}\r\n{argument}\r\n", argument.len()));
    }
    request.into_bytes()
}

/// Connections spread over several threads.
fn connections(server: &TestServer) -> Vec<RawClient> {
    (0..6).map(|_| server.connect()).collect()
}

const NO_SCRIPT: &str = "NOTBUSY No scripts in execution right now.";

/// Kills the running script, trying each connection in turn: none of them may report that no
/// script is running.
fn kill_from(clients: &mut [RawClient], command: &str) {
    // The run may not have started yet.
    wait_for("a kill to succeed", || {
        let answers: Vec<String> = clients.iter_mut().map(|client| client.call(command).text()).collect();
        answers.iter().any(|answer| answer == "OK")
    });
}

#[test]
fn a_function_is_seen_and_killed_from_every_thread_before_the_threshold() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&["--io-threads", "3", "--io-threads-do-reads", "yes"]);
    let mut clients = connections(&server);
    let code = "#!lua name=l\nredis.register_function{function_name='f', flags={'no-writes'}, \
                callback=function() while true do end end}";
    clients[0].send(&request(&["FUNCTION", "LOAD", code]));
    assert_eq!(clients[0].read().text(), "l");
    let mut runner = server.connect();
    runner.send(&request(&["FCALL", "f", "0"]));
    wait_for("the function to run", || clients[0].call("FUNCTION STATS").to_string().contains("FCALL"));
    for client in &mut clients {
        let stats = client.call("FUNCTION STATS").to_string();
        assert!(stats.contains("FCALL") && stats.contains("duration_ms"), "{stats}");
    }
    kill_from(&mut clients, "FUNCTION KILL");
    assert!(runner.read().text().contains("Script killed by user"), "the function was not killed");
    for client in &mut clients {
        assert_eq!(client.call("FUNCTION KILL").text(), NO_SCRIPT);
        assert_eq!(client.call("PING").text(), "PONG");
    }
}

#[test]
fn scripts_can_be_killed_inside_any_builtin() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&["--io-threads", "2", "--save", ""]);
    let mut clients = connections(&server);
    for script in [
        "return string.find(string.rep('a', 500000), '(.-)*b')",
        "return string.find(string.rep('a', 500000), string.rep('a', 250000) .. 'b', 1, true)",
        "while true do pcall(string.rep, 'x', 100000000) end",
        "local t = {} for i = 1, 3000000 do t[i] = 3000000 - i end while true do table.sort(t) \
         table.sort(t, function(a, b) return a > b end) end",
        "local t = {} for i = 1, 1000000 do t[i] = i end while true do table.insert(t, 1, 1) table.remove(t, 1) end",
        "local s = string.rep('x', 1000000) local n = 0 while true do local t = s .. n n = n + 1 end",
        "local t = {} for i = 1, 1000000 do t[i] = {i} end while true do cjson.decode(cjson.encode(t)) end",
        "local t = {} for i = 1, 1000000 do t[i] = {i} end while true do cmsgpack.unpack(cmsgpack.pack(t)) end",
        "while true do pcall(function() while true do end end) end",
        "while true do redis.call('get', 'x') end",
    ] {
        let mut runner = server.connect();
        runner.send(&request(&["EVAL", script, "0"]));
        kill_from(&mut clients, "SCRIPT KILL");
        let killed = Instant::now();
        let reply = runner.read().text();
        assert!(reply.contains("Script killed by user"), "{script}: {reply}");
        // Milliseconds on an idle machine; minutes or forever without interruption.
        assert!(killed.elapsed() < Duration::from_secs(10), "{script}: {:?}", killed.elapsed());
    }
}

#[test]
fn similar_long_strings_do_not_collide_in_the_hash() {
    let server = TestServer::start(&[]);
    let script = "local t={} local a,z=string.rep('x',500),string.rep('y',492) \
                  for i=1,40000 do t[i]=a..string.format('%08d',i)..z end return tostring(#t)";
    let mut client = server.connect();
    let began = Instant::now();
    client.send(&request(&["EVAL", script, "0"]));
    assert_eq!(client.read().text(), "40000");
    // 0.1 s; it was 47 s while only part of a string was hashed.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn a_script_without_commands_leaves_others_alone() {
    if !is_braid() || std::env::var("BRAID_TEST_ARGS").is_ok_and(|args| args.contains("threading-model")) {
        println!("skipped: in the other models scripts run on one thread, alone");
        return;
    }
    let server = TestServer::start(&["--io-threads", "2"]);
    let mut clients = connections(&server);
    let mut runner = server.connect();
    runner.send(&request(&["EVAL", "while true do end", "0"]));
    wait_for("a BUSY reply", || clients[0].call("FUNCTION STATS").text().starts_with("BUSY"));
    // Clients of the other thread; the runner's own thread holds its clients back.
    let mut served = 0;
    for client in &mut clients {
        client.set_patience(Duration::from_millis(500)).expect("a timeout");
        client.send(&request(&["SET", "x", "1"]));
        served += usize::from(client.try_read().is_ok());
    }
    assert!(served > 0, "no client was served while the script ran");
    server.connect().call("SCRIPT KILL");
    runner.read();
}

#[test]
fn sigterm_ends_a_script_that_never_ends_and_saves() {
    if !is_braid() {
        return;
    }
    for (script, saves) in [
        ("while true do end", true),
        ("return string.find(string.rep('a', 500000), '(.-)*b')", true),
        ("redis.call('set', 'half', 1) while true do end", false),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let here = folder.path().display().to_string();
        let mut server =
            TestServer::start(&["--dir", &here, "--save", "3600 1000000", "--shutdown-timeout", "1"]);
        server.connect().ok("SET whole 1");
        let mut runner = server.connect();
        runner.send(&request(&["EVAL", script, "0"]));
        let mut client = server.connect();
        wait_for("a BUSY reply", || client.call("FUNCTION STATS").text().starts_with("BUSY"));
        server.signal(Signal::TERM);
        server.wait();
        assert_eq!(folder.path().join("dump.rdb").exists(), saves, "{script}: {}", server.log());
    }
}

#[test]
fn the_table_of_commands_is_called_server_too() {
    if !is_braid() {
        return;
    }
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let mut eval = |script: &str| {
        client.send(&request(&["EVAL", script, "1", "k"]));
        client.read().text()
    };
    assert_eq!(eval("server.call('set', KEYS[1], 'v') return server.pcall('get', KEYS[1])"), "v");
    assert_eq!(eval("return tostring(server == redis) .. server.SERVER_NAME"), "truebraid");
    assert_eq!(eval("return server.sha1hex('')"), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    assert!(eval("server.x = 1").contains("Attempt to modify a readonly table"));
    assert!(eval("server = 1").contains("Attempt to modify a readonly table"));
    let code =
        "#!lua name=l\nserver.register_function('f', function(keys) return server.call('get', keys[1]) end)";
    client.send(&request(&["FUNCTION", "LOAD", code]));
    assert_eq!(client.read().text(), "l");
    assert_eq!(client.call("FCALL f 1 k").text(), "v");
}

#[test]
fn scripts_can_be_shown() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    if !is_braid() {
        return;
    }
    client.send(&request(&["SCRIPT", "LOAD", "return 1"]));
    let sha = client.read().text();
    assert_eq!(client.call(&format!("SCRIPT SHOW {sha}")).text(), "return 1");
    assert_eq!(client.call("SCRIPT SHOW abc").text(), "NOSCRIPT No matching script.");
}
