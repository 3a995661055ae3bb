// SPDX-License-Identifier: BSD-3-Clause
//! The keys of a database: plain strings in blocks, all others as whole structures.

use std::collections::hash_map::RandomState;

use crate::Bytes;
use crate::cell::{At, CellChange};
use crate::key::Key;
use crate::look::KeyRef;
use crate::others::Others;
use crate::plain::{Plain, Plains};

/// The keys of a database. Each is in one of the two places.
#[derive(Clone, Debug, Default)]
pub(crate) struct Database {
    /// Strings that have been written once.
    pub plain: Plains,
    pub others: Others,
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

    /// Writes a string where nothing is, or a plain one that the write replaces: the usual case of
    /// [`Database::change`]. False if it is another case; nothing has changed then.
    pub fn write_plain(&mut self, at: &At, name: &[u8], change: &CellChange<Bytes>) -> bool {
        let CellChange::Put { value, time, seen } = change else { return false };
        let plain = Plain { stamp: at.stamp, time: *time, value };
        let is_usual = seen.is_empty()
            && plain.fits(name)
            && match self.plain.get(name) {
                Some(had) => at.removes(had.stamp),
                None => !self.others.has(name),
            };
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
