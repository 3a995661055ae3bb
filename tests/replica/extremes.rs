// SPDX-License-Identifier: BSD-3-Clause
//! Commands with extreme arguments (times, integers, floats, offsets, IDs): what is streamed is
//! executable by stock servers, which have the same data afterwards, as replicas and as readers of
//! the append-only file.

use std::path::Path;

use braid_tests::server::{Peer, newer_peers};
use braid_tests::{RawClient, TestServer};
use rustix::process::Signal;

use crate::{dataset_of, primary, replica, wait_until_in_sync};

/// Times in any unit; most are refused in some. None expires soon.
const TIMES: &str = "0 -1 9223372036854775807 -9223372036854775808 9223372036854775 9223372036854774 \
    70368744177663 70368744177664 70368744178 99999999999999 281474976710656 2147483648 1e3";
const INTEGERS: &str = "0 1 -1 9223372036854775807 -9223372036854775808 9223372036854775808 4294967296 \
    2147483647 -2147483649 01 1.0";
const FLOATS: &str = "0 -0 1e308 -1e308 1.7976931348623157e308 1e309 inf -inf nan 5e-324 1e-320 0.1 \
    3.0000000000000000001 1e17 1e21 123456789012345678 0x1p3 1e4000 9007199254740993";
const IDS: &str = "0-0 0-1 0 1 18446744073709551615 18446744073709551615-18446744073709551615 \
    18446744073709551615-18446744073709551614 18446744073709551615-* 0-* 5-* - + 1-18446744073709551616 \
    9223372036854775808-0";

/// Lines `setup; setup | command`. `K`, `K2` and `K3` are keys of the line's own; each of `TIME`,
/// `INT`, `FLOAT` and `ID` is replaced by all values of its list, each in turn.
const FORMS: &str = include_str!("extremes.txt");

/// All requests, in order: those of a form have keys of their own.
fn requests() -> Vec<Vec<String>> {
    let mut requests = Vec::new();
    let lines = FORMS.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    for (number, (setup, command)) in lines.enumerate().flat_map(|(number, line)| {
        let (setup, command) = line.split_once('|').expect("setup | command");
        variants(command.trim()).into_iter().map(move |command| (number, (setup.to_owned(), command)))
    }) {
        let key = format!("k{number}:{}", requests.len());
        let own = |word: &str| match word {
            "K" | "K2" | "K3" => format!("{key}{}", &word[1..]),
            word => word.to_owned(),
        };
        let setups = setup.split(';').map(str::trim).filter(|text| !text.is_empty());
        for text in setups.chain([command.as_str()]) {
            requests.push(text.split_whitespace().map(own).collect());
        }
    }
    requests
}

/// The command with each value in place of its first placeholder, and the first value in place of
/// the others.
fn variants(command: &str) -> Vec<String> {
    let lists = [("TIME", TIMES), ("INT", INTEGERS), ("FLOAT", FLOATS), ("ID", IDS)];
    let words: Vec<&str> = command.split_whitespace().collect();
    let list_of = |word: &str| lists.iter().find(|(name, _)| *name == word).map(|(_, list)| *list);
    let Some(at) = words.iter().position(|word| list_of(word).is_some()) else {
        return vec![command.to_owned()];
    };
    let with = |value: &str| [&words[..at], &[value], &words[at + 1..]].concat().join(" ");
    let values = list_of(words[at]).unwrap_or_default().split_whitespace();
    values.flat_map(|value| variants(&with(value))).collect()
}

/// Sends all requests; returns how many were executed without an error.
fn run(client: &mut RawClient) -> usize {
    let requests = requests();
    let mut done = 0;
    for some in requests.chunks(500) {
        let words =
            |request: &Vec<String>| request.iter().map(|word| word.clone().into_bytes()).collect::<Vec<_>>();
        let bytes: Vec<u8> = some
            .iter()
            .map(|request| braid_tests::words::encode(&words(request)))
            .collect::<Vec<_>>()
            .concat();
        client.send(&bytes);
        done += some.iter().filter(|_| !client.read().is_error()).count();
    }
    println!("{done} of {} requests were executed", requests.len());
    done
}

/// Asserts that a stock server has the same data, and met no command that it refused.
#[track_caller]
fn assert_repeated(ours: &[String], theirs: &[String], server: &TestServer, name: &str) {
    let lacks = |some: &[String], other: &[String]| {
        let other: std::collections::HashSet<&String> = other.iter().collect();
        some.iter().filter(|line| !other.contains(line)).take(20).cloned().collect::<Vec<_>>().join("\n")
    };
    assert!(ours == theirs, "only ours:\n{}\nonly {name}'s:\n{}", lacks(ours, theirs), lacks(theirs, ours));
    let log = server.log();
    let refused = log.lines().find(|line| line.contains("CRITICAL") || line.contains("sending an error"));
    assert_eq!(refused, None, "{name}");
}

/// A server on the append-only file in a folder.
fn with_file(peer: &Peer, folder: &Path) -> TestServer {
    let folder = folder.to_str().expect("a readable path");
    TestServer::start_program(&peer.program, &["--dir", folder, "--appendonly", "yes"])
}

#[test]
fn what_is_streamed_is_executable_by_the_target() {
    for peer in newer_peers() {
        let target = if peer.version.starts_with("redis") { "redis-8" } else { "valkey-9" };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().to_str().expect("a readable path");
        let mut server = primary(&["--rdb-target", target, "--dir", path, "--appendonly", "yes"]);
        let mut client = server.connect();
        let other = replica(&peer, &server, &[]);
        let mut its = other.connect();
        wait_until_in_sync(&mut client, &mut its);
        assert!(run(&mut client) > 2000);
        wait_until_in_sync(&mut client, &mut its);
        let data = dataset_of(&mut client, true, |content| content);
        let theirs = dataset_of(&mut its, true, |content| content);
        assert_repeated(&data, &theirs, &other, &peer.version);
        drop((client, its, other));
        server.signal(Signal::TERM);
        assert!(server.wait().success(), "{}", server.log());
        let reader = with_file(&peer, folder.path());
        let theirs = dataset_of(&mut reader.connect(), true, |content| content);
        assert_repeated(&data, &theirs, &reader, &format!("{} as reader of the file", peer.version));
    }
}

/// By default a time that Redis 8 refuses is accepted, as by Valkey. A Redis 8 that follows keeps
/// the values, and no earlier time either, at which it would remove them.
#[test]
fn fields_outlive_a_time_that_a_replica_refuses() {
    const LATE: &str = "99999999999999";
    let Some(peer) = newer_peers().into_iter().find(|peer| peer.version.starts_with("redis")) else { return };
    let server = primary(&[]);
    let mut client = server.connect();
    let other = replica(&peer, &server, &[]);
    let mut its = other.connect();
    wait_until_in_sync(&mut client, &mut its);
    for key in ["h1", "h2", "h3"] {
        client.call(&format!("HSET {key} a 1 b 2"));
        client.call(&format!("HEXPIRE {key} 1000 FIELDS 2 a b"));
    }
    client.call(&format!("HPEXPIREAT h1 {LATE} FIELDS 1 a"));
    client.call(&format!("HGETEX h2 PXAT {LATE} FIELDS 1 a"));
    for key in ["h3", "h4"] {
        client.call(&format!("HSETEX {key} PXAT {LATE} FIELDS 1 a 9"));
    }
    wait_until_in_sync(&mut client, &mut its);
    for key in ["h1", "h2", "h3", "h4"] {
        assert_eq!(
            client.call(&format!("HPEXPIRETIME {key} FIELDS 1 a")).to_string(),
            format!("[(integer) {LATE}]")
        );
        assert_eq!(
            its.call(&format!("HPEXPIRETIME {key} FIELDS 1 a")).to_string(),
            "[(integer) -1]",
            "{key}"
        );
        let value = client.call(&format!("HGET {key} a"));
        assert_eq!(its.call(&format!("HGET {key} a")), value, "{key}");
    }
    let of_the_other = client.call("HPEXPIRETIME h1 FIELDS 1 b");
    assert_eq!(its.call("HPEXPIRETIME h1 FIELDS 1 b"), of_the_other);
}
