// SPDX-License-Identifier: BSD-3-Clause
//! An index as many threads share it.
//!
//! Each part has a lock, and so has the dictionary. A change analyses its document without a lock,
//! counts its terms in the dictionary, changes one part, and takes the terms that the document had
//! before away again. Order of the locks: a part, then the dictionary; never two parts. So changes
//! of documents in different parts do not wait for each other, and a query, which locks one part
//! at a time for reading, stops nobody for longer than one of its slices.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use braid_base::relocation::{Mover, Parts};
use parking_lot::{RwLock, RwLockReadGuard};

use super::dictionary::{Dictionary, Space, TermId};
use super::document::{Analysed, Analyser, Document, ValueError};
use super::part::{Changed, DocRef, Numbered, Part, PartSize};
use crate::schema::Schema;

/// Why a document is not in the index.
pub type PutError = ValueError;

/// Counters over all parts, which scores need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub docs: u64,
    /// The sum of the documents' lengths.
    pub len: u64,
}

#[derive(Debug)]
pub struct Index {
    schema: RwLock<Arc<Schema>>,
    dictionary: RwLock<Dictionary>,
    parts: Box<[RwLock<Part>]>,
    sequence: AtomicU64,
    docs: AtomicU64,
    len: AtomicU64,
}

impl Index {
    /// An empty index in so many parts (1 to 65,535).
    pub fn new(schema: Schema, parts: u16) -> Index {
        Index {
            schema: RwLock::new(Arc::new(schema)),
            dictionary: RwLock::default(),
            parts: (0..parts.max(1)).map(|_| RwLock::default()).collect(),
            sequence: AtomicU64::new(0),
            docs: AtomicU64::new(0),
            len: AtomicU64::new(0),
        }
    }

    pub fn schema(&self) -> Arc<Schema> {
        self.schema.read().clone()
    }

    /// Replaces the schema by one that begins with the same fields. The caller has the documents
    /// put again.
    pub fn set_schema(&self, schema: Schema) {
        *self.schema.write() = Arc::new(schema);
    }

    pub fn parts(&self) -> u16 {
        self.parts.len() as u16
    }

    /// Locks a part for reading. Parts beyond the last are the last.
    pub fn part(&self, part: u16) -> RwLockReadGuard<'_, Part> {
        self.lock_of(part).read()
    }

    fn lock_of(&self, part: u16) -> &RwLock<Part> {
        &self.parts[usize::from(part).min(self.parts.len() - 1)]
    }

    pub fn dictionary(&self) -> RwLockReadGuard<'_, Dictionary> {
        self.dictionary.read()
    }

    pub fn totals(&self) -> Totals {
        Totals { docs: self.docs.load(Relaxed), len: self.len.load(Relaxed) }
    }

    /// Adds or replaces a document. The part is the caller's choice, the same for a key as long as
    /// it is in the index. Calls for one key must not overlap: the caller holds the lock of its
    /// shard.
    ///
    /// # Errors
    ///
    /// If a value does not fit its field. The document is then not in the index.
    pub fn put(
        &self,
        part: u16,
        document: &Document<'_>,
        analyser: &mut Analyser,
    ) -> Result<DocRef, PutError> {
        let entries = match analyser.analyse(&self.schema(), document) {
            Ok(entries) => entries,
            Err(error) => {
                self.remove(part, document.key);
                return Err(error);
            }
        };
        let len = u64::from(entries.len);
        let Some(new) = self.number(entries) else {
            self.remove(part, document.key);
            return Err(ValueError::TooManyTerms);
        };
        let sequence = self.sequence.fetch_add(1, Relaxed);
        let changed = self.lock_of(part).write().put(&new, sequence);
        self.len.fetch_add(len, Relaxed);
        match changed.len_before {
            Some(before) => drop(self.len.fetch_sub(u64::from(before), Relaxed)),
            None => drop(self.docs.fetch_add(1, Relaxed)),
        }
        self.release(&changed.released);
        Ok(DocRef { part, doc: changed.doc, generation: changed.generation })
    }

    /// Removes a document; which one it was, if it was there.
    pub fn remove(&self, part: u16, key: &[u8]) -> Option<DocRef> {
        let Changed { doc, generation, released, len_before } = self.lock_of(part).write().remove(key)?;
        self.len.fetch_sub(u64::from(len_before.unwrap_or(0)), Relaxed);
        self.docs.fetch_sub(1, Relaxed);
        self.release(&released);
        Some(DocRef { part, doc, generation })
    }

    /// Counts a document's terms in the dictionary. `None` if it is full.
    fn number(&self, entries: Analysed) -> Option<Numbered> {
        let mut words: Vec<(TermId, std::ops::Range<usize>)> = Vec::with_capacity(entries.words.len());
        let mut tags: Vec<TermId> = Vec::with_capacity(entries.tags.len());
        let mut unknown_words = Vec::new();
        let mut unknown_tags = Vec::new();
        {
            let dictionary = self.dictionary.read();
            for (text, payload) in &entries.words {
                match dictionary.count_known(Space::WORDS, &entries.texts[text.clone()]) {
                    Some(term) => words.push((term, payload.clone())),
                    None => unknown_words.push((text, payload)),
                }
            }
            for tag in &entries.tags {
                match dictionary.count_known(tag.0, &tag.1) {
                    Some(term) => tags.push(term),
                    None => unknown_tags.push(tag),
                }
            }
        }
        if !unknown_words.is_empty() || !unknown_tags.is_empty() {
            let mut dictionary = self.dictionary.write();
            let mut is_full = false;
            for (text, payload) in unknown_words {
                match dictionary.count(Space::WORDS, &entries.texts[text.clone()]) {
                    Some(term) => words.push((term, payload.clone())),
                    None => is_full = true,
                }
            }
            for (space, text) in unknown_tags {
                match dictionary.count(*space, text) {
                    Some(term) => tags.push(term),
                    None => is_full = true,
                }
            }
            if is_full {
                drop(dictionary);
                self.release(&words.iter().map(|(term, _)| *term).chain(tags).collect::<Vec<_>>());
                return None;
            }
        }
        words.sort_unstable_by_key(|(term, _)| *term);
        tags.sort_unstable();
        Some(Numbered { entries, words, tags })
    }

    fn release(&self, terms: &[TermId]) {
        let mut unused = Vec::new();
        if !terms.is_empty() {
            let dictionary = self.dictionary.read();
            unused.extend(terms.iter().copied().filter(|term| dictionary.discount(*term)));
        }
        if !unused.is_empty() {
            let mut dictionary = self.dictionary.write();
            unused.into_iter().for_each(|term| dictionary.forget(term));
        }
    }

    /// Moves blocks to better places from a position on (0 at first) until the mover's time is
    /// over; returns the position to continue with. What is being read or changed stays.
    pub fn relocate(&self, from: u64, mover: &mut Mover) -> Option<u64> {
        let mut walk = Parts::new(from, mover);
        for part in &self.parts {
            let next = walk.part(|from, mover| part.try_write()?.relocate(from, mover));
            if next.is_some() {
                return next;
            }
        }
        walk.part(|from, mover| self.dictionary.try_write()?.relocate(from, mover))
    }

    /// The memory of all parts, a part at a time, and of the dictionary.
    pub fn size(&self) -> (PartSize, usize) {
        let mut sum = PartSize::default();
        for part in &self.parts {
            let size = part.read().size();
            sum.postings += size.postings;
            sum.tags += size.tags;
            sum.numbers += size.numbers;
            sum.documents += size.documents;
            sum.sortables += size.sortables;
        }
        (sum, self.dictionary.read().heap_bytes())
    }
}
