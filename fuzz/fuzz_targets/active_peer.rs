// SPDX-License-Identifier: BSD-3-Clause
//! Input from a peer of active-active replication: valid units and full copies, the same with some
//! bytes changed, and arbitrary bytes.
//!
//! The fuzzer's input is a list of codes: client commands at the peer and at this server, and
//! damage to messages. Whatever arrives, nothing panics, a decoded unit encodes to the same bytes,
//! the difference to the keyspace can be computed, and this server's saved state can be loaded.

#![no_main]

use braid_active::amount::Amount;
use braid_active::cell::Time;
use braid_active::change::Kind;
use braid_active::difference::{Difference, apply_with_difference, merge_part_with_difference};
use braid_active::document::push_member;
use braid_active::position::Side;
use braid_active::replica::{Settings, State};
use braid_active::saved::{Loader, save};
use braid_active::stream::Id;
use braid_active::vector_set::{Element, Quantisation, Shape};
use braid_active::wire::{decode, encode};
use braid_active::write::{Write, write_with_difference};
use braid_active::{Bytes, Name, Region, Replica, Rules, Stamp, Transaction};
use braid_base::crc::crc64;
use libfuzzer_sys::fuzz_target;

const NOW: u64 = 1_800_000_000_000;
/// Length of a saved state's header.
const HEAD: usize = 9;

/// The rest of the input.
struct Codes<'a>(&'a [u8]);

impl Codes<'_> {
    /// The next code; zeros at the end of the input.
    fn next(&mut self) -> usize {
        let Some((&code, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        code.into()
    }

    fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    /// One of a few names.
    fn name(&mut self) -> Name {
        [&b"a"[..], b"b", b"c"][self.next() % 3].into()
    }

    fn bytes(&mut self) -> Bytes {
        [&b""[..], b"1", b"-7.5", b"text", b"more text"][self.next() % 5].into()
    }

    fn time(&mut self) -> Option<u64> {
        self.next().is_multiple_of(3).then_some(NOW + 5)
    }

    /// Changes some bytes.
    fn damage(&mut self, bytes: &mut [u8]) {
        for _ in 0..self.next() % 4 {
            let (at, by) = (self.next() << 8 | self.next(), self.next());
            let at = at % bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(at) {
                *byte ^= by as u8;
            }
        }
    }
}

fn server(number: u8, ahead_ms_max: u64, state: State) -> Replica {
    let region = Region::new(number).expect("a region");
    let settings = Settings { region, members: 0b111, ahead_ms_max, rules: Rules::default() };
    let mut replica = Replica::new(settings, state);
    replica.raise_ceiling(Stamp::at(NOW + 100_000, region));
    replica
}

/// A client's command.
fn command(transaction: &mut Transaction, codes: &mut Codes) {
    let (code, database, name) = (codes.next(), codes.next() as u32 % 2, &codes.name());
    let (one, other) = (codes.bytes(), codes.bytes());
    let (id, by) = (Id { ms: codes.next() as u64, sequence: 1 }, Amount::of_integer(codes.next() as i64 - 5));
    match code % 33 {
        0 | 1 => transaction.set(database, name, one, codes.time()),
        2 => drop(transaction.increment(database, name, by)),
        3 => transaction.remove(database, name),
        4 => transaction.flush((!code.is_multiple_of(2)).then_some(database)),
        5 => transaction.live(database, name, codes.time().map_or(Time::Never, Time::At)),
        6 => transaction.hash_set(database, name, one, other, codes.time()),
        7 => transaction.hash_remove(database, name, one),
        8 => drop(transaction.hash_increment(database, name, one, by)),
        9 => transaction.set_add(database, name, one),
        10 => transaction.set_remove(database, name, one),
        11 => transaction.sorted_set_add(database, name, one, 2.5),
        12 => transaction.sorted_set_remove(database, name, one),
        13 => drop(transaction.sorted_set_increment(database, name, one, by)),
        14 => transaction.list_push(database, name, Side::Left, vec![one, other]),
        15 => transaction.list_push(database, name, Side::Right, vec![one]),
        16 => transaction.list_insert(database, name, codes.next() % 4, one),
        17 => transaction.list_set(database, name, codes.next() % 4, one),
        18 => transaction.list_remove(database, name, codes.next() % 4),
        19 => transaction.count(database, name, vec![(codes.next() as u16, codes.next() as u8 % 51 + 1)]),
        20 => drop(transaction.stream_add(database, name, None, vec![one, other].into())),
        21 => transaction.stream_remove(database, name, id),
        22 => transaction.stream_set_id(database, name, id),
        23 => transaction.group_create(database, name, &one, id),
        24 => transaction.group_deliver(database, name, &one, &other, &[(id, 1)]),
        25 => transaction.group_acknowledge(database, name, &one, id),
        26 => transaction.group_remove_consumer(database, name, &one, &other),
        27 => transaction.group_destroy(database, name, &one),
        28 => transaction.group_set_id(database, name, &one, id),
        29 => {
            // Names and values of parts as a peer may send them, also such as no client can make.
            let kind = if by == Amount::ZERO { Kind::VectorSet } else { Kind::Json };
            transaction.part(database, name, kind, one, Some(other));
        }
        30 => {
            let mut part = Vec::new();
            (0..=codes.next() % 3).for_each(|_| push_member(&mut part, &codes.bytes()));
            let to = [(Bytes::from(&part[..]), other)];
            transaction.bring_member(database, name, &part, if code.is_multiple_of(2) { &to } else { &[] });
            let _ = transaction.part_increment(database, name, &part, 3);
        }
        31 => {
            let shape = Shape { quantisation: Quantisation::Integer, dimension: codes.next() as u32 % 3 };
            let vector = vec![7; 4 * shape.dimension as usize];
            let value = Element { name: b"", links: 16, vector: &vector, attribute: &other }.value();
            transaction.part(database, name, Kind::VectorSet, shape.part(&one), Some(value));
        }
        _ => transaction.evict(database, name),
    }
}

/// A client's transaction. Returns the encoded unit for the peers.
fn execute(replica: &mut Replica, codes: &mut Codes) -> Option<Vec<u8>> {
    let unit = replica.execute(NOW, |transaction| {
        for _ in 0..codes.next() % 3 + 1 {
            command(transaction, codes);
        }
    });
    unit.ok().flatten().map(|unit| encode(&unit))
}

/// Applies a unit as the engine does.
fn take(replica: &mut Replica, bytes: &[u8]) {
    let Ok(unit) = decode(bytes) else {
        assert!(Write::read(bytes).is_none(), "a plain write does not decode as a unit");
        return;
    };
    assert_eq!(encode(&unit), bytes);
    let mut difference = Difference::default();
    let mut applied = Ok(None);
    if let Some(write) = Write::read(bytes) {
        let hash = replica.hash(write.name(bytes));
        applied = write_with_difference(replica, NOW, (&write, bytes), hash, &mut difference);
    }
    if let Ok(None) = applied {
        let _ = apply_with_difference(replica, NOW, &unit, &mut difference);
    }
    difference.requests(replica);
}

/// Merges a full copy part by part, with commands of this server's clients between the parts.
fn merge(replica: &mut Replica, copy: &State, codes: &mut Codes) {
    if replica.begin_merge(NOW, copy).is_err() {
        return;
    }
    while replica.is_merging() {
        let mut difference = Difference::default();
        merge_part_with_difference(replica, copy, &mut difference);
        difference.requests(replica);
        if codes.next() % 4 == 1 {
            execute(replica, codes);
        }
    }
}

/// The state within a saved file: the parts without their framing.
fn content(saved: &[u8]) -> Vec<u8> {
    let (mut content, mut left) = (Vec::new(), &saved[HEAD..]);
    while let Some((len, rest)) = left.split_first_chunk::<8>()
        && let len @ 1.. = u64::from_le_bytes(*len)
    {
        content.extend_from_slice(&rest[..len as usize]);
        left = &rest[len as usize..];
    }
    content
}

/// The inverse of [`content`]: frames a state as a saved file.
fn framed(head: &[u8], content: &[u8]) -> Vec<u8> {
    let mut saved = head.to_vec();
    if !content.is_empty() {
        saved.extend((content.len() as u64).to_le_bytes());
        saved.extend_from_slice(content);
    }
    saved.extend([0; 8]);
    saved.extend(crc64(0, content).to_le_bytes());
    saved
}

fn load(saved: &[u8]) -> Option<State> {
    let mut loader = Loader::new();
    loader.feed(&mut &saved[..]).is_ok_and(|is_whole| is_whole).then(|| loader.finish().ok())?
}

fuzz_target!(|data: &[u8]| {
    let mut codes = Codes(data);
    let ahead_ms_max = if codes.next().is_multiple_of(2) { 60_000 } else { u64::MAX };
    let new = |number| server(number, ahead_ms_max, State::default());
    let (mut peer, mut own) = (new(1), new(2));
    while !codes.is_over() {
        match codes.next() % 16 {
            // Commands of the peer's clients.
            0..8 => {
                if let Some(mut unit) = execute(&mut peer, &mut codes) {
                    codes.damage(&mut unit);
                    take(&mut own, &unit);
                }
            }
            8..11 => {
                if let Some(unit) = execute(&mut own, &mut codes) {
                    take(&mut peer, &unit);
                }
            }
            11 => {
                let bytes: Vec<u8> = (0..codes.next()).map(|_| codes.next() as u8).collect();
                take(&mut own, &bytes);
            }
            12 => {
                let saved = save(&mut peer).concat();
                let mut bytes = content(&saved);
                codes.damage(&mut bytes);
                if let Some(state) = load(&framed(&saved[..HEAD], &bytes)) {
                    merge(&mut own, &state, &mut codes);
                }
            }
            13 => {
                own.acknowledge(peer.region(), peer.vector().clone());
                peer.acknowledge(own.region(), own.vector().clone());
            }
            14 => drop(own.end_evicted(NOW + 10)),
            _ => own.limit_marks(codes.next()),
        }
    }
    let saved = save(&mut own).concat();
    let state = load(&saved).expect("a saved state can be loaded");
    assert_eq!(server(2, ahead_ms_max, state).digest(), own.digest());
});
