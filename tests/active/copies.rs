// SPDX-License-Identifier: BSD-3-Clause
//! Full copies, which peers fetch in parts.

use super::{bring_to_log, link, server, wait_until_equal};
use braid_tests::{TestServer, Value, wait_for};

/// Size of a value in bytes, and number of values in a batch of concurrent writes.
const VALUE: usize = 400;
const PART: usize = 100;

#[test]
fn a_peer_that_takes_a_copy_needs_no_other() {
    let backlog = ["--active-backlog-size", "1mb", "--active-backlog-disk-size", "0"];
    let (one, two) = (server(1, &backlog), server(2, &backlog));
    let mut client = one.connect();
    let value = "v".repeat(VALUE);
    let mut write = |part: usize| {
        let pairs = (0..PART).map(|at| format!("key:{} {value}{part}", part * PART + at));
        client.ok(&format!("MSET {}", pairs.collect::<Vec<_>>().join(" ")));
    };
    (0..200).for_each(&mut write);
    bring_to_log(&one);
    link(&one, &[two.port()]);
    link(&two, &[one.port()]);
    // Four times the capacity of the backlog, while the copy is made, sent and merged.
    (0..100).for_each(&mut write);
    wait_until_equal(&[&one, &two]);
    let merged = |server: &TestServer| {
        server.connect().info_field("active", "active_full_copies_merged").expect("the field")
    };
    assert_eq!([merged(&one), merged(&two)], ["0", "1"]);
}

#[test]
fn parts_of_a_copy_follow_each_other() {
    let one = server(1, &[]);
    let mut client = one.connect();
    client.ok("SET key value");
    assert_eq!(client.call("ACTIVE COPY MORE").elements(), Some(&[Value::Integer(-1)][..]), "no copy yet");
    let copy = client.call("ACTIVE COPY");
    let parts = copy.elements().expect("a list");
    assert_eq!(parts[0], Value::Integer(0), "no more parts follow");
    assert!(parts.len() > 1);
    assert_eq!(
        client.call("ACTIVE COPY MORE").elements(),
        Some(&[Value::Integer(-1)][..]),
        "the copy was complete"
    );
    assert!(matches!(client.call("ACTIVE COPY other"), Value::Error(_)));
    assert!(matches!(client.call("ACTIVE COPY MORE MORE"), Value::Error(_)));
}

/// A second client's copy does not wait until the first client asks for the rest, which never
/// happens.
#[test]
fn copy_is_abandoned_when_its_client_disconnects() {
    let one = server(1, &[]);
    let mut client = one.connect();
    let value = "v".repeat(1 << 20);
    for number in 0..10 {
        client.ok(&format!("SET key:{number} {value}"));
    }
    wait_for("the writes to become units", || {
        client.info_field("active", "active_own_units").as_deref() == Some("10")
    });
    let mut first = one.connect();
    let copy = first.call("ACTIVE COPY");
    assert_eq!(copy.elements().expect("a list")[0], Value::Integer(1), "more parts follow");
    drop(first);
    let copy = client.call("ACTIVE COPY");
    assert_eq!(copy.elements().expect("a list")[0], Value::Integer(1));
    let copy = client.call("ACTIVE COPY MORE");
    assert!(copy.elements().expect("a list").len() > 1);
}
