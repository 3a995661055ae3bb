// SPDX-License-Identifier: BSD-3-Clause
//! ACTIVE FORGET, sent to one server, reaches all: those that are down at that time, and those
//! that have never met the removed region.

use super::crash::kept;
use super::{link, link_all, server, wait_until_equal};
use braid_tests::{TestServer, Value, wait_for};
use rustix::process::Signal;

fn members(server: &TestServer) -> String {
    server.connect().info_field("active", "active_members").expect("the field")
}

#[test]
fn a_server_that_was_down_learns_of_a_removed_region() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, two, mut three) = (server(1, &[]), server(2, &[]), kept(3, &folder, &[]));
    link_all(&[&one, &two, &three]);
    one.connect().ok("SET first 1");
    wait_until_equal(&[&one, &two, &three]);
    wait_for("the members to be known", || members(&three) == "1,2");
    drop(two);
    three.signal(Signal::TERM);
    three.wait();
    link(&one, &[]);
    one.connect().ok("ACTIVE FORGET 2");
    let mut three = kept(3, &folder, &[]);
    assert_eq!(members(&three), "1,2");
    link_all(&[&one, &three]);
    three.connect().ok("SET of-three 1");
    wait_until_equal(&[&one, &three]);
    assert_eq!(one.connect().call("EXISTS of-three"), Value::Integer(1));
    wait_for("the region to be gone", || members(&three) == "1");
    // It survives a restart, also without that peer.
    three.signal(Signal::KILL);
    three.wait();
    let three = kept(3, &folder, &[]);
    assert_eq!(members(&three), "1");
    assert!(!one.log().contains("give each server its own"), "{}", one.log());
}

#[test]
fn a_server_that_never_met_the_region_learns_of_its_removal() {
    let (one, two, three) = (server(1, &[]), server(2, &[]), server(3, &[]));
    link_all(&[&one, &two, &three]);
    one.connect().ok("SET first 1");
    wait_until_equal(&[&one, &two, &three]);
    drop(two);
    let four = server(4, &[]);
    link_all(&[&one, &three, &four]);
    wait_until_equal(&[&one, &three, &four]);
    wait_for("the members to be known", || members(&four) == "1,2,3");
    one.connect().ok("ACTIVE FORGET 2");
    for number in 0..10 {
        four.connect().ok(&format!("SET of-four:{number} 1"));
    }
    wait_until_equal(&[&one, &three, &four]);
    assert_eq!(one.connect().call("DBSIZE"), Value::Integer(11));
    for (server, left) in [(&one, "3,4"), (&three, "1,4"), (&four, "1,3")] {
        wait_for("the region to be gone", || members(server) == left);
    }
    for server in [&one, &three, &four] {
        assert_eq!(server.connect().info_field("active", "active_trouble").as_deref(), Some(""));
    }
}

/// The removal also passes along links that go one way only, against their direction.
#[test]
fn a_removal_passes_along_one_way_links() {
    let (one, two, three) = (server(1, &[]), server(2, &[]), server(3, &[]));
    link(&one, &[two.port()]);
    link(&two, &[three.port(), one.port()]);
    three.connect().ok("SET first 1");
    wait_for("the value", || one.connect().call("EXISTS first") == Value::Integer(1));
    wait_for("the members", || members(&one) == "2,3");
    // Three names nobody.
    three.connect().ok("ACTIVE FORGET 9");
    for server in [&one, &two] {
        wait_for("the removal", || server.log().contains("region 9 was removed permanently"));
    }
}

/// A removed server that comes back is told so.
#[test]
fn a_removed_server_that_comes_back_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let metrics = braid_tests::server::free_port();
    let one = server(1, &[]);
    let mut two = kept(2, &folder, &[]);
    link_all(&[&one, &two]);
    one.connect().ok("SET first 1");
    wait_until_equal(&[&one, &two]);
    two.signal(Signal::TERM);
    two.wait();
    link(&one, &[]);
    one.connect().ok("ACTIVE FORGET 2");
    let two = kept(2, &folder, &["--metrics-port", &metrics.to_string()]);
    link(&two, &[one.port()]);
    let expected = "region 2 was removed by ACTIVE FORGET";
    wait_for("the reason in INFO", || {
        two.connect().info_field("active", "active_trouble").is_some_and(|text| text.contains(expected))
    });
    assert!(two.log().contains(expected), "{}", two.log());
    let ready = || braid_tests::http::get(metrics, "/ready").unwrap_or_default();
    wait_for("it to be out of rotation", || ready().contains("refused"));
}
