// SPDX-License-Identifier: BSD-3-Clause
//! Big keys: the keys that use the most memory, found by walking the keyspace on demand.
//!
//! Flow: a reader (the metrics page) calls [`BigKeys::report`], which keeps the walk alive for
//! some seconds. The first loop's cron continues the walk, [`STEP_NANOS`] per turn, in hash order
//! like SCAN: the keys seen so far are a uniform sample, and a complete pass has seen all of
//! them. Without demand, a turn of the cron costs one load.
//!
//! The walk must never delay other work: it holds one shard's shared lock for a few keys at a
//! time, and nothing waits for it.

use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::Ticks;
use braid_keyspace::Keyspace;
use parking_lot::Mutex;

/// Number of keys in a report.
const KEPT: usize = 20;
/// Maximum number of bytes kept of a key's name.
const NAME_LEN_MAX: usize = 128;
/// How long the walk continues after a request, in milliseconds.
const ASKED_MS: i64 = 5_000;
/// Time without a request after which results are dropped, in milliseconds.
const FORGET_MS: i64 = 60_000;
/// Pause between two passes, in milliseconds.
const REST_MS: i64 = 5_000;
/// Duration of a step in nanoseconds: 0.2 % of one thread at 10 turns a second.
const STEP_NANOS: u64 = 200_000;
/// Keys between two clock readings.
const STEP_KEYS: usize = 16;

/// A key as seen by the walk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BigKey {
    pub db: u32,
    /// Name, cut to 128 bytes.
    pub name: Vec<u8>,
    /// Number of bytes cut off the name.
    pub name_cut: usize,
    /// Type, as reported by TYPE.
    pub kind: &'static str,
    /// Memory of the key and its value, including allocations.
    pub bytes: usize,
    /// Time of the visit, ms since the Unix epoch.
    pub seen_ms: i64,
    shard: u32,
    hash: u64,
}

/// Results of the walk.
#[derive(Clone, Default, Debug)]
pub struct Report {
    /// Largest first.
    pub keys: Vec<BigKey>,
    /// Keys seen by the current pass.
    pub walked: u64,
    /// Completed passes.
    pub passes: u64,
}

#[derive(Default)]
struct Walk {
    db: u32,
    cursor: u64,
    /// The cursor's shard.
    shard: u32,
    walked: u64,
    passes: u64,
    /// Earliest time of the next step, ms since the Unix epoch.
    rests_until_ms: i64,
    /// The largest keys of this pass and of the last complete one, largest first.
    found: Vec<BigKey>,
    before: Vec<BigKey>,
}

/// The walk. One per server.
#[derive(Default)]
pub struct BigKeys {
    /// Time of the last request, ms since the Unix epoch; 0 means the walk is off.
    asked_ms: AtomicI64,
    walk: Mutex<Walk>,
}

impl BigKeys {
    /// Returns the current results, and starts or prolongs the walk.
    pub fn report(&self, now_ms: i64) -> Report {
        self.asked_ms.store(now_ms, Relaxed);
        let walk = self.walk.lock();
        let mut keys = walk.found.clone();
        // Add the keys that this pass has not reached yet.
        let is_same = |one: &BigKey, other: &BigKey| (one.db, one.hash) == (other.db, other.hash);
        let is_open =
            |key: &&BigKey| !walk.has_passed(key) && !walk.found.iter().any(|found| is_same(found, key));
        keys.extend(walk.before.iter().filter(is_open).cloned());
        keys.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.name.cmp(&b.name)));
        keys.truncate(KEPT);
        Report { keys, walked: walk.walked, passes: walk.passes }
    }

    /// Performs a step if the walk is on. Called by the first loop's cron, inside the gate.
    #[inline]
    pub fn step(&self, keyspace: &Keyspace, now_ms: i64) {
        let asked_ms = self.asked_ms.load(Relaxed);
        if asked_ms != 0 {
            self.step_for(keyspace, asked_ms, now_ms);
        }
    }

    #[cold]
    fn step_for(&self, keyspace: &Keyspace, asked_ms: i64, now_ms: i64) {
        let mut walk = self.walk.lock();
        if now_ms - asked_ms > FORGET_MS {
            *walk = Walk::default();
            // A concurrent request wins.
            let _ = self.asked_ms.compare_exchange(asked_ms, 0, Relaxed, Relaxed);
            return;
        }
        if now_ms - asked_ms > ASKED_MS || now_ms < walk.rests_until_ms {
            return;
        }
        let start = Ticks::now();
        while Ticks::now().nanos_since(start) < STEP_NANOS {
            if walk.advance(keyspace, now_ms) {
                walk.rests_until_ms = now_ms + REST_MS;
                break;
            }
        }
    }
}

impl Walk {
    /// Visits some keys. True at the end of a pass.
    fn advance(&mut self, keyspace: &Keyspace, now_ms: i64) -> bool {
        if self.cursor == 0 && self.db == 0 {
            self.walked = 0;
        }
        let Walk { db, cursor, walked, found, .. } = self;
        *cursor = braid_keyspace::scan::scan(keyspace, *db, *cursor, STEP_KEYS, |entry| {
            *walked += 1;
            if entry.is_expired(now_ms) {
                return;
            }
            let bytes = entry.memory_bytes();
            if found.len() == KEPT && found.last().is_some_and(|least| least.bytes >= bytes) {
                return;
            }
            let (key, hash) = (entry.key(), keyspace.hash(entry.key()));
            // A segment that is being split may be walked twice.
            found.retain(|other| (other.db, other.hash) != (*db, hash));
            let place = found.partition_point(|other| other.bytes >= bytes);
            let kept = key.len().min(NAME_LEN_MAX);
            let key = BigKey {
                db: *db,
                name: key[..kept].to_vec(),
                name_cut: key.len() - kept,
                kind: entry.value_type().name(),
                bytes,
                seen_ms: now_ms,
                shard: keyspace.shard_of(hash),
                hash,
            };
            found.insert(place, key);
            found.truncate(KEPT);
        });
        self.shard = braid_keyspace::scan::place_of(keyspace, *cursor).0 as u32;
        if *cursor != 0 {
            return false;
        }
        *db += 1;
        while *db < keyspace.databases() && keyspace.len(*db).0 == 0 {
            *db += 1;
        }
        if *db < keyspace.databases() {
            return false;
        }
        *db = 0;
        self.before = std::mem::take(&mut self.found);
        self.passes += 1;
        true
    }

    /// True if this pass has gone past a key of the last pass. If the key still exists, it was
    /// found again or is too small.
    fn has_passed(&self, key: &BigKey) -> bool {
        (key.db, key.shard) < (self.db, self.shard)
    }
}

#[cfg(test)]
mod tests {
    use braid_base::hash::KeyHasher;
    use braid_keyspace::keyspace::Shape;
    use braid_keyspace::{Context, Expiry, KeyRef, Txn, Value};

    use super::*;

    const NOW: i64 = 1_000_000;

    struct Rig {
        keyspace: Keyspace,
        context: Context,
        big: BigKeys,
    }

    impl Rig {
        fn new() -> Rig {
            let shape = Shape { shards: 16, databases: 3, threads: 1, threads_max: 1 };
            let keyspace = Keyspace::new(shape, KeyHasher::random());
            let context = Context::new(&keyspace, 0);
            Rig { keyspace, context, big: BigKeys::default() }
        }

        /// Sets a key to a string of `len` bytes; 0 deletes it.
        fn set(&mut self, db: u32, key: &str, len: usize) {
            let key = key.as_bytes();
            let keys = [KeyRef { key, hash: self.keyspace.hash(key), write: true }];
            let mut txn = Txn::lock(&self.keyspace, &mut self.context, db, NOW, &keys);
            if len == 0 {
                assert!(txn.delete(key));
            } else {
                txn.set(key, Value::string(&vec![b'x'; len]), Expiry::Clear);
            }
        }

        /// Runs steps until a pass is complete.
        fn pass(&mut self, now_ms: i64) -> Report {
            let passes = self.big.report(now_ms).passes;
            for _ in 0..1_000_000 {
                self.big.step(&self.keyspace, now_ms);
                let report = self.big.report(now_ms);
                if report.passes > passes {
                    return report;
                }
            }
            panic!("the pass does not end");
        }
    }

    fn names(report: &Report) -> Vec<String> {
        report.keys.iter().map(|key| String::from_utf8_lossy(&key.name).into_owned()).collect()
    }

    #[test]
    fn the_largest_keys_of_all_databases_are_found() {
        let mut rig = Rig::new();
        for number in 0..3000 {
            rig.set(0, &format!("small:{number}"), 10);
        }
        // Further apart than the allocator's size classes.
        let length = |number| (2_000.0 * 1.26_f64.powi(number)) as usize;
        for number in 1..=30 {
            rig.set(if number % 2 == 0 { 0 } else { 2 }, &format!("big:{number:02}"), length(number));
        }
        let report = rig.pass(NOW);
        assert_eq!(report.walked, 3030);
        let expected: Vec<String> = (11..=30).rev().map(|number| format!("big:{number:02}")).collect();
        assert_eq!(names(&report), expected);
        let first = &report.keys[0];
        assert_eq!((first.db, first.kind, first.seen_ms, first.name_cut), (0, "string", NOW, 0));
        assert!((length(30)..length(31)).contains(&first.bytes), "{}", first.bytes);
        assert_eq!(report.keys[1].db, 2);
        // The next pass finds changes, and drops deleted keys.
        rig.set(0, "big:30", 0);
        rig.set(2, "big:29", 10);
        rig.set(1, "new", 5_000_000);
        let report = rig.pass(NOW + REST_MS);
        assert_eq!(names(&report)[..3], ["new", "big:28", "big:27"]);
    }

    #[test]
    fn big_keys_are_searched_only_while_requested() {
        let mut rig = Rig::new();
        rig.set(0, &"k".repeat(1000), 100);
        rig.big.step(&rig.keyspace, NOW);
        assert_eq!(rig.big.walk.lock().passes, 0, "no report was requested");
        let report = rig.pass(NOW);
        assert_eq!((report.keys[0].name.len(), report.keys[0].name_cut), (NAME_LEN_MAX, 1000 - NAME_LEN_MAX));
        // A short rest, a longer one without requests, and finally all results are dropped.
        for later in [REST_MS - 1, ASKED_MS + 1, FORGET_MS] {
            rig.big.step(&rig.keyspace, NOW + later);
            assert_eq!(rig.big.walk.lock().passes, 1, "{later} ms later");
        }
        rig.big.step(&rig.keyspace, NOW + FORGET_MS + 1);
        assert_eq!((rig.big.walk.lock().passes, rig.big.asked_ms.load(Relaxed)), (0, 0));
        assert!(rig.big.report(NOW + FORGET_MS + 2).keys.is_empty());
    }
}
