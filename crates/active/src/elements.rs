// SPDX-License-Identifier: BSD-3-Clause
//! Maps of cells: the elements of a collection, each with its own marks. A removed element leaves
//! nothing.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use crate::cell::{At, Cell, CellChange, Sides};
use crate::rules::Rules;
use crate::stamp::Stamp;
use crate::stored::Stored;
use crate::tally::SeenTally;

#[derive(Clone, PartialEq, Debug)]
pub struct Elements<K, V>(BTreeMap<K, Cell<V>>);

impl<K, V> Default for Elements<K, V> {
    fn default() -> Elements<K, V> {
        Elements(BTreeMap::new())
    }
}

impl<K: Ord + Clone, V: Clone> Elements<K, V> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get<Q: Ord + ?Sized>(&self, element: &Q) -> Option<&Cell<V>>
    where
        K: Borrow<Q>,
    {
        self.0.get(element)
    }

    /// All elements in order, including invisible ones.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &Cell<V>)> {
        self.0.iter()
    }

    /// Visits the stamps of all elements.
    pub(crate) fn each_stamp(&self, note: &mut dyn FnMut(Stamp)) {
        self.0.values().for_each(|cell| cell.each_stamp(note));
    }

    /// Changes one element. Returns true if it now holds garbage.
    pub fn apply(&mut self, at: &At, element: K, change: CellChange<V>) -> bool {
        let cell = self.0.entry(element.clone()).or_default();
        let has_garbage = cell.apply(at, change);
        if cell.is_empty() {
            self.0.remove(&element);
        }
        has_garbage
    }

    /// Removes the part of every element that the effect saw.
    pub fn remove_all<'a>(&mut self, at: &At, seen: impl Iterator<Item = (&'a K, SeenTally)>)
    where
        K: 'a,
    {
        for (element, tally) in seen {
            if let Some(cell) = self.0.get_mut(element) {
                cell.remove(at, &[tally]);
            }
        }
        self.0.retain(|_, cell| {
            cell.remove(at, &[]);
            !cell.is_empty()
        });
    }

    pub fn merge(&mut self, theirs: &Elements<K, V>, sides: &Sides) {
        let none = Cell::default();
        self.0.retain(|element, cell| {
            cell.merge(theirs.0.get(element).unwrap_or(&none), sides);
            !cell.is_empty()
        });
        for (element, other) in &theirs.0 {
            if !self.0.contains_key(element) {
                let mut cell = Cell::default();
                cell.merge(other, sides);
                if !cell.is_empty() {
                    self.0.insert(element.clone(), cell);
                }
            }
        }
    }

    pub fn is_live(&self) -> bool {
        self.0.values().any(Cell::is_live)
    }

    /// True if any element that `shows` accepts is visible.
    pub fn any_shows(&self, shows: impl Fn(&K) -> bool) -> bool {
        self.0.iter().any(|(element, cell)| cell.is_live() && shows(element))
    }

    pub fn has_garbage(&self, rules: &Rules) -> bool {
        self.0.values().any(|cell| cell.has_garbage(rules))
    }

    pub fn collect_garbage(&mut self, rules: &Rules) -> usize {
        let mut dropped = 0;
        self.0.retain(|_, cell| {
            dropped += cell.collect_garbage(rules);
            !cell.is_empty()
        });
        dropped
    }
}

impl<K: Stored + Ord, V: Stored> Stored for Elements<K, V> {
    fn store(&self, out: &mut Vec<u8>) {
        self.0.store(out);
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        BTreeMap::load(from).map(Elements)
    }
}
