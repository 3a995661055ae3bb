// SPDX-License-Identifier: BSD-3-Clause
//! Random commands on time series, sent both to the server under test and to a Redis Stack 7.4;
//! replies must agree byte for byte, and each server must restore the other's dumps.
//!
//! `BRAID_STACK` names the program, else `redis-stack` in `BRAID_PEERS_DIR`;
//! `BRAID_SERIES_COMMANDS` is the number of commands (default: half of `BRAID_COMMANDS`). What
//! differs on purpose is in `docs/time-series.md`, and is not drawn here, nor are deletions of all
//! samples, and values whose sums lose digits: averages weighted by time are compared elsewhere.

use std::path::PathBuf;

use braid_tests::random::{number, source};
use braid_tests::server::is_braid;
use braid_tests::words::{encode, line};
use braid_tests::{RawClient, TestServer, Value};

const KEYS: [&str; 5] = ["a", "b", "c", "d", "none"];
const KINDS: [&str; 8] = ["avg", "sum", "min", "max", "range", "count", "first", "last"];
const POLICIES: [&str; 6] = ["BLOCK", "LAST", "FIRST", "MIN", "MAX", "SUM"];
const FILTERS: [&str; 6] = ["l=x", "l=y", "m=x", "l=(x,y)", "l=(x,z)", "m=(x y,x)"];
const MORE_FILTERS: [&str; 6] = ["l!=y", "m=", "m!=", "l!=(x,y)", "m=x", "l=x"];
/// How many commands are sent at once.
const BATCH: usize = 40;

struct Draw {
    random: fastrand::Rng,
    /// The time of the last sample that was appended.
    time: u64,
}

impl Draw {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.random.usize(..from.len())]
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.random.u32(..100) < percent
    }

    fn key(&mut self) -> &'static str {
        let most = if self.chance(97) { KEYS.len() - 1 } else { KEYS.len() };
        KEYS[self.random.usize(..most)]
    }

    fn next_time(&mut self) -> String {
        self.time += [1, 5, 10, 10, 10, self.random.u64(1..100)][self.random.usize(..6)];
        self.time.to_string()
    }

    fn any_time(&mut self) -> String {
        let most = [60, 300, 3_000, self.time + 10][self.random.usize(..4)];
        self.random.u64(..most).to_string()
    }

    fn value(&mut self) -> String {
        let quarters = self.random.i32(-400..400);
        match self.random.u32(..10) {
            0..6 => format!("{}", self.random.i32(-100..100)),
            6..9 => format!("{}", f64::from(quarters) / 4.0),
            _ => self.pick(&["0.125", "-0", "1e3", "65536", "x", "1e400"]).to_owned(),
        }
    }

    fn labels(&mut self, words: &mut Vec<String>) {
        for _ in 0..self.random.u32(..3) {
            words.push(self.pick(&["l", "m"]).to_owned());
            words.push(self.pick(&["x", "y", "z", "x y"]).to_owned());
        }
    }

    fn settings(&mut self, words: &mut Vec<String>) {
        let mut add = |draw: &mut Draw, percent, name: &str, values: &[&str]| {
            if draw.chance(percent) {
                words.extend([name.to_owned(), draw.pick(values).to_owned()]);
            }
        };
        add(self, 20, "RETENTION", &["0", "100", "1000", "x", "-1"]);
        add(self, 60, "CHUNK_SIZE", &["48", "64", "128", "100"]);
        add(self, 30, "ENCODING", &["compressed", "uncompressed", "UNCOMPRESSED", "x"]);
        add(self, 50, "DUPLICATE_POLICY", &POLICIES);
        if self.chance(10) {
            words.extend(["IGNORE", "5", "2.5"].map(str::to_owned));
        }
        if self.chance(60) {
            words.push("LABELS".to_owned());
            self.labels(words);
        }
    }

    fn ends(&mut self, words: &mut Vec<String>) {
        let (mut from, mut to) = (self.any_time(), self.any_time());
        if from.parse::<u64>().ok() > to.parse::<u64>().ok() {
            std::mem::swap(&mut from, &mut to);
        }
        words.push(if self.chance(60) { "-".to_owned() } else { from });
        words.push(if self.chance(60) { "+".to_owned() } else { to });
    }

    fn range(&mut self, words: &mut Vec<String>) {
        self.ends(words);
        if self.chance(10) {
            words.push("FILTER_BY_TS".to_owned());
            (0..self.random.u32(1..6)).for_each(|_| words.push(self.any_time()));
        }
        if self.chance(10) {
            words.extend(["FILTER_BY_VALUE".to_owned(), "-20".to_owned(), self.value()]);
        }
        if self.chance(30) {
            words.extend(["COUNT".to_owned(), self.random.u32(0..8).to_string()]);
        }
        if self.chance(50) {
            if self.chance(40) {
                words.push("ALIGN".to_owned());
                words.push(self.pick(&["-", "+", "start", "end", "0", "3", "7", "13"]).to_owned());
            }
            words.extend(["AGGREGATION".to_owned(), self.pick(&KINDS).to_owned()]);
            words.push(self.pick(&["1", "5", "10", "20", "100", "1000"]).to_owned());
            if self.chance(30) {
                words.extend(["BUCKETTIMESTAMP".to_owned(), self.pick(&["-", "+", "~"]).to_owned()]);
            }
        }
    }

    fn shown(&mut self, words: &mut Vec<String>) {
        let shown: [&[&str]; 3] = [&[], &["WITHLABELS"], &["SELECTED_LABELS", "m", "q"]];
        words.extend(shown[self.random.usize(..3)].iter().map(|word| (*word).to_owned()));
    }

    fn filter(&mut self, words: &mut Vec<String>) {
        words.push(self.pick(&FILTERS).to_owned());
        (0..self.random.u32(..3)).for_each(|_| words.push(self.pick(&MORE_FILTERS).to_owned()));
    }

    fn command(&mut self) -> Vec<String> {
        let mut words = Vec::new();
        let key = self.key();
        let mut start = |name: &str| words.extend([name.to_owned(), key.to_owned()]);
        match self.random.u32(..100) {
            0..6 => {
                start("TS.CREATE");
                self.settings(&mut words);
            }
            6..35 => {
                start("TS.ADD");
                words.extend([self.next_time(), self.value()]);
                if self.chance(30) {
                    self.settings(&mut words);
                }
            }
            35..47 => {
                start("TS.ADD");
                words.extend([self.any_time(), self.value()]);
                words.extend(["ON_DUPLICATE".to_owned(), self.pick(&POLICIES).to_owned()]);
            }
            47..51 => {
                start("TS.MADD");
                words.extend([self.next_time(), self.value()]);
                words.extend([self.key().to_owned(), self.next_time(), self.value()]);
            }
            51..55 => {
                start(["TS.INCRBY", "TS.DECRBY"][self.random.usize(..2)]);
                words.extend(["2.5".to_owned(), "TIMESTAMP".to_owned(), self.next_time()]);
            }
            55..58 => {
                start("TS.DEL");
                let from = self.random.u64(..self.time + 1);
                words.extend([from.to_string(), (from + self.random.u64(..50)).to_string()]);
            }
            58..60 => {
                start("TS.ALTER");
                self.settings(&mut words);
            }
            60..64 => start("TS.GET"),
            64..67 => start("TS.INFO"),
            67..84 => {
                start(["TS.RANGE", "TS.REVRANGE"][self.random.usize(..2)]);
                self.range(&mut words);
            }
            84..88 => {
                words.push("TS.QUERYINDEX".to_owned());
                self.filter(&mut words);
            }
            88..92 => {
                words.push("TS.MGET".to_owned());
                self.shown(&mut words);
                words.push("FILTER".to_owned());
                self.filter(&mut words);
            }
            92..98 => {
                words.push(["TS.MRANGE", "TS.MREVRANGE"][self.random.usize(..2)].to_owned());
                self.range(&mut words);
                self.shown(&mut words);
                words.push("FILTER".to_owned());
                self.filter(&mut words);
            }
            _ => start("DEL"),
        }
        words
    }
}

fn program() -> Option<PathBuf> {
    let named = std::env::var_os("BRAID_STACK").map(PathBuf::from);
    let in_peers = || Some(PathBuf::from(std::env::var_os("BRAID_PEERS_DIR")?).join("redis-stack"));
    named.or_else(in_peers).filter(|program| program.exists())
}

/// A reply without the memory that it reports, and without how samples are divided into chunks.
fn compared(reply: &Value) -> String {
    let mut text = reply.to_string();
    for name in ["memoryUsage", "chunkCount"] {
        let Some(at) = text.find(name) else { continue };
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        let from = text.as_bytes()[at..].iter().position(is_digit).map_or(text.len(), |from| at + from);
        let len = text.as_bytes()[from..].iter().take_while(|byte| is_digit(byte)).count();
        text.replace_range(from..from + len, "");
    }
    text
}

fn dump(client: &mut RawClient, key: &str) -> Option<Vec<u8>> {
    match client.call_arguments(&["DUMP", key]) {
        Value::Bulk(payload) => Some(payload),
        _ => None,
    }
}

/// Each server restores the other's series, which then have equal samples.
fn dumps_are_exchanged(one: &mut RawClient, other: &mut RawClient) {
    for key in KEYS {
        let Some((here, there)) = dump(one, key).zip(dump(other, key)) else { continue };
        for (client, payload) in [(&mut *one, &there), (&mut *other, &here)] {
            let words: [&[u8]; 5] = [b"RESTORE", b"restored", b"0", payload, b"REPLACE"];
            assert_eq!(client.call_arguments(&words).to_string(), "+OK", "{key}");
            let range = |client: &mut RawClient, key: &str| client.call(&format!("TS.RANGE {key} - +"));
            assert_eq!(range(client, "restored"), range(client, key), "{key}");
            client.call("DEL restored");
        }
    }
}

#[test]
fn time_series_get_the_same_replies_as_on_redis_stack() {
    let Some(program) = program().filter(|_| is_braid()) else {
        println!("skipped: no Redis Stack, or Braid is not under test");
        return;
    };
    let (ours, stack) = (TestServer::start(&[]), TestServer::start_program(&program, &[]));
    let commands = number("BRAID_SERIES_COMMANDS", number("BRAID_COMMANDS", 20_000) / 2) / 2;
    let mut draw = Draw { random: source("time series"), time: 0 };
    let mut found = Vec::new();
    for protocol in [2, 3] {
        let (mut one, mut other) = (ours.connect(), stack.connect());
        for client in [&mut one, &mut other] {
            client.call(&format!("HELLO {protocol}"));
        }
        let mut errors = 0;
        for round in 0..commands / BATCH as u64 {
            if round % 10 == 0 {
                draw.time = 0;
                [&mut one, &mut other].into_iter().for_each(|client| client.ok("FLUSHALL"));
            }
            let batch: Vec<Vec<String>> = (0..BATCH).map(|_| draw.command()).collect();
            let bytes: Vec<u8> = batch.iter().map(|words| encode(words)).collect::<Vec<_>>().concat();
            one.send(&bytes);
            other.send(&bytes);
            for words in &batch {
                let (here, there) = (one.read(), other.read());
                errors += u64::from(here.is_error());
                let (here, there) = (compared(&here), compared(&there));
                if here != there && found.len() < 5 {
                    let words: Vec<Vec<u8>> = words.iter().map(|word| word.clone().into_bytes()).collect();
                    found
                        .push(format!("RESP{protocol}: {}\n  ours:  {here}\n  stack: {there}", line(&words)));
                }
            }
            dumps_are_exchanged(&mut one, &mut other);
        }
        assert!(errors < commands * 2 / 3, "most commands must do something: {errors} of {commands} failed");
    }
    assert!(found.is_empty(), "replies differ:\n{}", found.join("\n"));
}
