// SPDX-License-Identifier: BSD-3-Clause
//! Disks that can be full in earnest.

use std::path::Path;
use std::process::{Command, Stdio};

/// A disk of its own for a test; taken away at its end.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// One of a size such as `64m`. Nothing where the test may not mount one.
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
