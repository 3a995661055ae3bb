//! States in which commands need more than the usual checks, as bits of one word that every thread reads once per command.

use std::sync::atomic::{AtomicU32, Ordering};

/// Clients are paused.
pub const PAUSED: u32 = 1;
/// There is a memory limit.
pub const MEMORY_LIMIT: u32 = 2;

/// The dataset is saved for the end of the server: nothing is executed any more.
pub const STOPPING: u32 = 4;

/// The dataset is being loaded: only commands that say they work meanwhile do.
pub const LOADING: u32 = 8;

/// The dataset could not be saved: nothing may be written until it can.
pub const WRITES_REFUSED: u32 = 1 << 8;

/// Writers are ahead of the snapshot in progress: they wait.
pub const SNAPSHOT_FULL: u32 = 1 << 9;

/// The word.
#[derive(Default)]
pub struct Attention(AtomicU32);

impl Attention {
    /// What is on.
    #[inline]
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Switches a state on or off.
    pub fn set(&self, bit: u32, on: bool) {
        if on {
            self.0.fetch_or(bit, Ordering::Relaxed);
        } else {
            self.0.fetch_and(!bit, Ordering::Relaxed);
        }
    }
}
