// SPDX-License-Identifier: BSD-3-Clause
//! The primary's part: how long it may serve, which members replies wait for, and changes to the
//! in-sync set.

use std::collections::BTreeSet;

use crate::confirmed::{is_small, servers};
use crate::held_out::{HeldOut, Why};
use crate::member::{Duty, Follower, Joining, Leading, Local, Member, Orders, Role};
use crate::record::{Base, Expected, HolderChange, MemberId, Shard, Transaction};
use crate::timing::Timing;

/// Records the journal offset from which replies wait for the disk.
fn note_disk_level(leading: &mut Leading, local: &Local) {
    leading.disk = match leading.disk {
        _ if !local.at_disk => None,
        // The offset is known only after the orders have been carried out.
        None => Some(None),
        Some(from) => Some(from.or(Some(local.end))),
    };
}

/// True if a joining member has acknowledged everything from before replies began to wait for it.
fn has_everything(leading: &Leading, joining: &Joining, local: &Local) -> bool {
    // It may have been chosen while acknowledgements from memory were enough.
    let from = joining.from.map(|from| from.max(leading.disk.flatten().unwrap_or(0)));
    let acknowledged = local.follower(&joining.id).map(|follower| follower.acknowledged);
    from.zip(acknowledged).is_some_and(|(from, acknowledged)| acknowledged >= from)
}

impl Member {
    pub(crate) fn lead(&mut self, now_ns: u64, local: &Local, orders: &mut Orders) {
        let Some(shard) = self.known.clone() else { return };
        let Role::Primary(mut leading) = self.role.clone() else { return };
        orders.duty = Duty::Lead { epoch: self.epoch };
        self.choose_joining(&mut leading, now_ns, local, &shard);
        orders.held_out = self.held_out(&leading, now_ns, local, &shard);
        note_disk_level(&mut leading, local);
        let wanted = self.next_change(&mut leading, now_ns, local, &shard);
        let unanswered = self.pending.clone();
        orders.transaction = self.send(now_ns, wanted);
        if orders.transaction.is_some() && unanswered.is_none() && leading.successor.is_some() {
            // The transaction carries the handover now.
            leading.successor = None;
        }
        let known = self.known.as_ref().unwrap_or(&shard);
        orders.size = servers(&known.in_sync);
        // Members that may be in the set, including those added by the transaction just ordered: it
        // may be committed immediately.
        let mut may_be_in_sync: BTreeSet<MemberId> = &known.in_sync | &self.maybe_added();
        let sent = orders.transaction.as_ref().and_then(|transaction| transaction.shard.as_ref());
        may_be_in_sync.extend(sent.into_iter().flat_map(|shard| shard.in_sync.iter().cloned()));
        may_be_in_sync.remove(&self.id);
        let maybe = self.pending.iter().filter_map(|pending| pending.shard.as_ref());
        orders.at_disk = local.at_disk || known.is_on_disk || maybe.chain(sent).any(|shard| shard.is_on_disk);
        let is_leaving = self.is_being_replaced() || sent.is_some_and(|shard| shard.primary != self.id);
        orders.serve_until = if is_leaving && self.rules.stops_for_handover {
            0
        } else {
            self.serves_until(&leading, &may_be_in_sync, local)
        };
        orders.is_resigned = leading.resignation.since.is_some();
        may_be_in_sync.extend(leading.joining.iter().map(|joining| joining.id.clone()));
        orders.required = may_be_in_sync.into_iter().collect();
        self.role = Role::Primary(leading);
    }

    /// Two rights to serve: the lease, and recent answers (within the lease time) from every member
    /// that may be promoted.
    fn serves_until(&self, leading: &Leading, members: &BTreeSet<MemberId>, local: &Local) -> u64 {
        let has_lease = self.is_bound() && !self.gives_up(leading);
        let by_lease = self.lease.filter(|_| has_lease).map_or(0, |lease| lease.until);
        by_lease.max(self.answered_until(members, local))
    }

    /// Chooses a replica to add to the set, and records the journal offset from which replies wait
    /// for it. Gives it up if it keeps them waiting.
    fn choose_joining(&self, leading: &mut Leading, now_ns: u64, local: &Local, shard: &Shard) {
        let first = local.patience.min(self.timing.lease);
        if self.rules.backs_off && first > 0 {
            leading.failures.follow(&shard.in_sync, now_ns, first);
            for one in self.outside(now_ns, local, shard).filter(|one| !one.is_syncing) {
                leading.failures.note_stuck(&one.id.node, now_ns, first);
            }
        }
        if let Some(joining) = &leading.joining
            && !shard.in_sync.contains(&joining.id)
            && self.has_failed(leading, joining, now_ns, local)
        {
            if self.rules.backs_off {
                leading.failures.note(&joining.id.node, Why::Unacknowledged, now_ns, first);
            }
            leading.joining = None;
        }
        match &mut leading.joining {
            Some(joining)
                if shard.in_sync.contains(&joining.id) || !self.is_fresh(&joining.id, now_ns, local) =>
            {
                leading.joining = None;
            }
            // The orders have been carried out since its choice.
            Some(joining) => drop(joining.from.get_or_insert(local.end)),
            None => {
                let is_small = is_small(servers(&shard.in_sync), local.minimum);
                let mut answering = self.outside(now_ns, local, shard);
                let newcomer = answering.find(|follower| {
                    follower.is_syncing
                        && !local.slow.contains(&follower.id)
                        && leading.failures.keeps_out(&follower.id, now_ns, is_small).is_none()
                });
                leading.joining =
                    newcomer.map(|one| Joining { id: one.id.clone(), since: now_ns, from: None });
            }
        }
    }

    /// True if a replica has answered recently.
    fn is_fresh(&self, id: &MemberId, now_ns: u64, local: &Local) -> bool {
        let follower = local.follower(id);
        follower.is_some_and(|follower| now_ns < follower.probed.saturating_add(self.timing.lease / 2))
    }

    /// The replicas that answer and are not in the set.
    fn outside<'a>(
        &'a self,
        now_ns: u64,
        local: &'a Local,
        shard: &'a Shard,
    ) -> impl Iterator<Item = &'a Follower> {
        let is_outside =
            move |one: &&Follower| !shard.in_sync.contains(&one.id) && self.is_fresh(&one.id, now_ns, local);
        local.followers.iter().filter(is_outside)
    }

    /// True if a joining member does not acknowledge in time.
    fn has_failed(&self, leading: &Leading, joining: &Joining, now_ns: u64, local: &Local) -> bool {
        let is_late = now_ns >= joining.since.saturating_add(local.patience);
        let is_behind = is_late && !has_everything(leading, joining, local);
        self.rules.drops_joining && local.patience > 0 && (is_behind || local.slow.contains(&joining.id))
    }

    /// The replicas that answer but are not taken into the set for now, and why.
    fn held_out(&self, leading: &Leading, now_ns: u64, local: &Local, shard: &Shard) -> Vec<HeldOut> {
        let is_small = is_small(servers(&shard.in_sync), local.minimum);
        let held_out = |one: &Follower| {
            let (why, until) = match leading.failures.keeps_out(&one.id, now_ns, is_small) {
                _ if !one.is_syncing => (Why::Disk, None),
                Some((why, until)) => (why, Some(until)),
                None => return None,
            };
            Some(HeldOut { id: one.id.clone(), why, until })
        };
        let is_joining = |id: &MemberId| leading.joining.as_ref().is_some_and(|one| one.id == *id);
        self.outside(now_ns, local, shard).filter(|one| !is_joining(&one.id)).filter_map(held_out).collect()
    }

    /// The next change to the records, if any is due.
    fn next_change(
        &mut self,
        leading: &mut Leading,
        now_ns: u64,
        local: &Local,
        shard: &Shard,
    ) -> Option<Transaction> {
        let snapshot = self.snapshot.as_ref()?;
        let (seen, is_older) = match &snapshot.shard {
            Some(seen) => (Expected::Revision(seen.revision), seen.value.epoch < self.epoch),
            None => (Expected::Absent, true),
        };
        let change = |shard: Option<Shard>, holder: HolderChange, needs_no_holder: bool| {
            Some(Transaction { expected: seen, needs_no_holder, shard, holder })
        };
        if is_older {
            // etcd has lost the record or was restored from a backup. While every member
            // acknowledges this server no other can be the primary, so it writes the record again.
            let others = shard.in_sync.iter().filter(|id| **id != self.id).cloned().collect();
            let is_certain = now_ns < self.answered_until(&others, local);
            let shard = Shard { epoch: self.epoch + 1, ..shard.clone() };
            return change(Some(shard), self.claim(self.epoch + 1), false).filter(|_| is_certain);
        }
        if self.is_resigned(leading, now_ns, local, shard) {
            return self.is_bound().then(|| self.resignation(seen, shard));
        }
        if !self.is_bound() {
            // A holder of an older epoch comes from a backup; this server's own, from a previous
            // lease.
            let holder = snapshot.holder.as_ref();
            let is_void = holder.is_some_and(|holder| holder.epoch < self.epoch || holder.member == self.id);
            return change(None, self.claim(self.epoch), !is_void);
        }
        // The successor may have left the set since the handover was ordered.
        leading.successor.take_if(|successor| !shard.in_sync.contains(successor));
        if let Some(successor) = leading.successor.clone().filter(|_| self.pending.is_none()) {
            let base = Some(Base { history: local.history.clone(), offset: local.offset });
            let shard = Shard {
                epoch: self.epoch + 1,
                primary: successor,
                is_handed_over: true,
                base,
                ..shard.clone()
            };
            return change(Some(shard), HolderChange::Release, false);
        }
        if shard.is_on_disk && !local.at_disk {
            // From now on acknowledgements from memory count. The epoch must change, or
            // acknowledgements by a former process of a member would count as well.
            let epoch = if self.rules.clears_disk_anew { self.epoch + 1 } else { self.epoch };
            let shard = Shard { epoch, is_on_disk: false, is_handed_over: false, ..shard.clone() };
            return change(Some(shard), self.claim(epoch), false);
        }
        let heard =
            |id: &MemberId| local.follower(id).map_or(0, |follower| follower.probed).max(leading.since);
        let mut in_sync = shard.in_sync.clone();
        in_sync.retain(|id| {
            let is_lost = now_ns >= self.timing.acknowledged_right(heard(id)) || local.slow.contains(id);
            *id == self.id || !is_lost
        });
        if in_sync != shard.in_sync && self.resigns(leading, now_ns, local, shard, &in_sync) {
            return Some(self.resignation(seen, shard));
        }
        if in_sync != shard.in_sync {
            let shard = Shard { in_sync, ..shard.clone() };
            if !self.rules.removes_by_transaction {
                self.known = Some(shard.clone());
            }
            return change(Some(shard), HolderChange::Keep, false);
        }
        if !shard.is_on_disk && self.is_all_on_disk(leading, local, shard) {
            return change(Some(Shard { is_on_disk: true, ..shard.clone() }), HolderChange::Keep, false);
        }
        let joining = leading.joining.as_ref()?;
        local.follower(&joining.id)?;
        if has_everything(leading, joining, local) || !self.rules.joins_caught_up {
            in_sync.insert(joining.id.clone());
            return change(Some(Shard { in_sync, ..shard.clone() }), HolderChange::Keep, false);
        }
        None
    }

    /// True if every member of the set has on disk everything acknowledged before replies began to
    /// wait for the disk.
    fn is_all_on_disk(&self, leading: &Leading, local: &Local, shard: &Shard) -> bool {
        let Some(from) = leading.disk.flatten() else { return false };
        let has = |id: &MemberId| local.follower(id).is_some_and(|one| one.acknowledged >= from);
        let others = shard.in_sync.iter().filter(|id| **id != self.id);
        local.synced >= from && others.into_iter().all(has) || !self.rules.waits_for_all_disks
    }

    /// The time until which none of these members can be promoted, by their latest answers.
    /// `u64::MAX` if there are none.
    fn answered_until(&self, members: &BTreeSet<MemberId>, local: &Local) -> u64 {
        // No candidate waits for less than the lease time in the record.
        let lease = self.known.as_ref().map_or(0, |shard| shard.lease).min(self.timing.lease);
        let timing = Timing { lease, ..self.timing };
        let answered = |member: &MemberId| {
            local.follower(member).map_or(0, |follower| timing.acknowledged_right(follower.probed))
        };
        members.iter().map(answered).min().unwrap_or(u64::MAX)
    }
}
