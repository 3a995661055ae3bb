// SPDX-License-Identifier: BSD-3-Clause
//! The fast path of plain writes has the same result as the general path: the same units, the
//! same requests for the keyspace, and shadows that show the same, saved at any moment. Two regions
//! write, remove, increment, evict and expire a few keys of all types and exchange their units at
//! random; each has a twin that knows only the general path.

use braid_active::change::Written;
use braid_active::difference::{Difference, apply_with_difference};
use braid_active::replica::{Replica, Settings, State};
use braid_active::saved::{Digester, Digesting};
use braid_active::translate::{EVICTED, EXPIRED, Request, Values, plain_write, translate};
use braid_active::wire::{decode, encode};
use braid_active::write::{Write, write_with_difference};
use braid_active::{Applied, Bytes, Hashed, Name, Region, Stamp, Vector};

const NOW: u64 = 1_800_000_000_000;

struct NoValues;

impl Values for NoValues {
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
    /// How many writes have taken the fast path, of each kind of [`KINDS`].
    made: [usize; KINDS.len()],
    taken: [usize; KINDS.len()],
    /// A digest in progress, and what it must be.
    digest: Option<(Digester, u64)>,
}

/// The commands of plain writes, by the kind of what they write.
const KINDS: [&str; 5] = ["SET", "INCRBY", "HSET", "SADD", "ZADD"];

fn kind<T, S>(written: &Written<T, S>) -> usize {
    match written {
        Written::Text(_) => 0,
        Written::Sum(_) => 1,
        Written::Field(..) => 2,
        Written::Member(_) => 3,
        Written::Score(..) => 4,
    }
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
        let written = plain_write(args.iter().copied()).and_then(|(name, written)| {
            let key = Hashed { database: 0, hash: self.short.hash(name), name };
            Some((kind(&written), self.short.write(now, key, written, &mut bytes)?))
        });
        let made = match written {
            Some((kind, (stamp, run))) => {
                self.made[kind] += 1;
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
                self.taken[kind(&write.written(bytes))] += usize::from(applied == Some(Ok(Applied::Now)));
            }
            let applied =
                applied.unwrap_or_else(|| apply_with_difference(&mut self.short, now, unit, &mut short));
            assert_eq!(applied, expected);
        }
        assert_eq!(short.requests(&self.short), general.requests(&self.general));
        self.check();
    }

    /// Continues a digest until it is complete, which then is that of the state at its start, and
    /// begins another one.
    fn digest(&mut self) {
        if let Some((digester, expected)) = self.digest.take() {
            let digest = loop {
                match digester.go_on(&mut self.short, 1) {
                    Digesting::More => {}
                    Digesting::Done(digest) => break Some(digest),
                    Digesting::Lost => break None,
                }
            };
            assert!(digest.is_none_or(|digest| digest == expected));
        }
        let expected = self.short.digest();
        self.digest = Some((Digester::begin(&mut self.short), expected));
    }

    /// Takes note of what the other region has on disk.
    fn acknowledge(&mut self, region: Region, vector: &Vector) {
        for replica in [&mut self.short, &mut self.general] {
            replica.acknowledge(region, vector.clone());
        }
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
    let mut random = fastrand::Rng::with_seed(11);
    let (mut made, mut taken) = ([0; KINDS.len()], [0; KINDS.len()]);
    for _ in 0..400 {
        let mut pairs = [1, 2].map(|region| Pair {
            short: replica(region),
            general: replica(region),
            units: Vec::new(),
            made: [0; KINDS.len()],
            taken: [0; KINDS.len()],
            digest: None,
        });
        for step in 0..300 {
            let (now, which) = (NOW + step / 3, random.usize(0..2));
            let choice = random.u8(0..34);
            // Mostly a key of the command's type.
            let usual = match choice {
                11..14 | 18 | 21 | 23 | 24 => 2,
                14..16 | 19 => 3,
                16..18 | 20 | 22 => 4,
                1 | 2 | 10 => 5,
                _ => random.u8(0..6),
            };
            let number = if random.u8(0..6) == 0 { random.u8(0..6) } else { usual };
            let name = format!("k{number}").into_bytes();
            let value = vec![b'a' + random.u8(0..20); [0, 3, 3, 3, 40, 600][random.usize(0..6)]];
            let time = (now + random.u64(1..20)).to_string().into_bytes();
            let one = [b"field", b"other"][random.usize(0..2)];
            let pair = &mut pairs[which];
            match choice {
                0 => pair.run(now, &[b"DEL", &name]),
                1 | 2 => pair.run(now, &[b"INCRBY", &name, b"3"]),
                10 => pair.run(now, &[b"decr", &name]),
                11..14 => pair.run(now, &[b"HSET", &name, one, &value]),
                14..16 => pair.run(now, &[b"SADD", &name, one]),
                16..18 => pair.run(now, &[b"ZADD", &name, &time, one]),
                18 => pair.run(now, &[b"HDEL", &name, one]),
                19 => pair.run(now, &[b"SREM", &name, one]),
                20 => pair.run(now, &[b"ZREM", &name, one]),
                21 => pair.run(now, &[b"HINCRBY", &name, one, b"2"]),
                22 => pair.run(now, &[b"ZINCRBY", &name, b"2", one]),
                23 if random.bool() => {
                    pair.run(now, &[b"HPEXPIREAT", &name, &time, b"FIELDS", b"1", one]);
                }
                24 if random.bool() => pair.run(now, &[EXPIRED, &name, one]),
                25 => pair.digest(),
                3 => pair.run(now, &[b"SET", &name, &value, b"PXAT", &time]),
                4 => pair.run(now, &[b"PEXPIREAT", &name, &time]),
                5 => pair.run(now, &[EXPIRED, &name]),
                6 if random.u8(0..3) == 0 => pair.run(now, &[EVICTED, &name]),
                7 if random.u8(0..8) == 0 => pair.run(now, &[b"FLUSHALL"]),
                8 => pair.run(now, &[b"SET", &name, b"HYLL and no more of it"]),
                9 | 26..30 => {
                    let count = random.usize(0..=pairs[which].units.len());
                    let units: Vec<_> = pairs[which].units.drain(..count).collect();
                    pairs[1 - which].take(now, &units);
                }
                30 => {
                    let (region, vector) = (pairs[1 - which].short.region(), pairs[1 - which].short.vector());
                    let vector = vector.clone();
                    pairs[which].acknowledge(region, &vector);
                }
                _ => {
                    let name = format!("k{}", random.u8(0..2)).into_bytes();
                    pair.run(now, &[b"set", &name, &value]);
                }
            }
        }
        pairs.iter().for_each(Pair::check);
        for pair in &pairs {
            made.iter_mut().zip(pair.made).for_each(|(sum, count)| *sum += count);
            taken.iter_mut().zip(pair.taken).for_each(|(sum, count)| *sum += count);
        }
    }
    for (index, kind) in KINDS.iter().enumerate() {
        println!("{kind}: {} made, {} taken", made[index], taken[index]);
        assert!(made[index] > 500 && taken[index] > 200, "too few {kind} take the fast path");
    }
}

/// Truncated bytes of a plain write are not a plain write, and bytes that read as one are a valid
/// unit.
#[test]
fn plain_writes_are_units() {
    let mut random = fastrand::Rng::with_seed(2);
    let requests: [&[&[u8]]; KINDS.len()] = [
        &[b"SET", b"name", b"value"],
        &[b"INCRBY", b"name", b"-70000"],
        &[b"HSET", b"name", b"field", b"value"],
        &[b"SADD", b"name", b"member"],
        &[b"ZADD", b"name", b"1.5", b"member"],
    ];
    for args in requests {
        let mut one = replica(1);
        let mut bytes = Vec::new();
        let first = [Request { database: 3, args }];
        translate(&mut one, &NoValues, NOW, &first).expect("the request is translated");
        let key = Hashed { database: 3, hash: one.hash(b"name"), name: b"name" };
        let (_, written) = plain_write(args.iter().copied()).expect("a plain write");
        one.write(NOW, key, written, &mut bytes).expect("the fast path accepts a plain write");
        let write = Write::read(&bytes).expect("the unit of a plain write");
        assert!(write.name(&bytes) == b"name" && write.database() == 3);
        for len in 0..bytes.len() {
            assert!(Write::read(&bytes[..len]).is_none());
        }
        for _ in 0..20_000 {
            let mut damaged = bytes.clone();
            damaged[random.usize(0..bytes.len())] = random.u8(..);
            assert!(Write::read(&damaged).is_none() || decode(&damaged).is_ok());
        }
    }
}
