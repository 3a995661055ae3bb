// SPDX-License-Identifier: BSD-3-Clause
//! State of the append-only file.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize};
use std::thread::JoinHandle;

use braid_base::clock::unix_ms;
use braid_clients::Mailboxes;
use braid_config::Config;
use braid_journal::Journal;
use braid_persistence::SnapshotProgress;
use braid_persistence::aof::{Appender, Manifest, PlaceOf};
use braid_spec::CommandError;
use parking_lot::{Condvar, Mutex};

/// State of the append-only file; shared by all threads.
pub struct AppendOnly {
    /// The file is on: changes are written to it.
    pub on: AtomicBool,
    /// The file existed at startup, and the dataset was loaded from it.
    pub was_loaded: AtomicBool,
    /// The writer's shared part.
    pub appender: Arc<Appender>,
    /// Changes go to an increment that the manifest does not name until the first base is complete.
    /// Changed with the lock on `state`.
    pub awaits_base: AtomicBool,
    /// A rewrite is running.
    pub rewriting: AtomicBool,
    /// A rewrite starts as soon as possible.
    pub scheduled: AtomicBool,
    /// The last rewrite failed.
    pub last_failed: AtomicBool,
    /// Duration of the last rewrite in seconds; -1 before the first.
    pub last_seconds: AtomicI64,
    /// Bytes of old forms that the last rewrite copied.
    pub last_copied_bytes: AtomicUsize,
    /// Rewrites started.
    pub rewrites: AtomicU64,
    /// Consecutive failed rewrites.
    pub failures: AtomicI64,
    /// Size of all files after the last rewrite, or at start, in bytes.
    pub base_size: AtomicU64,
    /// How often writers waited for the disk.
    pub delayed_syncs: AtomicU64,
    pub began_s: AtomicI64,
    /// Loops to ring when more is on disk, or writing has failed.
    pub loops: Mutex<Vec<usize>>,
    pub progress: SnapshotProgress,
    pub state: Mutex<State>,
    /// Notified when the journal has room again.
    pub room: Condvar,
    pub full: Mutex<bool>,
}

#[derive(Default)]
pub struct State {
    pub manifest: Manifest,
    /// The writer thread.
    pub writer: Option<JoinHandle<()>>,
    /// A stopped writer thread that is flushing.
    pub stopping: Option<JoinHandle<()>>,
}

impl AppendOnly {
    /// Creates the state of a file that is off. `on_failure` is called when writing fails (true)
    /// or works again (false), `on_sync` when more is on disk; `place_of` returns places in the
    /// replication history.
    pub fn new(
        on_failure: Box<dyn Fn(bool) + Send + Sync>,
        on_sync: Box<dyn Fn() + Send + Sync>,
        place_of: PlaceOf,
    ) -> AppendOnly {
        AppendOnly {
            on: AtomicBool::new(false),
            was_loaded: AtomicBool::new(false),
            appender: Arc::new(Appender::new(on_failure, on_sync, place_of)),
            awaits_base: AtomicBool::new(false),
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

    /// Whether a rewrite is running, and whether one is scheduled. Consistent: a scheduled rewrite
    /// is marked as running before its schedule is cleared, and a repeated one is scheduled before
    /// its run ends.
    pub fn rewrite_status(&self) -> (bool, bool) {
        let was_scheduled = self.scheduled.load(SeqCst);
        let is_rewriting = self.rewriting.load(SeqCst);
        (is_rewriting, was_scheduled || self.scheduled.load(SeqCst))
    }

    /// Duration of the current rewrite in seconds; -1 without one.
    pub fn current_seconds(&self) -> i64 {
        if self.rewriting.load(Relaxed) { unix_ms() / 1000 - self.began_s.load(Relaxed) } else { -1 }
    }

    /// The first base is not complete: the files are not the dataset yet.
    pub fn awaits_base(&self) -> bool {
        self.on.load(Relaxed) && self.awaits_base.load(SeqCst)
    }

    /// Keeps the set of data files unchanged while the guard is held; files may still grow.
    pub fn hold_files(&self) -> impl Drop + '_ {
        self.state.lock()
    }

    /// The error for writers while changes cannot be written to the file.
    pub fn refusal(&self) -> CommandError {
        let text = self.appender.failure().map_or_else(String::new, |failure| failure.text);
        CommandError::text(format!("MISCONF Errors writing to the AOF file: {text}"))
    }

    /// Joins a writer thread that has been asked to stop.
    pub fn wait_for_end_of_writer(&self) {
        let writer = self.state.lock().stopping.take();
        if let Some(writer) = writer {
            let _ = writer.join();
        }
    }

    /// Stops a rewrite and waits a limited time for its end, because it may be waiting for the
    /// caller. The caller must not have closed the gate.
    pub fn stop_rewrite(&self) {
        let mut rounds = 0;
        while self.rewriting.load(Relaxed) && rounds < 100 {
            self.progress.stop();
            std::thread::sleep(std::time::Duration::from_millis(10));
            rounds += 1;
        }
    }

    /// True if the files have grown enough since the last rewrite for another one.
    pub fn has_grown(&self, config: &Config) -> bool {
        let percentage = u64::from(config.auto_aof_rewrite_percentage());
        let size = self.appender.size();
        if percentage == 0 || size <= config.auto_aof_rewrite_min_size() {
            return false;
        }
        let base = self.base_size.load(Relaxed).max(1);
        let growth = (size * 100 / base).saturating_sub(100);
        if growth >= percentage {
            log::info!("Starting automatic rewriting of AOF on {growth}% growth");
        }
        growth >= percentage
    }

    /// Rings the loops that hold replies.
    pub fn ring_loops(&self, mailboxes: &Mailboxes) {
        for slot in self.loops.lock().drain(..) {
            mailboxes[slot].ring();
        }
    }

    /// True if everything is in the file on disk.
    pub fn is_complete(&self, journal: &Journal) -> bool {
        self.on.load(Relaxed) && !self.awaits_base() && self.appender.synced() >= journal.end()
    }

    /// The journal offset up to which the file on disk is complete; 0 if the file lacks a part of
    /// the dataset, or is off.
    pub fn synced(&self) -> u64 {
        let has_all = self.on.load(Relaxed) && !self.awaits_base();
        if has_all { self.appender.synced() } else { 0 }
    }
}
