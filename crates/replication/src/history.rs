// SPDX-License-Identifier: BSD-3-Clause
//! Replication IDs and offsets.
//!
//! A replication ID names a history of changes; an offset counts the bytes of that history's
//! stream. A replica takes over the ID and the offsets of its primary, so that its own replicas,
//! and whichever replica is promoted, agree on both. The journal counts its own bytes from the
//! start of the process: [`History`] holds the difference.

/// Length of a replication ID, and of the mark behind a full sync.
pub const ID_LEN: usize = 40;

/// A new replication ID: random hex digits.
pub fn random_id() -> String {
    let mut random = fastrand::Rng::new();
    (0..ID_LEN).map(|_| random.digit(16)).collect()
}

/// The history that this server's dataset belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    id: String,
    /// The ID by which the part up to an offset was known before a failover.
    earlier: Option<(String, u64)>,
    /// The stream's offset where the journal's is 0. Negative if the journal was ahead.
    shift: i64,
}

impl Default for History {
    fn default() -> History {
        History { id: random_id(), earlier: None, shift: 0 }
    }
}

impl History {
    /// The present ID.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The ID before the last failover, and the offset up to which that history is this one's.
    pub fn earlier(&self) -> Option<(&str, u64)> {
        self.earlier.as_ref().map(|(id, until)| (id.as_str(), *until))
    }

    /// Begins a history that nobody knows: no replica can go on in it from elsewhere.
    pub fn begin_anew(&mut self) {
        (self.id, self.earlier) = (random_id(), None);
    }

    /// Goes on under a new ID from offset `at`; the history up to there keeps its old ID as well.
    pub fn branch(&mut self, at: u64) {
        self.rename(random_id(), at);
    }

    /// As [`History::branch`], with the ID that the primary has chosen.
    pub fn rename(&mut self, id: String, at: u64) {
        self.earlier = Some((std::mem::replace(&mut self.id, id), at));
    }

    /// Takes over another history: `offset` of it is where the journal ends now.
    pub fn adopt(&mut self, id: String, offset: u64, journal_end: u64) {
        (self.id, self.earlier) = (id, None);
        self.shift = (offset as i64).wrapping_sub(journal_end as i64);
    }

    /// As [`History::adopt`] for a primary that has restarted: its replicas may go on from where it
    /// ended, and what follows is another history.
    pub fn resume(&mut self, id: String, offset: u64, journal_end: u64) {
        self.adopt(id, offset, journal_end);
        self.branch(offset);
    }

    /// Whether the first `offset` bytes of the history named `id` are those of this one.
    pub fn contains(&self, id: &[u8], offset: u64) -> bool {
        id.eq_ignore_ascii_case(self.id.as_bytes())
            || self.earlier.as_ref().is_some_and(|(earlier, until)| {
                id.eq_ignore_ascii_case(earlier.as_bytes()) && offset <= *until
            })
    }

    /// The stream's offset at an offset of the journal.
    pub fn offset(&self, journal: u64) -> u64 {
        (journal as i64).wrapping_add(self.shift).max(0) as u64
    }

    /// The journal's offset at an offset of the stream; nothing if the journal began later.
    pub fn journal_offset(&self, offset: u64) -> Option<u64> {
        u64::try_from((offset as i64).wrapping_sub(self.shift)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promoted_replica_knows_two_ids() {
        let mut history = History::default();
        let primary = random_id();
        history.adopt(primary.clone(), 1000, 40);
        assert_eq!((history.offset(40), history.journal_offset(1000)), (1000, Some(40)));
        assert_eq!((history.offset(0), history.journal_offset(959)), (960, None));
        history.branch(1010);
        assert_eq!(history.earlier(), Some((&*primary, 1010)));
        assert!(history.contains(primary.as_bytes(), 1010));
        assert!(!history.contains(primary.as_bytes(), 1011), "the old primary went another way");
        assert!(history.contains(history.id().to_ascii_uppercase().as_bytes(), 5000));
        assert!(!history.contains(b"?", 0));
        assert_eq!(history.offset(50), 1010, "offsets go on");
    }

    #[test]
    fn the_journal_may_be_ahead_of_the_stream() {
        let mut history = History::default();
        history.adopt(random_id(), 10, 500);
        assert_eq!((history.offset(500), history.journal_offset(12)), (10, Some(502)));
        assert_eq!(history.offset(3), 0, "before the stream's begin");
    }
}
