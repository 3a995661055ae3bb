// SPDX-License-Identifier: BSD-3-Clause
//! An index of the keys with garbage: invisible state that can be dropped once every region has
//! acknowledged the change that touched the key last.
//!
//! The index may have entries of keys without garbage, never the reverse. After a partition it can
//! be as large as the data, so no change of it may take long: the map consists of many small ones,
//! each of which grows on its own.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};

use crate::KeyId;

/// The number of small maps.
const PARTS: usize = 256;

#[derive(Clone, Debug, Default)]
pub(crate) struct Garbage {
    /// The number of the change that touched a key last. No parts while there is no garbage.
    parts: Vec<HashMap<KeyId, u64>>,
    /// The same entries, ordered by the number.
    order: BTreeSet<(u64, KeyId)>,
    hasher: RandomState,
}

impl Garbage {
    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    fn part(&self, id: &KeyId) -> usize {
        self.hasher.hash_one(id) as usize % PARTS
    }

    pub fn has(&self, id: &KeyId) -> bool {
        !self.is_empty() && self.parts[self.part(id)].contains_key(id)
    }

    /// Change `number` has touched a key. A key without garbage is noted only if it is in the
    /// index: its garbage can go only once this change has been acknowledged as well.
    pub fn note(&mut self, id: KeyId, number: u64, has_garbage: bool) {
        if !has_garbage && self.is_empty() {
            return;
        }
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, HashMap::new);
        }
        let part = self.part(&id);
        let mut entry = (0, id);
        match self.parts[part].get_mut(&entry.1) {
            Some(before) => {
                entry.0 = std::mem::replace(before, number);
                self.order.remove(&entry);
            }
            None if has_garbage => drop(self.parts[part].insert(entry.1.clone(), number)),
            None => return,
        }
        entry.0 = number;
        self.order.insert(entry);
    }

    /// True if there is garbage that was last touched by a change up to `up_to`.
    pub fn has_up_to(&self, up_to: u64) -> bool {
        self.order.first().is_some_and(|(number, _)| *number <= up_to)
    }

    /// Takes the key that was touched first, if that was a change up to `up_to`.
    pub fn take_up_to(&mut self, up_to: u64) -> Option<KeyId> {
        if !self.has_up_to(up_to) {
            return None;
        }
        let (_, id) = self.order.pop_first()?;
        let part = self.part(&id);
        self.parts[part].remove(&id);
        self.shrink(part);
        Some(id)
    }

    /// Up to `most` keys that were last touched by a change after `after`, up to `until`.
    pub fn touched(&self, (after, until): (u64, u64), most: usize) -> Vec<(u64, KeyId)> {
        let first = (after.saturating_add(1), KeyId::default());
        let due = self.order.range(first..).take_while(|(number, _)| *number <= until);
        due.take(most).cloned().collect()
    }

    pub fn remove(&mut self, entry: &(u64, KeyId)) {
        if self.order.remove(entry) {
            let part = self.part(&entry.1);
            self.parts[part].remove(&entry.1);
            self.shrink(part);
        }
    }

    fn shrink(&mut self, part: usize) {
        if self.is_empty() {
            self.parts = Vec::new();
            return;
        }
        let part = &mut self.parts[part];
        if part.len() < part.capacity() / 4 {
            part.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Random changes have the same effect as on a map that is searched.
    #[test]
    fn garbage_goes_in_the_order_of_the_last_changes() {
        let mut random = fastrand::Rng::with_seed(6);
        let (mut garbage, mut map) = (Garbage::default(), HashMap::<KeyId, u64>::new());
        for number in 1..20_000_u64 {
            let id: KeyId = (0, random.u32(0..2_000).to_le_bytes()[..].into());
            let (up_to, first) = (random.u64(0..number), map.iter().map(|(id, at)| (*at, id.clone())).min());
            match random.u8(0..10) {
                0..2 => {
                    let due = first.filter(|(at, _)| *at <= up_to);
                    assert_eq!(garbage.has_up_to(up_to), due.is_some());
                    assert_eq!(garbage.take_up_to(up_to), due.as_ref().map(|(_, id)| id.clone()));
                    due.map(|(_, id)| map.remove(&id));
                }
                2 => {
                    for entry in garbage.touched((up_to, number), 3) {
                        assert_eq!(map.remove(&entry.1), Some(entry.0));
                        garbage.remove(&entry);
                    }
                }
                3..6 => {
                    map.entry(id.clone()).and_modify(|at| *at = number);
                    garbage.note(id.clone(), number, false);
                }
                _ => {
                    map.insert(id.clone(), number);
                    garbage.note(id.clone(), number, true);
                }
            }
            assert_eq!((garbage.len(), garbage.has(&id)), (map.len(), map.contains_key(&id)));
        }
        while let Some(id) = garbage.take_up_to(u64::MAX) {
            map.remove(&id);
        }
        assert!(map.is_empty() && garbage.is_empty() && garbage.parts.is_empty());
    }
}
