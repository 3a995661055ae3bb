// SPDX-License-Identifier: BSD-3-Clause
//! How far the journal has been turned into units in the log on disk. These files are
//! authoritative at startup, so with `appendfsync always` a reply waits for them as well as for
//! the append-only file.
//!
//! The thread publishes its progress; loops ask it to hurry and check again when their bells
//! ring.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Longest wait before a waiting thread checks by itself.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct OnDisk {
    /// The journal is covered up to here.
    offset: AtomicU64,
    /// The log cannot be written at present.
    has_failed: AtomicBool,
    /// A reply waits, and the thread has not checked since.
    is_asked: AtomicBool,
    changed: Mutex<()>,
    told: Condvar,
}

impl OnDisk {
    pub(crate) fn offset(&self) -> u64 {
        self.offset.load(Relaxed)
    }

    /// Records the thread's progress.
    pub(super) fn note(&self, offset: u64) {
        self.has_failed.store(false, Relaxed);
        self.offset.fetch_max(offset, Relaxed);
        drop(self.changed.lock());
        self.told.notify_all();
    }

    pub(super) fn note_failure(&self) {
        self.has_failed.store(true, Relaxed);
        drop(self.changed.lock());
        self.told.notify_all();
    }

    /// Clears the question: the thread checks now.
    pub(super) fn take_request(&self) {
        self.is_asked.store(false, Relaxed);
    }

    /// Registers a question. True if the thread must be notified, since it has not been since its
    /// last check.
    pub(super) fn ask(&self) -> bool {
        !self.is_asked.swap(true, Relaxed)
    }

    /// Whether the log covers the journal up to an offset: `Some(false)` if the log cannot be
    /// written, `None` if the caller must wait.
    pub(super) fn progress(&self, offset: u64) -> Option<bool> {
        if self.offset() >= offset {
            return Some(true);
        }
        self.has_failed.load(Relaxed).then_some(false)
    }

    /// Waits up to [`LOOK`] for [`OnDisk::progress`] to have an outcome.
    pub(super) fn wait(&self, offset: u64) {
        let mut changed = self.changed.lock();
        if self.progress(offset).is_none() {
            self.told.wait_for(&mut changed, LOOK);
        }
    }
}
