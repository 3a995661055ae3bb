// SPDX-License-Identifier: BSD-3-Clause
//! State of a backup (BACKUP), and what may be asked of it when; the crate `durable` makes it.

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
    /// The thread that writes changes.
    pub writer: Option<JoinHandle<()>>,
}

impl Run {
    /// # Errors
    /// If there is a backup that is under way or sealed.
    pub fn may_start(&self) -> Result<(), &'static str> {
        match self.phase {
            Phase::Idle | Phase::Failed => Ok(()),
            Phase::Sealed => Err("ERR a sealed backup exists, remove it with BACKUP CLEANUP first"),
            _ => Err("ERR a backup is already in progress"),
        }
    }

    /// # Errors
    /// If no backup is under way, or it is sealed.
    pub fn may_abort(&self) -> Result<(), &'static str> {
        match self.phase {
            Phase::Pending | Phase::Snapshotting | Phase::Incrementing => Ok(()),
            Phase::Sealing | Phase::Sealed => Err("ERR the backup is sealed, use BACKUP CLEANUP"),
            Phase::Idle | Phase::Failed => Err("ERR no backup is in progress"),
        }
    }

    /// # Errors
    /// If no backup is under way, its base is not complete, or it is sealed.
    pub fn may_seal(&self) -> Result<(), &'static str> {
        match self.phase {
            Phase::Incrementing => Ok(()),
            Phase::Pending | Phase::Snapshotting => Err("ERR the snapshot of the backup is not complete yet"),
            Phase::Sealing | Phase::Sealed => Err("ERR the backup is already sealed"),
            Phase::Idle | Phase::Failed => Err("ERR no backup is in progress"),
        }
    }

    /// # Errors
    /// If there is no backup that is sealed or has failed.
    pub fn may_clean_up(&self) -> Result<(), &'static str> {
        match self.phase {
            Phase::Sealed | Phase::Failed => Ok(()),
            _ => Err("ERR there is no sealed or failed backup"),
        }
    }

    /// Begins another backup, and returns its number.
    pub fn begin(&mut self, folder: Folder, now_s: i64) -> u64 {
        self.reset();
        self.number += 1;
        (self.phase, self.start_s, self.folder) = (Phase::Pending, now_s, Some(folder));
        self.number
    }

    /// Forgets the backup. The writer of one that failed may not have ended yet.
    pub fn reset(&mut self) {
        *self = Run { number: self.number, writer: self.writer.take(), ..Run::default() };
    }

    /// True if the backup of this number is at this point.
    pub fn is_at(&self, number: u64, phase: Phase) -> bool {
        self.number == number && self.phase == phase
    }

    /// Ends a backup that is not sealed, of this number if one is given. False if there is none.
    pub fn fail(&mut self, number: Option<u64>, why: &str) -> bool {
        let fails = self.phase.is_under_way() && number.is_none_or(|number| number == self.number);
        if fails {
            (self.phase, self.error) = (Phase::Failed, why.to_owned());
        }
        fails
    }

    /// Paths of the files that are complete: the base, and of a sealed backup all.
    pub fn files(&self) -> Vec<PathBuf> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let data = self.manifest.data().map(|(_, info)| folder.path(&info.name));
        match self.phase {
            Phase::Incrementing | Phase::Sealing => data.take(1).collect(),
            Phase::Sealed => data.chain([folder.manifest_path()]).collect(),
            _ => Vec::new(),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What may be asked for: start, abort, seal, clean up.
    fn allowed(run: &Run) -> [bool; 4] {
        [run.may_start(), run.may_abort(), run.may_seal(), run.may_clean_up()].map(|answer| answer.is_ok())
    }

    #[test]
    fn a_backup_goes_from_phase_to_phase() {
        let mut run = Run::default();
        assert_eq!((allowed(&run), run.files().len()), ([true, false, false, false], 0));
        assert!(!run.fail(None, "nothing is there"));
        let number = run.begin(Folder::new("/backups", "file"), 5);
        assert!(run.is_at(number, Phase::Pending) && run.start_s == 5);
        run.manifest.begin_incr("file");
        run.manifest.begin_base("file", true);
        for (phase, expected, files) in [
            (Phase::Pending, [false, true, false, false], 0),
            (Phase::Snapshotting, [false, true, false, false], 0),
            (Phase::Incrementing, [false, true, true, false], 1),
            (Phase::Sealing, [false, false, false, false], 1),
            (Phase::Sealed, [false, false, false, true], 3),
        ] {
            run.phase = phase;
            assert_eq!((allowed(&run), run.files().len()), (expected, files), "{phase:?}");
        }
        assert!(run.files()[0].ends_with("file.1.base.rdb") && run.files()[2].ends_with("file.manifest"));
        assert!(!run.fail(None, "it is too late"));
        run.reset();
        assert!(run.is_at(number, Phase::Idle) && run.folder.is_none() && run.start_s == 0);
    }

    #[test]
    fn a_thread_of_an_earlier_backup_ends_no_later_one() {
        let mut run = Run::default();
        let first = run.begin(Folder::new("/backups", "file"), 5);
        assert!(run.fail(Some(first), "no room"));
        assert_eq!((allowed(&run), &*run.error), ([true, false, false, true], "no room"));
        let second = run.begin(Folder::new("/backups", "file"), 6);
        assert!(!run.fail(Some(first), "late") && run.is_at(second, Phase::Pending));
        assert!(run.error.is_empty() && run.fail(None, "aborted"));
    }
}
