// SPDX-License-Identifier: BSD-3-Clause
//! The folder of an append-only file: its manifest on disk, its file names, and the migration of an
//! old single file into it.
//!
//! A manifest takes effect atomically: it is written under another name, synced, renamed, and the
//! folder is synced. A file must be on disk before a manifest names it.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use braid_base::system_text::reason;

use crate::files;

use super::manifest::{FileInfo, Manifest, ManifestError, shown};

/// The location of an append-only file: `appenddirname` and `appendfilename`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folder {
    dir: PathBuf,
    name: String,
}

/// Why an operation on the folder failed, with Redis's log texts.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    #[error("{what}: {}", reason(error))]
    Io {
        what: String,
        #[source]
        error: io::Error,
    },
    #[error("{0}")]
    Manifest(#[from] ManifestError),
}

impl FolderError {
    /// The log messages for the error.
    pub fn messages(&self) -> Vec<String> {
        match self {
            FolderError::Io { .. } => vec![self.to_string()],
            FolderError::Manifest(error) => error.messages(),
        }
    }
}

fn failed(what: String) -> impl FnOnce(io::Error) -> FolderError {
    |error| FolderError::Io { what, error }
}

impl Folder {
    /// `dir` is the folder itself, `name` the prefix of its files' names.
    pub fn new(dir: impl Into<PathBuf>, name: impl Into<String>) -> Folder {
        Folder { dir: dir.into(), name: name.into() }
    }

    /// The folder (`appenddirname`).
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Prefix of its files' names (`appendfilename`).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The path of one of its files.
    pub fn path(&self, name: &OsStr) -> PathBuf {
        self.dir.join(name)
    }

    /// The path of the manifest.
    pub fn manifest_path(&self) -> PathBuf {
        self.dir.join(format!("{}.manifest", self.name))
    }

    /// The file for changes while the first base is being written, after `CONFIG SET appendonly
    /// yes`.
    pub fn temporary_incr_path(&self) -> PathBuf {
        self.dir.join(format!("temp-{}.incr", self.name))
    }

    /// Opens an increment for appending, creating it if needed.
    ///
    /// # Errors
    /// If the file cannot be opened or created.
    pub fn open_incr(&self, name: &OsStr) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(self.path(name))
    }

    /// Creates an empty file at [`Folder::temporary_incr_path`].
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create_temporary_incr(&self) -> io::Result<File> {
        File::create(self.temporary_incr_path())
    }

    /// Gives the temporary increment its final name.
    ///
    /// # Errors
    /// If the temporary increment does not exist or cannot be renamed.
    pub fn name_temporary_incr(&self, name: &OsStr) -> io::Result<()> {
        fs::rename(self.temporary_incr_path(), self.path(name))
    }

    /// Total size of the data files that exist, in bytes.
    pub fn data_bytes(&self, manifest: &Manifest) -> u64 {
        manifest.data().filter_map(|(_, info)| files::len(&self.path(&info.name)).ok()).sum()
    }

    /// Creates the folder, if it does not exist.
    ///
    /// # Errors
    /// If the folder cannot be created, or its name belongs to something else.
    pub fn create(&self) -> Result<(), FolderError> {
        match fs::create_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && self.dir.is_dir() => Ok(()),
            other => {
                other.map_err(failed(format!("Can't open or create append-only dir {}", self.dir.display())))
            }
        }
    }

    /// True if the folder, which exists, has any files.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn has_files(&self) -> io::Result<bool> {
        Ok(fs::read_dir(&self.dir)?.next().is_some())
    }

    /// Removes the manifest and the data files that it names. Those that cannot be removed are
    /// logged.
    pub fn remove(&self, manifest: &Manifest) {
        let data = manifest.data().map(|(_, info)| self.path(&info.name));
        for path in [self.manifest_path()].into_iter().chain(data) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    log::warn!("Can't remove {}: {error}", path.display());
                }
                _ => {}
            }
        }
    }

    /// Reads the manifest. Without a folder or a manifest in it, the manifest is empty.
    ///
    /// # Errors
    /// If the manifest cannot be read, or one of its lines is invalid.
    pub fn load_manifest(&self) -> Result<Manifest, FolderError> {
        let path = self.manifest_path();
        if !self.dir.is_dir() {
            log::debug!("The AOF directory {} doesn't exist", self.dir.display());
        } else if !path.is_file() {
            log::debug!("The AOF manifest file {} doesn't exist", path.display());
            let stray = self.data_without_manifest();
            if !stray.is_empty() {
                log::warn!(
                    "The AOF manifest file {} doesn't exist. Append-only files in its directory are not loaded: {}",
                    path.display(),
                    stray.join(", ")
                );
            }
        } else {
            let cannot_open =
                || format!("Fatal error: can't open the AOF manifest file {} for reading", path.display());
            let mut file = File::open(&path).map_err(failed(cannot_open()))?;
            let mut text = Vec::new();
            file.read_to_end(&mut text).map_err(failed("Read AOF manifest failed".to_owned()))?;
            return Ok(Manifest::parse(&text)?);
        }
        Ok(Manifest::default())
    }

    /// Names of data files in the folder; without a manifest they belong to no append-only file.
    fn data_without_manifest(&self) -> Vec<String> {
        let names = fs::read_dir(&self.dir).into_iter().flatten().flatten().map(|entry| entry.file_name());
        let names = names.filter_map(|name| name.into_string().ok());
        let is_data = |name: &String| {
            name.strip_prefix(&*self.name)
                .is_some_and(|rest| rest.ends_with(".rdb") || rest.ends_with(".aof"))
        };
        let mut names: Vec<String> = names.filter(is_data).collect();
        names.sort();
        names
    }

    /// Puts a manifest into effect: after success it survives a power failure.
    ///
    /// # Errors
    /// If the manifest cannot be written, synced or renamed, or the folder cannot be synced. The
    /// previous manifest is in effect then, or either of the two if syncing the folder failed.
    pub fn persist(&self, manifest: &Manifest) -> Result<(), FolderError> {
        let path = self.manifest_path();
        let temporary_name = format!("temp-{}.manifest", self.name);
        let temporary = self.dir.join(&temporary_name);
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(&temporary)
            .map_err(failed(format!("Can't open the AOF manifest file {temporary_name}")))?;
        file.write_all(&manifest.format()).map_err(failed(format!(
            "Error trying to write the temporary AOF manifest file {temporary_name}"
        )))?;
        file.sync_all().map_err(failed(format!("Fail to fsync the temp AOF file {temporary_name}")))?;
        fs::rename(&temporary, &path).map_err(failed(format!(
            "Error trying to rename the temporary AOF manifest file {temporary_name} into {}.manifest",
            self.name
        )))?;
        self.sync()
    }

    /// Syncs the folder: which files exist, not their contents.
    ///
    /// # Errors
    /// If the folder cannot be opened or synced.
    pub fn sync(&self) -> Result<(), FolderError> {
        let sync = || File::open(&self.dir)?.sync_all();
        sync().map_err(failed(format!("Fail to fsync AOF directory {}", self.dir.display())))
    }

    /// Removes the files of the history and drops them from the manifest. A file that cannot be
    /// removed stays, unnamed by the manifest.
    ///
    /// # Errors
    /// As [`Folder::persist`]. A file that cannot be removed is only logged.
    pub fn remove_history(&self, manifest: &mut Manifest) -> Result<(), FolderError> {
        if manifest.history.is_empty() {
            return Ok(());
        }
        for info in &manifest.history {
            log::info!("Removing the history file {} in the background", shown(&info.name));
            let removed = fs::remove_file(self.path(&info.name));
            if let Err(error) = removed
                && error.kind() != io::ErrorKind::NotFound
            {
                log::warn!("Cannot remove the history file {}: {error}", shown(&info.name));
            }
        }
        manifest.history.clear();
        self.persist(manifest)
    }

    /// Moves an append-only file from before Redis 7 (one file, called `appendfilename`, next to
    /// the folder) into the folder, as its base. Returns whether there was one.
    ///
    /// # Errors
    /// If the folder cannot be created, the manifest not put into effect, or the file not moved.
    /// The next start repeats it.
    pub fn adopt_old_file(&self, manifest: &mut Manifest) -> Result<bool, FolderError> {
        let parent = self.dir.parent().unwrap_or(Path::new(""));
        let old = parent.join(&self.name);
        let inside = self.dir.join(&self.name);
        let is_half_done = manifest.incrs.is_empty()
            && manifest.base.as_ref().is_some_and(|base| *base.name == *self.name)
            && !inside.is_file();
        if !old.is_file() || !(manifest.has_no_data() || is_half_done) {
            return Ok(false);
        }
        self.create()?;
        manifest.base = Some(FileInfo { name: self.name.clone().into(), seq: 1 });
        self.persist(manifest)?;
        let shown_dir = self.dir.file_name().unwrap_or(self.dir.as_os_str()).display();
        fs::rename(&old, &inside).map_err(failed(format!(
            "Error trying to move the old AOF file {} into dir {shown_dir}",
            self.name
        )))?;
        self.sync()?;
        log::info!(
            "Successfully migrated an old-style AOF file ({}) into the AOF directory ({shown_dir}).",
            self.name
        );
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Folder) {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::new(dir.path().join("appendonlydir"), "a.aof");
        (dir, folder)
    }

    fn names(folder: &Folder) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder.dir())
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_manifest_is_written_and_read() {
        let (_dir, folder) = folder();
        assert_eq!(folder.load_manifest().unwrap(), Manifest::default(), "no folder");
        let mut manifest = Manifest::default();
        manifest.begin_base("a.aof", true);
        let error = folder.persist(&manifest).unwrap_err().to_string();
        assert!(error.starts_with("Can't open the AOF manifest file temp-a.aof.manifest: "), "{error}");
        folder.create().unwrap();
        folder.create().unwrap();
        assert_eq!(folder.load_manifest().unwrap(), Manifest::default(), "no manifest");
        folder.persist(&manifest).unwrap();
        assert_eq!(folder.load_manifest().unwrap(), manifest);
        manifest.begin_incr("a.aof");
        folder.persist(&manifest).unwrap();
        assert_eq!(folder.load_manifest().unwrap(), manifest);
        assert_eq!(names(&folder), ["a.aof.manifest"]);
        fs::write(folder.manifest_path(), "nonsense\n").unwrap();
        let error = folder.load_manifest().unwrap_err();
        assert_eq!(
            error.messages()[1..].join(" "),
            "Reading the manifest file, at line 1 >>> 'nonsense' Invalid AOF manifest file format"
        );
    }

    #[test]
    fn a_folder_that_cannot_be_made() {
        let (_dir, folder) = folder();
        fs::write(folder.dir(), "").unwrap();
        let error = folder.create().unwrap_err().to_string();
        assert!(error.starts_with("Can't open or create append-only dir "), "{error}");
    }

    #[test]
    fn history_goes() {
        let (_dir, folder) = folder();
        folder.create().unwrap();
        let mut manifest = Manifest::default();
        for round in 0..2 {
            for info in [manifest.begin_base("a.aof", round == 0), manifest.begin_incr("a.aof")] {
                fs::write(folder.path(&info.name), "").unwrap();
            }
        }
        manifest.retire_incrs(1);
        // A file that is already gone, as after an interruption.
        fs::remove_file(folder.path(OsStr::new("a.aof.1.incr.aof"))).unwrap();
        folder.persist(&manifest).unwrap();
        folder.remove_history(&mut manifest).unwrap();
        assert_eq!(names(&folder), ["a.aof.2.base.aof", "a.aof.2.incr.aof", "a.aof.manifest"]);
        assert_eq!(folder.load_manifest().unwrap(), manifest);
        assert!(manifest.history.is_empty());
    }

    #[test]
    fn an_old_file_moves_in() {
        let (dir, folder) = folder();
        let old = dir.path().join("a.aof");
        let mut manifest = Manifest::default();
        assert!(!folder.adopt_old_file(&mut manifest).unwrap(), "there is no old file");
        fs::write(&old, "old").unwrap();
        assert!(folder.adopt_old_file(&mut manifest).unwrap());
        assert_eq!(fs::read_to_string(folder.path(OsStr::new("a.aof"))).unwrap(), "old");
        assert!(!old.exists());
        assert_eq!(folder.load_manifest().unwrap().format(), b"file a.aof seq 1 type b\n");

        // Interrupted before the move.
        fs::rename(folder.path(OsStr::new("a.aof")), &old).unwrap();
        let mut manifest = folder.load_manifest().unwrap();
        assert!(folder.adopt_old_file(&mut manifest).unwrap());
        assert_eq!(names(&folder), ["a.aof", "a.aof.manifest"]);

        // An unrelated file of that name stays where it is.
        fs::write(&old, "other").unwrap();
        assert!(!folder.adopt_old_file(&mut manifest).unwrap());
        manifest.begin_incr("a.aof");
        assert!(!folder.adopt_old_file(&mut manifest).unwrap());
        assert!(old.exists());
    }
}
