// SPDX-License-Identifier: BSD-3-Clause
//! The background reader: the keys that it visits and the collections that it shares.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::hash::KeyHasher;
use braid_keyspace::entry::Value;
use braid_keyspace::keyspace::{Keyspace, READERS_MAX, Shape};
use braid_keyspace::reader::{CowValue, Reader};
use braid_keyspace::{Context, Event, Expiry, KeyRef, Txn};
use braid_values::sorted_set::{AddRule, PackedLimits, SortedSet};

const NOW: i64 = 1_000_000;
/// Divisor of the test sizes.
const SHORTENING: u32 = if cfg!(miri) { 20 } else { 1 };

fn keyspace(threads: usize) -> Keyspace {
    let shape = Shape { shards: 64, databases: 2, threads, threads_max: threads };
    Keyspace::new(shape, KeyHasher::with_key(b"0123456789abcdef"))
}

fn with<R>(keyspace: &Keyspace, context: &mut Context, key: &str, body: impl FnOnce(&mut Txn<'_>) -> R) -> R {
    let keys = [KeyRef { key: key.as_bytes(), hash: keyspace.hash(key.as_bytes()), write: true }];
    body(&mut Txn::lock(keyspace, context, 0, NOW, &keys))
}

fn set(keyspace: &Keyspace, context: &mut Context, key: &str, expiry: Expiry) {
    with(keyspace, context, key, |txn| txn.set(key.as_bytes(), Value::string(b"value"), expiry));
}

fn walk(keyspace: &Keyspace) -> Vec<String> {
    let (reader, mut found) = (keyspace.reader(), Vec::new());
    for shard in 0..keyspace.shard_count() as u32 {
        reader.visit_shard(shard, 0, NOW, |entry| {
            found.push(String::from_utf8(entry.key().to_vec()).expect("text"));
        });
    }
    found.sort_unstable();
    found
}

#[test]
fn reader_skips_expired_keys() {
    let keyspace = keyspace(1);
    let mut context = Context::new(&keyspace, 0);
    set(&keyspace, &mut context, "a", Expiry::Clear);
    set(&keyspace, &mut context, "b", Expiry::At(NOW - 1));
    set(&keyspace, &mut context, "c", Expiry::At(NOW + 1));
    assert_eq!(walk(&keyspace), ["a", "c"]);
    let has = |key: &str, db| {
        let (shared, _) = keyspace.reader().share(db, NOW, &[key.as_bytes().into()], false);
        !matches!(shared[0], CowValue::Missing)
    };
    assert!(has("a", 0) && has("c", 0) && !has("b", 0) && !has("a", 1) && !has("d", 0));
}

#[test]
fn readers_read_at_the_same_time() {
    let keyspace = keyspace(1);
    set(&keyspace, &mut Context::new(&keyspace, 0), "key", Expiry::Clear);
    let shard = keyspace.shard_of(keyspace.hash(b"key"));
    let mut readers: Vec<_> = (0..READERS_MAX).map(|_| keyspace.reader()).collect();
    // All of them are inside at the end.
    fn visit(readers: &[Reader<'_>], shard: u32) -> usize {
        let Some((first, others)) = readers.split_first() else { return 0 };
        let mut count = 0;
        first.visit_shard(shard, 0, NOW, |_| count += 1 + visit(others, shard));
        count
    }
    assert_eq!(visit(&readers, shard), READERS_MAX);
    std::thread::scope(|scope| {
        let next = scope.spawn(|| visit(&[keyspace.reader()], shard));
        assert!(!next.is_finished());
        readers.pop();
        readers.remove(0);
        assert_eq!(next.join().ok(), Some(1));
    });
}

fn scores(value: &CowValue) -> Vec<f64> {
    let set = value.object().and_then(|object| object.get::<SortedSet>());
    set.map_or_else(Vec::new, |set| set.view(NOW).iter(0..usize::MAX).map(|(_, score)| score).collect())
}

#[test]
fn shared_values_are_of_one_moment_and_watched_from_it() {
    let keyspace = keyspace(1);
    let mut context = Context::new(&keyspace, 0);
    let limits = PackedLimits::default();
    let put = |context: &mut Context, key: &str, member: u32| {
        with(&keyspace, context, key, |txn| {
            let set = txn.write_or_create(key.as_bytes(), SortedSet::new).expect("a sorted set");
            set.add(member.to_string().as_bytes(), f64::from(member), AddRule::default(), &limits);
            txn.changed(Event::zset("zadd"), key.as_bytes());
        });
    };
    let drop_key = |context: &mut Context, key: &str| {
        with(&keyspace, context, key, |txn| txn.remove(key.as_bytes()));
    };
    let (len, removed) = (5000 / SHORTENING, 4000 / SHORTENING as usize);
    (0..len).for_each(|member| put(&mut context, "large", member));
    put(&mut context, "small", 7);
    set(&keyspace, &mut context, "text", Expiry::Clear);
    let keys: Vec<Box<[u8]>> = ["large", "small", "text", "none"].map(|key| key.as_bytes().into()).into();
    let reader = keyspace.reader();
    let (shared, watch) = reader.share(0, NOW, &keys, true);
    let watch = watch.expect("watched");
    assert!(watch.holds(NOW) && keyspace.watched_keys() == 4);
    // A second copy, while the first one still exists.
    let (others, none) = reader.share(0, NOW, &keys[..1], false);
    assert!(none.is_none());
    put(&mut context, "other", 1);
    assert!(watch.holds(NOW));
    with(&keyspace, &mut context, "large", |txn| {
        let set = txn.write_as::<SortedSet>(b"large").expect("a sorted set").expect("there");
        set.remove_ranks(0..removed, |_, _| {});
        txn.changed(Event::zset("zremrangebyrank"), b"large");
    });
    assert!(!watch.holds(NOW));
    let all: Vec<f64> = (0..len).map(f64::from).collect();
    assert_eq!((scores(&shared[0]), scores(&shared[1])), (all.clone(), vec![7.0]));
    assert!(matches!((&shared[2], &shared[3]), (CowValue::Unshareable, CowValue::Missing)));
    // Dropping one copy affects neither the other one nor the original; nor does dropping the
    // original affect a copy.
    drop(shared);
    assert_eq!(scores(&others[0]), all);
    let (third, _) = reader.share(0, NOW, &keys[..1], false);
    drop_key(&mut context, "large");
    drop(others);
    assert_eq!(scores(&third[0]), all[removed..]);
    drop(third);
    reader.unwatch(&watch);
    assert_eq!(keyspace.watched_keys(), 0);
    // Creating a key counts as a change, and so does expiry.
    for (key, at) in [("none", i64::MAX), ("small", NOW + 5)] {
        if at != i64::MAX {
            with(&keyspace, &mut context, key, |txn| txn.set_expiry(key.as_bytes(), Some(at)));
        }
        let (_, watch) = reader.share(0, NOW, &keys, true);
        let watch = watch.expect("watched");
        assert!(watch.holds(NOW));
        if at == i64::MAX {
            put(&mut context, key, 1);
        }
        assert!(!watch.holds(NOW + 6), "{key}");
        reader.unwatch(&watch);
    }
}

/// A single executing thread frees memory immediately, and several tables split, shrink and are
/// replaced while the reader walks.
#[test]
fn keys_that_stay_are_met_once_while_threads_change_others() {
    for threads in [1, 2] {
        let keyspace = keyspace(threads);
        let ended = AtomicBool::new(false);
        let stable: Vec<String> = {
            let mut context = Context::new(&keyspace, 0);
            let names = (0..3000 / SHORTENING).map(|n| format!("stable{n:04}"));
            names.inspect(|name| set(&keyspace, &mut context, name, Expiry::Clear)).collect()
        };
        std::thread::scope(|scope| {
            for slot in 0..threads {
                let (keyspace, ended) = (&keyspace, &ended);
                scope.spawn(move || {
                    let mut context = Context::new(keyspace, slot);
                    let mut random = fastrand::Rng::with_seed(slot as u64);
                    while !ended.load(Relaxed) {
                        keyspace.gate.enter(slot);
                        for _ in 0..200 / SHORTENING {
                            let name = format!("other{slot}-{}", random.u32(0..20_000 / SHORTENING));
                            if random.bool() {
                                set(keyspace, &mut context, &name, Expiry::Clear);
                            } else {
                                with(keyspace, &mut context, &name, |txn| txn.remove(name.as_bytes()));
                            }
                        }
                        if random.u32(0..50) == 0 {
                            drop(keyspace.gate.stop_world(Some(slot)));
                        }
                        keyspace.gate.leave(slot);
                        context.limbo.reclaim();
                    }
                });
            }
            let walks = || {
                (0..if cfg!(miri) { 3 } else { 15 }).all(|_| {
                    let mut found = walk(&keyspace);
                    found.retain(|name| name.starts_with("stable"));
                    found == *stable
                })
            };
            let other = scope.spawn(walks);
            let outcome = (walks(), other.join().unwrap_or(false));
            ended.store(true, Relaxed);
            assert_eq!(outcome, (true, true));
        });
    }
}
