// SPDX-License-Identifier: BSD-3-Clause
//! The indexes of a server, as the keyspace, files and commands see them.
//!
//! The keyspace keeps the service ([`Keyspace::documents`]) and tells it of changes while there are
//! indexes. Indexes are made and dropped with the world stopped, so the order of these requests and
//! of changes in the journal is that in which they happened.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};

use braid_base::relocation::Mover;
use braid_clients::attention::LOADING;
use braid_executor::Engine;
use braid_keyspace::documents::{Documents, Requests};
use braid_keyspace::{Entry, Keyspace};
use braid_search::words::Dictionaries;
use parking_lot::{Mutex, RwLock};

use crate::build;
use crate::cursors::Cursors;
use crate::definition::{self, Definition};
use crate::index::{Position, SearchIndex};
use crate::totals::QueryTotals;

/// How names of definitions begin. Sorted so: an alias needs its index.
const INDEX: &[u8] = b"1 index ";
const ALIAS: &[u8] = b"2 alias ";
const DICTIONARY: &[u8] = b"3 dictionary ";

#[derive(Default)]
pub struct Registry {
    pub indexes: BTreeMap<Box<[u8]>, Arc<SearchIndex>>,
    /// Other names, and the names that they stand for.
    pub aliases: BTreeMap<Box<[u8]>, Box<[u8]>>,
    pub dictionaries: Dictionaries,
    /// The names of the dictionaries.
    pub dictionary_names: std::collections::BTreeSet<String>,
}

impl Registry {
    /// An index by its name or an alias.
    pub fn find(&self, name: &[u8]) -> Option<&Arc<SearchIndex>> {
        let real = self.aliases.get(name).map_or(name, |real| real);
        self.indexes.get(name).or_else(|| self.indexes.get(real))
    }
}

/// How far the moving of blocks has come: the name of an index, and a position in it.
type Moved = (Box<[u8]>, Position);

pub struct Service {
    engine: Weak<Engine>,
    pub registry: RwLock<Registry>,
    pub cursors: Mutex<Cursors>,
    pub queries: QueryTotals,
    /// Requests of a dump whose keys are not in place yet.
    staged: Mutex<Option<Requests>>,
    /// How far the moving of blocks has come.
    relocated: Mutex<Moved>,
    /// No dataset was being loaded when a change was last told, and none has been begun since: a
    /// change need not ask the engine.
    is_serving: AtomicBool,
}

/// Gives an engine its service. Call it once, before clients are served and files loaded.
pub fn attach(engine: &Arc<Engine>) {
    let service = Service {
        engine: Arc::downgrade(engine),
        registry: RwLock::default(),
        cursors: Mutex::default(),
        queries: QueryTotals::default(),
        staged: Mutex::default(),
        relocated: Mutex::default(),
        is_serving: AtomicBool::new(false),
    };
    // Set only here.
    let _ = engine.keyspace.documents.set(Arc::new(service));
}

/// The service of an engine.
pub fn of(keyspace: &Keyspace) -> Option<&Service> {
    let documents: &dyn Any = &**keyspace.documents()?;
    documents.downcast_ref()
}

impl Service {
    /// Whether a dataset is being loaded: its keys are looked at when it is in place. Whoever is
    /// told no by mistake has looked at a key once too often.
    fn is_loading(&self) -> bool {
        if self.is_serving.load(Relaxed) {
            return false;
        }
        let is_loading = self.engine.upgrade().is_none_or(|engine| engine.attention.get() & LOADING != 0);
        self.is_serving.store(!is_loading, Relaxed);
        is_loading
    }

    /// Tells the keyspace whether there are indexes.
    pub fn follow_count(&self) {
        if let Some(engine) = self.engine.upgrade() {
            engine.keyspace.set_indexed(!self.registry.read().indexes.is_empty());
        }
    }

    /// Adds an index under its definition's name. The world is stopped.
    pub fn add(&self, index: Arc<SearchIndex>) {
        let name = index.definition().name.clone();
        self.registry.write().indexes.insert(name, index);
        self.follow_count();
    }

    /// Removes an index and its aliases. The world is stopped.
    pub fn drop_index(&self, name: &[u8]) -> Option<Arc<SearchIndex>> {
        let mut registry = self.registry.write();
        let real: Box<[u8]> = registry.find(name)?.definition().name.clone();
        let index = registry.indexes.remove(&real)?;
        registry.aliases.retain(|_, of| *of != real);
        drop(registry);
        index.is_dropped.store(true, Relaxed);
        self.follow_count();
        Some(index)
    }

    /// Looks at all keys for an index in the background.
    pub fn build(&self, indexes: Vec<Arc<SearchIndex>>) {
        build::start(&self.engine, indexes);
    }

    /// Makes what a dump says.
    fn make(&self, requests: Requests) {
        for request in &requests {
            let args: Vec<&[u8]> = request.iter().map(|arg| &arg[..]).collect();
            if let Err(wrong) = self.make_one(&args) {
                log::warn!("A search index in the RDB file is not made: {wrong}");
            }
        }
        self.follow_count();
        self.build(self.registry.read().indexes.values().cloned().collect());
    }

    fn make_one(&self, args: &[&[u8]]) -> Result<(), braid_spec::CommandError> {
        match args {
            [command, name, rest @ ..] if command.eq_ignore_ascii_case(b"FT.CREATE") => {
                let definition = definition::parse(name, rest)?;
                let request = args.iter().map(|arg| arg.to_vec()).collect();
                let index = Arc::new(SearchIndex::new(definition, request));
                self.registry.write().indexes.insert((*name).into(), index);
            }
            [command, name, _, _, fields @ ..] if command.eq_ignore_ascii_case(b"FT.ALTER") => {
                if let Some(index) = self.registry.read().find(name) {
                    index.add_fields(fields)?;
                    index.requests.lock().push(args.iter().map(|arg| arg.to_vec()).collect());
                }
            }
            [command, name, group, words @ ..] if command.eq_ignore_ascii_case(b"FT.SYNUPDATE") => {
                if let Some(index) = self.registry.read().find(name) {
                    index.add_synonyms(&String::from_utf8_lossy(group), words);
                    index.requests.lock().push(args.iter().map(|arg| arg.to_vec()).collect());
                }
            }
            [command, alias, name] if command.eq_ignore_ascii_case(b"FT.ALIASUPDATE") => {
                self.registry.write().aliases.insert((*alias).into(), (*name).into());
            }
            [command, name, words @ ..] if command.eq_ignore_ascii_case(b"FT.DICTADD") => {
                self.registry.write().add_words(&String::from_utf8_lossy(name), words);
            }
            _ => {}
        }
        Ok(())
    }

    fn forget_all(&self) {
        self.is_serving.store(false, Relaxed);
        let before = std::mem::take(&mut *self.registry.write());
        before.indexes.values().for_each(|index| index.is_dropped.store(true, Relaxed));
        *self.cursors.lock() = Cursors::default();
        self.follow_count();
    }
}

impl Registry {
    /// A request with all words of a dictionary.
    fn dictionary_request(&self, command: &[u8], name: &str) -> Vec<Vec<u8>> {
        let words = self.dictionaries.get(name).into_iter().flatten();
        let mut request = vec![command.to_vec(), name.as_bytes().to_vec()];
        request.extend(words.map(|word| word.as_bytes().to_vec()));
        request
    }

    /// Adds words to a dictionary; returns how many are new.
    pub fn add_words(&mut self, name: &str, words: &[&[u8]]) -> usize {
        self.dictionary_names.insert(name.to_owned());
        self.dictionaries.add(name, words.iter().map(|word| String::from_utf8_lossy(word)))
    }

    /// Removes words from a dictionary; returns how many were there.
    pub fn remove_words(&mut self, name: &str, words: &[&[u8]]) -> usize {
        let removed = self.dictionaries.remove(name, words.iter().map(|word| String::from_utf8_lossy(word)));
        if self.dictionaries.get(name).is_none() {
            self.dictionary_names.remove(name);
        }
        removed
    }
}

impl Documents for Service {
    fn changed(&self, shard: u32, key: &[u8], entry: Option<Entry<'_>>, now_ms: i64) {
        if self.is_loading() {
            return;
        }
        for index in self.registry.read().indexes.values() {
            index.bring(shard, key, entry, now_ms);
        }
    }

    fn emptied(&self) {
        self.forget_all();
    }

    fn replaced(&self, loaded: bool) {
        self.is_serving.store(false, Relaxed);
        match self.staged.lock().take() {
            Some(requests) if loaded => self.make(requests),
            _ => self.refill(),
        }
    }

    fn definitions(&self) -> BTreeMap<Vec<u8>, Requests> {
        let registry = self.registry.read();
        let mut all = BTreeMap::new();
        for (name, index) in &registry.indexes {
            all.insert([INDEX, name].concat(), index.requests.lock().clone());
        }
        for (alias, name) in &registry.aliases {
            let request = vec![b"FT.ALIASUPDATE".to_vec(), alias.to_vec(), name.to_vec()];
            all.insert([ALIAS, alias].concat(), vec![request]);
        }
        for name in &registry.dictionary_names {
            let request = registry.dictionary_request(b"FT.DICTADD", name);
            all.insert([DICTIONARY, name.as_bytes()].concat(), vec![request]);
        }
        all
    }

    fn removal(&self, definition: &[u8]) -> Requests {
        let registry = self.registry.read();
        let of = |kind: &[u8]| definition.strip_prefix(kind);
        if let Some(name) = of(INDEX).filter(|name| registry.indexes.contains_key(*name)) {
            return vec![vec![b"FT.DROPINDEX".to_vec(), name.to_vec()]];
        }
        if let Some(alias) = of(ALIAS).filter(|alias| registry.aliases.contains_key(*alias)) {
            return vec![vec![b"FT.ALIASDEL".to_vec(), alias.to_vec()]];
        }
        let name = of(DICTIONARY).map(String::from_utf8_lossy);
        let name = name.filter(|name| registry.dictionary_names.contains(&**name));
        name.map_or_else(Requests::new, |name| vec![registry.dictionary_request(b"FT.DICTDEL", &name)])
    }

    fn relocate(&self, mover: &mut Mover) -> bool {
        let mut place = self.relocated.lock();
        loop {
            let (name, from) = &*place;
            // The next one, if this one has been dropped.
            let index = {
                let registry = self.registry.read();
                let mut rest =
                    registry.indexes.range::<[u8], _>((Bound::Included(&**name), Bound::Unbounded));
                rest.next().map(|(found, index)| (found.clone(), Arc::clone(index)))
            };
            let Some((found, index)) = index else {
                *place = Moved::default();
                return true;
            };
            let from = if found == *name { *from } else { Position::default() };
            match index.relocate(from, mover) {
                Some(next) => {
                    *place = (found, next);
                    return false;
                }
                // No other name is between this one and its longer form.
                None => *place = ([&*found, b"\0"].concat().into(), Position::default()),
            }
            if mover.is_over() {
                return false;
            }
        }
    }

    fn load(&self, requests: Requests, staged: bool) {
        self.is_serving.store(false, Relaxed);
        if staged {
            *self.staged.lock() = Some(requests);
        } else if !requests.is_empty() {
            self.make(requests);
        }
    }
}

impl Service {
    /// The engine; `None` while it is being dropped.
    pub fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.upgrade()
    }

    /// The keys of the database are others now: all indexes begin anew. The world is stopped.
    fn refill(&self) {
        let mut registry = self.registry.write();
        let mut fresh = Vec::new();
        for place in registry.indexes.values_mut() {
            let definition = Definition::clone(&place.definition());
            let requests = place.requests.lock().clone();
            let index = SearchIndex::new(definition, Vec::new());
            *index.requests.lock() = requests;
            *index.synonyms.write() = Arc::clone(&place.synonyms.read());
            place.is_dropped.store(true, Relaxed);
            *place = Arc::new(index);
            fresh.push(Arc::clone(place));
        }
        drop(registry);
        if !fresh.is_empty() {
            self.build(fresh);
        }
    }
}
