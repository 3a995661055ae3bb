// SPDX-License-Identifier: BSD-3-Clause
//! Dependent settings, and the minimum size of the in-sync set.

use braid_tests::TestServer;

use crate::{Group, integer};

#[test]
fn sync_writes_need_a_group() {
    let server = TestServer::start(&[]);
    let mut client = server.connect();
    let refused = client.call("CONFIG SET sync-writes yes").text();
    assert!(refused.ends_with("sync-writes needs a group: this server is not in one"), "{refused}");
    assert_eq!(
        client.call("CONFIG GET sync-writes").elements().map(|pair| pair[1].text()),
        Some("no".into())
    );
    let refused = client.call("CLIENT DURABLE ON").text();
    assert_eq!(refused, "ERR Synchronous writes need a group: this server is not in one");
    client.ok("CLIENT DURABLE OFF");
    assert_eq!(client.call("CLIENT DURABLE maybe").text(), "ERR syntax error");
    let refused = client.call("CONFIG SET sync-level disk").text();
    assert!(refused.ends_with("sync-level disk needs appendonly yes"), "{refused}");
    client.ok("SET k 1");
}

#[test]
fn the_level_and_the_file_go_together() {
    let server = TestServer::start(&["--appendonly", "yes", "--sync-level", "disk"]);
    let mut client = server.connect();
    let refused = client.call("CONFIG SET appendonly no").text();
    assert!(refused.ends_with("sync-level disk needs appendonly yes"), "{refused}");
    client.ok("SET k 1");
    assert_eq!(client.info_field("persistence", "aof_enabled").as_deref(), Some("1"));
    let refused = client.call("CONFIG SET appendfsync no").text();
    assert!(refused.ends_with("sync-level disk needs appendfsync always or everysec"), "{refused}");
    let policy = client.call("CONFIG GET appendfsync");
    assert_eq!(policy.elements().map(|pair| pair[1].text()), Some("everysec".into()));
    client.ok("CONFIG SET appendfsync always");
    client.ok("CONFIG SET sync-level memory appendfsync no");
    let refused = client.call("CONFIG SET sync-level disk").text();
    assert!(refused.ends_with("sync-level disk needs appendfsync always or everysec"), "{refused}");
    client.ok("CONFIG SET appendonly no");
}

#[test]
fn too_small_in_sync_set_refuses_synchronous_writes() {
    let (mut group, mut members) = Group::with(&["a/1"], &["--min-sync-replicas", "2"]);
    let mut client = group.durable();
    const REFUSAL: &str = "NOREPLICAS Not enough in-sync replicas to write.";
    assert_eq!(client.call("SET k 1").text(), REFUSAL);
    let script = client.call("EVAL \"return redis.call('set', 'k', '1')\" 1 k").text();
    assert!(script.contains(REFUSAL), "{script}");
    client.ok("MULTI");
    assert_eq!(client.call("SET k 1").text(), REFUSAL);
    assert!(client.call("EXEC").text().starts_with("EXECABORT"));
    assert_eq!(group.admin.call("EXISTS k"), integer(0), "a refused write was executed");
    assert_eq!(client.call("EXISTS k"), integer(0), "a read was refused");
    group.admin.ok("SET k 2");
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge();
    client.ok("MULTI");
    group.admin.ok("CONFIG SET min-sync-replicas 1");
    client.call("EXEC");
    client.send(&braid_tests::request("SET k 3"));
    members[0].read_until("$1\r\n3\r\n");
    members[0].acknowledge();
    assert_eq!(client.read().text(), "OK");
}

#[test]
fn mistakes_of_members_are_named() {
    let group = Group::start(&[]);
    let mut link = group.server.connect();
    for (words, error) in [
        ("REPLCONF group-member a", "ERR REPLCONF group-member needs a node, a run and an epoch"),
        ("REPLCONF group-member a/b 1 1", "ERR REPLCONF group-member: a member must be node/run"),
        (
            "REPLCONF group-member a 1 0",
            "ERR REPLCONF group-member: the epoch must be a number of at least 1",
        ),
        (
            "REPLCONF group-member a 1 x",
            "ERR REPLCONF group-member: the epoch must be a number of at least 1",
        ),
        ("REPLCONF group-member a 1", "ERR syntax error"),
    ] {
        let told = link.call(words).text();
        assert!(told.starts_with(error), "{words}: {told}");
    }
    link.ok("REPLCONF group-member a 1 7 capa psync2");
}
