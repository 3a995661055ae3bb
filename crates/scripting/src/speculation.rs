// SPDX-License-Identifier: BSD-3-Clause
//! Speculation history: whether a speculative run of a script is worth trying.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// The outcomes of a script's past runs. Shared by all threads; a lost update is harmless.
#[derive(Default)]
pub struct SpeculationHistory {
    /// Runs that needed undeclared keys.
    undeclared: AtomicU32,
    /// Number of upcoming runs that must stop the world.
    alone_runs: AtomicU32,
}

impl SpeculationHistory {
    /// True if a run under the locks of the declared keys is worth trying.
    pub fn may_try(&self) -> bool {
        let alone_runs = self.alone_runs.load(Relaxed);
        if alone_runs > 0 {
            self.alone_runs.store(alone_runs - 1, Relaxed);
        }
        alone_runs == 0
    }

    /// A run reached an undeclared key: the next runs stop the world, more of them each time.
    pub fn note_undeclared(&self) {
        let undeclared = self.undeclared.load(Relaxed).saturating_add(1);
        self.undeclared.store(undeclared, Relaxed);
        self.alone_runs.store(64 << undeclared.min(10), Relaxed);
    }
}
