// SPDX-License-Identifier: BSD-3-Clause
//! A sorted set of words, in blocks that are read one after the other: a range of thousands of
//! entries is copied at the speed of memory, which a tree of small nodes is far from.

use std::ops::RangeInclusive;

/// Most entries of a block; fewer in tests, so that these divide some.
const BLOCK_MAX: usize = if cfg!(test) { 4 } else { 512 };

/// A sorted set.
#[derive(Default)]
pub struct Order {
    /// Ascending, each sorted; none is empty.
    blocks: Vec<Vec<u64>>,
}

fn ends_before(entry: u64) -> impl Fn(&Vec<u64>) -> bool {
    move |block| block.last().is_some_and(|last| *last < entry)
}

impl Order {
    /// Of these, which are sorted. Equal ones count once.
    pub fn of_sorted(entries: &[u64]) -> Order {
        let mut entries = entries.to_vec();
        entries.dedup();
        // With some room for what is added.
        Order { blocks: entries.chunks(BLOCK_MAX * 3 / 4).map(<[u64]>::to_vec).collect() }
    }

    pub fn insert(&mut self, entry: u64) {
        if self.blocks.is_empty() {
            self.blocks.push(Vec::new());
        }
        let at = self.blocks.partition_point(ends_before(entry)).min(self.blocks.len() - 1);
        let block = &mut self.blocks[at];
        let Err(place) = block.binary_search(&entry) else { return };
        block.insert(place, entry);
        if block.len() > BLOCK_MAX {
            let upper = block.split_off(block.len() / 2);
            self.blocks.insert(at + 1, upper);
        }
    }

    pub fn remove(&mut self, entry: u64) {
        let at = self.blocks.partition_point(ends_before(entry));
        let Some(block) = self.blocks.get_mut(at) else { return };
        let Ok(place) = block.binary_search(&entry) else { return };
        block.remove(place);
        if block.is_empty() {
            self.blocks.remove(at);
        }
    }

    /// The entries of a range, by blocks.
    pub fn range(&self, range: RangeInclusive<u64>) -> impl Iterator<Item = &[u64]> {
        let (first, last) = range.into_inner();
        let blocks = &self.blocks[self.blocks.partition_point(ends_before(first))..];
        let blocks = blocks.iter().take_while(move |block| block.first().is_some_and(|one| *one <= last));
        blocks.map(move |block| {
            let start = block.partition_point(|entry| *entry < first);
            let end = block.partition_point(|entry| *entry <= last);
            &block[start..end]
        })
    }

    /// Bytes allocated.
    pub fn memory_bytes(&self) -> usize {
        let entries: usize = self.blocks.iter().map(Vec::capacity).sum();
        self.blocks.capacity() * size_of::<Vec<u64>>() + entries * size_of::<u64>()
    }

    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        assert!(self.blocks.iter().all(|block| !block.is_empty() && block.len() <= BLOCK_MAX));
        self.blocks.iter().flatten().copied()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.iter().count()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn an_order_is_a_sorted_set() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut model: BTreeSet<u64> = (0..40).map(|number| number * 3).collect();
        let mut order = Order::of_sorted(&model.iter().copied().collect::<Vec<_>>());
        for step in 0..5000 {
            // It grows, shrinks to nothing and grows again.
            let (entry, adds) = (random.u64(..120), random.u32(..10) < [8, 1, 6][step % 1500 / 500]);
            if adds {
                order.insert(entry);
                model.insert(entry);
            } else {
                order.remove(entry);
                model.remove(&entry);
            }
            let (a, b) = (random.u64(..130), random.u64(..130));
            let (first, last) = (a.min(b), a.max(b));
            let found: Vec<u64> = order.range(first..=last).flatten().copied().collect();
            assert_eq!(found, model.range(first..=last).copied().collect::<Vec<_>>());
        }
        assert_eq!(order.iter().collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
    }
}
