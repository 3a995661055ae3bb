// SPDX-License-Identifier: BSD-3-Clause
//! etcd is stopped, killed, slow, or has lost its data.

use std::time::{Duration, Instant};

use braid_tests::wait_for;

use crate::Group;
use crate::writer::Writer;

/// Longer than a lease lasts.
const OUTAGE: Duration = Duration::from_secs(6);

/// Lets time pass while the writer goes on, and checks that it does.
fn goes_on_for(writer: &Writer, time: Duration) {
    let begin = Instant::now();
    let mut last = (Instant::now(), writer.acknowledged());
    wait_for("time passes", || {
        let count = writer.acknowledged();
        if count != last.1 {
            last = (Instant::now(), count);
        }
        assert!(last.0.elapsed() < Duration::from_secs(4), "the writer stands still");
        begin.elapsed() >= time
    });
}

#[test]
fn service_goes_on_without_etcd_and_roles_do_not_change() {
    let Some(mut group) = Group::start(3, &[]) else { return };
    let writer = Writer::start(&group.servers, true);
    let (primary, epoch) = (group.primary().expect("a primary"), group.epoch());
    group.etcd.stop();
    goes_on_for(&writer, OUTAGE);
    group.etcd.restart();
    goes_on_for(&writer, OUTAGE);
    group.etcd.pause();
    goes_on_for(&writer, OUTAGE);
    group.etcd.resume();
    goes_on_for(&writer, OUTAGE);
    assert_eq!((group.primary(), group.epoch()), (Some(primary), epoch), "{}", group.logs());
    let seen = writer.stop();
    assert!(!seen.went_back, "{seen:?}");
    // It is one line when it begins and one when it ends, not one per attempt.
    let log = group.servers[primary].log();
    assert!(log.matches("the group goes on as it is").count() <= 4, "{log}");
    assert!(log.contains("etcd can be used again"), "{log}");
}

#[test]
fn the_record_is_written_again_when_etcd_has_lost_it() {
    let Some(group) = Group::start(3, &[]) else { return };
    let writer = Writer::start(&group.servers, true);
    let (primary, epoch) = (group.primary().expect("a primary"), group.epoch());
    let keys = group.etcd.post("/v3/kv/deleterange", r#"{"key":"L2JyYWlkLw==","range_end":"L2JyYWlkMA=="}"#);
    assert!(keys.contains("deleted"), "{keys}");
    wait_for("the primary has written the record again", || group.epoch() > epoch);
    group.wait_until_in_sync();
    goes_on_for(&writer, Duration::from_secs(3));
    assert_eq!(group.primary(), Some(primary));
    let seen = writer.stop();
    assert!(!seen.went_back, "{seen:?}");
}
