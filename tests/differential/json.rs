// SPDX-License-Identifier: BSD-3-Clause
//! Random JSON commands, sent both to the server under test and to a Redis Stack 7.4; replies must
//! agree byte for byte, and so must the documents after each change.
//!
//! `BRAID_STACK` names the program, else `redis-stack` in `BRAID_PEERS_DIR`; `BRAID_JSON_COMMANDS`
//! is the number of commands (default: half of `BRAID_COMMANDS`). Errors of paths that cannot be
//! parsed agree if both are errors; the values of several paths in JSON.GET's reply may be in any
//! order. What differs on purpose is in `docs/json.md`, and is not drawn here: a value reached
//! twice in JSON.DEL, a key twice in JSON.MSET, numbers that Redis Stack reads one digit wrong, and
//! changes that end it or that it refuses. A request that ends it is left out, and it is started
//! again.

use std::path::PathBuf;

use braid_tests::random::{number, source};
use braid_tests::server::is_braid;
use braid_tests::words::{encode, line};
use braid_tests::{RawClient, TestServer, Value};

const KEYS: [&str; 5] = ["d1", "d2", "d3", "none", "text"];
const NAMES: [&str; 7] = ["a", "b", "c", "d", "k", "x y", "\u{e9}"];
/// Texts that are no JSON, or more than a value.
const BAD_TEXTS: [&str; 14] =
    ["", "{", "[1,", "nope", "01", "{'a':1}", "[1 2]", "\"a", "{\"a\"}", "1.", "-", "\"\\x\"", "[1,]", "1 2"];
/// Paths that cannot be parsed, or hardly.
const BAD_PATHS: [&str; 18] = [
    "$.",
    "$..",
    "$[",
    "$[]",
    "$.a[",
    "$a",
    "$.a b",
    "a b",
    "..",
    "$$",
    "$.a[x]",
    "$[?(@.a==)]",
    "a[0]b",
    "$.a.",
    "$[-]",
    "$['a",
    "$.a[1:2:-1]",
    "@.a",
];
/// How many commands are sent at once.
const BATCH: usize = 40;
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
            "-0.0",
            "127",
            "128",
            "-129",
            "32768",
            "2147483648",
            "9223372036854775807",
            "-9223372036854775808",
            "18446744073709551615",
            "1e300",
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
            "@.a && (@.b || @.c)",
            "@==null",
            "@!=1",
            "'s'==@",
            "$.a>1",
            "@['a']==1",
            "@.a.b",
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

    /// A value, rarely a text that is none.
    fn text(&mut self, depth: u32) -> String {
        if self.chance(2) { self.pick(&BAD_TEXTS).to_owned() } else { self.value(depth) }
    }

    fn index_text(&mut self) -> String {
        if self.chance(3) {
            self.pick(&["x", "1.5", "", "9999999999999999999"]).to_owned()
        } else {
            self.index()
        }
    }

    fn path(&mut self) -> String {
        if self.chance(3) {
            return self.pick(&BAD_PATHS).to_owned();
        }
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
            // Such a path may reach a value in two ways: Redis Stack then keeps it.
            let is_repeated = matches!(name, "DEL" | "FORGET") && path.matches("..").count() > 1;
            if !is_filtered && !is_nested && !is_repeated {
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
                let mut words = vec![full, key, path, self.text(2)];
                let condition = self.pick(&["", "", "NX", "XX"]);
                words.extend((!condition.is_empty()).then(|| condition.to_owned()));
                words
            }
            "SETALL" => vec!["JSON.SET".to_owned(), key, "$".to_owned(), self.text(0)],
            "GET" => self.get(full, key, path),
            "MGET" => vec![full, key, self.key(), path],
            "MSET" => {
                let mut words = vec![full, key, path, self.text(2)];
                if self.chance(20) {
                    let other = KEYS.iter().find(|other| **other != words[1]).expect("several keys");
                    words.extend([(*other).to_owned(), self.path_for(name), self.text(2)]);
                }
                words
            }
            "MERGE" => vec![full, key, path, self.text(1)],
            "NUMINCRBY" | "NUMMULTBY" | "NUMPOWBY" => {
                let by = ["1", "2", "-1", "0.5", "1.5", "0", "10", "1e2", "null", "\"1\"", "x", "[1]"];
                let most = if self.chance(95) { 8 } else { by.len() };
                vec![full, key, path, self.pick(&by[..most]).to_owned()]
            }
            "STRAPPEND" => {
                let texts = ["\"x\"", "\"\u{e9}\"", "\"\"", "5", "null", "x"];
                vec![full, key, path, self.pick(&texts).to_owned()]
            }
            "ARRAPPEND" => vec![full, key, path, self.text(3), self.value(3)],
            "ARRINDEX" => vec![full, key, path, self.text(3), self.index_text(), self.index()],
            "ARRINSERT" => vec![full, key, path, self.index_text(), self.text(3)],
            "ARRPOP" => vec![full, key, path, self.index_text()],
            "ARRTRIM" => vec![full, key, path, self.index_text(), self.index()],
            _ if self.chance(10) && name != "TOGGLE" => vec![full, key],
            _ => vec![full, key, path],
        }
    }

    /// JSON.GET with some of its options, and at times several paths.
    fn get(&mut self, full: String, key: String, path: String) -> Vec<String> {
        let mut words = vec![full, key];
        if self.chance(20) {
            words.extend(["INDENT", ">", "NEWLINE", "|", "SPACE", "_"].map(str::to_owned));
        }
        if self.chance(5) {
            words.push("NOESCAPE".to_owned());
        }
        let format = ["EXPAND", "EXPAND", "EXPAND1", "STRING", "expand", "NO"];
        let format = self.chance(20).then(|| self.pick(&format).to_owned());
        let is_first = self.chance(50);
        let option = |format: &String| ["FORMAT".to_owned(), format.clone()];
        words.extend(format.iter().filter(|_| is_first).flat_map(option));
        words.push(path);
        if self.chance(20) && format.is_none() {
            words.push(self.path());
        }
        words.extend(format.iter().filter(|_| !is_first).flat_map(option));
        words
    }
}

pub(crate) fn program() -> Option<PathBuf> {
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

/// True if two replies to a command agree.
fn agree(command: &[String], one: &Value, other: &Value) -> bool {
    let (here, there) = (one.to_string(), other.to_string());
    let both = |text: &str| one.is_error() && other.is_error() && here.contains(text) && there.contains(text);
    if here == there || both("Error occurred on") {
        return true;
    }
    // The values of several paths are in any order there, and so is which of them is missing.
    let sorted = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.sort_unstable();
        bytes
    };
    let is_get = command[0] == "JSON.GET" && command.len() > 3;
    // Messages there have names that are not ASCII in another encoding.
    let is_ascii = command.iter().all(|word| word.is_ascii());
    is_get && (sorted(&here) == sorted(&there) || both("does not exist"))
        || !is_ascii && one.is_error() && other.is_error()
}

/// The two servers, and a client of each.
struct Servers {
    ours: TestServer,
    stack: TestServer,
    program: PathBuf,
    one: RawClient,
    other: RawClient,
    /// Requests that ended Redis Stack.
    ended: u32,
}

impl Servers {
    fn start(program: PathBuf) -> Servers {
        let (ours, stack) = (TestServer::start(&[]), TestServer::start_program(&program, &[]));
        let (one, other) = (ours.connect(), stack.connect());
        Servers { ours, stack, program, one, other, ended: 0 }
    }

    /// New clients; both servers are empty.
    fn begin(&mut self, protocol: u8) {
        (self.one, self.other) = (self.ours.connect(), self.stack.connect());
        for client in [&mut self.one, &mut self.other] {
            client.ok("FLUSHALL");
            prepare(client, protocol);
        }
    }

    /// The replies of both to some requests. `None` if Redis Stack has ended: it is started again.
    fn replies(&mut self, requests: &[Vec<String>], protocol: u8) -> Option<Vec<(Value, Value)>> {
        let bytes: Vec<u8> = requests.iter().map(|words| encode(words)).collect::<Vec<_>>().concat();
        self.one.send(&bytes);
        self.other.send(&bytes);
        let mut replies = Vec::with_capacity(requests.len());
        for _ in requests {
            let here = self.one.read();
            let Ok(there) = self.other.try_read() else {
                self.ended += 1;
                self.stack = TestServer::start_program(&self.program, &[]);
                self.begin(protocol);
                return None;
            };
            replies.push((here, there));
        }
        Some(replies)
    }
}

/// Random commands in one protocol; returns how many failed. Differences are added to `found`, each
/// kind once.
fn compare(
    servers: &mut Servers,
    draw: &mut Draw,
    protocol: u8,
    commands: u64,
    found: &mut Vec<String>,
) -> u64 {
    servers.begin(protocol);
    let most = number("BRAID_MISMATCHES", 5) as usize;
    let mut errors = 0;
    let mut done = 0;
    while done < commands && found.len() < most {
        let batch: Vec<Vec<String>> = (0..BATCH).map(|_| draw.command()).collect();
        let look = |command: &[String]| vec!["JSON.GET".to_owned(), command[1].clone()];
        let requests: Vec<Vec<String>> =
            batch.iter().flat_map(|command| [look(command), command.clone(), look(command)]).collect();
        done += BATCH as u64;
        let Some(replies) = servers.replies(&requests, protocol) else { continue };
        let mut is_apart = false;
        for (command, replies) in batch.iter().zip(replies.chunks_exact(3)) {
            let (before, (here, there), (after, after_there)) = (&replies[0].0, &replies[1], &replies[2]);
            errors += u64::from(here.is_error());
            // Redis Stack keeps the changes before the one that failed.
            let keeps_some = here.is_error() && there.is_error() && after != after_there;
            if !is_apart && !(agree(command, here, there) && (after == after_there || keeps_some)) {
                let bytes: Vec<Vec<u8>> = command.iter().map(|word| word.clone().into_bytes()).collect();
                found.push(format!(
                    "RESP{protocol}: {}\n  document: {before}\n  ours:     {here}\n  stack:    {there}\n  \
                     ours after it:  {after}\n  stack after it: {after_there}",
                    line(&bytes)
                ));
            }
            is_apart |= after != after_there;
        }
        let is_long = replies.iter().any(|(reply, _)| reply.to_string().len() > LONGEST);
        if is_apart || is_long {
            servers.begin(protocol);
        }
    }
    errors
}

#[test]
fn json_commands_get_the_same_replies_as_on_redis_stack() {
    let Some(program) = program().filter(|_| is_braid()) else {
        println!("skipped: no Redis Stack, or Braid is not under test");
        return;
    };
    let mut servers = Servers::start(program);
    let version = servers.other.info_field("server", "redis_version").unwrap_or_default();
    assert!(version.starts_with("7.4."), "{version} is not the Redis Stack that was measured");
    let commands = number("BRAID_JSON_COMMANDS", number("BRAID_COMMANDS", 20_000) / 2) / 2;
    let mut draw = Draw(source("json"));
    let mut found = Vec::new();
    for protocol in [2, 3] {
        let errors = compare(&mut servers, &mut draw, protocol, commands, &mut found);
        assert!(errors < commands / 2, "most commands must do something: {errors} of {commands} failed");
    }
    println!("{commands} commands in each protocol; {} of them ended Redis Stack", servers.ended);
    assert!(found.is_empty(), "replies differ:\n{}", found.join("\n"));
    dumps_are_exchanged(&servers.ours, &servers.stack, &mut draw);
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
