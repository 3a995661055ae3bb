// SPDX-License-Identifier: BSD-3-Clause
//! Recognizes data files that were neither changed nor replaced, by their lengths, starts and
//! ends. A dump begins with its save time, replication history and offset, and ends with its
//! checksum; a file of requests only grows.
//!
//! CRC64, the checksum of dumps, cannot serve here: over bytes that end with their own CRC64 it
//! is constant.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use braid_base::hash::KeyHasher;

use crate::aof::Folder;
use crate::files;

/// Bytes examined at the start and at the end of a file.
const LOOKED_AT: u64 = 4096;

/// The fingerprint of a dump file.
///
/// # Errors
/// The file cannot be read.
pub fn of_dump(path: &Path) -> io::Result<u64> {
    add(0, path)
}

/// The fingerprint of the append-only file in a folder.
///
/// # Errors
/// There is none, or it cannot be read.
pub fn of_append_only(folder: &Folder) -> io::Result<u64> {
    // Opening a folder without a manifest would log a message.
    files::len(&folder.manifest_path())?;
    let manifest = folder.load_manifest().map_err(io::Error::other)?;
    if manifest.has_no_data() {
        return Err(io::ErrorKind::NotFound.into());
    }
    manifest
        .data()
        .try_fold(1, |sum, (_, info)| add(hash(sum, info.name.as_encoded_bytes()), &folder.path(&info.name)))
}

fn add(sum: u64, path: &Path) -> io::Result<u64> {
    let mut file = files::open(path)?;
    let len = file.metadata()?.len();
    let mut looked_at = len.to_le_bytes().to_vec();
    Read::by_ref(&mut file).take(LOOKED_AT).read_to_end(&mut looked_at)?;
    file.seek(SeekFrom::Start(len.saturating_sub(LOOKED_AT)))?;
    file.take(LOOKED_AT).read_to_end(&mut looked_at)?;
    Ok(hash(sum, &looked_at))
}

/// A hash of `bytes`, chained to the hash of the earlier bytes.
fn hash(sum: u64, bytes: &[u8]) -> u64 {
    KeyHasher::with_key(&[0; 16]).hash(&[&sum.to_le_bytes(), bytes].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aof::Manifest;
    use braid_base::crc::crc64;

    #[test]
    fn a_dump_is_another_if_its_begin_its_end_or_its_length_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("dump.rdb");
        let mut bytes = vec![7; 100_000];
        let print = |bytes: &[u8]| {
            std::fs::write(&path, bytes).expect("written");
            of_dump(&path).expect("read")
        };
        let before = print(&bytes);
        assert_eq!(print(&bytes), before);
        assert_ne!(print(&bytes[1..]), before);
        bytes[9] = 8;
        assert_ne!(print(&bytes), before);
        (bytes[9], bytes[99_999]) = (7, 8);
        assert_ne!(print(&bytes), before);
        assert_ne!(print(b""), print(b"x"));
        assert!(of_dump(&folder.path().join("none")).is_err());
    }

    /// CRC64 would be equal for dumps of the same length, since they end with their checksums.
    #[test]
    fn small_dumps_of_one_length_differ() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("dump.rdb");
        let prints = [&b"n is 5"[..], b"n is 6"].map(|content| {
            let dump = [content, &crc64(0, content).to_le_bytes()].concat();
            std::fs::write(&path, dump).expect("written");
            of_dump(&path).expect("read")
        });
        assert_ne!(prints[0], prints[1]);
    }

    #[test]
    fn aof_fingerprint_changes_with_any_of_its_files() {
        let place = tempfile::tempdir().expect("a folder");
        let folder = Folder::new(place.path(), "a.aof");
        assert!(of_append_only(&folder).is_err());
        let mut manifest = Manifest::default();
        let base = manifest.begin_base(folder.name(), true);
        let incr = manifest.begin_incr(folder.name());
        let write = |name, bytes: &[u8]| std::fs::write(folder.path(name), bytes).expect("written");
        write(&base.name, b"REDIS");
        write(&incr.name, b"*1");
        folder.persist(&manifest).expect("written");
        let before = of_append_only(&folder).expect("read");
        assert_eq!(of_append_only(&folder).expect("read"), before);
        write(&incr.name, b"*1\r\n");
        assert_ne!(of_append_only(&folder).expect("read"), before);
        write(&incr.name, b"*1");
        assert_eq!(of_append_only(&folder).expect("read"), before);
        let next = manifest.begin_incr(folder.name());
        write(&next.name, b"");
        folder.persist(&manifest).expect("written");
        assert_ne!(of_append_only(&folder).expect("read"), before);
        files::remove(&folder.path(&base.name));
        assert!(of_append_only(&folder).is_err());
    }
}
