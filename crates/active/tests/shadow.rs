// SPDX-License-Identifier: BSD-3-Clause
//! Shadows and their keyspaces: random requests in two regions, with units exchanged at random.
//! After each exchange a keyspace, here a replica that runs plain requests, must show the same as
//! its shadow. Times come all along, by clocks that differ; a keyspace ends keys, fields and
//! members early or late, but always before a command that touches them. In the end all keyspaces
//! must show the same, also after a full copy, and after the state has been serialized and
//! loaded.
//!
//! `BRAID_SHADOWS` is the number of histories, `BRAID_SEED` the seed of the first one.

use std::collections::BTreeSet;

use braid_active::Parts;
use braid_active::change::Kind;
use braid_active::difference::{Difference, apply_with_difference, merge_part_with_difference};
use braid_active::document::{OBJECT, push_member};
use braid_active::effect::Unit;
use braid_active::fill::run_whole;
use braid_active::replica::{Replica, Settings, State};
use braid_active::saved::{Loader, SavedError, save};
use braid_active::translate::{EXPIRED, Request, Values, agree, shown, translate};
use braid_active::vector_set::Element;
use braid_active::view::{Until, View};
use braid_active::{Applied, Bytes, Name, Region, Stamp};

#[path = "simulation/holding.rs"]
mod holding;

const NOW: u64 = 1_800_000_000_000;

struct TestValues;

impl Values for TestValues {
    fn document(&self, text: &[u8]) -> Option<Parts> {
        fn push(value: &serde_json::Value, name: &mut Vec<u8>, parts: &mut Parts) {
            let Some(object) = value.as_object() else {
                return parts.push((name[..].into(), value.to_string().into_bytes().into()));
            };
            parts.push((name[..].into(), OBJECT.into()));
            for (member, value) in object {
                let len = name.len();
                push_member(name, member.as_bytes());
                push(value, name, parts);
                name.truncate(len);
            }
        }
        let mut parts = Parts::new();
        push(&serde_json::from_slice(text).ok()?, &mut Vec::new(), &mut parts);
        parts.sort();
        Some(parts)
    }

    fn document_text(&self, text: &[u8]) -> Option<Bytes> {
        let value: serde_json::Value = serde_json::from_slice(text).ok()?;
        Some(value.to_string().into_bytes().into())
    }

    fn document_part(&self, path: &[u8]) -> Option<Bytes> {
        let names = std::str::from_utf8(path).ok()?.strip_prefix('$')?.replace("][", ",");
        let names = if names.is_empty() { "[]" } else { &names };
        let members: Vec<String> = serde_json::from_str(names).ok()?;
        let mut part = Vec::new();
        members.iter().for_each(|member| push_member(&mut part, member.as_bytes()));
        Some(part.into())
    }

    fn register(&self, element: &[u8]) -> (u16, u8) {
        (u16::from(element[0]), element[element.len() - 1] % 50 + 1)
    }

    fn library_name(&self, _: &[u8]) -> Option<Name> {
        None
    }

    fn libraries(&self, _: &[u8]) -> Option<Vec<Bytes>> {
        None
    }
}

fn replica(region: u8) -> Replica {
    let region = Region::new(region).expect("a number");
    let settings = Settings { region, members: 0b110, ahead_ms_max: 60_000, rules: Default::default() };
    let mut replica = Replica::new(settings, State::default());
    replica.raise_ceiling(Stamp::of(region, (1 << 57) - 1).expect("a valid position"));
    replica
}

struct Server {
    /// How far its clock is ahead, in ms.
    skew: u64,
    /// Its keyspace cannot insert an entry in the middle of a stream.
    rewrites_streams: bool,
    shadow: Replica,
    keyspace: Replica,
    /// Own units that the other server has not received yet.
    units: Vec<Unit>,
}

impl Server {
    fn new(region: u8) -> Server {
        Server {
            skew: 0,
            rewrites_streams: false,
            shadow: replica(region),
            keyspace: replica(region),
            units: Vec::new(),
        }
    }

    /// The keyspace ends everything that is due, in the keys that `is_meant` accepts.
    fn end_due(&mut self, now: u64, is_meant: impl Fn(&[u8]) -> bool) {
        let now = now + self.skew;
        let is_due = |until: &Until| until.is_some_and(|time| time <= now);
        let mut due: Vec<(Name, Vec<Bytes>)> = Vec::new();
        for (_, name, view, until) in self.keyspace.views().filter(|(_, name, ..)| is_meant(name)) {
            let elements: Vec<(Bytes, Until)> = match view {
                _ if is_due(&until) => {
                    due.push((Name::from(name), Vec::new()));
                    continue;
                }
                View::Set(members) => members,
                View::Hash(fields) => fields.into_iter().map(|(field, _, until)| (field, until)).collect(),
                View::SortedSet(members) => members.into_iter().map(|(one, _, until)| (one, until)).collect(),
                _ => continue,
            };
            let ended: Vec<Bytes> =
                elements.into_iter().filter(|(_, until)| is_due(until)).map(|(one, _)| one).collect();
            if !ended.is_empty() {
                due.push((Name::from(name), ended));
            }
        }
        for (name, elements) in due {
            let args: Vec<&[u8]> =
                [EXPIRED, &name[..]].into_iter().chain(elements.iter().map(|one| &one[..])).collect();
            self.repeat(now, &args);
        }
    }

    /// Runs a request of the keyspace in both the keyspace and the shadow.
    fn repeat(&mut self, now: u64, args: &[&[u8]]) {
        let request = [Request { database: 0, args }];
        translate(&mut self.keyspace, &TestValues, now, &request).expect("the request fits the key's value");
        let unit =
            translate(&mut self.shadow, &TestValues, now, &request).expect("the shadow accepts the request");
        self.units.extend(unit);
        self.check(&String::from_utf8_lossy(args[0]));
    }

    /// Runs a client's command, if the keyspace accepts it.
    fn run(&mut self, now: u64, line: &str) {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let request = [Request { database: 0, args: &args }];
        if translate(&mut self.keyspace, &TestValues, now, &request).is_err() {
            return;
        }
        let unit =
            translate(&mut self.shadow, &TestValues, now, &request).expect("the shadow accepts the request");
        self.units.extend(unit);
        self.check(line);
    }

    /// Runs a random command of a client.
    fn run_random(&mut self, now: u64, random: &mut fastrand::Rng) {
        let line = command(random, now + self.skew);
        let keys: Vec<&str> = line.split(' ').skip(1).collect();
        self.end_due(now, |name| keys.iter().any(|key| key.as_bytes() == name));
        if let Some(line) = fitting(self, line, random) {
            self.run(now + self.skew, &line);
        }
    }

    /// Gives the keyspace a list that the shadow reads as a value.
    fn hold(&mut self, now: u64, name: &[u8], values: &[String]) {
        let bytes = |value: &String| Bytes::from(value.as_bytes());
        let there = View::List(values.iter().map(bytes).collect());
        let there = (!values.is_empty()).then_some((there, None));
        let keys = [(0, Name::from(name), there)];
        agree(&mut self.keyspace, now, &keys).expect("stamps are available");
        self.units.extend(agree(&mut self.shadow, now, &keys).expect("stamps are available"));
        self.check("a value");
    }

    fn run_difference(&mut self, now: u64, difference: Difference<'_>) {
        for request in difference.requests(&self.shadow) {
            let args: Vec<&[u8]> = request.args.iter().map(|arg| &arg[..]).collect();
            let one = [Request { database: request.database, args: &args }];
            translate(&mut self.keyspace, &TestValues, now, &one).expect("a plain request");
        }
        self.check("difference");
    }

    fn names(&self) -> BTreeSet<Name> {
        let all = self.shadow.views().chain(self.keyspace.views());
        all.map(|(_, name, _, _)| Name::from(name)).collect()
    }

    #[track_caller]
    fn check(&self, after: &str) {
        for name in self.names() {
            assert_eq!(shown(&self.shadow, 0, &name), shown(&self.keyspace, 0, &name), "{name:?} {after}");
        }
    }

    fn take(&mut self, now: u64, units: &[Unit]) {
        let mut difference = Difference::default();
        difference.rewrites_streams = self.rewrites_streams;
        for unit in units {
            let applied = apply_with_difference(&mut self.shadow, now, unit, &mut difference);
            assert_ne!(applied, Ok(Applied::Early(unit.previous)));
            applied.expect("applied");
        }
        self.run_difference(now, difference);
    }
}

fn command(random: &mut fastrand::Rng, now: u64) -> String {
    let key = random.usize(0..3);
    let (one, two) = (random.u8(0..6), random.u8(0..6));
    let soon = now + random.u64(1..12);
    let until = if random.bool() { soon } else { NOW + 1_000_000 + u64::from(two) };
    let kind = *random.choice(b"shtzlxjv").expect("letters") as char;
    let group = *random.choice(b"gk").expect("letters") as char;
    match random.u8(0..58) {
        0 => format!("SET s{key} {one}"),
        1 => format!("SET s{key} {one} PXAT {until}"),
        2 => format!("INCRBY s{key} {one}"),
        3 => format!("DEL s{key} h{key}"),
        4 => format!("HSET h{key} f{one} {two}"),
        5 => format!("HDEL h{key} f{one}"),
        6 => format!("HINCRBY h{key} n{one} {two}"),
        7 => format!("SADD t{key} {one} {two}"),
        8 => format!("SREM t{key} {one}"),
        9 => format!("ZADD z{key} {one} {two}"),
        10 => format!("ZINCRBY z{key} {one}.5 {two}"),
        11 => format!("ZREM z{key} {one}"),
        12 => format!("RPUSH l{key} {one} {two}"),
        13 => format!("LPUSH l{key} {one}"),
        14 => format!("LPOP l{key}"),
        15 => format!("RPOP l{key} 2"),
        16 | 17 => format!("PEXPIREAT {kind}{key} {until}"),
        18 => format!("PERSIST {kind}{key}"),
        19 => format!("XADD x{key} {} f v", new_id(random)),
        20 => format!("HPEXPIREAT h{key} {until} FIELDS 1 f{one}"),
        21 => format!("SPEXPIREAT t{key} {until} MEMBERS 1 {one}"),
        22 => format!("ZPEXPIREAT z{key} {until} MEMBERS 1 {one}"),
        23 if one == 0 => "FLUSHALL".into(),
        23 => format!("DEL l{key} z{key} t{key}"),
        24 => format!("XGROUP CREATE x{key} {group} 0"),
        25 => format!("XCLAIM x{key} {group} c{one} 0 - TIME {now} RETRYCOUNT {two} FORCE JUSTID LASTID 0"),
        26 => format!("XGROUP SETID x{key} {group} {}-0", NOW + random.u64(0..1_000_000)),
        27 => format!("XACK x{key} {group} -"),
        28 => format!("XDEL x{key} -"),
        29 if one < 3 => format!("XGROUP DESTROY x{key} {group}"),
        29 => format!("SET s{key} {one} KEEPTTL"),
        30 => format!("XGROUP DELCONSUMER x{key} {group} c{one}"),
        31 => format!("SADD s{key} {one}"),
        32 => format!("SMOVE t{key} t{} {one}", random.usize(0..3)),
        33 => format!("HGETDEL h{key} FIELDS 2 f{one} f{two}"),
        34 => format!("HSETEX h{key} PXAT {until} FIELDS 2 f{one} {two} f{two} {one}"),
        35 => format!("HSETEX h{key} KEEPTTL FIELDS 1 f{one} {two}"),
        36 => format!("XTRIM x{key} MINID = -"),
        37 => format!("XADD x{key} MINID = - {} f v", new_id(random)),
        46..=51 => document_command(random, key, one),
        52 | 53 => format!("VADD v{key} VALUES {} {one} {two} {one} e{two} NOQUANT", 3),
        54 => format!("VADD v{key} VALUES 2 {one} {two} e{one} NOQUANT SETATTR {two}"),
        55 => format!("VREM v{key} e{one}"),
        56 => format!("VSETATTR v{key} e{one} {two}"),
        57 => format!("DEL j{key} v{key}"),
        _ => list_command(random, key, one, two),
    }
}

fn document_command(random: &mut fastrand::Rng, key: usize, one: u8) -> String {
    let member = *random.choice(b"ab").expect("a letter") as char;
    let path = [format!("[\"{member}\"]"), format!("[\"a\"][\"{member}\"]"), "[\"a\"][\"b\"][\"c\"]".into()];
    let path = random.choice(&path).expect("a path");
    match random.u8(0..11) {
        8 => format!("JSON.SET j{key} ${path} [{one}]"),
        9 => format!("JSON.ARRAPPEND j{key} ${path} {one}"),
        10 => format!("JSON.ARRAPPEND j{key} ${path} [] {{\"b\":[\"],\"]}}"),
        0 => format!("JSON.SET j{key} $ {{\"{member}\":{one}}}"),
        1 | 2 => format!("JSON.SET j{key} ${path} {one}"),
        3 => format!("JSON.SET j{key} ${path} {{}}"),
        4 => format!("JSON.SET j{key} ${path} {{\"b\":null,\"c\":[{one}]}}"),
        5 => format!("JSON.DEL j{key} ${path}"),
        _ => format!("JSON.NUMINCRBY j{key} ${path} {one}"),
    }
}

fn new_id(random: &mut fastrand::Rng) -> String {
    format!("{}-{}", NOW + random.u64(0..1_000_000), random.u64(0..64))
}

/// There are few values, so most occur several times.
fn list_command(random: &mut fastrand::Rng, key: usize, one: u8, two: u8) -> String {
    let (from, to) = (random.i32(-4..6), random.i32(-3..7));
    let side = |random: &mut fastrand::Rng| if random.bool() { "LEFT" } else { "RIGHT" };
    match random.u8(0..10) {
        0..3 => format!("LREM l{key} {} {one}", random.i8(-2..3)),
        3..5 => format!("LSET l{key} {from} {two}"),
        5 => format!("LINSERT l{key} BEFORE {one} {two}"),
        6 => format!("LINSERT l{key} after {one} {two}"),
        7 => format!("LTRIM l{key} {from} {to}"),
        8 => format!("RPOPLPUSH l{key} l{}", random.usize(0..3)),
        _ => format!("LMOVE l{key} l{} {} {}", random.usize(0..3), side(random), side(random)),
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn keyspaces_follow_their_shadows() {
    let (first, count) = (setting("BRAID_SEED", 0), setting("BRAID_SHADOWS", 1_000));
    let mut held = 0;
    for seed in first..first + count {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut servers = [Server::new(1), Server::new(2)];
        servers[random.usize(0..2)].skew = random.u64(0..10);
        servers[1].rewrites_streams = random.bool();
        for step in 0..80 {
            let now = NOW + step;
            let who = random.usize(0..2);
            let server = &mut servers[who];
            match random.u8(0..10) {
                0 => {
                    let units = std::mem::take(&mut server.units);
                    servers[1 - who].take(now, &units);
                }
                1 => server.end_due(now, |_| true),
                2 => {
                    holding::hold_strings(&mut server.shadow, &mut random);
                    server.check("holding");
                }
                _ => server.run_random(now, &mut random),
            }
        }
        exchange(&mut servers, NOW + 100);
        held += servers[0].shadow.held();
        assert_eq!(servers[0].shadow.digest(), servers[1].shadow.digest(), "seed {seed}");
        check_copies(&servers[0], &mut random, seed);
        // All times come, earlier at one server than at the other.
        for now in [NOW + 200, NOW + 3_000_000] {
            for who in [0, 1, 0] {
                servers[who].end_due(now, |_| true);
                exchange(&mut servers, now);
            }
            assert_eq!(servers[0].shadow.digest(), servers[1].shadow.digest(), "seed {seed}");
            let names: BTreeSet<Name> = servers.iter().flat_map(Server::names).collect();
            for name in names {
                let [one, two] = [0, 1].map(|index| shown(&servers[index].keyspace, 0, &name));
                assert_eq!(one, two, "{name:?} of seed {seed}");
            }
        }
    }
    assert!(held > 0, "no string was held");
}

fn exchange(servers: &mut [Server; 2], now: u64) {
    for who in [0, 1] {
        let units = std::mem::take(&mut servers[who].units);
        servers[1 - who].take(now, &units);
    }
}

/// Checks a third server, from a full copy and from serialized state.
fn check_copies(server: &Server, random: &mut fastrand::Rng, seed: u64) {
    let bytes: Vec<u8> = save(&mut server.shadow.clone()).into_iter().flatten().collect();
    let mut loader = Loader::new();
    for piece in bytes.chunks(1 + random.usize(0..500)) {
        loader.feed(&mut &piece[..]).expect("the state is valid");
    }
    let state = loader.finish().expect("the state is complete");
    let mut third = Server::new(3);
    let mut difference = Difference::default();
    third.shadow.begin_merge(NOW + 100, &state).expect("the copy fits");
    while third.shadow.is_merging() {
        merge_part_with_difference(&mut third.shadow, &state, &mut difference);
    }
    third.run_difference(NOW + 100, difference);
    assert_eq!(third.shadow.digest(), server.shadow.digest());
    let mut empty = replica(4);
    let prefetch = |_, names: &mut dyn Iterator<Item = &[u8]>| assert!(names.count() > 0);
    run_whole(&third.shadow, prefetch, &mut |database, args| {
        translate(&mut empty, &TestValues, NOW, &[Request { database, args }]).expect("a plain request");
    });
    assert_eq!(empty.digest(), third.shadow.digest(), "seed {seed}");
    check_writes_beside_a_copy(server, &state, random, seed);
}

/// Checks a server whose clients write while it merges a full copy of another.
fn check_writes_beside_a_copy(server: &Server, copy: &State, random: &mut fastrand::Rng, seed: u64) {
    let now = NOW + 100;
    let mut third = Server::new(3);
    third.rewrites_streams = random.bool();
    (0..10).for_each(|_| third.run_random(now, random));
    third.shadow.begin_merge(now, copy).expect("the copy fits");
    while third.shadow.is_merging() {
        let mut difference = Difference::default();
        difference.rewrites_streams = third.rewrites_streams;
        for _ in 0..random.usize(1..20) {
            if third.shadow.is_merging() {
                merge_part_with_difference(&mut third.shadow, copy, &mut difference);
            }
        }
        third.run_difference(now, difference);
        holding::hold_strings(&mut third.shadow, random);
        (0..random.usize(0..3)).for_each(|_| third.run_random(now, random));
    }
    let mut other = server.shadow.clone();
    for unit in &third.units {
        assert_eq!(other.apply(now, unit), Ok(Applied::Now), "seed {seed}");
    }
    assert_eq!(other.digest(), third.shadow.digest(), "seed {seed}");
}

/// The command, if a client could run it on the visible keyspace. `-` stands for one of a
/// stream's IDs.
fn fitting(server: &Server, line: String, random: &mut fastrand::Rng) -> Option<String> {
    let mut words = line.split(' ');
    let at = if line.starts_with("XGROUP") { 2 } else { 1 };
    let Some(key) = words.nth(at) else { return Some(line) };
    let view = server.keyspace.view(0, key.as_bytes());
    if let Some(View::Stream { entries, groups, .. }) = &view {
        let group = line.split(' ').nth(at + 1).unwrap_or_default();
        let has_group = groups.iter().any(|(name, _)| &name[..] == group.as_bytes());
        let needs_group = line.contains("XGROUP") || line.contains("XCLAIM") || line.contains("XACK");
        if needs_group && has_group == line.contains("XGROUP CREATE") {
            return None;
        }
        if line.contains(" -") {
            let id = entries.get(random.usize(0..entries.len().max(1))).map(|(id, _)| *id)?;
            return Some(line.replacen(" -", &format!(" {}-{}", id.ms, id.sequence), 1));
        }
    } else if line.contains(" -") || line.starts_with("XGROUP") {
        return None;
    }
    fits(server, &line).then_some(line)
}

/// True if the key has a value of the command's type, or none.
fn fits(server: &Server, line: &str) -> bool {
    let key = line.split(' ').nth(1).unwrap_or_default();
    let view = server.keyspace.view(0, key.as_bytes());
    match line.split(' ').next() {
        Some(name) if name.starts_with("JSON.") => {
            let path = line.split(' ').nth(2).unwrap_or_default();
            let at = TestValues.document_part(path.as_bytes()).expect("a path");
            let has = |view: &View, part: &[u8], what: &dyn Fn(&[u8]) -> bool| match view {
                View::Parts(Kind::Json, parts) => {
                    parts.iter().any(|(one, value)| **one == *part && what(value))
                }
                _ => false,
            };
            match (name, view) {
                ("JSON.SET", view) if at.is_empty() => {
                    view.is_none_or(|view| matches!(view, View::Parts(Kind::Json, _)))
                }
                ("JSON.SET", Some(view)) => {
                    let ends: Vec<usize> = (0..at.len()).filter(|end| at[*end] == 0).collect();
                    let outer = ends.len().checked_sub(2).map_or(0, |index| ends[index] + 1);
                    has(&view, &at[..outer], &|value| value == OBJECT)
                }
                ("JSON.ARRAPPEND", Some(view)) => has(&view, &at, &|value| value[0] == b'['),
                ("JSON.NUMINCRBY", Some(view)) => has(&view, &at, &|value| value[0].is_ascii_digit()),
                (_, Some(view)) => has(&view, &at, &|_| true),
                (_, None) => false,
            }
        }
        Some("VREM" | "VSETATTR") => match view {
            Some(View::Parts(Kind::VectorSet, parts)) => {
                let element = line.split(' ').nth(2).unwrap_or_default().as_bytes();
                let mut elements = parts.iter().filter_map(|(part, value)| Element::of_part(part, value));
                elements.any(|one| one.name == element)
            }
            _ => false,
        },
        Some("SMOVE") => {
            let words: Vec<&str> = line.split(' ').collect();
            let has = |view: &Option<View>| match view {
                Some(View::Set(members)) => members.iter().any(|(one, _)| &one[..] == words[3].as_bytes()),
                _ => false,
            };
            words[1] != words[2] && has(&view)
        }
        Some("HGETDEL") => view.is_some(),
        Some("SADD" | "SREM") => view.is_none_or(|view| matches!(view, View::Set(_))),
        Some("INCRBY") => view.is_none_or(|view| match view {
            View::String(text) => text.iter().all(u8::is_ascii_digit),
            _ => false,
        }),
        Some("PEXPIREAT" | "PERSIST") => view.is_some(),
        Some("HDEL" | "HPEXPIREAT" | "SPEXPIREAT" | "ZPEXPIREAT") => {
            let element = line.split(' ').next_back().unwrap_or_default().as_bytes();
            match view {
                Some(View::Hash(fields)) => fields.iter().any(|(one, ..)| &one[..] == element),
                Some(View::Set(members)) => members.iter().any(|(one, ..)| &one[..] == element),
                Some(View::SortedSet(members)) => members.iter().any(|(one, ..)| &one[..] == element),
                _ => false,
            }
        }
        Some("LPOP" | "RPOP" | "ZREM") => view.is_some(),
        Some("LREM" | "LSET" | "LINSERT" | "LTRIM" | "LMOVE" | "RPOPLPUSH") => {
            let Some(View::List(values)) = view else { return false };
            let words: Vec<&str> = line.split(' ').collect();
            let has = |value: &str| values.iter().any(|one| &one[..] == value.as_bytes());
            match words[0] {
                "LREM" => has(words[3]),
                "LINSERT" => has(words[3]),
                "LSET" => {
                    let (index, len) = (words[2].parse().unwrap_or(0), values.len() as i64);
                    (-len..len).contains(&index)
                }
                _ => true,
            }
        }
        Some("XADD") => {
            let id = line.split(' ').nth(if line.contains("MINID") { 4 } else { 2 }).unwrap_or_default();
            let (ms, sequence) = id.split_once('-').unwrap_or_default();
            let id = (ms.parse::<u64>().unwrap_or(0), sequence.parse::<u64>().unwrap_or(0));
            match view {
                Some(View::Stream { last, .. }) => id > (last.ms, last.sequence),
                other => other.is_none(),
            }
        }
        _ => true,
    }
}

/// Applies a list command to the values of a list on a standalone server.
fn alone(values: &mut Vec<String>, words: &[&str]) {
    let at = |values: &[String], index: &str| {
        let index: i64 = index.parse().expect("an index");
        if index < 0 { index + values.len() as i64 } else { index }
    };
    match words[0] {
        "RPUSH" => values.extend(words[2..].iter().map(|word| (*word).to_owned())),
        "LPUSH" => words[2..].iter().for_each(|word| values.insert(0, (*word).to_owned())),
        "LREM" => {
            let count: i64 = words[2].parse().expect("a count");
            let mut left = if count == 0 { u64::MAX } else { count.unsigned_abs() };
            let mut stays = |value: &String| {
                let goes = value == words[3] && left > 0;
                left -= u64::from(goes);
                !goes
            };
            if count < 0 {
                let mut kept: Vec<String> = values.drain(..).rev().filter(&mut stays).collect();
                kept.reverse();
                *values = kept;
            } else {
                values.retain(&mut stays);
            }
        }
        "LSET" => {
            let index = at(values, words[2]) as usize;
            words[3].clone_into(&mut values[index]);
        }
        "LINSERT" => {
            let pivot = values.iter().position(|value| value == words[3]).expect("the pivot");
            let index = pivot + usize::from(words[2].eq_ignore_ascii_case("AFTER"));
            values.insert(index, words[4].to_owned());
        }
        "LTRIM" => {
            let (first, last) = (at(values, words[2]), at(values, words[3]));
            let mut index = -1;
            values.retain(|_| {
                index += 1;
                first <= index && index <= last
            });
        }
        "LMOVE" => {
            let value = if words[3] == "LEFT" { values.remove(0) } else { values.pop().expect("an element") };
            let index = if words[4] == "LEFT" { 0 } else { values.len() };
            values.insert(index, value);
        }
        "LPOP" => drop(values.remove(0)),
        "RPOP" => drop(values.pop()),
        other => panic!("{other}"),
    }
}

fn list_of(replica: &Replica, name: &[u8]) -> Vec<String> {
    match replica.view(0, name) {
        Some(View::List(values)) => {
            values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
        }
        other => {
            assert_eq!(other, None);
            Vec::new()
        }
    }
}

/// Among equal values each command selects the same ones as on a standalone server.
#[test]
fn list_commands_behave_as_on_a_standalone_server() {
    for seed in 0..setting("BRAID_SHADOWS", 1_000) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut server = Server::new(1);
        let mut values = Vec::new();
        for step in 0..60 {
            let (one, two) = (random.u8(0..4), random.u8(0..4));
            let line = match random.u8(0..12) {
                0..4 => format!("RPUSH l0 {one} {two}"),
                4..6 => format!("LPUSH l0 {one} {two}"),
                6 => "LPOP l0".into(),
                _ => list_command(&mut random, 0, one, two),
            };
            let words: Vec<&str> = line.split(' ').collect();
            if words[0] == "RPOPLPUSH" || words[0] == "LMOVE" && words[2] != "l0" || !fits(&server, &line) {
                continue;
            }
            server.run(NOW + step, &line);
            alone(&mut values, &words);
            assert_eq!(list_of(&server.shadow, b"l0"), values, "{line} of seed {seed}");
        }
    }
}

/// A command on a list of unique elements, with the elements that it adds and removes.
struct OnUnique {
    line: String,
    new: Vec<String>,
    gone: Vec<String>,
    /// It overwrites an element whose place another region may also remove or overwrite.
    is_set: bool,
}

fn on_unique(random: &mut fastrand::Rng, number: &mut u32, values: &[String]) -> Option<OnUnique> {
    *number += 1;
    let one = format!("{number}");
    let new = vec![one.clone()];
    let pushed = |line| OnUnique { line, new: new.clone(), gone: Vec::new(), is_set: false };
    let taken =
        |line, gone: &[String]| OnUnique { line, new: Vec::new(), gone: gone.to_vec(), is_set: false };
    let kind = random.u8(0..14);
    if kind < 4 {
        return Some(pushed(format!("{} list {one}", if kind == 0 { "LPUSH" } else { "RPUSH" })));
    }
    let index = random.usize(0..values.len().max(1));
    let value = values.get(index)?;
    let this = &values[index..=index];
    Some(match kind {
        4..7 => taken(format!("LREM list {} {value}", random.i8(-1..2)), this),
        7..9 => pushed(format!("LINSERT list BEFORE {value} {one}")),
        9 => pushed(format!("LINSERT list AFTER {value} {one}")),
        10 => OnUnique { line: format!("LSET list {index} {one}"), new, gone: this.to_vec(), is_set: true },
        11 => taken("LPOP list".into(), &values[..1]),
        12 => taken("RPOP list".into(), &values[values.len() - 1..]),
        _ => {
            let (first, last) = (random.usize(0..2), values.len() - random.usize(1..3).min(values.len()));
            let stays = first..(last + 1).max(first).min(values.len());
            let gone: Vec<String> =
                (0..values.len()).filter(|at| !stays.contains(at)).map(|at| values[at].clone()).collect();
            taken(format!("LTRIM list {first} {last}"), &gone)
        }
    })
}

/// Two regions receive each other's units late: a removed element never comes back, an element
/// that was not removed stays, and no element occurs twice. Some changes are read from the
/// keyspace as values.
#[test]
fn removed_elements_of_lists_stay_away() {
    for seed in 0..setting("BRAID_SHADOWS", 1_000) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut servers = [Server::new(1), Server::new(2)];
        let (mut number, mut new, mut gone, mut unsure) =
            (0, BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for step in 0..80 {
            let now = NOW + step;
            let who = random.usize(0..2);
            if random.u8(0..8) == 0 {
                let units = std::mem::take(&mut servers[who].units);
                servers[1 - who].take(now, &units);
                continue;
            }
            let server = &mut servers[who];
            let values = list_of(&server.keyspace, b"list");
            let Some(change) = on_unique(&mut random, &mut number, &values) else { continue };
            if random.u8(0..4) == 0 && !values.is_empty() {
                let mut after = values;
                alone(&mut after, &change.line.split(' ').collect::<Vec<_>>());
                server.hold(now, b"list", &after);
            } else {
                server.run(now, &change.line);
            }
            if change.is_set {
                unsure.extend(change.new);
            } else {
                new.extend(change.new);
            }
            gone.extend(change.gone);
        }
        exchange(&mut servers, NOW + 100);
        exchange(&mut servers, NOW + 101);
        assert_eq!(servers[0].shadow.digest(), servers[1].shadow.digest(), "seed {seed}");
        let held = list_of(&servers[0].keyspace, b"list");
        assert_eq!(held, list_of(&servers[1].keyspace, b"list"), "seed {seed}");
        let once: BTreeSet<String> = held.iter().cloned().collect();
        assert_eq!(once.len(), held.len(), "an element is duplicated, seed {seed}: {held:?}");
        let back: Vec<&String> = once.intersection(&gone).collect();
        assert!(back.is_empty(), "{back:?} came back, seed {seed}");
        let lost: Vec<&String> =
            new.iter().filter(|one| !gone.contains(*one) && !once.contains(*one)).collect();
        assert!(lost.is_empty(), "{lost:?} are lost, seed {seed}");
        assert!(once.iter().all(|one| new.contains(one) || unsure.contains(one)), "seed {seed}");
    }
}

#[test]
fn shadow_adopts_the_keyspace_contents() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..300 {
        let (mut shadow, mut other) = (Server::new(1), Server::new(2));
        for step in 0..30 {
            for server in [&mut shadow, &mut other] {
                let line = command(&mut random, NOW + 1_000_000);
                if let Some(line) = fitting(server, line, &mut random) {
                    server.run(NOW + step, &line);
                }
            }
        }
        let names: BTreeSet<Name> = shadow.names().into_iter().chain(other.names()).collect();
        let keys: Vec<_> =
            names.iter().map(|name| (0, name.clone(), shown(&other.keyspace, 0, name))).collect();
        agree(&mut shadow.shadow, NOW + 100, &keys).expect("stamps are available");
        for (_, name, there) in keys {
            assert_eq!(shown(&shadow.shadow, 0, &name), there, "{name:?}");
        }
    }
}

#[test]
fn damaged_states_are_refused() {
    let mut server = Server::new(1);
    server.run(NOW, "SET a b");
    let bytes: Vec<u8> = save(&mut server.shadow.clone()).into_iter().flatten().collect();
    let read = |bytes: &[u8]| {
        let mut loader = Loader::new();
        loader.feed(&mut &bytes[..])?;
        loader.finish().map(|_| ())
    };
    assert_eq!(read(&bytes), Ok(()));
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        assert!(read(&damaged).is_err(), "byte {at}");
        assert!(read(&bytes[..at]).is_err(), "cut at {at}");
    }
    let mut version = bytes.clone();
    version[8] = 9;
    assert_eq!(read(&version), Err(SavedError::Version(9)));
    assert_eq!(read(b"GET / HTTP/1.1"), Err(SavedError::Magic));
}

/// The format before marks of evicted keys: no byte before each key, no horizon at the end.
#[test]
fn states_of_the_version_before_are_read() {
    let mut server = Server::new(1);
    server.run(NOW, "SET key value");
    let bytes: Vec<u8> = save(&mut server.shadow.clone()).into_iter().flatten().collect();
    // Magic, version, length; the content; the zero length, the checksum.
    let mut content = bytes[17..bytes.len() - 16].to_vec();
    let name = [&[0; 5][..], &3_u64.to_le_bytes(), b"key"].concat();
    let at = content.windows(name.len()).position(|some| some == name).expect("the key");
    content.remove(at);
    content.truncate(content.len() - size_of::<u64>());
    let mut old = b"BRAIDAAS\x03".to_vec();
    old.extend((content.len() as u64).to_le_bytes());
    old.extend(&content);
    old.extend(0_u64.to_le_bytes());
    old.extend(braid_base::crc::crc64(0, &content).to_le_bytes());
    let mut loader = Loader::new();
    assert_eq!(loader.feed(&mut &old[..]), Ok(true));
    let state = loader.finish().expect("the old version is supported");
    let settings =
        Settings { region: Region::new(1).unwrap(), members: 2, ahead_ms_max: 1, rules: Default::default() };
    assert_eq!(Replica::new(settings, state).digest(), server.shadow.digest());
}
