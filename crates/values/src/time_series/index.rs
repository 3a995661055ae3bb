// SPDX-License-Identifier: BSD-3-Clause
//! Which series have a label with a value: for each database that was asked, the keys by label.
//!
//! An index is made by the first query of a database, from all its keys; from then on it is told of
//! each series that comes to a key, and of changed labels, under the key's lock. It is not told
//! when a series goes: what it finds are candidates, which a query looks at under their locks, and
//! whose entry it removes if they are no longer right. So an index lacks no series, and a change of
//! samples costs it nothing.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use braid_base::sync::{self, Mutex};
use braid_keyspace::Keyspace;
use braid_keyspace::ValueRef;
use braid_keyspace::catalogue::Catalogue;
use braid_keyspace::object::ObjectRef;
use braid_keyspace::scan;

use super::Series;

/// Keys that are looked at under one lock while an index is made.
const KEYS_AT_ONCE: usize = 256;

/// The keys of a label and value.
type Keys = HashSet<Arc<[u8]>>;
/// Keys by the values of a label.
type ByValue = HashMap<Box<[u8]>, Keys>;

/// The index of one database.
#[derive(Default)]
struct Index {
    /// All keys have been looked at.
    is_complete: bool,
    /// Labels and values that were added.
    changes: u64,
    by_label: HashMap<Box<[u8]>, ByValue>,
}

impl Index {
    fn add(&mut self, key: &[u8], series: &Series) {
        let key: Arc<[u8]> = key.into();
        for (name, value) in series.labels().iter() {
            let values = match self.by_label.get_mut(name) {
                Some(values) => values,
                None => self.by_label.entry(name.into()).or_default(),
            };
            let keys = match values.get_mut(value) {
                Some(keys) => keys,
                None => values.entry(value.into()).or_default(),
            };
            self.changes += u64::from(keys.insert(Arc::clone(&key)));
        }
    }
}

/// The indexes of all databases.
#[derive(Default)]
pub struct Indexes(Mutex<HashMap<u32, Index>>);

impl Catalogue for Indexes {
    fn placed(&self, db: u32, key: &[u8], object: ObjectRef<'_>) {
        if let Some(series) = object.downcast::<Series>()
            && let Some(index) = sync::lock(&self.0).get_mut(&db)
        {
            index.add(key, series);
        }
    }

    fn replaced(&self, db: Option<u32>) {
        match db {
            Some(db) => drop(sync::lock(&self.0).remove(&db)),
            None => sync::lock(&self.0).clear(),
        }
    }
}

/// A label, and values of it.
pub type Named<'a> = (&'a [u8], &'a [&'a [u8]]);

/// The keys that a query has found.
pub struct Found {
    /// Keys of series that have, or had, the label with one of the values, or any label; in order.
    pub keys: Vec<Box<[u8]>>,
    /// The state of the index; see [`Indexes::is_current`].
    pub changes: u64,
}

impl Indexes {
    /// The indexes of a keyspace.
    pub fn of(keyspace: &Keyspace) -> Option<&Indexes> {
        let catalogue = keyspace.catalogue.get_or_init(|| Arc::new(Indexes::default()));
        (&**catalogue as &dyn std::any::Any).downcast_ref()
    }

    /// The keys with a label of one of these values, or with any. The caller holds no lock, or the
    /// world.
    pub fn find(&self, keyspace: &Keyspace, db: u32, now_ms: i64, named: Option<Named<'_>>) -> Found {
        if !sync::lock(&self.0).entry(db).or_default().is_complete {
            self.complete(keyspace, db, now_ms);
        }
        let indexes = sync::lock(&self.0);
        let index = indexes.get(&db);
        let boxed = |key: &Arc<[u8]>| Box::from(&**key);
        let mut keys: Vec<Box<[u8]>> = match named {
            Some((label, values)) => {
                let by_value = index.and_then(|index| index.by_label.get(label));
                values.iter().filter_map(|value| by_value?.get(*value)).flatten().map(boxed).collect()
            }
            None => {
                let labels = index.into_iter().flat_map(|index| index.by_label.values());
                labels.flat_map(HashMap::values).flatten().map(boxed).collect()
            }
        };
        keys.sort_unstable();
        keys.dedup();
        Found { keys, changes: index.map_or(0, |index| index.changes) }
    }

    /// Looks at all keys; what comes meanwhile is told.
    fn complete(&self, keyspace: &Keyspace, db: u32, now_ms: i64) {
        let mut cursor = 0;
        loop {
            cursor = scan::scan(keyspace, db, cursor, KEYS_AT_ONCE, |entry| {
                if let ValueRef::Object(object) = entry.value()
                    && let Some(series) = object.downcast::<Series>()
                    && !entry.is_expired(now_ms)
                {
                    sync::lock(&self.0).entry(db).or_default().add(entry.key(), series);
                }
            });
            if cursor == 0 {
                break;
            }
        }
        sync::lock(&self.0).entry(db).or_default().is_complete = true;
    }

    /// True if the index has gained nothing since it found something.
    pub fn is_current(&self, db: u32, found: &Found) -> bool {
        sync::lock(&self.0).get(&db).is_some_and(|index| index.is_complete && index.changes == found.changes)
    }

    /// Forgets all labels of these keys, which are in order. Their locks are held.
    pub fn forget_all(&self, db: u32, keys: &[&[u8]]) {
        let mut indexes = sync::lock(&self.0);
        let labels = indexes.get_mut(&db).into_iter().flat_map(|index| index.by_label.values_mut());
        for by_value in labels {
            by_value.retain(|_, with| {
                with.retain(|key| keys.binary_search(&&**key).is_err());
                !with.is_empty()
            });
        }
    }

    /// Forgets that a key has a label with one of these values. Its lock is held.
    pub fn forget(&self, db: u32, key: &[u8], (label, values): Named<'_>) {
        let mut indexes = sync::lock(&self.0);
        let Some(by_value) = indexes.get_mut(&db).and_then(|index| index.by_label.get_mut(label)) else {
            return;
        };
        for value in values {
            if let Some(keys) = by_value.get_mut(*value) {
                keys.remove(key);
                if keys.is_empty() {
                    by_value.remove(*value);
                }
            }
        }
    }
}
