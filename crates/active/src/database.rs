// SPDX-License-Identifier: BSD-3-Clause
//! The keys of one database, each where it takes the least memory.

use std::collections::hash_map::RandomState;
use std::ops::Deref;

use crate::Bytes;
use crate::cell::{At, CellChange};
use crate::key::Key;
use crate::others::Others;
use crate::plain::{Plain, Plains};
use crate::stamp::Stamp;
use crate::value::Value;

/// The keys of a database. Each is in one of the two places.
#[derive(Clone, Debug, Default)]
pub struct Database {
    /// Strings that have been written once.
    pub plain: Plains,
    pub others: Others,
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
    pub fn new(hasher: &RandomState) -> Database {
        Database { plain: Plains::new(hasher.clone()), others: Others::new(hasher.clone()) }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn get(&self, name: &[u8]) -> Option<KeyRef<'_>> {
        match self.plain.get(name) {
            Some(plain) => Some(KeyRef::Made(Key::of_plain(plain))),
            None => self.others.get(name).map(KeyRef::Kept),
        }
    }

    /// Changes a key, which may be a new one, and has it where it belongs then.
    pub fn change<R>(&mut self, name: &[u8], change: impl FnOnce(&mut Key) -> R) -> R {
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
                    self.others.insert(name, key);
                }
            }
        }
        result
    }

    /// Whether a write of a string replaces all that there is of a key: nothing, or a plain string
    /// of a stamp that it covers.
    pub fn is_replaced(&self, name: &[u8], covers: impl FnOnce(Stamp) -> bool) -> bool {
        match self.plain.get(name) {
            Some(had) => covers(had.stamp),
            None => !self.others.has(name),
        }
    }

    /// Writes a string where nothing is, or a plain one that the write replaces: the usual case of
    /// [`Database::change`]. False if it is another case; nothing has changed then.
    pub fn write_plain(&mut self, at: &At, name: &[u8], change: &CellChange<Bytes>) -> bool {
        let CellChange::Put { value, time, seen } = change else { return false };
        let plain = Plain { stamp: at.stamp, time: *time, value };
        let is_usual =
            seen.is_empty() && plain.fits(name) && self.is_replaced(name, |stamp| at.removes(stamp));
        if is_usual {
            self.plain.put(name, plain);
        }
        is_usual
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], KeyRef<'_>)> {
        let plain = self.plain.iter().map(|(name, plain)| (name, KeyRef::Made(Key::of_plain(plain))));
        plain.chain(self.others.iter().map(|(name, key)| (name, KeyRef::Kept(key))))
    }

    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.plain.iter().map(|(name, _)| name).chain(self.others.iter().map(|(name, _)| name))
    }

    pub fn len(&self) -> usize {
        self.plain.len() + self.others.len()
    }
}
