// SPDX-License-Identifier: BSD-3-Clause
//! Finds out whether a dump file can be loaded, before the data that it replaces is deleted: all
//! records are read, values skipped. That finds cuts, damage that changes the checksum, and values
//! of unsupported types, in a fraction of the time of a load.
//!
//! It must not change anything.

use std::io::Read;

use braid_keyspace::txn::NOTHING_EXPIRED;
use braid_rdb::{Error, Fault, FileReader, Limits, Record};

use super::pool::VALUE_MAX;
use super::{Accepts, LoadError, readable};
use crate::value::read_value;

/// Bytes between two calls of `goes_on`.
const LOOK_BYTES: u64 = 4 << 20;

/// Reads a dump file of `len` bytes, for a server with so many databases. `goes_on` is called every
/// few megabytes; false ends the check.
///
/// # Errors
/// The error that a load would end with, or [`LoadError::Stopped`] if `goes_on` returned false.
pub fn verify(
    input: impl Read,
    len: Option<u64>,
    accepts: Accepts,
    databases: u32,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<(), LoadError> {
    let mut reader = FileReader::new(input, len, accepts.relaxed, accepts.checksum)?;
    let limits = Limits::default();
    let (mut db, mut looked_at) = (0, 0);
    loop {
        if reader.position() >= looked_at + LOOK_BYTES {
            looked_at = reader.position();
            if !goes_on() {
                return Err(LoadError::Stopped);
            }
        }
        match reader.record()? {
            Record::Database(number) => match u32::try_from(number) {
                Ok(number) if number < databases => db = number,
                _ => return Err(LoadError::Database { number, databases }),
            },
            Record::Key { kind, .. } => {
                if reader.raw_entry(kind, VALUE_MAX).is_some() {
                    continue;
                }
                // Large, unsupported or invalid.
                match read_value(reader.name_and_value().1, kind, &limits, NOTHING_EXPIRED) {
                    Ok(_) | Err(Error { fault: Fault::Empty | Fault::LeftOut(_), .. }) => {}
                    Err(Error { fault: Fault::Module(_), .. }) if accepts.skip_unsupported => {}
                    Err(error) => return Err(LoadError::Value { error, key: readable(reader.name()), db }),
                }
            }
            Record::End { .. } => return Ok(()),
            Record::Note { .. } | Record::Size { .. } | Record::Function(_) | Record::ModuleData(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_rdb::{FileWriter, Traits, ValueRef};

    const ACCEPTS: Accepts = Accepts { relaxed: false, checksum: true, skip_unsupported: false };

    fn file() -> Vec<u8> {
        let mut writer = FileWriter::new(Vec::new(), 11, true, true).unwrap();
        writer.database(3, 2, 1).unwrap();
        writer.key(b"k", ValueRef::Text(b"value"), None, Traits::default()).unwrap();
        let long: Vec<u8> = (0..1_000_000_u32).map(|index| (index.wrapping_mul(index) / 7) as u8).collect();
        writer.key(b"long", ValueRef::Text(&long), Some(1), Traits::default()).unwrap();
        writer.finish().unwrap()
    }

    fn check(bytes: &[u8], accepts: Accepts, databases: u32) -> Result<(), LoadError> {
        verify(bytes, Some(bytes.len() as u64), accepts, databases, &mut || true)
    }

    #[test]
    fn cuts_and_damage_are_found() {
        let good = file();
        check(&good, ACCEPTS, 4).expect("a valid file");
        for len in (0..100).chain(good.len() - 100..good.len()) {
            assert!(check(&good[..len], ACCEPTS, 4).is_err(), "{len}");
        }
        for at in (0..100).chain((100..good.len()).step_by(9973)) {
            let mut bytes = good.clone();
            bytes[at] ^= 0x40;
            assert!(check(&bytes, ACCEPTS, 4).is_err(), "byte {at}");
        }
        assert!(matches!(check(&good, ACCEPTS, 3), Err(LoadError::Database { .. })));
    }

    #[test]
    fn values_of_modules_are_found_and_may_be_skipped() {
        let file = b"REDIS0011\xfe\x00\x07\x01m\x81\x7c\x11\x2d\x1b\x08\xa5\x7c\x01\x02\x05\x05\x02ab\x00\x00\x01k\x01v\xff\0\0\0\0\0\0\0\0";
        let error = check(file, ACCEPTS, 4).expect_err("a module's value");
        assert!(error.is_unsupported() && error.to_string().contains("key 'm' of database 0"), "{error}");
        check(file, Accepts { skip_unsupported: true, ..ACCEPTS }, 4).expect("the rest is valid");
    }

    #[test]
    fn a_check_can_be_ended() {
        let long = vec![0; 6 << 20];
        let mut writer = FileWriter::new(Vec::new(), 11, false, true).unwrap();
        for name in [b"a", b"b"] {
            writer.key(name, ValueRef::Text(&long), None, Traits::default()).unwrap();
        }
        let bytes = writer.finish().unwrap();
        let mut looks = 0;
        let mut ended = || {
            looks += 1;
            false
        };
        assert!(matches!(verify(&*bytes, None, ACCEPTS, 4, &mut ended), Err(LoadError::Stopped)));
        assert_eq!(looks, 1);
    }
}
