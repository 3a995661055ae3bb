// SPDX-License-Identifier: BSD-3-Clause
//! Places in the replication history, noted in files of commands: Braid's own annotations, so that
//! a restarted server continues where it stopped instead of copying the whole dataset.
//!
//! ```text
//! #HISTORY:id:offset:position CR LF   the dataset of everything before this line is that of the
//!                                     history with this replication ID (40 characters) at this
//!                                     offset; the line begins at this position in the file
//! #OFFSET:offset:position CR LF       the same, for the ID of the previous such line of the file
//! ```
//! A place says nothing about the commands after it: it holds for the end of the data only
//! ([`super::CommandReader::place`]). With another position something before it has been removed
//! or added, and the place does not hold. Stock servers since Redis 7 skip annotations.

use braid_base::number::parse_u64;

/// Length of a replication ID.
const ID_LEN: usize = 40;

const HISTORY: &[u8] = b"#HISTORY:";
const OFFSET: &[u8] = b"#OFFSET:";

/// A place in a replication history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryPosition {
    pub id: [u8; ID_LEN],
    pub offset: u64,
}

impl HistoryPosition {
    /// The line at a position of the file, with its end. `last`: the previous place of the file.
    pub(super) fn line(&self, last: Option<&HistoryPosition>, position: u64) -> String {
        if last.is_some_and(|last| last.id == self.id) {
            return format!("#OFFSET:{}:{position}\r\n", self.offset);
        }
        format!("#HISTORY:{}:{}:{position}\r\n", String::from_utf8_lossy(&self.id), self.offset)
    }

    /// Parses a line (with its end) at a position of the file, if it is a place that holds. `last`:
    /// the previous place of the file.
    pub(super) fn parse(
        line: &[u8],
        last: Option<&HistoryPosition>,
        position: u64,
    ) -> Option<HistoryPosition> {
        let line = line.strip_suffix(b"\r\n")?;
        let colon = line.iter().rposition(|&byte| byte == b':')?;
        let (line, at) = (&line[..colon], &line[colon + 1..]);
        if parse_u64(at)? != position {
            return None;
        }
        if let Some(offset) = line.strip_prefix(OFFSET) {
            return Some(HistoryPosition { offset: parse_u64(offset)?, ..*last? });
        }
        let (id, offset) = line.strip_prefix(HISTORY)?.split_at_checked(ID_LEN)?;
        let is_id = id.iter().all(u8::is_ascii_alphanumeric);
        let offset = parse_u64(offset.strip_prefix(b":")?).filter(|_| is_id)?;
        Some(HistoryPosition { id: id.try_into().ok()?, offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_back() {
        let (one, two) = (
            HistoryPosition { id: [b'a'; 40], offset: 7 },
            HistoryPosition { id: [b'b'; 40], offset: u64::MAX },
        );
        let next = HistoryPosition { offset: 12, ..one };
        assert_eq!(next.line(Some(&one), 100), "#OFFSET:12:100\r\n");
        for (place, last) in [(one, None), (two, None), (two, Some(&one)), (next, Some(&one))] {
            let line = place.line(last, 100);
            assert_eq!(HistoryPosition::parse(line.as_bytes(), last, 100), Some(place));
            assert_eq!(HistoryPosition::parse(line.as_bytes(), last, 99), None, "the file has been edited");
        }
        assert_eq!(HistoryPosition::parse(b"#OFFSET:12:100\r\n", None, 100), None);
        let id = "a".repeat(40);
        for other in [
            "#TS:1\r\n".to_owned(),
            "#OFFSET:100\r\n".to_owned(),
            "#OFFSET::100\r\n".to_owned(),
            "#OFFSET:-1:100\r\n".to_owned(),
            "#OFFSET:1:100\n".to_owned(),
            "#OFFSET:1:\r\n".to_owned(),
            format!("#HISTORY:{id}\r\n"),
            format!("#HISTORY:{id}:100\r\n"),
            format!("#HISTORY:{id}:x:100\r\n"),
            format!("#HISTORY:{}:1:100\r\n", &id[1..]),
            format!("#HISTORY:-{}:1:100\r\n", &id[1..]),
        ] {
            assert_eq!(HistoryPosition::parse(other.as_bytes(), Some(&one), 100), None, "{other}");
        }
    }
}
