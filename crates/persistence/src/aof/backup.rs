// SPDX-License-Identifier: BSD-3-Clause
//! State of a backup (BACKUP); the crate `durable` makes it.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use super::{Appender, Folder, Manifest};
use crate::snapshot::SnapshotProgress;

/// How far a backup is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    #[default]
    Idle,
    /// Waits until no other snapshot is being written.
    Pending,
    /// The base is being written, and changes since then.
    Snapshotting,
    /// The base is complete; changes go on being written.
    Incrementing,
    /// The last changes are being written.
    Sealing,
    Sealed,
    Failed,
}

impl Phase {
    /// The name in BACKUP STATUS.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Pending => "pending",
            Phase::Snapshotting => "snapshotting",
            Phase::Incrementing | Phase::Sealing => "incrementing",
            Phase::Sealed => "sealed",
            Phase::Failed => "failed",
        }
    }

    /// True from BACKUP START until the backup is sealed or has failed.
    pub const fn is_under_way(self) -> bool {
        matches!(self, Phase::Pending | Phase::Snapshotting | Phase::Incrementing | Phase::Sealing)
    }
}

/// The last backup.
#[derive(Default)]
pub struct Run {
    /// Counts the backups of this process: a thread of an earlier one must not touch this one.
    pub number: u64,
    pub phase: Phase,
    /// Why it has failed; empty otherwise.
    pub error: String,
    /// Unix times in seconds; 0 if it has not come to that.
    pub start_s: i64,
    pub end_s: i64,
    pub folder: Option<Folder>,
    pub manifest: Manifest,
    /// Paths of the files that are complete.
    pub files: Vec<PathBuf>,
    /// The thread that writes changes.
    pub writer: Option<JoinHandle<()>>,
}

/// State of backups; shared by all threads.
pub struct Backup {
    pub run: Mutex<Run>,
    /// Notified when the phase changes.
    pub changed: Condvar,
    pub progress: SnapshotProgress,
    /// Writes changes, as the append-only file's own does.
    pub appender: Arc<Appender>,
}

impl Default for Backup {
    fn default() -> Backup {
        // Failures are looked for, and no client waits. The files name no place in the replication
        // history: a server that is restored is another one.
        let appender = Appender::new(Box::new(|_| ()), Box::new(|| ()), Box::new(|_, _| None));
        Backup {
            run: Mutex::default(),
            changed: Condvar::new(),
            progress: SnapshotProgress::default(),
            appender: Arc::new(appender),
        }
    }
}

impl Backup {
    pub fn phase(&self) -> Phase {
        self.run.lock().phase
    }
}
