// SPDX-License-Identifier: BSD-3-Clause
//! The fence: a server that cannot prove that it is the primary serves no data.

use braid_tests::{request, wait_for};

use crate::{Group, assert_held, assert_uncertain, send_held};

const REFUSAL: &str = "MASTERDOWN This server cannot prove at present that it is the primary of its group.";

#[test]
fn data_is_not_served_beyond_the_lease() {
    let mut group = Group::start(&[]);
    group.set(1, &[]);
    let mut client = group.server.connect();
    client.ok("SET k 1");
    group.admin.ok("DEBUG SERVE-UNTIL never");
    let data = [
        "GET k",
        "SET k 2",
        "MGET k j",
        "DBSIZE",
        "EVAL return(1) 0",
        "PUBLISH news x",
        "OBJECT ENCODING k",
        "SCAN 0",
        "FLUSHALL",
        "BLPOP list 1",
        "FCALL f 0",
    ];
    for text in data {
        assert_eq!(client.call(text).text(), REFUSAL, "{text}");
    }
    for text in ["PING", "INFO", "CONFIG GET maxmemory", "CLIENT ID", "ROLE", "SUBSCRIBE news", "ECHO x"] {
        assert!(!client.call(text).text().starts_with("MASTERDOWN"), "{text}");
    }
    let mut transaction = group.server.connect();
    transaction.ok("MULTI");
    assert_eq!(transaction.call("SET k 2").text(), REFUSAL);
    assert!(transaction.call("EXEC").text().starts_with("EXECABORT"));
    group.admin.ok("DEBUG SERVE-UNTIL always");
    transaction.ok("MULTI");
    transaction.call("SET k 2");
    group.admin.ok("DEBUG SERVE-UNTIL never");
    assert_eq!(
        transaction.call("EXEC").text(),
        format!("EXECABORT Transaction discarded because of: {REFUSAL}")
    );
    group.admin.ok("DEBUG SERVE-UNTIL 200");
    assert_eq!(transaction.call("GET k").text(), "1");
    wait_for("the lease ends", || transaction.call("GET k").text() == REFUSAL);
    group.admin.ok("DEBUG SERVE-UNTIL 60000");
    assert_eq!(transaction.call("GET k").text(), "1");
}

#[test]
fn refusals_do_not_wait_for_members() {
    let (mut group, _members) = Group::with(&["a/1"], &["--sync-timeout", "100"]);
    let (mut writer, mut reader) = (group.durable(), group.durable());
    send_held(&mut writer, "SET k 1");
    group.admin.ok("DEBUG SERVE-UNTIL never");
    // The writer's change is not acknowledged, and never will be.
    assert_eq!(reader.call("GET k").text(), REFUSAL);
    assert_eq!(reader.call("SET k 2").text(), REFUSAL);
    assert_uncertain(&mut writer);
}

#[test]
fn held_replies_wait_for_the_right_to_serve() {
    let (mut group, mut members) = Group::with(&["a/1"], &[]);
    let mut client = group.durable();
    send_held(&mut client, "SET k 1");
    group.admin.ok("DEBUG SERVE-UNTIL never");
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge();
    assert_held(&mut client);
    group.admin.ok("DEBUG SERVE-UNTIL 60000");
    assert_eq!(client.read().text(), "OK");
}

#[test]
fn held_replies_become_uncertain_without_right_to_serve() {
    let (mut group, mut members) = Group::with(&["a/1"], &["--sync-timeout", "100"]);
    let mut client = group.durable();
    send_held(&mut client, "SET k 1");
    group.admin.ok("DEBUG SERVE-UNTIL never");
    members[0].catch_up(&mut group.admin);
    members[0].acknowledge();
    client.send(&request("GET k"));
    assert_uncertain(&mut client);
}
