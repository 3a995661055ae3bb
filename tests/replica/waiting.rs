// SPDX-License-Identifier: BSD-3-Clause
//! WAIT, WAITAOF, and the replies of ROLE and INFO.

use braid_tests::{Value, wait_for};
use rustix::process::Signal;

use crate::{any_peer, figure, peers, primary, replica, replica_in_sync, wait_until_in_sync};

#[test]
fn wait_returns_the_number_of_acknowledging_replicas() {
    for peer in peers() {
        println!("{}", peer.version);
        let server = primary(&[]);
        let mut client = server.connect();
        client.ok("SET alone 1");
        assert_eq!(client.call("WAIT 0 0"), Value::Integer(0));
        assert_eq!(client.call("WAIT 1 50"), Value::Integer(0));
        let (other, mut its) = replica_in_sync(&peer, &server, &mut client);
        for number in 0..20 {
            client.ok(&format!("SET k {number}"));
            assert_eq!(client.call("WAIT 1 0"), Value::Integer(1));
            assert_eq!(its.call("GET k").text(), number.to_string());
        }
        assert_eq!(client.call("WAIT 2 50"), Value::Integer(1));
        other.signal(Signal::STOP);
        client.ok("SET k stopped");
        assert_eq!(client.call("WAIT 1 50"), Value::Integer(0));
        // A client without writes since then does not wait.
        let mut idle = server.connect();
        assert_eq!(idle.call("WAIT 1 0"), Value::Integer(1));
        client.send(&braid_tests::request("WAIT 1 0"));
        wait_for("the client is blocked", || figure(&mut idle, "clients", "blocked_clients") == 1);
        other.signal(Signal::CONT);
        assert_eq!(client.read(), Value::Integer(1));
        client.ok("MULTI");
        client.call("SET k in-transaction");
        client.call("WAIT 1 0");
        let replies = client.call("EXEC");
        assert_eq!(replies.elements().map(<[Value]>::len), Some(2));
        assert_eq!(client.call("WAIT 1 0"), Value::Integer(1));
    }
}

#[test]
fn wait_covers_the_pop_of_a_formerly_blocked_client() {
    let Some(peer) = any_peer() else { return };
    let server = primary(&[]);
    let (mut taker, mut giver) = (server.connect(), server.connect());
    let other = replica(&peer, &server, &[]);
    let mut its = other.connect();
    wait_until_in_sync(&mut giver, &mut its);
    taker.send(&braid_tests::request("BLPOP list 0"));
    wait_for("the client is blocked", || figure(&mut giver, "clients", "blocked_clients") == 1);
    assert_eq!(giver.call("RPUSH list a b"), Value::Integer(2));
    assert_eq!(taker.read().elements().map(|pair| pair[1].text()), Some("a".into()));
    assert_eq!(taker.call("WAIT 1 0"), Value::Integer(1));
    assert_eq!(its.call("LRANGE list 0 -1").elements().map(<[Value]>::len), Some(1));
}

#[test]
fn waitaof_returns_the_number_of_synced_files() {
    for peer in peers().iter().filter(|peer| !peer.version.starts_with("redis 7.0")) {
        println!("{}", peer.version);
        let server = primary(&["--appendonly", "yes"]);
        let mut client = server.connect();
        let arguments = ["--appendonly", "yes", "--appendfsync", "always"];
        let other = replica(peer, &server, &arguments);
        let mut its = other.connect();
        wait_until_in_sync(&mut client, &mut its);
        wait_for("the AOF is rewritten", || figure(&mut its, "persistence", "aof_rewrite_in_progress") == 0);
        for number in 0..5 {
            client.ok(&format!("SET k {number}"));
            assert_eq!(
                client.call("WAITAOF 1 1 0").to_string(),
                Value::Array(vec![Value::Integer(1); 2]).to_string()
            );
        }
        assert!(
            client.call("WAITAOF 1 2 50").elements().is_some_and(|counts| counts[1] == Value::Integer(1))
        );
    }
}

#[test]
fn role_and_info_tell_of_replicas() {
    let Some(peer) = any_peer() else { return };
    let server = primary(&["--repl-ping-replica-period", "1000"]);
    let mut client = server.connect();
    let role = client.call("ROLE").to_string();
    assert!(role.contains("master"), "{role}");
    assert_eq!(figure(&mut client, "replication", "repl_backlog_active"), 0);
    let other = replica(&peer, &server, &[]);
    let mut its = other.connect();
    client.ok("SET k v");
    wait_until_in_sync(&mut client, &mut its);
    client.ok("SET k w");
    assert_eq!(client.call("WAIT 1 0"), Value::Integer(1));
    let offset = figure(&mut client, "replication", "master_repl_offset");
    let role = client.call("ROLE");
    let parts = role.elements().expect("a list");
    assert_eq!([&parts[0], &parts[1]], [&Value::bulk("master"), &Value::Integer(offset)]);
    let replicas = parts[2].elements().expect("a list of replicas");
    let one: Vec<String> = replicas[0].elements().expect("a replica").iter().map(Value::text).collect();
    assert_eq!(one[..2], ["127.0.0.1".to_owned(), other.port().to_string()]);
    let line = client.info_field("replication", "slave0").expect("a replica");
    let expected = format!("ip=127.0.0.1,port={},state=online,offset=", other.port());
    assert!(line.starts_with(&expected) && line.contains(",lag="), "{line}");
    assert_eq!(
        client.info_field("replication", "master_replid"),
        its.info_field("replication", "master_replid")
    );
    let first = figure(&mut client, "replication", "repl_backlog_first_byte_offset");
    assert_eq!(first + figure(&mut client, "replication", "repl_backlog_histlen"), offset + 1);
    let list = client.call("CLIENT LIST TYPE replica").text();
    assert!(list.lines().count() == 1 && list.contains(" flags=S "), "{list}");
    assert!(!client.call("CLIENT LIST TYPE normal").text().contains("flags=S"));
}
