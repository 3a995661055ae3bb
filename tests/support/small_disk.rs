// SPDX-License-Identifier: BSD-3-Clause
//! Disks small enough to fill up for real, and disks that can be stopped.

use std::path::Path;
use std::process::{Command, Stdio};

/// A disk of one test, unmounted on drop.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Mounts a disk of a size such as `64m`. `None` if the test may not mount one.
    pub fn mount(size: &str) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().expect("a folder");
        let options = format!("size={size}");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "braid-test"])
            .arg(folder.path())
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then(|| SmallDisk(folder))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// A disk of one test that can be frozen: every write to it then waits. Thawed and unmounted on
/// drop.
pub struct FreezableDisk {
    /// Where it is mounted.
    folder: tempfile::TempDir,
    _image: tempfile::NamedTempFile,
}

/// Seconds after which a frozen disk thaws by itself, so that a killed test leaves no process
/// behind that cannot be killed.
const FROZEN_MAX: u32 = 30;

impl FreezableDisk {
    /// Mounts a disk of a size in bytes. `None` if the test may not mount one.
    pub fn mount(size: u64) -> Option<FreezableDisk> {
        let image = tempfile::NamedTempFile::new().expect("a file");
        image.as_file().set_len(size).expect("a sparse file");
        let folder = tempfile::tempdir().expect("a folder");
        let succeeds = |command: &mut Command| {
            let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        };
        let is_there = succeeds(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(image.path()))
            && succeeds(Command::new("mount").args(["-o", "loop"]).arg(image.path()).arg(folder.path()));
        is_there.then_some(FreezableDisk { folder, _image: image })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Makes writes wait until [`FreezableDisk::thaw`], or for [`FROZEN_MAX`] seconds.
    pub fn freeze(&self) {
        let later = format!("(sleep {FROZEN_MAX}; fsfreeze --unfreeze \"$0\") &");
        let mut thaws = Command::new("sh");
        thaws.args(["-c", &later]).arg(self.path()).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(
            thaws.status().is_ok_and(|status| status.success()),
            "nothing would thaw the disk in the end"
        );
        let frozen = Command::new("fsfreeze").arg("--freeze").arg(self.path()).status();
        assert!(frozen.is_ok_and(|status| status.success()), "the disk cannot be frozen");
    }

    /// Returns false if it was not frozen any more.
    pub fn thaw(&self) -> bool {
        let thawed =
            Command::new("fsfreeze").arg("--unfreeze").arg(self.path()).stderr(Stdio::null()).status();
        thawed.is_ok_and(|status| status.success())
    }
}

impl Drop for FreezableDisk {
    fn drop(&mut self) {
        self.thaw();
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}
