// SPDX-License-Identifier: BSD-3-Clause
//! All keys of a replica, and those among them that hold garbage: what does not show and can go when
//! all regions know it.

use crate::stored::stored;
use std::collections::BTreeMap;

use crate::Name;
use crate::cell::{At, Sides};
use crate::change::SeenAt;
use crate::effect::{Effect, FlushSeen};
use crate::key::Key;
use crate::rules::Rules;

/// A database and a name.
pub type KeyId = (u32, Name);

#[derive(Clone, Debug, Default)]
pub struct Keys {
    all: BTreeMap<KeyId, Key>,
    /// Keys with garbage, and the number of the change that touched them last.
    garbage: BTreeMap<KeyId, u64>,
    /// Changes so far.
    pub changes: u64,
    /// Values that were hidden behind others of another type.
    pub type_conflicts: u64,
}

impl Keys {
    pub fn get(&self, database: u32, name: &[u8]) -> Option<&Key> {
        self.all.get(&(database, name.into()))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&KeyId, &Key)> {
        self.all.iter()
    }

    pub fn last_database(&self) -> Option<u32> {
        self.all.last_key_value().map(|((database, _), _)| *database)
    }

    pub fn garbage_len(&self) -> usize {
        self.garbage.len()
    }

    fn note(&mut self, id: &KeyId, has_garbage: bool) {
        self.changes += 1;
        if has_garbage {
            self.garbage.insert(id.clone(), self.changes);
        } else if let Some(number) = self.garbage.get_mut(id) {
            // What it holds has to be seen together with this change.
            *number = self.changes;
        }
    }

    pub fn apply(&mut self, at: &At, effect: &Effect) {
        match effect {
            Effect::Key { database, name, change } => {
                let id = (*database, name.clone());
                let key = self.all.entry(id.clone()).or_default();
                let losers = key.losers().count();
                let has_garbage = key.apply(at, change.clone());
                self.type_conflicts += key.losers().count().saturating_sub(losers) as u64;
                if key.is_empty() {
                    self.all.remove(&id);
                }
                self.note(&id, has_garbage);
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
        self.all.retain(|id, key| {
            if database.is_some_and(|number| number != id.0) {
                return true;
            }
            key.remove(at, of_keys.get(id).map_or(&[], |seen| seen));
            touched.push((id.clone(), key.has_garbage(at.rules)));
            !key.is_empty()
        });
        touched.iter().for_each(|(id, has_garbage)| self.note(id, *has_garbage));
    }

    pub fn merge(&mut self, theirs: &Keys, sides: &Sides) {
        let none = Key::default();
        for (id, other) in &theirs.all {
            if !self.all.contains_key(id) {
                let mut key = Key::default();
                key.merge(other, sides);
                if !key.is_empty() {
                    self.all.insert(id.clone(), key);
                }
            } else if let Some(key) = self.all.get_mut(id) {
                key.merge(other, sides);
            }
        }
        let mut touched = Vec::new();
        self.all.retain(|id, key| {
            if !theirs.all.contains_key(id) {
                key.merge(&none, sides);
            }
            touched.push((id.clone(), key.has_garbage(sides.rules)));
            !key.is_empty()
        });
        touched.iter().for_each(|(id, has_garbage)| self.note(id, *has_garbage));
    }

    /// Drops the garbage of keys that were last touched by a change up to this one.
    pub fn settle(&mut self, up_to: u64, rules: &Rules) {
        let keys = &mut self.all;
        self.garbage.retain(|id, number| {
            if *number > up_to {
                return true;
            }
            if let Some(key) = keys.get_mut(id) {
                key.settle(rules);
                if key.is_empty() {
                    keys.remove(id);
                }
            }
            false
        });
    }

    /// Whether a key holds garbage that nobody keeps in mind. Never; tests ask.
    pub fn has_forgotten_garbage(&self, rules: &Rules) -> bool {
        self.all.iter().any(|(id, key)| key.has_garbage(rules) && !self.garbage.contains_key(id))
    }
}

stored!(Keys { all, garbage, changes, type_conflicts });
