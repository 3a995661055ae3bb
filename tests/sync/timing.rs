// SPDX-License-Identifier: BSD-3-Clause
//! Members that do not acknowledge in time, and demotion of the primary.

use braid_tests::{Value, request, wait_for};

use crate::{Group, assert_uncertain, integer, send_held};

#[test]
fn replies_become_uncertain_after_sync_timeout() {
    let (mut group, members) = Group::with(&["a/1", "b/1"], &["--sync-timeout", "100"]);
    let (mut writer, mut reader, mut pipeline) = (group.durable(), group.durable(), group.durable());
    send_held(&mut writer, "SET k 1");
    send_held(&mut reader, "GET k");
    pipeline.send(&[request("SET a 1"), request("GET a"), request("PING")].concat());
    wait_for("both members to be slow", || {
        let slow = group.admin.call("DEBUG IN-SYNC");
        let names: Vec<String> = slow.elements().unwrap_or_default().iter().map(Value::text).collect();
        names == ["a/1", "b/1"]
    });
    for client in [&mut writer, &mut reader, &mut pipeline] {
        assert_uncertain(client);
    }
    assert_eq!(group.admin.call("GET a").text(), "1");
    drop(members);
}

#[test]
fn a_slow_member_alone_is_named_and_leaves_by_the_set_only() {
    let (mut group, mut members) = Group::with(&["a/1", "b/1"], &["--sync-timeout", "100"]);
    let mut client = group.durable();
    client.send(&request("SET k 1"));
    members[0].read_until("$1\r\nk\r\n$1\r\n1\r\n");
    members[0].acknowledge();
    wait_for("one member to be slow", || {
        let slow = group.admin.call("DEBUG IN-SYNC");
        slow.elements().is_some_and(|slow| slow.len() == 1 && slow[0].text() == "b/1")
    });
    group.set(1, &["a/1"]);
    assert_eq!(client.read().text(), "OK");
    assert_eq!(group.admin.call("DEBUG IN-SYNC").elements().map(<[Value]>::len), Some(0));
}

#[test]
fn demoted_primary_reports_held_writes_as_uncertain() {
    let (mut group, _members) = Group::with(&["a/1"], &[]);
    let (mut writer, mut old) = (group.durable(), group.durable());
    // This client has been blocked before, for another reason.
    assert_eq!(old.call("BLPOP list 0.01"), Value::NullArray);
    send_held(&mut writer, "INCR n");
    group.admin.ok("REPLICAOF 127.0.0.1 1");
    assert_uncertain(&mut writer);
    group.admin.ok("REPLICAOF NO ONE");
    group.set(2, &[]);
    assert_eq!(old.call("GET n").text(), "1");
}

#[test]
fn former_primary_reports_uncertainty_immediately() {
    let (mut group, mut members) = Group::with(&["a/1"], &[]);
    let (mut writer, mut listener) = (group.durable(), group.durable());
    send_held(&mut writer, "INCR n");
    listener.send(&request("BLPOP list 0"));
    wait_for("BLPOP waits", || group.admin.info_field("clients", "blocked_clients").as_deref() == Some("1"));
    group.admin.ok("DEBUG IN-SYNC OFF");
    assert_uncertain(&mut writer);
    // The client was blocked before the change, and cannot know which servers have the element it
    // is served.
    assert_eq!(group.admin.call("RPUSH list a"), integer(1));
    assert_uncertain(&mut listener);
    let mut fresh = group.durable();
    assert_eq!(fresh.call("INCR n"), integer(2));
    group.set(2, &["a/1"]);
    send_held(&mut fresh, "GET n");
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge();
    send_held(&mut group.durable(), "GET n");
}
