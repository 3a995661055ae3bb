// SPDX-License-Identifier: BSD-3-Clause
//! Staging: a new dataset is built next to the current one, which is served meanwhile, and then
//! replaces it atomically.
//!
//! Each database has a staged twin, whose number is the database's own plus the number of
//! databases. Only a load uses such numbers: staged keys neither expire nor are evicted, and no
//! snapshot includes them.

use braid_base::gate::World;

use crate::keyspace::{Flushed, Keyspace};
use crate::table::Table;

impl Keyspace {
    /// Makes room for all staged databases; returns the number of the first one, and the remains
    /// of an earlier load, which the caller frees.
    pub fn begin_staging(&self, world: &World<'_>) -> (u32, Flushed) {
        for shard in self.shards() {
            shard.staged.get_or_init(|| (0..self.databases()).map(|_| Table::default()).collect());
        }
        (self.databases(), self.drop_staged(world))
    }

    /// Replaces the current dataset with the staged one. Returns the old dataset, which the caller
    /// frees.
    pub fn publish_staged(&self, world: &World<'_>) -> Flushed {
        let old = self.flush(world, None);
        for shard in self.shards() {
            for db in 0..self.databases() {
                let staged = shard.table(self.databases() + db);
                if !staged.is_empty() {
                    shard.note_use(db);
                    // SAFETY: the world is stopped.
                    unsafe { shard.table(db).swap(staged) };
                }
            }
        }
        self.due.forget();
        if let Some(documents) = self.documents() {
            documents.replaced(true);
        }
        self.tell_replaced(None);
        old
    }

    /// Removes the staged dataset. Returns it; the caller frees it.
    pub fn drop_staged(&self, _world: &World<'_>) -> Flushed {
        let mut dropped = Flushed::default();
        for shard in self.shards() {
            let Some(staged) = shard.staged.get() else { continue };
            for table in staged {
                if !table.is_empty() {
                    let empty = Table::default();
                    // SAFETY: the world is stopped.
                    unsafe { table.swap(&empty) };
                    dropped.keys += empty.len();
                    dropped.tables.push(empty);
                }
            }
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use braid_base::hash::KeyHasher;

    use super::*;
    use crate::expiry::expire_due;
    use crate::keyspace::Shape;
    use crate::txn::{KeyRef, NOTHING_EXPIRED};
    use crate::{Context, Txn};

    fn add(keyspace: &Keyspace, context: &mut Context, db: u32, name: &[u8]) {
        let keys = [KeyRef { key: name, hash: keyspace.hash(name), write: true }];
        let mut txn = Txn::lock(keyspace, context, db, NOTHING_EXPIRED, &keys);
        assert!(txn.add(name, crate::entry::Value::Integer(1), None, None));
    }

    #[test]
    fn a_staged_dataset_takes_the_place_of_the_present_one() {
        let shape = Shape { shards: 4, databases: 3, threads: 1, threads_max: 1 };
        let keyspace = Keyspace::new(shape, KeyHasher::random());
        let mut context = Context::new(&keyspace, 0);
        add(&keyspace, &mut context, 0, b"old");
        let (first, _) = keyspace.begin_staging(&keyspace.gate.stop_world(None));
        assert_eq!(first, 3);
        for number in 0..100 {
            add(&keyspace, &mut context, first + 2, format!("new{number}").as_bytes());
        }
        assert_eq!((keyspace.len(0).0, keyspace.len(2).0), (1, 0), "the current dataset is unchanged");
        let old = keyspace.publish_staged(&keyspace.gate.stop_world(None));
        assert_eq!(old.keys, 1);
        assert_eq!((keyspace.len(0).0, keyspace.len(2).0), (0, 100));
        assert_eq!(keyspace.drop_staged(&keyspace.gate.stop_world(None)).keys, 0);
        // A key that expires in the staged dataset is found, although no bound was recorded for it.
        keyspace.begin_staging(&keyspace.gate.stop_world(None));
        {
            let keys = [KeyRef { key: b"due", hash: keyspace.hash(b"due"), write: true }];
            let mut txn = Txn::lock(&keyspace, &mut context, first, NOTHING_EXPIRED, &keys);
            assert!(txn.add(b"due", crate::entry::Value::Integer(1), Some(5), None));
        }
        assert_eq!(
            expire_due(&keyspace, &mut context, (0, 1), 10, 100).removed,
            0,
            "staged keys do not expire"
        );
        keyspace.publish_staged(&keyspace.gate.stop_world(None));
        assert_eq!(expire_due(&keyspace, &mut context, (0, 1), 10, 100).removed, 1);
        add(&keyspace, &mut context, first, b"half");
        assert_eq!(keyspace.begin_staging(&keyspace.gate.stop_world(None)).1.keys, 1);
        assert_eq!(keyspace.len(0).0, 0);
    }
}
