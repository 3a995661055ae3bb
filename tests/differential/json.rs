// SPDX-License-Identifier: BSD-3-Clause
//! Random JSON commands, sent both to the server under test and to a Redis Stack 7.4; replies must
//! agree byte for byte, and so must the documents after each change.
//!
//! `BRAID_STACK` names the program, else `redis-stack` in `BRAID_PEERS_DIR`. Errors of paths that
//! cannot be parsed agree if both are errors. What differs on purpose is in `docs/json.md`, and is
//! not drawn here: the order of several paths in JSON.GET's reply, an index twice in JSON.DEL,
//! numbers that Redis Stack reads one digit wrong, and changes that end it or that it refuses.

use std::path::PathBuf;

use braid_tests::random::{number, source};
use braid_tests::server::is_braid;
use braid_tests::words::line;
use braid_tests::{RawClient, TestServer, Value};

const KEYS: [&str; 5] = ["d1", "d2", "d3", "none", "text"];
const NAMES: [&str; 6] = ["a", "b", "c", "d", "k", "x y"];
/// Longer documents are dropped, so that commands on them stay readable in a report.
const LONGEST: usize = 1500;

struct Draw(fastrand::Rng);

impl Draw {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.0.usize(..from.len())]
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.0.u32(..100) < percent
    }

    fn number(&mut self) -> String {
        let texts = [
            "0",
            "1",
            "2",
            "-1",
            "7",
            "100",
            "300",
            "70000",
            "5000000000",
            "1.0",
            "2.5",
            "-3.25",
            "0.1",
            "1e3",
            "0.0",
        ];
        self.pick(&texts).to_owned()
    }

    fn value(&mut self, depth: u32) -> String {
        let list = |items: Vec<String>| format!("[{}]", items.join(","));
        match self.0.u32(..100) {
            0..20 if depth < 4 => list((0..self.0.u32(..5)).map(|_| self.value(depth + 1)).collect()),
            20..35 if depth < 4 => list((0..self.0.u32(..6)).map(|_| self.number()).collect()),
            35..65 if depth < 4 => {
                let count = self.0.usize(..4);
                let mut names = NAMES;
                self.0.shuffle(&mut names);
                let members: Vec<String> = names[..count]
                    .iter()
                    .map(|name| format!("\"{name}\":{}", self.value(depth + 1)))
                    .collect();
                format!("{{{}}}", members.join(","))
            }
            65..80 => self.number(),
            _ => {
                let texts = ["true", "false", "null", "\"s\"", "\"text\"", "\"\u{e9}\"", "\"\"", "\"a\\nb\""];
                self.pick(&texts).to_owned()
            }
        }
    }

    fn step(&mut self) -> String {
        let filters = [
            "@>1",
            "@.a",
            "@.a==1",
            "@.a>=1 && @.b",
            "@=='s'",
            "@.b!=null",
            "@.c<2.5||@.d",
            "@==true",
            "@.a==@.b",
            "@==$.a",
            "@ =~ 't.*'",
            "1==1",
            "@[0]==1",
            "@..a==1",
            "@.*==1",
        ];
        match self.0.u32(..100) {
            0..45 => format!(".{}", self.pick(&["a", "b", "c", "d", "k"])),
            45..52 => "[\"x y\"]".to_owned(),
            52..60 => format!("[{}]", self.pick(&["0", "1", "2", "-1", "-2", "-9", "9"])),
            60..69 => self.pick(&[".*", "[*]"]).to_owned(),
            69..78 => format!("..{}", self.pick(&["a", "b", "c", "*"])),
            78..82 => "[\"a\",\"b\"]".to_owned(),
            82..85 => format!("[{}]", self.pick(&["0,1", "1,2", "2,0"])),
            85..90 => format!("[{}]", self.pick(&["0:2", "1:", "-2:", "::2", ":1", "0:9:3"])),
            _ => format!("[?({})]", self.pick(&filters)),
        }
    }

    fn path(&mut self) -> String {
        let count = [0, 1, 1, 1, 2, 2, 3][self.0.usize(..7)];
        let steps: String = (0..count).map(|_| self.step()).collect();
        if self.chance(70) {
            return format!("${steps}");
        }
        if steps.is_empty() { ".".to_owned() } else { steps }
    }

    fn index(&mut self) -> String {
        self.pick(&["0", "0", "1", "2", "-1", "-2", "5", "-5", "100"]).to_owned()
    }

    fn key(&mut self) -> String {
        let place = if self.chance(90) { self.0.usize(..3) } else { self.0.usize(3..5) };
        KEYS[place].to_owned()
    }

    /// A path that a command can change values at without ending Redis Stack.
    fn path_for(&mut self, name: &str) -> String {
        const CHANGES: [&str; 15] = [
            "SET",
            "MSET",
            "MERGE",
            "DEL",
            "FORGET",
            "CLEAR",
            "TOGGLE",
            "STRAPPEND",
            "ARRAPPEND",
            "ARRINSERT",
            "ARRPOP",
            "ARRTRIM",
            "NUMINCRBY",
            "NUMMULTBY",
            "NUMPOWBY",
        ];
        const ALONE: [&str; 7] = ["SET", "MSET", "MERGE", "CLEAR", "ARRINSERT", "ARRPOP", "ARRTRIM"];
        loop {
            let path = self.path();
            let is_filtered = CHANGES.contains(&name) && path.contains('?');
            let is_nested = ALONE.contains(&name) && path.contains("..");
            if !is_filtered && !is_nested {
                return path;
            }
        }
    }

    fn command(&mut self) -> Vec<String> {
        let key = self.key();
        let name = self.pick(&[
            "SET",
            "SET",
            "SETALL",
            "SETALL",
            "GET",
            "GET",
            "MGET",
            "MSET",
            "MERGE",
            "DEL",
            "FORGET",
            "CLEAR",
            "TYPE",
            "NUMINCRBY",
            "NUMMULTBY",
            "NUMPOWBY",
            "STRAPPEND",
            "STRLEN",
            "ARRAPPEND",
            "ARRINDEX",
            "ARRINSERT",
            "ARRLEN",
            "ARRPOP",
            "ARRTRIM",
            "OBJKEYS",
            "OBJLEN",
            "TOGGLE",
            "RESP",
        ]);
        let full = format!("JSON.{name}");
        let path = self.path_for(name);
        match name {
            "SET" => {
                let mut words = vec![full, key, path, self.value(2)];
                let condition = self.pick(&["", "", "NX", "XX"]);
                words.extend((!condition.is_empty()).then(|| condition.to_owned()));
                words
            }
            "SETALL" => vec!["JSON.SET".to_owned(), key, "$".to_owned(), self.value(0)],
            "GET" => {
                let mut words = vec![full, key];
                if self.chance(20) {
                    words.extend(["INDENT", ">", "NEWLINE", "|", "SPACE", "_"].map(str::to_owned));
                }
                words.push(path);
                words
            }
            "MGET" => vec![full, key, self.key(), path],
            "MSET" => vec![full, key, path, self.value(2)],
            "MERGE" => vec![full, key, path, self.value(1)],
            "NUMINCRBY" | "NUMMULTBY" | "NUMPOWBY" => {
                vec![full, key, path, self.pick(&["1", "2", "-1", "0.5", "1.5", "0", "10"]).to_owned()]
            }
            "STRAPPEND" => {
                vec![full, key, path, self.pick(&["\"x\"", "\"\u{e9}\"", "\"\"", "5"]).to_owned()]
            }
            "ARRAPPEND" => vec![full, key, path, self.value(3), self.value(3)],
            "ARRINDEX" => vec![full, key, path, self.value(3), self.index(), self.index()],
            "ARRINSERT" => vec![full, key, path, self.index(), self.value(3)],
            "ARRPOP" => vec![full, key, path, self.index()],
            "ARRTRIM" => vec![full, key, path, self.index(), self.index()],
            _ if self.chance(10) && name != "TOGGLE" => vec![full, key],
            _ => vec![full, key, path],
        }
    }
}

fn program() -> Option<PathBuf> {
    let named = std::env::var_os("BRAID_STACK").map(PathBuf::from);
    let in_peers = || Some(PathBuf::from(std::env::var_os("BRAID_PEERS_DIR")?).join("redis-stack"));
    named.or_else(in_peers).filter(|program| program.exists())
}

fn prepare(client: &mut RawClient, protocol: u8) {
    client.ok("SET text x");
    if protocol == 3 {
        client.call("HELLO 3");
    }
}

/// True if both are errors about a path, whose texts name what a parser expected.
fn are_path_errors(one: &Value, other: &Value) -> bool {
    let is_path_error = |value: &Value| value.is_error() && value.to_string().contains("Error occurred on");
    is_path_error(one) && is_path_error(other)
}

#[test]
fn json_commands_get_the_same_replies_as_on_redis_stack() {
    let Some(program) = program().filter(|_| is_braid()) else {
        println!("skipped: no Redis Stack, or Braid is not under test");
        return;
    };
    let ours = TestServer::start(&[]);
    let stack = TestServer::start_program(&program, &[]);
    let version = stack.connect().info_field("server", "redis_version").unwrap_or_default();
    assert!(version.starts_with("7.4."), "{version} is not the Redis Stack that was measured");
    let commands = number("BRAID_COMMANDS", 20_000) / 4;
    let mut draw = Draw(source("json"));
    for protocol in [2, 3] {
        let (mut one, mut other) = (ours.connect(), stack.connect());
        prepare(&mut one, protocol);
        prepare(&mut other, protocol);
        let mut errors = 0;
        for _ in 0..commands {
            let command = draw.command();
            let bytes: Vec<Vec<u8>> = command.iter().map(|word| word.clone().into_bytes()).collect();
            let before = one.call_arguments(&["JSON.GET", &command[1]]);
            let (here, there) = (one.call_arguments(&bytes), other.call_arguments(&bytes));
            errors += u64::from(here.is_error());
            assert!(
                here == there || are_path_errors(&here, &there),
                "RESP{protocol}: {}\n  document: {before}\n  ours:     {here}\n  stack:    {there}",
                line(&bytes)
            );
            if here.is_error() && command[0].starts_with("JSON.NUM") {
                // Redis Stack keeps the changes before the failed one.
                one.call_arguments(&["DEL", &command[1]]);
                other.call_arguments(&["DEL", &command[1]]);
                continue;
            }
            let after = |client: &mut RawClient| client.call_arguments(&["JSON.GET", &command[1]]);
            let (here, there) = (after(&mut one), after(&mut other));
            assert!(
                here == there,
                "RESP{protocol}: the document after {}\n  document: {before}\n  ours:     {here}\n  stack:    {there}",
                line(&bytes)
            );
            if here.to_string().len() > LONGEST {
                one.call_arguments(&["DEL", &command[1]]);
                other.call_arguments(&["DEL", &command[1]]);
            }
        }
        assert!(errors < commands / 2, "most commands must do something: {errors} of {commands} failed");
    }
    dumps_are_exchanged(&ours, &stack, &mut draw);
}

/// Each server restores the other's dumps.
fn dumps_are_exchanged(ours: &TestServer, stack: &TestServer, draw: &mut Draw) {
    let (mut one, mut other) = (ours.connect(), stack.connect());
    for _ in 0..300 {
        let text = draw.value(0);
        one.call_arguments(&["JSON.SET", "dumped", "$", &text]);
        other.call_arguments(&["JSON.SET", "dumped", "$", &text]);
        let dump = |client: &mut RawClient| match client.call("DUMP dumped") {
            Value::Bulk(payload) => payload,
            other => panic!("not a payload: {other}"),
        };
        let (here, there) = (dump(&mut one), dump(&mut other));
        for (client, payload) in [(&mut one, &there), (&mut other, &here)] {
            let words: [&[u8]; 5] = [b"RESTORE", b"restored", b"0", payload, b"REPLACE"];
            assert_eq!(client.call_arguments(&words).to_string(), "+OK", "{text}");
            assert_eq!(client.call("JSON.GET restored"), client.call("JSON.GET dumped"), "{text}");
        }
    }
}
