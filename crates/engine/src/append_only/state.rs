// SPDX-License-Identifier: BSD-3-Clause
//! What is known of the append-only file.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use std::thread::JoinHandle;

use braid_base::clock::unix_ms;
use braid_persistence::SnapshotProgress;
use braid_persistence::aof::{Appender, Manifest};
use braid_spec::CommandError;
use parking_lot::{Condvar, Mutex};

/// What is known of the append-only file. Anyone may read it.
pub struct AppendOnly {
    /// Changes are written to it.
    pub on: AtomicBool,
    /// Replies wait until what they tell is on disk (`appendfsync always`).
    pub waits: AtomicBool,
    /// The write side.
    pub appender: Arc<Appender>,
    /// A rewrite is under way.
    pub rewriting: AtomicBool,
    /// A rewrite is to begin as soon as possible.
    pub scheduled: AtomicBool,
    /// How the last rewrite ended.
    pub last_failed: AtomicBool,
    /// Seconds that the last rewrite took; -1 before the first.
    pub last_seconds: AtomicI64,
    /// Bytes of old forms that the last rewrite had copied.
    pub last_copied_bytes: AtomicUsize,
    /// Rewrites begun.
    pub rewrites: AtomicU64,
    /// Rewrites that have failed since one succeeded.
    pub failures: AtomicI64,
    /// Bytes of all files after the last rewrite, or at the start.
    pub base_size: AtomicU64,
    /// Times that those who write had to wait for the disk.
    pub delayed_syncs: AtomicU64,
    pub(super) began_s: AtomicI64,
    /// Loops whose bells are to be rung when more is on disk, or cannot be.
    pub(super) loops: Mutex<Vec<usize>>,
    pub(super) progress: SnapshotProgress,
    pub(super) state: Mutex<State>,
    /// Told when there is room in the journal again.
    pub(super) room: Condvar,
    pub(super) full: Mutex<bool>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) manifest: Manifest,
    /// The thread that writes.
    pub(super) writer: Option<JoinHandle<()>>,
    /// One that writes what is left, and ends.
    pub(super) stopping: Option<JoinHandle<()>>,
    /// Changes are gathered in a file that the manifest does not name, until the first base is complete.
    pub(super) awaits_base: bool,
}

impl AppendOnly {
    /// Switched off. `on_failure` is called when writing fails (true) or works again, `on_sync`
    /// when more is on disk.
    pub(crate) fn new(
        on_failure: Box<dyn Fn(bool) + Send + Sync>,
        on_sync: Box<dyn Fn() + Send + Sync>,
    ) -> AppendOnly {
        AppendOnly {
            on: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            appender: Arc::new(Appender::new(on_failure, on_sync)),
            rewriting: AtomicBool::new(false),
            scheduled: AtomicBool::new(false),
            last_failed: AtomicBool::new(false),
            last_seconds: AtomicI64::new(-1),
            last_copied_bytes: AtomicUsize::new(0),
            rewrites: AtomicU64::new(0),
            failures: AtomicI64::new(0),
            base_size: AtomicU64::new(0),
            delayed_syncs: AtomicU64::new(0),
            began_s: AtomicI64::new(0),
            loops: Mutex::default(),
            progress: SnapshotProgress::default(),
            state: Mutex::default(),
            room: Condvar::new(),
            full: Mutex::new(false),
        }
    }

    /// Whether a rewrite is under way, and whether one is scheduled, so that neither is missed when
    /// a scheduled one begins or one under way has to be repeated: a rewrite begins before it is
    /// not scheduled any more, and is scheduled again before it ends.
    pub fn rewrite_status(&self) -> (bool, bool) {
        let was_scheduled = self.scheduled.load(SeqCst);
        let is_rewriting = self.rewriting.load(SeqCst);
        (is_rewriting, was_scheduled || self.scheduled.load(SeqCst))
    }

    /// Seconds that the present rewrite has taken so far; -1 without one.
    pub fn current_seconds(&self) -> i64 {
        if self.rewriting.load(Relaxed) { unix_ms() / 1000 - self.began_s.load(Relaxed) } else { -1 }
    }

    /// Changes are gathered, but there is no base for them yet: what is on disk is not the dataset.
    pub fn awaits_base(&self) -> bool {
        self.on.load(Relaxed) && self.state.lock().awaits_base
    }

    /// Has the files that make up the dataset stay as they are while the guard is held; they may still grow.
    pub(crate) fn hold_files(&self) -> impl Drop + '_ {
        self.state.lock()
    }

    /// The error for those who want to write while changes cannot be written to the file.
    pub fn refusal(&self) -> CommandError {
        let text = self.appender.failure().map_or_else(String::new, |failure| failure.text);
        CommandError::text(format!("MISCONF Errors writing to the AOF file: {text}"))
    }
}
