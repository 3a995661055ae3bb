// SPDX-License-Identifier: BSD-3-Clause
//! A replica's part: which primary it follows, when it refuses a primary that has lost its lease,
//! and when it takes over.
//!
//! Before its promotion a candidate acknowledges nothing for longer than the lease time. By then
//! the old primary, which may not know that its lease has expired, can no longer rely on this
//! server's acknowledgements either.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::member::{Duty, Local, Member, Orders, Role};
use crate::record::{Base, Expected, MemberId, Offer, Shard, Snapshot, Transaction};
use crate::timing::Timing;

/// Lease times that a replica waits for a primary without a lease while it still hears from it.
const PATIENCE: u64 = 3;
/// Lease times, from its start, that a process with a former one's membership waits for the other
/// members' offers.
const ASKS: u64 = 5;

impl Member {
    pub(crate) fn follow(&mut self, now_ns: u64, local: &Local, orders: &mut Orders) {
        let Some(shard) = self.known.clone() else {
            let wanted = self.founding(now_ns, local);
            orders.transaction = self.send(now_ns, wanted);
            return;
        };
        let wanted = self.candidacy(now_ns, local, &shard, orders);
        orders.transaction = self.send(now_ns, wanted);
        orders.duty = if self.refuses() || shard.primary == self.id {
            Duty::Refuse
        } else {
            Duty::Follow { primary: shard.primary, epoch: self.epoch }
        };
    }

    /// The first record of a new group. Servers with data go before servers without.
    fn founding(&self, now_ns: u64, local: &Local) -> Option<Transaction> {
        let is_new = self.snapshot.as_ref().is_some_and(|snapshot| snapshot.shard.is_none());
        let may = local.has_data || now_ns >= self.started + self.timing.lease;
        (is_new && may && local.priority > 0).then(|| Transaction {
            expected: Expected::Absent,
            needs_no_holder: true,
            shard: Some(Shard {
                epoch: 1,
                primary: self.id.clone(),
                in_sync: [self.id.clone()].into(),
                lease: self.timing.lease,
                is_handed_over: false,
                is_on_disk: false,
                base: Some(Base { history: local.history.clone(), offset: local.offset }),
            }),
            holder: self.claim(1),
        })
    }

    /// Refuses the primary and publishes an offer when the primary's lease is gone. Returns the
    /// promotion when it is this server's turn.
    fn candidacy(
        &mut self,
        now_ns: u64,
        local: &Local,
        shard: &Shard,
        orders: &mut Orders,
    ) -> Option<Transaction> {
        let snapshot = Arc::clone(self.snapshot.as_ref()?);
        let seen = snapshot.shard.as_ref().filter(|seen| seen.value.epoch == self.epoch);
        let is_member = shard.in_sync.contains(&self.id) || !self.rules.promotes_in_sync_only;
        // This server was the only member of the set, so its files hold all that is left.
        let is_heir = shard.in_sync.len() == 1
            && local.has_data
            && shard.primary.node == self.id.node
            && local.previous_run.as_deref() == Some(&*shard.primary.run);
        let is_forced = self.is_forced;
        let has_outcome = self.pending.is_none() || !self.rules.keeps_refusing;
        let Role::Replica(following) = &mut self.role else { return None };
        // After a handover the new primary has not bound its lease yet.
        let leases = if local.hears_primary { PATIENCE } else { u64::from(!following.was_held) };
        let patience = leases * self.timing.lease;
        let is_free = following.free_since.is_some_and(|since| now_ns >= since + patience)
            && snapshot.holder.is_none()
            && seen.is_some();
        let has_everything = local.is_whole || !self.rules.promotes_whole_only;
        let is_wanted = !local.stays_replica || shard.primary.node == self.id.node;
        let may = (is_member || is_heir) && local.priority > 0 && is_wanted || is_forced;
        if !is_free || !may || !has_everything {
            // The primary has its lease again. But a pending promotion that may still be committed
            // relies on this server acknowledging nothing in the meantime.
            following.refuses_since.take_if(|_| has_outcome);
            return None;
        }
        let since = *following.refuses_since.get_or_insert(now_ns);
        orders.offer = Some(Offer {
            run: self.id.run.clone(),
            epoch: self.epoch,
            offset: local.offset,
            priority: local.priority,
        });
        // The old primary's rights last for its own lease time.
        let lease =
            if self.rules.knows_lease { shard.lease.max(self.timing.lease) } else { self.timing.lease };
        let due = Timing { lease, ..self.timing }.waited_out(local.acknowledged);
        let turn = due.max(since) + self.turn(now_ns, since, local, &snapshot, shard);
        let turn = if self.yields(now_ns, local, &snapshot, shard) { u64::MAX } else { turn };
        let has_waited = local.refuses && now_ns >= turn || !self.rules.waits_for_grace;
        let revision = seen?.revision;
        has_waited.then(|| self.promotion(revision, local, shard))
    }

    /// True while a process that continues a former one's membership lets the other members go
    /// first: until all of them have made their offers, and as long as one of them has more. Its
    /// files should have everything acknowledged, but if they are an older copy, it would make the
    /// others discard what it lacks. After a while it leads with what it has, since the others may
    /// not come back.
    fn yields(&self, now_ns: u64, local: &Local, snapshot: &Snapshot, shard: &Shard) -> bool {
        if !self.is_resumed || self.is_forced || now_ns >= self.started + ASKS * self.timing.lease {
            return false;
        }
        let goes_first = |id: &MemberId| {
            let Some(node) = snapshot.nodes.get(&id.node).filter(|node| node.run == id.run) else {
                return true;
            };
            let offer = snapshot.offers.get(&id.node);
            match offer.filter(|offer| offer.run == id.run && offer.epoch == self.epoch) {
                Some(offer) => offer.offset > local.offset,
                // One that never takes over makes no offer.
                None => node.priority > 0,
            }
        };
        shard.in_sync.iter().any(|id| *id != self.id && goes_first(id))
    }

    /// The delay before this server may take over. Better candidates go first.
    fn turn(&self, now_ns: u64, since: u64, local: &Local, snapshot: &Snapshot, shard: &Shard) -> u64 {
        let rank = |offer: &Offer| (offer.priority, Reverse(offer.offset), offer.run.clone());
        let own = (local.priority, Reverse(local.offset), self.id.run.clone());
        let comes_first = |id: &&MemberId| {
            let is_alive =
                snapshot.nodes.get(&id.node).is_some_and(|node| node.run == id.run && node.priority > 0);
            let offer = snapshot.offers.get(&id.node);
            match offer.filter(|offer| offer.run == id.run && offer.epoch == self.epoch) {
                Some(offer) => is_alive && rank(offer) < own,
                // It may not know yet that the primary is gone.
                None => is_alive && now_ns < since + self.timing.lease / 16,
            }
        };
        let others = shard.in_sync.iter().filter(|id| **id != self.id && **id != shard.primary);
        others.filter(comes_first).count() as u64 * (self.timing.lease / 4)
    }

    fn promotion(&self, revision: u64, local: &Local, shard: &Shard) -> Transaction {
        // The other members stay, since each has everything acknowledged. In a forced takeover only
        // this server's data counts.
        let mut in_sync = if self.is_forced { BTreeSet::new() } else { shard.in_sync.clone() };
        in_sync.remove(&shard.primary);
        in_sync.insert(self.id.clone());
        let epoch = self.epoch + 1;
        Transaction {
            expected: if self.rules.compares_record {
                Expected::Revision(revision)
            } else {
                Expected::Anything
            },
            needs_no_holder: self.rules.compares_holder,
            shard: Some(Shard {
                epoch,
                primary: self.id.clone(),
                in_sync,
                lease: self.timing.lease,
                is_handed_over: false,
                // Acknowledgements start over under the new epoch, in memory or on disk.
                is_on_disk: shard.is_on_disk && local.at_disk && !self.is_forced,
                base: Some(Base { history: local.history.clone(), offset: local.offset }),
            }),
            holder: self.claim(epoch),
        }
    }
}
