// SPDX-License-Identifier: BSD-3-Clause
//! Search indexes survive a restart: after kills during changes, after a rewrite in either form,
//! and after a save. What is found is then what is there, and what was acknowledged.

use std::collections::BTreeSet;

use braid_tests::server::is_braid;
use braid_tests::{RawClient, wait_for};

use super::{DataFolder, rewrite};

const WORDS: [&str; 5] = ["red", "green", "blue", "black", "white"];

/// Waits until the index has looked at everything, and returns the keys that each word finds.
fn found(client: &mut RawClient) -> Vec<BTreeSet<String>> {
    wait_for("the index is complete", || is_complete(client));
    let of = |client: &mut RawClient, word: &str| {
        let reply = client.call(&format!("FT.SEARCH i {word} NOCONTENT LIMIT 0 100000")).to_string();
        reply.split('"').filter(|part| part.starts_with("d:")).map(str::to_owned).collect()
    };
    WORDS.iter().map(|word| of(client, word)).collect()
}

fn is_complete(client: &mut RawClient) -> bool {
    // The figure is a text in RESP2: 1 once all shards have been seen.
    let info = client.call("FT.INFO i").to_string();
    let Some((_, after)) = info.split_once("percent_indexed") else { return false };
    after.trim_start_matches(|one: char| !one.is_ascii_digit()).starts_with('1')
}

/// The same, from the keys themselves.
fn there(client: &mut RawClient) -> Vec<BTreeSet<String>> {
    let keys = client.call("KEYS d:*").to_string();
    let keys: Vec<String> =
        keys.split('"').filter(|part| part.starts_with("d:")).map(str::to_owned).collect();
    let mut sets = vec![BTreeSet::new(); WORDS.len()];
    for key in keys {
        let text = client.call(&format!("HGET {key} t")).to_string();
        for (word, set) in WORDS.iter().zip(&mut sets) {
            if text.contains(word) {
                set.insert(key.clone());
            }
        }
    }
    sets
}

/// Changes some keys; the answered requests.
fn change(client: &mut RawClient, random: &mut fastrand::Rng, count: usize) {
    for _ in 0..count {
        let (key, word) = (random.u32(..200), WORDS[random.usize(..WORDS.len())]);
        let request = match random.u32(..10) {
            0 => format!("DEL d:{key}"),
            1 => format!("HDEL d:{key} t"),
            2 => format!("RENAME d:{key} d:{}", random.u32(..200)),
            3 => format!("HSET other:{key} t {word}"),
            _ => format!("HSET d:{key} t \"{word} {}\" n {key}", WORDS[random.usize(..WORDS.len())]),
        };
        client.call(&request);
    }
}

#[test]
fn what_is_found_after_kills_rewrites_and_saves_is_what_is_there() {
    if !is_braid() {
        return;
    }
    let mut random = fastrand::Rng::with_seed(47);
    for preamble in ["yes", "no"] {
        let place = DataFolder::new();
        let arguments =
            ["--appendfsync", "always", "--aof-use-rdb-preamble", preamble, "--enable-debug-command", "yes"];
        let mut server = place.start(&arguments);
        let mut client = server.connect();
        client.ok("FT.CREATE i PREFIX 1 d: SCHEMA t TEXT n NUMERIC SORTABLE");
        client.ok("FT.ALIASADD other i");
        for round in 0..10 {
            change(&mut client, &mut random, 300);
            assert_eq!(found(&mut client), there(&mut client), "round {round}: while it runs");
            let before = there(&mut client);
            match round {
                3 => {
                    rewrite(&mut client);
                }
                6 => client.ok("DEBUG RELOAD"),
                _ => {}
            }
            // Dropping the server kills it.
            drop(client);
            drop(server);
            server = place.start(&arguments);
            client = server.connect();
            assert_eq!(there(&mut client), before, "round {round}: what was acknowledged is there");
            assert_eq!(found(&mut client), before, "round {round}: and found");
            let by_alias = client.call("FT.SEARCH other @n:[0 1000] LIMIT 0 0").to_string();
            let by_name = client.call("FT.SEARCH i @n:[0 1000] LIMIT 0 0").to_string();
            assert_eq!(by_alias, by_name, "round {round}");
        }
    }
}
