// SPDX-License-Identifier: BSD-3-Clause
//! One server's part in its group, as a state machine.
//!
//! The caller shows it what it has read ([`Member::observe`]), what came of its transactions and
//! its lease, and then, several times per lease time, asks for [`Member::step`]: the orders say
//! what the server has to do until the next step. Times are the caller's ([`Timing`]).
//!
//! What it must never do: order serving on a right that another server may have by then, or order
//! replies without a member that may be promoted.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::record::{
    Expected, Holder, HolderChange, MemberId, Offer, Shard, Snapshot, Transaction, Versioned,
};
use crate::rules::Rules;
use crate::timing::Timing;

/// A replica, as its primary sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Follower {
    pub id: MemberId,
    /// When the newest probe was sent that it has answered under the present epoch.
    pub probed: u64,
    /// The journal's offset up to which it has acknowledged.
    pub acknowledged: u64,
}

/// A former process of a server that ended in good order: it had stopped to acknowledge when it
/// saved all that it had, and these files were loaded as it left them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ended {
    pub run: Arc<str>,
    /// The epoch that it knew last.
    pub epoch: u64,
}

/// What the server knows itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Local {
    /// Where its journal ends.
    pub end: u64,
    /// The same in its history, and that history's ID: comparable between servers.
    pub history: Arc<str>,
    pub offset: u64,
    /// Its dataset was loaded from files, or received: it is worth more than nothing.
    pub has_data: bool,
    /// It has all of that dataset: it is not being loaded or received.
    pub is_whole: bool,
    /// The run of this server's former process, if its files are in this server's folder and were
    /// loaded.
    pub former: Option<Arc<str>>,
    /// The same, if the append-only file that it left was loaded: all that it said is on disk was.
    pub kept: Option<Arc<str>>,
    /// What the former process has left, if it ended in good order.
    pub ended: Option<Ended>,
    /// Replies are to wait for the disk (`sync-level`).
    pub at_disk: bool,
    /// The journal's offset up to which it is on this server's disk.
    pub synced: u64,
    /// When it last acknowledged something to a primary; when it started, if never.
    pub acknowledged: u64,
    /// It has stopped acknowledging, as ordered ([`Duty::Refuse`]).
    pub refuses: bool,
    /// The primary is heard over the link.
    pub hears_primary: bool,
    pub priority: u32,
    /// It takes no other server's place by itself.
    pub stays_replica: bool,
    /// Its replicas.
    pub followers: Vec<Follower>,
    /// Members that synchronous writes have waited for too long.
    pub slow: Vec<MemberId>,
}

/// What the server is to be.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Duty {
    /// Nothing is known yet: a replica without a primary.
    #[default]
    Wait,
    /// Replicates the primary, whose epoch this is.
    Follow { primary: MemberId, epoch: u64 },
    /// Acknowledges nothing to any primary.
    Refuse,
    /// Is the primary. It serves as long as it may.
    Lead { epoch: u64 },
}

/// What the server has to do until the next step.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Orders {
    pub duty: Duty,
    /// Members that replies wait for, besides this one.
    pub required: Vec<MemberId>,
    /// Size of the committed in-sync set, with this server.
    pub size: usize,
    /// Replies wait until those have on disk what they reveal, and this server has.
    pub at_disk: bool,
    /// Until when it may serve; `u64::MAX`: for ever, 0: not at all.
    pub serve_until: u64,
    /// To send to etcd; pass its outcome to [`Member::settle`].
    pub transaction: Option<Transaction>,
    /// To be written under this server's name, if it is not so already.
    pub offer: Option<Offer>,
}

/// What came of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was committed, as this revision.
    Committed(u64),
    /// The records were not as it expects.
    Refused,
    /// It was certainly not executed.
    NotSent,
    /// It may have been committed, or may still be.
    Unknown,
}

/// A server's lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lease {
    pub id: i64,
    /// Until when it is surely alive.
    pub until: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Replica(Following),
    Primary(Leading),
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Following {
    /// Since when it has refused the primary of its epoch, to take its place.
    pub refuses_since: Option<u64>,
    /// Since when nobody holds the primary's lease.
    pub free_since: Option<u64>,
    /// The primary of this epoch has held it.
    pub was_held: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Leading {
    pub since: u64,
    pub joining: Option<Joining>,
    /// A member that is to take over.
    pub successor: Option<MemberId>,
    /// Set while replies are to wait for the disk: the journal's end after they had begun to.
    pub disk: Option<Option<u64>>,
}

/// A member that replies wait for already, and that is added to the set when it has everything that
/// was acknowledged before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Joining {
    pub id: MemberId,
    /// The journal's end after replies had begun to wait for it.
    pub from: Option<u64>,
}

/// A transaction that may have been committed, or may still be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pending {
    /// The shard's record that it compares.
    pub expected: Expected,
    pub shard: Option<Shard>,
    /// An answer to it, or to what was sent to settle it, may still come.
    pub in_flight: bool,
    /// There has been no answer to the transaction itself.
    pub is_unknown: bool,
}

/// A server's part in its group.
#[derive(Clone, Debug)]
pub struct Member {
    pub(crate) id: MemberId,
    pub(crate) timing: Timing,
    pub(crate) rules: Rules,
    pub(crate) started: u64,
    /// The newest epoch that it knows of; 0: none.
    pub(crate) epoch: u64,
    pub(crate) role: Role,
    pub(crate) snapshot: Option<Arc<Snapshot>>,
    /// The shard's record of the present epoch.
    pub(crate) known: Option<Shard>,
    pub(crate) lease: Option<Lease>,
    pub(crate) pending: Option<Pending>,
    /// The newest epoch that this process has asked to lead.
    proposed: u64,
    /// An operator wants it to take the primary's place, whether it is in the set or not.
    pub(crate) is_forced: bool,
    /// It is decided whether this process is its former one's member.
    has_name: bool,
}

impl Local {
    /// What this server knows of a replica, if it has it.
    pub(crate) fn follower(&self, id: &MemberId) -> Option<&Follower> {
        self.followers.iter().find(|follower| follower.id == *id)
    }
}

impl Member {
    pub fn new(id: MemberId, timing: Timing, rules: Rules, now: u64) -> Member {
        Member {
            id,
            timing: Timing { allows_for_drift: rules.allows_for_drift, ..timing },
            rules,
            started: now,
            epoch: 0,
            role: Role::Replica(Following::default()),
            snapshot: None,
            known: None,
            lease: None,
            pending: None,
            proposed: 0,
            is_forced: false,
            has_name: false,
        }
    }

    /// Decides which member this process is, as soon as the records are known: its former process's
    /// if that one is in the set, has left its files and had said nothing that is not in them.
    /// False as long as it is not decided.
    fn resume(&mut self, local: &Local) -> bool {
        let Some(snapshot) = &self.snapshot else { return false };
        let shard = snapshot.shard.as_ref().map(|shard| &shard.value);
        let is_in_files = |shard: &Shard, run: &Arc<str>| {
            let on_disk = local.kept.as_ref() == Some(run);
            // Once another epoch has begun these may be copies of files that were used since.
            let ended = local.ended.as_ref().filter(|ended| ended.epoch == shard.epoch);
            on_disk && (shard.is_on_disk || !self.rules.resumes_from_disk)
                || ended.is_some_and(|ended| ended.run == *run)
        };
        let runs = local.kept.iter().chain(local.ended.as_ref().map(|ended| &ended.run));
        let mut members = runs.map(|run| MemberId::new(&self.id.node, run));
        let former = shard.and_then(|shard| {
            members.find(|former| shard.in_sync.contains(former) && is_in_files(shard, &former.run))
        });
        if let Some(former) = former {
            let known = snapshot.nodes.get(&former.node);
            if known.is_some_and(|node| node.run == former.run) {
                // It may live: its lease does.
                return false;
            }
            self.id = former;
        }
        self.has_name = true;
        true
    }

    /// Which member this process is; `None` before that is decided.
    pub fn name(&self) -> Option<&MemberId> {
        self.has_name.then_some(&self.id)
    }

    pub fn id(&self) -> &MemberId {
        &self.id
    }

    /// The records as last shown.
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

    /// A lease was granted or kept alive by a request that was sent at `sent` and answered at
    /// `received`.
    pub fn lease_lives(&mut self, id: i64, sent: u64, received: u64) {
        let from = if self.rules.counts_from_sending { sent } else { received };
        let until = self.timing.lease_right(from);
        match &mut self.lease {
            Some(lease) if lease.id == id => lease.until = lease.until.max(until),
            lease => *lease = Some(Lease { id, until }),
        }
    }

    /// The lease is gone, and what was bound to it.
    pub fn lease_lost(&mut self) {
        self.lease = None;
    }

    /// Whether the lease is that of the primary of the present epoch.
    pub(crate) fn is_bound(&self) -> bool {
        let holder = self.snapshot.as_ref().and_then(|snapshot| snapshot.holder.as_ref());
        holder.zip(self.lease).is_some_and(|(holder, lease)| {
            let is_alive = holder.lease == lease.id || !self.rules.binds_lease;
            holder.member == self.id && holder.epoch == self.epoch && is_alive
        })
    }

    /// Takes note of the records. Older ones than those known are passed over.
    pub fn observe(&mut self, snapshot: Arc<Snapshot>, now: u64) {
        if self.snapshot.as_ref().is_some_and(|known| known.revision > snapshot.revision) {
            return;
        }
        // What it compares is no longer so: it cannot be committed any more. While an answer may
        // come, that is waited for: it must not be taken for the answer to another transaction.
        let seen =
            snapshot.shard.as_ref().map_or(Expected::Absent, |shard| Expected::Revision(shard.revision));
        if self.pending.as_ref().is_some_and(|pending| !pending.in_flight && pending.expected != seen) {
            self.pending = None;
        }
        if let Some(shard) = &snapshot.shard {
            self.adopt(&shard.value, now);
        }
        if let Role::Replica(following) = &mut self.role {
            following.free_since = match &snapshot.holder {
                Some(holder) => {
                    following.was_held |= holder.epoch == self.epoch;
                    None
                }
                None => following.free_since.or(Some(now)),
            };
        }
        self.snapshot = Some(snapshot);
    }

    /// The records that were shown are not those that are read from now on: etcd has lost its data,
    /// or has that of a backup.
    pub fn forget_records(&mut self) {
        self.snapshot = None;
    }

    fn adopt(&mut self, shard: &Shard, now: u64) {
        if shard.epoch < self.epoch {
            // From a backup: this server knows better.
            return;
        }
        // What a former process of this member led, or asked to lead, is led anew under another
        // epoch: answers to that process may still be on their way.
        let is_new = shard.epoch > self.epoch;
        let is_handed = shard.is_handed_over && self.epoch > 0;
        let is_own = if is_new { is_handed || self.proposed == shard.epoch } else { self.is_primary() };
        let leads = shard.primary == self.id && is_own;
        if is_new || leads != self.is_primary() {
            self.is_forced &= self.epoch == 0;
            self.epoch = shard.epoch;
            self.role = if leads {
                Role::Primary(Leading { since: now, joining: None, successor: None, disk: None })
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

    /// Tells what came of the transaction that was ordered last.
    pub fn settle(&mut self, transaction: &Transaction, outcome: Outcome, now: u64) {
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
                // What it has changed need not be read first.
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
                self.observe(Arc::new(snapshot), now);
            }
            // One whose outcome is unknown may be the cause: the records will tell.
            Outcome::Refused | Outcome::NotSent if pending.is_unknown => {}
            Outcome::Refused | Outcome::NotSent => self.pending = None,
            // It binds a lease, at worst, of a primary that is still the primary.
            Outcome::Unknown if pending.shard.is_none() || !is_kept => self.pending = None,
            Outcome::Unknown => pending.is_unknown = true,
        }
    }

    /// Has a member take over. It must have everything, and writes must wait; nothing is served any
    /// more until the outcome is known. An error says why not.
    pub fn hand_over(&mut self, to: MemberId) -> Result<(), &'static str> {
        let is_in_sync = self.known.as_ref().is_some_and(|shard| shard.in_sync.contains(&to));
        match &mut self.role {
            _ if !is_in_sync || to == self.id => Err("the server is no other member of the in-sync set"),
            Role::Primary(leading) => {
                leading.successor = Some(to);
                Ok(())
            }
            Role::Replica(_) => Err("this server is not the primary"),
        }
    }

    /// Takes the primary's place as soon as nobody holds its lease and none of its rights can be
    /// left, even if this server is not in the set: an operator's word that no better server will
    /// come back. Ends with the next change of the primary.
    pub fn take_over(&mut self) {
        self.is_forced = !self.is_primary();
    }

    /// A transaction that names another primary may be committed.
    pub fn is_being_replaced(&self) -> bool {
        let shard = self.pending.as_ref().and_then(|pending| pending.shard.as_ref());
        shard.is_some_and(|shard| shard.primary != self.id)
    }

    /// What to do at a time.
    pub fn step(&mut self, now: u64, local: &Local) -> Orders {
        let mut orders = Orders::default();
        if !self.has_name && !self.resume(local) {
            return orders;
        }
        match self.role {
            Role::Primary(_) => self.lead(now, local, &mut orders),
            Role::Replica(_) => self.follow(now, local, &mut orders),
        }
        if let Some(transaction) = &orders.transaction {
            if let Some(shard) = transaction.shard.as_ref().filter(|shard| shard.primary == self.id) {
                self.proposed = shard.epoch;
            }
            match &mut self.pending {
                // It is sent to settle that one.
                Some(pending) => pending.in_flight = true,
                pending => {
                    *pending = Some(Pending {
                        expected: transaction.expected,
                        shard: transaction.shard.clone(),
                        in_flight: true,
                        is_unknown: false,
                    });
                }
            }
        }
        orders
    }

    /// The transaction that can be sent instead of one that the server would like to send: none
    /// while an answer may come, and while the outcome of one is unknown only one that leaves the
    /// record as it is, so that the other can no longer be committed.
    pub(crate) fn send(&self, now: u64, wanted: Option<Transaction>) -> Option<Transaction> {
        if self.lease.is_none_or(|lease| now >= lease.until) {
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

    /// This server's claim of the primary's lease.
    pub(crate) fn claim(&self, epoch: u64) -> HolderChange {
        let lease = self.lease.map_or(0, |lease| lease.id);
        HolderChange::Take(Holder { epoch, member: self.id.clone(), lease })
    }

    /// Members that a transaction that may be committed adds to the set.
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
        let follower = Follower { id: id("b"), probed: 0, acknowledged: 0 };
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
    fn records_of_a_backup_are_written_anew_whoever_held_the_lease() {
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
    fn an_unknown_outcome_is_settled_when_the_record_is_gone() {
        let (mut member, mut local) = primary();
        local.slow.push(id("b"));
        let removal = member.step(10, &local).transaction.expect("it removes the slow member");
        member.settle(&removal, Outcome::Unknown, 20);
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
        // Its own place it takes again.
        let own = |text: &str| MemberId::new("a", text);
        let mut member = Member::new(own("new"), Timing::new(LEASE), Rules::default(), 0);
        let alone = Shard { primary: own("old"), in_sync: [own("old")].into(), ..shard(1, "a") };
        (local.has_data, local.former) = (true, Some("old".into()));
        member.observe(records(1, Some(alone), None), 0);
        assert!(refuses(&mut member, &local));
    }

    #[test]
    fn a_process_that_ended_in_good_order_is_gone_on_with_under_its_epoch_alone() {
        let resumed = |ended: Option<Ended>, node: Option<&str>| {
            let mut member = Member::new(MemberId::new("a", "2"), Timing::new(LEASE), Rules::default(), 0);
            let mut snapshot = (*records(1, Some(shard(3, "b")), None)).clone();
            if let Some(run) = node {
                snapshot.nodes.insert("a".into(), crate::Node { run: run.into(), ..crate::Node::default() });
            }
            member.observe(Arc::new(snapshot), 0);
            member.step(0, &Local { ended, ..Local::default() });
            member.name().map(|name| name.run.to_string())
        };
        let ended = |run: &str, epoch| Some(Ended { run: run.into(), epoch });
        assert_eq!(resumed(ended("1", 3), None).as_deref(), Some("1"));
        assert_eq!(resumed(ended("1", 3), Some("1")), None, "it may live");
        assert_eq!(resumed(ended("1", 3), Some("other")).as_deref(), Some("1"));
        assert_eq!(resumed(ended("1", 2), None).as_deref(), Some("2"), "others have led since");
        assert_eq!(resumed(ended("1", 4), None).as_deref(), Some("2"), "the record is older");
        assert_eq!(resumed(ended("0", 3), None).as_deref(), Some("2"), "it was in no set");
        assert_eq!(resumed(None, None).as_deref(), Some("2"));
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
        for now in (200..10_000).step_by(10) {
            member.lease_lives(7, now, now);
            if let Some(transaction) = member.step(now, &local).transaction {
                promoted = Some((now, transaction));
                break;
            }
        }
        let (now, transaction) = promoted.expect("it takes over");
        assert!((100 + 2 * LEASE..=100 + 2 * LEASE + LEASE / 4).contains(&now), "{now}");
        assert!(transaction.needs_no_holder);
        assert_eq!(transaction.shard.map(|shard| (shard.epoch, shard.in_sync)), Some((2, [id("a")].into())));
    }
}
