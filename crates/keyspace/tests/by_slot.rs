// SPDX-License-Identifier: BSD-3-Clause
//! Cluster mode: a slot's key count and key list agree with a scan of all keys after any change.

use std::collections::BTreeSet;

use braid_base::crc::key_hash_slot;
use braid_base::hash::KeyHasher;
use braid_keyspace::context::Context;
use braid_keyspace::entry::Value;
use braid_keyspace::eviction::{self, Policy};
use braid_keyspace::keyspace::{Keyspace, Shape};
use braid_keyspace::table::TableCursor;
use braid_keyspace::txn::{Expiry, KeyRef, Txn};
use braid_keyspace::{expiry, scan};
use proptest::prelude::*;

const NOW: i64 = 1_000_000;

fn keyspace(databases: u32) -> Keyspace {
    let shape = Shape { shards: 8, databases, threads: 1, threads_max: 1 };
    Keyspace::by_slot(shape, KeyHasher::with_key(b"0123456789abcdef"))
}

fn run<R>(
    keyspace: &Keyspace,
    context: &mut Context,
    (db, now): (u32, i64),
    keys: &[&str],
    body: impl FnOnce(&mut Txn<'_>) -> R,
) -> R {
    let hash = |key: &str| keyspace.hash(key.as_bytes());
    let keys: Vec<_> =
        keys.iter().map(|key| KeyRef { key: key.as_bytes(), hash: hash(key), write: true }).collect();
    body(&mut Txn::lock(keyspace, context, db, now, &keys))
}

fn set(keyspace: &Keyspace, context: &mut Context, db: u32, key: &str, expiry: Expiry) {
    run(keyspace, context, (db, NOW), &[key], |txn| txn.set(key.as_bytes(), Value::string(b"v"), expiry));
}

/// The keys of each database, found by a scan; checks every slot against them.
fn check(keyspace: &Keyspace) {
    for db in 0..keyspace.databases() {
        let mut by_scan = BTreeSet::new();
        let mut cursor = 0;
        loop {
            cursor = scan::scan(keyspace, db, cursor, 7, |entry| {
                by_scan.insert((key_hash_slot(entry.key()), entry.key().to_vec()));
            });
            if cursor == 0 {
                break;
            }
            assert!(cursor < 1 << 53, "a double cannot hold the cursor {cursor:x}");
        }
        let mut by_slot = BTreeSet::new();
        for slot in 0..16384u16 {
            let (len, before) = (keyspace.slot_len(slot, db), by_slot.len());
            scan::visit_slot(keyspace, slot, db, usize::MAX, |entry| {
                by_slot.insert((slot, entry.key().to_vec()));
            });
            assert_eq!(by_slot.len() - before, len, "slot {slot} of database {db}");
            let mut some = 0;
            scan::visit_slot(keyspace, slot, db, 2, |_| some += 1);
            assert_eq!(some, len.min(2));
        }
        assert_eq!(by_slot, by_scan, "database {db}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Set(u32, u8),
    SetExpiring(u32, u8),
    Delete(u32, u8),
    /// Within the slot of the name's tag.
    Rename(u32, u8, u8),
    Swap,
    Flush(Option<u32>),
    Expire,
    Evict,
}

fn step() -> impl Strategy<Value = Step> {
    let (db, key) = (0u32..2, any::<u8>());
    prop_oneof![
        8 => (db.clone(), key).prop_map(|(db, key)| Step::Set(db, key)),
        3 => (db.clone(), key).prop_map(|(db, key)| Step::SetExpiring(db, key)),
        3 => (db.clone(), key).prop_map(|(db, key)| Step::Delete(db, key)),
        2 => (db.clone(), key, key).prop_map(|(db, from, to)| Step::Rename(db, from, to)),
        1 => Just(Step::Swap),
        1 => proptest::option::of(db).prop_map(Step::Flush),
        1 => Just(Step::Expire),
        1 => Just(Step::Evict),
    ]
}

/// Four names for each of 64 tags, so that some slots have several keys.
fn name(key: u8) -> String {
    format!("{{{}}}{}", key / 4, key % 4)
}

fn apply(keyspace: &Keyspace, context: &mut Context, step: &Step) {
    match *step {
        Step::Set(db, key) => set(keyspace, context, db, &name(key), Expiry::Clear),
        Step::SetExpiring(db, key) => set(keyspace, context, db, &name(key), Expiry::At(NOW + 10)),
        Step::Delete(db, key) => {
            let key = name(key);
            run(keyspace, context, (db, NOW), &[&key], |txn| txn.delete(key.as_bytes()));
        }
        Step::Rename(db, from, to) => {
            let (from, to) = (name(from), name(to));
            run(keyspace, context, (db, NOW), &[&from, &to], |txn| {
                if from != to && txn.peek(from.as_bytes()).is_some() {
                    txn.rename(from.as_bytes(), db, to.as_bytes());
                }
            });
        }
        Step::Swap => {
            let world = keyspace.gate.stop_world(None);
            Txn::world(keyspace, context, world, 0, NOW).swap_databases(0, 1);
        }
        Step::Flush(db) => drop(keyspace.flush(&keyspace.gate.stop_world(None), db)),
        Step::Expire => {
            expiry::expire_due(keyspace, context, (0, 1), NOW + 20, usize::MAX);
        }
        Step::Evict => {
            keyspace.settings.set_policy(Policy::AllKeysRandom);
            eviction::evict_one(keyspace, context, NOW);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn slot_contents_match_a_full_scan(steps in proptest::collection::vec(step(), 1..120)) {
        let keyspace = keyspace(2);
        let mut context = Context::new(&keyspace, 0);
        for (index, step) in steps.iter().enumerate() {
            apply(&keyspace, &mut context, step);
            if index % 40 == 39 {
                check(&keyspace);
            }
        }
        check(&keyspace);
    }
}

/// One slot with a directory of segments, among other slots.
#[test]
fn a_slot_with_many_keys() {
    let keyspace = keyspace(1);
    let mut context = Context::new(&keyspace, 0);
    for number in 0..20_000 {
        set(&keyspace, &mut context, 0, &format!("{{tag}}{number}"), Expiry::Clear);
        set(&keyspace, &mut context, 0, &format!("key:{number}"), Expiry::Clear);
    }
    let slot = key_hash_slot(b"tag");
    assert!(keyspace.slot_len(slot, 0) >= 20_000);
    check(&keyspace);
}

/// Cursors of cluster mode omit bits that only a slot with billions of keys needs.
#[test]
fn cursors_keep_their_place() {
    let keyspace = keyspace(1);
    for shard in [0u64, 1, 4096, 16383] {
        for marked in [0u64, 1 << 24, 0b101 << 22, 0x1ff_fffc, 0x1ff_ffff, 1, 2, 4] {
            for position in [0u64, 1, 0xffff] {
                let place = TableCursor::from_bits(marked << 16 | position);
                let cursor = scan::cursor_of(&keyspace, shard, place);
                assert_eq!(scan::place_of(&keyspace, cursor), (shard, place));
                assert!(marked % 4 != 0 || cursor < 1 << 53);
            }
        }
    }
}
