// SPDX-License-Identifier: BSD-3-Clause
//! Opens, measures and truncates the files that the server loads and writes. `load.rs` and `aof/`
//! know their content and names.

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

pub use std::fs::File;

/// Opens a file for reading.
///
/// # Errors
/// If the file does not exist or cannot be opened.
pub fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// Creates a file, replacing an existing one.
///
/// # Errors
/// If the file cannot be created or truncated.
pub fn create(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(true).open(path)
}

/// Opens a file for writing, creating it if needed. Its content stays.
///
/// # Errors
/// If the file cannot be created or opened.
pub fn open_to_write(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).open(path)
}

/// Moves a file over another one.
///
/// # Errors
/// If the file does not exist, the names are on different file systems, or the folder cannot be
/// written.
pub fn replace(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::rename(from, to)
}

/// Replaces a file's content atomically: a crash leaves the old bytes or the new ones, and once
/// this has returned the new ones.
///
/// # Errors
/// If the new content cannot be written and synced under a temporary name, or not moved: the old
/// content stays. If only the folder cannot be synced, either content may be there after a crash.
pub fn store(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    replace(&temporary, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Removes a file; a failure is logged.
pub fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        log::warn!("Cannot remove {}: {error}", path.display());
    }
}

/// Gives a file a second name in another folder of the same file system, which is created if
/// needed. What is removed or replaced under the first name stays there.
///
/// # Errors
/// If the folder cannot be created, the path does not end with a name, or the folder already has
/// that name or is on another file system.
pub fn keep_in(path: &Path, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    std::fs::hard_link(path, folder.join(name))
}

/// Whether a file exists.
pub fn exists(path: &Path) -> bool {
    path.exists()
}

/// Size of a file in bytes.
///
/// # Errors
/// If the file does not exist.
pub fn len(path: &Path) -> io::Result<u64> {
    Ok(path.metadata()?.len())
}

/// Truncates a file to `len` bytes and syncs it.
///
/// # Errors
/// If the file cannot be opened, truncated or synced.
pub fn cut_off(path: &Path, len: u64) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(path)?;
    file.set_len(len)?;
    file.sync_all()
}

/// Creates an unnamed file, which is freed when its last user closes it. It briefly has the name
/// `path`.
///
/// # Errors
/// If the file cannot be created, or its name not removed.
pub fn nameless(path: &Path) -> io::Result<File> {
    let file = create(path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// True if a file begins with a dump; rewinds it.
///
/// # Errors
/// If the file cannot be read or rewound.
pub fn begins_with_dump(file: &mut File) -> io::Result<bool> {
    let mut magic = Vec::new();
    Read::by_ref(file).take(6).read_to_end(&mut magic)?;
    file.seek(SeekFrom::Start(0))?;
    Ok(magic.starts_with(b"REDIS") || magic == b"VALKEY")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_off_and_measured() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        std::fs::write(&path, b"REDIS0012rest").expect("written");
        cut_off(&path, 9).expect("cut");
        assert_eq!(
            (len(&path).expect("there"), std::fs::read(&path).expect("read")),
            (9, b"REDIS0012".to_vec())
        );
        let mut file = open(&path).expect("there");
        assert!(begins_with_dump(&mut file).expect("read"));
        assert!(!begins_with_dump(&mut open(Path::new("/dev/null")).expect("there")).expect("read"));
    }

    #[test]
    fn nameless_files_leave_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut file = nameless(&folder.path().join("file")).expect("made");
        file.write_all(b"x").expect("written");
        assert_eq!(folder.path().read_dir().expect("there").count(), 0);
    }
}
