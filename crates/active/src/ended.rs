// SPDX-License-Identifier: BSD-3-Clause
//! What this server's keyspace has ended because its time has come, and another region is to
//! remove.
//!
//! One region removes a key or element whose time has come: the one that gave the time. Keyspaces
//! end it by their own clocks, sooner or later than that. From there on until the removal arrives
//! the shadow has it and the keyspace does not; what is noted here makes up the difference. So what
//! a keyspace shows follows from the shadow and the journal alone, whatever a clock says.
//!
//! A note is about the time that had come. It goes when the key or element gets another one, or is
//! removed: then it shows again, or there is nothing left to hide. Notes are neither saved nor
//! sent. A server that starts fills its keyspace with everything, and that ends it again.

use std::collections::BTreeMap;

use crate::stamp::Stamp;
use crate::{Bytes, Name};

/// A time, with the stamp of who gave it.
pub(crate) type GivenTime = (Stamp, u64);

/// What has been ended of one key.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct EndedOfKey {
    whole: Option<GivenTime>,
    elements: BTreeMap<Bytes, GivenTime>,
}

impl EndedOfKey {
    /// The whole key has been ended.
    pub fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    pub fn has(&self, element: &[u8]) -> bool {
        self.elements.contains_key(element)
    }

    /// Elements that have been ended.
    pub fn elements(&self) -> impl Iterator<Item = &Bytes> {
        self.elements.keys()
    }

    /// Keeps the notes whose times still count. False if there are none.
    fn review(&mut self, time_of: impl Fn(Option<&[u8]>) -> Option<GivenTime>) -> bool {
        self.whole.take_if(|time| time_of(None) != Some(*time));
        self.elements.retain(|element, time| time_of(Some(element)) == Some(*time));
        self.whole.is_some() || !self.elements.is_empty()
    }
}

/// All notes, by database and name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ended(BTreeMap<u32, BTreeMap<Name, EndedOfKey>>);

impl Ended {
    /// What has been ended of a key, if anything has.
    pub fn of(&self, database: u32, name: &[u8]) -> Option<&EndedOfKey> {
        self.0.get(&database)?.get(name)
    }

    /// The keyspace has ended a key, or an element of it.
    pub fn note(&mut self, database: u32, name: &Name, element: Option<&[u8]>, time: GivenTime) {
        let of_key = self.0.entry(database).or_default().entry(name.clone()).or_default();
        match element {
            None => of_key.whole = Some(time),
            Some(element) => drop(of_key.elements.insert(element.into(), time)),
        }
    }

    /// A key has changed: `time_of` says its time, or an element's.
    pub fn review(
        &mut self,
        database: u32,
        name: &[u8],
        time_of: impl Fn(Option<&[u8]>) -> Option<GivenTime>,
    ) {
        let Some(names) = self.0.get_mut(&database) else { return };
        let Some(of_key) = names.get_mut(name) else { return };
        if !of_key.review(time_of) {
            names.remove(name);
            if names.is_empty() {
                self.0.remove(&database);
            }
        }
    }

    /// The keys that something has been ended of.
    pub fn names(&self) -> Vec<(u32, Name)> {
        let of_database = |(database, names): (&u32, &BTreeMap<Name, EndedOfKey>)| {
            names.keys().map(|name| (*database, name.clone())).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of_database).collect()
    }

    /// Keys, and elements of keys, that were ended by a time that someone gave.
    pub fn given_by(&self, is_giver: impl Fn(Stamp) -> bool) -> Vec<(u32, Name, Option<Bytes>)> {
        let mut found = Vec::new();
        for (database, names) in &self.0 {
            for (name, of_key) in names {
                let whole = of_key.whole.iter().map(|(stamp, _)| (*stamp, None));
                let elements =
                    of_key.elements.iter().map(|(element, (stamp, _))| (*stamp, Some(element.clone())));
                let given = whole.chain(elements).filter(|(stamp, _)| is_giver(*stamp));
                found.extend(given.map(|(_, element)| (*database, name.clone(), element)));
            }
        }
        found
    }
}
