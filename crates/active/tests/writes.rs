// SPDX-License-Identifier: BSD-3-Clause
//! The fast path of plain writes has the same result as the general path: the same units, the
//! same requests for the keyspace, and shadows that show the same. Two regions write, remove,
//! increment and expire a few keys and exchange their units at random; each has a twin that knows
//! only the general path.

use braid_active::difference::{Difference, apply_with_difference};
use braid_active::replica::{Replica, Settings, State};
use braid_active::translate::{EVICTED, EXPIRED, Request, Values, plain_write, translate};
use braid_active::view::View;
use braid_active::wire::{decode, encode};
use braid_active::write::{Write, write_with_difference};
use braid_active::{Applied, Bytes, Hashed, Name, Region, Stamp};

const NOW: u64 = 1_800_000_000_000;

struct NoValues;

impl Values for NoValues {
    fn decode(&self, _: &[u8]) -> Option<View> {
        None
    }

    fn register(&self, _: &[u8]) -> (u16, u8) {
        (0, 0)
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

/// A replica and its twin, and the units that the other region has not received yet.
struct Pair {
    short: Replica,
    general: Replica,
    units: Vec<Vec<u8>>,
    writes: usize,
}

impl Pair {
    fn run(&mut self, now: u64, args: &[&[u8]]) {
        let requests = [Request { database: 0, args }];
        // A request that fails must fail in both.
        let unit = match translate(&mut self.general, &NoValues, now, &requests) {
            Ok(unit) => unit,
            Err(error) => error.unit.map(|unit| *unit),
        };
        let expected = unit.map(|unit| encode(&unit));
        let mut bytes = Vec::new();
        let written = plain_write(args.iter().copied()).and_then(|(name, value)| {
            let key = Hashed { database: 0, hash: self.short.hash(name), name };
            self.short.write(now, key, value, &mut bytes)
        });
        let made = match written {
            Some((stamp, run)) => {
                self.writes += 1;
                assert_eq!(self.short.vector().run_of(stamp), Some(run));
                Some(bytes)
            }
            None => {
                assert!(bytes.is_empty(), "the fast path wrote bytes before it declined");
                let unit = match translate(&mut self.short, &NoValues, now, &requests) {
                    Ok(unit) => unit,
                    Err(error) => error.unit.map(|unit| *unit),
                };
                unit.map(|unit| encode(&unit))
            }
        };
        assert_eq!(made, expected, "{:?}", args.iter().map(|arg| arg.escape_ascii()).collect::<Vec<_>>());
        self.units.extend(made);
    }

    /// Applies units of the other region in one batch.
    fn take(&mut self, now: u64, units: &[Vec<u8>]) {
        let whole: Vec<_> = units.iter().map(|bytes| decode(bytes).expect("a unit")).collect();
        let (mut general, mut short) = (Difference::default(), Difference::default());
        for (unit, bytes) in whole.iter().zip(units) {
            let expected = apply_with_difference(&mut self.general, now, unit, &mut general);
            let mut applied = None;
            if let Some(write) = Write::read(bytes) {
                let hash = self.short.hash(write.name(bytes));
                applied = write_with_difference(&mut self.short, now, (&write, bytes), hash, &mut short)
                    .transpose();
                self.writes += usize::from(applied == Some(Ok(Applied::Now)));
            }
            let applied =
                applied.unwrap_or_else(|| apply_with_difference(&mut self.short, now, unit, &mut short));
            assert_eq!(applied, expected);
        }
        assert_eq!(short.requests(&self.short), general.requests(&self.general));
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.short.digest(), self.general.digest());
        assert_eq!(self.short.vector(), self.general.vector());
        assert_eq!(self.short.tombstones(), self.general.tombstones());
        for name in (0..6).map(|number| format!("k{number}")) {
            let (one, other) = (self.short.key(0, name.as_bytes()), self.general.key(0, name.as_bytes()));
            assert_eq!(one.as_deref(), other.as_deref(), "{name}");
        }
    }
}

#[test]
fn fast_path_writes_match_the_general_path() {
    let (mut random, mut writes) = (fastrand::Rng::with_seed(11), 0);
    for _ in 0..300 {
        let mut pairs = [1, 2].map(|region| Pair {
            short: replica(region),
            general: replica(region),
            units: Vec::new(),
            writes: 0,
        });
        for step in 0..200 {
            let (now, which) = (NOW + step / 3, random.usize(0..2));
            let name = format!("k{}", random.u8(0..6)).into_bytes();
            let value = vec![b'a' + random.u8(0..20); [0, 3, 3, 3, 40, 600][random.usize(0..6)]];
            let time = (now + random.u64(1..20)).to_string().into_bytes();
            let pair = &mut pairs[which];
            match random.u8(0..16) {
                0 => pair.run(now, &[b"DEL", &name]),
                1 => pair.run(now, &[b"INCRBY", &name, b"3"]),
                2 => pair.run(now, &[b"HSET", &name, b"f", &value]),
                3 => pair.run(now, &[b"SET", &name, &value, b"PXAT", &time]),
                4 => pair.run(now, &[b"PEXPIREAT", &name, &time]),
                5 => pair.run(now, &[EXPIRED, &name]),
                6 if random.u8(0..3) == 0 => pair.run(now, &[EVICTED, &name]),
                7 if random.u8(0..8) == 0 => pair.run(now, &[b"FLUSHALL"]),
                8 => pair.run(now, &[b"SET", &name, b"HYLL and no more of it"]),
                9 | 10 => {
                    let count = random.usize(0..=pairs[which].units.len());
                    let units: Vec<_> = pairs[which].units.drain(..count).collect();
                    pairs[1 - which].take(now, &units);
                }
                _ => pair.run(now, &[b"set", &name, &value]),
            }
        }
        pairs.iter().for_each(Pair::check);
        writes += pairs.iter().map(|pair| pair.writes).sum::<usize>();
    }
    assert!(writes > 5_000, "too few writes take the fast path: {writes}");
}

/// Truncated bytes of a plain write are not a plain write, and bytes that read as one are a valid
/// unit.
#[test]
fn plain_writes_are_units() {
    let mut one = replica(1);
    let mut bytes = Vec::new();
    let set = [Request { database: 3, args: &[b"SET", b"first", b"value"] }];
    translate(&mut one, &NoValues, NOW, &set).expect("the request is translated");
    let key = Hashed { database: 3, hash: one.hash(b"name"), name: b"name" };
    one.write(NOW, key, b"value", &mut bytes).expect("the fast path accepts a plain write");
    assert!(Write::read(&bytes).is_some_and(|write| write.name(&bytes) == b"name" && write.database() == 3));
    for len in 0..bytes.len() {
        assert!(Write::read(&bytes[..len]).is_none());
    }
    let mut random = fastrand::Rng::with_seed(2);
    for _ in 0..20_000 {
        let mut damaged = bytes.clone();
        damaged[random.usize(0..bytes.len())] = random.u8(..);
        assert!(Write::read(&damaged).is_none() || decode(&damaged).is_ok());
    }
}
