// SPDX-License-Identifier: BSD-3-Clause
//! Counts the keys of a dump file that cannot be loaded, once a load has met the first one: the
//! operator decides by their number whether to load the rest.
//!
//! It reads the rest of the file and changes nothing.

use std::collections::BTreeMap;
use std::io::Read;

use braid_base::plural::plural;
use braid_keyspace::txn::NOTHING_EXPIRED;
use braid_rdb::{Error, Fault, FileReader, Limits, Record};

use super::pool::VALUE_MAX;
use super::readable;
use crate::value::read_value;

/// Keys named for each type.
const NAMED_MAX: usize = 5;

#[derive(Default)]
struct OfType {
    keys: u64,
    names: Vec<String>,
}

impl OfType {
    fn add(&mut self, name: String) {
        self.keys += 1;
        if self.names.len() < NAMED_MAX {
            self.names.push(format!("'{name}'"));
        }
    }
}

/// A sentence with the number of keys of each module type, from one on that has just been read to
/// the end of the file.
pub(super) fn tally<R: Read>(reader: &mut FileReader<R>, kind: &str, key: &str) -> String {
    let mut types = BTreeMap::<String, OfType>::new();
    types.entry(kind.into()).or_default().add(key.into());
    let is_whole = read_on(reader, &mut types).is_ok();
    let all = types.values().map(|of| of.keys).sum::<u64>();
    let each = types.iter().map(|(kind, OfType { keys, names })| {
        let more = if *keys > names.len() as u64 { " ..." } else { "" };
        format!("{} of the module type '{kind}' ({}{more})", plural(*keys, "key"), names.join(", "))
    });
    format!(
        "The RDB file has {}{} that cannot be loaded: {}. With rdb-skip-unknown-modules yes the rest is \
         loaded",
        if is_whole { "" } else { "at least " },
        plural(all, "key"),
        each.collect::<Vec<_>>().join(", ")
    )
}

fn read_on<R: Read>(reader: &mut FileReader<R>, types: &mut BTreeMap<String, OfType>) -> Result<(), Error> {
    let limits = Limits::default();
    loop {
        match reader.record()? {
            Record::Key { kind, .. } => {
                if reader.raw_entry(kind, VALUE_MAX).is_some() {
                    continue;
                }
                match read_value(reader.name_and_value().1, kind, &limits, NOTHING_EXPIRED) {
                    Err(Error { fault: Fault::Module(kind), .. }) => {
                        types.entry(kind).or_default().add(readable(reader.name()));
                    }
                    Ok(_) | Err(Error { fault: Fault::Empty | Fault::LeftOut(_), .. }) => {}
                    Err(error) => return Err(error),
                }
            }
            Record::End { .. } => return Ok(()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_by_type() {
        // Two values of a module "CMSk-TYPE" of an unknown version, a string, and one of
        // "TSDB-TYPE".
        let mut file = b"REDIS0011\xfe\x00".to_vec();
        let foreign = |id: u64, name: &[u8]| {
            let mut record = vec![7, name.len() as u8];
            record.extend_from_slice(name);
            record.push(0x81);
            record.extend_from_slice(&id.to_be_bytes());
            record.extend_from_slice(&[2, 5, 0]);
            record
        };
        for name in [&b"first"[..], b"second"] {
            file.extend(foreign(0x08c4_a4f9_360f_13ff, name));
        }
        file.extend_from_slice(b"\x00\x01k\x01v");
        file.extend(foreign(0x4d20_c1f9_360f_13ff, b"third"));
        file.push(0xff);
        file.extend_from_slice(&[0; 8]);
        let mut reader = FileReader::new(&file[..], Some(file.len() as u64), false, true).expect("a file");
        let first = loop {
            if let Record::Key { kind, .. } = reader.record().expect("a record") {
                let read = read_value(reader.name_and_value().1, kind, &Limits::default(), NOTHING_EXPIRED);
                match read.map(|_| ()).expect_err("a foreign value").fault {
                    Fault::Module(kind) => break kind,
                    other => panic!("{other:?}"),
                }
            }
        };
        assert_eq!(
            tally(&mut reader, &first, "first"),
            "The RDB file has 3 keys that cannot be loaded: 2 keys of the module type 'CMSk-TYPE' ('first', \
             'second'), 1 key of the module type 'TSDB-TYPE' ('third'). With rdb-skip-unknown-modules yes \
             the rest is loaded"
        );
    }
}
