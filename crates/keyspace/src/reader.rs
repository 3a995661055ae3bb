// SPDX-License-Identifier: BSD-3-Clause
//! Reading by a thread in the background: shard after shard, or one key, so that a long command holds up nobody.
//!
//! The thread has a gate slot of its own, which it enters for one shard at a time: whoever stops the world waits for one shard at most.
//! What it sees of different shards is of different moments. It marks nothing as used, counts nothing, and removes nothing: what is past
//! its expiry is passed over.

use parking_lot::MutexGuard;

use crate::entry::Entry;
use crate::keyspace::{Keyspace, Shard};

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

    /// Shows `look` the entry of a key, if it is there and not expired, while its shard is held.
    pub fn read<R>(&self, db: u32, now: i64, key: &[u8], look: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        let hash = self.keyspace.hash(key);
        let inside = Inside::enter(self.keyspace, self.keyspace.shard_of(hash));
        // SAFETY: the shard is held.
        let found = unsafe { inside.1.table(db).find(hash, self.keyspace.shard_bits(), key) };
        look(found.filter(|entry| !entry.is_expired(now)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use braid_base::hash::KeyHasher;

    use crate::entry::Value;
    use crate::keyspace::{Keyspace, Shape};
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
        let has = |key: &str, db| keyspace.reader().read(db, NOW, key.as_bytes(), |entry| entry.is_some());
        assert!(has("a", 0) && has("c", 0) && !has("b", 0) && !has("a", 1) && !has("d", 0));
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
