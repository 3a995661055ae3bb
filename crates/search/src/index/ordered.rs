// SPDX-License-Identifier: BSD-3-Clause
//! Sorted items in blocks: an ordered tree of two levels, for items of a few bytes.
//!
//! The order is the caller's: each call says which items come before the place it means. Compared
//! with a `BTreeSet` there is hardly any room between the items, and a block that only grows at its
//! end, as with rising numbers, becomes full.

use std::ops::ControlFlow;

use super::moving::Walk;

const BLOCK_MAX: usize = 256;
/// Blocks grow by so many items: little is unused, and most insertions move no block.
const GROWTH: usize = 16;

#[derive(Debug)]
pub struct Ordered<T> {
    blocks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Ordered<T> {
    fn default() -> Ordered<T> {
        Ordered { blocks: Vec::new(), len: 0 }
    }
}

impl<T: Copy> Ordered<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    /// The block and the place in it of the first item that does not come before; the place may be
    /// the block's end.
    fn find(&self, mut is_before: impl FnMut(&T) -> bool) -> (usize, usize) {
        let block = self.blocks.partition_point(|block| block.last().is_some_and(&mut is_before));
        let at = self.blocks.get(block).map_or(0, |items| items.partition_point(is_before));
        (block, at)
    }

    /// Inserts an item after those that come before it.
    pub fn insert(&mut self, item: T, is_before: impl FnMut(&T) -> bool) {
        self.len += 1;
        let (mut block, mut at) = self.find(is_before);
        if block == self.blocks.len() {
            // After all others: where there is room, else in a block of its own.
            match self.blocks.last() {
                Some(last) if last.len() < BLOCK_MAX => {
                    block -= 1;
                    at = last.len();
                }
                _ => self.blocks.push(Vec::new()),
            }
        }
        let items = &mut self.blocks[block];
        if items.len() == items.capacity() {
            items.reserve_exact(GROWTH);
        }
        items.insert(at, item);
        if items.len() > BLOCK_MAX {
            let mut upper = items.split_off(items.len() / 2);
            items.shrink_to(items.len() + GROWTH);
            upper.shrink_to_fit();
            self.blocks.insert(block + 1, upper);
        }
    }

    /// Removes the first item that does not come before, if it is the one meant.
    pub fn remove(&mut self, is_before: impl FnMut(&T) -> bool, is_meant: impl FnOnce(&T) -> bool) -> bool {
        let (block, at) = self.find(is_before);
        let Some(items) = self.blocks.get_mut(block) else { return false };
        if !items.get(at).is_some_and(is_meant) {
            return false;
        }
        items.remove(at);
        self.len -= 1;
        if items.is_empty() {
            self.blocks.remove(block);
        } else if let Some(next) = self.blocks.get(block + 1)
            && self.blocks[block].len() + next.len() <= BLOCK_MAX / 2
        {
            let next = self.blocks.remove(block + 1);
            self.blocks[block].extend_from_slice(&next);
        } else if self.blocks[block].capacity() > self.blocks[block].len() + 2 * GROWTH {
            let len = self.blocks[block].len();
            self.blocks[block].shrink_to(len + GROWTH);
        }
        true
    }

    /// The items from the first that does not come before.
    pub fn iter_from(&self, is_before: impl FnMut(&T) -> bool) -> impl Iterator<Item = T> {
        let (block, at) = self.find(is_before);
        let first = self.blocks.get(block).map_or(&[][..], |items| &items[at..]);
        let rest = self.blocks.get(block + 1..).unwrap_or_default();
        first.iter().chain(rest.iter().flatten()).copied()
    }

    /// How many items are between two places, without looking at all of them.
    pub fn count_between(
        &self,
        is_before: impl FnMut(&T) -> bool,
        is_within: impl FnMut(&T) -> bool,
    ) -> usize {
        let (first, at) = self.find(is_before);
        let (last, end) = self.find(is_within);
        if (last, end) <= (first, at) {
            return 0;
        }
        let whole: usize = self.blocks[first..last].iter().map(Vec::len).sum();
        whole + end - at
    }

    /// Moves the blocks to better places.
    pub fn relocate(&mut self, walk: &mut Walk<'_>) -> ControlFlow<u64> {
        walk.each(self.blocks.iter_mut(), |block, mover| mover.relocate_vec(block))
    }

    pub fn heap_bytes(&self) -> usize {
        let items: usize = self.blocks.iter().map(Vec::capacity).sum();
        items * size_of::<T>() + self.blocks.capacity() * size_of::<Vec<T>>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_behaves_as_a_set_of_the_standard_library(
            changes in proptest::collection::vec((any::<bool>(), 0u32..3000), 0..4000), from in 0u32..3000, len in 0u32..900,
        ) {
            let mut ordered = Ordered::default();
            let mut model = BTreeSet::new();
            for (add, item) in changes {
                if add && model.insert(item) {
                    ordered.insert(item, |one| *one < item);
                } else {
                    prop_assert_eq!(ordered.remove(|one| *one < item, |one| *one == item), model.remove(&item));
                }
            }
            prop_assert_eq!(ordered.len(), model.len());
            prop_assert!(ordered.iter_from(|one| *one < from).eq(model.range(from..).copied()));
            let between = ordered.count_between(|one| *one < from, |one| *one < from + len);
            prop_assert_eq!(between, model.range(from..from + len).count());
        }
    }

    #[test]
    fn rising_items_fill_their_blocks() {
        let mut ordered = Ordered::default();
        (0..100_000u32).for_each(|item| ordered.insert(item, |one| *one < item));
        assert!(ordered.heap_bytes() < 100_000 * 4 * 11 / 10, "{}", ordered.heap_bytes());
    }
}
