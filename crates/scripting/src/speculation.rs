// SPDX-License-Identifier: BSD-3-Clause
//! Whether a script is worth a speculative run under the locks of its declared keys.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// What a script has been seen to do. Shared by all threads; to miss an update does no harm.
#[derive(Default)]
pub struct SpeculationHistory {
    /// Runs that needed more than the declared keys.
    strays: AtomicU32,
    /// Runs that are still to be made with the world stopped.
    wary: AtomicU32,
}

impl SpeculationHistory {
    /// Whether a run under the locks of the declared keys is worth trying.
    pub fn may_try(&self) -> bool {
        let wary = self.wary.load(Relaxed);
        if wary > 0 {
            self.wary.store(wary - 1, Relaxed);
        }
        wary == 0
    }

    /// A run has strayed: the next ones are made alone, more of them each time.
    pub fn note_stray(&self) {
        let strays = self.strays.load(Relaxed).saturating_add(1);
        self.strays.store(strays, Relaxed);
        self.wary.store(64 << strays.min(10), Relaxed);
    }
}
