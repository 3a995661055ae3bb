// SPDX-License-Identifier: BSD-3-Clause
//! A part of an index: some of its documents, with all that is known about them.
//!
//! Documents are numbered from 0; a number is kept while its document is replaced, and given away
//! again after it is removed. So sets of numbers stay dense, and replacing a document changes the
//! postings only of the words that differ.
//!
//! A part has no lock of its own and calls nothing outside: see [`super::Index`].

use std::hash::BuildHasher;
use std::ops::{self, ControlFlow};

use braid_base::number::{from_ordered_bits, ordered_bits};
use braid_base::relocation::Mover;
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashTable};

use super::dictionary::TermId;
use super::document::Analysed;
use super::moving::Walk;
use super::ordered::Ordered;
use super::postings::{Nothing, Places, Postings, TagReader, WordReader};
use super::record::Record;
use super::sort::{Column, SortValue};
use crate::query::Range;
use crate::schema::FieldId;

pub type DocId = u32;

/// A document for code that looks at it again later, when another may have its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DocRef {
    pub part: u16,
    pub doc: DocId,
    pub generation: u32,
}

#[derive(Debug, Default)]
struct Doc {
    /// Ascends with each document added or replaced: the order of equal results.
    sequence: u64,
    record: Record,
    len: u32,
    frequency_max: u32,
    score: f32,
    /// Counts the documents that have had this number.
    generation: u32,
}

impl Doc {
    fn is_live(&self) -> bool {
        self.record.heap_bytes() > 0
    }
}

/// What scoring wants to know of a document.
#[derive(Clone, Copy, Debug)]
pub struct DocFacts {
    pub sequence: u64,
    pub len: u32,
    pub frequency_max: u32,
    pub score: f32,
    pub generation: u32,
}

/// Bytes by kind, for FT.INFO.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartSize {
    pub postings: usize,
    pub tags: usize,
    pub numbers: usize,
    pub documents: usize,
    pub sortables: usize,
}

impl PartSize {
    pub fn total(&self) -> usize {
        self.postings + self.tags + self.numbers + self.documents + self.sortables
    }
}

/// A document's entries with the numbers of their terms, ascending.
#[derive(Debug)]
pub struct Numbered {
    pub entries: Analysed,
    pub words: Vec<(TermId, ops::Range<usize>)>,
    pub tags: Vec<TermId>,
}

/// What a change of a part changed.
#[derive(Debug, Default)]
pub struct Changed {
    pub doc: DocId,
    pub generation: u32,
    /// The terms of the document that was there.
    pub released: Vec<TermId>,
    /// The length of the document that was there, if there was one.
    pub len_before: Option<u32>,
}

/// A number as ordered integers, and a document.
type NumberEntry = [u32; 3];

#[derive(Debug, Default)]
pub struct Part {
    docs: Vec<Doc>,
    free: Vec<DocId>,
    by_key: HashTable<DocId>,
    hasher: RandomState,
    words: HashMap<TermId, Postings<Places>, RandomState>,
    tags: HashMap<TermId, Postings<Nothing>, RandomState>,
    numbers: HashMap<FieldId, Ordered<NumberEntry>, RandomState>,
    columns: HashMap<FieldId, Column, RandomState>,
}

fn number_entry(number: f64, doc: DocId) -> NumberEntry {
    let ordered = ordered_bits(number);
    [(ordered >> 32) as u32, ordered as u32, doc]
}

fn number_of(entry: NumberEntry) -> f64 {
    from_ordered_bits(u64::from(entry[0]) << 32 | u64::from(entry[1]))
}

impl Part {
    /// The number of documents.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// All documents have lower numbers.
    pub fn end(&self) -> DocId {
        self.docs.len() as DocId
    }

    pub fn find(&self, key: &[u8]) -> Option<DocId> {
        let is_it = |doc: &DocId| self.docs[*doc as usize].record.key() == key;
        self.by_key.find(self.hasher.hash_one(key), is_it).copied()
    }

    pub fn is_live(&self, doc: DocId) -> bool {
        self.docs.get(doc as usize).is_some_and(Doc::is_live)
    }

    pub fn key(&self, doc: DocId) -> &[u8] {
        self.docs[doc as usize].record.key()
    }

    pub fn facts(&self, doc: DocId) -> DocFacts {
        let Doc { sequence, len, frequency_max, score, generation, .. } = self.docs[doc as usize];
        DocFacts { sequence, len, frequency_max, score, generation }
    }

    /// The document that is meant, if it is still the one.
    pub fn resolve(&self, wanted: DocRef) -> Option<DocId> {
        let doc = self.docs.get(wanted.doc as usize)?;
        (doc.is_live() && doc.generation == wanted.generation).then_some(wanted.doc)
    }

    pub fn word(&self, term: TermId) -> Option<WordReader<'_>> {
        self.words.get(&term).map(Postings::reader)
    }

    pub fn tag(&self, term: TermId) -> Option<TagReader<'_>> {
        self.tags.get(&term).map(Postings::reader)
    }

    /// The numbers between two, both included, with their documents, in the order of the numbers.
    pub fn numbers_between(&self, field: FieldId, min: f64, max: f64) -> impl Iterator<Item = (f64, DocId)> {
        let (first, last) = (number_entry(min, 0), number_entry(max, DocId::MAX));
        let entries = self.numbers.get(&field).map(|entries| entries.iter_from(move |one| *one < first));
        let within = entries.into_iter().flatten().take_while(move |one| *one <= last);
        within.map(|entry| (number_of(entry), entry[2]))
    }

    /// How many numbers are between two.
    pub fn count_between(&self, field: FieldId, min: f64, max: f64) -> usize {
        let (first, last) = (number_entry(min, 0), number_entry(max, DocId::MAX));
        let entries = self.numbers.get(&field);
        entries.map_or(0, |entries| entries.count_between(|one| *one < first, |one| *one <= last))
    }

    /// A field's value if the index has it: sortable ones, and numbers.
    pub fn sort_value(&self, field: FieldId, doc: DocId) -> SortValue {
        if let Some(column) = self.columns.get(&field) {
            return column.get(doc);
        }
        self.docs[doc as usize].record.number(field).map_or(SortValue::None, SortValue::Number)
    }

    /// Whether one of the document's numbers is in a range.
    pub fn has_number(&self, doc: DocId, field: FieldId, range: &Range) -> bool {
        self.docs[doc as usize].record.numbers_of(field).any(|number| range.contains(number))
    }

    /// Adds or replaces a document.
    pub fn put(&mut self, new: &Numbered, sequence: u64) -> Changed {
        let entries = &new.entries;
        let known = self.find(&entries.key);
        let doc = known.unwrap_or_else(|| self.free.pop().unwrap_or_else(|| self.push()));
        let mut changed = Changed { doc, ..Changed::default() };
        let old = std::mem::take(&mut self.docs[doc as usize].record);
        let mut old_numbers = Vec::new();
        if known.is_some() {
            let (words, tags, numbers) = old.terms();
            self.remove_words(doc, &words, |term| new.words.binary_search_by_key(&term, |one| one.0).is_ok());
            self.remove_tags(doc, &tags, |term| new.tags.binary_search(&term).is_ok());
            old_numbers = numbers;
            changed.released = words;
            changed.released.extend(tags);
            changed.len_before = Some(self.docs[doc as usize].len);
        } else {
            let hash = self.hasher.hash_one(&*entries.key);
            let (docs, hasher) = (&self.docs, &self.hasher);
            self.by_key.insert_unique(hash, doc, |one| hasher.hash_one(docs[*one as usize].record.key()));
        }
        self.put_numbers(doc, &old_numbers, &entries.numbers);
        for (term, payload) in &new.words {
            self.put_word(*term, doc, &entries.payloads[payload.clone()], known.is_some());
        }
        for term in &new.tags {
            self.put_tag(*term, doc, known.is_some());
        }
        self.put_sortables(doc, &entries.sort);
        let words = new.words.iter().map(|(term, _)| *term);
        let place = &mut self.docs[doc as usize];
        place.record = Record::new(&entries.key, words, &new.tags, &entries.numbers);
        place.sequence = sequence;
        (place.len, place.frequency_max, place.score) = (entries.len, entries.frequency_max, entries.score);
        changed.generation = place.generation;
        changed
    }

    /// Removes a document, if it is there.
    pub fn remove(&mut self, key: &[u8]) -> Option<Changed> {
        let doc = self.find(key)?;
        if let Ok(entry) = self.by_key.find_entry(self.hasher.hash_one(key), |one| *one == doc) {
            entry.remove();
        }
        let place = &mut self.docs[doc as usize];
        let record = std::mem::take(&mut place.record);
        let generation = place.generation;
        place.generation = generation.wrapping_add(1);
        let len_before = Some(place.len);
        let (words, tags, numbers) = record.terms();
        self.remove_words(doc, &words, |_| false);
        self.remove_tags(doc, &tags, |_| false);
        self.put_numbers(doc, &numbers, &[]);
        self.put_sortables(doc, &[]);
        self.free.push(doc);
        let mut released = words;
        released.extend(tags);
        Some(Changed { doc, generation, released, len_before })
    }

    fn push(&mut self) -> DocId {
        let doc = self.end();
        if self.docs.len() == self.docs.capacity() {
            // By an eighth: doubling would leave half of a large table unused.
            self.docs.reserve_exact(self.docs.len() / 8 + 8);
        }
        self.docs.push(Doc::default());
        doc
    }

    fn put_word(&mut self, term: TermId, doc: DocId, payload: &[u8], replaces: bool) {
        match self.words.get_mut(&term) {
            None => drop(self.words.insert(term, Postings::new(doc, payload))),
            // What has not changed stays.
            Some(postings) => {
                if !replaces || postings.get(doc) != Some(payload) {
                    postings.put(doc, payload);
                }
            }
        }
    }

    fn put_tag(&mut self, term: TermId, doc: DocId, replaces: bool) {
        match self.tags.get_mut(&term) {
            None => drop(self.tags.insert(term, Postings::new(doc, &[]))),
            Some(postings) => {
                if !replaces || postings.get(doc).is_none() {
                    postings.put(doc, &[]);
                }
            }
        }
    }

    fn remove_words(&mut self, doc: DocId, words: &[TermId], stays: impl Fn(TermId) -> bool) {
        for term in words.iter().filter(|term| !stays(**term)) {
            if self.words.get_mut(term).is_some_and(|postings| postings.remove(doc)) {
                self.words.remove(term);
            }
        }
    }

    fn remove_tags(&mut self, doc: DocId, tags: &[TermId], stays: impl Fn(TermId) -> bool) {
        for term in tags.iter().filter(|term| !stays(**term)) {
            if self.tags.get_mut(term).is_some_and(|postings| postings.remove(doc)) {
                self.tags.remove(term);
            }
        }
    }

    fn put_numbers(&mut self, doc: DocId, old: &[(FieldId, f64)], new: &[(FieldId, f64)]) {
        for (field, number) in old.iter().filter(|one| !new.contains(one)) {
            let entry = number_entry(*number, doc);
            if let Some(entries) = self.numbers.get_mut(field) {
                entries.remove(|one| *one < entry, |one| *one == entry);
            }
        }
        for (field, number) in new.iter().filter(|one| !old.contains(one)) {
            let entry = number_entry(*number, doc);
            self.numbers.entry(*field).or_default().insert(entry, |one| *one < entry);
        }
    }

    fn put_sortables(&mut self, doc: DocId, new: &[(FieldId, SortValue)]) {
        self.columns.values_mut().for_each(|column| column.clear(doc));
        for (field, value) in new {
            self.columns.entry(*field).or_insert_with(|| Column::of(value)).set(doc, value);
        }
    }

    /// Moves blocks to better places from number `from` on until the mover's time is over; returns
    /// the number to continue with.
    pub fn relocate(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        self.relocate_all(&mut Walk::new(from, mover)).break_value()
    }

    fn relocate_all(&mut self, walk: &mut Walk<'_>) -> ControlFlow<u64> {
        walk.each(self.docs.iter_mut(), |doc, mover| doc.record.relocate(mover))?;
        walk.each(self.words.values_mut(), Postings::relocate)?;
        walk.each(self.tags.values_mut(), Postings::relocate)?;
        self.numbers.values_mut().try_for_each(|entries| entries.relocate(walk))?;
        self.columns.values_mut().try_for_each(|column| column.relocate(walk))
    }

    /// The memory that the part takes. Looks at every posting and document: for FT.INFO, not for
    /// every change.
    pub fn size(&self) -> PartSize {
        let word_entry = size_of::<(TermId, Postings<Places>)>() + 1;
        let tag_entry = size_of::<(TermId, Postings<Nothing>)>() + 1;
        let words = self.words.values().map(Postings::heap_bytes).sum::<usize>();
        let tags = self.tags.values().map(Postings::heap_bytes).sum::<usize>();
        let records: usize = self.docs.iter().map(|doc| doc.record.heap_bytes()).sum();
        PartSize {
            postings: words + self.words.capacity() * word_entry,
            tags: tags + self.tags.capacity() * tag_entry,
            numbers: self.numbers.values().map(Ordered::heap_bytes).sum(),
            documents: records
                + self.docs.capacity() * size_of::<Doc>()
                + self.by_key.capacity() * (size_of::<DocId>() + 1)
                + self.free.capacity() * size_of::<DocId>(),
            sortables: self.columns.values().map(Column::heap_bytes).sum(),
        }
    }

    /// How many documents words and tags have together, for FT.INFO.
    pub fn records(&self) -> usize {
        self.words.values().map(Postings::docs).sum::<usize>()
            + self.tags.values().map(Postings::docs).sum::<usize>()
            + self.numbers.values().map(Ordered::len).sum::<usize>()
    }
}
