// SPDX-License-Identifier: BSD-3-Clause
//! Random commands on vector sets, sent both to the server under test and to a Redis 8.0 of
//! `BRAID_PEERS_DIR`. Replies must agree: texts and errors byte for byte, numbers but for rounding.
//!
//! The sets are so small that both servers find all of the most similar elements. What differs on
//! purpose is in `docs/vector-sets.md`, and is not drawn here: links, random elements, and the
//! order of elements with equal scores, which only sets of signs have. Redis counts what
//! quantisation has done to the lengths of vectors as similarity: sets with 8 bits are only
//! searched if their vectors are as before.

use braid_tests::random::{number, source};
use braid_tests::server::{is_braid, newer_peers};
use braid_tests::words::line;
use braid_tests::{RawClient, TestServer, Value};

/// Keys with the options that their elements are added with. A projected vector has eight
/// components, any other six.
const KEYS: [(&str, &[&str]); 6] = [
    ("f", &["NOQUANT"]),
    ("q", &[]),
    ("b", &["BIN"]),
    ("p", &["NOQUANT"]),
    ("m", &["M", "5", "Q8"]),
    (ROUNDED, &[]),
];

/// A set with 8 bits of any vectors, which is not searched.
const ROUNDED: &str = "r";

const ATTRIBUTES: [&str; 8] = [
    r#"{"year":1980,"name":"ann","tags":["x","y"]}"#,
    r#"{"year":1990,"name":"bob","tags":[],"ok":true}"#,
    r#"{"year":"2000","name":"","ok":false,"none":null}"#,
    r#"{ "deep":{"year":[1,{"a":2}]}, "year":-3.5e2 , "list":[1,2,3]}"#,
    "notjson",
    "{}",
    "",
    r#"{"name":"say \"hi\"","year":0}"#,
];

const OPERANDS: [&str; 12] =
    [".year", ".year", ".name", ".ok", ".none", "1985", "'bob'", "\"ann\"", "0", "-350", ".list", ".tags"];
const OPERATORS: [&str; 16] =
    ["==", "!=", ">", "<", ">=", "<=", "and", "or", "&&", "||", "+", "-", "*", "/", "%", "**"];

struct Draw(fastrand::Rng);

impl Draw {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.0.usize(..from.len())]
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.0.u32(..100) < percent
    }

    fn element(&mut self) -> String {
        format!("e{}", self.0.u32(..20))
    }

    fn key(&mut self) -> &'static str {
        match self.0.u32(..100) {
            0..3 => "none",
            3..6 => "text",
            _ => KEYS[self.0.usize(..KEYS.len())].0,
        }
    }

    /// A vector for a set; for one that is searched with 8 bits, one that quantisation keeps.
    fn vector(&mut self, key: &str, dim: usize) -> Vec<Vec<u8>> {
        let values: Vec<f32> = match key {
            "q" | "m" | "b" | "none" => {
                let mut levels: Vec<f32> = (0..dim).map(|_| self.0.i8(-127..=127).into()).collect();
                levels[self.0.usize(..dim)] = 127.0;
                levels
            }
            _ => (0..dim).map(|_| (self.0.f32() * 4000.0).round() / 1000.0 - 2.0).collect(),
        };
        if self.chance(30) {
            let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            return vec![b"FP32".to_vec(), bytes];
        }
        let mut words = vec![b"VALUES".to_vec(), dim.to_string().into_bytes()];
        words.extend(values.iter().map(|x| x.to_string().into_bytes()));
        words
    }

    fn operand(&mut self, depth: u32) -> String {
        match self.0.u32(..10) {
            0 if depth < 3 => format!("({})", self.expression(depth + 1)),
            // Redis refuses a negation of a negation.
            1 => format!("not {}", self.pick(&OPERANDS)),
            2 => format!("!{}", self.pick(&OPERANDS)),
            _ => self.pick(&OPERANDS).to_owned(),
        }
    }

    fn expression(&mut self, depth: u32) -> String {
        let mut text = self.operand(depth);
        for _ in 0..self.0.u32(..3) {
            if self.chance(15) {
                text += &format!(" in {}", self.pick(&["[1980, 'bob']", ".tags", ".list", "[]", ".year"]));
            } else {
                let operator = self.pick(&OPERATORS);
                text += &format!(" {operator} {}", self.operand(depth));
            }
        }
        text
    }

    fn filter(&mut self) -> String {
        let mut text = self.expression(0);
        if self.chance(10) {
            let at = self.0.usize(..=text.len());
            text.insert_str(at, self.pick(&["@", " =", ")", "(", "]", " word ", "'", " 5 "]));
        }
        text
    }

    fn dim_of(&mut self, key: &str) -> usize {
        match key {
            _ if self.chance(3) => 3,
            "p" => 8,
            _ => 6,
        }
    }

    fn add(&mut self) -> Vec<Vec<u8>> {
        let key = self.key();
        let mut words = vec![b"VADD".to_vec(), key.into()];
        // What is projected is not kept by 8 bits.
        if (key == "p") != (self.chance(3) && !["q", "m", "none"].contains(&key)) {
            words.extend([b"REDUCE".to_vec(), self.pick(&["4", "4", "4", "4", "4", "4", "4", "5"]).into()]);
        }
        let dim = self.dim_of(key);
        words.extend(self.vector(key, dim));
        words.push(self.element().into());
        let options = KEYS.iter().find(|(known, _)| *known == key).map_or(&[][..], |(_, options)| options);
        words.extend(options.iter().map(|word| Vec::from(*word)));
        if self.chance(40) {
            // An empty one would be there before a dump and not after it.
            let attribute = Some(self.pick(&ATTRIBUTES)).filter(|text| !text.is_empty());
            words.extend([b"SETATTR".to_vec(), attribute.unwrap_or("{}").into()]);
        }
        if self.chance(5) {
            words.extend([b"EF".to_vec(), self.pick(&["0", "10", "-1", "x", "1000001"]).into()]);
        }
        if self.chance(4) {
            let option = self.pick(&["CAS", "cas", "BOGUS", "M", "Q8", "BIN"]);
            // It may be the first element, whose quantisation is the set's.
            let is_rounded = option == "Q8" && ["f", "p"].contains(&key);
            words.push(if is_rounded { "BOGUS" } else { option }.into());
        }
        words
    }

    fn similar(&mut self) -> Vec<Vec<u8>> {
        let key = match self.key() {
            ROUNDED => "q",
            key => key,
        };
        let mut words = vec![b"VSIM".to_vec(), key.into()];
        if self.chance(60) {
            words.extend([b"ELE".to_vec(), self.element().into()]);
        } else {
            let dim = self.dim_of(key);
            words.extend(self.vector(key, dim));
        }
        let count = if key == "b" { "1000" } else { self.pick(&["1000", "3", "1000", "1"]) };
        words.extend([b"COUNT".to_vec(), count.into()]);
        if self.chance(70) {
            words.push(b"WITHSCORES".to_vec());
        }
        if self.chance(30) {
            words.push(b"WITHATTRIBS".to_vec());
        }
        if self.chance(40) {
            let filter = self.filter();
            words.extend([b"FILTER".to_vec(), filter.into()]);
        }
        if self.chance(10) {
            words.extend([b"EPSILON".to_vec(), self.pick(&["0.3", "0.512", "0.9", "0", "x", "-1"]).into()]);
        }
        if self.chance(10) {
            words.extend([b"EF".to_vec(), self.pick(&["500", "1000", "0", "x"]).into()]);
        }
        if self.chance(10) {
            words.push(self.pick(&["TRUTH", "NOTHREAD", "truth", "BOGUS"]).into());
        }
        words
    }

    fn command(&mut self) -> Vec<Vec<u8>> {
        let words: Vec<String> = match self.0.u32(..100) {
            0..40 => return self.add(),
            40..70 => return self.similar(),
            70..74 => vec!["VREM".into(), self.key().into(), self.element()],
            74..80 => {
                vec!["VSETATTR".into(), self.key().into(), self.element(), self.pick(&ATTRIBUTES).into()]
            }
            80..84 => vec!["VGETATTR".into(), self.key().into(), self.element()],
            84..90 => vec!["VEMB".into(), self.key().into(), self.element()],
            90..92 => {
                // Floats differ in the last bit at times.
                let key = self.pick(&["q", "b", "m", ROUNDED]).to_owned();
                vec!["VEMB".into(), key, self.element(), self.pick(&["RAW", "raw", "x"]).into()]
            }
            92..94 => vec!["VCARD".into(), self.key().into()],
            94..95 => vec!["VDIM".into(), self.key().into()],
            95..97 => vec!["VISMEMBER".into(), self.key().into(), self.element()],
            97..98 => vec!["VRANDMEMBER".into(), self.key().into(), self.pick(&["0", "x", "1.5"]).into()],
            98..99 => vec!["TYPE".into(), self.key().into()],
            _ => {
                // Without a key the error has the command's name in lower case here, and VINFO has
                // numbers of the process.
                let name = self.pick(&["VCARD", "VREM", "VEMB", "VGETATTR", "VSETATTR", "VDIM", "VLINKS"]);
                let mut words = vec![name.to_owned(), "f".to_owned()];
                words.extend(["a", "b", "c"][..self.0.usize(..=3)].iter().map(|word| (*word).to_owned()));
                words
            }
        };
        words.into_iter().map(String::into_bytes).collect()
    }
}

fn float(text: &[u8]) -> Option<f64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// True if two numbers differ by rounding only.
fn are_close(one: f64, other: f64) -> bool {
    (one - other).abs() <= 4e-6 * (1.0 + one.abs()) || one.is_nan() && other.is_nan()
}

fn agree(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Bulk(one), Value::Bulk(other)) | (Value::Double(one), Value::Double(other)) => {
            let close = || Some(are_close(float(one)?, float(other)?));
            one == other || close().unwrap_or(false)
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| agree(one, other))
        }
        (Value::Map(one), Value::Map(other)) => {
            let pairs = one.iter().zip(other);
            one.len() == other.len() && pairs.into_iter().all(|(a, b)| agree(&a.0, &b.0) && agree(&a.1, &b.1))
        }
        _ => one == other,
    }
}

/// The elements of a reply of VSIM in the order of their names, if it is about a set of signs.
fn sorted(command: &[Vec<u8>], reply: Value) -> Value {
    if command[0] != b"VSIM" || command[1] != b"b" {
        return reply;
    }
    let has = |word: &str| command.iter().skip(3).any(|other| other.eq_ignore_ascii_case(word.as_bytes()));
    let width = 1 + usize::from(has("WITHSCORES")) + usize::from(has("WITHATTRIBS"));
    match reply {
        Value::Array(items) => {
            let mut groups: Vec<Vec<Value>> = items.chunks(width).map(<[Value]>::to_vec).collect();
            groups.sort();
            Value::Array(groups.concat())
        }
        Value::Map(mut pairs) => {
            pairs.sort();
            Value::Map(pairs)
        }
        reply => reply,
    }
}

fn prepare(client: &mut RawClient, protocol: u8) {
    client.ok("SET text x");
    if protocol == 3 {
        client.call("HELLO 3");
    }
}

#[test]
fn vector_set_commands_get_the_same_replies_as_on_redis_8() {
    let peer = newer_peers().into_iter().find(|peer| peer.version.starts_with("redis 8.0"));
    let Some(peer) = peer.filter(|_| is_braid()) else {
        println!("skipped: no Redis 8.0 in BRAID_PEERS_DIR, or Braid is not under test");
        return;
    };
    let ours = TestServer::start(&["--rdb-target", "redis-8"]);
    let stock = TestServer::start_program(&peer.program, &[]);
    let commands = number("BRAID_COMMANDS", 20_000) / 4;
    let mut draw = Draw(source("vectors"));
    for protocol in [2, 3] {
        let (mut one, mut other) = (ours.connect(), stock.connect());
        prepare(&mut one, protocol);
        prepare(&mut other, protocol);
        let mut errors = 0;
        for at in 0..commands {
            let command = draw.command();
            let (here, there) = (one.call_arguments(&command), other.call_arguments(&command));
            let (here, there) = (sorted(&command, here), sorted(&command, there));
            errors += u64::from(here.is_error());
            assert!(
                agree(&here, &there),
                "RESP{protocol}: {}\n  ours:  {here}\n  stock: {there}",
                line(&command)
            );
            if at % 200 == 0 {
                dumps_are_exchanged(&mut one, &mut other);
            }
        }
        assert!(errors < commands / 2, "most commands must do something: {errors} of {commands} failed");
    }
}

/// Each server restores the other's dumps.
fn dumps_are_exchanged(one: &mut RawClient, other: &mut RawClient) {
    for (key, _) in KEYS {
        let dump = |client: &mut RawClient| match client.call_arguments(&["DUMP", key]) {
            Value::Bulk(payload) => Some(payload),
            _ => None,
        };
        let (Some(here), Some(there)) = (dump(one), dump(other)) else { continue };
        for (client, payload) in [(&mut *one, &there), (&mut *other, &here)] {
            let words: [&[u8]; 5] = [b"RESTORE", b"restored", b"0", payload, b"REPLACE"];
            assert_eq!(client.call_arguments(&words).to_string(), "+OK", "{key}");
            assert_eq!(client.call("VCARD restored"), client.call_arguments(&["VCARD", key]));
            for element in 0..20 {
                let element = format!("e{element}");
                for command in ["VEMB", "VGETATTR"] {
                    let mut of = |key: &str| client.call_arguments(&[command, key, &element]);
                    let (original, restored) = (of(key), of("restored"));
                    assert!(agree(&original, &restored), "{command} {key} {element}: {original} {restored}");
                }
                if key != "b" {
                    let mut of =
                        |key: &str| client.call_arguments(&["VSIM", key, "ELE", &element, "COUNT", "99"]);
                    let (original, restored) = (of(key), of("restored"));
                    assert!(agree(&original, &restored), "{key} {element}: {original} {restored}");
                }
            }
        }
    }
}
