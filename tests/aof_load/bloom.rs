// SPDX-License-Identifier: BSD-3-Clause
//! Bloom filters survive a restart: after a kill during additions, after a rewrite in either
//! form, and after a save.

use braid_tests::{RawClient, Value};

use super::restarts::Restarts;
use super::rewrite;

/// Adds items in batches; every request must be acknowledged.
fn add(client: &mut RawClient, items: std::ops::Range<u32>) {
    for chunk in items.collect::<Vec<_>>().chunks(50) {
        let names: Vec<String> = chunk.iter().map(|item| format!("item:{item}")).collect();
        let added = client.call(&format!("BF.MADD filter {}", names.join(" ")));
        assert_eq!(added.elements().map(<[Value]>::len), Some(chunk.len()));
    }
}

/// Asserts that every acknowledged item is found, and few others.
#[track_caller]
fn check(client: &mut RawClient, items: u32) {
    let found = |client: &mut RawClient, prefix: &str| {
        (0..items)
            .filter(|item| client.call(&format!("BF.EXISTS filter {prefix}:{item}")) == Value::Integer(1))
            .count()
    };
    assert_eq!(found(client, "item"), items as usize);
    let wrong = found(client, "other");
    assert!(wrong < items as usize / 20, "{wrong} of {items} are false positives");
    assert_eq!(client.call("TYPE filter").text(), "MBbloom--");
}

#[test]
fn filters_survive_kills_rewrites_and_saves() {
    for restarts in Restarts::in_both_forms() {
        let (server, mut client) = restarts.start();
        client.ok("BF.RESERVE filter 0.01 100");
        add(&mut client, 0..500);
        let digest = client.call("DEBUG DIGEST-VALUE filter").to_string();
        drop(server);
        let (server, mut client) = restarts.start();
        check(&mut client, 500);
        assert_eq!(client.call("DEBUG DIGEST-VALUE filter").to_string(), digest);
        rewrite(&mut client);
        add(&mut client, 500..700);
        drop(server);
        let (_server, mut client) = restarts.start();
        check(&mut client, 700);
        let digest = client.call("DEBUG DIGEST-VALUE filter").to_string();
        client.ok("DEBUG RELOAD");
        assert_eq!(client.call("DEBUG DIGEST-VALUE filter").to_string(), digest);
        check(&mut client, 700);
    }
}
