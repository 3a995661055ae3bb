// SPDX-License-Identifier: BSD-3-Clause
//! Active expiry: removes expired keys and members of collections even if no command touches them.
//!
//! Each table, each segment and each group of shards (`due.rs`) keeps a lower bound on its next
//! expiry; a pass walks only segments with a due key. Collections whose members expire are indexed
//! next to the table (`member_expiry_index.rs`), in order of time. A call examines at most about
//! `budget` entries, and holds each shard's lock only for that shard's part.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use crate::context::Context;
use crate::keyspace::Keyspace;
use crate::table::Table;
use crate::txn::{KeyRef, NOTHING_EXPIRED, Txn};

/// The result of a pass.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Pass {
    /// Keys removed.
    pub removed: usize,
    /// Members of collections removed.
    pub members: usize,
    /// True if everything due has been removed.
    pub complete: bool,
}

/// Removes expired keys from the groups of shards `first, first + step, ...` (`due.rs`), examining
/// about `budget` entries. Each executing thread calls it for its own share.
pub fn expire_due(
    keyspace: &Keyspace,
    context: &mut Context,
    (first, step): (u32, u32),
    now_ms: i64,
    budget: usize,
) -> Pass {
    let mut pass = Pass { complete: true, ..Pass::default() };
    let settings = &keyspace.settings;
    if settings.active_expire_off.load(Relaxed) != 0 || settings.keeps_expired.load(Relaxed) {
        return pass;
    }
    let due = &keyspace.due;
    let groups = due.groups().saturating_sub(first).div_ceil(step);
    if groups == 0 {
        return pass;
    }
    let start = keyspace.sweep.fetch_add(1, Relaxed) as u32 % groups;
    let mut left = budget;
    for turn in 0..groups {
        let group = first + (start + turn) % groups * step;
        if due.of(group) >= now_ms {
            continue;
        }
        for shard in due.shards_of(group).filter(|&shard| !keyspace.is_hidden(shard)) {
            expire_shard(keyspace, context, shard, now_ms, &mut left, &mut pass);
        }
        due.renew(group, |shards| earliest(keyspace, shards));
        if left == 0 && !pass.complete {
            return pass;
        }
    }
    pass
}

/// The earliest bound of these shards' tables.
fn earliest(keyspace: &Keyspace, shards: Range<u32>) -> Option<i64> {
    let tables = shards.flat_map(|shard| keyspace.shard(shard).used_tables());
    tables.flat_map(|(_, table)| [table.next_expiry(), table.next_member_expiry()]).flatten().min()
}

fn expire_shard(
    keyspace: &Keyspace,
    context: &mut Context,
    shard: u32,
    now_ms: i64,
    left: &mut usize,
    pass: &mut Pass,
) {
    for (db, table) in keyspace.shard(shard).used_tables() {
        let keys = table.next_expiry().is_some_and(|at| at < now_ms);
        let members = table.next_member_expiry().is_some_and(|at| at < now_ms);
        if !keys && !members {
            continue;
        }
        if *left == 0 {
            pass.complete = false;
            return;
        }
        if keys {
            let (looked, removed, complete) = expire_table(keyspace, context, shard, db, now_ms, *left);
            *left = left.saturating_sub(looked.max(1));
            pass.removed += removed;
            pass.complete &= complete;
        }
        if members {
            let (looked, removed) = expire_members(keyspace, context, shard, db, now_ms, *left);
            *left = left.saturating_sub(looked);
            pass.members += removed;
            pass.complete &= table.next_member_expiry().is_none_or(|at| at >= now_ms);
        }
    }
}

fn expire_table(
    keyspace: &Keyspace,
    context: &mut Context,
    shard: u32,
    db: u32,
    now_ms: i64,
    budget: usize,
) -> (usize, usize, bool) {
    let mut due = Vec::new();
    let mut txn = Txn::lock_shard_exclusive(keyspace, context, shard, db, now_ms);
    // SAFETY: the shard is held exclusively.
    let (looked, complete) = unsafe { keyspace.shard(shard).table(db).expired(now_ms, budget, &mut due) };
    for entry in &due {
        txn.expire(*entry);
    }
    (looked, due.len(), complete)
}

/// Members removed from one collection before the lock is briefly released and the next collection
/// gets its turn.
const MEMBERS_AT_ONCE: usize = 256;

/// Removes expired members from one shard's collections. Returns the number of collections and
/// members examined, and the number of members removed.
fn expire_members(
    keyspace: &Keyspace,
    context: &mut Context,
    shard: u32,
    db: u32,
    now_ms: i64,
    budget: usize,
) -> (usize, usize) {
    let (mut looked, mut removed) = (0, 0);
    while looked < budget.max(1) {
        let mut txn = Txn::lock_shard_exclusive(keyspace, context, shard, db, now_ms);
        let Some(some) = txn.expire_members(shard, MEMBERS_AT_ONCE) else { break };
        looked += some + 1;
        removed += some;
    }
    (looked, removed)
}

/// A time before which no key and no member expires; `None` if nothing expires.
pub fn next_due(keyspace: &Keyspace) -> Option<i64> {
    keyspace.due.earliest()
}

impl Keyspace {
    /// Lowers the bound of a shard's group after a key or a member of this table was given an
    /// expiry. The caller holds the shard exclusively.
    #[inline]
    pub(crate) fn note_due(&self, shard: u32, table: &Table, at: i64) {
        let at = at.max(1);
        if table.next_expiry() == Some(at) || table.next_member_expiry() == Some(at) {
            self.due.lower(shard, at);
        }
    }

    /// Removes expired keys that were written by this replica's clients: the primary does not know
    /// them. The thread is inside the gate.
    pub fn expire_own(&self, context: &mut Context, now_ms: i64) {
        let mut own = std::mem::take(&mut *self.own_expiring.lock());
        own.retain(|(db, key)| {
            let keys = [KeyRef { key, hash: self.hash(key), write: true }];
            Txn::lock(self, context, *db, NOTHING_EXPIRED, &keys).expire_at(key, now_ms)
        });
        self.own_expiring.lock().extend(own);
    }

    /// Number of keys with an expiry that were written by this replica's clients.
    pub fn own_expiring_keys(&self) -> usize {
        self.own_expiring.lock().len()
    }

    /// Forgets the recorded keys: this server is no longer a replica.
    pub fn forget_own_expiring(&self) {
        self.own_expiring.lock().clear();
    }

    /// Removes one key if it has expired; for keys that a reader found expired.
    pub fn expire_key(&self, context: &mut Context, db: u32, now_ms: i64, key: &[u8]) {
        if self.settings.keeps_expired.load(Relaxed) {
            return;
        }
        let keys = [KeyRef { key, hash: self.hash(key), write: true }];
        let _ = Txn::lock(self, context, db, now_ms, &keys).write(key);
    }
}
