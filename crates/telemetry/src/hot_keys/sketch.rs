// SPDX-License-Identifier: BSD-3-Clause
//! A sketch of the heaviest among very many keys, in bounded memory.
//!
//! A table of at most `2 * size` keys with weights. When it is full, the lighter half is dropped:
//! `cut` rises to the weight that separates the halves. A key added later may have had up to
//! `cut` before; this is recorded ([`TrackedKey::before`]) and counts at the next drop. With
//! total weight W, no key heavier than W / size is ever missing, and a reported weight is never
//! too high and at most W / size too low. (This is the frequent-items summary of Misra and Gries,
//! with many counters lowered at a time, so that an addition costs only a lookup.)
//!
//! With size 2: a:9 b:1 c:1 d:2 are four keys, so the table is full. e:1 arrives: the second
//! highest weight, 2, becomes the cut; d, b and c are dropped, a stays with 9, and e starts with
//! weight 1 and 2 before: it ranks above the dropped d.

use hashbrown::HashMap;

/// A tracked key: its weight since it entered the table, and an upper bound of its earlier weight.
struct TrackedKey {
    weight: u64,
    before: u64,
}

impl TrackedKey {
    fn most(&self) -> u64 {
        self.weight.saturating_add(self.before)
    }
}

/// The sketch.
pub struct Sketch {
    size: usize,
    held: HashMap<Box<[u8]>, TrackedKey, foldhash::fast::RandomState>,
    cut: u64,
}

impl Sketch {
    /// An empty sketch that holds at least the `size` heaviest keys.
    pub fn new(size: usize) -> Sketch {
        Sketch { size, held: HashMap::default(), cut: 0 }
    }

    /// Adds to a key's weight.
    pub fn add(&mut self, key: &[u8], weight: u64) {
        if let Some(held) = self.held.get_mut(key) {
            held.weight = held.weight.saturating_add(weight);
            return;
        }
        if self.held.len() >= 2 * self.size {
            self.drop_lighter_half();
        }
        self.held.insert(key.into(), TrackedKey { weight, before: self.cut });
    }

    fn drop_lighter_half(&mut self) {
        let mut all: Vec<u64> = self.held.values().map(TrackedKey::most).collect();
        let middle = all.len() - self.size;
        self.cut = self.cut.max(*all.select_nth_unstable(middle).1);
        let cut = self.cut;
        self.held.retain(|_, held| held.most() > cut);
    }

    /// The keys and their weights.
    pub fn weights(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.held.iter().map(|(key, held)| (&**key, held.weight))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn heavy_keys_are_there_and_nothing_is_exaggerated(
            stream in prop::collection::vec((0u32..200, 1u64..50), 1..4000),
            heavy in 0u32..200,
            size in 4usize..20,
        ) {
            let mut sketch = Sketch::new(size);
            let mut truth = BTreeMap::<u32, u64>::new();
            let mut add = |key: u32, weight: u64| {
                sketch.add(&key.to_be_bytes(), weight);
                *truth.entry(key).or_default() += weight;
            };
            for (at, &(key, weight)) in stream.iter().enumerate() {
                add(key, weight);
                if at % 3 == 0 {
                    add(heavy, weight);
                }
            }
            prop_assert!(sketch.held.len() <= 2 * size);
            let total: u64 = truth.values().sum();
            let told: BTreeMap<u32, u64> = sketch
                .weights()
                .map(|(key, weight)| (u32::from_be_bytes(key.try_into().expect("four bytes")), weight))
                .collect();
            for (key, &weight) in &truth {
                let told = told.get(key).copied();
                prop_assert!(told.unwrap_or(0) <= weight);
                if weight > total / size as u64 {
                    prop_assert!(told.is_some_and(|told| told + total / size as u64 >= weight), "{key}: {told:?} of {weight}");
                }
            }
        }
    }
}
