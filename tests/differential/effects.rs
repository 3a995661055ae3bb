// SPDX-License-Identifier: BSD-3-Clause
//! What every command does besides replying: key look-ups counted as hits and misses, keyspace
//! events, changes counted for saving, and aborted transactions of clients that watch its keys.
//!
//! `effects.txt` has the commands; this file runs each in several forms on the server under test
//! and on a stock server that knows it: with the keys as prepared, a second time, and with each
//! key in turn missing, of another type, and expired but not yet removed. Every difference must be
//! in `known_effects.txt`, and every entry there must be needed. A command with a key that has no
//! line in the table fails the test.
//!
//! `BRAID_PEER` names another stock server to compare with. With Redis 8.2 or later the events
//! `overwritten` and `type_changed` are compared too, which no older server has.

use std::collections::{BTreeMap, BTreeSet};

use braid_tests::server::{Peer, newer_peers, peer};
use braid_tests::words::{glob, words};
use braid_tests::{RawClient, TestServer, Value, wait_for};

const TABLE: &str = include_str!("effects.txt");
const KNOWN: &str = include_str!("../known_effects.txt");

/// The keys that commands of the table name.
const KEYS: [&str; 3] = ["a", "b", "c"];

/// Events of keys of any type: they are compared by name even between different commands.
const GENERIC: [&str; 4] = ["new", "del", "expired", "keymiss"];

/// A command with the commands before it, and another client's command that serves it.
struct Case {
    setup: Vec<String>,
    command: String,
    serving: Option<String>,
}

/// A line of the table.
struct Line {
    text: &'static str,
    case: Case,
    /// What the peer, which does not know the command, runs instead.
    instead: Option<Case>,
}

impl Case {
    fn parse(text: &str) -> Case {
        let (setup, command) = text.split_once('|').expect("a line has a |");
        let (command, serving) = match command.split_once(" <- ") {
            Some((command, serving)) => (command, Some(serving.trim().to_owned())),
            None => (command, None),
        };
        Case { setup: statements(setup), command: command.trim().to_owned(), serving }
    }

    /// The command's name, and that of its subcommand: one of both is in the command table.
    fn names(&self) -> [String; 2] {
        let words: Vec<&str> = self.command.split_whitespace().collect();
        let name = words[0].to_lowercase();
        let sub = words.get(1).map(|word| format!("{name}|{}", word.to_lowercase()));
        [name, sub.unwrap_or_default()]
    }

    fn names_key(&self, key: &str) -> bool {
        self.command.split_whitespace().skip(1).any(|word| word == key)
    }

    fn prepares(&self, key: &str) -> bool {
        self.setup.iter().any(|text| text.split_whitespace().skip(1).any(|word| word == key))
    }
}

/// The parts of a text between semicolons outside of quotes.
fn statements(text: &str) -> Vec<String> {
    let (mut found, mut quoted) = (vec![String::new()], false);
    for char in text.chars() {
        quoted ^= char == '"';
        match char {
            ';' if !quoted => found.push(String::new()),
            char => found.last_mut().expect("never empty").push(char),
        }
    }
    found.iter().map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()
}

/// The lines of the table, and the names of commands that are not compared.
fn table() -> (Vec<Line>, BTreeSet<&'static str>) {
    let (mut lines, mut left_out) = (Vec::new(), BTreeSet::new());
    for text in TABLE.lines().filter(|text| !text.is_empty() && !text.starts_with('#')) {
        if let Some(rest) = text.strip_prefix("- ") {
            let (name, reason) = rest.split_once(": ").expect("a name and a reason");
            assert!(!reason.is_empty(), "{text}");
            left_out.insert(name);
            continue;
        }
        let (case, instead) = match text.split_once(" ~ ") {
            Some((case, instead)) => (case, Some(Case::parse(instead))),
            None => (text, None),
        };
        lines.push(Line { text, case: Case::parse(case), instead });
    }
    (lines, left_out)
}

/// How a line's keys are changed before its command runs.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    Given,
    /// The command runs a second time.
    Again,
    Without(&'static str),
    /// The key holds a value of another type.
    Other(&'static str),
    Expired(&'static str),
}

impl std::fmt::Display for Form {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Form::Given => out.write_str("given"),
            Form::Again => out.write_str("again"),
            Form::Without(key) => write!(out, "without {key}"),
            Form::Other(key) => write!(out, "other {key}"),
            Form::Expired(key) => write!(out, "expired {key}"),
        }
    }
}

fn forms(case: &Case) -> Vec<Form> {
    let mut forms = vec![Form::Given];
    if case.serving.is_some() {
        return forms;
    }
    forms.push(Form::Again);
    for key in KEYS.into_iter().filter(|key| case.names_key(key)) {
        if case.prepares(key) {
            forms.push(Form::Without(key));
        }
        forms.extend([Form::Other(key), Form::Expired(key)]);
    }
    forms
}

/// What a command did.
#[derive(Debug)]
struct Effects {
    hits: u64,
    misses: u64,
    changes: u64,
    /// The watched keys whose clients' transactions were aborted.
    aborted: Vec<&'static str>,
    events: Vec<String>,
    failed: bool,
}

impl Effects {
    /// The aspects in which two servers differ. `by_name`: the events' names are comparable.
    fn differences(&self, other: &Effects, by_name: bool) -> Vec<&'static str> {
        let events = |effects: &Effects| -> Vec<String> {
            let general = |event: &String| {
                let (name, key) = event.split_once(' ').expect("a name and a key");
                if by_name || GENERIC.contains(&name) { event.clone() } else { format!("* {key}") }
            };
            effects.events.iter().map(general).collect()
        };
        let (ours, theirs) = (events(self), events(other));
        let sorted = |mut events: Vec<String>| {
            events.sort();
            events
        };
        let order = ours != theirs && sorted(ours.clone()) == sorted(theirs.clone());
        let aspects = [
            ("hits", self.hits != other.hits),
            ("misses", self.misses != other.misses),
            ("changes", self.changes != other.changes),
            ("watch", self.aborted != other.aborted),
            ("order", order),
            ("events", ours != theirs && !order),
            ("error", self.failed != other.failed),
        ];
        aspects.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
    }
}

struct Side {
    _server: TestServer,
    client: RawClient,
    blocked: RawClient,
    listener: RawClient,
    watchers: Vec<(&'static str, RawClient)>,
    /// DUMP's payloads of a string and of a list.
    payloads: [Vec<u8>; 2],
    commands: BTreeSet<String>,
}

impl Side {
    fn start(server: TestServer, flags: &str) -> Side {
        let [mut client, blocked, mut listener] = [(); 3].map(|()| server.connect());
        client.ok("DEBUG SET-ACTIVE-EXPIRE 0");
        client.ok(&format!("CONFIG SET notify-keyspace-events {flags}"));
        listener.call("HELLO 3");
        listener.call("PSUBSCRIBE __keyevent*");
        let payloads = ["SET p v", "RPUSH p v"].map(|command| {
            client.call("DEL p");
            client.call(command);
            client.call("DUMP p").bytes().expect("a payload").to_vec()
        });
        let watchers = KEYS.map(|key| (key, server.connect())).into();
        let commands = client.call("COMMAND LIST");
        let commands = commands.elements().expect("names").iter().map(|name| name.text().to_lowercase());
        let commands = commands.collect();
        Side { _server: server, client, blocked, listener, watchers, payloads, commands }
    }

    /// The arguments of a command of the table.
    fn arguments(&self, command: &str, target: &TestServer) -> Vec<Vec<u8>> {
        let replaced = |word: Vec<u8>| match &word[..] {
            b"@string" => self.payloads[0].clone(),
            b"@list" => self.payloads[1].clone(),
            b"@port" => target.port().to_string().into_bytes(),
            _ => word,
        };
        words(command).into_iter().map(replaced).collect()
    }

    fn clock_ms(&mut self) -> i64 {
        let time = self.client.call("TIME");
        let part = |index: usize| -> i64 { time.elements().expect("a time")[index].text().parse().unwrap() };
        part(0) * 1000 + part(1) / 1000
    }

    /// Returns once the server's clock is past this time.
    fn wait_until_past(&mut self, at: i64) {
        while self.clock_ms() <= at + 1 {}
    }

    /// The events published since the last call, with the database unless it is 0.
    fn events(&mut self) -> Vec<String> {
        let mut found = Vec::new();
        let mut value = self.listener.call("PING");
        while value != Value::Simple("PONG".into()) {
            let parts = value.elements().expect("a message");
            let (channel, key) = (parts[2].text(), parts[3].text());
            let (place, name) = channel.split_once("__:").expect("an event's channel");
            let place = if place.ends_with("@0") { "" } else { place };
            found.push(format!("{name} {key}{place}"));
            value = self.listener.read();
        }
        found
    }

    /// Hits, misses and changes since the last save.
    fn counters(&mut self) -> [u64; 3] {
        let info = self.client.info("all");
        ["keyspace_hits", "keyspace_misses", "rdb_changes_since_last_save"].map(|name| {
            let text = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            text.unwrap_or_else(|| panic!("no {name}")).parse().expect("a number")
        })
    }

    fn prepare(&mut self, case: &Case, form: Form, target: &TestServer) {
        self.client.ok("FLUSHALL");
        for text in &case.setup {
            if text == "LATER" {
                let now = self.clock_ms();
                self.wait_until_past(now + 2);
                continue;
            }
            let arguments = self.arguments(text, target);
            let reply = self.client.call_arguments(&arguments);
            assert!(!reply.is_error(), "{text}: {reply}");
        }
        match form {
            Form::Given | Form::Expired(_) => {}
            Form::Again => {
                let arguments = self.arguments(&case.command, target);
                self.client.call_arguments(&arguments);
            }
            Form::Without(key) => {
                self.client.call(&format!("DEL {key}"));
            }
            Form::Other(key) => {
                let kind = self.client.call(&format!("TYPE {key}")).text();
                self.client.call(&format!("DEL {key}"));
                let other = if matches!(&*kind, "none" | "string") { "RPUSH" } else { "SET" };
                self.client.call(&format!("{other} {key} other"));
            }
        }
    }

    fn watch(&mut self) {
        for (key, watcher) in &mut self.watchers {
            watcher.ok("UNWATCH");
            watcher.ok(&format!("WATCH {key}"));
        }
    }

    /// Prepares the keys and watches them. A key that is to be expired expires after that.
    fn begin(&mut self, case: &Case, form: Form, target: &TestServer) {
        let Form::Expired(key) = form else {
            self.prepare(case, form, target);
            return self.watch();
        };
        let mut lead_ms = 5;
        loop {
            self.prepare(case, form, target);
            let at = self.clock_ms() + lead_ms;
            if self.client.call(&format!("PEXPIREAT {key} {at}")) != Value::Integer(1) {
                self.client.ok(&format!("SET {key} old PXAT {at}"));
            }
            self.watch();
            if self.clock_ms() < at {
                return self.wait_until_past(at);
            }
            // Watched too late, on a busy machine.
            lead_ms *= 2;
        }
    }

    fn run(&mut self, case: &Case, form: Form, target: &TestServer) -> Effects {
        if case.command.contains("@port") {
            target.connect().ok("FLUSHALL");
        }
        self.begin(case, form, target);
        self.events();
        self.client.ok("CONFIG RESETSTAT");
        let before = self.counters();
        let arguments = self.arguments(&case.command, target);
        let reply = match &case.serving {
            None => self.client.call_arguments(&arguments),
            Some(serving) => {
                self.blocked.send(&braid_tests::words::encode(&arguments));
                let client = &mut self.client;
                wait_for("the client to block", || {
                    client.info_field("clients", "blocked_clients").as_deref() == Some("1")
                });
                self.client.call(serving);
                self.blocked.read()
            }
        };
        let after = self.counters();
        let [hits, misses, changes] = [0, 1, 2].map(|place| after[place] - before[place]);
        let events = self.events();
        let mut aborted = Vec::new();
        for (key, watcher) in &mut self.watchers {
            watcher.ok("MULTI");
            if watcher.call("EXEC") == Value::NullArray {
                aborted.push(*key);
            }
        }
        self.client.ok("UNWATCH");
        Effects { hits, misses, changes, aborted, events, failed: reply.is_error() }
    }
}

/// A difference that is correct.
struct Known {
    line: &'static str,
    form: &'static str,
    flags: &'static str,
    peer: &'static str,
    differs: Vec<&'static str>,
    reason: &'static str,
}

fn known() -> Vec<Known> {
    let plain: Vec<&str> = KNOWN.lines().filter(|line| !line.starts_with('#')).collect();
    let text: &'static str = plain.join("\n").leak();
    let entry = |block: &'static str| {
        let field = |name: &str| {
            block.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
        };
        let must = |name: &str| field(name).unwrap_or_else(|| panic!("no `{name}` in\n{block}"));
        Known {
            line: must("line"),
            form: field("form").unwrap_or("*"),
            flags: field("flags").unwrap_or("*"),
            peer: field("peer").unwrap_or("*"),
            differs: must("differs").split_whitespace().collect(),
            reason: must("reason"),
        }
    };
    text.split("\n\n").filter(|block| !block.trim().is_empty()).map(entry).collect()
}

/// The commands with keys, and subcommands, of a server, with their flags.
fn with_keys(client: &mut RawClient) -> BTreeMap<String, String> {
    fn collect(described: &Value, found: &mut BTreeMap<String, String>) {
        let parts = described.elements().expect("a command");
        let inner = parts[9].elements().unwrap_or_default();
        let flags: Vec<String> = parts[2].elements().unwrap_or_default().iter().map(Value::text).collect();
        let specs = parts[8].elements().unwrap_or_default();
        let movable = flags.iter().any(|flag| flag == "movablekeys");
        if inner.is_empty() && (parts[3] != Value::Integer(0) || !specs.is_empty() || movable) {
            found.insert(parts[0].text().to_lowercase(), flags.join(","));
        }
        inner.iter().for_each(|described| collect(described, found));
    }
    let mut found = BTreeMap::new();
    client.call("COMMAND").elements().expect("commands").iter().for_each(|one| collect(one, &mut found));
    found
}

#[test]
fn every_command_has_the_effects_that_it_has_on_stock_servers() {
    if !braid_tests::server::is_braid() {
        println!("skipped: Braid is not under test");
        return;
    }
    let (lines, left_out) = table();
    let peers: Vec<Peer> = match std::env::var_os("BRAID_PEER") {
        Some(program) => vec![peer(program.as_ref()).expect("BRAID_PEER names a server")],
        None => newer_peers(),
    };
    let ours = TestServer::start(&["--enable-debug-command", "yes"]);
    let covered: BTreeSet<String> = lines.iter().flat_map(|line| line.case.names()).collect();
    let flags_of = with_keys(&mut ours.connect());
    let is_missing = |name: &&String| !covered.contains(*name) && !left_out.contains(&***name);
    let missing: Vec<&String> = flags_of.keys().filter(is_missing).collect();
    assert!(missing.is_empty(), "commands with keys that have no line in effects.txt: {missing:?}");
    if peers.is_empty() {
        println!("skipped, no newer server: run tests/peers/install");
        return;
    }

    // A server shows only the classes of events that it knows.
    let is_newer = |peer: &Peer| peer.version.starts_with("redis 8.") && *peer.version >= *"redis 8.2";
    let tells_of_types = peers.iter().all(is_newer);
    let flags = if tells_of_types { "KEAmnoc" } else { "KEAmn" };
    let target = TestServer::start_program(&peers[0].program, &[]);
    let mut theirs: Vec<(&Peer, Side)> = peers
        .iter()
        .map(|peer| {
            let server = TestServer::start_program(&peer.program, &["--enable-debug-command", "yes"]);
            (peer, Side::start(server, flags))
        })
        .collect();
    let mut ours = Side::start(ours, flags);
    let known = known();
    let (mut faults, mut needed, mut compared) = (Vec::new(), BTreeSet::new(), 0);
    for line in &lines {
        let their_case = line.instead.as_ref().unwrap_or(&line.case);
        let [name, _] = their_case.names();
        let Some((peer, their)) = theirs.iter_mut().find(|(_, side)| side.commands.contains(&name)) else {
            println!("skipped, no peer has it: {}", line.text);
            continue;
        };
        let our_flags =
            line.case.names().iter().find_map(|name| flags_of.get(name)).expect("has keys").as_bytes();
        for form in forms(&line.case) {
            let one = ours.run(&line.case, form, &target);
            let other = their.run(their_case, form, &target);
            compared += 1;
            let mut differs = one.differences(&other, line.instead.is_none());
            for (place, known) in known.iter().enumerate() {
                let applies = glob(known.line.as_bytes(), line.text.as_bytes())
                    && glob(known.form.as_bytes(), form.to_string().as_bytes())
                    && glob(known.flags.as_bytes(), our_flags)
                    && glob(known.peer.as_bytes(), peer.version.as_bytes());
                if applies && known.differs.iter().any(|aspect| differs.contains(aspect)) {
                    needed.insert(place);
                    differs.retain(|aspect| !known.differs.contains(aspect));
                }
            }
            if !differs.is_empty() {
                faults.push(format!(
                    "{} [{form}]: {}\n  ours: {one:?}\n  {}: {other:?}",
                    line.text,
                    differs.join(", "),
                    peer.version
                ));
            }
        }
    }
    println!("{compared} forms of {} lines compared", lines.len());
    assert!(faults.is_empty(), "{} differences:\n{}", faults.len(), faults.join("\n"));
    for (place, known) in known.iter().enumerate() {
        let has_peer = peers.iter().any(|peer| glob(known.peer.as_bytes(), peer.version.as_bytes()));
        let is_needed = needed.contains(&place) || !has_peer || std::env::var_os("BRAID_PEER").is_some();
        assert!(is_needed, "outdated: {} [{}] ({})", known.line, known.form, known.reason);
    }
}

#[test]
fn statements_are_split_outside_of_quotes() {
    assert_eq!(statements("SET a v; EVAL \"x;y\" 0 ;"), ["SET a v", "EVAL \"x;y\" 0"]);
    assert!(statements("").is_empty());
}

#[test]
fn aspects_that_differ_are_named() {
    let events = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    let effects = |hits, names: &[&str]| Effects {
        hits,
        misses: 0,
        changes: 1,
        aborted: vec!["a"],
        events: events(names),
        failed: false,
    };
    let one = effects(1, &["new a", "hset a"]);
    assert!(one.differences(&effects(1, &["new a", "hset a"]), true).is_empty());
    assert_eq!(one.differences(&effects(2, &["hset a", "new a"]), true), ["hits", "order"]);
    assert_eq!(one.differences(&effects(1, &["new a", "sadd a"]), true), ["events"]);
    assert!(one.differences(&effects(1, &["new a", "sadd a"]), false).is_empty());
    assert_eq!(one.differences(&effects(1, &["sadd a", "sadd a"]), false), ["events"]);
}
