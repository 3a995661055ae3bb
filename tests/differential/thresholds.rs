// SPDX-License-Identifier: BSD-3-Clause
//! Collections that grow and shrink across every threshold between small and large encodings, one
//! element at a time: replies, `OBJECT ENCODING` and finally the whole content must equal those
//! of newer stock servers, whose encodings Braid shares.

use braid_tests::server::{is_braid, newer_peers};

use crate::generator::Command;
use crate::pair::{Item, Manner, Pair};

/// A sequence of commands, each followed by a check of the key's encoding.
struct Walk {
    key: &'static str,
    items: Vec<Item>,
}

impl Walk {
    fn new(key: &'static str) -> Walk {
        Walk { key, items: Vec::new() }
    }

    fn push(&mut self, words: &[&str]) {
        let command: Command = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        self.items.push(Item { connection: 0, command });
    }

    fn step(&mut self, words: &[&str]) {
        self.push(words);
        self.push(&["OBJECT", "ENCODING", self.key]);
    }
}

fn hashes() -> Walk {
    let mut walk = Walk::new("h");
    for n in 0..515 {
        walk.step(&["HSET", "h", &format!("field:{n}"), &format!("{n}")]);
    }
    for n in 0..514 {
        walk.step(&["HDEL", "h", &format!("field:{n}")]);
    }
    walk.push(&["HGETALL", "h"]);
    walk.step(&["DEL", "h"]);
    for len in [63, 64, 65] {
        walk.step(&["HSET", "h", "a", &"v".repeat(len)]);
        walk.step(&["DEL", "h"]);
        walk.step(&["HSET", "h", &"f".repeat(len), "v"]);
        walk.step(&["HSET", "h", "a", "b"]);
        walk.step(&["DEL", "h"]);
        walk.step(&["HSETNX", "h", "a", &"v".repeat(len)]);
        walk.step(&["HINCRBY", "h", &"n".repeat(len), "1"]);
        walk.step(&["HINCRBYFLOAT", "h", "x", "1.5"]);
        walk.step(&["DEL", "h"]);
    }
    walk
}

fn sets() -> Walk {
    let mut walk = Walk::new("e");
    for n in 0..515 {
        walk.step(&["SADD", "e", &format!("{}", n * 1_000_003)]);
    }
    for n in 0..514 {
        walk.step(&["SREM", "e", &format!("{}", n * 1_000_003)]);
    }
    walk.step(&["DEL", "e"]);
    for n in 0..131 {
        walk.step(&["SADD", "e", &format!("member:{n}")]);
    }
    for n in 0..130 {
        walk.step(&["SREM", "e", &format!("member:{n}")]);
    }
    walk.push(&["SMEMBERS", "e"]);
    for count in [1, 100, 127, 128, 129, 300] {
        // Integers, then one text among them.
        walk.step(&["DEL", "e"]);
        let numbers: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        let mut words = vec!["SADD", "e"];
        words.extend(numbers.iter().map(String::as_str));
        walk.step(&words);
        walk.step(&["SADD", "e", "text"]);
        walk.step(&["SREM", "e", "text"]);
        walk.step(&["SINTERSTORE", "e", "e", "e"]);
        walk.step(&["SUNIONSTORE", "e", "e"]);
        walk.step(&["SDIFFSTORE", "e", "e", "nosuch"]);
    }
    for len in [63, 64, 65] {
        walk.step(&["DEL", "e"]);
        walk.step(&["SADD", "e", &"m".repeat(len)]);
        walk.step(&["SADD", "e", "1"]);
    }
    walk
}

fn sorted_sets() -> Walk {
    let mut walk = Walk::new("z");
    for n in 0..131 {
        walk.step(&["ZADD", "z", &format!("{}", n % 7), &format!("member:{n}")]);
    }
    for n in 0..130 {
        walk.step(&["ZREM", "z", &format!("member:{n}")]);
    }
    for count in [127, 128, 129] {
        walk.step(&["DEL", "z"]);
        let members: Vec<String> = (0..count).map(|n| format!("m{n}")).collect();
        let mut words = vec!["ZADD", "z"];
        members.iter().for_each(|member| words.extend(["0.25", member.as_str()]));
        walk.step(&words);
        walk.push(&["ZRANGE", "z", "0", "-1", "WITHSCORES"]);
        walk.step(&["ZRANGESTORE", "z", "z", "0", "-1"]);
        walk.step(&["ZUNIONSTORE", "z", "1", "z", "WEIGHTS", "2"]);
        walk.step(&["ZREMRANGEBYRANK", "z", "10", "-1"]);
        walk.step(&["ZINTERSTORE", "z", "1", "z"]);
        walk.step(&["ZPOPMIN", "z", "5"]);
    }
    for len in [63, 64, 65] {
        walk.step(&["DEL", "z"]);
        walk.step(&["ZINCRBY", "z", "1", &"m".repeat(len)]);
        walk.step(&["ZADD", "z", "1", "a"]);
    }
    walk
}

fn lists() -> Walk {
    let mut walk = Walk::new("l");
    let element = "e".repeat(100);
    for n in 0..90 {
        walk.step(&[if n % 2 == 0 { "RPUSH" } else { "LPUSH" }, "l", &format!("{n}:{element}")]);
    }
    for n in 0..89 {
        walk.step(&[if n % 3 == 0 { "RPOP" } else { "LPOP" }, "l"]);
    }
    for len in [8100, 8180, 8190, 8200, 20_000] {
        walk.step(&["DEL", "l"]);
        walk.step(&["RPUSH", "l", &"x".repeat(len)]);
        walk.step(&["RPUSH", "l", "a", "b", "c"]);
        walk.step(&["LSET", "l", "1", &"y".repeat(len)]);
        walk.step(&["LINSERT", "l", "BEFORE", "c", &"z".repeat(len)]);
        walk.step(&["LSET", "l", "0", "small"]);
        walk.step(&["LREM", "l", "1", &"z".repeat(len)]);
        walk.step(&["LTRIM", "l", "2", "-1"]);
        walk.step(&["LRANGE", "l", "0", "-1"]);
    }
    for (setting, count) in [("5", 6), ("128", 129), ("-1", 60), ("-2", 100)] {
        walk.push(&["CONFIG", "SET", "list-max-listpack-size", setting]);
        walk.step(&["DEL", "l"]);
        for n in 0..count {
            walk.step(&["RPUSH", "l", &format!("{n}:{}", &element[..70])]);
        }
        walk.step(&["LTRIM", "l", "0", "1"]);
        walk.step(&["LPOP", "l", "1"]);
    }
    walk
}

#[test]
fn encodings_change_at_the_same_thresholds_as_stock_servers() {
    if !is_braid() {
        println!("skipped: Braid is not under test");
        return;
    }
    for peer in newer_peers() {
        let mut pair = Pair::start(&peer);
        for walk in [hashes(), sets(), sorted_sets(), lists()] {
            for protocol in [2, 3] {
                let manner = Manner { protocol, pipeline: 50, encodings: true };
                if let Err(mismatch) = pair.run(&walk.items, manner) {
                    panic!("{}, after {} commands: {}", peer.version, mismatch.needed, mismatch.description);
                }
            }
        }
        println!("{}: {}", peer.version, pair.summary());
    }
}
