// SPDX-License-Identifier: BSD-3-Clause
//! Primaries that die, are stopped, or hand over.

use std::time::Duration;

use braid_tests::{Value, wait_for};
use rustix::process::Signal;

use crate::writer::Writer;
use crate::{Group, is_primary, number};

/// Maximum time without an acknowledged write during a failover on a busy machine; 2 to 3 s on an
/// idle one.
const GAP_MAX: Duration = Duration::from_secs(15);

fn wait_for_writes(writer: &Writer, more: i64) {
    let begin = writer.acknowledged();
    wait_for("the writer continues", || writer.acknowledged() >= begin + more);
}

#[test]
fn acknowledged_durable_writes_survive_primaries_that_die() {
    let Some(mut group) = Group::start(3, &[]) else { return };
    let writer = Writer::start(&group.servers, true);
    for _ in 0..3 {
        wait_for_writes(&writer, 200);
        let (old, epoch) = (group.primary().expect("a primary"), group.epoch());
        group.servers[old].signal(Signal::KILL);
        group.servers[old].wait();
        let new = group.wait_for_other(old);
        wait_for_writes(&writer, 200);
        assert!(group.epoch() > epoch);
        assert!(group.servers[new].log().contains("is now the primary of the group"));
        group.restart(old);
        group.wait_until_in_sync();
    }
    wait_for_writes(&writer, 200);
    let seen = writer.stop();
    assert!(!seen.went_back && seen.gap < GAP_MAX, "{seen:?}");
    for server in &group.servers {
        let mut client = server.connect();
        wait_for("the server has all acknowledged writes", || number(&mut client, "n") >= seen.acknowledged);
    }
}

#[test]
fn a_primary_that_was_stopped_comes_back_as_a_replica_and_keeps_its_tail_in_a_file() {
    let Some(group) = Group::start(3, &[]) else { return };
    let writer = Writer::start(&group.servers, true);
    wait_for_writes(&writer, 100);
    let old = group.primary().expect("a primary");
    // A write that no other server can have: the replicas are stopped, and their links are cut.
    let mut client = group.servers[old].connect();
    let replicas: Vec<_> = (0..3).filter(|&index| index != old).collect();
    for &index in &replicas {
        group.servers[index].signal(Signal::STOP);
    }
    client.call("CLIENT KILL TYPE replica");
    wait_for("the links are cut", || {
        client.info_field("replication", "connected_slaves").as_deref() == Some("0")
    });
    client.ok("SET tail divergent");
    group.servers[old].signal(Signal::STOP);
    for &index in &replicas {
        group.servers[index].signal(Signal::CONT);
    }
    let new = group.wait_for_other(old);
    wait_for_writes(&writer, 100);
    // At first the old primary does not know the new one's address, because that record is
    // missing for a moment. It may know it nevertheless, if it receives the intermediate changes
    // one by one.
    group.servers[new].signal(Signal::STOP);
    group.client().delete(format!("/braid/g/node/n{new}").as_bytes()).expect("deleted");
    group.servers[old].signal(Signal::CONT);
    let unknown = format!("its address is not known yet: epoch {}", group.epoch());
    let known = format!("This server is a replica of n{new} (");
    let knows = |log: String| log.contains(&unknown) || log.contains(&known);
    wait_for("the old primary knows of the new one", || knows(group.servers[old].log()));
    group.servers[new].signal(Signal::CONT);
    wait_for("the old primary follows", || !is_primary(&group.servers[old]));
    group.wait_until_in_sync();
    let seen = writer.stop();
    assert!(!seen.went_back, "{seen:?}");
    let mut its = group.servers[old].connect();
    wait_for("the old primary has the new history", || number(&mut its, "n") >= seen.acknowledged);
    assert_eq!(group.servers[new].connect().call("GET tail"), Value::NullBulk);
    let folder = std::fs::read_dir(group.servers[old].directory()).expect("a folder");
    let kept = folder.flatten().find(|entry| entry.file_name().to_string_lossy().starts_with("divergent-"));
    let text = kept.map(|entry| std::fs::read_to_string(entry.path()).expect("a file"));
    assert!(text.is_some_and(|text| text.contains("divergent")), "{}", group.servers[old].log());
}

#[test]
fn clients_of_a_former_primary_are_served_no_data() {
    let Some(group) = Group::start(2, &[]) else { return };
    let old = group.primary().expect("a primary");
    let mut idle = group.servers[old].connect();
    let (mut reader, mut writer) = (group.servers[old].connect(), group.servers[old].connect());
    idle.ok("SET a 1");
    assert_eq!(reader.call("GET a").text(), "1");
    writer.ok("MULTI");
    assert_eq!(writer.call("GET a").text(), "QUEUED");
    idle.ok("FAILOVER");
    group.wait_for_other(old);
    wait_for("the old primary follows", || !is_primary(&group.servers[old]));
    // These clients connected to a primary, and would mistake stale data for the newest.
    let refused = reader.call("GET a").text();
    assert!(refused.starts_with("MASTERDOWN This server is no longer the primary"), "{refused}");
    assert!(reader.try_send(b"PING\r\n").is_err() || reader.try_read().is_err(), "the connection stays open");
    assert!(writer.call("EXEC").text().contains("MASTERDOWN"));
    assert_eq!(group.servers[old].connect().call("GET a").text(), "1", "a new connection may read old data");
    wait_for("idle clients are disconnected", || {
        idle.try_send(b"PING\r\n").is_err() || idle.try_read().is_err()
    });
    // The next primary serves clients that connected while it was a replica.
    let mut patient = group.servers[old].connect();
    group.servers[1 - old].connect().ok("FAILOVER");
    wait_for("the old primary leads again", || is_primary(&group.servers[old]));
    wait_for("it serves", || patient.call("SET a 2").text() == "OK");
}

#[test]
fn a_handover_refuses_and_loses_nothing() {
    let Some(group) = Group::start(3, &[]) else { return };
    let writer = Writer::start(&group.servers, true);
    for _ in 0..3 {
        wait_for_writes(&writer, 200);
        let (old, epoch) = (group.primary().expect("a primary"), group.epoch());
        group.servers[old].connect().ok("FAILOVER");
        group.wait_for_other(old);
        wait_for_writes(&writer, 200);
        assert_eq!(group.epoch(), epoch + 1, "a handover takes one epoch\n{}", group.logs());
        group.wait_until_in_sync();
    }
    let seen = writer.stop();
    assert!(!seen.went_back && seen.gap < GAP_MAX, "{seen:?}");
}

#[test]
fn a_primary_that_ends_in_good_order_leaves_no_lease_behind() {
    let Some(mut group) = Group::start(2, &[]) else { return };
    let old = group.primary().expect("a primary");
    group.servers[old].signal(Signal::TERM);
    group.servers[old].wait();
    let held = group.etcd.post("/v3/kv/range", r#"{"key":"L2JyYWlkL2cvcHJpbWFyeS8w"}"#);
    let node = group.record()["primary"].as_str().map(str::to_owned);
    let is_free = !held.contains("kvs") || node.is_some_and(|node| !node.starts_with(&format!("n{old}/")));
    assert!(is_free, "the lease still exists: {held}");
    group.wait_for_other(old);
}

#[test]
fn info_shows_the_group() {
    let Some(group) = Group::start(2, &[]) else { return };
    let primary = group.primary().expect("a primary");
    for (index, server) in group.servers.iter().enumerate() {
        let mut client = server.connect();
        let mut field = |name: &str| client.info_field("group", name).unwrap_or_default();
        assert_eq!((field("group_name"), field("node_name")), ("g".into(), format!("n{index}")));
        assert_eq!(field("group_role"), if index == primary { "primary" } else { "replica" });
        assert_eq!(field("group_primary"), format!("n{primary}"));
        assert_eq!((field("group_epoch"), field("group_in_sync")), ("1".into(), "n0,n1".into()));
        assert_eq!((field("group_members"), field("group_etcd_status")), ("2".into(), "up".into()));
        let lease: i64 = field("group_lease_ms").parse().expect("a number");
        assert!((1..=2000).contains(&lease), "{lease}");
        let port = group.servers[1].port();
        assert!(field("group_member1").starts_with(&format!("name=n1,host=127.0.0.1,port={port},")));
    }
}

#[test]
fn roles_are_the_groups_affair() {
    let Some(group) = Group::start(2, &[]) else { return };
    let primary = group.primary().expect("a primary");
    for command in ["REPLICAOF NO ONE", "REPLICAOF 127.0.0.1 1", "SLAVEOF NO ONE"] {
        for server in &group.servers {
            let reply = server.connect().call(command).text();
            assert!(reply.contains("not allowed in a group"), "{command}: {reply}");
        }
    }
    let replica = &group.servers[1 - primary];
    assert!(replica.connect().call("SET a 1").text().starts_with("READONLY"));
    let forced = format!("FAILOVER TO 127.0.0.1 {} FORCE TIMEOUT 100", replica.port());
    let reply = group.servers[primary].connect().call(&forced).text();
    assert!(reply.contains("not allowed in a group"), "{reply}");
    // This is not a setting: CONFIG REWRITE does not write it.
    let setting = group.servers[1 - primary].connect().call("CONFIG GET replicaof").to_string();
    assert!(!setting.contains("127.0.0.1"), "{setting}");
}

#[test]
fn a_primary_that_cannot_end_leads_on() {
    let Some(mut group) = Group::start(3, &["--rdb-key-save-delay", "20000"]) else { return };
    let primary = group.wait_for_primary();
    let mut client = group.servers[primary].connect();
    (0..50).for_each(|number| client.ok(&format!("SET k{number} x")));
    // A folder stands where the dump file would be.
    std::fs::create_dir_all(group.servers[primary].directory().join("dump.rdb/in-the-way")).expect("made");
    assert!(client.call("SHUTDOWN SAVE NOW").text().starts_with("ERR Errors trying to SHUTDOWN"));
    let replica = (primary + 1) % 3;
    group.servers[replica].signal(Signal::KILL);
    group.servers[replica].wait();
    // The server's group logic removes the replica from the set, so that this write need not wait
    // for it.
    client.ok("CLIENT DURABLE ON");
    client.ok("SET n 1");
    assert!(is_primary(&group.servers[primary]));
}
