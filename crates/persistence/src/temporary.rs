// SPDX-License-Identifier: BSD-3-Clause
//! Incomplete files: their names, and their removal when their process has died.
//!
//! A name contains the process ID, and the file is locked while it is open. [`remove_left_over`]
//! removes a file only if its process is dead and no process has it locked: with containers that
//! share a folder the ID alone proves nothing.

use std::io;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, test_kill_process};

use crate::files::{self, File};

/// The purpose of a temporary file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A save with the world stopped. The name is that of Redis, so [`remove_left_over`] ignores
    /// such files.
    Save,
    /// A save in the background, or a rewrite of the append-only file.
    Snapshot,
    /// A full sync to replicas.
    FullSync,
    /// A full sync from the primary.
    Received,
}

impl Purpose {
    const ALL: [Purpose; 4] = [Purpose::Save, Purpose::Snapshot, Purpose::FullSync, Purpose::Received];

    fn tag(self) -> &'static str {
        match self {
            Purpose::Save => "",
            Purpose::Snapshot => "snapshot-",
            Purpose::FullSync => "copy-",
            Purpose::Received => "sync-",
        }
    }
}

/// The name of this process's temporary file in a folder.
pub fn temporary_path(folder: &Path, purpose: Purpose) -> PathBuf {
    folder.join(format!("temp-{}{}.rdb", purpose.tag(), std::process::id()))
}

/// Creates a temporary file, locked until it is closed.
///
/// # Errors
/// If the file cannot be created. A file system without locks is no error.
pub fn create_temporary(path: &Path) -> io::Result<File> {
    let file = files::create(path)?;
    // Not every file system supports locks. Without them [`remove_left_over`] keeps the file.
    let _ = file.try_lock();
    Ok(file)
}

/// Removes the incomplete files of this process, which is about to end.
pub fn remove_unfinished(folder: &Path) {
    for purpose in Purpose::ALL {
        // Usually there is none.
        let _ = std::fs::remove_file(temporary_path(folder, purpose));
    }
}

/// Removes incomplete files of dead processes. Must be called at startup, before this process
/// writes to the folder.
pub fn remove_left_over(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(process_of) else { continue };
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && !is_alive(pid) && !is_locked(&entry.path()) {
            log::info!("Removing {}, left over by process {pid}", name.display());
            files::remove(&entry.path());
        }
    }
}

/// The process ID in the name of a temporary file; `None` for names that Redis also uses.
fn process_of(name: &str) -> Option<u32> {
    let rest = name.strip_prefix("temp-")?.strip_suffix(".rdb")?;
    let mut tags = Purpose::ALL.iter().map(|purpose| purpose.tag()).filter(|tag| !tag.is_empty());
    let digits = tags.find_map(|tag| rest.strip_prefix(tag))?;
    let pid = digits.parse().ok()?;
    // Exactly as written: no sign, no leading zeros.
    (digits == format!("{pid}")).then_some(pid)
}

/// True if another process with this ID is alive. An equal ID means a dead process: this one has
/// written nothing yet.
fn is_alive(pid: u32) -> bool {
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let is_missing = |pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH);
    pid != std::process::id() && raw.is_some_and(|pid| !is_missing(pid))
}

/// True if a file is locked, or if that cannot be determined.
fn is_locked(path: &Path) -> bool {
    !files::open(path).is_ok_and(|file| file.try_lock().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_temporary_files_of_dead_processes_are_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        // No process ID exceeds the kernel's limit.
        let (dead, living, own) = (999_999_999, std::os::unix::process::parent_id(), std::process::id());
        let left_over = [
            format!("temp-snapshot-{dead}.rdb"),
            format!("temp-copy-{dead}.rdb"),
            format!("temp-sync-{dead}.rdb"),
            format!("temp-sync-{own}.rdb"),
        ];
        let kept = [
            format!("temp-{dead}.rdb"),
            format!("temp-1700000000.{dead}.rdb"),
            format!("temp-sync-{living}.rdb"),
            format!("temp-sync-0{dead}.rdb"),
            format!("temp-sync-{dead}.rdb.old"),
            format!("temp-sync-{dead}"),
            "temp-sync-.rdb".into(),
            "temp-sync-mine.rdb".into(),
            "dump.rdb".into(),
        ];
        for name in left_over.iter().chain(&kept) {
            std::fs::write(folder.path().join(name), b"REDIS").expect("written");
        }
        std::fs::create_dir(folder.path().join("temp-sync-999999998.rdb")).expect("a folder");
        let locked_path = folder.path().join("temp-sync-999999997.rdb");
        let locked = create_temporary(&locked_path).expect("created");
        remove_left_over(folder.path());
        for name in &left_over {
            assert!(!folder.path().join(name).exists(), "{name}");
        }
        for name in &kept {
            assert!(folder.path().join(name).exists(), "{name}");
        }
        assert!(folder.path().join("temp-sync-999999998.rdb").exists() && locked_path.exists());
        drop(locked);
        remove_left_over(folder.path());
        assert!(!locked_path.exists());
    }
}
