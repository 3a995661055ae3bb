// SPDX-License-Identifier: BSD-3-Clause
//! MIGRATE moves values; by itself it picks a version that the target loads.

use braid_tests::Value;
use braid_tests::random::source;
use braid_tests::server::{Peer, newer_peers, stock};

use crate::content::content;
use crate::{Side, fill};

impl Side {
    /// A key's content, and whether it expires.
    fn content(&mut self, key: &[u8], times: bool) -> Vec<String> {
        let mut lines = content(&mut self.client, key, times);
        let expiry = self.client.call_arguments(&[&b"PTTL"[..], key]).integer().unwrap_or_default();
        lines.push(if expiry > 0 { "expires".to_owned() } else { expiry.to_string() });
        lines
    }
}

/// Moves every key and compares. Only hashes with expiring fields may stay, if the target does
/// not support them.
fn move_all(from: &mut Side, to: &mut Side, times: bool) -> usize {
    let route = format!("{} to {}", from.name, to.name);
    to.client.ok("FLUSHALL");
    let (keys, port) = (from.keys(), to.server.port().to_string());
    let to_times = to.has_field_expiry;
    let both = times && to_times;
    for key in keys.iter().step_by(3) {
        from.client.call_arguments(&[&b"PEXPIRE"[..], key, b"10000000"]);
    }
    let before: Vec<Vec<String>> = keys.iter().map(|key| from.content(key, both)).collect();
    let mut moved = 0;
    for (some, contents) in keys.chunks(10).zip(before.chunks(10)) {
        let mut request: Vec<&[u8]> =
            vec![b"MIGRATE", b"127.0.0.1", port.as_bytes(), b"", b"0", b"60000", b"KEYS"];
        request.extend(some.iter().map(|key| &key[..]));
        let reply = from.client.call_arguments(&request);
        let has_stayed = |side: &mut Side, key: &[u8]| {
            side.client.call_arguments(&[&b"EXISTS"[..], key]) == Value::Integer(1)
        };
        let mut stayed = false;
        for (key, content) in some.iter().zip(contents) {
            let label = format!("{route}: {}", String::from_utf8_lossy(key));
            if has_stayed(from, key) {
                assert!(times && !to_times && content[0] == "hash", "{label}: {reply}");
                assert!(!has_stayed(to, key), "{label} is on both servers");
                stayed = true;
                continue;
            }
            assert_eq!(*content, to.content(key, both), "{label}");
            moved += 1;
        }
        if stayed {
            let text = reply.text();
            let error =
                "ERR Target instance replied with error: ERR DUMP payload version or checksum are wrong";
            assert_eq!(text, error, "{route}");
        } else {
            assert_eq!(reply, Value::ok(), "{route}");
        }
    }
    moved
}

/// As in `values_travel_between_servers`, and including the expiry of keys.
#[test]
fn values_are_moved_between_servers() {
    let mut random = source("values_are_moved_between_servers");
    let peers: Vec<Peer> = stock().into_iter().chain(newer_peers()).collect();
    if peers.is_empty() {
        println!("skipped, stock targets: no stock server");
    }
    let own_times = Side::start(None).has_field_expiry;
    for peer in peers.iter().map(Some).chain([None]) {
        let (mut own, mut other) = (Side::start(None), Side::start(peer));
        let times = own_times && other.has_field_expiry;
        for (from_own, has_times) in [(true, own_times), (false, times)] {
            let (from, to) = if from_own { (&mut own, &mut other) } else { (&mut other, &mut own) };
            from.client.ok("FLUSHALL");
            fill::fill(&mut from.client, &mut fastrand::Rng::with_seed(random.u64(..)), has_times);
            let count = from.keys().len();
            let moved = move_all(from, to, has_times);
            println!("{} to {}: {moved} of {count}", from.name, to.name);
            assert!(moved == count || has_times && moved * 2 > count);
        }
    }
}
