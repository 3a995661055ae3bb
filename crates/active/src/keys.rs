// SPDX-License-Identifier: BSD-3-Clause
//! All keys of a replica, and those among them that hold garbage: what does not show and can go when
//! all regions know it.

use std::collections::{BTreeMap, HashMap};

use crate::Name;
use crate::cell::{At, Sides};
use crate::change::SeenAt;
use crate::effect::{Effect, FlushSeen};
use crate::key::Key;
use crate::rules::Rules;
use crate::stored::{Stored, load_len, store_len};

/// A database and a name.
pub type KeyId = (u32, Name);

#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// By database.
    all: BTreeMap<u32, HashMap<Name, Key>>,
    /// Keys with garbage, and the number of the change that touched them last.
    garbage: BTreeMap<KeyId, u64>,
    /// Changes so far.
    pub changes: u64,
    /// Values that were hidden behind others of another type.
    pub type_conflicts: u64,
}

impl Keys {
    pub fn get(&self, database: u32, name: &[u8]) -> Option<&Key> {
        self.all.get(&database)?.get(name)
    }

    fn get_mut(&mut self, database: u32, name: &[u8]) -> Option<&mut Key> {
        self.all.get_mut(&database)?.get_mut(name)
    }

    fn remove(&mut self, database: u32, name: &[u8]) {
        if let Some(keys) = self.all.get_mut(&database) {
            keys.remove(name);
            if keys.is_empty() {
                self.all.remove(&database);
            }
        }
    }

    /// All keys of all databases, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Name, &Key)> {
        self.all.iter().flat_map(|(database, keys)| keys.iter().map(|(name, key)| (*database, name, key)))
    }

    pub fn last_database(&self) -> Option<u32> {
        self.all.last_key_value().map(|(database, _)| *database)
    }

    pub fn garbage_len(&self) -> usize {
        self.garbage.len()
    }

    fn note(&mut self, database: u32, name: &Name, has_garbage: bool) {
        self.changes += 1;
        if !has_garbage && self.garbage.is_empty() {
            return;
        }
        let id = (database, name.clone());
        if has_garbage {
            self.garbage.insert(id, self.changes);
        } else if let Some(number) = self.garbage.get_mut(&id) {
            // What it holds has to be seen together with this change.
            *number = self.changes;
        }
    }

    pub fn apply(&mut self, at: &At, effect: &Effect) {
        match effect {
            Effect::Key { database, name, change } => {
                let keys = self.all.entry(*database).or_default();
                let key = match keys.get_mut(&name[..]) {
                    Some(key) => key,
                    None => keys.entry(name.clone()).or_default(),
                };
                let losers = key.losers().count();
                let has_garbage = key.apply(at, change.clone());
                self.type_conflicts += key.losers().count().saturating_sub(losers) as u64;
                if key.is_empty() {
                    self.remove(*database, name);
                }
                self.note(*database, name, has_garbage);
            }
            Effect::Flush { database, seen } => self.flush(at, *database, seen),
        }
    }

    fn flush(&mut self, at: &At, database: Option<u32>, seen: &[FlushSeen]) {
        let mut of_keys: BTreeMap<KeyId, Vec<SeenAt>> = BTreeMap::new();
        for one in seen {
            of_keys.entry((one.database, one.name.clone())).or_default().push(one.at.clone());
        }
        let mut touched = Vec::new();
        let concerned = |number: &u32| database.is_none_or(|database| database == *number);
        for (number, keys) in self.all.iter_mut().filter(|(number, _)| concerned(number)) {
            keys.retain(|name, key| {
                let id = (*number, name.clone());
                key.remove(at, of_keys.get(&id).map_or(&[], |seen| seen));
                touched.push((id, key.has_garbage(at.rules)));
                !key.is_empty()
            });
        }
        self.end_visit(touched);
    }

    /// After changes of many keys.
    fn end_visit(&mut self, touched: Vec<(KeyId, bool)>) {
        self.all.retain(|_, keys| {
            if keys.len() < keys.capacity() / 4 {
                keys.shrink_to_fit();
            }
            !keys.is_empty()
        });
        touched.iter().for_each(|((database, name), has_garbage)| self.note(*database, name, *has_garbage));
    }

    pub fn merge(&mut self, theirs: &Keys, sides: &Sides) {
        let none = Key::default();
        let mut touched = Vec::new();
        for (database, keys) in &mut self.all {
            keys.retain(|name, key| {
                key.merge(theirs.get(*database, name).unwrap_or(&none), sides);
                touched.push(((*database, name.clone()), key.has_garbage(sides.rules)));
                !key.is_empty()
            });
        }
        for (database, name, other) in theirs.iter() {
            // What was here has been merged, and may be gone.
            if self.get(database, name).is_none() {
                let mut key = Key::default();
                key.merge(other, sides);
                if !key.is_empty() {
                    touched.push(((database, name.clone()), key.has_garbage(sides.rules)));
                    self.all.entry(database).or_default().insert(name.clone(), key);
                }
            }
        }
        self.end_visit(touched);
    }

    /// Drops the garbage of keys that were last touched by a change up to this one.
    pub fn settle(&mut self, up_to: u64, rules: &Rules) {
        let mut garbage = std::mem::take(&mut self.garbage);
        garbage.retain(|(database, name), number| {
            if *number > up_to {
                return true;
            }
            if let Some(key) = self.get_mut(*database, name) {
                key.settle(rules);
                if key.is_empty() {
                    self.remove(*database, name);
                }
            }
            false
        });
        self.garbage = garbage;
    }

    /// Whether a key holds garbage that nobody keeps in mind. Never; tests ask.
    pub fn has_forgotten_garbage(&self, rules: &Rules) -> bool {
        self.iter().any(|(database, name, key)| {
            key.has_garbage(rules) && !self.garbage.contains_key(&(database, name.clone()))
        })
    }
}

impl Stored for Keys {
    fn store(&self, out: &mut Vec<u8>) {
        store_len(self.all.values().map(HashMap::len).sum(), out);
        for (database, name, key) in self.iter() {
            database.store(out);
            name.store(out);
            key.store(out);
        }
        self.garbage.store(out);
        self.changes.store(out);
        self.type_conflicts.store(out);
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        let mut all: BTreeMap<u32, HashMap<Name, Key>> = BTreeMap::new();
        for _ in 0..load_len(from)? {
            let (database, name) = (u32::load(from)?, Name::load(from)?);
            all.entry(database).or_default().insert(name, Key::load(from)?);
        }
        let (garbage, changes) = (Stored::load(from)?, Stored::load(from)?);
        Some(Keys { all, garbage, changes, type_conflicts: Stored::load(from)? })
    }
}
