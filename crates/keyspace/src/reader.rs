// SPDX-License-Identifier: BSD-3-Clause
//! Reading by a thread in the background: shard after shard, or collections of some keys, so that a long command holds up nobody.
//!
//! The thread has a gate slot of its own, which it enters for one shard at a time: whoever stops the world waits for one shard at most.
//! What it sees of different shards is of different moments. It marks nothing as used, counts nothing, and removes nothing: what is past
//! its expiry is passed over.
//!
//! Collections of several keys are seen at one moment by [`Reader::lend`]: it holds all their shards while it borrows them, which takes
//! microseconds at any size.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::MutexGuard;

use crate::entry::{Entry, ValueRef};
use crate::keyspace::{Keyspace, Shard};
use crate::object::{LentEntry, ObjectRef};
use crate::txn;

/// Reads keys outside of the executing threads. There is one at a time.
pub struct Reader<'k> {
    keyspace: &'k Keyspace,
    _one: MutexGuard<'k, ()>,
}

/// Inside the gate, with a shard held for reading.
struct Inside<'k>(&'k Keyspace, &'k Shard);

impl<'k> Inside<'k> {
    fn enter(keyspace: &'k Keyspace, shard: u32) -> Inside<'k> {
        keyspace.gate.enter(keyspace.reader_slot());
        let shard = keyspace.shard(shard);
        shard.lock.lock_shared();
        Inside(keyspace, shard)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.1.lock.unlock_shared();
        self.0.gate.leave(self.0.reader_slot());
    }
}

/// Several shards, held exclusively, inside the gate.
struct AllOf<'k>(&'k Keyspace, Vec<u32>);

impl<'k> AllOf<'k> {
    /// Takes the shards of some keys in ascending order, as every transaction does.
    fn enter(keyspace: &'k Keyspace, hashes: impl Iterator<Item = u64>) -> AllOf<'k> {
        let mut shards: Vec<u32> = hashes.map(|hash| keyspace.shard_of(hash)).collect();
        shards.sort_unstable();
        shards.dedup();
        keyspace.gate.enter(keyspace.reader_slot());
        for &shard in &shards {
            keyspace.shard(shard).lock.lock_exclusive();
        }
        AllOf(keyspace, shards)
    }
}

impl Drop for AllOf<'_> {
    fn drop(&mut self) {
        for &shard in &self.1 {
            self.0.shard(shard).lock.unlock_exclusive();
        }
        self.0.gate.leave(self.0.reader_slot());
    }
}

/// What stood at a key when it was borrowed.
pub enum Loan {
    Missing,
    /// A collection, sharing memory with the key's own (`braid_containers::lend`).
    Lent(LentEntry),
    /// A string, or a collection whose members expire: these are not lent.
    Unlent,
}

impl Loan {
    /// The collection, if one was lent.
    pub fn object(&self) -> Option<ObjectRef<'_>> {
        match self {
            Loan::Lent(entry) => match entry.entry().value() {
                ValueRef::Object(object) => Some(object),
                _ => None,
            },
            Loan::Missing | Loan::Unlent => None,
        }
    }
}

/// Keys that are watched from the moment in which they were borrowed. To be given to [`Reader::unwatch`].
pub struct LoanWatch {
    db: u32,
    keys: Vec<Box<[u8]>>,
    flag: Arc<AtomicBool>,
    /// When the first of them expires, ms since the Unix epoch.
    expiry: i64,
}

impl LoanWatch {
    /// Whether none of the keys has changed or expired until `now`. Some lock of each key's shard must be held.
    pub fn holds(&self, now: i64) -> bool {
        !txn::is_raised(&self.flag) && now <= self.expiry
    }
}

impl Keyspace {
    /// The right to read outside of the executing threads; waits for whoever has it. No lock may be held, and the thread must not be
    /// inside the gate.
    pub fn reader(&self) -> Reader<'_> {
        Reader { keyspace: self, _one: self.reader.lock() }
    }
}

impl Reader<'_> {
    /// Visits all keys of a shard that are not expired, at one moment.
    pub fn visit_shard(&self, shard: u32, db: u32, now: i64, mut visit: impl FnMut(Entry<'_>)) {
        if self.keyspace.shard(shard).table(db).is_empty() {
            return;
        }
        let inside = Inside::enter(self.keyspace, shard);
        // SAFETY: the shard is held.
        unsafe {
            inside.1.table(db).for_each(|entry| {
                if !entry.is_expired(now) {
                    visit(entry);
                }
            });
        }
    }

    /// Borrows what stands at some keys, all at one moment. With `watch` they are watched from that moment on.
    pub fn lend(&self, db: u32, now: i64, keys: &[Box<[u8]>], watch: bool) -> (Vec<Loan>, Option<LoanWatch>) {
        let keyspace = self.keyspace;
        let hashes: Vec<u64> = keys.iter().map(|key| keyspace.hash(key)).collect();
        let mut watch = watch.then(|| LoanWatch {
            db,
            keys: Vec::with_capacity(keys.len()),
            flag: txn::new_watch_flag(),
            expiry: i64::MAX,
        });
        let held = AllOf::enter(keyspace, hashes.iter().copied());
        let mut loans = Vec::with_capacity(keys.len());
        for (key, &hash) in keys.iter().zip(&hashes) {
            let shard = keyspace.shard(keyspace.shard_of(hash));
            // SAFETY: the shard is held.
            let entry = unsafe { shard.table(db).find(hash, keyspace.shard_bits(), key) };
            let entry = entry.filter(|entry| !entry.is_expired(now));
            if let Some(watch) = &mut watch {
                // SAFETY: the shard is held exclusively.
                unsafe { shard.watchers.add(db, key, &watch.flag) };
                watch.keys.push(key.clone());
                watch.expiry = watch.expiry.min(entry.and_then(Entry::expiry).unwrap_or(i64::MAX));
            }
            loans.push(match entry {
                None => Loan::Missing,
                Some(entry) if can_be_lent(entry) => {
                    // SAFETY: the shard is held exclusively, and nobody refers to the collection.
                    unsafe { LentEntry::of(entry) }.map_or(Loan::Unlent, Loan::Lent)
                }
                Some(_) => Loan::Unlent,
            });
        }
        drop(held);
        (loans, watch)
    }

    /// Ends the watch of borrowed keys.
    pub fn unwatch(&self, watch: &LoanWatch) {
        let keyspace = self.keyspace;
        for key in &watch.keys {
            let hash = keyspace.hash(key);
            let held = AllOf::enter(keyspace, std::iter::once(hash));
            // SAFETY: the shard is held exclusively.
            unsafe { keyspace.shard(keyspace.shard_of(hash)).watchers.remove(watch.db, key, &watch.flag) };
            drop(held);
        }
    }
}

/// Whether an entry can be borrowed and read outside of locks. When members expire is not lent with them.
fn can_be_lent(entry: Entry<'_>) -> bool {
    matches!(entry.value(), ValueRef::Object(object) if object.next_member_expiry().is_none())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use braid_base::hash::KeyHasher;
    use braid_containers::sorted_set::{AddRule, PackedLimits, SortedSet};

    use crate::entry::Value;
    use crate::keyspace::{Keyspace, Shape};
    use crate::object::ObjectRef;
    use crate::{Context, Expiry, KeyRef, Txn};

    const NOW: i64 = 1_000_000;

    fn keyspace(threads: usize) -> Keyspace {
        let shape = Shape { shards: 64, databases: 2, threads, threads_max: threads };
        Keyspace::new(shape, KeyHasher::with_key(b"0123456789abcdef"))
    }

    fn with<R>(
        keyspace: &Keyspace,
        context: &mut Context,
        key: &str,
        body: impl FnOnce(&mut Txn<'_>) -> R,
    ) -> R {
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
    fn what_is_expired_is_passed_over() {
        let keyspace = keyspace(1);
        let mut context = Context::new(&keyspace, 0);
        set(&keyspace, &mut context, "a", Expiry::Clear);
        set(&keyspace, &mut context, "b", Expiry::At(NOW - 1));
        set(&keyspace, &mut context, "c", Expiry::At(NOW + 1));
        assert_eq!(walk(&keyspace), ["a", "c"]);
        let has = |key: &str, db| {
            let (loans, _) = keyspace.reader().lend(db, NOW, &[key.as_bytes().into()], false);
            !matches!(loans[0], super::Loan::Missing)
        };
        assert!(has("a", 0) && has("c", 0) && !has("b", 0) && !has("a", 1) && !has("d", 0));
    }

    fn scores(loan: &super::Loan) -> Vec<f64> {
        match loan.object() {
            Some(ObjectRef::SortedSet(set)) => {
                set.view(NOW).iter(0..usize::MAX).map(|(_, score)| score).collect()
            }
            _ => Vec::new(),
        }
    }

    #[test]
    fn what_is_lent_is_of_one_moment_and_watched_from_it() {
        let keyspace = keyspace(1);
        let mut context = Context::new(&keyspace, 0);
        let limits = PackedLimits::default();
        let put = |context: &mut Context, key: &str, member: u32| {
            with(&keyspace, context, key, |txn| {
                let set = txn.write_or_create(key.as_bytes(), SortedSet::new).expect("a sorted set");
                set.add(member.to_string().as_bytes(), f64::from(member), AddRule::default(), &limits);
                txn.changed(crate::Event::zset("zadd"), key.as_bytes());
            });
        };
        let drop_key = |context: &mut Context, key: &str| {
            with(&keyspace, context, key, |txn| txn.remove(key.as_bytes()));
        };
        (0..5000).for_each(|member| put(&mut context, "large", member));
        put(&mut context, "small", 7);
        set(&keyspace, &mut context, "text", Expiry::Clear);
        let keys: Vec<Box<[u8]>> = ["large", "small", "text", "none"].map(|key| key.as_bytes().into()).into();
        let reader = keyspace.reader();
        let (loans, watch) = reader.lend(0, NOW, &keys, true);
        let watch = watch.expect("watched");
        assert!(watch.holds(NOW) && keyspace.watched_keys() == 4);
        // A second borrower, while the first one still has it.
        let (others, none) = reader.lend(0, NOW, &keys[..1], false);
        assert!(none.is_none());
        put(&mut context, "other", 1);
        assert!(watch.holds(NOW));
        with(&keyspace, &mut context, "large", |txn| {
            let set = txn.write_as::<SortedSet>(b"large").expect("a sorted set").expect("there");
            set.remove_ranks(0..4000, |_, _| {});
            txn.changed(crate::Event::zset("zremrangebyrank"), b"large");
        });
        assert!(!watch.holds(NOW));
        let all: Vec<f64> = (0..5000).map(f64::from).collect();
        assert_eq!((scores(&loans[0]), scores(&loans[1])), (all.clone(), vec![7.0]));
        assert!(matches!((&loans[2], &loans[3]), (super::Loan::Unlent, super::Loan::Missing)));
        // Whoever returns it first takes nothing from the other one, nor does the owner's end.
        drop(loans);
        assert_eq!(scores(&others[0]), all);
        let (third, _) = reader.lend(0, NOW, &keys[..1], false);
        drop_key(&mut context, "large");
        drop(others);
        assert_eq!(scores(&third[0]), all[4000..]);
        drop(third);
        reader.unwatch(&watch);
        assert_eq!(keyspace.watched_keys(), 0);
        // A key that is made counts as a change, and one that expires does.
        for (key, at) in [("none", i64::MAX), ("small", NOW + 5)] {
            if at != i64::MAX {
                with(&keyspace, &mut context, key, |txn| txn.set_expiry(key.as_bytes(), Some(at)));
            }
            let (_, watch) = reader.lend(0, NOW, &keys, true);
            let watch = watch.expect("watched");
            assert!(watch.holds(NOW));
            if at == i64::MAX {
                put(&mut context, key, 1);
            }
            assert!(!watch.holds(NOW + 6), "{key}");
            reader.unwatch(&watch);
        }
    }

    /// One executing thread frees memory at once, and several tables split, shrink and are replaced while the reader walks.
    #[test]
    fn keys_that_stay_are_met_once_while_threads_change_others() {
        for threads in [1, 2] {
            let keyspace = keyspace(threads);
            let ended = AtomicBool::new(false);
            let stable: Vec<String> = {
                let mut context = Context::new(&keyspace, 0);
                let names = (0..3000).map(|n| format!("stable{n:04}"));
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
                            for _ in 0..200 {
                                let name = format!("other{slot}-{}", random.u32(0..20_000));
                                if random.bool() {
                                    set(keyspace, &mut context, &name, Expiry::Clear);
                                } else {
                                    with(keyspace, &mut context, &name, |txn| txn.remove(name.as_bytes()));
                                }
                            }
                            if random.u32(0..50) == 0 {
                                drop(keyspace.gate.close(Some(slot)));
                            }
                            keyspace.gate.leave(slot);
                            context.limbo.reclaim();
                        }
                    });
                }
                for _ in 0..30 {
                    let mut found = walk(&keyspace);
                    found.retain(|name| name.starts_with("stable"));
                    assert_eq!(found, stable);
                }
                ended.store(true, Relaxed);
            });
        }
    }
}
