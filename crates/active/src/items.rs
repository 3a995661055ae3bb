// SPDX-License-Identifier: BSD-3-Clause
//! A sequence that can change anywhere. Items are kept in chunks, so that a change moves one
//! chunk's items and not half the sequence. Operations at the ends cost the same as in a
//! `VecDeque`.

use std::cmp::Ordering;
use std::collections::VecDeque;

use crate::stored::{Stored, load_len, store_len};

/// The maximum number of items in a chunk, and in two neighbours that are merged.
const CHUNK: usize = 512;
const JOINED: usize = CHUNK / 2;

/// See the module documentation.
#[derive(Clone, Debug)]
pub(crate) struct Items<T> {
    /// No chunk is empty.
    chunks: VecDeque<VecDeque<T>>,
    len: usize,
}

impl<T> Default for Items<T> {
    fn default() -> Items<T> {
        Items { chunks: VecDeque::new(), len: 0 }
    }
}

impl<T: PartialEq> PartialEq for Items<T> {
    fn eq(&self, other: &Items<T>) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<T> Items<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn front(&self) -> Option<&T> {
        self.chunks.front()?.front()
    }

    pub fn back(&self) -> Option<&T> {
        self.chunks.back()?.back()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.chunks.iter().flatten()
    }

    /// The items from an index on.
    pub fn since(&self, index: usize) -> impl Iterator<Item = &T> {
        let (chunk, within) = self.place(index);
        let mut chunks = self.chunks.range(chunk.min(self.chunks.len())..);
        let first = chunks.next().into_iter().flat_map(move |chunk| chunk.range(within..));
        first.chain(chunks.flatten())
    }

    /// The chunk that holds an index, and the index within it. The index past the last item maps
    /// to the end of the last chunk.
    fn place(&self, index: usize) -> (usize, usize) {
        if index < self.len / 2 {
            let mut left = index;
            for (number, chunk) in self.chunks.iter().enumerate() {
                if left < chunk.len() {
                    return (number, left);
                }
                left -= chunk.len();
            }
        }
        let mut start = self.len;
        for (number, chunk) in self.chunks.iter().enumerate().rev() {
            start -= chunk.len();
            if start <= index {
                return (number, index - start);
            }
        }
        (0, 0)
    }

    pub fn get(&self, index: usize) -> Option<&T> {
        let (chunk, within) = self.place(index);
        self.chunks.get(chunk)?.get(within)
    }

    pub fn push_back(&mut self, item: T) {
        self.len += 1;
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push_back(item),
            _ => self.chunks.push_back(VecDeque::from([item])),
        }
    }

    pub fn insert(&mut self, index: usize, item: T) {
        if index >= self.len {
            return self.push_back(item);
        }
        self.len += 1;
        let (number, within) = self.place_before(index);
        if number == 0 && within == 0 && self.chunks[0].len() >= CHUNK {
            return self.chunks.push_front(VecDeque::from([item]));
        }
        let chunk = &mut self.chunks[number];
        chunk.insert(within, item);
        if chunk.len() > CHUNK {
            let second = chunk.split_off(CHUNK / 2);
            self.chunks.insert(number + 1, second);
        }
    }

    /// [`Items::place`] when `len` already counts the new item.
    fn place_before(&mut self, index: usize) -> (usize, usize) {
        self.len -= 1;
        let place = self.place(index);
        self.len += 1;
        place
    }

    pub fn remove(&mut self, index: usize) -> Option<T> {
        if index >= self.len {
            return None;
        }
        let (number, within) = self.place(index);
        let item = self.chunks[number].remove(within)?;
        self.len -= 1;
        let next_len = self.chunks.get(number + 1).map(VecDeque::len);
        let chunk = &mut self.chunks[number];
        if chunk.is_empty() {
            self.chunks.remove(number);
        } else if let Some(next_len) = next_len
            && chunk.len() + next_len <= JOINED
            && let Some(next) = self.chunks.remove(number + 1)
        {
            self.chunks[number].extend(next);
        }
        Some(item)
    }

    /// The index of an item, by the order in which the items are sorted.
    ///
    /// # Errors
    /// The insertion point, if no item is equal.
    pub fn search(&self, order: impl Fn(&T) -> Ordering) -> Result<usize, usize> {
        // The last chunk whose first item is not after the wanted one.
        let is_before =
            |chunk: &VecDeque<T>| chunk.front().is_some_and(|item| order(item) != Ordering::Greater);
        let number = self.chunks.partition_point(is_before).saturating_sub(1);
        let Some(chunk) = self.chunks.get(number) else { return Err(0) };
        let start = match number <= self.chunks.len() / 2 {
            true => self.chunks.range(..number).map(VecDeque::len).sum(),
            false => self.len - self.chunks.range(number..).map(VecDeque::len).sum::<usize>(),
        };
        chunk.binary_search_by(order).map(|index| start + index).map_err(|index| start + index)
    }
}

impl<T> Extend<T> for Items<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        items.into_iter().for_each(|item| self.push_back(item));
    }
}

impl<T> FromIterator<T> for Items<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Items<T> {
        let mut all = Items::default();
        all.extend(items);
        all
    }
}

impl<T> IntoIterator for Items<T> {
    type Item = T;
    type IntoIter = std::iter::Flatten<std::collections::vec_deque::IntoIter<VecDeque<T>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.chunks.into_iter().flatten()
    }
}

impl<T: Stored> Stored for Items<T> {
    fn store(&self, out: &mut Vec<u8>) {
        store_len(self.len, out);
        self.iter().for_each(|one| one.store(out));
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        (0..load_len(from)?).map(|_| T::load(from)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random changes have the same effect as on a `Vec`.
    #[test]
    fn items_are_a_list() {
        let mut random = fastrand::Rng::with_seed(11);
        for grows in [3, 8] {
            let (mut items, mut list) = (Items::default(), Vec::new());
            for number in 0..6_000_u32 {
                let index = match random.u8(0..4) {
                    0 => 0,
                    1 => list.len(),
                    _ => random.usize(0..=list.len()),
                };
                if random.u8(0..10) < grows {
                    items.insert(index, number);
                    list.insert(index, number);
                } else {
                    let removed = (index < list.len()).then(|| list.remove(index));
                    assert_eq!(items.remove(index), removed);
                }
                assert_eq!(
                    (items.len(), items.front(), items.back()),
                    (list.len(), list.first(), list.last())
                );
                assert_eq!(items.get(index), list.get(index));
                assert!(items.chunks.iter().all(|chunk| !chunk.is_empty() && chunk.len() <= CHUNK));
                if number % 100 == 0 {
                    assert!(items.iter().eq(&list) && items.iter().rev().eq(list.iter().rev()));
                    assert!(items.since(index).eq(&list[index..]));
                }
            }
            assert!(items.clone().into_iter().eq(list));
        }
        let even: Items<u32> = (0..5_000).map(|number| 2 * number).collect();
        for wanted in (0..10_001_usize).step_by(7) {
            let expected =
                if wanted % 2 == 0 && wanted < 10_000 { Ok(wanted / 2) } else { Err(wanted.div_ceil(2)) };
            assert_eq!(even.search(|item| item.cmp(&(wanted as u32))), expected);
        }
    }
}
