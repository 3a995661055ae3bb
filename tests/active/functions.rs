// SPDX-License-Identifier: BSD-3-Clause
//! Function libraries of servers in active-active mode.

use super::crash::kept;
use super::pair::let_time_pass;
use super::{NEEDS_COPIES, cut, link_all, server, wait_until_equal};
use braid_tests::{RawClient, TestServer, Value, wait_for};
use rustix::process::Signal;

/// A library with one function that returns a text.
fn code(library: &str, function: &str, text: &str) -> String {
    format!(
        "#!lua name={library}\nredis.register_function{{function_name='{function}', \
         callback=function() return '{text}' end, flags={{'no-writes'}}}}"
    )
}

fn load(client: &mut RawClient, words: &[&str], code: &str) {
    let request = [&["FUNCTION", "LOAD"][..], words, &[code]].concat();
    let reply = client.call_arguments(&request);
    assert!(!matches!(reply, Value::Error(_)), "{code}: {reply:?}");
}

/// A function's result; empty if there is no such function.
fn called(server: &TestServer, function: &str) -> String {
    match server.connect().call(&format!("FCALL {function} 0")) {
        Value::Error(_) => String::new(),
        reply => reply.text(),
    }
}

#[track_caller]
fn wait_for_functions(servers: &[&TestServer], expected: &[(&str, &str)]) {
    wait_for("all servers to have the functions", || {
        servers.iter().all(|server| expected.iter().all(|(name, text)| called(server, name) == *text))
    });
    wait_until_equal(servers);
}

#[test]
fn libraries_are_on_all_servers() {
    let (one, two) = (server(1, &["--repl-diskless-sync-delay", "0"]), server(2, &[]));
    let servers = [&one, &two];
    // Both have libraries before they are connected.
    load(&mut one.connect(), &[], &code("first", "f", "of-one"));
    load(&mut two.connect(), &[], &code("second", "g", "of-two"));
    link_all(&servers);
    wait_for_functions(&servers, &[("f", "of-one"), ("g", "of-two")]);
    let port = one.port().to_string();
    let replica = TestServer::start(&["--replicaof", "127.0.0.1", &port]);
    load(&mut two.connect(), &["REPLACE"], &code("first", "f", "anew"));
    two.connect().ok("FLUSHALL");
    wait_for_functions(&servers, &[("f", "anew"), ("g", "of-two")]);
    one.connect().ok("FUNCTION DELETE second");
    wait_for_functions(&servers, &[("f", "anew"), ("g", "")]);
    wait_for("the replica has them", || called(&replica, "f") == "anew" && called(&replica, "g").is_empty());
    // Exactly the payload's libraries.
    let other = TestServer::start(&[]);
    load(&mut other.connect(), &[], &code("third", "h", "of-the-payload"));
    let Value::Bulk(payload) = other.connect().call("FUNCTION DUMP") else { panic!("no payload") };
    let reply = one.connect().call_arguments(&[&b"FUNCTION"[..], b"RESTORE", &payload, b"FLUSH"]);
    assert!(!matches!(reply, Value::Error(_)), "{reply:?}");
    wait_for_functions(&servers, &[("f", ""), ("h", "of-the-payload")]);
    two.connect().ok("FUNCTION FLUSH");
    wait_for_functions(&servers, &[("f", ""), ("h", "")]);
}

#[test]
fn later_of_two_concurrently_loaded_libraries_wins() {
    let (one, two) = (server(1, &[]), server(2, &[]));
    let servers = [&one, &two];
    load(&mut one.connect(), &[], &code("deleted", "d", "old"));
    load(&mut one.connect(), &[], &code("kept", "k", "old"));
    link_all(&servers);
    wait_for_functions(&servers, &[("d", "old"), ("k", "old")]);
    cut(&servers);
    load(&mut one.connect(), &[], &code("same", "s", "earlier"));
    load(&mut one.connect(), &[], &code("hidden", "clash", "earlier"));
    one.connect().ok("FUNCTION DELETE deleted");
    one.connect().ok("FUNCTION DELETE kept");
    let_time_pass(&one);
    load(&mut two.connect(), &[], &code("same", "s", "later"));
    load(&mut two.connect(), &[], &code("shown", "clash", "later"));
    load(&mut two.connect(), &["REPLACE"], &code("kept", "k", "new"));
    link_all(&servers);
    wait_for_functions(&servers, &[("s", "later"), ("clash", "later"), ("d", ""), ("k", "new")]);
    // A library that conflicts with a later one was only hidden.
    two.connect().ok("FUNCTION DELETE shown");
    wait_for_functions(&servers, &[("clash", "earlier")]);
}

#[test]
fn libraries_survive_restarts_and_are_part_of_full_copies() {
    let folder = tempfile::tempdir().expect("a folder");
    let begin = || kept(1, &folder, &NEEDS_COPIES);
    let (mut one, two) = (begin(), server(2, &[]));
    let mut client = one.connect();
    load(&mut client, &[], &code("first", "f", "text"));
    for number in 0..2000 {
        client.ok(&format!("SET key:{number} {number:0>100}"));
    }
    link_all(&[&one, &two]);
    wait_for_functions(&[&one, &two], &[("f", "text")]);
    let copies = two.connect().info_field("active", "active_full_copies_merged");
    assert_eq!(copies.as_deref(), Some("1"));
    one.signal(Signal::KILL);
    one.wait();
    let one = begin();
    assert_eq!(called(&one, "f"), "text", "functions are loaded before peers connect");
    link_all(&[&one, &two]);
    wait_for_functions(&[&one, &two], &[("f", "text")]);
}
