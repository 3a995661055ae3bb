// SPDX-License-Identifier: BSD-3-Clause
//! Servers that are killed, and servers that end in good order, with peers that go on.

use super::{link, server, texts, wait_until_equal};
use braid_tests::{TestServer, Value, wait_for};
use rustix::process::Signal;

/// A server whose files outlive it.
fn kept(region: u8, folder: &tempfile::TempDir, more: &[&str]) -> TestServer {
    let folder = folder.path().to_str().expect("a name");
    server(region, &[&["--dir", folder][..], more].concat())
}

fn check(more: &[&str], signal: Signal) {
    let folder = tempfile::tempdir().expect("a folder");
    let two = server(2, &[]);
    let mut one = kept(1, &folder, more);
    link(&one, &[two.port()]);
    link(&two, &[one.port()]);
    let mut client = one.connect();
    for number in 0..200 {
        client.ok(&format!("SET key:{number} {number}"));
        client.call("INCR counter");
        client.call(&format!("RPUSH list {number}"));
    }
    wait_until_equal(&[&one, &two]);
    one.signal(signal);
    one.wait();
    let mut other = two.connect();
    other.ok("SET key:1 while-away");
    other.call("DEL key:2");
    other.call("INCRBY counter 1000");
    let mut one = kept(1, &folder, more);
    assert_eq!(one.connect().call("GET key:199").text(), "199", "it has its data before it hears of others");
    link(&one, &[two.port()]);
    link(&two, &[one.port()]);
    one.connect().call("INCR counter");
    wait_until_equal(&[&one, &two]);
    let mut client = one.connect();
    assert_eq!(client.call("GET counter").text(), "1201");
    assert_eq!(texts(&client.call("MGET key:1 key:2 key:3")), ["while-away", "", "3"]);
    assert_eq!(client.call("LLEN list"), Value::Integer(200));
    // Once more, with nothing new: stamps are not given twice.
    one.signal(signal);
    one.wait();
    let one = kept(1, &folder, more);
    link(&one, &[two.port()]);
    link(&two, &[one.port()]);
    one.connect().ok("SET last word");
    wait_for("the last word arrives", || two.connect().call("GET last").text() == "word");
    wait_until_equal(&[&one, &two]);
}

#[test]
fn a_killed_server_comes_back() {
    check(&[], Signal::KILL);
}

#[test]
fn a_killed_server_with_an_append_only_file_comes_back() {
    check(&["--appendonly", "yes"], Signal::KILL);
}

/// With `appendfsync always` a reply says that the write is on disk, where the server finds it again.
#[test]
fn acknowledged_writes_outlive_kills() {
    let always = ["--appendonly", "yes", "--appendfsync", "always"];
    let folder = tempfile::tempdir().expect("a folder");
    let two = server(2, &[]);
    for round in 0..6 {
        let mut one = kept(1, &folder, &always);
        link(&one, &[two.port()]);
        link(&two, &[one.port()]);
        let mut client = one.connect();
        for number in 0..round {
            assert_eq!(client.call(&format!("GET last:{number}")).text(), "there", "round {round}");
        }
        assert_eq!(client.call("LLEN list"), Value::Integer(100 * round), "what was acknowledged is there");
        for number in 0..100 {
            client.call(&format!("RPUSH list {round}:{number}"));
        }
        // Commands whose results are read from the keyspace, and what is killed right after its reply.
        client.call(&format!("SET from:{round} there"));
        client.ok(&format!("RENAME from:{round} last:{round}"));
        one.signal(Signal::KILL);
        one.wait();
    }
    let one = kept(1, &folder, &always);
    link(&one, &[two.port()]);
    link(&two, &[one.port()]);
    wait_until_equal(&[&one, &two]);
    assert_eq!(two.connect().call("LLEN list"), Value::Integer(600));
    assert_eq!(one.connect().call("WAITAOF 1 0 0").elements().map(<[Value]>::len), Some(2));
}

#[test]
fn a_server_that_ends_comes_back() {
    check(&[], Signal::TERM);
}

#[test]
fn a_dataset_without_marks_becomes_the_regions_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a name").to_owned();
    let mut plain = TestServer::start(&["--dir", &path]);
    let mut client = plain.connect();
    for line in
        ["SET a 1", "RPUSH list x y", "HSET hash f v", "ZADD z 1.5 m", "XADD s 1-1 f v", "SADD set 1 2"]
    {
        client.call(line);
    }
    client.ok("SAVE");
    plain.signal(Signal::TERM);
    plain.wait();
    let (one, two) = (kept(1, &folder, &[]), server(2, &[]));
    link(&two, &[one.port()]);
    wait_until_equal(&[&one, &two]);
    assert_eq!(two.connect().call("DBSIZE"), Value::Integer(6));
}
