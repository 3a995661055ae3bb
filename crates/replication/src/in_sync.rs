// SPDX-License-Identifier: BSD-3-Clause
//! The in-sync set as the data path sees it: the members whose acknowledgements replies wait for,
//! the offsets they have acknowledged, and the time until which this server may serve.
//!
//! The group (`cluster-node/group`) decides who is in the set and calls [`InSync::set`]; nothing
//! here ever removes a member. Offsets are journal offsets. Reads take no lock: the values they
//! read are recomputed when an acknowledgement arrives and when the set changes.
//!
//! Only acknowledgements *under the current epoch* count: under an earlier one the member may
//! have followed another primary. An acknowledgement outlives its connection, because a member is
//! a process: after a restart it is a different member.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

use braid_base::clock::boot_nanos;
use braid_config::SyncLevel;
use braid_group::confirmed::is_small;
use braid_group::{Confirmed, MemberId};
use parking_lot::Mutex;

/// Encoded length of `REPLCONF GETACK *`, the request for acknowledgements, in bytes.
pub const QUESTION_LEN: u64 = 37;
/// Number of requests whose send times are kept.
const PROBES: usize = 64;
/// Nanoseconds after which an unanswered request is repeated.
const ASK_AGAIN_NANOS: u64 = 100_000_000;
/// The same while members have received everything but not synced it: no message reports the
/// sync.
const ASK_DISK_AGAIN_NANOS: u64 = 1_000_000;

const LEVELS: [SyncLevel; 2] = [SyncLevel::Memory, SyncLevel::Disk];

/// A member's acknowledged offsets under one epoch.
struct Acknowledged {
    member: MemberId,
    epoch: u64,
    /// One more than the acknowledged offset; 0 before the first acknowledgement.
    memory: u64,
    disk: u64,
    /// Send time of the newest request that the member has answered.
    probe_nanos: Option<u64>,
}

/// A request for acknowledgements, sent to all replicas.
struct Probe {
    /// The journal's end after the request: a member that has acknowledged it has received the
    /// request.
    end: u64,
    /// Earliest possible send time, nanoseconds of CLOCK_BOOTTIME.
    nanos: u64,
}

#[derive(Default)]
struct Members {
    required: Vec<MemberId>,
    /// Since when each is required, nanoseconds of CLOCK_BOOTTIME.
    required_since: Vec<u64>,
    acknowledged: Vec<Acknowledged>,
    probes: VecDeque<Probe>,
    /// The highest offset for which a reply has waited too long, and when that wait began.
    late: Option<(u64, u64)>,
    /// Replicas that must have what a reply reveals (`min-sync-replicas`).
    minimum: usize,
    /// What that many had, in memory and on disk.
    confirmed: [Confirmed; 2],
    /// This server has been the primary.
    has_begun: bool,
}

impl Members {
    fn require(&mut self, required: Vec<MemberId>, now_ns: u64) {
        let before =
            std::mem::take(&mut self.required).into_iter().zip(std::mem::take(&mut self.required_since));
        let before: Vec<_> = before.collect();
        let since_ns = |id: &MemberId| {
            before.iter().find(|(known, _)| known == id).map_or(now_ns, |(_, since_ns)| *since_ns)
        };
        self.required_since = required.iter().map(since_ns).collect();
        self.required = required;
    }
}

/// The in-sync set. One per server; without a group no reply waits.
pub struct InSync {
    epoch: AtomicU64,
    /// Size of the committed set, this server included; 0 without one.
    size: AtomicUsize,
    /// One more than the offset that all required members have acknowledged; 0 if a required
    /// member has acknowledged nothing, `u64::MAX` if no member is required.
    memory: AtomicU64,
    disk: AtomicU64,
    /// One more than the offset that all required members and at least `minimum` replicas have
    /// acknowledged, in memory and on disk.
    confirmed: [AtomicU64; 2],
    /// The committed set has fewer replicas than the minimum.
    is_small: AtomicBool,
    /// Acknowledgements from memory do not suffice.
    needs_disk: AtomicBool,
    serve_until: AtomicU64,
    /// How often this server has ceased to be primary.
    losses: AtomicU64,
    /// The highest offset that a reply waits for.
    wanted: AtomicU64,
    /// The journal's end after the last request for acknowledgements, and when it was sent.
    asked_end: AtomicU64,
    asked_nanos: AtomicU64,
    /// The newest part of the journal known to contain only asides: requests for acknowledgements,
    /// and PINGs.
    asides_from: AtomicU64,
    asides_end: AtomicU64,
    /// A thread is about to send a request.
    is_asking: AtomicBool,
    members: Mutex<Members>,
    on_change: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Default for InSync {
    fn default() -> InSync {
        InSync {
            epoch: AtomicU64::new(0),
            size: AtomicUsize::new(0),
            memory: AtomicU64::new(u64::MAX),
            disk: AtomicU64::new(u64::MAX),
            confirmed: [const { AtomicU64::new(u64::MAX) }; 2],
            is_small: AtomicBool::new(false),
            needs_disk: AtomicBool::new(false),
            serve_until: AtomicU64::new(u64::MAX),
            losses: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            asked_end: AtomicU64::new(0),
            asked_nanos: AtomicU64::new(0),
            asides_from: AtomicU64::new(0),
            asides_end: AtomicU64::new(0),
            is_asking: AtomicBool::new(false),
            members: Mutex::default(),
            on_change: OnceLock::new(),
        }
    }
}

impl InSync {
    /// This server becomes a group's primary, with the journal ending at `end`: replies may reveal
    /// what it has already, as they could at its predecessor. Nothing happens if it is one already,
    /// or was the last one (`again`).
    pub fn begin(&self, end: u64, again: bool) {
        let mut members = self.members.lock();
        if self.epoch.load(Relaxed) == 0 && !(again && members.has_begun) {
            members.has_begun = true;
            members.confirmed.iter_mut().for_each(|confirmed| confirmed.begin(end));
        }
    }

    /// From now on replies reveal only what at least `minimum` replicas have; `end`: the journal's.
    pub fn set_minimum(&self, minimum: usize, end: u64) {
        let mut members = self.members.lock();
        if members.minimum == minimum {
            return;
        }
        let (size, old) = (self.size(), members.minimum);
        for (at, level) in LEVELS.into_iter().enumerate() {
            let acknowledged = self.word(level).load(Relaxed);
            members.confirmed[at].note_minimum(acknowledged, size, old, end);
        }
        members.minimum = minimum;
        self.compute(&mut members);
    }

    /// From now on replies wait for these members as well as this server, under `epoch`. `size`
    /// is the size of the committed set, this server included. Acknowledgements under earlier
    /// epochs no longer count.
    pub fn set(&self, epoch: u64, required: Vec<MemberId>, size: usize) {
        {
            let mut members = self.members.lock();
            let known = (self.epoch.load(Relaxed), &members.required, self.size());
            if known == (epoch, &required, size) {
                return;
            }
            if self.epoch.swap(epoch, Relaxed) != epoch {
                members.late = None;
                // A replica may have learnt of the epoch before this server did.
                members.acknowledged.retain(|one| one.epoch >= epoch);
            }
            members.require(required, boot_nanos());
            self.size.store(size, Relaxed);
            self.compute(&mut members);
        }
        self.tell();
    }

    /// This server is no longer the primary of a group: no reply waits any more, and the outcome
    /// of those that were waiting is uncertain.
    pub fn clear(&self) {
        {
            let mut members = self.members.lock();
            members.require(Vec::new(), 0);
            members.acknowledged.clear();
            members.late = None;
            self.losses.fetch_add(1, SeqCst);
            self.size.store(0, Relaxed);
            self.epoch.store(0, Relaxed);
            self.needs_disk.store(false, SeqCst);
            self.compute(&mut members);
        }
        self.tell();
    }

    /// With `needs`, replies wait for the disk regardless of the settings; otherwise the settings
    /// decide.
    pub fn set_needs_disk(&self, needs: bool) {
        if self.needs_disk.swap(needs, SeqCst) != needs {
            self.tell();
        }
    }

    /// Whether replies wait for the disk regardless of the settings.
    #[inline]
    pub fn needs_disk(&self) -> bool {
        self.needs_disk.load(SeqCst)
    }

    /// Sets the time until which this server may serve, in nanoseconds of CLOCK_BOOTTIME:
    /// `u64::MAX` without a group, 0 for never.
    pub fn set_serve_until(&self, nanos: u64) {
        let before = self.serve_until.swap(nanos, SeqCst);
        // Replies wait for an extension only if the old time has passed.
        if before < nanos && before < boot_nanos() {
            self.tell();
        }
    }

    /// Whether this server may serve at `now_ns` of CLOCK_BOOTTIME.
    #[inline]
    pub fn may_serve(&self, now_ns: u64) -> bool {
        now_ns <= self.serve_until.load(SeqCst)
    }

    /// Whether the right to serve can expire, so that clocks must be read.
    #[inline]
    pub fn is_fenced(&self) -> bool {
        self.serve_until.load(Relaxed) != u64::MAX
    }

    /// Whether every required member has acknowledged the journal up to `offset` under the current
    /// epoch, in memory or on disk. True if none is required.
    #[inline]
    pub fn covers(&self, level: SyncLevel, offset: u64) -> bool {
        self.word(level).load(SeqCst) > offset
    }

    /// Whether at least as many replicas as the minimum requires have had the journal up to
    /// `offset`, at the time or earlier.
    #[inline]
    pub fn confirms(&self, level: SyncLevel, offset: u64) -> bool {
        self.confirmed[level as usize].load(SeqCst) > offset
    }

    /// Whether the committed set has fewer replicas than the minimum.
    #[inline]
    pub fn is_small(&self) -> bool {
        self.is_small.load(SeqCst)
    }

    /// Whether replies need acknowledgements of other servers.
    #[inline]
    pub fn requires_any(&self) -> bool {
        self.memory.load(Relaxed) != u64::MAX || self.is_small()
    }

    /// Size of the committed set, this server included; 0 if this server is not the primary of a
    /// group.
    pub fn size(&self) -> usize {
        self.size.load(Relaxed)
    }

    /// The current epoch; 0 if this server is not the primary of a group.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    /// How often this server has ceased to be primary. A reply is uncertain if its request was
    /// executed before the last time.
    #[inline]
    pub fn losses(&self) -> u64 {
        self.losses.load(SeqCst)
    }

    /// The required members.
    pub fn required(&self) -> Vec<MemberId> {
        self.members.lock().required.clone()
    }

    /// Sets the callback for changes of the set and of the right to serve. Call once.
    pub fn on_change(&self, tell: impl Fn() + Send + Sync + 'static) {
        // A second callback is ignored.
        let _ = self.on_change.set(Box::new(tell));
    }

    /// Records that a member acknowledged the journal up to `memory`, and up to `disk` on disk,
    /// on a connection with this epoch. True if this advances an offset that all required members
    /// have.
    pub fn note(&self, member: &MemberId, epoch: u64, memory: u64, disk: Option<u64>) -> bool {
        let mut members = self.members.lock();
        if epoch < self.epoch.load(Relaxed) {
            return false;
        }
        let Members { acknowledged, probes, .. } = &mut *members;
        let at = acknowledged.iter().position(|one| one.epoch == epoch && one.member == *member);
        let at = at.unwrap_or_else(|| {
            let member = member.clone();
            acknowledged.push(Acknowledged { member, epoch, memory: 0, disk: 0, probe_nanos: None });
            acknowledged.len() - 1
        });
        let one = &mut acknowledged[at];
        one.memory = one.memory.max(memory.saturating_add(1));
        one.disk = one.disk.max(disk.map_or(0, |disk| disk.saturating_add(1)));
        let newest = probes.iter().rev().find(|probe| probe.end <= memory).map(|probe| probe.nanos);
        one.probe_nanos = one.probe_nanos.max(newest);
        let before = (self.memory.load(Relaxed), self.disk.load(Relaxed));
        self.compute(&mut members);
        before != (self.memory.load(Relaxed), self.disk.load(Relaxed))
    }

    /// A connection of a member with this epoch has ended. A required member keeps its
    /// acknowledged offsets.
    pub fn detach(&self, member: &MemberId, epoch: u64) {
        let mut members = self.members.lock();
        let is_required = members.required.contains(member);
        members.acknowledged.retain(|one| is_required || one.epoch != epoch || one.member != *member);
    }

    /// Send time, in nanoseconds of CLOCK_BOOTTIME, of the newest request that a member has
    /// answered under the current epoch.
    pub fn acknowledged_probe(&self, member: &MemberId) -> Option<u64> {
        let (members, epoch) = (self.members.lock(), self.epoch.load(Relaxed));
        let mut found = members.acknowledged.iter();
        found.find(|one| one.epoch == epoch && one.member == *member)?.probe_nanos
    }

    /// Records that a reply waits for `offset`.
    pub fn want(&self, offset: u64) {
        self.wanted.fetch_max(offset, SeqCst);
    }

    /// Whether the caller must request acknowledgements now: a reply waits for more than is
    /// acknowledged, and no request is in flight. One request serves all replies that wait by
    /// then; later ones are covered by the next request, after this one is answered. A caller
    /// that gets `true` sends the request and then calls [`InSync::asked`].
    pub fn must_ask(&self, level: SyncLevel, now_ns: u64) -> bool {
        if !self.requires_any() || self.covers(level, self.wanted.load(SeqCst)) {
            return false;
        }
        let asked_end = self.asked_end.load(SeqCst);
        let asked_from = asked_end.saturating_sub(QUESTION_LEN);
        if asked_end > 0 && !self.covers(level, asked_from) {
            let is_received = level == SyncLevel::Disk && self.covers(SyncLevel::Memory, asked_from);
            let patience = if is_received { ASK_DISK_AGAIN_NANOS } else { ASK_AGAIN_NANOS };
            if now_ns.saturating_sub(self.asked_nanos.load(Relaxed)) < patience {
                return false;
            }
        }
        !self.is_asking.swap(true, SeqCst)
    }

    /// A request was appended to the journal, ending at `end`; `nanos` was read before it was
    /// sent.
    pub fn asked(&self, end: u64, nanos: u64) {
        self.note_probe(end, nanos);
        self.note_aside(end.saturating_sub(QUESTION_LEN)..end);
        self.asked_nanos.store(nanos, Relaxed);
        self.asked_end.fetch_max(end, SeqCst);
        self.is_asking.store(false, SeqCst);
    }

    /// The request that [`InSync::must_ask`] called for could not be sent.
    pub fn not_asked(&self) {
        self.is_asking.store(false, SeqCst);
    }

    /// Remembers the send time of a request that ends at `end` in the journal.
    fn note_probe(&self, end: u64, nanos: u64) {
        let probes = &mut self.members.lock().probes;
        // Two threads may arrive in reverse order: the entry with the higher offset suffices.
        if probes.back().is_some_and(|last| last.end >= end) {
            return;
        }
        if probes.len() == PROBES {
            probes.pop_front();
        }
        probes.push_back(Probe { end, nanos });
    }

    /// Remembers that a part of the journal is an aside.
    pub fn note_aside(&self, range: Range<u64>) {
        let _members = self.members.lock();
        // The end is stored last: whoever reads it finds a beginning that goes with it, or a later
        // one, which says less.
        if self.asides_end.load(SeqCst) != range.start {
            self.asides_from.store(range.start, SeqCst);
        }
        self.asides_end.store(range.end, SeqCst);
    }

    /// The offset that a reply must wait for if the journal ends at `end`: requests for
    /// acknowledgements and PINGs are no changes that the reply could reveal.
    pub fn without_asides(&self, end: u64) -> u64 {
        if self.asides_end.load(SeqCst) != end {
            return end;
        }
        self.asides_from.load(SeqCst).min(end)
    }

    /// Records that a reply for `offset` has waited too long, since `since_ns` of
    /// CLOCK_BOOTTIME.
    pub fn note_late(&self, offset: u64, since_ns: u64) {
        let late = &mut self.members.lock().late;
        if late.is_none_or(|(furthest, _)| furthest < offset) {
            *late = Some((offset, since_ns));
        }
    }

    /// Required members that have kept a reply waiting for longer than the timeout. The reply may
    /// have begun to wait before the member was required.
    pub fn slow_members(&self, level: SyncLevel, now_ns: u64, timeout_ns: u64) -> Vec<MemberId> {
        let (members, epoch) = (self.members.lock(), self.epoch.load(Relaxed));
        let Some((offset, _)) =
            members.late.filter(|(_, since_ns)| now_ns.saturating_sub(*since_ns) > timeout_ns)
        else {
            return Vec::new();
        };
        let is_slow = |(member, since_ns): &(&MemberId, &u64)| {
            acknowledged_by(&members, epoch, member, level) <= offset
                && now_ns.saturating_sub(**since_ns) > timeout_ns
        };
        let required = members.required.iter().zip(&members.required_since);
        required.filter(is_slow).map(|(member, _)| member.clone()).collect()
    }

    fn word(&self, level: SyncLevel) -> &AtomicU64 {
        match level {
            SyncLevel::Memory => &self.memory,
            SyncLevel::Disk => &self.disk,
        }
    }

    fn compute(&self, members: &mut Members) {
        let (epoch, size) = (self.epoch.load(Relaxed), self.size());
        // Before the offsets: a reply that is not held back must find them as they are now.
        self.is_small.store(is_small(size, members.minimum), SeqCst);
        for (at, level) in LEVELS.into_iter().enumerate() {
            let each = members.required.iter().map(|member| acknowledged_by(members, epoch, member, level));
            let all = each.min().unwrap_or(u64::MAX);
            let confirmed = members.confirmed[at].update(all, size, members.minimum);
            self.confirmed[at].store(confirmed, SeqCst);
            self.word(level).store(all, SeqCst);
        }
    }

    fn tell(&self) {
        if let Some(tell) = self.on_change.get() {
            tell();
        }
    }
}

/// One more than the offset that a member has acknowledged under an epoch.
fn acknowledged_by(members: &Members, epoch: u64, member: &MemberId, level: SyncLevel) -> u64 {
    let mut found = members.acknowledged.iter();
    found.find(|one| one.epoch == epoch && one.member == *member).map_or(0, |one| match level {
        SyncLevel::Memory => one.memory,
        SyncLevel::Disk => one.disk,
    })
}

#[cfg(test)]
mod tests {
    use super::SyncLevel::{Disk, Memory};
    use super::*;

    fn member(text: &str) -> MemberId {
        text.parse().expect("a member's name")
    }

    /// The offset that all required members have acknowledged; `u64::MAX` if none is required.
    fn acknowledged(set: &InSync, level: SyncLevel) -> u64 {
        match set.word(level).load(SeqCst) {
            u64::MAX => u64::MAX,
            word => word.saturating_sub(1),
        }
    }

    #[test]
    fn without_a_group_nothing_waits() {
        let set = InSync::default();
        assert!(set.covers(Memory, u64::MAX - 1) && set.may_serve(u64::MAX) && !set.is_fenced());
        assert_eq!((acknowledged(&set, Memory), set.size()), (u64::MAX, 0));
        assert!(!set.must_ask(Memory, 0));
    }

    #[test]
    fn all_members_count_and_not_some() {
        let (set, a, b) = (InSync::default(), member("a/1"), member("b/1"));
        set.set(3, vec![a.clone(), b.clone()], 3);
        assert_eq!((acknowledged(&set, Memory), set.covers(Memory, 0)), (0, false));
        assert!(!set.note(&a, 3, 100, None));
        assert_eq!((acknowledged(&set, Memory), set.covers(Memory, 0)), (0, false));
        assert!(set.note(&b, 3, 50, Some(20)));
        assert_eq!(
            (acknowledged(&set, Memory), set.covers(Memory, 50), set.covers(Memory, 51)),
            (50, true, false)
        );
        assert!(!set.covers(Disk, 0), "the other member has nothing on disk");
        set.note(&a, 3, 100, Some(100));
        assert_eq!(acknowledged(&set, Disk), 20);
        // Offsets never go back.
        set.note(&b, 3, 10, Some(5));
        set.detach(&b, 3);
        assert_eq!((acknowledged(&set, Memory), acknowledged(&set, Disk)), (50, 20));
        set.set(3, vec![a.clone()], 2);
        assert_eq!(acknowledged(&set, Memory), 100);
        set.set(3, Vec::new(), 1);
        assert_eq!(acknowledged(&set, Memory), u64::MAX);
    }

    #[test]
    fn another_epoch_and_another_run_begin_anew() {
        let (set, a) = (InSync::default(), member("a/1"));
        set.set(3, vec![a.clone()], 2);
        set.note(&a, 2, 100, None);
        set.note(&member("a/2"), 3, 100, None);
        assert!(!set.covers(Memory, 0));
        set.note(&a, 3, 100, None);
        // The member has learnt of the next epoch before this server.
        set.note(&a, 4, 70, None);
        assert_eq!(acknowledged(&set, Memory), 100);
        set.set(4, vec![a.clone()], 2);
        assert_eq!(acknowledged(&set, Memory), 70);
        set.set(5, vec![a.clone()], 2);
        assert_eq!((acknowledged(&set, Memory), set.covers(Memory, 0)), (0, false));
        let losses = set.losses();
        set.clear();
        assert_eq!((set.losses(), set.size(), acknowledged(&set, Memory)), (losses + 1, 0, u64::MAX));
        assert_eq!(set.acknowledged_probe(&a), None);
    }

    #[test]
    fn a_probe_counts_from_when_it_was_sent() {
        let (set, a) = (InSync::default(), member("a/1"));
        set.set(1, vec![a.clone()], 2);
        set.note_probe(100, 1_000);
        set.note_probe(200, 2_000);
        set.note(&a, 1, 99, None);
        assert_eq!(set.acknowledged_probe(&a), None);
        set.note(&a, 1, 150, None);
        assert_eq!(set.acknowledged_probe(&a), Some(1_000));
        set.note(&a, 1, 200, None);
        assert_eq!(set.acknowledged_probe(&a), Some(2_000));
        // Two threads arrived in reverse order.
        set.note_probe(400, 5_000);
        set.note_probe(300, 3_000);
        set.note(&a, 1, 399, None);
        assert_eq!(set.acknowledged_probe(&a), Some(2_000));
        set.note(&a, 1, 400, None);
        assert_eq!(set.acknowledged_probe(&a), Some(5_000));
        set.set(2, vec![a.clone()], 2);
        assert_eq!(set.acknowledged_probe(&a), None);
        for number in 0..1000 {
            set.note_probe(1000 + number, 10_000 + number);
        }
        set.note(&a, 2, 1999, None);
        assert_eq!(set.acknowledged_probe(&a), Some(10_999));
    }

    #[test]
    fn one_question_is_under_way_at_a_time() {
        let (set, a) = (InSync::default(), member("a/1"));
        set.set(1, vec![a.clone()], 2);
        set.want(10);
        assert!(set.must_ask(Memory, 0) && !set.must_ask(Memory, 0), "only one thread asks");
        set.asked(47, 0);
        assert_eq!((set.without_asides(47), set.without_asides(50)), (10, 50));
        set.want(60);
        assert!(!set.must_ask(Memory, 1));
        assert!(set.must_ask(Memory, ASK_AGAIN_NANOS), "the answer may be lost");
        set.not_asked();
        set.note(&a, 1, 47, None);
        assert!(set.must_ask(Memory, 1), "a reply waits for more than was requested");
        set.asked(97, 1);
        set.note(&a, 1, 97, Some(20));
        assert!(!set.must_ask(Memory, 2) && !set.must_ask(Disk, 2));
        assert!(set.must_ask(Disk, 1 + ASK_DISK_AGAIN_NANOS));
    }

    #[test]
    fn slow_members_are_those_a_late_reply_waits_for() {
        let (set, a, b) = (InSync::default(), member("a/1"), member("b/1"));
        set.set(1, vec![a.clone(), b.clone()], 3);
        set.note(&a, 1, 100, None);
        set.note(&b, 1, 99, None);
        assert!(set.slow_members(Memory, u64::MAX, 0).is_empty());
        let begin = boot_nanos();
        set.note_late(100, begin);
        let slow = |level, nanos| set.slow_members(level, begin + nanos, 500);
        assert!(slow(Memory, 500).is_empty());
        assert_eq!(slow(Memory, 501), std::slice::from_ref(&b));
        assert_eq!(slow(Disk, 501), [a.clone(), b.clone()]);
        set.note(&b, 1, 100, None);
        assert!(slow(Memory, 501).is_empty());
        // A member that is required from later on also has its time.
        let c = member("c/1");
        set.set(1, vec![a, b.clone(), c.clone()], 3);
        let later = boot_nanos();
        assert!(set.slow_members(Memory, later, later - begin).is_empty());
        assert_eq!(set.slow_members(Memory, later + 500, 499), [c]);
    }

    #[test]
    fn a_reply_needs_enough_replicas_that_had_it() {
        let (set, a) = (InSync::default(), member("a/1"));
        set.set_minimum(1, 0);
        assert!(set.confirms(Memory, u64::MAX - 1) && !set.is_small(), "there is no group");
        set.begin(100, false);
        set.set(1, vec![a.clone()], 2);
        assert!(!set.is_small() && !set.confirms(Memory, 0), "the member may be promoted");
        set.note(&a, 1, 150, Some(120));
        set.set(1, Vec::new(), 1);
        assert!(set.is_small() && set.requires_any());
        assert!(set.covers(Memory, 151) && set.confirms(Memory, 150) && !set.confirms(Memory, 151));
        assert!(set.confirms(Disk, 120) && !set.confirms(Disk, 121));
        // It is about to join again, and then joins.
        set.set(1, vec![a.clone()], 1);
        set.note(&a, 1, 200, Some(200));
        assert!(!set.confirms(Memory, 151));
        set.set(1, vec![a.clone()], 2);
        assert!(set.confirms(Memory, 200) && set.confirms(Disk, 200));
        set.set(2, Vec::new(), 1);
        set.begin(500, false);
        assert!(!set.confirms(Memory, 201), "it was the primary before");
        set.set_minimum(0, 900);
        assert!(set.confirms(Memory, 900));
        set.set_minimum(1, 950);
        assert!(set.confirms(Memory, 950) && !set.confirms(Memory, 951));
        set.clear();
        set.begin(1_000, true);
        set.set(3, Vec::new(), 1);
        assert!(!set.confirms(Memory, 951), "no other server has led");
        set.clear();
        set.begin(1_000, false);
        set.set(4, Vec::new(), 1);
        assert!(set.confirms(Memory, 1_000) && !set.confirms(Memory, 1_001));
    }

    #[test]
    fn asides_at_the_end_are_no_changes() {
        let set = InSync::default();
        set.note_aside(10..24);
        assert_eq!((set.without_asides(24), set.without_asides(23), set.without_asides(25)), (10, 23, 25));
        set.asked(61, 0);
        assert_eq!(set.without_asides(61), 10);
        set.note_aside(70..84);
        assert_eq!((set.without_asides(84), set.without_asides(61)), (70, 61));
    }

    #[test]
    fn the_right_to_serve_ends() {
        let set = InSync::default();
        set.set_serve_until(50);
        assert!(set.is_fenced() && set.may_serve(50) && !set.may_serve(51));
        set.set_serve_until(0);
        assert!(!set.may_serve(1));
    }
}
