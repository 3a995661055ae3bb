// SPDX-License-Identifier: BSD-3-Clause
//! Up to where in the journal enough replicas have a primary's changes (`min-sync-replicas`).
//!
//! The in-sync set may shrink below the minimum while replies wait. What the removed members had
//! not acknowledged by then is on too few servers, although nobody is left to wait for. Therefore
//! the set alone does not release a reply: the changes it reveals must have been on enough
//! replicas, once.
//!
//! It must never confirm a change that fewer replicas have had, however the set has changed since.

use std::collections::BTreeSet;

use crate::record::MemberId;

/// The confirmed part of a primary's journal, at one level (memory or disk).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Confirmed {
    /// One more than the last confirmed offset.
    until: u64,
}

impl Confirmed {
    /// A server becomes the primary with its journal ending at `end`: what it has counts as it did
    /// at its predecessor.
    pub fn begin(&mut self, end: u64) {
        self.until = end.saturating_add(1);
    }

    /// Takes in that every required member has acknowledged the journal up to just before
    /// `acknowledged` (`u64::MAX`: none is required), while the committed set has `size` servers,
    /// this one included. Returns one more than the offset up to which replies may be released.
    pub fn update(&mut self, acknowledged: u64, size: usize, minimum: usize) -> u64 {
        if is_small(size, minimum) {
            return self.until;
        }
        if acknowledged < u64::MAX {
            self.until = self.until.max(acknowledged);
        }
        acknowledged
    }

    /// The minimum is about to change; the journal ends at `end`. What was acknowledged under the
    /// old minimum remains so, also if no replica was required.
    pub fn note_minimum(&mut self, acknowledged: u64, size: usize, old: usize, end: u64) {
        if acknowledged == u64::MAX && !is_small(size, old) {
            self.begin(end.max(self.until.saturating_sub(1)));
        }
    }
}

/// The number of servers in a set: a restarted server may be in it twice, as its former process and
/// as the present one, and has the data once.
pub fn servers(in_sync: &BTreeSet<MemberId>) -> usize {
    in_sync.iter().map(|id| &id.node).collect::<BTreeSet<_>>().len()
}

/// True if a primary's committed in-sync set, this server included, has fewer than `minimum`
/// replicas. Without a set (`size` 0) there is no minimum.
pub fn is_small(size: usize, minimum: usize) -> bool {
    size > 0 && size - 1 < minimum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_set_confirms_nothing_more() {
        let mut confirmed = Confirmed::default();
        confirmed.begin(100);
        assert_eq!(confirmed.update(151, 2, 1), 151);
        // The only replica has been removed.
        assert_eq!(confirmed.update(u64::MAX, 1, 1), 151);
        // Another one is about to join, and has much more.
        assert_eq!(confirmed.update(900, 1, 1), 151);
        assert_eq!(confirmed.update(900, 2, 1), 900);
        // A member that is added later lacks some: only new replies wait for it.
        assert_eq!((confirmed.update(500, 3, 1), confirmed.update(u64::MAX, 1, 1)), (500, 900));
    }

    #[test]
    fn two_processes_of_one_server_are_one_server() {
        let set = [("a", "1"), ("c", "2"), ("c", "3")].map(|(node, run)| MemberId::new(node, run));
        assert_eq!(servers(&set.into()), 2);
    }

    #[test]
    fn a_changed_minimum_leaves_what_was_acknowledged() {
        let mut confirmed = Confirmed::default();
        confirmed.begin(0);
        assert_eq!(confirmed.update(u64::MAX, 1, 0), u64::MAX);
        confirmed.note_minimum(u64::MAX, 1, 0, 70);
        assert_eq!(confirmed.update(u64::MAX, 1, 1), 71);
        // Under a minimum that the set did not have, nothing was acknowledged.
        confirmed.note_minimum(u64::MAX, 1, 1, 200);
        assert_eq!(confirmed.update(u64::MAX, 1, 2), 71);
        assert!(!is_small(0, 3) && !is_small(3, 2) && is_small(2, 2));
    }
}
