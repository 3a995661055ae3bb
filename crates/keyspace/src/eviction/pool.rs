// SPDX-License-Identifier: BSD-3-Clause
//! The pool of eviction candidates: the best of all keys that a thread has sampled, kept from one
//! eviction to the next.
//!
//! Each thread has its own pool, so no lock is needed. Candidates are only hints: any thread may
//! have used, changed or removed the keys since. Before a key is evicted it is looked up under its
//! lock and compared with its [`Candidate::stamp`].

use super::Policy;

/// Capacity of the pool.
pub(super) const SIZE: usize = 16;

/// A candidate for eviction, as it was when sampled.
pub(super) struct Candidate {
    /// The largest score is evicted first.
    score: u64,
    /// The input of the score: the access clock, or the expiry.
    pub(super) stamp: u64,
    pub(super) db: u32,
    pub(super) key: Vec<u8>,
}

/// Candidates in ascending order of score.
#[derive(Default)]
pub struct Pool {
    /// The policy by which the scores were computed.
    policy: Option<Policy>,
    candidates: Vec<Candidate>,
    /// Nothing is looked for before this time.
    pub(super) rests_until_ms: i64,
}

impl Pool {
    /// Drops candidates of another policy, whose scores are not comparable.
    pub(super) fn prepare(&mut self, policy: Policy) {
        if self.policy != Some(policy) {
            *self = Pool { policy: Some(policy), candidates: Vec::with_capacity(SIZE), rests_until_ms: 0 };
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.candidates.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.candidates.len() >= SIZE
    }

    /// Adds a key if the pool has room or a candidate with a lower score, which the key then
    /// replaces.
    pub(super) fn offer(&mut self, score: u64, stamp: u64, db: u32, key: &[u8]) {
        let is_full = self.is_full();
        if is_full && self.candidates.first().is_some_and(|worst| score <= worst.score) {
            return;
        }
        let mut at = self.candidates.partition_point(|candidate| candidate.score < score);
        // Already sampled: the score is the same unless the key was used since.
        let same = self.candidates[at..].iter().take_while(|candidate| candidate.score == score);
        if same.into_iter().any(|candidate| candidate.db == db && candidate.key == key) {
            return;
        }
        let mut name = if is_full {
            at -= 1;
            self.candidates.remove(0).key
        } else {
            Vec::new()
        };
        name.clear();
        name.extend_from_slice(key);
        self.candidates.insert(at, Candidate { score, stamp, db, key: name });
    }

    /// Removes and returns the best candidate.
    pub(super) fn take_best(&mut self) -> Option<Candidate> {
        self.candidates.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool() -> Pool {
        let mut pool = Pool::default();
        pool.prepare(Policy::AllKeysLru);
        pool
    }

    fn taken(pool: &mut Pool) -> Vec<u64> {
        std::iter::from_fn(|| pool.take_best()).map(|candidate| candidate.stamp).collect()
    }

    #[test]
    fn best_candidates_are_kept_and_taken_in_order() {
        for seed in 0..100 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut pool = pool();
            let mut offered: Vec<u64> = (0..random.usize(0..100)).map(|_| random.u64(0..50)).collect();
            for (n, &score) in offered.iter().enumerate() {
                pool.offer(score, score, 0, n.to_string().as_bytes());
            }
            offered.sort_unstable_by(|one, other| other.cmp(one));
            offered.truncate(SIZE);
            assert_eq!(taken(&mut pool), offered, "seed {seed}");
        }
    }

    #[test]
    fn a_key_that_is_sampled_twice_stands_there_once() {
        let mut pool = pool();
        for _ in 0..3 {
            pool.offer(7, 7, 0, b"k");
            pool.offer(7, 7, 0, b"other");
            pool.offer(7, 7, 1, b"k");
        }
        assert_eq!(taken(&mut pool), [7, 7, 7]);
    }

    #[test]
    fn another_policy_begins_with_an_empty_pool() {
        let mut pool = pool();
        pool.offer(7, 7, 0, b"k");
        pool.prepare(Policy::AllKeysLru);
        assert!(!pool.is_empty());
        pool.prepare(Policy::VolatileTtl);
        assert!(pool.is_empty());
    }
}
