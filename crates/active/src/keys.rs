// SPDX-License-Identifier: BSD-3-Clause
//! All keys of a replica, and those among them that hold garbage: what does not show and can go
//! when all regions know it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Deref;

use crate::cell::{At, CellChange, Sides};
use crate::change::{Change, Kind, SeenAt};
use crate::effect::{Effect, FlushSeen};
use crate::key::Key;
use crate::plain::{Plain, Plains};
use crate::rules::Rules;
use crate::stored::{Stored, load_len, store_len};
use crate::value::Value;
use crate::{Bytes, Name};

/// A database and a name.
pub type KeyId = (u32, Name);

/// The keys of a database. Each is in one of the two places.
#[derive(Clone, Debug, Default)]
struct Database {
    /// Strings that have been written once.
    plain: Plains,
    others: HashMap<Name, Box<Key>>,
}

/// Something of a key to look at.
#[derive(Debug)]
pub enum Look<'k, T> {
    Kept(&'k T),
    /// Made of a plain string.
    Made(T),
}

pub type KeyRef<'k> = Look<'k, Key>;
pub type ValueRef<'k> = Look<'k, Value>;

impl<T> Deref for Look<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Look::Kept(kept) => kept,
            Look::Made(made) => made,
        }
    }
}

impl<'k> KeyRef<'k> {
    /// The value that shows.
    pub fn into_value(self) -> Option<ValueRef<'k>> {
        match self {
            KeyRef::Kept(key) => key.value().map(ValueRef::Kept),
            KeyRef::Made(key) => key.into_value().map(ValueRef::Made),
        }
    }
}

impl Database {
    fn is_empty(&self) -> bool {
        self.plain.len() == 0 && self.others.is_empty()
    }

    fn get(&self, name: &[u8]) -> Option<KeyRef<'_>> {
        match self.plain.get(name) {
            Some(plain) => Some(KeyRef::Made(Key::of_plain(plain))),
            None => self.others.get(name).map(|key| KeyRef::Kept(key)),
        }
    }

    /// Changes a key, which may be a new one, and has it where it belongs then.
    fn change<R>(&mut self, name: &[u8], change: impl FnOnce(&mut Key) -> R) -> R {
        if let Some(key) = self.others.get_mut(name) {
            let result = change(key);
            let plain = key.as_plain().filter(|plain| plain.fits(name));
            if let Some(plain) = plain {
                self.plain.put(name, plain);
            }
            if plain.is_some() || key.is_empty() {
                self.others.remove(name);
            }
            return result;
        }
        let had = self.plain.get(name).map(Key::of_plain);
        let was_plain = had.is_some();
        let mut key = had.unwrap_or_default();
        let result = change(&mut key);
        match key.as_plain().filter(|plain| plain.fits(name)) {
            Some(plain) => self.plain.put(name, plain),
            None => {
                if was_plain {
                    self.plain.remove(name);
                }
                if !key.is_empty() {
                    self.others.insert(name.into(), Box::new(key));
                }
            }
        }
        result
    }

    /// Writes a string where nothing is, or a plain one that the write replaces: the usual case of
    /// [`Database::change`]. False if it is another case; nothing has changed then.
    fn write_plain(&mut self, at: &At, name: &[u8], change: &CellChange<Bytes>) -> bool {
        let CellChange::Put { value, time, seen } = change else { return false };
        let plain = Plain { stamp: at.stamp, time: *time, value };
        let is_usual = seen.is_empty()
            && plain.fits(name)
            && match self.plain.get(name) {
                Some(had) => at.removes(had.stamp),
                None => self.others.is_empty() || !self.others.contains_key(name),
            };
        if is_usual {
            self.plain.put(name, plain);
        }
        is_usual
    }

    fn iter(&self) -> impl Iterator<Item = (&[u8], KeyRef<'_>)> {
        let plain = self.plain.iter().map(|(name, plain)| (name, KeyRef::Made(Key::of_plain(plain))));
        plain.chain(self.others.iter().map(|(name, key)| (&name[..], KeyRef::Kept(key))))
    }

    fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.plain.iter().map(|(name, _)| name).chain(self.others.keys().map(|name| &name[..]))
    }

    fn len(&self) -> usize {
        self.plain.len() + self.others.len()
    }
}

#[derive(Clone, Debug, Default)]
pub struct Keys {
    /// By database.
    all: BTreeMap<u32, Database>,
    /// Keys with garbage, and the number of the change that touched them last.
    garbage: HashMap<KeyId, u64>,
    /// Changes so far.
    pub changes: u64,
    /// Values that were hidden behind others of another type.
    pub type_conflicts: u64,
    /// Values that lost against another region's concurrent write, by their type. Not saved.
    pub conflicts: [u64; Kind::ALL.len()],
}

impl Keys {
    pub fn get(&self, database: u32, name: &[u8]) -> Option<KeyRef<'_>> {
        self.all.get(&database)?.get(name)
    }

    /// Whether a key is a string that has been written once, so that a write sees all of it.
    pub fn is_plain(&self, database: u32, name: &[u8]) -> bool {
        self.all.get(&database).is_some_and(|keys| keys.plain.get(name).is_some())
    }

    /// All keys of all databases, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &[u8], KeyRef<'_>)> {
        self.all.iter().flat_map(|(database, keys)| keys.iter().map(|(name, key)| (*database, name, key)))
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = (u32, &[u8])> {
        self.all.iter().flat_map(|(database, keys)| keys.names().map(|name| (*database, name)))
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
                if let Change::String(change) = change
                    && keys.write_plain(at, name, change)
                {
                    return self.note(*database, name, false);
                }
                let lost_before = at.lost.get();
                let (has_garbage, hidden) = keys.change(name, |key| {
                    let before = key.hidden();
                    (key.apply(at, change.clone()), key.hidden() & !before)
                });
                for kind in Kind::ALL.into_iter().filter(|kind| hidden & kind.bit() != 0) {
                    self.type_conflicts += 1;
                    self.conflicts[kind as usize] += 1;
                }
                if let Some(kind) = change.kind() {
                    self.conflicts[kind as usize] += at.lost.get() - lost_before;
                }
                if keys.is_empty() {
                    self.all.remove(database);
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
        let notes_all = !self.garbage.is_empty();
        let concerned = |number: &u32| database.is_none_or(|database| database == *number);
        for (number, keys) in self.all.iter_mut().filter(|(number, _)| concerned(number)) {
            keys.plain.retain(|name, plain| {
                if notes_all {
                    touched.push(((*number, name.into()), false));
                }
                !at.removes(plain.stamp)
            });
            let others: Vec<Name> = keys.others.keys().cloned().collect();
            for name in others {
                let id = (*number, name);
                let has_garbage = keys.change(&id.1, |key| {
                    key.remove(at, of_keys.get(&id).map_or(&[], |seen| seen));
                    key.has_garbage(at.rules)
                });
                touched.push((id, has_garbage));
            }
        }
        self.end_visit(touched);
    }

    /// After changes of many keys.
    fn end_visit(&mut self, touched: Vec<(KeyId, bool)>) {
        self.all.retain(|_, keys| {
            if keys.others.len() < keys.others.capacity() / 4 {
                keys.others.shrink_to_fit();
            }
            !keys.is_empty()
        });
        self.changes += 1;
        touched.iter().for_each(|((database, name), has_garbage)| self.note(*database, name, *has_garbage));
    }

    pub fn merge(&mut self, theirs: &Keys, sides: &Sides) {
        let none = Database::default();
        let mut touched = Vec::new();
        for number in theirs.all.keys() {
            self.all.entry(*number).or_default();
        }
        for (number, keys) in &mut self.all {
            let others = theirs.all.get(number).unwrap_or(&none);
            // Everything but what both sides have alike.
            let is_same = |name: &[u8]| {
                let mine = keys.plain.get(name);
                mine.is_some() && mine == others.plain.get(name)
            };
            let names: BTreeSet<Name> =
                keys.names().chain(others.names()).filter(|name| !is_same(name)).map(Name::from).collect();
            let no_key = Key::default();
            for name in names {
                let other = others.get(&name);
                let has_garbage = keys.change(&name, |key| {
                    key.merge(other.as_deref().unwrap_or(&no_key), sides);
                    key.has_garbage(sides.rules)
                });
                touched.push(((*number, name), has_garbage));
            }
        }
        self.end_visit(touched);
    }

    /// Drops the garbage of keys that were last touched by a change up to this one.
    pub fn settle(&mut self, up_to: u64, rules: &Rules) {
        let all = &mut self.all;
        self.garbage.retain(|(database, name), number| {
            if *number > up_to {
                return true;
            }
            if let Some(keys) = all.get_mut(database) {
                keys.change(name, |key| key.settle(rules));
                if keys.is_empty() {
                    all.remove(database);
                }
            }
            false
        });
        if self.garbage.len() < self.garbage.capacity() / 4 {
            self.garbage.shrink_to_fit();
        }
    }

    /// Whether a key holds garbage that nobody keeps in mind. Never; tests ask.
    pub fn has_forgotten_garbage(&self, rules: &Rules) -> bool {
        self.iter().any(|(database, name, key)| {
            key.has_garbage(rules) && !self.garbage.contains_key(&(database, name.into()))
        })
    }
}

impl Stored for Keys {
    fn store(&self, out: &mut Vec<u8>) {
        store_len(self.all.values().map(Database::len).sum(), out);
        for (database, keys) in &self.all {
            let store_name = |name: &[u8], out: &mut Vec<u8>| {
                database.store(out);
                store_len(name.len(), out);
                out.extend_from_slice(name);
            };
            for (name, plain) in keys.plain.iter() {
                store_name(name, out);
                Key::store_plain(plain, out);
            }
            for (name, key) in &keys.others {
                store_name(name, out);
                key.store(out);
            }
        }
        store_len(self.garbage.len(), out);
        for ((database, name), number) in &self.garbage {
            database.store(out);
            name.store(out);
            number.store(out);
        }
        self.changes.store(out);
        self.type_conflicts.store(out);
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        let mut all: BTreeMap<u32, Database> = BTreeMap::new();
        for _ in 0..load_len(from)? {
            let (database, name) = (u32::load(from)?, Bytes::load(from)?);
            let loaded = Key::load(from)?;
            all.entry(database).or_default().change(&name, |key| *key = loaded);
        }
        all.retain(|_, keys| !keys.is_empty());
        let garbage = (0..load_len(from)?).map(|_| <(KeyId, u64)>::load(from)).collect::<Option<_>>()?;
        let changes = Stored::load(from)?;
        Some(Keys {
            all,
            garbage,
            changes,
            type_conflicts: Stored::load(from)?,
            conflicts: Default::default(),
        })
    }
}
