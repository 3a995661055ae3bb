// SPDX-License-Identifier: BSD-3-Clause
//! Index of one table's collections whose members expire, ordered by each collection's earliest
//! expiry.
//!
//! A table has an index only while some collection in it needs one, so keys and members without an
//! expiry cost nothing. An item is a hint: its time may be too early (the member was removed or
//! lost its expiry since) but never too late. The code that looks at a due collection, under the
//! shard's exclusive lock, adds the key again if more members will expire.
//!
//! Keys are identified by their hash. Two keys of a shard with the same 64-bit hash share one
//! item; the other key's members are then removed at the next write to that key.

use std::collections::BTreeSet;
use std::hash::BuildHasherDefault;

use hashbrown::HashMap;

/// Identity hasher: key hashes are already random.
#[derive(Default)]
struct AsItIs(u64);

impl std::hash::Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only 64-bit hashes are hashed");
    }

    fn write_u64(&mut self, hash: u64) {
        // Keys of one table share the top bits, which choose the shard.
        self.0 = hash.rotate_left(32);
    }
}

/// The items of one table.
#[derive(Default)]
pub(crate) struct MemberExpiryIndex {
    by_time: BTreeSet<(i64, u64)>,
    by_key: HashMap<u64, i64, BuildHasherDefault<AsItIs>>,
}

impl MemberExpiryIndex {
    /// Adds a key, unless the index already has it with an earlier time.
    pub fn note(&mut self, hash: u64, at: i64) {
        if let Some(&before) = self.by_key.get(&hash) {
            if before <= at {
                return;
            }
            self.by_time.remove(&(before, hash));
        }
        self.by_key.insert(hash, at);
        self.by_time.insert((at, hash));
    }

    /// Removes a key.
    pub fn forget(&mut self, hash: u64) {
        if let Some(at) = self.by_key.remove(&hash) {
            self.by_time.remove(&(at, hash));
        }
    }

    /// Removes and returns the first key whose time is before `now_ms`.
    pub fn take(&mut self, now_ms: i64) -> Option<u64> {
        let &(at, hash) = self.by_time.first().filter(|(at, _)| *at < now_ms)?;
        self.by_time.remove(&(at, hash));
        self.by_key.remove(&hash);
        Some(hash)
    }

    /// The earliest time.
    pub fn next(&self) -> Option<i64> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const CASES: u32 = if cfg!(miri) { 2 } else { 64 };

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(CASES))]
        #[test]
        fn one_mention_a_key_and_the_earliest_counts(
            steps in proptest::collection::vec((0u8..4, 0u64..6, 0i64..20), 0..60)
        ) {
            let (mut due, mut model) = (MemberExpiryIndex::default(), BTreeMap::<u64, i64>::new());
            for (what, hash, at) in steps {
                match what {
                    0 | 1 => {
                        due.note(hash, at);
                        model.entry(hash).and_modify(|old| *old = at.min(*old)).or_insert(at);
                    }
                    2 => {
                        due.forget(hash);
                        model.remove(&hash);
                    }
                    _ => {
                        let first = model.iter().map(|(hash, at)| (*at, *hash)).min().filter(|(time, _)| *time < at);
                        prop_assert_eq!(due.take(at), first.map(|(_, hash)| hash));
                        if let Some((_, hash)) = first {
                            model.remove(&hash);
                        }
                    }
                }
                prop_assert_eq!(due.next(), model.values().min().copied());
                prop_assert_eq!((due.len(), due.by_time.len()), (model.len(), model.len()));
            }
        }
    }
}
