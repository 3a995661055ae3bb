// SPDX-License-Identifier: BSD-3-Clause
//! The words and tags of an index, numbered, with how many documents have each.
//!
//! One dictionary serves all parts, so a word is in memory once, its number of documents is known
//! without visiting the parts, and a prefix is expanded once a query. Words are found by hash, and
//! in order for prefixes. Numbers of words without documents are given away again: a number means
//! its word only while the dictionary, or a part that has documents of it, is locked.

use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use braid_base::relocation::Mover;
use foldhash::quality::RandomState;
use hashbrown::HashTable;

use super::moving::Walk;
use super::ordered::Ordered;
use crate::schema::FieldId;

pub type TermId = u32;

/// What a term belongs to. Words of all text fields are one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Space(u16);

impl Space {
    pub const WORDS: Space = Space(0);

    /// A field's tags.
    pub fn tags(field: FieldId) -> Space {
        Space(1 + field)
    }

    /// Its terms are the names of fields: of the documents that lack the field.
    pub const MISSING: Space = Space(u16::MAX);
}

#[derive(Debug)]
struct Term {
    text: Box<str>,
    docs: AtomicU32,
    space: Space,
    used: bool,
}

#[derive(Debug, Default)]
pub struct Dictionary {
    terms: Vec<Term>,
    free: Vec<TermId>,
    by_text: HashTable<TermId>,
    in_order: Ordered<TermId>,
    hasher: RandomState,
    text_bytes: usize,
}

impl Dictionary {
    fn hash(&self, space: Space, text: &str) -> u64 {
        self.hasher.hash_one((space, text))
    }

    pub fn find(&self, space: Space, text: &str) -> Option<TermId> {
        let is_it = |id: &TermId| {
            let term = &self.terms[*id as usize];
            term.space == space && &*term.text == text
        };
        self.by_text.find(self.hash(space, text), is_it).copied()
    }

    /// How many documents have a term.
    pub fn docs(&self, id: TermId) -> u32 {
        self.terms[id as usize].docs.load(Relaxed)
    }

    pub fn text(&self, id: TermId) -> &str {
        &self.terms[id as usize].text
    }

    pub fn len(&self) -> usize {
        self.by_text.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_text.is_empty()
    }

    /// Moves blocks to better places from number `from` on; see [`Walk`].
    pub fn relocate(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        self.relocate_all(&mut Walk::new(from, mover)).break_value()
    }

    fn relocate_all(&mut self, walk: &mut Walk<'_>) -> ControlFlow<u64> {
        walk.each(self.terms.iter_mut(), |term, mover| mover.relocate_text(&mut term.text))?;
        self.in_order.relocate(walk)
    }

    pub fn heap_bytes(&self) -> usize {
        self.text_bytes
            + self.terms.capacity() * size_of::<Term>()
            + self.by_text.capacity() * (size_of::<TermId>() + 1)
            + self.in_order.heap_bytes()
    }

    /// Counts a document of a term if the term is known.
    pub fn count_known(&self, space: Space, text: &str) -> Option<TermId> {
        let id = self.find(space, text)?;
        self.terms[id as usize].docs.fetch_add(1, Relaxed);
        Some(id)
    }

    /// Counts a document of a term.
    ///
    /// Returns `None` if there are too many terms to number.
    pub fn count(&mut self, space: Space, text: &str) -> Option<TermId> {
        if let Some(id) = self.count_known(space, text) {
            return Some(id);
        }
        let term = Term { text: text.into(), docs: AtomicU32::new(1), space, used: true };
        let id = match self.free.pop() {
            Some(id) => {
                self.terms[id as usize] = term;
                id
            }
            None => {
                let id = TermId::try_from(self.terms.len()).ok()?;
                if self.terms.len() == self.terms.capacity() {
                    self.terms.reserve_exact(self.terms.len() / 8 + 16);
                }
                self.terms.push(term);
                id
            }
        };
        self.text_bytes += text.len();
        let Dictionary { terms, hasher, .. } = self;
        let key = |id: &TermId| {
            let term = &terms[*id as usize];
            (term.space, &*term.text)
        };
        let hash = hasher.hash_one((space, text));
        self.by_text.insert_unique(hash, id, |id| hasher.hash_one(key(id)));
        self.in_order.insert(id, |one| key(one) < (space, text));
        Some(id)
    }

    /// Takes a document of a term away; true if none is left, and [`Dictionary::forget`] is due.
    pub fn discount(&self, id: TermId) -> bool {
        self.terms[id as usize].docs.fetch_sub(1, Relaxed) == 1
    }

    /// Removes a term unless it has documents again.
    pub fn forget(&mut self, id: TermId) {
        let term = &self.terms[id as usize];
        if !term.used || term.docs.load(Relaxed) > 0 {
            return;
        }
        let (space, text) = (term.space, term.text.clone());
        let hash = self.hash(space, &text);
        if let Ok(entry) = self.by_text.find_entry(hash, |one| *one == id) {
            entry.remove();
        }
        let Dictionary { terms, in_order, .. } = self;
        let key = |id: &TermId| {
            let term = &terms[*id as usize];
            (term.space, &*term.text)
        };
        in_order.remove(|one| key(one) < (space, &text), |one| *one == id);
        self.text_bytes -= text.len();
        let term = &mut self.terms[id as usize];
        term.used = false;
        term.text = "".into();
        self.free.push(id);
    }

    /// The terms of a space in order, from a text on.
    pub fn terms_from<'a>(
        &'a self,
        space: Space,
        from: &'a str,
    ) -> impl Iterator<Item = (TermId, &'a str)> + 'a {
        let key = |id: &TermId| {
            let term = &self.terms[*id as usize];
            (term.space, &*term.text)
        };
        let found = self.in_order.iter_from(move |one| key(one) < (space, from));
        found
            .map(move |id| (id, &self.terms[id as usize]))
            .take_while(move |(_, term)| term.space == space)
            .map(|(id, term)| (id, &*term.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_found_counted_listed_and_forgotten() {
        let mut dictionary = Dictionary::default();
        let tags = Space::tags(0);
        let ids: Vec<TermId> =
            ["b", "a", "ab", "c"].iter().map(|word| dictionary.count(Space::WORDS, word).unwrap()).collect();
        let tag = dictionary.count(tags, "b").unwrap();
        assert_ne!(tag, ids[0]);
        assert_eq!(dictionary.count(Space::WORDS, "b"), Some(ids[0]));
        assert_eq!((dictionary.docs(ids[0]), dictionary.docs(tag)), (2, 1));
        let texts: Vec<&str> = dictionary.terms_from(Space::WORDS, "ab").map(|(_, text)| text).collect();
        assert_eq!(texts, ["ab", "b", "c"]);

        assert!(!dictionary.discount(ids[0]));
        assert!(dictionary.discount(ids[0]));
        assert_eq!(dictionary.count_known(Space::WORDS, "b"), Some(ids[0]), "counted again in between");
        dictionary.forget(ids[0]);
        assert_eq!(dictionary.find(Space::WORDS, "b"), Some(ids[0]));
        assert!(dictionary.discount(ids[0]));
        dictionary.forget(ids[0]);
        dictionary.forget(ids[0]);
        assert_eq!(dictionary.find(Space::WORDS, "b"), None);
        assert_eq!(dictionary.find(tags, "b"), Some(tag));
        assert_eq!(dictionary.count(tags, "new"), Some(ids[0]), "the number is given away");
        assert_eq!(dictionary.len(), 5);
        assert_eq!(dictionary.terms_from(tags, "").map(|(_, text)| text).collect::<Vec<_>>(), ["b", "new"]);
    }
}
