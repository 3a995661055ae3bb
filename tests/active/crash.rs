// SPDX-License-Identifier: BSD-3-Clause
//! Servers that are killed or shut down cleanly, with peers that continue.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

use super::{link, server, texts, wait_until_equal};
use braid_tests::{RawClient, TestServer, Value, wait_for};
use rustix::process::Signal;

/// A server whose files outlive it.
pub fn kept(region: u8, folder: impl AsRef<Path>, more: &[&str]) -> TestServer {
    let folder = folder.as_ref().to_str().expect("a name");
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
    assert_eq!(one.connect().call("GET key:199").text(), "199", "data is loaded before peers connect");
    link(&one, &[two.port()]);
    link(&two, &[one.port()]);
    one.connect().call("INCR counter");
    wait_until_equal(&[&one, &two]);
    let mut client = one.connect();
    assert_eq!(client.call("GET counter").text(), "1201");
    assert_eq!(texts(&client.call("MGET key:1 key:2 key:3")), ["while-away", "", "3"]);
    assert_eq!(client.call("LLEN list"), Value::Integer(200));
    // Once more, without new writes: stamps are not reused.
    one.signal(signal);
    one.wait();
    let one = kept(1, &folder, more);
    link(&one, &[two.port()]);
    link(&two, &[one.port()]);
    one.connect().ok("SET last word");
    wait_for("the last write to arrive", || two.connect().call("GET last").text() == "word");
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

/// At start the append-only file gets the dataset of the active-active files once. It also got its
/// own content, and so doubled with each start.
#[test]
fn starts_add_no_more_than_the_dataset_to_the_append_only_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let start = || kept(1, &folder, &["--appendonly", "yes"]);
    let size = |server: &TestServer| -> u64 {
        let mut client = server.connect();
        client.ok("SET last x");
        let written = Value::Array(vec![Value::Integer(1), Value::Integer(0)]);
        assert_eq!(client.call("WAITAOF 1 0 20000"), written);
        let size = client.info_field("persistence", "aof_current_size");
        size.and_then(|size| size.parse().ok()).expect("a size")
    };
    let mut server = start();
    for number in 0..500 {
        server.connect().ok(&format!("SET key:{number} {number}"));
    }
    let mut sizes = vec![size(&server)];
    for signal in [Signal::KILL, Signal::KILL, Signal::TERM, Signal::KILL, Signal::TERM] {
        server.signal(signal);
        server.wait();
        server = start();
        sizes.push(size(&server));
    }
    let growth: Vec<u64> = sizes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(growth.iter().all(|&bytes| bytes < sizes[0] * 5 / 4), "{sizes:?}");
}

/// The files of active-active replication have the dataset: a dump file is not loaded as well.
#[test]
fn a_dump_file_is_not_loaded_in_vain() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut one = kept(1, &folder, &[]);
    let mut client = one.connect();
    client.ok("SET key old");
    client.ok("SAVE");
    client.ok("SET key new");
    one.signal(Signal::TERM);
    one.wait();
    let one = kept(1, &folder, &[]);
    assert_eq!(one.connect().call("GET key").text(), "new");
    let log = one.log();
    assert!(!log.contains("DB loaded from disk"), "{log}");
}

/// Sets one key after another until the server is gone. Returns the number of replies.
fn write_until_killed(port: u16, name: &str) -> usize {
    const BURST: usize = 50;
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    let (mut sent, mut bytes) = (0, 0);
    loop {
        let lines: String = (sent..sent + BURST).map(|one| format!("SET {name}:{one} x\r\n")).collect();
        if stream.write_all(lines.as_bytes()).is_err() {
            return bytes / 5;
        }
        sent += BURST;
        while bytes < sent * 5 {
            let mut some = [0; 1024];
            match stream.read(&mut some) {
                Ok(0) | Err(_) => return bytes / 5,
                Ok(count) => bytes += count,
            }
            assert!(!some.contains(&b'-'), "{}", String::from_utf8_lossy(&some));
        }
    }
}

/// With `appendfsync always`, a reply guarantees that the write is on disk and found after a
/// restart.
#[test]
fn acknowledged_writes_outlive_kills() {
    let always = ["--appendonly", "yes", "--appendfsync", "always"];
    let folder = tempfile::tempdir().expect("a folder");
    let two = server(2, &[]);
    let mut expected = 0;
    for round in 0..4 {
        let mut one = kept(1, &folder, &always);
        link(&one, &[two.port()]);
        link(&two, &[one.port()]);
        let port = one.port();
        let writer = |number: usize| move || write_until_killed(port, &format!("{round}:{number}"));
        let writers: Vec<_> = (0..4).map(|number| std::thread::spawn(writer(number))).collect();
        let mut client = one.connect();
        let size = |client: &mut RawClient| match client.call("DBSIZE") {
            Value::Integer(size) => size,
            other => panic!("{other:?}"),
        };
        let before = size(&mut client);
        wait_for("some writes", || size(&mut client) > before + 2_000);
        // A command whose effect is read from the keyspace.
        client.ok(&format!("SET from:{round} there"));
        client.ok(&format!("RENAME from:{round} last:{round}"));
        one.signal(Signal::KILL);
        one.wait();
        let acknowledged: Vec<usize> =
            writers.into_iter().map(|writer| writer.join().expect("no panic")).collect();
        expected += acknowledged.iter().sum::<usize>() + 1;
        let one = kept(1, &folder, &always);
        let mut client = one.connect();
        for (number, count) in acknowledged.into_iter().enumerate() {
            for key in 0..count {
                let key = format!("{round}:{number}:{key}");
                assert_eq!(client.call(&format!("EXISTS {key}")), Value::Integer(1), "{key} of {count}");
            }
        }
        for round in 0..=round {
            assert_eq!(client.call(&format!("GET last:{round}")).text(), "there");
        }
    }
    let one = kept(1, &folder, &always);
    link(&one, &[two.port()]);
    link(&two, &[one.port()]);
    wait_until_equal(&[&one, &two]);
    let Value::Integer(size) = two.connect().call("DBSIZE") else { panic!("no size") };
    assert!(size as usize >= expected, "{size} of {expected}");
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
