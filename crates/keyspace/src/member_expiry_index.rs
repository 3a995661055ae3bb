// SPDX-License-Identifier: BSD-3-Clause
//! Which collections of one table have members that expire, by when the first of them does.
//!
//! A table has such an index only while some collection in it needs one, so keys and members without a time
//! pay nothing. A mention is a promise to look, not a fact: it may come too early (the member was removed, or
//! lost its time meanwhile) but never too late. Whoever looks, under the shard's exclusive lock, mentions the
//! key again when more is to come.
//!
//! Keys are named by their hash. Two keys of a shard with the same 64 bits would share one mention; the
//! other's members then go when they are next written to.

use std::collections::BTreeSet;
use std::hash::BuildHasherDefault;

use hashbrown::HashMap;

/// Hashes of keys are random already.
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
        // Keys of one table share the first bits, which name the shard.
        self.0 = hash.rotate_left(32);
    }
}

/// The mentions of one table.
#[derive(Default)]
pub(crate) struct MemberExpiryIndex {
    by_time: BTreeSet<(i64, u64)>,
    by_key: HashMap<u64, i64, BuildHasherDefault<AsItIs>>,
}

impl MemberExpiryIndex {
    /// Mentions a key, unless it is mentioned with an earlier time.
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

    /// Takes a key's mention away.
    pub fn forget(&mut self, hash: u64) {
        if let Some(at) = self.by_key.remove(&hash) {
            self.by_time.remove(&(at, hash));
        }
    }

    /// Takes away the first mention that lies before `now`.
    pub fn take(&mut self, now: i64) -> Option<u64> {
        let &(at, hash) = self.by_time.first().filter(|(at, _)| *at < now)?;
        self.by_time.remove(&(at, hash));
        self.by_key.remove(&hash);
        Some(hash)
    }

    /// The earliest mention.
    pub fn next(&self) -> Option<i64> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Number of keys mentioned.
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
