// SPDX-License-Identifier: BSD-3-Clause
//! Replicas that stand still, or whose disk does: what the primary acknowledges meanwhile, and that
//! a healthy group goes on.

use braid_tests::{RawClient, Value, request, wait_for};
use rustix::process::Signal;

use crate::Group;

/// Microseconds for which a write of the append-only file takes: longer than a lease.
const STUCK: u64 = 8_000_000;

fn durable(group: &Group, index: usize) -> RawClient {
    let mut client = group.servers[index].connect();
    client.ok("CLIENT DURABLE ON");
    client
}

/// A member's line in INFO group of the primary.
fn line(client: &mut RawClient, name: &str) -> String {
    let info = client.call("INFO group").text();
    let is_it = |line: &&str| line.contains(&format!(":name={name},"));
    info.lines().find(is_it).unwrap_or_default().to_owned()
}

#[test]
fn a_write_that_no_replica_has_is_not_acknowledged() {
    let more = ["--min-sync-replicas", "1"];
    let Some(group) = Group::start(2, &more) else { return };
    let primary = group.primary().expect("a primary");
    let replica = 1 - primary;
    let mut admin = group.servers[primary].connect();
    durable(&group, primary).ok("SET before 1");
    let (mut writer, mut reader) = (durable(&group, primary), durable(&group, primary));
    group.servers[replica].signal(Signal::STOP);
    writer.send(&request("SET lost 1"));
    wait_for("the write is executed", || admin.call("EXISTS lost") == Value::Integer(1));
    reader.send(&request("GET lost"));
    let alone = format!("n{primary}");
    wait_for("the replica is removed", || {
        admin.info_field("group", "group_in_sync").as_ref() == Some(&alone)
    });
    let refused = durable(&group, primary).call("SET next 1").text();
    assert_eq!(refused, "NOREPLICAS Not enough in-sync replicas to write.");
    for client in [&mut writer, &mut reader] {
        let reply = client.read().text();
        assert!(reply.starts_with("UNCERTAIN "), "{reply}");
    }
    group.servers[replica].signal(Signal::CONT);
    group.wait_until_in_sync();
    wait_for("the set is large enough", || {
        let mut client = durable(&group, primary);
        client.try_send(&request("SET again 1")).is_ok()
            && client.try_read().is_ok_and(|reply| reply.text() == "OK")
    });
    assert_eq!(durable(&group, primary).call("GET lost").text(), "1");
}

#[test]
fn a_replica_whose_disk_stands_still_does_not_stop_the_others() {
    let more = [
        "--appendonly",
        "yes",
        "--appendfsync",
        "always",
        "--sync-level",
        "disk",
        "--sync-writes",
        "yes",
        "--min-sync-replicas",
        "1",
        "--enable-debug-command",
        "yes",
    ];
    let Some(group) = Group::start(3, &more) else { return };
    let primary = group.primary().expect("a primary");
    let sick = (primary + 1) % 3;
    let mut admin = group.servers[primary].connect();
    admin.ok("CLIENT DURABLE OFF");
    wait_for("writes work", || durable(&group, primary).call("SET k 1").text() == "OK");
    let mut link = group.servers[sick].connect();
    link.ok(&format!("DEBUG AOF-FLUSH-SLEEP {STUCK}"));
    let mut writer = durable(&group, primary);
    writer.send(&request("INCR n"));
    let name = format!("n{sick}");
    wait_for("the replica is kept out", || {
        line(&mut admin, &name).contains("in_sync=0") && line(&mut admin, &name).contains("held_out=")
    });
    // Each of these would wait for the disk that stands still.
    let mut writer = durable(&group, primary);
    for _ in 0..100 {
        let reply = writer.call("INCR n");
        assert!(matches!(reply, Value::Integer(_)), "{reply}\n{}", group.logs());
    }
    wait_for("the disk is named", || line(&mut admin, &name).contains("held_out=disk,held_out_ms=-1"));
    let log = group.servers[primary].log();
    assert!(log.contains(&format!("{name} is kept out of the in-sync set: ")), "{log}");
    link.ok("DEBUG AOF-FLUSH-SLEEP 0");
    group.wait_until_in_sync();
    assert!(!line(&mut admin, &name).contains("held_out="));
}
