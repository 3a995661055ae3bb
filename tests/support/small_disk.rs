// SPDX-License-Identifier: BSD-3-Clause
//! Disks small enough to fill up for real, and disks that can be stopped or lose their power.

use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::statvfs;

/// Runs a program without output. False if there is no such program, or it fails.
fn succeeds(command: &mut Command) -> bool {
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn unmount(folder: &Path) {
    succeeds(Command::new("umount").arg("-l").arg(folder));
}

/// A disk of one test, unmounted on drop.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    /// Mounts a disk of a size such as `64m`. `None` if the test may not mount one.
    pub fn mount(size: &str) -> Option<SmallDisk> {
        let folder = tempfile::tempdir().expect("a folder");
        let options = format!("size={size}");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "braid-test"]).arg(folder.path());
        succeeds(&mut mount).then(|| SmallDisk(folder))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        unmount(self.path());
    }
}

/// A disk of one test with a file system of its own, whose power can fail, and which can be frozen:
/// every write to it then waits. Thawed and unmounted on drop.
pub struct LoopDisk {
    /// Where it is mounted.
    folder: tempfile::TempDir,
    image: tempfile::NamedTempFile,
}

/// Seconds after which a frozen disk thaws by itself, so that a killed test leaves no process
/// behind that cannot be killed.
const FROZEN_MAX: u32 = 30;

/// A folder whose files are in memory.
const MEMORY: &str = "/dev/shm";

/// Shuts a file system down at once, without its journal: the ioctl `EXT4_IOC_SHUTDOWN` with
/// `EXT4_GOING_FLAGS_NOLOGFLUSH`.
const SHUT_DOWN: &str = r#"
open my $root, "<", $ARGV[0] or die;
my $flags = pack "L", 2;
ioctl $root, 0x8004587D, $flags or die;
"#;

impl LoopDisk {
    /// Mounts a disk of a size in bytes. `None`, with a message, if the test may not mount one.
    pub fn mount(size: u64) -> Option<LoopDisk> {
        // In memory if there is room, so that it is as fast as a disk ought to be.
        let has_room = statvfs(MEMORY).is_ok_and(|there| there.f_bavail * there.f_frsize > size);
        let image =
            if has_room { tempfile::NamedTempFile::new_in(MEMORY) } else { tempfile::NamedTempFile::new() };
        let image = image.expect("a file");
        image.as_file().set_len(size).expect("a sparse file");
        let folder = tempfile::tempdir().expect("a folder");
        let disk = LoopDisk { folder, image };
        let is_there =
            succeeds(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(disk.image.path())) && disk.try_mount();
        if !is_there {
            println!("skipped: mounting a disk needs root, e2fsprogs and loop devices");
        }
        is_there.then_some(disk)
    }

    fn try_mount(&self) -> bool {
        succeeds(Command::new("mount").args(["-o", "loop"]).arg(self.image.path()).arg(self.path()))
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The power fails and comes back: what was not forced to the disk is lost. No process has a
    /// file there.
    pub fn fail_power(&self) {
        assert!(succeeds(Command::new("perl").args(["-e", SHUT_DOWN]).arg(self.path())), "it cannot fail");
        assert!(succeeds(Command::new("umount").arg(self.path())), "the disk is in use");
        assert!(self.try_mount(), "the disk does not come back");
    }

    /// Makes writes wait until [`LoopDisk::thaw`], or for [`FROZEN_MAX`] seconds.
    pub fn freeze(&self) {
        let later = format!("(sleep {FROZEN_MAX}; fsfreeze --unfreeze \"$0\") &");
        let thaws = succeeds(Command::new("sh").args(["-c", &later]).arg(self.path()));
        assert!(thaws, "nothing would thaw the disk in the end");
        assert!(self.fsfreeze("--freeze"), "the disk cannot be frozen");
    }

    /// Returns false if it was not frozen any more.
    pub fn thaw(&self) -> bool {
        self.fsfreeze("--unfreeze")
    }

    fn fsfreeze(&self, how: &str) -> bool {
        succeeds(Command::new("fsfreeze").arg(how).arg(self.path()))
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        self.thaw();
        unmount(self.path());
    }
}

/// Where a server has its files.
pub enum Place {
    Folder(tempfile::TempDir),
    Disk(LoopDisk),
}

impl Place {
    pub fn folder() -> Place {
        Place::Folder(tempfile::tempdir().expect("a folder"))
    }

    /// A disk of a size in bytes. `None`, with a message, if the test may not mount one.
    pub fn disk(size: u64) -> Option<Place> {
        LoopDisk::mount(size).map(Place::Disk)
    }

    pub fn path(&self) -> &Path {
        match self {
            Place::Folder(folder) => folder.path(),
            Place::Disk(disk) => disk.path(),
        }
    }

    /// [`LoopDisk::fail_power`]; nothing for a folder.
    pub fn fail_power(&self) {
        if let Place::Disk(disk) = self {
            disk.fail_power();
        }
    }
}
