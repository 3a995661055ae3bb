// SPDX-License-Identifier: BSD-3-Clause
//! Holes: zeros in place of data that a power failure has kept from the disk, before data that is
//! there. Data that has not been synced reaches the disk in any order, and blocks that were
//! reserved or written ahead read as zeros until then.
//!
//! A value may also contain zeros, so a hole is only looked for where a file cannot be read: in
//! the part that no checksum covers.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A hole ends where a unit of disk space begins, in bytes.
const UNIT: u64 = 512;
/// Shorter runs of zeros are not taken for holes.
const LEN_MIN: u64 = 16;
/// A hole may begin this many bytes after the line that cannot be read.
const LINE_MAX: u64 = 1024;
/// Bytes per read.
const CHUNK: usize = 64 << 10;

/// The start of the first hole of a file that can be the reason why reading failed at `failed`.
/// `checked`: the part before is known to be good.
///
/// # Errors
/// If the file cannot be read.
pub fn hole_before(file: &File, checked: u64, failed: u64) -> io::Result<Option<u64>> {
    let mut chunk = vec![0; CHUNK];
    let (mut at, mut start, to) = (checked, None, failed + LINE_MAX);
    loop {
        let count = match file.read_at(&mut chunk, at) {
            // Zeros at the end have no data after them.
            Ok(0) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        for byte in &chunk[..count] {
            if *byte == 0 {
                start = start.or((at <= to).then_some(at));
            } else if let Some(start) = start.take()
                && at.is_multiple_of(UNIT)
                && at - start >= LEN_MIN
            {
                return Ok(Some(start));
            }
            if start.is_none() && at >= to {
                return Ok(None);
            }
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hole that is found in a file with zeros in some ranges.
    fn found(zeros: &[(usize, usize)], checked: u64, failed: u64) -> Option<u64> {
        let mut bytes = vec![b'x'; 300_000];
        zeros.iter().for_each(|(start, end)| bytes[*start..*end].fill(0));
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), &bytes).expect("written");
        hole_before(file.as_file(), checked, failed).expect("read")
    }

    #[test]
    fn holes_end_at_a_boundary() {
        assert_eq!(found(&[], 0, 9000), None);
        assert_eq!(found(&[(0, 4096)], 0, 0), Some(0));
        assert_eq!(found(&[(0, 4096)], 1, 1), Some(1));
        assert_eq!(found(&[(100, 512)], 0, 9000), Some(100));
        assert_eq!(found(&[(100, 511)], 0, 9000), None);
        assert_eq!(found(&[(100, 513)], 0, 9000), None);
        assert_eq!(found(&[(497, 512)], 0, 9000), None, "too short");
        assert_eq!(found(&[(496, 512)], 0, 9000), Some(496));
        assert_eq!(found(&[(100, 511), (700, 200_192)], 0, 9000), Some(700));
    }

    #[test]
    fn holes_begin_between_the_good_part_and_the_failure() {
        assert_eq!(found(&[(100, 512)], 512, 9000), None);
        assert_eq!(found(&[(1100, 1536)], 0, 76), Some(1100));
        assert_eq!(found(&[(1100, 1536)], 0, 75), None);
        assert_eq!(found(&[(9000, 300_000)], 0, 300_000), None, "nothing follows");
    }
}
