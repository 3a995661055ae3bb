// SPDX-License-Identifier: BSD-3-Clause
//! etcd is stopped, killed, slow, or has lost its data.
//!
//! `BRAID_OUTAGE_SECONDS=600 cargo test -p braid-tests --test group without_etcd -- --nocapture`
//! sets the length of etcd's outage.

use std::time::{Duration, Instant};

use braid_tests::random::number;
use braid_tests::wait::PATIENCE;
use braid_tests::{wait_for, wait_for_within};

use crate::writer::Writer;
use crate::{Group, is_primary};

/// Longer than a lease.
const OUTAGE: Duration = Duration::from_secs(6);

/// Waits for this time, and asserts that the writer makes progress throughout.
fn assert_progress_during(writer: &Writer, time: Duration) {
    let begin = Instant::now();
    let mut last = (Instant::now(), writer.acknowledged());
    let passed = wait_for_within(time + PATIENCE, || {
        let count = writer.acknowledged();
        if count != last.1 {
            last = (Instant::now(), count);
        }
        assert!(last.0.elapsed() < Duration::from_secs(4), "the writer makes no progress");
        begin.elapsed() >= time
    });
    assert!(passed);
}

#[test]
fn service_and_roles_survive_an_etcd_outage() {
    let Some(mut group) = Group::start(3, &[]) else { return };
    let writer = Writer::start(&group.servers, true);
    let (primary, epoch) = (group.primary().expect("a primary"), group.epoch());
    group.etcd.stop();
    let outage = Duration::from_secs(number("BRAID_OUTAGE_SECONDS", OUTAGE.as_secs()));
    let before = writer.acknowledged();
    assert_progress_during(&writer, outage);
    println!("{} writes while etcd was away for {outage:?}", writer.acknowledged() - before);
    group.etcd.restart();
    assert_progress_during(&writer, OUTAGE);
    group.etcd.pause();
    assert_progress_during(&writer, OUTAGE);
    group.etcd.resume();
    assert_progress_during(&writer, OUTAGE);
    assert_eq!((group.primary(), group.epoch()), (Some(primary), epoch), "{}", group.logs());
    let seen = writer.stop();
    println!("{seen:?}");
    assert!(!seen.went_back, "{seen:?}");
    // One line when the outage begins and one when it ends, not one per attempt.
    let log = group.servers[primary].log();
    assert!(log.matches("the group's roles stay as they are").count() <= 4, "{log}");
    assert!(log.contains("etcd is available again"), "{log}");
}

#[test]
fn etcds_authentication_is_switched_on_and_off_under_a_group() {
    let user = ["--etcd-user", "bob", "--etcd-password", "pw"];
    let Some(mut group) = Group::start(3, &user) else { return };
    let writer = Writer::start(&group.servers, true);
    let primary = group.primary().expect("a primary");
    let etcd_is_up = |group: &Group| {
        let is_up = |server: &braid_tests::TestServer| {
            let mut client = server.connect();
            client.info_field("group", "group_etcd_status").as_deref() == Some("up")
                && client.info_field("group", "group_etcd_error").as_deref() == Some("")
        };
        wait_for("etcd is up at all members", || group.servers.iter().all(is_up));
    };
    // Longer than a lease in each state; then another server takes over in it.
    group.etcd.enable_auth("bob", "pw", "/braid/g/", "/braid/g0");
    assert_progress_during(&writer, OUTAGE);
    etcd_is_up(&group);
    assert_eq!(group.primary(), Some(primary), "{}", group.logs());
    group.etcd.disable_auth("pw");
    assert_progress_during(&writer, OUTAGE);
    etcd_is_up(&group);
    assert_eq!(group.primary(), Some(primary), "{}", group.logs());
    group.servers[primary].signal(rustix::process::Signal::KILL);
    group.servers[primary].wait();
    group.wait_for_other(primary);
    group.restart(primary);
    group.wait_until_in_sync();
    group.etcd.enable_auth_again();
    let primary = group.primary().expect("a primary");
    group.servers[primary].signal(rustix::process::Signal::KILL);
    group.servers[primary].wait();
    group.wait_for_other(primary);
    let before = writer.acknowledged();
    wait_for("writes go on", || writer.acknowledged() > before);
    let seen = writer.stop();
    assert!(!seen.went_back, "{seen:?}");
    assert!(group.logs().contains("etcd's authentication is off: etcd-user is not used until it is on"));
}

#[test]
fn the_record_is_written_again_when_etcd_has_lost_it() {
    let Some(group) = Group::start(3, &[]) else { return };
    let writer = Writer::start(&group.servers, true);
    let (primary, epoch) = (group.primary().expect("a primary"), group.epoch());
    let keys = group.etcd.post("/v3/kv/deleterange", r#"{"key":"L2JyYWlkLw==","range_end":"L2JyYWlkMA=="}"#);
    assert!(keys.contains("deleted"), "{keys}");
    wait_for("the primary has rewritten the record", || group.epoch() > epoch);
    group.wait_until_in_sync();
    assert_progress_during(&writer, Duration::from_secs(3));
    assert_eq!(group.primary(), Some(primary));
    let seen = writer.stop();
    assert!(!seen.went_back, "{seen:?}");
}

/// Asserts that the primary keeps its role and rewrites the record, and that the others are in
/// sync under it.
fn assert_record_restored(group: &Group, writer: Writer, primary: usize, epoch: u64) {
    wait_for("the primary has rewritten the record", || group.epoch() > epoch);
    group.wait_until_in_sync();
    assert_progress_during(&writer, Duration::from_secs(3));
    assert_eq!(group.primary(), Some(primary), "{}", group.logs());
    let others = group.servers.iter().filter(|server| is_primary(server)).count();
    assert_eq!(others, 1, "{}", group.logs());
    let seen = writer.stop();
    assert!(!seen.went_back, "{seen:?}");
    let told = "etcd's data has gone back: it was restored from a backup, or lost";
    let log = group.servers[primary].log();
    assert!(log.contains(told), "{log}");
}

#[test]
fn a_backup_from_before_a_failover_is_not_believed() {
    let Some(mut group) = Group::start(3, &[]) else { return };
    let Some(backup) = group.etcd.back_up() else { return };
    let old = group.primary().expect("a primary");
    let writer = Writer::start(&group.servers, true);
    group.servers[old].connect().ok("FAILOVER");
    let new = group.wait_for_other(old);
    group.wait_until_in_sync();
    let epoch = group.epoch();
    // The restored record names the old primary, with an epoch that has ended.
    group.etcd.restore(&backup);
    assert_record_restored(&group, writer, new, epoch);
    // A server that joins from now on finds the right record.
    let replica = (0..3).find(|&index| index != new).expect("a replica");
    group.servers[replica].signal(rustix::process::Signal::KILL);
    group.servers[replica].wait();
    group.restart(replica);
    group.wait_until_in_sync();
    assert_eq!(group.primary(), Some(new));
}

#[test]
fn an_etcd_that_starts_with_nothing_gets_the_record_anew() {
    let Some(mut group) = Group::start(3, &[]) else { return };
    let writer = Writer::start(&group.servers, true);
    let (primary, epoch) = (group.primary().expect("a primary"), group.epoch());
    group.etcd.restart_empty();
    assert_record_restored(&group, writer, primary, epoch);
}
