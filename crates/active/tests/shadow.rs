// SPDX-License-Identifier: BSD-3-Clause
//! Shadows beside keyspaces: random requests in two regions, units exchanged at random. After each
//! exchange a keyspace, here a replica that runs plain requests, shows what its shadow shows; in the
//! end all show the same, also after a full copy, and after the state has been through its bytes.

use std::collections::BTreeSet;

use braid_active::difference::{Difference, apply_with_difference, merge_with_difference, whole};
use braid_active::effect::Unit;
use braid_active::replica::{Replica, Settings, State};
use braid_active::saved::{Loader, SavedError, save};
use braid_active::translate::{Request, Values, agree, shown, translate};
use braid_active::view::View;
use braid_active::{Applied, Name, Region, Stamp};

const NOW: u64 = 1_800_000_000_000;

struct NoValues;

impl Values for NoValues {
    fn decode(&self, _: &[u8]) -> Option<View> {
        None
    }

    fn register(&self, element: &[u8]) -> (u16, u8) {
        (u16::from(element[0]), element[element.len() - 1] % 50 + 1)
    }
}

fn replica(region: u8) -> Replica {
    let region = Region::new(region).expect("a number");
    let settings = Settings { region, members: 0b110, ahead_ms_max: 60_000, rules: Default::default() };
    let mut replica = Replica::new(settings, State::default());
    replica.raise_ceiling(Stamp::of(region, (1 << 57) - 1).expect("a place"));
    replica
}

struct Server {
    shadow: Replica,
    keyspace: Replica,
    /// Own units that the other has not got yet.
    units: Vec<Unit>,
}

impl Server {
    fn new(region: u8) -> Server {
        Server { shadow: replica(region), keyspace: replica(region), units: Vec::new() }
    }

    /// A client's command, if the keyspace knows it.
    fn run(&mut self, now: u64, line: &str) {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let request = [Request { database: 0, args: &args }];
        if translate(&mut self.keyspace, &NoValues, now, &request).is_err() {
            return;
        }
        let unit = translate(&mut self.shadow, &NoValues, now, &request).expect("the same");
        self.units.extend(unit);
        self.check(line);
    }

    fn run_difference(&mut self, now: u64, difference: Difference) {
        for request in difference.finish(&mut self.shadow, now) {
            let args: Vec<&[u8]> = request.args.iter().map(|arg| &arg[..]).collect();
            let one = [Request { database: request.database, args: &args }];
            translate(&mut self.keyspace, &NoValues, now, &one).expect("a plain request");
        }
        self.check("difference");
    }

    fn names(&self) -> BTreeSet<Name> {
        let all = self.shadow.views().chain(self.keyspace.views());
        all.map(|(_, name, _, _)| name.clone()).collect()
    }

    #[track_caller]
    fn check(&self, after: &str) {
        for name in self.names() {
            assert_eq!(
                shown(&self.shadow, 0, &name, 0),
                shown(&self.keyspace, 0, &name, 0),
                "{name:?} {after}"
            );
        }
    }

    fn take(&mut self, now: u64, units: &[Unit]) {
        let mut difference = Difference::default();
        for unit in units {
            let applied = apply_with_difference(&mut self.shadow, now, unit, &mut difference);
            assert_ne!(applied, Ok(Applied::Early(unit.previous)));
            applied.expect("applied");
        }
        self.run_difference(now, difference);
    }
}

fn command(random: &mut fastrand::Rng) -> String {
    let key = random.usize(0..3);
    let (one, two) = (random.u8(0..6), random.u8(0..6));
    match random.u8(0..22) {
        0 => format!("SET s{key} {one}"),
        1 => format!("SET s{key} {one} PXAT {}", NOW + 1_000_000 + u64::from(two)),
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
        16 => format!("PEXPIREAT h{key} {}", NOW + 1_000_000 + u64::from(two)),
        17 => format!("PERSIST h{key}"),
        18 => format!("XADD x{key} {}-{} f v", NOW + random.u64(0..1_000_000), random.u64(0..64)),
        19 => format!("HPEXPIREAT h{key} {} FIELDS 1 f{one}", NOW + 1_000_000),
        20 if one == 0 => "FLUSHALL".into(),
        20 => format!("DEL l{key} z{key} t{key}"),
        _ => format!("SADD s{key} {one}"),
    }
}

#[test]
fn keyspaces_follow_their_shadows() {
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut servers = [Server::new(1), Server::new(2)];
        for step in 0..60 {
            let now = NOW + step;
            let who = random.usize(0..2);
            let server = &mut servers[who];
            if random.u8(0..8) > 0 {
                let line = command(&mut random);
                // A client could not have done this to a value of another type.
                let kind = line.split(' ').nth(1).and_then(|key| key.bytes().next());
                let is_fitting = !line.starts_with("SADD s") || kind == Some(b's');
                let is_fitting = is_fitting && fits(server, &line);
                if is_fitting {
                    server.run(now, &line);
                }
                continue;
            }
            let units = std::mem::take(&mut server.units);
            servers[1 - who].take(now, &units);
        }
        for who in [0, 1] {
            let units = std::mem::take(&mut servers[who].units);
            servers[1 - who].take(NOW + 100, &units);
        }
        assert_eq!(servers[0].shadow.digest(), servers[1].shadow.digest(), "seed {seed}");
        // A third one, by a full copy and from bytes.
        let bytes: Vec<u8> = save(&servers[0].shadow).flatten().collect();
        let mut loader = Loader::new();
        for piece in bytes.chunks(1 + random.usize(0..500)) {
            loader.feed(&mut &piece[..]).expect("whole pieces");
        }
        let state = loader.finish().expect("what was saved");
        let mut third = Server::new(3);
        let mut difference = Difference::default();
        merge_with_difference(&mut third.shadow, NOW + 100, &state, &mut difference).expect("merged");
        third.run_difference(NOW + 100, difference);
        assert_eq!(third.shadow.digest(), servers[0].shadow.digest());
        let mut empty = replica(4);
        for request in whole(&third.shadow) {
            let args: Vec<&[u8]> = request.args.iter().map(|arg| &arg[..]).collect();
            translate(&mut empty, &NoValues, NOW, &[Request { database: 0, args: &args }]).expect("plain");
        }
        assert_eq!(empty.digest(), third.shadow.digest(), "seed {seed}");
    }
}

/// Whether the key has a value of the command's type, or none.
fn fits(server: &Server, line: &str) -> bool {
    let key = line.split(' ').nth(1).unwrap_or_default();
    let view = server.keyspace.view(0, key.as_bytes(), 0);
    match line.split(' ').next() {
        Some("SADD" | "SREM") => view.is_none_or(|view| matches!(view, View::Set(_))),
        Some("INCRBY") => view.is_none_or(|view| match view {
            View::String(text) => text.iter().all(u8::is_ascii_digit),
            _ => false,
        }),
        Some("PEXPIREAT" | "PERSIST") => view.is_some(),
        Some("HDEL" | "HPEXPIREAT") => {
            let field = line.split(' ').next_back().unwrap_or_default().as_bytes();
            matches!(view, Some(View::Hash(fields)) if fields.iter().any(|(one, ..)| &one[..] == field))
        }
        Some("LPOP" | "RPOP" | "ZREM") => view.is_some(),
        Some("XADD") => {
            let id = line.split(' ').nth(2).unwrap_or_default();
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

#[test]
fn what_the_keyspace_has_becomes_effects() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..300 {
        let (mut shadow, mut other) = (Server::new(1), Server::new(2));
        for step in 0..30 {
            let line = command(&mut random);
            if fits(&shadow, &line) {
                shadow.run(NOW + step, &line);
            }
            let line = command(&mut random);
            if fits(&other, &line) {
                other.run(NOW + step, &line);
            }
        }
        let names: BTreeSet<Name> = shadow.names().into_iter().chain(other.names()).collect();
        let keys: Vec<_> =
            names.iter().map(|name| (0, name.clone(), shown(&other.keyspace, 0, name, 0))).collect();
        agree(&mut shadow.shadow, NOW + 100, &keys).expect("stamps are there");
        for (_, name, there) in keys {
            assert_eq!(shown(&shadow.shadow, 0, &name, 0), there, "{name:?}");
        }
    }
}

#[test]
fn damaged_states_are_refused() {
    let mut server = Server::new(1);
    server.run(NOW, "SET a b");
    let bytes: Vec<u8> = save(&server.shadow).flatten().collect();
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
