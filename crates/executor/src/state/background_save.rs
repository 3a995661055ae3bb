// SPDX-License-Identifier: BSD-3-Clause
//! State of background saves.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use std::thread::JoinHandle;

use braid_base::clock::unix_ms;
use braid_keyspace::{Context, Keyspace};
use braid_persistence::{OldForms, SnapshotProgress};
use parking_lot::Mutex;

/// State of background saves; shared by all threads.
pub struct BackgroundSave {
    /// A save is running.
    pub active: AtomicBool,
    /// A save starts as soon as possible.
    pub scheduled: AtomicBool,
    /// The last save failed.
    pub last_failed: AtomicBool,
    /// Duration of the last save in seconds; -1 before the first.
    pub last_seconds: AtomicI64,
    /// Unix time at which the current or last save started, in seconds.
    pub began_s: AtomicI64,
    /// Bytes of old forms that the last save copied.
    pub last_copied_bytes: AtomicUsize,
    /// Keys at the cut.
    pub keys: AtomicU64,
    /// Progress of the current save.
    pub progress: SnapshotProgress,
    pub forms: Arc<OldForms>,
    pub thread: Mutex<Option<JoinHandle<()>>>,
}

impl BackgroundSave {
    /// Creates the state without a save. `on_full` is called when old forms exceed their memory
    /// limit (true), or no longer (false).
    pub fn new(on_full: Box<dyn Fn(bool) + Send + Sync>) -> BackgroundSave {
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

    /// Cancels the save: its file will not replace the dump file. The thread may run on for a
    /// while.
    pub fn stop(&self) {
        if self.active.load(Relaxed) {
            self.progress.stop();
        }
    }

    /// Waits until a running snapshot has room for old forms again. No lock may be held. The thread
    /// leaves the gate meanwhile, and stays outside if a script has stopped the world for long.
    pub fn wait_for_room(&self, keyspace: &Keyspace, context: &mut Context) {
        keyspace.gate.leave(context.slot);
        context.outside = true;
        self.forms.wait_for_room();
        keyspace.reenter_gate(context);
    }

    /// Duration of the current save in seconds; -1 without one.
    pub fn current_seconds(&self) -> i64 {
        if self.active.load(Relaxed) { unix_ms() / 1000 - self.began_s.load(Relaxed) } else { -1 }
    }

    /// Bytes of old forms copied for the current snapshot, whatever its purpose.
    pub fn copied_bytes(&self) -> usize {
        self.forms.kept_bytes()
    }

    /// Bytes currently used by old forms of entries.
    pub fn old_form_bytes(&self) -> usize {
        self.forms.bytes()
    }
}
