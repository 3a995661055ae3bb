// SPDX-License-Identifier: BSD-3-Clause
//! Replication IDs and offsets.
//!
//! A replication ID names a history of changes; an offset counts the bytes of that history's
//! stream. A replica takes over its primary's ID and offsets, so that its own replicas, and any
//! replica that is promoted, agree on both. The journal counts its bytes from the start of the
//! process; [`History`] holds the difference.

/// Length of a replication ID, and of the end mark of a full sync.
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
    /// The previous ID, valid up to this offset, from before the last failover.
    earlier: Option<(String, u64)>,
    /// The stream offset at journal offset 0. Negative if the journal was ahead.
    shift: i64,
    /// How often another history was taken over, with its dataset.
    dataset: u64,
}

impl Default for History {
    fn default() -> History {
        History { id: random_id(), earlier: None, shift: 0, dataset: 0 }
    }
}

impl History {
    /// The current ID.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The ID before the last failover, and the offset up to which that history is identical to
    /// this one.
    pub fn earlier(&self) -> Option<(&str, u64)> {
        self.earlier.as_ref().map(|(id, until)| (id.as_str(), *until))
    }

    /// Starts a new history, from which no other server can resume.
    pub fn begin_anew(&mut self) {
        (self.id, self.earlier) = (random_id(), None);
    }

    /// Continues under a new ID from offset `at`; up to there the old ID stays valid as well.
    pub fn branch(&mut self, at: u64) {
        self.rename(random_id(), at);
    }

    /// Like [`History::branch`], with an ID chosen by the primary.
    pub fn rename(&mut self, id: String, at: u64) {
        self.earlier = Some((std::mem::replace(&mut self.id, id), at));
    }

    /// Takes over another history, whose `offset` corresponds to the current end of the journal.
    pub fn adopt(&mut self, id: String, offset: u64, journal_end: u64) {
        (self.id, self.earlier) = (id, None);
        self.shift = (offset as i64).wrapping_sub(journal_end as i64);
        self.dataset += 1;
    }

    /// Like [`History::adopt`], for a primary that has restarted: its replicas may resume from
    /// where it stopped, and later changes belong to a new history.
    pub fn resume(&mut self, id: String, offset: u64, journal_end: u64) {
        self.adopt(id, offset, journal_end);
        self.branch(offset);
    }

    /// Whether the first `offset` bytes of history `id` are also the first bytes of this one.
    pub fn contains(&self, id: &[u8], offset: u64) -> bool {
        id.eq_ignore_ascii_case(self.id.as_bytes())
            || self.earlier.as_ref().is_some_and(|(earlier, until)| {
                id.eq_ignore_ascii_case(earlier.as_bytes()) && offset <= *until
            })
    }

    /// The stream offset for a journal offset.
    pub fn offset(&self, journal: u64) -> u64 {
        (journal as i64).wrapping_add(self.shift).max(0) as u64
    }

    /// The number of the current dataset: a full sync, or a load at start, begins another one.
    pub fn dataset(&self) -> u64 {
        self.dataset
    }

    /// The ID and the stream offset for a journal offset of this dataset; `None` if it has been
    /// replaced: the same journal offset may be in another history now.
    pub fn place(&self, dataset: u64, journal: u64) -> Option<(&str, u64)> {
        (dataset == self.dataset).then(|| (self.id(), self.offset(journal)))
    }

    /// The journal offset for a stream offset; `None` if it lies before the journal's start.
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
        assert!(!history.contains(primary.as_bytes(), 1011), "the old primary's stream diverged");
        assert!(history.contains(history.id().to_ascii_uppercase().as_bytes(), 5000));
        assert!(!history.contains(b"?", 0));
        assert_eq!(history.offset(50), 1010, "offsets continue");
    }

    #[test]
    fn places_belong_to_the_current_dataset() {
        let mut history = History::default();
        let former = history.dataset();
        assert_eq!(history.place(former, 40), Some((history.id(), 40)));
        let primary = random_id();
        history.adopt(primary.clone(), 1000, 40);
        assert_eq!(history.place(former, 40), None, "another dataset");
        let dataset = history.dataset();
        assert_eq!(history.place(dataset, 40), Some((&*primary, 1000)));
        history.branch(1010);
        assert_eq!(history.place(dataset, 45), Some((history.id(), 1005)), "shared with the old history");
    }

    #[test]
    fn the_journal_may_be_ahead_of_the_stream() {
        let mut history = History::default();
        history.adopt(random_id(), 10, 500);
        assert_eq!((history.offset(500), history.journal_offset(12)), (10, Some(502)));
        assert_eq!(history.offset(3), 0, "before the start of the stream");
    }
}
