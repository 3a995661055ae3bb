// SPDX-License-Identifier: BSD-3-Clause
//! Attention word: server states in which commands need more than the usual checks, as bits of one
//! word that every thread reads once per command.

use std::sync::atomic::{AtomicU64, Ordering};

/// Clients are paused.
pub const PAUSED: u64 = 1;
/// `maxmemory` is set.
pub const MEMORY_LIMIT: u64 = 2;

/// The dataset is being saved for shutdown: commands are no longer executed.
pub const STOPPING: u64 = 4;

/// The dataset is being loaded: only commands with the flag `loading` are allowed.
pub const LOADING: u64 = 8;

/// Another dataset is being loaded while the current one is served: commands that would disturb
/// the load are refused.
pub const LOADING_BESIDE: u64 = 1 << 4;

/// Keys are being migrated to other servers: commands that change them wait.
pub const MIGRATES: u64 = 1 << 5;

/// This server is a replica: clients that support redirections are redirected to its primary.
pub const REPLICA: u64 = 1 << 6;

/// The dataset could not be saved: writes are refused until a save succeeds.
pub const WRITES_REFUSED: u64 = 1 << 8;

/// Writers are ahead of the running snapshot and must wait.
pub const SNAPSHOT_FULL: u64 = 1 << 9;

/// The append-only file cannot be written: writes are refused until it can be.
pub const APPEND_ONLY_FAILED: u64 = 1 << 11;

/// Writers are ahead of the append-only file and must wait.
pub const JOURNAL_FULL: u64 = 1 << 12;

/// Too few replicas keep up (`min-replicas-to-write`).
pub const FEW_REPLICAS: u64 = 1 << 13;

/// Clients are in MONITOR mode.
pub const MONITORS: u64 = 1 << 10;

/// The in-sync set is smaller than `min-sync-replicas`.
pub const FEW_IN_SYNC: u64 = 1 << 16;

/// This server was the primary of its group, and clients from that time are still connected.
pub const FORMER_PRIMARY: u64 = 1 << 17;
/// This server is one of several cluster nodes: slots may be elsewhere.
pub const OTHER_NODES: u64 = 1 << 18;

/// Slots are being handed over to another node: commands that reach them wait.
pub const HELD_SLOTS: u64 = 1 << 19;

/// Costs per slot are counted (`cluster-slot-stats-enabled`).
pub const SLOT_STATS: u64 = 1 << 20;

/// There are change feeds: writes to their names are refused.
pub const FEEDS: u64 = 1 << 21;

/// This server may not serve at present. Never set in the shared word: each thread checks for it
/// once per batch.
pub const FENCED: u64 = 1 << 7;

/// Read-only replica.
pub const READ_ONLY: u64 = 1 << 14;

/// Replica without a link to its primary that does not serve stale data.
pub const STALE: u64 = 1 << 15;

/// The state bits. The bits above count changes of users, so one comparison shows a session that
/// no state is set and that its user is unchanged.
const STATES: u64 = GENERATION - 1;
/// Increment of the generation of users.
const GENERATION: u64 = 1 << 22;

/// The attention word.
#[derive(Default)]
pub struct Attention(AtomicU64);

impl Attention {
    /// The states and the generation of users.
    #[inline]
    pub fn word(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// The states.
    #[inline]
    pub fn get(&self) -> u64 {
        self.word() & STATES
    }

    /// The generation of users, as in a word without states. Must be read before the users.
    #[inline]
    pub fn generation(&self) -> u64 {
        self.0.load(Ordering::Acquire) & !STATES
    }

    /// Announces changed users: all sessions refresh theirs.
    pub fn next_generation(&self) {
        self.0.fetch_add(GENERATION, Ordering::AcqRel);
    }

    /// Sets or clears a state.
    pub fn set(&self, bit: u64, on: bool) {
        if on {
            self.0.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.0.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}
