// SPDX-License-Identifier: BSD-3-Clause
//! Member expiry times stored outside their collection: KeyDB writes them as notes after the key.
//!
//! They are applied in batches and at the end of the file, once all threads have added the keys
//! before them.

use braid_keyspace::Txn;

/// Number of times set in one batch.
const MANY: usize = 4096;

struct Time {
    db: u32,
    key: Vec<u8>,
    member: Vec<u8>,
    expire_at: i64,
}

/// Expiry times read but not yet set.
#[derive(Default)]
pub(super) struct MemberTimes {
    list: Vec<Time>,
    /// The member whose time comes next.
    member: Option<Vec<u8>>,
}

impl MemberTimes {
    /// Accepts a note that follows key `key` of database `db`. False if it is not a member's
    /// expiry time.
    pub fn note(&mut self, db: u32, key: &[u8], name: &[u8], text: &[u8]) -> bool {
        match name {
            b"keydb-subexpire-key" => self.member = Some(text.to_vec()),
            b"keydb-subexpire-when" => {
                let expire_at = braid_base::number::parse_i64(text);
                match (self.member.take(), expire_at) {
                    (Some(member), Some(expire_at)) => {
                        self.list.push(Time { db, key: key.to_vec(), member, expire_at });
                    }
                    _ => log::warn!("Corrupt subexpire entry in RDB skipping."),
                }
            }
            _ => return false,
        }
        true
    }

    /// True if the times should be set before reading on.
    pub fn are_many(&self) -> bool {
        self.list.len() >= MANY
    }

    /// Sets the times. Members whose time has passed are removed; missing keys and members are
    /// skipped.
    pub fn set_all(&mut self, txn: &mut Txn<'_>) {
        let db = txn.db();
        for time in self.list.drain(..) {
            txn.set_db(time.db);
            set(txn, &time);
        }
        txn.set_db(db);
    }
}

fn set(txn: &mut Txn<'_>, Time { key, member, expire_at, .. }: &Time) {
    let now_ms = txn.now();
    let Some(collection) = txn.write_any(key) else { return };
    collection.set_member_expiry(member, *expire_at, now_ms);
    if collection.is_empty() {
        txn.delete(key);
    } else {
        txn.note_member_expiry(key);
    }
}
