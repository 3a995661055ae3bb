// SPDX-License-Identifier: BSD-3-Clause
//! Transactions through the crate's public interface: the effect of each operation on the keyspace,
//! on watchers and on the counters.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use braid_base::hash::KeyHasher;
use braid_keyspace::context::Context;
use braid_keyspace::entry::{Entry, Value, ValueRef};
use braid_keyspace::eviction::{self, Policy};
use braid_keyspace::expiry::{self, Pass};
use braid_keyspace::keyspace::{Keyspace, Shape};
use braid_keyspace::testing::Texts;
use braid_keyspace::txn::{self, Expiry, KeyRef, Optimistic, Txn, WrongType};
use braid_keyspace::{Event, scan};

const EVENT: Event = Event::string("edited");

const NOW: i64 = 1_000_000;

struct Rig {
    keyspace: Keyspace,
    context: Context,
}

fn rig(shards: usize, threads: usize) -> Rig {
    let shape = Shape { shards, databases: 3, threads, threads_max: threads };
    let keyspace = Keyspace::new(shape, KeyHasher::with_key(b"0123456789abcdef"));
    let context = Context::new(&keyspace, 0);
    Rig { keyspace, context }
}

/// Keyspaces with one shard and with several; with one thread (memory is freed immediately) and
/// with two (it waits in limbo).
fn rigs() -> impl Iterator<Item = Rig> {
    [(1, 1), (1, 2), (16, 1), (16, 2)].into_iter().map(|(shards, threads)| rig(shards, threads))
}

impl Rig {
    /// Runs `body` in a transaction over `keys`, all for writing, at `now` in database `db`.
    fn at<R>(&mut self, now: i64, db: u32, keys: &[&str], body: impl FnOnce(&mut Txn<'_>) -> R) -> R {
        let keys: Vec<_> = keys
            .iter()
            .map(|key| KeyRef { key: key.as_bytes(), hash: self.keyspace.hash(key.as_bytes()), write: true })
            .collect();
        body(&mut Txn::lock(&self.keyspace, &mut self.context, db, now, &keys))
    }

    fn run<R>(&mut self, keys: &[&str], body: impl FnOnce(&mut Txn<'_>) -> R) -> R {
        self.at(NOW, 0, keys, body)
    }

    fn set(&mut self, key: &str, value: &str, expiry: Expiry) {
        self.run(&[key], |txn| txn.set(key.as_bytes(), Value::string(value.as_bytes()), expiry));
    }

    fn get_in(&mut self, db: u32, key: &str) -> Option<String> {
        self.at(NOW, db, &[key], |txn| txn.peek(key.as_bytes()).map(text))
    }

    fn get(&mut self, key: &str) -> Option<String> {
        self.get_in(0, key)
    }

    fn expiry(&mut self, key: &str) -> Option<i64> {
        self.run(&[key], |txn| txn.peek(key.as_bytes()).and_then(Entry::expiry))
    }

    fn encoding(&mut self, key: &str) -> &'static str {
        self.run(&[key], |txn| txn.peek(key.as_bytes()).map_or("none", Entry::encoding_name))
    }

    fn watch(&mut self, now: i64, db: u32, key: &str) -> Arc<AtomicBool> {
        let flag = txn::new_watch_flag();
        self.at(now, db, &[key], |txn| txn.watch(key.as_bytes(), &flag));
        flag
    }

    fn dirty(&self) -> u64 {
        self.keyspace.total(|counters| counters.dirty.get())
    }

    fn optimistic(&self, key: &str, out: &mut [u8]) -> Optimistic {
        let key = KeyRef { key: key.as_bytes(), hash: self.keyspace.hash(key.as_bytes()), write: false };
        self.keyspace.read_optimistic(&self.context, 0, NOW, &key, |len| &mut out[..len])
    }
}

fn text(entry: Entry<'_>) -> String {
    let bytes = match entry.value() {
        ValueRef::Bytes(bytes) => bytes.to_vec(),
        ValueRef::Integer(number) => number.to_string().into_bytes(),
        ValueRef::Blob(blob) => blob.to_vec(),
        ValueRef::Object(_) => panic!("a string was expected"),
    };
    String::from_utf8(bytes).expect("tests store text")
}

#[test]
fn a_lock_set_holds_each_shard_once_and_as_strongly_as_needed() {
    let mut rig = rig(4, 2);
    let names: Vec<String> = (0..40).map(|n| format!("k{n}")).collect();
    for writes in [0usize, 1, 7, 40] {
        let keys: Vec<_> = names
            .iter()
            .enumerate()
            .map(|(at, name)| {
                let hash = rig.keyspace.hash(name.as_bytes());
                KeyRef { key: name.as_bytes(), hash, write: at >= names.len() - writes }
            })
            .collect();
        let exclusive: Vec<bool> = (0..4)
            .map(|shard| keys.iter().any(|key| key.write && rig.keyspace.shard_of(key.hash) == shard))
            .collect();
        // Several keys in one shard, shared and exclusive: locking it twice would hang here.
        let txn = Txn::lock(&rig.keyspace, &mut rig.context, 0, NOW, &keys);
        for shard in 0..4u32 {
            let lock = &rig.keyspace.shard(shard).lock;
            assert!(lock.is_locked());
            assert_eq!(lock.is_locked_exclusive(), exclusive[shard as usize]);
        }
        drop(txn);
        assert!(rig.keyspace.shards().iter().all(|shard| !shard.lock.is_locked()));
    }
    let txn = Txn::lock_all_shared(&rig.keyspace, &mut rig.context, 0, NOW);
    assert!(
        rig.keyspace.shards().iter().all(|shard| shard.lock.is_locked() && !shard.lock.is_locked_exclusive())
    );
    drop(txn);
    assert!(rig.keyspace.shards().iter().all(|shard| !shard.lock.is_locked()));
}

#[test]
fn an_expiry_is_kept_cleared_and_set() {
    for mut rig in rigs() {
        for value in ["12", "short", &"long".repeat(1000)] {
            rig.set("k", value, Expiry::At(NOW + 5));
            rig.set("k", value, Expiry::Keep);
            assert_eq!((rig.get("k").as_deref(), rig.expiry("k")), (Some(value), Some(NOW + 5)));
            rig.set("k", "other", Expiry::Keep);
            assert_eq!(rig.expiry("k"), Some(NOW + 5));
            rig.set("k", value, Expiry::At(NOW + 9));
            assert_eq!(rig.expiry("k"), Some(NOW + 9));
            rig.set("k", value, Expiry::Clear);
            assert_eq!((rig.get("k").as_deref(), rig.expiry("k")), (Some(value), None));
            for at in [Some(NOW + 7), Some(NOW + 3), None] {
                assert!(rig.run(&["k"], |txn| txn.set_expiry(b"k", at)));
                assert_eq!((rig.get("k").as_deref(), rig.expiry("k")), (Some(value), at));
                assert_eq!(rig.keyspace.len(0), (1, usize::from(at.is_some())));
            }
        }
        assert!(!rig.run(&["none"], |txn| txn.set_expiry(b"none", Some(1))));
    }
}

#[test]
fn clearing_an_expiry_that_is_not_set_changes_nothing() {
    let mut rig = rig(1, 1);
    rig.set("k", "v", Expiry::Clear);
    let (flag, dirty) = (rig.watch(NOW, 0, "k"), rig.dirty());
    assert!(rig.run(&["k"], |txn| txn.set_expiry(b"k", None)));
    assert!(!txn::is_raised(&flag) && rig.dirty() == dirty);
}

#[test]
fn expired_keys_are_hidden_from_readers_and_removed_by_writers() {
    for mut rig in rigs() {
        rig.set("k", "v", Expiry::At(NOW - 1));
        let keys = [KeyRef { key: b"k", hash: rig.keyspace.hash(b"k"), write: false }];
        let txn = Txn::lock(&rig.keyspace, &mut rig.context, 0, NOW, &keys);
        assert!(txn.peek(b"k").is_none() && txn.read(b"k").is_none() && txn.peek_expired(b"k").is_some());
        drop(txn);
        assert_eq!(
            rig.optimistic("k", &mut []),
            Optimistic::Failed,
            "an expired key needs a read under the lock"
        );
        assert_eq!(rig.keyspace.len(0), (1, 1), "readers remove nothing");
        assert!(!rig.run(&["k"], |txn| txn.delete(b"k")), "the client does not see the key");
        assert_eq!(rig.keyspace.len(0), (0, 0), "a writer removes it");
        assert_eq!(rig.keyspace.total(|counters| counters.expired.get()), 1);
        // A key is still alive at the very millisecond of its expiry.
        rig.set("k", "v", Expiry::At(NOW));
        assert_eq!(rig.get("k").as_deref(), Some("v"));
        rig.set("k", "w", Expiry::At(NOW - 1));
        rig.set("k", "x", Expiry::Keep);
        assert_eq!(
            (rig.get("k").as_deref(), rig.expiry("k")),
            (Some("x"), None),
            "an expired key's expiry is not kept"
        );
    }
}

#[test]
fn renaming_moves_value_and_expiry_across_databases() {
    for mut rig in rigs() {
        for value in ["7", "text", &"x".repeat(5000)] {
            for expiry in [Expiry::Clear, Expiry::At(NOW + 10)] {
                rig.set("from", value, expiry);
                rig.set("to", "overwritten", Expiry::At(NOW + 99));
                let dirty = rig.dirty();
                assert!(rig.run(&["from", "to"], |txn| txn.rename(b"from", 0, b"to")));
                assert_eq!(rig.dirty(), dirty + 1, "one change, though a key was overwritten");
                assert_eq!((rig.get("from"), rig.get("to").as_deref()), (None, Some(value)));
                assert_eq!(rig.expiry("to"), if expiry == Expiry::Clear { None } else { Some(NOW + 10) });
                // Onto itself.
                assert!(rig.run(&["to"], |txn| txn.rename(b"to", 0, b"to")));
                assert_eq!(rig.get("to").as_deref(), Some(value));
                // To another database, as MOVE does.
                assert!(rig.run(&["to"], |txn| txn.rename(b"to", 2, b"to")));
                assert_eq!((rig.get("to"), rig.get_in(2, "to").as_deref()), (None, Some(value)));
                assert_eq!((rig.keyspace.len(0).0, rig.keyspace.len(2).0), (0, 1));
                assert!(!rig.run(&["none", "to"], |txn| txn.rename(b"none", 0, b"to")));
                rig.at(NOW, 2, &["to"], |txn| txn.delete(b"to"));
            }
        }
    }
}

#[test]
fn copying_leaves_two_independent_values() {
    for mut rig in rigs() {
        let long = "x".repeat(5000);
        for (value, edited) in [("7", "A"), ("text", "Aext"), (&*long, &*format!("A{}", &long[1..]))] {
            rig.set("from", value, Expiry::At(NOW + 10));
            rig.set("to", "overwritten", Expiry::Clear);
            let dirty = rig.dirty();
            assert!(rig.run(&["from", "to"], |txn| txn.copy(b"from", 0, b"to")));
            assert_eq!(rig.dirty(), dirty + 1);
            assert!(rig.run(&["from"], |txn| txn.copy(b"from", 1, b"from")));
            assert!(rig.run(&["from"], |txn| txn.copy(b"from", 0, b"from")), "onto itself");
            assert_eq!((rig.expiry("to"), rig.expiry("from")), (Some(NOW + 10), Some(NOW + 10)));
            rig.run(&["from"], |txn| txn.edit_string(EVENT, b"from", 1, |bytes, _| (bytes[0] = b'A', 1)))
                .expect("a string");
            assert_eq!(rig.get("from").as_deref(), Some(edited));
            assert_eq!(
                (rig.get("to").as_deref(), rig.get_in(1, "from").as_deref()),
                (Some(value), Some(value))
            );
        }
    }
}

#[test]
fn editing_grows_a_string_through_its_shapes() {
    for mut rig in rigs() {
        let append = |rig: &mut Rig, more: usize| {
            let old = rig.get("k").unwrap_or_default().len();
            let result = rig.run(&["k"], |txn| {
                txn.edit_string(EVENT, b"k", old + more, |bytes, old_len| {
                    assert!(
                        old_len == old
                            && bytes.len() == old + more
                            && bytes[old..].iter().all(|&byte| byte == 0)
                    );
                    bytes[old..].fill(b'a');
                    (bytes.len(), 1)
                })
            });
            assert_eq!(result, Ok(old + more));
            (rig.get("k").expect("just written"), rig.encoding("k"))
        };
        // Absent, embedded, blob, larger blob: modified strings are raw at any length.
        for (more, len) in [(3, 3), (40, 43), (21, 64), (1, 65), (1000, 1065), (100_000, 101_065)] {
            assert_eq!(append(&mut rig, more), ("a".repeat(len), "raw"));
        }
        rig.set("k", "123", Expiry::At(NOW + 5));
        assert_eq!(append(&mut rig, 2), ("123aa".into(), "raw"));
        assert_eq!(rig.expiry("k"), Some(NOW + 5));
        // Overwriting part of an embedded string in place.
        let half = "h".repeat(500);
        rig.set("k", &half, Expiry::Clear);
        rig.run(&["k"], |txn| txn.edit_string(EVENT, b"k", 2, |bytes, _| (bytes[..2].fill(b'!'), 1)))
            .expect("a string");
        assert_eq!((rig.get("k"), rig.encoding("k")), (Some(format!("!!{}", &half[2..])), "raw"));
        // A shared blob (a reply being sent) is not changed.
        rig.set("k", &"b".repeat(4000), Expiry::Clear);
        let held = rig.run(&["k"], |txn| match txn.peek(b"k").expect("the key").value() {
            ValueRef::Blob(blob) => blob.clone(),
            _ => panic!("4000 bytes are a blob"),
        });
        rig.run(&["k"], |txn| txn.edit_string(EVENT, b"k", 5000, |bytes, _| (bytes.fill(b'c'), 1)))
            .expect("a string");
        assert!(held.len() == 4000 && held.iter().all(|&byte| byte == b'b'));
        assert_eq!(rig.get("k"), Some("c".repeat(5000)));
        rig.run(&["set"], |txn| txn.write_or_create(b"set", Texts::default).map(drop)).expect("created");
        assert_eq!(
            rig.run(&["set"], |txn| txn.edit_string(EVENT, b"set", 1, |_, _| ((), 1))),
            Err(WrongType)
        );
    }
}

#[test]
fn watchers_learn_of_every_change_and_of_nothing_else() {
    type Change = fn(&mut Txn<'_>);
    let changes: [(&str, Change); 7] = [
        ("set", |txn| txn.set(b"k", Value::string(b"v2"), Expiry::Clear)),
        ("set with the same value", |txn| txn.set(b"k", Value::string(b"v"), Expiry::Clear)),
        ("delete", |txn| assert!(txn.delete(b"k"))),
        ("expire", |txn| assert!(txn.set_expiry(b"k", Some(NOW + 1)))),
        ("edit", |txn| txn.edit_string(EVENT, b"k", 1, |bytes, _| (bytes.fill(b'e'), 1)).expect("a string")),
        ("rename away", |txn| assert!(txn.rename(b"k", 0, b"other"))),
        ("rename onto", |txn| assert!(txn.rename(b"other", 0, b"k"))),
    ];
    for (name, change) in changes {
        for mut rig in rigs() {
            rig.set("k", "v", Expiry::Clear);
            rig.set("other", "o", Expiry::Clear);
            let flag = rig.watch(NOW, 0, "k");
            let elsewhere = [rig.watch(NOW, 1, "k"), rig.watch(NOW, 0, "bystander")];
            rig.run(&["k"], |txn| {
                txn.read(b"k");
                assert_eq!(txn.edit_string(EVENT, b"k", 1, |_, _| ((), 0)), Ok(()));
            });
            rig.run(&["other", "absent"], |txn| txn.rename(b"absent", 0, b"other"));
            assert!(!txn::is_raised(&flag), "before: {name}");
            rig.run(&["k", "other"], change);
            assert!(txn::is_raised(&flag), "after: {name}");
            assert!(elsewhere.iter().all(|flag| !txn::is_raised(flag)), "others: {name}");
        }
    }
    let mut rig = rig(4, 1);
    let flag = rig.watch(NOW, 0, "k");
    rig.run(&["k"], |txn| txn.unwatch(b"k", &flag));
    rig.set("k", "v", Expiry::Clear);
    assert!(!txn::is_raised(&flag), "no longer watched");
    assert!(rig.keyspace.shards().iter().all(|shard| shard.watchers.is_empty()));
}

#[test]
fn a_key_already_expired_when_watched_may_go_away() {
    for mut rig in rigs() {
        rig.set("k", "v", Expiry::At(NOW - 1));
        let flag = rig.watch(NOW, 0, "k");
        expiry::expire_due(&rig.keyspace, &mut rig.context, (0, 1), NOW, 1000);
        rig.run(&["k"], |txn| txn.delete(b"k"));
        let world = rig.keyspace.gate.stop_world(None);
        drop(rig.keyspace.flush(&world, None));
        drop(world);
        assert!(!txn::is_raised(&flag));
        // A later expiry does count.
        rig.set("k", "v", Expiry::At(NOW + 1));
        let flag = rig.watch(NOW, 0, "k");
        expiry::expire_due(&rig.keyspace, &mut rig.context, (0, 1), NOW + 2, 1000);
        assert!(txn::is_raised(&flag));
    }
}

#[test]
fn flushing_and_swapping_tell_watchers_and_move_everything() {
    for mut rig in rigs() {
        for n in 0..500 {
            rig.set(&format!("k{n}"), "zero", Expiry::At(i64::MAX - 1));
        }
        rig.at(NOW, 1, &["k0"], |txn| txn.set(b"k0", Value::string(b"one"), Expiry::Clear));
        let (there, gone, other) =
            (rig.watch(NOW, 0, "k1"), rig.watch(NOW, 0, "none"), rig.watch(NOW, 2, "k1"));
        let becomes = rig.watch(NOW, 1, "k1");
        let world = rig.keyspace.gate.stop_world(None);
        Txn::world(&rig.keyspace, &mut rig.context, world, 0, NOW).swap_databases(0, 1);
        assert!(txn::is_raised(&there) && txn::is_raised(&becomes));
        assert!(!txn::is_raised(&gone) && !txn::is_raised(&other));
        assert_eq!((rig.keyspace.len(0), rig.keyspace.len(1)), ((1, 0), (500, 500)));
        assert_eq!(rig.get("k0").as_deref(), Some("one"));
        assert_eq!(rig.get_in(1, "k499").as_deref(), Some("zero"));

        let (there, gone, other) =
            (rig.watch(NOW, 1, "k1"), rig.watch(NOW, 1, "none"), rig.watch(NOW, 0, "k0"));
        let world = rig.keyspace.gate.stop_world(None);
        let flushed = rig.keyspace.flush(&world, Some(1));
        assert!(flushed.keys == 500 && flushed.is_large());
        let (told, freed) = std::sync::mpsc::channel();
        let tell = Box::new(move || told.send(()).expect("the receiver is waiting"));
        flushed.free_in_background(&rig.keyspace.lazy_free, Some(tell));
        freed.recv().expect("the callback runs");
        assert_eq!(rig.keyspace.lazy_free.pending(), 0, "the callback runs after everything is freed");
        assert!(txn::is_raised(&there) && !txn::is_raised(&gone) && !txn::is_raised(&other));
        let flushed = rig.keyspace.flush(&world, None);
        assert!(flushed.keys == 1 && !flushed.is_large());
        assert!(txn::is_raised(&other));
        drop(world);
        assert_eq!((0..3).map(|db| rig.keyspace.len(db).0).sum::<usize>(), 0);
    }
}

#[test]
fn optimistic_reads_answer_short_strings_and_fail_otherwise() {
    for mut rig in rigs() {
        let mut out = [0; 1024];
        rig.set("number", "-42", Expiry::Clear);
        rig.set("short", "hello world", Expiry::At(NOW + 5));
        rig.set("limit", &"x".repeat(1024), Expiry::Clear);
        rig.set("blob", &"x".repeat(1025), Expiry::Clear);
        assert_eq!(rig.optimistic("number", &mut out), Optimistic::Integer(-42));
        assert_eq!(rig.optimistic("short", &mut out), Optimistic::Copied);
        assert_eq!(&out[..11], b"hello world");
        assert_eq!(rig.optimistic("limit", &mut out), Optimistic::Copied);
        assert_eq!(out, [b'x'; 1024]);
        assert_eq!(rig.optimistic("none", &mut out), Optimistic::Missing);
        assert!(matches!(rig.optimistic("blob", &mut out), Optimistic::Large(_)));
        let hits = rig.keyspace.total(|counters| counters.hits.get());
        // A writer inside the shard.
        let lock = &rig.keyspace.shard(rig.keyspace.shard_of(rig.keyspace.hash(b"short"))).lock;
        lock.lock_exclusive();
        assert_eq!(rig.optimistic("short", &mut out), Optimistic::Failed);
        lock.unlock_exclusive();
        // A writer that came and went while the value was copied.
        let key = KeyRef { key: b"short", hash: rig.keyspace.hash(b"short"), write: false };
        let outcome = rig.keyspace.read_optimistic(&rig.context, 0, NOW, &key, |len| {
            lock.lock_exclusive();
            lock.unlock_exclusive();
            &mut out[..len]
        });
        assert_eq!(outcome, Optimistic::Failed);
        assert_eq!(rig.keyspace.total(|counters| counters.hits.get()), hits, "a failed read counts nothing");
        lock.lock_shared();
        assert_eq!(
            rig.optimistic("short", &mut out),
            Optimistic::Copied,
            "readers do not invalidate an optimistic read"
        );
        lock.unlock_shared();
    }
}

/// 200 keys with an expiry and 200 without; `used[n]` of each were used recently.
fn eviction_rig(policy: Policy) -> Rig {
    let mut rig = rig(8, 1);
    rig.keyspace.settings.set_policy(policy);
    rig.keyspace.tick(NOW);
    for n in 0..200 {
        rig.set(&format!("fixed{n}"), "v", Expiry::Clear);
        rig.set(&format!("volatile{n}"), "v", Expiry::At(NOW + 1000 + n));
    }
    // Half of them are used again an hour later; for frequency policies, many times.
    rig.keyspace.tick(NOW + 3_600_000);
    for _ in 0..20 {
        for n in 0..100 {
            for name in [format!("fixed{n}"), format!("volatile{n}")] {
                rig.run(&[&name], |txn| assert!(txn.read(name.as_bytes()).is_some()));
            }
        }
    }
    rig
}

#[test]
fn each_policy_evicts_the_right_keys() {
    use Policy::*;
    for policy in [
        AllKeysLru,
        AllKeysLfu,
        AllKeysRandom,
        AllKeysLrm,
        VolatileLru,
        VolatileLfu,
        VolatileRandom,
        VolatileTtl,
        VolatileLrm,
    ] {
        let mut rig = eviction_rig(policy);
        let (mut fixed, mut volatile, mut used) = (0, 0, 0);
        for _ in 0..100 {
            let evicted = eviction::evict_one(&rig.keyspace, &mut rig.context, NOW).expect("keys are left");
            let name = String::from_utf8(evicted.key).expect("text");
            assert!(rig.get(&name).is_none() && evicted.db == 0 && (16..64).contains(&evicted.bytes));
            let number: u32 = name.trim_start_matches(char::is_alphabetic).parse().expect("a number");
            used += u32::from(number < 100);
            if name.starts_with("fixed") { fixed += 1 } else { volatile += 1 }
        }
        assert_eq!(rig.keyspace.total(|counters| counters.evicted.get()), 100);
        assert_eq!(policy.is_volatile(), fixed == 0, "{policy:?} evicted {fixed} keys without an expiry");
        assert!(volatile > 20);
        match policy {
            // With samples of 5 or more, a used key goes only if the whole sample was used.
            AllKeysLru | AllKeysLfu | VolatileLru | VolatileLfu => assert!(used < 25, "{policy:?}: {used}"),
            VolatileTtl => assert!(used > 65, "too few of the keys due first were evicted: {used}"),
            // Equal ones go in runs, by where they are.
            _ => assert!((15..90).contains(&used), "{policy:?}: {used}"),
        }
        let mut left = 300;
        while eviction::evict_one(&rig.keyspace, &mut rig.context, NOW).is_some() {
            left -= 1;
        }
        assert_eq!(
            left,
            if policy.is_volatile() { 200 } else { 0 },
            "{policy:?} evicts every candidate, then stops"
        );
        assert_eq!(rig.keyspace.len(0).1, 0);
    }
    let mut rig = eviction_rig(NoEviction);
    assert!(eviction::evict_one(&rig.keyspace, &mut rig.context, NOW).is_none());
    assert_eq!(rig.keyspace.len(0).0, 400);
}

#[test]
fn the_frequency_clock_does_not_jump_when_the_recency_clock_wraps() {
    let mut rig = rig(1, 1);
    rig.keyspace.settings.set_policy(Policy::AllKeysLfu);
    let wrap = (1i64 << 24) * 1000 * 100;
    rig.keyspace.tick(wrap - 1);
    rig.set("k", "v", Expiry::Clear);
    let counter = |rig: &mut Rig| {
        let clock = rig.run(&["k"], |txn| txn.peek(b"k").expect("the key").clock());
        eviction::lfu_counter(&rig.keyspace, clock)
    };
    assert_eq!(counter(&mut rig), 5);
    rig.keyspace.tick(wrap + 1);
    assert!(counter(&mut rig) >= 4, "a millisecond or two later");
    rig.keyspace.tick(wrap + 120_000);
    assert!(counter(&mut rig) <= 3, "two minutes later");
}

#[test]
fn active_expiry_keeps_to_its_budget_and_its_shards() {
    let mut rig = rig(8, 1);
    for n in 0..4000 {
        rig.set(&format!("k{n}"), "v", if n < 3000 { Expiry::At(NOW - 1) } else { Expiry::At(NOW + 1) });
    }
    // Another thread's share remains.
    let pass = expiry::expire_due(&rig.keyspace, &mut rig.context, (1, 2), NOW, usize::MAX);
    assert!(pass.complete && (1200..1800).contains(&pass.removed), "{pass:?}");
    let (mut removed, mut passes) = (pass.removed, 0);
    loop {
        let pass = expiry::expire_due(&rig.keyspace, &mut rig.context, (0, 1), NOW, 50);
        assert!(pass.removed <= 50 + 441, "more than the budget and one segment");
        removed += pass.removed;
        passes += 1;
        if pass.complete {
            break;
        }
    }
    assert!(passes > 3 && removed == 3000, "{removed} in {passes}");
    assert_eq!(rig.keyspace.len(0), (1000, 1000));
    assert_eq!(expiry::next_due(&rig.keyspace), Some(NOW + 1));
    let nothing = Pass { complete: true, ..Pass::default() };
    assert_eq!(expiry::expire_due(&rig.keyspace, &mut rig.context, (0, 1), NOW, 50), nothing);
    rig.keyspace.settings.active_expire_off.store(1, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(expiry::expire_due(&rig.keyspace, &mut rig.context, (0, 1), NOW + 5, 50), nothing);
}

/// A pass has looked at everything, and so knows that nothing is due; then each way of giving a
/// key or a member an earlier time must make the next pass find it.
#[test]
fn earlier_expiry_is_found_after_an_empty_pass() {
    type Way = (&'static str, fn(&mut Txn<'_>));
    let ways: &[Way] = &[
        ("set anew", |txn| txn.set(b"new", Value::string(b"v"), Expiry::At(NOW + 5))),
        ("set", |txn| txn.set(b"plain", Value::string(b"v"), Expiry::At(NOW + 5))),
        ("set earlier", |txn| txn.set(b"late", Value::string(b"v"), Expiry::At(NOW + 5))),
        ("expire", |txn| assert!(txn.set_expiry(b"plain", Some(NOW + 5)))),
        ("expire earlier", |txn| assert!(txn.set_expiry(b"late", Some(NOW + 5)))),
        ("load", |txn| assert!(txn.add(b"new", Value::string(b"v"), Some(NOW + 5), None))),
        ("before the epoch", |txn| assert!(txn.set_expiry(b"late", Some(-7)))),
    ];
    // Shards that are groups of their own, and groups of several shards.
    for shards in [1, 16, 4096] {
        for (name, way) in ways {
            let mut rig = rig(shards, 1);
            rig.set("plain", "v", Expiry::Clear);
            rig.set("late", "v", Expiry::At(NOW + 1000));
            let none = expiry::expire_due(&rig.keyspace, &mut rig.context, (0, 1), NOW, 1000);
            assert_eq!((none.removed, expiry::next_due(&rig.keyspace)), (0, Some(NOW + 1000)), "{name}");
            rig.run(&["plain", "late", "new"], way);
            assert!(expiry::next_due(&rig.keyspace).is_some_and(|at| at <= NOW + 5), "{name}");
            let pass = expiry::expire_due(&rig.keyspace, &mut rig.context, (0, 1), NOW + 6, 1000);
            assert_eq!(pass.removed, 1, "{name} with {shards} shards");
        }
    }
    // Renaming moves an expiry to another shard, which has no bound for the new name yet.
    let mut rig = rig(4096, 1);
    for number in 0..200 {
        rig.set("from", "v", Expiry::At(NOW + 5));
        let to = format!("to{number}");
        rig.run(&["from", &to], |txn| assert!(txn.rename(b"from", 0, to.as_bytes())));
    }
    let pass = expiry::expire_due(&rig.keyspace, &mut rig.context, (0, 1), NOW + 6, 1000);
    assert_eq!((pass.removed, pass.complete, expiry::next_due(&rig.keyspace)), (200, true, None));
}

#[test]
fn every_key_is_about_as_likely_to_be_the_random_one() {
    for (shards, keys) in [(1, 3), (64, 5), (1024, 4), (16, 300)] {
        let mut rig = rig(shards, 1);
        for n in 0..keys {
            rig.set(&format!("k{n}"), "v", Expiry::Clear);
            rig.set(&format!("dead{n}"), "v", Expiry::At(NOW - 1));
        }
        let draws = keys * 400;
        let mut counts = HashMap::new();
        for _ in 0..draws {
            let mut expired = Vec::new();
            let name = scan::random_key(&rig.keyspace, &mut rig.context, 0, NOW, &mut expired)
                .expect("there are keys");
            assert!(expired.iter().all(|name| name.starts_with(b"dead")));
            assert!(name.starts_with(b"k"), "expired keys are not returned");
            *counts.entry(name).or_insert(0u32) += 1;
        }
        let (least, most) = (counts.values().min().unwrap(), counts.values().max().unwrap());
        assert_eq!(counts.len(), keys);
        assert!(*least > 200 && *most < 700, "{shards} shards, {keys} keys: {least}..{most} of 400");
    }
    let mut empty = rig(16, 1);
    empty.set("dead", "v", Expiry::At(NOW - 1));
    let mut expired = Vec::new();
    assert_eq!(scan::random_key(&empty.keyspace, &mut empty.context, 0, NOW, &mut expired), None);
    assert!(expired.iter().any(|name| name == b"dead"));
}

#[test]
fn a_scan_of_the_keyspace_meets_every_key_once_while_nothing_changes() {
    for (shards, keys, count) in [(1, 2000, 10), (64, 2000, 7), (1024, 50, 10), (4, 0, 10)] {
        let mut rig = rig(shards, 1);
        (0..keys).for_each(|n| rig.set(&format!("k{n}"), "v", Expiry::Clear));
        let (mut cursor, mut seen, mut calls) = (0, Vec::new(), 0);
        loop {
            let before = seen.len();
            cursor = scan::scan(&rig.keyspace, 0, cursor, count, |entry| seen.push(entry.key().to_vec()));
            calls += 1;
            if cursor == 0 {
                break;
            }
            assert!(seen.len() >= before + count && cursor < 1 << 53);
        }
        assert!(calls <= keys / count + 1);
        assert_eq!(seen.len(), keys);
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), keys);
        let nowhere = scan::scan(&rig.keyspace, 0, u64::MAX, count, |_| panic!("no key is at this cursor"));
        assert_eq!(nowhere, 0);
    }
}
