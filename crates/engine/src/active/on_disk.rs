// SPDX-License-Identifier: BSD-3-Clause
//! How far the journal has become units in the log on disk. At the start these files count, so with
//! `appendfsync always` a reply waits for them as well as for the append-only file.
//!
//! The thread states how far it is; loops ask it to hurry, and look again when their bells ring.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// How long a thread that has to wait does so before it looks by itself.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(crate) struct OnDisk {
    /// The journal up to here.
    offset: AtomicU64,
    /// Nothing more can be written at present.
    has_failed: AtomicBool,
    /// A reply waits, and the thread has not looked since.
    is_asked: AtomicBool,
    changed: Mutex<()>,
    told: Condvar,
}

impl OnDisk {
    pub(crate) fn offset(&self) -> u64 {
        self.offset.load(Relaxed)
    }

    /// The thread has got so far.
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

    /// The thread looks now.
    pub(super) fn take_question(&self) {
        self.is_asked.store(false, Relaxed);
    }

    /// Whether the thread is to be told: it has not been since it looked last.
    pub(super) fn ask(&self) -> bool {
        !self.is_asked.swap(true, Relaxed)
    }

    /// Whether it goes up to an offset; false if nothing can be written, nothing if that has to be
    /// waited for.
    pub(super) fn progress(&self, offset: u64) -> Option<bool> {
        if self.offset() >= offset {
            return Some(true);
        }
        self.has_failed.load(Relaxed).then_some(false)
    }

    /// Waits a while for [`OnDisk::progress`] to say more.
    pub(super) fn wait(&self, offset: u64) {
        let mut changed = self.changed.lock();
        if self.progress(offset).is_none() {
            self.told.wait_for(&mut changed, LOOK);
        }
    }
}
