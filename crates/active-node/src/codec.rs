// SPDX-License-Identifier: BSD-3-Clause
//! Text encoding of vectors and tables of vectors, as used in ACTIVE PULL:
//! `start-last,start-last` in hexadecimal words, and `region=vector;region=vector`. An empty
//! vector or table is an empty text.

use std::collections::BTreeMap;

use braid_active::vector::Run;
use braid_active::{Region, Stamp, Vector};

/// Maximum number of runs accepted in one vector.
const RUNS_MAX: usize = 100_000;

/// Encodes a vector.
pub(super) fn vector_text(vector: &Vector) -> String {
    let runs = vector.runs().iter();
    runs.map(|run| format!("{:x}-{:x}", run.start.word(), run.last.word())).collect::<Vec<_>>().join(",")
}

/// Parses a vector; `None` if the text is invalid.
pub(super) fn parse_vector(text: &str) -> Option<Vector> {
    let mut vector = Vector::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (start, last) = part.split_once('-')?;
        let (start, last) = (stamp(start)?, stamp(last)?);
        if start.region() != last.region() || start > last || vector.runs().len() >= RUNS_MAX {
            return None;
        }
        vector.add(Run { start, last });
    }
    Some(vector)
}

fn stamp(text: &str) -> Option<Stamp> {
    u64::from_str_radix(text, 16).ok().and_then(Stamp::from_word)
}

/// Encodes the table of the regions' on-disk vectors.
pub(super) fn table_text(table: &BTreeMap<Region, Vector>) -> String {
    let lines = table.iter().map(|(region, vector)| format!("{}={}", region.number(), vector_text(vector)));
    lines.collect::<Vec<_>>().join(";")
}

/// Parses a table; `None` if the text is invalid.
pub(super) fn parse_table(text: &str) -> Option<BTreeMap<Region, Vector>> {
    let parts = text.split(';').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (region, vector) = part.split_once('=')?;
            Some((Region::new(region.parse().ok()?)?, parse_vector(vector)?))
        })
        .collect()
}

/// Encodes members: regions and their identities.
pub(super) fn members_text(members: &BTreeMap<u8, String>) -> String {
    members.iter().map(|(region, identity)| format!("{region}={identity}")).collect::<Vec<_>>().join(";")
}

/// Parses members; `None` if the text is invalid.
pub(super) fn parse_members(text: &str) -> Option<BTreeMap<u8, String>> {
    let parts = text.split(';').filter(|part| !part.is_empty());
    parts
        .map(|part| {
            let (region, identity) = part.split_once('=')?;
            let region = Region::new(region.parse().ok()?)?;
            is_identity(identity).then(|| (region.number(), identity.to_owned()))
        })
        .collect()
}

/// True if the text has the form of a server's identity.
pub(super) fn is_identity(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_round_trip() {
        let stamp = |region, position| Stamp::of(Region::new(region).unwrap(), position).unwrap();
        let mut vector = Vector::default();
        vector.add(Run { start: stamp(3, 0), last: stamp(3, 77) });
        vector.add(Run { start: stamp(3, 1 << 40), last: stamp(3, 1 << 40) });
        vector.add(Run { start: stamp(63, 5), last: stamp(63, 6) });
        assert_eq!(parse_vector(&vector_text(&vector)), Some(vector.clone()));
        assert_eq!(parse_vector(""), Some(Vector::default()));
        for bad in ["1", "1-", "x-y", "2-1", "1-42", "8000000000000000-8000000000000001"] {
            assert_eq!(parse_vector(bad), None, "{bad}");
        }
        let table =
            BTreeMap::from([(Region::new(3).unwrap(), vector), (Region::new(9).unwrap(), Vector::default())]);
        assert_eq!(parse_table(&table_text(&table)), Some(table));
        assert_eq!(parse_table("64="), None);
        let members = BTreeMap::from([(7, "0123456789012345678901234567890123456789".to_owned())]);
        assert_eq!(parse_members(&members_text(&members)), Some(members));
        assert_eq!(parse_members("7=short"), None);
    }
}
