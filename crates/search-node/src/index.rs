// SPDX-License-Identifier: BSD-3-Clause
//! One index of a running server: its definition, what is in it, what went wrong.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use braid_base::clock::Ticks;
use braid_base::relocation::Mover;
use braid_keyspace::Entry;
use braid_search::index::{self, Analyser, Index};
use braid_search::schema::FieldId;
use braid_search::words::Synonyms;
use braid_spec::CommandError;
use parking_lot::{Mutex, RwLock};

use crate::arguments::Arguments;
use crate::definition::Definition;
use crate::values::{self, Source, Unfit};
use crate::vectors::VectorStores;

/// Parts of an index: as many changes can go on at once.
const PARTS: u16 = 16;

thread_local! {
    /// Its buffers and stems are kept between documents.
    static ANALYSER: RefCell<Analyser> = RefCell::default();
}

/// What could not be indexed: how often, and the last one.
#[derive(Clone, Debug, Default)]
pub struct Failures {
    pub count: u64,
    pub last: String,
    pub key: Box<[u8]>,
}

impl Failures {
    fn note(&mut self, why: &str, key: &[u8]) {
        self.count += 1;
        self.last = why.to_owned();
        self.key = key.into();
    }
}

/// How far the look at the keys that are there already has come.
#[derive(Debug, Default)]
pub struct Building {
    pub is_running: AtomicBool,
    /// Shards seen, and of how many.
    pub done: AtomicU64,
    pub all: AtomicU64,
}

impl Building {
    /// From 0 to 1.
    pub fn progress(&self) -> f64 {
        let (done, all) = (self.done.load(Relaxed), self.all.load(Relaxed));
        if !self.is_running.load(Relaxed) { 1.0 } else { done as f64 / all.max(1) as f64 }
    }
}

/// How far a walk through an index has come that moves its blocks: words and values first, then the
/// fields of vectors.
#[derive(Clone, Copy, Default)]
pub struct Position {
    stage: usize,
    at: u64,
}

pub struct SearchIndex {
    definition: RwLock<Arc<Definition>>,
    /// The requests that made it: FT.CREATE, FT.ALTER, FT.SYNUPDATE.
    pub requests: Mutex<Vec<Vec<Vec<u8>>>>,
    pub index: Index,
    pub vectors: VectorStores,
    pub synonyms: RwLock<Arc<Synonyms>>,
    pub building: Building,
    /// It is not in the registry any more.
    pub is_dropped: AtomicBool,
    pub uses: AtomicU64,
    /// Queries by dialect.
    pub dialects: [AtomicU64; 4],
    /// Microseconds.
    pub indexing_us: AtomicU64,
    pub failures: Mutex<Failures>,
    pub field_failures: Mutex<Vec<Failures>>,
}

impl SearchIndex {
    pub fn new(definition: Definition, request: Vec<Vec<u8>>) -> SearchIndex {
        let vectors = VectorStores::default();
        definition.vector_fields().for_each(|(id, field)| vectors.add_field(id, field));
        SearchIndex {
            index: Index::new(definition.schema.clone(), PARTS),
            field_failures: Mutex::new(vec![Failures::default(); definition.schema.fields().len()]),
            definition: RwLock::new(Arc::new(definition)),
            requests: Mutex::new(vec![request]),
            vectors,
            synonyms: RwLock::default(),
            building: Building::default(),
            is_dropped: AtomicBool::new(false),
            uses: AtomicU64::new(0),
            dialects: Default::default(),
            indexing_us: AtomicU64::new(0),
            failures: Mutex::default(),
        }
    }

    pub fn definition(&self) -> Arc<Definition> {
        self.definition.read().clone()
    }

    /// Adds fields (FT.ALTER). The caller has the documents looked at again.
    ///
    /// # Errors
    /// What is wrong with a field; nothing is changed then.
    pub fn add_fields(&self, args: &[&[u8]]) -> Result<(), CommandError> {
        let mut definition = Definition::clone(&self.definition());
        definition.add_fields(&mut Arguments::new(args))?;
        definition.vector_fields().for_each(|(id, field)| self.vectors.add_field(id, field));
        self.field_failures.lock().resize(definition.schema.fields().len(), Failures::default());
        self.index.set_schema(definition.schema.clone());
        *self.definition.write() = Arc::new(definition);
        Ok(())
    }

    /// Adds words to a group of synonyms.
    pub fn add_synonyms(&self, group: &str, words: &[&[u8]]) {
        let mut synonyms = Synonyms::clone(&self.synonyms.read());
        synonyms.add(group, words.iter().map(|word| String::from_utf8_lossy(word)));
        *self.synonyms.write() = Arc::new(synonyms);
    }

    /// Moves blocks to better places from a position on until the mover's time is over; returns the
    /// position to continue with.
    pub fn relocate(&self, from: Position, mover: &mut Mover) -> Option<Position> {
        let Position { mut stage, mut at } = from;
        if stage == 0 {
            if let Some(next) = self.index.relocate(at, mover) {
                return Some(Position { stage, at: next });
            }
            (stage, at) = (1, 0);
        }
        loop {
            match self.vectors.relocate(stage - 1, at, mover) {
                (Some(next), _) => return Some(Position { stage, at: next }),
                (None, true) => (stage, at) = (stage + 1, 0),
                (None, false) => return None,
            }
            if mover.is_over() {
                return Some(Position { stage, at });
            }
        }
    }

    /// Counts a query.
    pub fn note_use(&self, dialect: u8) {
        self.uses.fetch_add(1, Relaxed);
        if let Some(dialect) = self.dialects.get(usize::from(dialect).wrapping_sub(1)) {
            dialect.store(1, Relaxed);
        }
    }

    fn part_of(shard: u32) -> u16 {
        (shard % u32::from(PARTS)) as u16
    }

    /// Brings a key that has this value now, or none. The caller holds its shard, and nobody else
    /// brings the same key at this time.
    pub fn bring(&self, shard: u32, key: &[u8], entry: Option<Entry<'_>>, now_ms: i64) {
        // Not a copy of the pointer: all threads would count on one line of memory.
        let definition = self.definition.read();
        if definition.covers(key) {
            let began = Ticks::now();
            self.bring_covered(&definition, shard, key, entry, now_ms);
            self.indexing_us.fetch_add(Ticks::now().nanos_since(began) / 1000, Relaxed);
        }
    }

    fn bring_covered(
        &self,
        definition: &Definition,
        shard: u32,
        key: &[u8],
        entry: Option<Entry<'_>>,
        now_ms: i64,
    ) {
        let source = entry.and_then(|entry| Source::of(entry, definition.is_json));
        let read = source.and_then(|source| values::read(definition, key, &source, now_ms));
        match read {
            None => self.remove(shard, key),
            Some(Err(unfit)) => {
                self.remove(shard, key);
                self.note_failure(&unfit, key);
            }
            Some(Ok(document)) => {
                let given: Vec<(FieldId, index::Value<'_>)> =
                    document.values.iter().map(|(id, value)| (*id, value.borrowed())).collect();
                let values::Document { language, score, .. } = document;
                let new = index::Document { key, score, language, values: &given };
                let part = Self::part_of(shard);
                // A document that does not fit is gone from the index, so its vectors go first.
                let known = if document.vectors.is_empty() { None } else { self.find(part, key) };
                let put = ANALYSER.with_borrow_mut(|analyser| self.index.put(part, &new, analyser));
                match put {
                    Ok(doc) => self.vectors.put(doc, &document.vectors),
                    Err(wrong) => {
                        known.iter().for_each(|doc| self.vectors.remove(*doc));
                        self.note_failure(&Unfit { field: None, why: wrong.to_string() }, key);
                    }
                }
            }
        }
    }

    /// True if a key is a document.
    pub fn has(&self, key: &[u8]) -> bool {
        (0..self.index.parts()).any(|part| self.index.part(part).find(key).is_some())
    }

    fn find(&self, part: u16, key: &[u8]) -> Option<index::DocRef> {
        let of = self.index.part(part);
        of.find(key).map(|doc| index::DocRef { part, doc, generation: of.facts(doc).generation })
    }

    fn remove(&self, shard: u32, key: &[u8]) {
        if let Some(doc) = self.index.remove(Self::part_of(shard), key) {
            self.vectors.remove(doc);
        }
    }

    fn note_failure(&self, unfit: &Unfit, key: &[u8]) {
        self.failures.lock().note(&unfit.why, key);
        if let Some(field) = unfit.field
            && let Some(failures) = self.field_failures.lock().get_mut(usize::from(field))
        {
            failures.note(&unfit.why, key);
        }
    }

    /// The keys of all documents.
    pub fn keys(&self) -> Vec<Box<[u8]>> {
        let mut keys = Vec::new();
        for number in 0..self.index.parts() {
            let part = self.index.part(number);
            keys.extend((0..part.end()).filter(|doc| part.is_live(*doc)).map(|doc| part.key(doc).into()));
        }
        keys
    }
}
