// SPDX-License-Identifier: BSD-3-Clause
//! Arrays survive a restart, with cursor and ring: after a kill, after a rewrite in either form,
//! and after a save; and a replica has them.

use braid_tests::RawClient;

use super::restarts::{Restarts, digests};

fn add(client: &mut RawClient, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let long = "x".repeat((number % 7 * number % 900) as usize);
        client.call(&format!("ARINSERT plain {number} text:{long}"));
        client.call(&format!("ARSET far {} {number}{long} -{number}", number * number * 1_000_003));
        client.call(&format!("ARRING ring 20 {number}"));
        client.call(&format!("ARRING holes {} {number}", 30 + number / 100));
        client.call(&format!("ARDEL holes 0 {}", number % 9));
    }
    client.call("ARSET far 18446744073709551614 last");
    client.call("ARSEEK far 18446744073709551615");
}

/// Content, cursor and the size of the ring (which decides what ARRING with another size keeps).
fn digest(client: &mut RawClient) -> String {
    assert_eq!(client.call("ARNEXT far").to_string(), "(nil)");
    digests(client, &["plain", "far", "ring", "holes"])
}

#[test]
fn arrays_survive_kills_rewrites_and_saves() {
    for restarts in Restarts::in_both_forms() {
        let mut parts = [0..150, 150..230, 230..250].into_iter();
        let change = |client: &mut RawClient| {
            add(client, parts.next().expect("another part"));
            if parts.len() == 0 {
                client.call("ARRING ring 7 smaller");
            }
        };
        restarts.keep(change, digest);
    }
}
