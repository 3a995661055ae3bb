// SPDX-License-Identifier: BSD-3-Clause
//! A primary that is cut off from its replicas gives up its lease while they reach etcd: alone in
//! the set it could acknowledge nothing, and nobody else could lead.
//!
//! It does so only if the others, without it, are enough for synchronous writes, and it counts on
//! its lease no more from the moment at which it decides that. The promotion is that of any
//! candidate. It removes the old primary from the set, so each resignation leaves a smaller set,
//! and two members cannot pass the lease to and fro.
//!
//! It must never serve by a lease that it has begun to give up.

use std::collections::BTreeSet;

use crate::member::{Leading, Local, Member};
use crate::record::{Expected, HolderChange, MemberId, Shard, Transaction};

/// Lease times for which it waits until another member leads: one that still hears the primary
/// waits for three before it takes over.
const PATIENCE: u64 = 6;
/// Lease times after which it may resign again when nobody took over.
const PAUSE: u64 = 60;

impl Member {
    /// Decides to resign when members are to be removed from the set. True if that is decided.
    pub(crate) fn resigns(
        &self,
        leading: &mut Leading,
        now_ns: u64,
        local: &Local,
        shard: &Shard,
        stay: &BTreeSet<MemberId>,
    ) -> bool {
        let others = || shard.in_sync.iter().filter(|id| **id != self.id);
        let is_heard = |id: &MemberId| self.is_heard(leading, now_ns, local, id);
        let heard = others().filter(|id| stay.contains(*id) && is_heard(id)).count();
        if local.minimum == 0 || heard >= local.minimum || now_ns < leading.resignation.not_before {
            return false;
        }
        let nodes = self.snapshot.as_ref().map(|snapshot| &snapshot.nodes);
        let record =
            |id: &MemberId| nodes?.get(&id.node).filter(|node| node.run == id.run && !node.is_loading);
        // One that answers, but acknowledges too slowly, would be no better under another primary.
        let is_able = |id: &&MemberId| !(is_heard(id) && local.slow.contains(id));
        let able: Vec<_> = others().filter(is_able).filter_map(record).collect();
        let can_lead = able.iter().any(|node| node.priority > 0);
        if able.len() <= local.minimum || !can_lead {
            return false;
        }
        leading.resignation.since = Some(now_ns);
        true
    }

    /// True while the primary waits for another member to take over.
    pub(crate) fn is_resigned(
        &self,
        leading: &mut Leading,
        now_ns: u64,
        local: &Local,
        shard: &Shard,
    ) -> bool {
        let Some(since) = leading.resignation.since else { return false };
        let others = shard.in_sync.iter().filter(|id| **id != self.id);
        let heard = others.filter(|id| self.is_heard(leading, now_ns, local, id)).count();
        let is_in_vain = now_ns >= since + PATIENCE * self.timing.lease;
        if is_in_vain {
            leading.resignation.not_before = now_ns + PAUSE * self.timing.lease;
        }
        if is_in_vain || heard >= local.minimum {
            leading.resignation.since = None;
        }
        leading.resignation.since.is_some()
    }

    /// Gives up the lease.
    pub(crate) fn resignation(&self, expected: Expected, shard: &Shard) -> Transaction {
        // With the record written anew, a request that executes late no longer matches it: by then
        // this server may have bound its lease again.
        let shard = Some(shard.clone());
        Transaction { expected, needs_no_holder: false, shard, holder: HolderChange::Release }
    }

    /// True if the lease gives no right, since it is being given up.
    pub(crate) fn gives_up(&self, leading: &Leading) -> bool {
        let is_sent = self.pending.as_ref().is_some_and(|pending| pending.releases);
        (leading.resignation.since.is_some() || is_sent) && self.rules.stops_to_resign
    }

    fn is_heard(&self, leading: &Leading, now_ns: u64, local: &Local, id: &MemberId) -> bool {
        let probed = local.follower(id).map_or(0, |follower| follower.probed).max(leading.since);
        now_ns < probed.saturating_add(self.timing.lease * 3 / 8)
    }
}
