// SPDX-License-Identifier: BSD-3-Clause
//! Sets of documents.

use crate::index::{DocId, DocRef};

/// Documents of one part. Their numbers are dense, so a bit for each is small.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocBits(Vec<u64>);

impl DocBits {
    pub fn insert(&mut self, doc: DocId) {
        let word = doc as usize / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (doc % 64);
    }

    pub fn contains(&self, doc: DocId) -> bool {
        self.0.get(doc as usize / 64).is_some_and(|word| word >> (doc % 64) & 1 == 1)
    }

    /// The first document from one on.
    pub fn next_from(&self, doc: DocId) -> Option<DocId> {
        let mut word = doc as usize / 64;
        let mut bits = self.0.get(word)? & (u64::MAX << (doc % 64));
        while bits == 0 {
            word += 1;
            bits = *self.0.get(word)?;
        }
        Some(word as DocId * 64 + bits.trailing_zeros())
    }
}

/// Documents of an index, for the vectors' pre-filter.
#[derive(Clone, Debug, Default)]
pub struct DocSet {
    parts: Vec<DocBits>,
    len: usize,
}

impl DocSet {
    pub fn insert(&mut self, part: u16, doc: DocId) {
        let part = usize::from(part);
        if self.parts.len() <= part {
            self.parts.resize(part + 1, DocBits::default());
        }
        if !self.parts[part].contains(doc) {
            self.parts[part].insert(doc);
            self.len += 1;
        }
    }

    pub fn contains(&self, doc: DocRef) -> bool {
        self.parts.get(usize::from(doc.part)).is_some_and(|bits| bits.contains(doc.doc))
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_found_in_order() {
        let mut bits = DocBits::default();
        [3, 64, 200].into_iter().for_each(|doc| bits.insert(doc));
        let found: Vec<_> = [0, 3, 4, 64, 65, 201].map(|doc| bits.next_from(doc)).into();
        assert_eq!(found, [Some(3), Some(3), Some(64), Some(64), Some(200), None]);
        let mut set = DocSet::default();
        set.insert(2, 7);
        set.insert(2, 7);
        assert!(set.contains(DocRef { part: 2, doc: 7, generation: 9 }));
        assert!(!set.contains(DocRef { part: 1, doc: 7, generation: 9 }));
        assert_eq!(set.len(), 1);
    }
}
