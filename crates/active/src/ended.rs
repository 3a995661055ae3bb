// SPDX-License-Identifier: BSD-3-Clause
//! Keys and elements that this server's keyspace has ended because their time has come, and that
//! another region has yet to remove.
//!
//! Exactly one region removes an expired key or element: the one that gave the time. Each keyspace
//! ends it by its own clock, earlier or later than that. Until the removal arrives the shadow has
//! the key and the keyspace does not; the notes here are that difference. Therefore the visible
//! keyspace follows from the shadow and the journal alone, whatever any clock says.
//!
//! A note refers to the time that has passed. It is dropped when the key or element gets another
//! time, which makes it visible again, or is removed, which leaves nothing to hide. Notes are
//! neither saved nor sent: a restarted server fills its keyspace with everything, and the
//! keyspace ends it again.

use std::collections::BTreeMap;

use crate::stamp::Stamp;
use crate::{Bytes, Name};

/// An expiry time in Unix ms, with the stamp of the effect that gave it.
pub(crate) type GivenTime = (Stamp, u64);

/// The ended parts of one key.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct EndedOfKey {
    whole: Option<GivenTime>,
    elements: BTreeMap<Bytes, GivenTime>,
}

impl EndedOfKey {
    /// True if the whole key has been ended.
    pub fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    pub fn has(&self, element: &[u8]) -> bool {
        self.elements.contains_key(element)
    }

    /// The ended elements.
    pub fn elements(&self) -> impl Iterator<Item = &Bytes> {
        self.elements.keys()
    }

    /// Keeps the notes whose times still apply. Returns false if none is left.
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
    /// The ended parts of a key; `None` if there are none.
    pub fn of(&self, database: u32, name: &[u8]) -> Option<&EndedOfKey> {
        self.0.get(&database)?.get(name)
    }

    /// Notes that the keyspace has ended a key, or one of its elements.
    pub fn note(&mut self, database: u32, name: &Name, element: Option<&[u8]>, time: GivenTime) {
        let of_key = self.0.entry(database).or_default().entry(name.clone()).or_default();
        match element {
            None => of_key.whole = Some(time),
            Some(element) => drop(of_key.elements.insert(element.into(), time)),
        }
    }

    /// Reviews the notes of a changed key. `time_of` returns the present time of the key (`None`)
    /// or of an element.
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

    /// The keys with at least one ended part.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn names(&self) -> Vec<(u32, Name)> {
        let of_database = |(database, names): (&u32, &BTreeMap<Name, EndedOfKey>)| {
            names.keys().map(|name| (*database, name.clone())).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of_database).collect()
    }

    /// The ended keys and elements whose time has a stamp that `is_giver` accepts.
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
