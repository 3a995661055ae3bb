// SPDX-License-Identifier: BSD-3-Clause
//! Files of active-active replication, beside the dump: the state that must outlive the process, so
//! that its effects can be distinguished from those of another process.
//!
//! ```text
//! active.manifest      who the server is, how far it may give stamps, which generation counts
//! active-N.state       everything at the begin of generation N (opaque bytes with a checksum)
//! active-N.log         the units that were applied since, each with its length and checksum
//! ```
//! The manifest is replaced as a whole; a generation counts once the manifest names it. A log's end
//! may be torn by a crash: it is cut off before the first incomplete record. This module does not
//! interpret states and units.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use braid_base::crc::crc64;

use crate::files::{self, File};

const MANIFEST: &str = "active.manifest";
const MAGIC: &[u8; 8] = b"BRAIDAA1";
/// Bytes before a record: its length and its checksum.
const HEAD: usize = 12;
/// Longest record that is believed.
const RECORD_MAX: u32 = 1 << 30;

/// Who the server is, and where its files are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActiveManifest {
    /// Random; names the server whatever its region's number.
    pub identity: String,
    pub region: u8,
    /// Others know the server by its region's number.
    pub settled: bool,
    pub generation: u64,
    /// No stamp above it has been given.
    pub ceiling: u64,
    /// The process ended in good order: generation and dataset belong together.
    pub clean: bool,
    /// Regions that are gone for good, a bit for each.
    pub gone: u64,
    /// Other regions and the servers' identities.
    pub members: Vec<(u8, String)>,
}

impl ActiveManifest {
    fn text(&self) -> String {
        let mut text = format!(
            "version 1\nidentity {}\nregion {}\nsettled {}\ngeneration {}\nceiling {}\nclean {}\ngone {}\n",
            self.identity,
            self.region,
            u8::from(self.settled),
            self.generation,
            self.ceiling,
            u8::from(self.clean),
            self.gone
        );
        for (region, identity) in &self.members {
            text.push_str(&format!("member {region} {identity}\n"));
        }
        let sum = crc64(0, text.as_bytes());
        text.push_str(&format!("sum {sum:016x}\n"));
        text
    }

    fn parse(text: &str) -> Option<ActiveManifest> {
        let at = text.find("sum ")?;
        let sum = u64::from_str_radix(text[at + 4..].trim_end(), 16).ok()?;
        let body = text.get(..at).filter(|body| crc64(0, body.as_bytes()) == sum)?;
        let mut manifest = ActiveManifest::default();
        let mut lines = body.lines();
        if lines.next() != Some("version 1") {
            return None;
        }
        for line in lines {
            let (name, value) = line.split_once(' ')?;
            match name {
                "identity" => manifest.identity = value.to_owned(),
                "region" => manifest.region = value.parse().ok()?,
                "settled" => manifest.settled = value == "1",
                "generation" => manifest.generation = value.parse().ok()?,
                "ceiling" => manifest.ceiling = value.parse().ok()?,
                "clean" => manifest.clean = value == "1",
                "gone" => manifest.gone = value.parse().ok()?,
                "member" => {
                    let (region, identity) = value.split_once(' ')?;
                    manifest.members.push((region.parse().ok()?, identity.to_owned()));
                }
                _ => return None,
            }
        }
        Some(manifest)
    }
}

/// The files of a server in active mode.
pub struct ActiveFiles {
    folder: PathBuf,
    log: Option<File>,
    log_bytes: u64,
    /// Records that are not written yet.
    buffer: Vec<u8>,
}

impl ActiveFiles {
    /// The files in a folder, and the manifest if there is one.
    ///
    /// # Errors
    /// A manifest that is there and cannot be used.
    pub fn open(folder: &Path) -> io::Result<(ActiveFiles, Option<ActiveManifest>)> {
        let files = ActiveFiles { folder: folder.to_owned(), log: None, log_bytes: 0, buffer: Vec::new() };
        let manifest = match read_all(&files.folder.join(MANIFEST))? {
            None => None,
            Some(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                Some(ActiveManifest::parse(&text).ok_or_else(|| damaged(MANIFEST))?)
            }
        };
        Ok((files, manifest))
    }

    fn state_path(&self, generation: u64) -> PathBuf {
        self.folder.join(format!("active-{generation}.state"))
    }

    fn log_path(&self, generation: u64) -> PathBuf {
        self.folder.join(format!("active-{generation}.log"))
    }

    /// Replaces the manifest.
    pub fn store(&self, manifest: &ActiveManifest) -> io::Result<()> {
        files::store(&self.folder.join(MANIFEST), manifest.text().as_bytes())
    }

    /// The state that a generation begins with; nothing if it began with nothing.
    pub fn state(&self, generation: u64) -> io::Result<Option<Vec<u8>>> {
        let path = self.state_path(generation);
        let Some(bytes) = read_all(&path)? else { return Ok(None) };
        let content = bytes.strip_prefix(MAGIC).and_then(|rest| rest.split_first_chunk::<8>());
        match content {
            Some((sum, content)) if crc64(0, content) == u64::from_le_bytes(*sum) => {
                Ok(Some(content.to_vec()))
            }
            _ => Err(damaged(&path.display().to_string())),
        }
    }

    /// Passes the records of a generation's log to `visit` and goes on behind them. How many bytes
    /// of a torn end were cut off.
    pub fn resume_log(&mut self, generation: u64, mut visit: impl FnMut(&[u8])) -> io::Result<u64> {
        let path = self.log_path(generation);
        let bytes = read_all(&path)?.unwrap_or_default();
        let mut at = 0;
        while let Some(record) = record_at(&bytes[at..]) {
            visit(record);
            at += HEAD + record.len();
        }
        let torn = (bytes.len() - at) as u64;
        if torn > 0 {
            files::cut_off(&path, at as u64)?;
        }
        self.log = Some(files::append_to(&path)?);
        self.log_bytes = at as u64;
        Ok(torn)
    }

    /// Adds a record to the log; [`ActiveFiles::flush`] writes it.
    pub fn append(&mut self, record: &[u8]) {
        self.buffer.extend((record.len() as u32).to_le_bytes());
        self.buffer.extend(crc64(0, record).to_le_bytes());
        self.buffer.extend_from_slice(record);
    }

    /// Gives the records to the system: they outlive this process.
    pub fn flush(&mut self) -> io::Result<()> {
        let Some(log) = &mut self.log else { return Err(io::Error::other("there is no log")) };
        if let Err(error) = log.write_all(&self.buffer) {
            // Removes the incomplete record: no other may follow it.
            log.set_len(self.log_bytes)?;
            return Err(error);
        }
        self.log_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        self.buffer.shrink_to(1 << 20);
        Ok(())
    }

    /// Forces the log to disk.
    pub fn sync(&self) -> io::Result<()> {
        self.log.as_ref().map_or(Ok(()), File::sync_data)
    }

    /// Bytes of the log.
    pub fn log_bytes(&self) -> u64 {
        self.log_bytes
    }

    /// Begins a generation with a state, and an empty log. It counts when the manifest names it;
    /// the files of the one before may go then ([`ActiveFiles::forget`]).
    pub fn begin(&mut self, generation: u64, state: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(state.len() + 16);
        bytes.extend(MAGIC);
        bytes.extend(crc64(0, state).to_le_bytes());
        bytes.extend_from_slice(state);
        files::store(&self.state_path(generation), &bytes)?;
        self.log = Some(files::create(&self.log_path(generation))?);
        (self.log_bytes, self.buffer) = (0, Vec::new());
        Ok(())
    }

    /// Removes the files of a generation.
    pub fn forget(&self, generation: u64) {
        files::remove(&self.state_path(generation));
        files::remove(&self.log_path(generation));
    }
}

fn damaged(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{name} is damaged"))
}

/// A file's bytes, if it is there.
fn read_all(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut file = match files::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// The whole record at the begin of some bytes.
fn record_at(bytes: &[u8]) -> Option<&[u8]> {
    let (len, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<8>()?;
    let len = u32::from_le_bytes(*len);
    let record = rest.get(..len as usize).filter(|_| len <= RECORD_MAX)?;
    (crc64(0, record) == u64::from_le_bytes(*sum)).then_some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(files: &mut ActiveFiles, generation: u64) -> (Vec<Vec<u8>>, u64) {
        let mut found = Vec::new();
        let torn = files.resume_log(generation, |record| found.push(record.to_vec())).expect("readable");
        (found, torn)
    }

    #[test]
    fn a_generation_comes_back() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut files, none) = ActiveFiles::open(folder.path()).expect("an empty folder");
        assert_eq!(none, None);
        let manifest = ActiveManifest {
            identity: "abc".into(),
            region: 7,
            settled: true,
            generation: 3,
            ceiling: u64::MAX,
            clean: true,
            gone: 5,
            members: vec![(9, "def".into())],
        };
        files.begin(3, b"everything").expect("begun");
        files.store(&manifest).expect("stored");
        files.append(b"one");
        files.append(b"");
        files.flush().expect("written");
        files.append(b"never written");
        let (mut again, found) = ActiveFiles::open(folder.path()).expect("there");
        assert_eq!(found, Some(manifest));
        assert_eq!(again.state(3).expect("sound").as_deref(), Some(&b"everything"[..]));
        assert_eq!(records(&mut again, 3), (vec![b"one".to_vec(), Vec::new()], 0));
        again.append(b"two");
        again.flush().expect("written");
        // A crash in the middle of a record.
        let path = folder.path().join("active-3.log");
        let len = files::len(&path).expect("there");
        files::cut_off(&path, len - 1).expect("cut");
        let (mut last, _) = ActiveFiles::open(folder.path()).expect("there");
        assert_eq!(records(&mut last, 3), (vec![b"one".to_vec(), Vec::new()], 14));
        last.append(b"three");
        last.flush().expect("written");
        assert_eq!(records(&mut last, 3).0.len(), 3);
    }

    #[test]
    fn damage_is_an_error() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut files, _) = ActiveFiles::open(folder.path()).expect("an empty folder");
        files.begin(1, b"everything").expect("begun");
        files.store(&ActiveManifest::default()).expect("stored");
        for name in ["active-1.state", MANIFEST] {
            let path = folder.path().join(name);
            let mut bytes = read_all(&path).expect("there").expect("there");
            bytes[20] ^= 1;
            files::store(&path, &bytes).expect("damaged");
        }
        assert!(files.state(1).is_err());
        assert!(ActiveFiles::open(folder.path()).is_err());
        assert_eq!(files.state(2).expect("not there"), None);
    }
}
