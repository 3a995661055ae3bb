// SPDX-License-Identifier: BSD-3-Clause
//! Members that a primary keeps out of the in-sync set for a while: those that it has just removed,
//! and those that did not acknowledge when they were to join.
//!
//! Replies wait for a member from the moment it is to join. One that is sick but answers (its disk
//! is full, or it stands still every other second) would otherwise stop the writes of a healthy
//! group again and again. The time doubles with each failure, and is forgotten once the member has
//! stayed in the set for long. It belongs to the node: a process that crashes after each start is
//! no better than one that stands still.
//!
//! It must never keep a member out of a set that is too small for writes anyway, if that member
//! acknowledged while it was in the set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::record::MemberId;

/// The time doubles at most this often.
const DOUBLINGS: u32 = 6;
/// In units of the first time: how long a member must stay in the set at least.
const STAYS: u64 = 32;

/// Why a member is not taken into the set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// It was removed a short time ago.
    Removed,
    /// It did not acknowledge in time when it was to join.
    Unacknowledged,
    /// What it has received is not on its disk, and replies wait for the disk.
    Disk,
}

/// A member that answers, but is not taken into the set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeldOut {
    pub id: MemberId,
    pub why: Why,
    /// Until when; `None`: as long as the reason lasts.
    pub until: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Record {
    why: Why,
    failures: u32,
    until: u64,
    /// Since when the node has been in the set.
    joined: Option<u64>,
}

/// A primary's memory of its members' failures.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Failures {
    nodes: BTreeMap<Arc<str>, Record>,
    /// The set as last seen.
    in_sync: BTreeSet<MemberId>,
}

impl Failures {
    /// Takes in the committed set. `first`: for how long a member is kept out at first.
    pub fn follow(&mut self, in_sync: &BTreeSet<MemberId>, now_ns: u64, first: u64) {
        let has = |node: &Arc<str>| in_sync.iter().any(|id| id.node == *node);
        let removed: Vec<_> = self.in_sync.difference(in_sync).filter(|id| !has(&id.node)).cloned().collect();
        removed.iter().for_each(|id| self.note(&id.node, Why::Removed, now_ns, first));
        self.nodes.retain(|node, record| {
            if !has(node) {
                record.joined = None;
                return true;
            }
            let joined = *record.joined.get_or_insert(now_ns);
            now_ns.saturating_sub(joined) < ((2 * first) << record.failures).max(STAYS * first)
        });
        if self.in_sync != *in_sync {
            self.in_sync.clone_from(in_sync);
        }
    }

    /// A node's member has been removed, or has not acknowledged.
    pub fn note(&mut self, node: &Arc<str>, why: Why, now_ns: u64, first: u64) {
        let record =
            self.nodes.entry(Arc::clone(node)).or_insert(Record { why, failures: 0, until: 0, joined: None });
        let time = first << record.failures;
        record.failures = (record.failures + 1).min(DOUBLINGS);
        (record.why, record.until, record.joined) = (why, now_ns.saturating_add(time), None);
    }

    /// What a member receives does not get to its disk. Once it does, the member need not wait for
    /// longer than at first.
    pub fn note_stuck(&mut self, node: &Arc<str>, now_ns: u64, first: u64) {
        if let Some(record) = self.nodes.get_mut(node) {
            record.until = record.until.min(now_ns.saturating_add(first));
        }
    }

    /// Why and until when a member is kept out. `is_small`: the set is too small for writes.
    pub fn keeps_out(&self, id: &MemberId, now_ns: u64, is_small: bool) -> Option<(Why, u64)> {
        let record = self.nodes.get(&id.node).filter(|record| now_ns < record.until)?;
        let is_needed = is_small && record.why == Why::Removed;
        (!is_needed).then_some((record.why, record.until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(nodes: &[&str]) -> BTreeSet<MemberId> {
        nodes.iter().map(|node| MemberId::new(node, "1")).collect()
    }

    /// For how long a member of this node is kept out from `now_ns` on.
    fn time(failures: &Failures, node: &str, now_ns: u64) -> u64 {
        let kept = failures.keeps_out(&MemberId::new(node, "other"), now_ns, false);
        kept.map_or(0, |(_, until)| until - now_ns)
    }

    #[test]
    fn each_removal_keeps_a_member_out_for_longer() {
        let mut failures = Failures::default();
        let (both, one) = (set(&["a", "b"]), set(&["a"]));
        failures.follow(&both, 0, 100);
        assert_eq!(time(&failures, "b", 0), 0);
        let mut now_ns = 10;
        for expected in [100, 200, 400, 800, 1600, 3200, 6400, 6400] {
            failures.follow(&one, now_ns, 100);
            assert_eq!(time(&failures, "b", now_ns), expected);
            now_ns += 10;
            failures.follow(&both, now_ns, 100);
            now_ns += 10;
        }
        // It stays in the set for long, but not long enough.
        failures.follow(&both, now_ns + 12_000, 100);
        failures.follow(&one, now_ns + 12_000, 100);
        assert_eq!(time(&failures, "b", now_ns + 12_000), 6400);
        now_ns += 20_000;
        failures.follow(&both, now_ns, 100);
        failures.follow(&both, now_ns + 13_000, 100);
        failures.follow(&one, now_ns + 13_010, 100);
        assert_eq!(time(&failures, "b", now_ns + 13_010), 100);
    }

    #[test]
    fn a_small_set_takes_back_whom_it_removed_but_not_whom_it_waited_for_in_vain() {
        let mut failures = Failures::default();
        failures.note(&"b".into(), Why::Removed, 0, 100);
        failures.note(&"c".into(), Why::Unacknowledged, 0, 100);
        let kept = |node: &str, is_small| failures.keeps_out(&MemberId::new(node, "1"), 10, is_small);
        assert_eq!(kept("b", false), Some((Why::Removed, 100)));
        assert_eq!((kept("b", true), kept("c", true)), (None, Some((Why::Unacknowledged, 100))));
    }

    #[test]
    fn a_mended_disk_shortens_the_time() {
        let mut failures = Failures::default();
        (0..6).for_each(|_| failures.note(&"b".into(), Why::Unacknowledged, 0, 100));
        assert_eq!(time(&failures, "b", 0), 3200);
        failures.note_stuck(&"b".into(), 50, 100);
        failures.note_stuck(&"b".into(), 500, 100);
        assert_eq!(time(&failures, "b", 50), 100);
        failures.note(&"b".into(), Why::Unacknowledged, 600, 100);
        assert_eq!(time(&failures, "b", 600), 6400);
    }

    #[test]
    fn a_process_that_replaces_its_former_one_is_not_a_failure() {
        let mut failures = Failures::default();
        failures.follow(&set(&["a", "b"]), 0, 100);
        let restarted = [MemberId::new("a", "1"), MemberId::new("b", "2")].into();
        failures.follow(&restarted, 10, 100);
        assert_eq!(time(&failures, "b", 10), 0);
    }
}
