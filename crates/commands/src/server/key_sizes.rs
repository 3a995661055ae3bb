// SPDX-License-Identifier: BSD-3-Clause
//! INFO keysizes: how many keys have which size, by database and type. Sizes are lengths of
//! strings and numbers of elements; keys are counted at the power of two below their size.
//!
//! Nothing is counted until somebody asks: then all keys are visited, of large datasets in the
//! background, shard by shard. So the section is shown only by name.

use std::collections::BTreeMap;
use std::fmt::Write;

use braid_executor::Call;
use braid_executor::background::Answer;
use braid_keyspace::Keyspace;
use braid_keyspace::entry::{Entry, ValueRef};
use braid_keyspace::scan;
use braid_spec::CommandResult;
use braid_values::hash::Hash;
use braid_values::list::List;
use braid_values::set::Set;
use braid_values::sorted_set::SortedSet;

/// The name by which INFO is asked for the section.
pub const NAME: &str = "keysizes";

/// Datasets of this many keys are visited in the background.
const MANY_KEYS: usize = 20_000;
/// Keys visited between two locks of a shard.
const PIECE: usize = 1_000;

/// The types in the order of their lines.
const KINDS: [&str; 5] = ["strings_sizes", "lists_items", "sets_items", "zsets_items", "hashes_items"];

/// Numbers of keys: of size 0, then at each power of two.
type Sizes = [u64; 65];

/// The sizes of a database's keys by type.
struct Histogram([Sizes; KINDS.len()]);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram([[0; 65]; KINDS.len()])
    }
}

impl Histogram {
    fn add(&mut self, entry: Entry<'_>) {
        let (kind, size) = match entry.value() {
            ValueRef::Bytes(bytes) => (0, bytes.len()),
            ValueRef::Blob(blob) => (0, blob.len()),
            ValueRef::Integer(number) => (0, itoa::Buffer::new().format(number).len()),
            ValueRef::Object(object) => {
                if let Some(list) = object.get::<List>() {
                    (1, list.len())
                } else if let Some(set) = object.get::<Set>() {
                    (2, set.len())
                } else if let Some(set) = object.get::<SortedSet>() {
                    (3, set.len())
                } else if let Some(hash) = object.get::<Hash>() {
                    (4, hash.len())
                } else {
                    return;
                }
            }
        };
        self.0[kind][bin(size)] += 1;
    }

    fn write(&self, db: u32, text: &mut String) {
        for (kind, sizes) in KINDS.iter().zip(&self.0) {
            let mut separator = ':';
            for (bin, count) in sizes.iter().enumerate().filter(|(_, count)| **count > 0) {
                if separator == ':' {
                    let _ = write!(text, "db{db}_distrib_{kind}");
                }
                let _ = write!(text, "{separator}{}={count}", least_of(bin));
                separator = ',';
            }
            if separator == ',' {
                text.push_str("\r\n");
            }
        }
    }
}

/// The place of a size: 0 for none, then one more than its logarithm.
fn bin(size: usize) -> usize {
    size.checked_ilog2().map_or(0, |logarithm| logarithm as usize + 1)
}

/// The least size at a place, in units of 1,024.
fn least_of(bin: usize) -> String {
    const UNITS: [&str; 7] = ["", "K", "M", "G", "T", "P", "E"];
    match bin.checked_sub(1) {
        None => "0".to_owned(),
        Some(logarithm) => format!("{}{}", 1 << (logarithm % 10), UNITS[logarithm / 10]),
    }
}

fn section(databases: &BTreeMap<u32, Histogram>) -> String {
    let mut text = String::from("# Keysizes\r\n");
    databases.iter().for_each(|(db, histogram)| histogram.write(*db, &mut text));
    text
}

/// Replies with the sections written so far, and this one.
pub fn reply(call: &mut Call, mut sections: String) -> CommandResult {
    if !sections.is_empty() {
        sections.push_str("\r\n");
    }
    let keyspace = &call.engine.keyspace;
    let keys: usize = (0..keyspace.databases()).map(|db| keyspace.len(db).0).sum();
    if keys >= MANY_KEYS && call.may_leave(false) {
        return call.work_in_background(move |engine, answer| {
            visit_in_background(&engine.keyspace, answer, sections)
        });
    }
    let now = call.now();
    let mut databases: BTreeMap<u32, Histogram> = BTreeMap::new();
    for db in 0..keyspace.databases() {
        let mut cursor = 0;
        loop {
            cursor = scan::scan(keyspace, db, cursor, PIECE, |entry| {
                if !entry.is_expired(now) {
                    databases.entry(db).or_default().add(entry);
                }
            });
            if cursor == 0 {
                break;
            }
        }
    }
    sections.push_str(&section(&databases));
    call.reply.verbatim("txt", sections.as_bytes());
    Ok(())
}

fn visit_in_background(keyspace: &Keyspace, answer: Answer, mut sections: String) {
    let reader = keyspace.reader();
    let mut databases: BTreeMap<u32, Histogram> = BTreeMap::new();
    for db in 0..keyspace.databases() {
        for shard in 0..keyspace.shard_count() as u32 {
            if !answer.is_wanted() {
                return;
            }
            reader.visit_shard(shard, db, braid_base::clock::unix_ms(), |entry| {
                databases.entry(db).or_default().add(entry);
            });
        }
    }
    drop(reader);
    sections.push_str(&section(&databases));
    let mut reply = answer.buffer();
    reply.verbatim("txt", sections.as_bytes());
    answer.give(reply);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Tester;

    #[test]
    fn sizes_are_counted_at_powers_of_two() {
        let places = [0, 1, 2, 3, 4, 511, 512, 1_023, 1_024, 2_047, 1 << 20, 3 << 29, usize::MAX];
        let texts: Vec<String> = places.into_iter().map(|size| least_of(bin(size))).collect();
        assert_eq!(texts, ["0", "1", "2", "2", "4", "256", "512", "512", "1K", "1K", "1M", "1G", "8E"],);
    }

    #[test]
    fn keys_are_counted_by_database_and_type() {
        let mut tester = Tester::new();
        for line in [
            "SET a xxx",
            "SET b 1234",
            "SET c \"\"",
            "RPUSH l 1 2 3",
            "SADD s 1",
            "ZADD z 1 a 2 b",
            "HSET h a 1",
            "XADD x * f v",
            "SELECT 3",
            "SET a x",
            "SET gone x PXAT 1",
        ] {
            tester.run(line);
        }
        let lines = "# Keysizes\r\ndb0_distrib_strings_sizes:0=1,2=1,4=1\r\ndb0_distrib_lists_items:2=1\r\n\
                     db0_distrib_sets_items:1=1\r\ndb0_distrib_zsets_items:2=1\r\ndb0_distrib_hashes_items:1=1\r\n\
                     db3_distrib_strings_sizes:1=1\r\n";
        assert_eq!(tester.run("INFO keysizes"), format!("${}\r\n{lines}\r\n", lines.len()));
        let both = tester.run("INFO keysizes cpu");
        assert!(both.contains("# CPU\r\n") && both.ends_with(&format!("\r\n\r\n{lines}\r\n")), "{both}");
        assert!(!tester.run("INFO everything").contains("Keysizes"));
    }
}
