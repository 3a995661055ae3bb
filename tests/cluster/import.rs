// SPDX-License-Identifier: BSD-3-Clause
//! `braid-cluster import-cluster`: imports the keys of a stock cluster in use.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use braid_tests::server::{newer_peers, stock};
use braid_tests::{RawClient, TestServer, Value};

use crate::Cluster;
use crate::braid_cluster::{command, text};
use crate::moves::Load;
use crate::redirections::stock_cluster;

/// Sends a request as a client of the stock cluster.
fn call(nodes: &[TestServer], text: &str) -> Value {
    let mut address: SocketAddr = nodes[0].address();
    for _ in 0..5 {
        let reply = RawClient::tcp(address).expect("a node").call(text);
        match reply.to_string().split_once("MOVED ") {
            Some((_, place)) => {
                let place = place.split_whitespace().nth(1).expect("an address");
                address = place.trim_matches(['"', '\'', ')']).parse().expect("an address");
            }
            None => return reply,
        }
    }
    panic!("{text} is redirected endlessly");
}

/// Keys of all types and sizes, and the commands that read them.
const VALUES: &[(&str, &str)] = &[
    ("SET string value", "GET string"),
    ("SET number 12345", "GET number"),
    ("SET short-lived value EX 100000", "GET short-lived"),
    ("RPUSH list a b c 1 2 3", "LRANGE list 0 -1"),
    ("SADD numbers 1 2 3", "SMEMBERS numbers"),
    ("SADD words a", "SMEMBERS words"),
    ("ZADD scores 1 a 2.5 b", "ZRANGE scores 0 -1 WITHSCORES"),
    ("HSET hash field value", "HGETALL hash"),
    ("XADD stream 1-1 f v", "XRANGE stream - +"),
    ("XGROUP CREATE stream group 0", "XINFO GROUPS stream"),
    ("XREADGROUP GROUP group one STREAMS stream >", "XPENDING stream group"),
    ("PFADD sketch a b c", "PFCOUNT sketch"),
    ("SETBIT bits 1000 1", "BITCOUNT bits"),
];

/// Further commands to compare.
const MORE: &[&str] = &["STRLEN long", "HLEN big", "HGET big field:1999"];

/// Writes the keys; returns the replies of the reading commands.
fn write_values(nodes: &[TestServer]) -> Vec<(&'static str, String)> {
    for (write, _) in VALUES {
        let reply = call(nodes, write);
        assert!(!reply.to_string().contains("ERR"), "{write}: {reply}");
    }
    let long = "x".repeat(200_000);
    call(nodes, &format!("SET long {long}"));
    for index in 0..2_000 {
        call(nodes, &format!("HSET big field:{index} value:{index}"));
    }
    let looks = VALUES.iter().map(|(_, look)| *look).chain(MORE.iter().copied());
    looks.map(|look| (look, call(nodes, look).to_string())).collect()
}

fn check_values(cluster: &Cluster, seen: &[(&str, String)]) {
    for (look, seen) in seen {
        assert_eq!(&cluster.call(look).to_string(), seen, "{look}");
    }
    let Value::Integer(left) = cluster.call("TTL short-lived") else { panic!("a time") };
    assert!((1..=100_000).contains(&left), "{left}");
}

/// The installed stock servers.
fn peers() -> Vec<std::path::PathBuf> {
    stock().into_iter().chain(newer_peers()).map(|peer| peer.program).collect()
}

/// Clients write to the stock cluster throughout. At the cut-over their writes wait, and all
/// acknowledged writes have been imported.
fn nothing_is_lost_from(program: &Path) {
    let Some(cluster) = Cluster::create(2, 2, &[]) else { return };
    let nodes = stock_cluster(program, 3);
    let seen = write_values(&nodes);
    let (stop, places) = (AtomicBool::new(false), || nodes.iter().map(TestServer::address).collect());
    let mut loads: Vec<Load> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|tag| {
                let (mut load, stop) = (Load::at(places(), tag), &stop);
                scope.spawn(move || {
                    let mut number = 0;
                    while !stop.load(Relaxed) {
                        load.step(number);
                        number += 1;
                    }
                    load
                })
            })
            .collect();
        let arguments =
            format!("-p {} import-cluster {} --timeout 60", cluster.nodes[0].port(), nodes[1].address());
        let output = command(&arguments).output().expect("braid-cluster starts");
        stop.store(true, Relaxed);
        // A write that waits there is never executed, as its client finds out.
        nodes.iter().for_each(|node| drop(node.connect().call("CLIENT KILL TYPE normal SKIPME yes")));
        let loads = threads.into_iter().map(|thread| thread.join().expect("no load panicked")).collect();
        assert!(output.status.success(), "{}\n{}", text(&output), cluster.logs());
        println!("{}", String::from_utf8_lossy(&output.stdout));
        loads
    });
    check_values(&cluster, &seen);
    for load in &mut loads {
        load.go_to(cluster.nodes.iter().map(TestServer::address).collect());
        load.check();
    }
    // Writes still wait there.
    let mut client = nodes[0].connect();
    client.set_patience(std::time::Duration::from_millis(300)).expect("a socket");
    client.send(b"*1\r\n$8\r\nFLUSHALL\r\n");
    assert!(client.try_read().is_err(), "the source cluster still accepts writes");
    // The import is complete. A second one must not silently overwrite keys that exist here.
    let arguments = format!("-p {} import-cluster {}", cluster.nodes[0].port(), nodes[1].address());
    let output = command(&arguments).output().expect("braid-cluster starts");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("use --replace"), "{}", text(&output));
}

#[test]
fn a_stock_cluster_is_taken_over_under_load() {
    for program in peers() {
        println!("{}", program.display());
        nothing_is_lost_from(&program);
    }
}

#[test]
fn import_follows_commands_on_all_keys() {
    let Some(program) = peers().into_iter().next() else { return };
    let Some(cluster) = Cluster::create(2, 2, &[]) else { return };
    let nodes = stock_cluster(&program, 3);
    // `hello` and `bar` belong to the first primary, `foo` to the last one.
    for key in ["hello", "bar", "foo"] {
        call(&nodes, &format!("SET {key} 1"));
    }
    let arguments = format!(
        "-p {} import-cluster {} --cut-over on-enter --timeout 60",
        cluster.nodes[0].port(),
        nodes[0].address()
    );
    let mut child = command(&arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("braid-cluster starts");
    let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let follows = lines.by_ref().map_while(Result::ok).any(|line| line.contains("3 of 3 primaries followed"));
    assert!(follows, "{}", cluster.logs());
    // The remaining lines do not matter, but must not fill the pipe.
    let rest = std::thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>());
    nodes[0].connect().ok("FLUSHALL");
    call(&nodes, "SET hello 2");
    let code = "#!lua name=lib\\nredis.register_function('one', function() return 1 end)";
    for node in &nodes {
        let library = ["FUNCTION".to_owned(), "LOAD".to_owned(), code.replace("\\n", "\n")];
        assert_eq!(node.connect().call_arguments(&library), Value::Bulk("lib".into()));
    }
    for request in ["RENAME foo {foo}b", "SADD {foo}c 1 2 3", "SPOP {foo}c 3", "XADD {foo}d * f v"] {
        call(&nodes, request);
    }
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("the tool reads its input");
    let mut told = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut told).expect("text");
    let status = child.wait().expect("the tool ends");
    let rest = rest.join().expect("lines");
    assert!(status.success() && told.contains("all data is here"), "{told}{rest:?}\n{}", cluster.logs());
    assert_eq!(cluster.call("GET hello"), Value::Bulk("2".into()));
    assert_eq!(cluster.call("GET {foo}b"), Value::Bulk("1".into()));
    assert_eq!(cluster.call("XLEN {foo}d"), Value::Integer(1));
    for gone in ["bar", "foo", "{foo}c"] {
        assert_eq!(cluster.call(&format!("EXISTS {gone}")), Value::Integer(0), "{gone}");
    }
    for index in 0..2 {
        assert!(cluster.client(index).call("FUNCTION LIST").to_string().contains("lib"));
    }
}
