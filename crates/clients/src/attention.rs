// SPDX-License-Identifier: BSD-3-Clause
//! States in which commands need more than the usual checks, as bits of one word that every thread
//! reads once per command.

use std::sync::atomic::{AtomicU64, Ordering};

/// Clients are paused.
pub const PAUSED: u64 = 1;
/// There is a memory limit.
pub const MEMORY_LIMIT: u64 = 2;

/// The dataset is saved for the end of the server: nothing is executed any more.
pub const STOPPING: u64 = 4;

/// The dataset is being loaded: only commands that say they work meanwhile do.
pub const LOADING: u64 = 8;

/// A dataset is being loaded beside the present one, which is served: commands that would disturb
/// that are refused.
pub const LOADING_BESIDE: u64 = 1 << 4;

/// Keys are on their way to other servers: commands that change them wait.
pub const MIGRATES: u64 = 1 << 5;

/// The dataset could not be saved: nothing may be written until it can.
pub const WRITES_REFUSED: u64 = 1 << 8;

/// Writers are ahead of the snapshot in progress: they wait.
pub const SNAPSHOT_FULL: u64 = 1 << 9;

/// Changes cannot be written to the append-only file: nothing may be changed until they can.
pub const APPEND_ONLY_FAILED: u64 = 1 << 11;

/// Writers are ahead of the append-only file: they wait.
pub const JOURNAL_FULL: u64 = 1 << 12;

/// Fewer replicas keep up than there must be for writing to be allowed.
pub const FEW_REPLICAS: u64 = 1 << 13;

/// Clients are told of every command.
pub const MONITORS: u64 = 1 << 10;

/// A replica that refuses writes.
pub const READ_ONLY: u64 = 1 << 14;

/// A replica without a link to its primary that does not serve old data.
pub const STALE: u64 = 1 << 15;

/// The bits of states. Those above count the changes of users, so that one comparison tells a
/// session that nothing is on and its user is as it was.
const STATES: u64 = GENERATION - 1;
/// One generation of users.
const GENERATION: u64 = 1 << 16;

/// The word.
#[derive(Default)]
pub struct Attention(AtomicU64);

impl Attention {
    /// What is on, and the generation of users.
    #[inline]
    pub fn word(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// What is on.
    #[inline]
    pub fn get(&self) -> u64 {
        self.word() & STATES
    }

    /// The generation of users, as the word has it when nothing is on. To be read before users are.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.0.load(Ordering::Acquire) & !STATES
    }

    /// Users have changed: all sessions look theirs up again.
    pub fn next_generation(&self) {
        self.0.fetch_add(GENERATION, Ordering::AcqRel);
    }

    /// Switches a state on or off.
    pub fn set(&self, bit: u64, on: bool) {
        if on {
            self.0.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.0.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}
