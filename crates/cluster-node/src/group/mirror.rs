// SPDX-License-Identifier: BSD-3-Clause
//! A copy of the records under a group's prefix: read once, and kept up to date by the events of
//! a watch. At each moment it has the records of one revision of etcd.

use std::collections::BTreeMap;

use braid_etcd::{Client, Event, KeyValue, LeaseId};
use braid_group::Snapshot;
use braid_group::cluster::Map;
use braid_group::cluster::shared::{self, Shared};
use braid_group::record::{Keys, Record};

use super::Group;

/// The records at one revision.
#[derive(Default)]
pub(super) struct Mirror {
    records: BTreeMap<Vec<u8>, KeyValue>,
    revision: i64,
}

impl Mirror {
    /// Reads all records.
    ///
    /// # Errors
    /// If etcd cannot be reached or refuses.
    pub fn read(keys: &Keys, client: &Client) -> Result<Mirror, String> {
        let (records, revision) =
            client.get_prefix(keys.prefix().as_bytes()).map_err(|error| error.to_string())?;
        let records = records.into_iter().map(|record| (record.key.clone(), record)).collect();
        Ok(Mirror { records, revision })
    }

    /// Applies changes; those of one revision come together. True if a record has changed.
    pub fn apply(&mut self, events: &[Event]) -> bool {
        // Events of the known or an older revision are included in the records that were read.
        let known = self.revision;
        for event in events.iter().filter(|event| event.mod_revision() > known) {
            match event {
                Event::Put(record) => drop(self.records.insert(record.key.clone(), record.clone())),
                Event::Delete { key, .. } => drop(self.records.remove(key)),
            }
            self.revision = self.revision.max(event.mod_revision());
        }
        self.revision > known
    }

    /// True if etcd has nothing newer for this server's shard.
    ///
    /// # Errors
    /// If etcd cannot be reached or refuses.
    pub fn is_current(&self, keys: &Keys, client: &Client) -> Result<bool, String> {
        for key in [keys.shard(), keys.holder()] {
            let found = client.get(key.as_bytes()).map_err(|error| error.to_string())?;
            let revision = |record: &KeyValue| record.mod_revision;
            if found.as_ref().map(revision) != self.records.get(key.as_bytes()).map(revision) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn all(&self) -> impl Iterator<Item = Record<'_>> + Clone {
        self.records.values().map(|record| Record {
            key: &record.key,
            value: &record.value,
            revision: record.mod_revision.unsigned_abs(),
            lease: record.lease.map_or(0, |LeaseId(id)| id),
        })
    }

    /// The records of this server's shard, the cluster's map if it is in a cluster, and a
    /// description of the records that are not understood.
    ///
    /// # Errors
    /// If one of this shard's own records cannot be parsed.
    pub fn parts(&self, group: &Group, own: &Keys) -> Result<(Snapshot, Option<Map>, String), String> {
        let revision = self.revision.unsigned_abs();
        let (mut snapshot, strange) = own.read(self.all(), revision).map_err(|error| error.to_string())?;
        let map = group.settings.is_cluster.then(|| Map::read(own, self.all(), revision));
        if let Some(map) = &map {
            map.place(&mut snapshot.nodes);
        }
        let strange = strange.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        Ok((snapshot, map, strange))
    }

    /// The records that apply to the whole cluster, and the revision.
    pub fn shared(&self, keys: &Keys) -> (Shared, u64) {
        let (shared, strange) = shared::read(keys, self.all());
        for error in strange {
            log::warn!("{error}");
        }
        (shared, self.revision.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(key: &str, value: &str, mod_revision: i64) -> Event {
        let (key, value) = (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        Event::Put(KeyValue { key, value, create_revision: 1, mod_revision, version: 1, lease: None })
    }

    #[test]
    fn events_bring_it_up_to_date_and_old_ones_do_not_set_it_back() {
        let mut mirror = Mirror { records: BTreeMap::new(), revision: 5 };
        assert!(!mirror.apply(&[put("a", "old", 5)]), "the initial read included the event");
        // One transaction changed both.
        assert!(mirror.apply(&[put("a", "1", 6), put("b", "2", 6)]));
        assert!(!mirror.apply(&[put("a", "old", 4)]));
        let gone = Event::Delete { key: b"b".to_vec(), mod_revision: 8 };
        assert!(mirror.apply(&[put("a", "3", 7), gone]));
        let records: Vec<_> = mirror.all().map(|record| (record.value.to_vec(), record.revision)).collect();
        assert_eq!((records, mirror.revision), (vec![(b"3".to_vec(), 7)], 8));
    }
}
