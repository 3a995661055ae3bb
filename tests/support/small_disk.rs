// SPDX-License-Identifier: BSD-3-Clause
//! Disks small enough to fill up for real.

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
