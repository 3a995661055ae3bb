// SPDX-License-Identifier: BSD-3-Clause
//! One server's part in its group, as a state machine.
//!
//! The caller passes in the records it has read ([`Member::observe`]) and the outcomes of
//! transactions and lease requests, and calls [`Member::step`] several times per lease time. The
//! orders tell the server what to do until the next step. Times are the caller's ([`Timing`]).
//!
//! It must never order serving on a right that another server may have by then, or order replies
//! without waiting for a member that may be promoted.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::held_out::{Failures, HeldOut};
use crate::record::{
    Expected, Holder, HolderChange, MemberId, Offer, Shard, Snapshot, Transaction, Versioned,
};
use crate::rules::Rules;
use crate::timing::Timing;

/// A replica, as its primary sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Follower {
    pub id: MemberId,
    /// When the newest probe that it has answered under the present epoch was sent.
    pub probed: u64,
    /// The journal offset that it has acknowledged.
    pub acknowledged: u64,
    /// False if replies wait for the disk and what it receives does not get there.
    pub is_syncing: bool,
}

/// A former process of this server that shut down cleanly: it stopped acknowledging, then saved
/// everything, and the files it left were loaded unchanged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CleanShutdown {
    pub run: Arc<str>,
    /// The last epoch it knew.
    pub epoch: u64,
}

/// The server's local state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Local {
    /// The end of its journal.
    pub end: u64,
    /// Its replication history's ID, and the end of the journal as an offset in that history:
    /// comparable between servers.
    pub history: Arc<str>,
    pub offset: u64,
    /// Its dataset was loaded from files or received from a primary, so it is not a blank server.
    pub has_data: bool,
    /// The dataset is complete: no load or full sync is in progress.
    pub is_whole: bool,
    /// The run of this server's former process, if that process's files are in this server's folder
    /// and were loaded.
    pub previous_run: Option<Arc<str>>,
    /// The run of the former process whose append-only file was loaded: everything it acknowledged
    /// as on disk is there.
    pub run_on_disk: Option<Arc<str>>,
    /// The former process, if it shut down cleanly.
    pub clean_shutdown: Option<CleanShutdown>,
    /// Replies should wait for the disk (`sync-level`).
    pub at_disk: bool,
    /// The journal offset up to which this server's disk has the journal.
    pub synced: u64,
    /// When it last acknowledged anything to a primary, or its start time if it never did.
    pub acknowledged: u64,
    /// It has stopped acknowledging, as ordered ([`Duty::Refuse`]).
    pub refuses: bool,
    /// The primary is heard from over the replication link.
    pub hears_primary: bool,
    pub priority: u32,
    /// It never takes another server's place unless an operator tells it to.
    pub stays_replica: bool,
    /// Its replicas.
    pub followers: Vec<Follower>,
    /// Members that have held up synchronous writes for too long.
    pub slow: Vec<MemberId>,
    /// How long a joining member may take to acknowledge (`sync-timeout`); 0: any time, and no
    /// member is kept out.
    pub patience: u64,
    /// Replicas that synchronous writes need (`min-sync-replicas`).
    pub minimum: usize,
}

/// The server's role.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Duty {
    /// Nothing is known yet: stay a replica without a primary.
    #[default]
    Wait,
    /// Replicate this primary, in this epoch.
    Follow { primary: MemberId, epoch: u64 },
    /// Acknowledge nothing to any primary.
    Refuse,
    /// Be the primary, serving as long as permitted.
    Lead { epoch: u64 },
}

/// Instructions to the server until the next step.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Orders {
    pub duty: Duty,
    /// Members that replies wait for, other than this server.
    pub required: Vec<MemberId>,
    /// Number of servers in the committed in-sync set, this one included.
    pub size: usize,
    /// Replicas that answer but are not taken into the set for now.
    pub held_out: Vec<HeldOut>,
    /// Replies wait until those members and this server have the revealed data on disk.
    pub at_disk: bool,
    /// The time until which it may serve. `u64::MAX`: no limit; 0: not at all.
    pub serve_until: u64,
    /// It has given up its lease, for members in sync that it does not hear.
    pub is_resigned: bool,
    /// To be sent to etcd; its outcome goes to [`Member::on_outcome`].
    pub transaction: Option<Transaction>,
    /// To be written under this server's name unless already there.
    pub offer: Option<Offer>,
}

/// The outcome of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Committed at this revision.
    Committed(u64),
    /// The records did not match the comparison.
    Refused,
    /// Certainly not executed.
    NotSent,
    /// Possibly committed, or still to be.
    Unknown,
}

/// A server's lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lease {
    pub id: i64,
    /// The earliest time at which it may expire.
    pub until: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Replica(Following),
    Primary(Leading),
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Following {
    /// Since when it has refused the primary of its epoch in order to replace it.
    pub refuses_since: Option<u64>,
    /// Since when the primary's lease has had no holder.
    pub free_since: Option<u64>,
    /// The primary of this epoch has held the lease.
    pub was_held: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Leading {
    pub since: u64,
    pub joining: Option<Joining>,
    /// The member that should take over.
    pub successor: Option<MemberId>,
    /// Set while replies should wait for the disk: the end of the journal just after they began to,
    /// once known.
    pub disk: Option<Option<u64>>,
    pub failures: Failures,
    pub resignation: Resignation,
}

/// A primary's resignation ([`crate::resignation`]).
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Resignation {
    /// When it was decided.
    pub since: Option<u64>,
    /// The next one is not decided before that.
    pub not_before: u64,
}

/// A member about to join the in-sync set. Replies already wait for it; it joins once it has
/// everything acknowledged before that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Joining {
    pub id: MemberId,
    /// When it was chosen.
    pub since: u64,
    /// The end of the journal just after replies began to wait for it.
    pub from: Option<u64>,
}

/// A transaction in flight or of unknown outcome: it may be committed, now or later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pending {
    /// The state of the shard's record that it compares.
    pub expected: Expected,
    pub shard: Option<Shard>,
    /// The answer to it, or to the transaction sent to settle it, may still arrive.
    pub in_flight: bool,
    /// The outcome of the transaction itself is unknown.
    pub is_unknown: bool,
    /// It deletes the record of the primary's lease.
    pub releases: bool,
}

/// A server's part in its group.
#[derive(Clone, Debug)]
pub struct Member {
    pub(crate) id: MemberId,
    pub(crate) timing: Timing,
    pub(crate) rules: Rules,
    pub(crate) started: u64,
    /// The newest epoch it knows; 0: none.
    pub(crate) epoch: u64,
    pub(crate) role: Role,
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    /// The shard's record of the present epoch.
    pub(crate) known: Option<Shard>,
    pub(crate) lease: Option<Lease>,
    pub(crate) pending: Option<Pending>,
    /// The newest epoch this process has asked to lead.
    proposed: u64,
    /// An operator has told it to take the primary's place, in the set or not.
    pub(crate) is_forced: bool,
    /// It has been decided whether this process resumes its former process's membership.
    has_name: bool,
    /// It does.
    pub(crate) is_resumed: bool,
}

impl Local {
    /// This server's state of a replica, if it has that replica.
    pub(crate) fn follower(&self, id: &MemberId) -> Option<&Follower> {
        self.followers.iter().find(|follower| follower.id == *id)
    }
}

impl Member {
    pub fn new(id: MemberId, timing: Timing, rules: Rules, now_ns: u64) -> Member {
        Member {
            id,
            timing: Timing { allows_for_drift: rules.allows_for_drift, ..timing },
            rules,
            started: now_ns,
            epoch: 0,
            role: Role::Replica(Following::default()),
            snapshot: None,
            known: None,
            lease: None,
            pending: None,
            proposed: 0,
            is_forced: false,
            has_name: false,
            is_resumed: false,
        }
    }

    /// Decides which member this process is, as soon as the records are known. It resumes its
    /// former process's membership if that member is in the set, left its files here, and
    /// acknowledged nothing that they lack. False while undecided.
    fn resume(&mut self, local: &Local) -> bool {
        let Some(snapshot) = &self.snapshot else { return false };
        let shard = snapshot.shard.as_ref().map(|shard| &shard.value);
        let is_in_files = |shard: &Shard, run: &Arc<str>| {
            let on_disk = local.run_on_disk.as_ref() == Some(run);
            // Files of an earlier epoch may be copies of files that have been used since.
            let shutdown = local.clean_shutdown.as_ref().filter(|shutdown| shutdown.epoch == shard.epoch);
            on_disk && (shard.is_on_disk || !self.rules.resumes_from_disk)
                || shutdown.is_some_and(|shutdown| shutdown.run == *run)
        };
        let runs =
            local.run_on_disk.iter().chain(local.clean_shutdown.as_ref().map(|shutdown| &shutdown.run));
        let mut members = runs.map(|run| MemberId::new(&self.id.node, run));
        let former = shard.and_then(|shard| {
            members.find(|former| shard.in_sync.contains(former) && is_in_files(shard, &former.run))
        });
        if let Some(former) = former {
            let known = snapshot.nodes.get(&former.node);
            if known.is_some_and(|node| node.run == former.run) {
                // Its lease is alive, so the process may be too.
                return false;
            }
            self.id = former;
            self.is_resumed = true;
        }
        self.has_name = true;
        true
    }

    /// This process's member ID; `None` until decided.
    pub fn name(&self) -> Option<&MemberId> {
        self.has_name.then_some(&self.id)
    }

    pub fn id(&self) -> &MemberId {
        &self.id
    }

    /// The records as last observed.
    pub fn snapshot(&self) -> Option<&Arc<Snapshot>> {
        self.snapshot.as_ref()
    }

    /// The newest known record of the shard.
    pub fn shard(&self) -> Option<&Shard> {
        self.known.as_ref()
    }

    pub fn is_primary(&self) -> bool {
        matches!(self.role, Role::Primary(_))
    }

    /// Notes that a lease was granted or kept alive by a request sent at `sent` and answered at
    /// `received`.
    pub fn lease_lives(&mut self, id: i64, sent: u64, received: u64) {
        let from = if self.rules.counts_from_sending { sent } else { received };
        let until = self.timing.lease_right(from);
        match &mut self.lease {
            Some(lease) if lease.id == id => lease.until = lease.until.max(until),
            lease => *lease = Some(Lease { id, until }),
        }
    }

    /// Notes that the lease is gone, with the keys bound to it.
    pub fn lease_lost(&mut self) {
        self.lease = None;
    }

    /// True if the primary record of the present epoch is bound to this server's lease.
    pub(crate) fn is_bound(&self) -> bool {
        let holder = self.snapshot.as_ref().and_then(|snapshot| snapshot.holder.as_ref());
        holder.zip(self.lease).is_some_and(|(holder, lease)| {
            let is_alive = holder.lease == lease.id || !self.rules.binds_lease;
            holder.member == self.id && holder.epoch == self.epoch && is_alive
        })
    }

    /// Takes in the records. Ignores records older than the known ones.
    pub fn observe(&mut self, snapshot: Arc<Snapshot>, now_ns: u64) {
        if self.snapshot.as_ref().is_some_and(|known| known.revision > snapshot.revision) {
            return;
        }
        // The record it compares has changed, so it can no longer be committed. While its answer
        // may still arrive it stays pending, or that answer would be taken for another
        // transaction's.
        let seen =
            snapshot.shard.as_ref().map_or(Expected::Absent, |shard| Expected::Revision(shard.revision));
        if self.pending.as_ref().is_some_and(|pending| !pending.in_flight && pending.expected != seen) {
            self.pending = None;
        }
        if let Some(shard) = &snapshot.shard {
            self.adopt(&shard.value, now_ns);
        }
        if let Role::Replica(following) = &mut self.role {
            following.free_since = match &snapshot.holder {
                Some(holder) => {
                    following.was_held |= holder.epoch == self.epoch;
                    None
                }
                None => following.free_since.or(Some(now_ns)),
            };
        }
        self.snapshot = Some(snapshot);
    }

    /// Discards the observed records: etcd has lost its data or was restored from a backup.
    pub fn forget_records(&mut self) {
        self.snapshot = None;
    }

    fn adopt(&mut self, shard: &Shard, now_ns: u64) {
        if shard.epoch < self.epoch {
            // Stale, from a backup: ignore it.
            return;
        }
        // An epoch that a former process of this member led, or asked to lead, is not resumed but
        // replaced by a new one: answers to that process may still be in flight.
        let is_new = shard.epoch > self.epoch;
        let is_handed = shard.is_handed_over && self.epoch > 0;
        let is_own = if is_new { is_handed || self.proposed == shard.epoch } else { self.is_primary() };
        let leads = shard.primary == self.id && is_own;
        if is_new || leads != self.is_primary() {
            self.is_forced &= self.epoch == 0;
            self.epoch = shard.epoch;
            self.role = if leads {
                Role::Primary(Leading {
                    since: now_ns,
                    joining: None,
                    successor: None,
                    disk: None,
                    failures: Failures::default(),
                    resignation: Resignation::default(),
                })
            } else {
                let refuses_since = self.refuses_since().filter(|_| self.pending.is_some());
                Role::Replica(Following { refuses_since, ..Following::default() })
            };
        }
        self.known = Some(shard.clone());
    }

    pub(crate) fn refuses(&self) -> bool {
        self.refuses_since().is_some()
    }

    fn refuses_since(&self) -> Option<u64> {
        match &self.role {
            Role::Replica(following) => following.refuses_since,
            Role::Primary(_) => None,
        }
    }

    /// Reports the outcome of the last ordered transaction.
    pub fn on_outcome(&mut self, transaction: &Transaction, outcome: Outcome, now_ns: u64) {
        let is_promotion = transaction.shard.as_ref().is_some_and(|shard| shard.epoch > self.epoch);
        let is_kept = if is_promotion && !self.is_primary() {
            self.rules.keeps_refusing
        } else {
            self.rules.requires_unknown
        };
        let Some(pending) = &mut self.pending else { return };
        pending.in_flight = false;
        match outcome {
            Outcome::Committed(revision) => {
                if transaction.shard.is_none() {
                    self.pending = None;
                }
                // Apply the change now rather than wait until it has been read.
                let Some(known) = self.snapshot.as_ref().filter(|known| known.revision < revision) else {
                    return;
                };
                let mut snapshot = Snapshot { revision, ..(**known).clone() };
                if let Some(value) = transaction.shard.clone() {
                    snapshot.shard = Some(Versioned { value, revision });
                }
                match &transaction.holder {
                    HolderChange::Keep => {}
                    HolderChange::Take(holder) => snapshot.holder = Some(holder.clone()),
                    HolderChange::Release => snapshot.holder = None,
                }
                self.observe(Arc::new(snapshot), now_ns);
            }
            // The earlier transaction, whose outcome is unknown, may be the cause: the records will
            // show.
            Outcome::Refused | Outcome::NotSent if pending.is_unknown => {}
            Outcome::Refused | Outcome::NotSent => self.pending = None,
            // At worst it binds the lease of a server that is still the primary.
            Outcome::Unknown if pending.shard.is_none() || !is_kept => self.pending = None,
            Outcome::Unknown => pending.is_unknown = true,
        }
    }

    /// Orders a handover to a member. It must have everything, and writes must wait; the primary
    /// serves nothing until the outcome is known.
    ///
    /// # Errors
    /// Why a handover is impossible: the target is not another member of the in-sync set, or this
    /// server is not the primary.
    pub fn hand_over(&mut self, to: MemberId) -> Result<(), &'static str> {
        let is_in_sync = self.known.as_ref().is_some_and(|shard| shard.in_sync.contains(&to));
        match &mut self.role {
            _ if !is_in_sync || to == self.id => Err("the target is not another member of the in-sync set"),
            Role::Primary(leading) => {
                leading.successor = Some(to);
                Ok(())
            }
            Role::Replica(_) => Err("this server is not the primary"),
        }
    }

    /// Takes the primary's place as soon as its lease has no holder and all its rights have
    /// expired, even if this server is not in the set: the operator has decided that no better
    /// server will come back. The order lapses at the next change of the primary.
    pub fn take_over(&mut self) {
        self.is_forced = !self.is_primary();
    }

    /// True if a transaction that names another primary may be committed.
    pub fn is_being_replaced(&self) -> bool {
        let shard = self.pending.as_ref().and_then(|pending| pending.shard.as_ref());
        shard.is_some_and(|shard| shard.primary != self.id)
    }

    /// The orders at time `now_ns`.
    pub fn step(&mut self, now_ns: u64, local: &Local) -> Orders {
        let mut orders = Orders::default();
        if !self.has_name && !self.resume(local) {
            return orders;
        }
        match self.role {
            Role::Primary(_) => self.lead(now_ns, local, &mut orders),
            Role::Replica(_) => self.follow(now_ns, local, &mut orders),
        }
        if let Some(transaction) = &orders.transaction {
            if let Some(shard) = transaction.shard.as_ref().filter(|shard| shard.primary == self.id) {
                self.proposed = shard.epoch;
            }
            match &mut self.pending {
                // Sent to settle the pending one.
                Some(pending) => pending.in_flight = true,
                pending => {
                    *pending = Some(Pending {
                        expected: transaction.expected,
                        shard: transaction.shard.clone(),
                        in_flight: true,
                        is_unknown: false,
                        releases: transaction.holder == HolderChange::Release,
                    });
                }
            }
        }
        orders
    }

    /// The transaction to send, given the one the server wants to send: none while an answer may
    /// still arrive. While the outcome of a transaction is unknown, one that rewrites the record
    /// unchanged, so that the unknown one can no longer be committed.
    pub(crate) fn send(&self, now_ns: u64, wanted: Option<Transaction>) -> Option<Transaction> {
        if self.lease.is_none_or(|lease| now_ns >= lease.until) {
            return None;
        }
        match &self.pending {
            None => wanted,
            Some(pending) if pending.in_flight => None,
            Some(pending) => Some(Transaction {
                expected: pending.expected,
                needs_no_holder: false,
                shard: Some(self.known.clone()?),
                holder: HolderChange::Keep,
            }),
        }
    }

    /// This server's claim to the primary's lease.
    pub(crate) fn claim(&self, epoch: u64) -> HolderChange {
        let lease = self.lease.map_or(0, |lease| lease.id);
        HolderChange::Take(Holder { epoch, member: self.id.clone(), lease })
    }

    /// Members added to the set by a transaction that may be committed.
    pub(crate) fn maybe_added(&self) -> BTreeSet<MemberId> {
        let shard = self.pending.as_ref().and_then(|pending| pending.shard.as_ref());
        shard.filter(|shard| shard.primary == self.id).map(|shard| shard.in_sync.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: u64 = 2_000;

    fn id(node: &str) -> MemberId {
        MemberId::new(node, "1")
    }

    fn shard(epoch: u64, primary: &str) -> Shard {
        Shard {
            epoch,
            primary: id(primary),
            in_sync: [id("a"), id("b")].into(),
            lease: LEASE,
            is_handed_over: false,
            is_on_disk: false,
            base: None,
        }
    }

    fn records(revision: u64, shard: Option<Shard>, holder: Option<(u64, &str, i64)>) -> Arc<Snapshot> {
        let holder = holder.map(|(epoch, node, lease)| Holder { epoch, member: id(node), lease });
        let shard = shard.map(|value| Versioned { value, revision });
        Arc::new(Snapshot { revision, shard, holder, ..Snapshot::default() })
    }

    /// The primary `a` of epoch 2, whose replica `b` answers.
    fn primary() -> (Member, Local) {
        let mut member = Member::new(id("a"), Timing::new(LEASE), Rules::default(), 0);
        member.lease_lives(7, 0, 0);
        member.observe(records(1, Some(shard(1, "b")), Some((1, "b", 5))), 0);
        let handed = Shard { is_handed_over: true, ..shard(2, "a") };
        member.observe(records(2, Some(handed), Some((2, "a", 7))), 0);
        let follower = Follower { id: id("b"), probed: 0, acknowledged: 0, is_syncing: true };
        let local = Local { priority: 100, is_whole: true, followers: vec![follower], ..Local::default() };
        (member, local)
    }

    #[test]
    fn a_primary_serves_by_its_lease_or_by_its_replicas() {
        let (mut member, mut local) = primary();
        let orders = member.step(0, &local);
        assert_eq!((orders.duty, orders.size, orders.required), (Duty::Lead { epoch: 2 }, 2, vec![id("b")]));
        assert_eq!(orders.serve_until, LEASE, "the replica has answered");
        local.followers[0].probed = 500;
        assert_eq!(member.step(500, &local).serve_until, LEASE + 500);
        local.followers.clear();
        assert_eq!(member.step(600, &local).serve_until, LEASE - LEASE / 20, "the lease, less a margin");
        member.lease_lost();
        assert_eq!(member.step(700, &local).serve_until, 0);
    }

    #[test]
    fn restored_records_are_rewritten_despite_a_foreign_lease() {
        let (mut member, local) = primary();
        member.forget_records();
        member.observe(records(1, Some(shard(1, "b")), Some((1, "b", 5))), 10);
        let transaction = member.step(10, &local).transaction.expect("it repairs the record");
        assert_eq!(
            transaction.shard.as_ref().map(|shard| (shard.epoch, &shard.primary)),
            Some((3, &id("a")))
        );
        assert!(!transaction.needs_no_holder && transaction.expected == Expected::Revision(1));
    }

    #[test]
    fn unknown_outcome_is_resolved_when_the_record_is_missing() {
        let (mut member, mut local) = primary();
        local.slow.push(id("b"));
        let removal = member.step(10, &local).transaction.expect("it removes the slow member");
        member.on_outcome(&removal, Outcome::Unknown, 20);
        local.slow.clear();
        member.forget_records();
        member.observe(records(1, None, None), 30);
        let transaction = member.step(30, &local).transaction.expect("it writes the record again");
        assert_eq!(transaction.expected, Expected::Absent);
        assert_eq!(transaction.shard.map(|shard| (shard.epoch, shard.in_sync.len())), Some((3, 2)));
    }

    #[test]
    fn a_replica_that_is_to_stay_one_takes_over_by_an_operators_word_alone() {
        let mut member = Member::new(id("a"), Timing::new(LEASE), Rules::default(), 0);
        member.observe(records(1, Some(shard(1, "b")), Some((1, "b", 5))), 0);
        let mut local = Local { priority: 100, is_whole: true, stays_replica: true, ..Local::default() };
        member.step(0, &local);
        member.observe(records(2, Some(shard(1, "b")), None), 10);
        let refuses =
            |member: &mut Member, local: &Local| member.step(10 * LEASE, local).duty == Duty::Refuse;
        assert!(!refuses(&mut member, &local));
        member.take_over();
        assert!(refuses(&mut member, &local));
        // It may take back its own place.
        let own = |text: &str| MemberId::new("a", text);
        let mut member = Member::new(own("new"), Timing::new(LEASE), Rules::default(), 0);
        let alone = Shard { primary: own("old"), in_sync: [own("old")].into(), ..shard(1, "a") };
        (local.has_data, local.previous_run) = (true, Some("old".into()));
        member.observe(records(1, Some(alone), None), 0);
        assert!(refuses(&mut member, &local));
    }

    #[test]
    fn cleanly_ended_run_is_resumed_only_under_its_epoch() {
        let resumed = |clean_shutdown: Option<CleanShutdown>, node: Option<&str>| {
            let mut member = Member::new(MemberId::new("a", "2"), Timing::new(LEASE), Rules::default(), 0);
            let mut snapshot = (*records(1, Some(shard(3, "b")), None)).clone();
            if let Some(run) = node {
                snapshot.nodes.insert("a".into(), crate::Node { run: run.into(), ..crate::Node::default() });
            }
            member.observe(Arc::new(snapshot), 0);
            member.step(0, &Local { clean_shutdown, ..Local::default() });
            member.name().map(|name| name.run.to_string())
        };
        let shut_down = |run: &str, epoch| Some(CleanShutdown { run: run.into(), epoch });
        assert_eq!(resumed(shut_down("1", 3), None).as_deref(), Some("1"));
        assert_eq!(resumed(shut_down("1", 3), Some("1")), None, "the run may still be alive");
        assert_eq!(resumed(shut_down("1", 3), Some("other")).as_deref(), Some("1"));
        assert_eq!(resumed(shut_down("1", 2), None).as_deref(), Some("2"), "another member has led since");
        assert_eq!(resumed(shut_down("1", 4), None).as_deref(), Some("2"), "the record is older");
        assert_eq!(
            resumed(shut_down("0", 3), None).as_deref(),
            Some("2"),
            "the run was not in the in-sync set"
        );
        assert_eq!(resumed(None, None).as_deref(), Some("2"));
    }

    /// When a process that continues the member `a` takes over, of a set with `b`, which makes this
    /// offer once it is up.
    fn takes_over_at(offset: Option<u64>, until: u64) -> Option<u64> {
        let mut member = Member::new(MemberId::new("a", "2"), Timing::new(LEASE), Rules::default(), 0);
        let mut local = Local {
            priority: 100,
            is_whole: true,
            offset: 50,
            run_on_disk: Some("1".into()),
            ..Local::default()
        };
        let mut snapshot = (*records(1, Some(Shard { is_on_disk: true, ..shard(3, "b") }), None)).clone();
        if let Some(offset) = offset {
            let node = crate::Node { run: "1".into(), priority: 100, ..crate::Node::default() };
            snapshot.nodes.insert("b".into(), node);
            snapshot.offers.insert("b".into(), Offer { run: "1".into(), epoch: 3, offset, priority: 200 });
        }
        member.observe(Arc::new(snapshot), 0);
        (0..until).step_by(100).find(|&now_ns| {
            member.lease_lives(7, now_ns, now_ns);
            let orders = member.step(now_ns, &local);
            assert_eq!(member.name(), Some(&id("a")));
            local.refuses = orders.duty == Duty::Refuse;
            orders.transaction.is_some()
        })
    }

    #[test]
    fn a_restarted_member_lets_others_with_more_data_go_first() {
        // Nobody else comes back: it leads after five lease times.
        assert_eq!(takes_over_at(None, 7 * LEASE), Some(5 * LEASE));
        // The other one has no more than this one has: the usual time.
        assert!(takes_over_at(Some(50), 7 * LEASE).is_some_and(|at| at < 2 * LEASE));
        // It has more, but does not take over.
        assert_eq!(takes_over_at(Some(51), 7 * LEASE), Some(5 * LEASE));
    }

    #[test]
    fn a_candidate_waits_as_long_as_the_primary_may_count_on_it() {
        let mut member = Member::new(id("a"), Timing::new(LEASE), Rules::default(), 0);
        member.lease_lives(7, 0, 0);
        let longer = Shard { lease: 2 * LEASE, ..shard(1, "b") };
        member.observe(records(1, Some(longer.clone()), Some((1, "b", 5))), 0);
        let mut local = Local { priority: 100, is_whole: true, acknowledged: 100, ..Local::default() };
        assert_eq!(member.step(150, &local).duty, Duty::Follow { primary: id("b"), epoch: 1 });
        member.observe(records(2, Some(longer), None), 200);
        assert_eq!(member.step(200, &local).duty, Duty::Refuse);
        local.refuses = true;
        let mut promoted = None;
        for now_ns in (200..10_000).step_by(10) {
            member.lease_lives(7, now_ns, now_ns);
            if let Some(transaction) = member.step(now_ns, &local).transaction {
                promoted = Some((now_ns, transaction));
                break;
            }
        }
        let (now_ns, transaction) = promoted.expect("the candidate takes over");
        assert!((100 + 2 * LEASE..=100 + 2 * LEASE + LEASE / 4).contains(&now_ns), "{now_ns}");
        assert!(transaction.needs_no_holder);
        assert_eq!(transaction.shard.map(|shard| (shard.epoch, shard.in_sync)), Some((2, [id("a")].into())));
    }
}
