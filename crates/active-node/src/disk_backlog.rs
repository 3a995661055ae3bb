// SPDX-License-Identifier: BSD-3-Clause
//! The backlog on disk: peers that lack more than the in-memory backlog holds are sent units from
//! the logs, which are kept for this purpose (`active-backlog-disk-size`). The active-active
//! thread maintains the list of logs; background threads read them, so neither that thread nor a
//! loop waits for a disk.

use std::io;
use std::path::{Path, PathBuf};

use braid_active::logs::{Cursor, Logs};
use braid_active::wire;
use braid_persistence::active::LogReader;

use super::pull_request::PullRequest;

/// A full copy is sent instead of log units if it takes less than one `COPY_PARTS`th of their
/// bytes; a copy counts as at least [`COPY_MIN`] bytes.
const COPY_PARTS: u64 = 4;
const COPY_MIN: u64 = 64 << 20;

/// The logs that peers can be served from, and the limits for doing so.
#[derive(Default)]
pub(crate) struct DiskBacklog {
    pub folder: PathBuf,
    pub logs: Logs,
    /// Whether peers are served from the logs.
    pub is_wanted: bool,
    /// Approximate bytes of a full copy.
    pub copy_bytes: u64,
}

impl DiskBacklog {
    /// The cursor from which a peer is sent the units it lacks; `None` if it should take a full
    /// copy.
    pub(super) fn place_for(&self, request: &PullRequest) -> Option<Cursor> {
        if !self.is_wanted {
            return None;
        }
        if let Some(cursor) = request.cursor.filter(|cursor| self.logs.has(*cursor)) {
            return Some(cursor);
        }
        let cursor = self.logs.reach(&request.applied)?;
        let most = COPY_PARTS.saturating_mul(self.copy_bytes.max(COPY_MIN));
        (self.logs.bytes_from(cursor) <= most).then_some(cursor)
    }

    /// Total bytes of all logs.
    pub fn bytes(&self) -> u64 {
        self.logs.iter().map(|log| log.bytes).sum()
    }
}

/// Reads the units that a peer lacks from a cursor on, up to the size it asked for, and returns
/// them with the cursor to continue from.
pub(super) fn read(folder: &Path, from: Cursor, request: &PullRequest) -> io::Result<(Vec<Vec<u8>>, Cursor)> {
    let mut reader = LogReader::open(folder, from.number, from.offset)?;
    let (mut units, mut bytes, mut next) = (Vec::new(), 0, from);
    while let Some(record) = reader.next_record()? {
        let first = wire::first(record).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        if !request.applied.covers(first) {
            if bytes > 0 && bytes + record.len() > request.bytes_max {
                break;
            }
            bytes += record.len();
            units.push(record.to_vec());
        }
        let (number, offset) = reader.place();
        next = Cursor { number, offset };
    }
    Ok((units, next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_active::effect::{Effects, Unit};
    use braid_active::vector::Run;
    use braid_active::{Region, Stamp, Vector};
    use braid_persistence::active::{ActiveFiles, Records};

    fn stamp(position: u64) -> Stamp {
        Stamp::of(Region::new(1).expect("a region"), position).expect("a place")
    }

    fn applied(position: u64) -> Vector {
        let mut vector = Vector::default();
        vector.add(Run { start: stamp(0), last: stamp(position) });
        vector
    }

    fn request(has: u64, bytes_max: usize) -> PullRequest {
        let region = Region::new(2).expect("a region");
        PullRequest { applied: applied(has), position: 0, cursor: None, bytes_max, region }
    }

    #[test]
    fn peer_receives_missing_units_across_log_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut files, _) = ActiveFiles::open(folder.path()).expect("empty");
        let mut disk = DiskBacklog {
            folder: folder.path().to_owned(),
            is_wanted: true,
            copy_bytes: 0,
            logs: Logs::default(),
        };
        let mut all = Vec::new();
        for log in 0..3 {
            let number = if log == 0 { files.begin().map(|(number, _)| number) } else { files.begin_next() };
            disk.logs.push(number.expect("begun"), applied(100 * log));
            let mut records = Records::default();
            for position in 100 * log + 1..=100 * log + 100 {
                let seen = Vector::default();
                let unit = Unit {
                    first: stamp(position),
                    previous: stamp(position - 1),
                    starts_run: position == 1,
                    seen,
                    effects: Effects::new(),
                    seen_less: None,
                };
                let bytes = wire::encode(&unit);
                records.add(&bytes);
                all.push(bytes);
            }
            files.log().and_then(|log| log.append(&mut records)).expect("written");
            disk.logs.set_len(files.log_len());
        }
        for has in [0, 1, 99, 100, 150, 299] {
            for bytes_max in [1, 500, 1 << 20] {
                let (mut got, mut request) = (Vec::new(), request(has, bytes_max));
                loop {
                    let place = disk.place_for(&request).expect("the logs reach back far enough");
                    let (units, next) = read(&disk.folder, place, &request).expect("readable");
                    if units.is_empty() {
                        break;
                    }
                    assert!(units.len() == 1 || units.iter().map(Vec::len).sum::<usize>() <= bytes_max);
                    got.extend(units);
                    request.cursor = Some(next);
                }
                assert!(got == all[has as usize..], "{has} of 300, {bytes_max} bytes at once");
            }
        }
        // The first log is gone; a copy is much smaller; the disk backlog is off.
        disk.logs.drop_before(1);
        assert_eq!(disk.place_for(&request(99, 1)), None);
        assert!(disk.place_for(&request(100, 1)).is_some());
        disk.logs.set_len(COPY_PARTS * COPY_MIN + 1);
        assert_eq!(disk.place_for(&request(100, 1)), None);
        disk.copy_bytes = COPY_MIN + 1000;
        assert!(disk.place_for(&request(100, 1)).is_some());
        disk.is_wanted = false;
        assert_eq!(disk.place_for(&request(100, 1)), None);
    }
}
