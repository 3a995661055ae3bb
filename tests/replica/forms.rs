// SPDX-License-Identifier: BSD-3-Clause
//! The form of full syncs: each replica gets what it reads, or is refused before it deletes its
//! dataset.

use braid_tests::{RawClient, TestServer, request, wait_for};

use crate::raw::{copy, line};
use crate::{any_peer, figure, newer_peers, peers, primary, replica, wait_until_in_sync};

/// A value of each kind that stock servers do not read.
fn fill_with_own_kinds(client: &mut RawClient) {
    for command in [
        "HSET hash a 1 b 2",
        "HPEXPIRE hash 100000000 FIELDS 1 a",
        "SADD set a b",
        "SEXPIRE set 100000 MEMBERS 1 a",
        "ZADD sorted 1 a 2 b",
        "ZEXPIRE sorted 100000 MEMBERS 1 a",
    ] {
        assert!(!client.call(command).is_error(), "{command}");
    }
}

/// Braid as a replica gets everything, also in a dataset without expiring members: full syncs were
/// written for Redis 7.0 then, which has no Bloom filters.
#[test]
fn a_replica_of_the_same_kind_gets_all_kinds_of_values() {
    let ways: [&[&str]; 3] = [
        &["--repl-diskless-sync", "yes"],
        &["--repl-diskless-sync", "no"],
        &["--dual-channel-replication-enabled", "yes"],
    ];
    for way in ways {
        for expiring in [false, true] {
            let server = primary(way);
            let mut client = server.connect();
            assert!(!client.call("BF.RESERVE filter 0.01 1000").is_error());
            assert_eq!(client.call("BF.ADD filter x").to_string(), "(integer) 1");
            if expiring {
                fill_with_own_kinds(&mut client);
            }
            let port = server.port().to_string();
            let other = TestServer::start(&[way, &["--replicaof", "127.0.0.1", &port]].concat());
            let mut its = other.connect();
            wait_until_in_sync(&mut client, &mut its);
            assert_eq!(its.call("BF.EXISTS filter x").to_string(), "(integer) 1", "{way:?} {expiring}");
            assert_eq!(its.call("BF.INFO filter"), client.call("BF.INFO filter"));
            if expiring {
                for time in [
                    "HPEXPIRETIME hash FIELDS 1 a",
                    "SEXPIRETIME set MEMBERS 1 a",
                    "ZEXPIRETIME sorted MEMBERS 1 a",
                ] {
                    assert_eq!(its.call(time), client.call(time), "{way:?} {time}");
                }
            }
        }
    }
}

/// `redis-cli --rdb` stores a backup: nothing is left out.
#[test]
fn a_copy_that_is_stored_has_all_kinds_of_values() {
    let server = primary(&[]);
    let mut client = server.connect();
    assert_eq!(client.call("BF.ADD filter x").to_string(), "(integer) 1");
    let mut link = server.connect();
    link.ok("REPLCONF rdb-only 1");
    link.send(&request("SYNC"));
    let dump = copy(&mut link);
    let name = b"filter";
    assert!(dump.windows(name.len()).any(|window| window == name), "the filter is missing");
}

/// A stock server deletes its dataset before it finds a copy unreadable.
#[test]
fn a_stock_replica_that_could_not_read_the_copy_keeps_its_data() {
    for peer in peers() {
        let is_valkey = peer.version.starts_with("valkey");
        let server = primary(&[]);
        let mut client = server.connect();
        fill_with_own_kinds(&mut client);
        let other = TestServer::start_program(&peer.program, &["--repl-diskless-load", "disabled"]);
        let mut its = other.connect();
        its.ok("SET own 1");
        its.ok(&format!("REPLICAOF 127.0.0.1 {}", server.port()));
        if is_valkey {
            // It says which version it reads.
            wait_until_in_sync(&mut client, &mut its);
            let time = "HPEXPIRETIME hash FIELDS 1 a";
            assert_eq!(its.call(time), client.call(time));
            assert_eq!(its.call("SCARD set").to_string(), "(integer) 2");
            continue;
        }
        wait_for("the replica is refused", || server.log().contains("set rdb-target on the primary"));
        wait_for("it says why", || other.log().contains("set rdb-target on the primary"));
        assert_eq!(its.call("GET own").text(), "1", "{} has deleted its data", peer.version);
        assert!(!server.log().contains("succeeded"));
        let target = if peer.version.starts_with("redis 7.0") { "redis-7.0" } else { "redis-8" };
        client.ok(&format!("CONFIG SET rdb-target {target}"));
        wait_until_in_sync(&mut client, &mut its);
        assert_eq!(its.call("GET own").to_string(), "(nil)");
        assert_eq!(its.call("HGET hash a").text(), "1");
    }
}

/// A stock server would fail to execute the commands on documents: it is refused at the first one,
/// whether it is attached already or comes later. Braid gets them.
#[test]
fn a_stock_replica_is_refused_once_there_are_documents() {
    for peer in peers() {
        let server = primary(&[]);
        let mut client = server.connect();
        client.ok("SET key 1");
        let _other = replica(&peer, &server, &[]);
        let port = server.port().to_string();
        let own = TestServer::start(&["--replicaof", "127.0.0.1", &port]);
        let mut its = own.connect();
        wait_until_in_sync(&mut client, &mut its);
        client.ok("JSON.SET doc $ '{\"a\":[1,2.0]}'");
        wait_for("the attached one is refused", || server.log().contains("there are JSON documents"));
        wait_for("it comes again and is refused", || server.log().matches("A replica at port").count() > 0);
        wait_until_in_sync(&mut client, &mut its);
        assert_eq!(its.call("JSON.GET doc"), client.call("JSON.GET doc"), "{}", peer.version);
        let later = TestServer::start(&["--replicaof", "127.0.0.1", &port]);
        let mut its = later.connect();
        wait_until_in_sync(&mut client, &mut its);
        assert_eq!(its.call("JSON.GET doc"), client.call("JSON.GET doc"), "{}", peer.version);
    }
}

/// A member of a dataset gets an expiry between a replica's request and its full sync.
#[test]
fn a_waiting_replica_is_refused_when_members_begin_to_expire() {
    let server = primary(&["--repl-diskless-sync-delay", "60", "--repl-diskless-sync-max-replicas", "2"]);
    let mut client = server.connect();
    client.ok("SET key 1");
    let mut waiting = server.connect();
    waiting.ok("REPLCONF listening-port 12345 capa eof capa psync2");
    waiting.send(&request("PSYNC ? -1"));
    wait_for("it waits", || figure(&mut client, "replication", "connected_slaves") == 1);
    fill_with_own_kinds(&mut client);
    client.ok("CONFIG SET repl-diskless-sync-delay 0");
    wait_for("it is refused", || server.log().contains("Replica 127.0.0.1:12345 is refused"));
    let rest = waiting.read_to_close().expect("the connection is closed");
    assert!(!rest.windows(5).any(|window| window == b"REDIS"), "it got a copy");
}

/// A replica is in sync once it acknowledges its copy. One that closes the connection twice
/// instead is named.
#[test]
fn a_copy_that_is_not_acknowledged_has_not_succeeded() {
    let server = primary(&[]);
    let attach = || {
        let mut link = server.connect();
        link.ok("REPLCONF listening-port 12345 capa psync2");
        link.send(&request("PSYNC ? -1"));
        let offset = line(&mut link).split(' ').nth(2).expect("an offset").to_owned();
        copy(&mut link);
        (link, offset)
    };
    for round in 1..=2 {
        drop(attach());
        wait_for("the replica is gone", || {
            server.log().matches("Connection with replica 127.0.0.1:12345 lost").count() == round
        });
        let named = "has not accepted 2 full copies in a row";
        wait_for("it is named", || round == 1 || server.log().contains(named));
        assert!(!server.log().contains("Synchronization with replica"));
    }
    let (mut link, offset) = attach();
    link.send(&request(&format!("REPLCONF ACK {offset}")));
    wait_for("it has succeeded", || {
        server.log().contains("Synchronization with replica 127.0.0.1:12345 succeeded")
    });
}

/// One that wants a copy only, as a server does that takes it from its sibling or on a second
/// connection, acknowledges nothing.
#[test]
fn a_copy_without_a_stream_needs_no_acknowledgement() {
    let server = primary(&[]);
    for round in 1..=2 {
        let mut link = server.connect();
        link.ok("REPLCONF listening-port 12345 rdb-only 1");
        link.send(&request("SYNC"));
        copy(&mut link);
        drop(link);
        wait_for("the replica is gone", || {
            server.log().matches("Connection with replica 127.0.0.1:12345 lost").count() == round
        });
    }
    // The next line of the log is later than a complaint would be.
    server.connect().ok("CONFIG SET appendonly yes");
    wait_for("a later line", || server.log().contains("append only file rewriting started"));
    assert!(!server.log().contains("has not accepted"), "{}", server.log());
}

/// A stock replica's copy counts as successful, too.
#[test]
fn a_stock_replica_acknowledges_its_copy() {
    let Some(peer) = newer_peers().into_iter().next().or_else(any_peer) else { return };
    for streamed in ["yes", "no"] {
        let server = primary(&["--repl-diskless-sync", streamed]);
        let _other = replica(&peer, &server, &[]);
        wait_for("it has succeeded", || server.log().contains("Synchronization with replica"));
    }
}
