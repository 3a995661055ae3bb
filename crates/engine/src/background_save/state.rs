// SPDX-License-Identifier: BSD-3-Clause
//! What is known of saves in the background.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use std::thread::JoinHandle;

use braid_base::clock::unix_ms;
use braid_persistence::{OldForms, SnapshotProgress};
use parking_lot::Mutex;

/// What is known of saves in the background. Anyone may read it.
pub struct BackgroundSave {
    /// One is under way.
    pub active: AtomicBool,
    /// One is to begin as soon as possible.
    pub scheduled: AtomicBool,
    /// How the last one ended.
    pub last_failed: AtomicBool,
    /// Seconds that the last one took; -1 before the first.
    pub last_seconds: AtomicI64,
    /// Unix time at which the present one, or the last one, began, in seconds.
    pub began_s: AtomicI64,
    /// Bytes of old forms that the last one had copied.
    pub last_copied_bytes: AtomicUsize,
    /// Keys at the cut.
    pub keys: AtomicU64,
    /// How the present one is getting on.
    pub progress: SnapshotProgress,
    pub(crate) forms: Arc<OldForms>,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
}

impl BackgroundSave {
    /// Nothing is under way. `on_full` is called when old forms take too much memory (true), or no longer.
    pub(crate) fn new(on_full: Box<dyn Fn(bool) + Send + Sync>) -> BackgroundSave {
        BackgroundSave {
            active: AtomicBool::new(false),
            scheduled: AtomicBool::new(false),
            last_failed: AtomicBool::new(false),
            last_seconds: AtomicI64::new(-1),
            began_s: AtomicI64::new(0),
            last_copied_bytes: AtomicUsize::new(0),
            keys: AtomicU64::new(0),
            progress: SnapshotProgress::default(),
            forms: Arc::new(OldForms::new(on_full)),
            thread: Mutex::new(None),
        }
    }

    /// Seconds that the present one has taken so far; -1 without one.
    pub fn current_seconds(&self) -> i64 {
        if self.active.load(Relaxed) { unix_ms() / 1000 - self.began_s.load(Relaxed) } else { -1 }
    }

    /// Bytes of old forms of entries that the present snapshot, for whomever, has had copied.
    pub fn copied_bytes(&self) -> usize {
        self.forms.kept_bytes()
    }

    /// Bytes that old forms of entries take now.
    pub fn old_form_bytes(&self) -> usize {
        self.forms.bytes()
    }
}
