// SPDX-License-Identifier: BSD-3-Clause
//! Checks a dump file without a server: every record is decoded as by a load, then dropped.
//!
//! Messages follow redis-check-rdb, because scripts parse them: a line for each note and database
//! with its offset, a verdict, and counts. It never changes the file.
#![forbid(unsafe_code)]

pub mod aof;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io::Read;

use braid_rdb::{Error, Fault, FileReader, Limits, RdbType, Record};

/// Limits of the compact encodings; a check does not depend on their values.
fn limits() -> Limits {
    Limits::default()
}

/// Number of keys of a module type whose names are printed.
const NAMES: usize = 3;

/// Keys of one type.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OfType {
    pub keys: u64,
    /// Bytes of the values in the file.
    pub bytes: u64,
    /// The first names, readable; only of types that cannot be loaded.
    pub names: Vec<String>,
}

impl OfType {
    fn add(&mut self, bytes: u64) {
        self.keys += 1;
        self.bytes += bytes;
    }
}

/// The result of a check.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// One line each.
    pub lines: String,
    pub keys: u64,
    /// Keys with an expiry.
    pub expires: u64,
    /// Expired keys.
    pub expired: u64,
    pub functions: u64,
    /// Keys by type.
    pub types: BTreeMap<&'static str, OfType>,
    /// Keys by module type; they cannot be loaded.
    pub modules: BTreeMap<String, OfType>,
    /// Size of a valid file, in bytes.
    pub bytes: u64,
    /// The file is complete and every value in it can be loaded.
    pub is_good: bool,
}

/// The step at which a check failed.
#[derive(Default)]
struct Doing {
    what: &'static str,
    key: Option<Vec<u8>>,
    kind: Option<RdbType>,
}

/// Checks a dump file of `len` bytes, if the length is known. `name` is its name in the first line;
/// keys expire as of `now_ms`, in ms since the Unix epoch.
pub fn check_rdb(name: &str, input: impl Read, len: Option<u64>, now_ms: i64) -> Findings {
    braid_values::register();
    let mut findings = Findings::default();
    findings.say(0, &format!("Checking RDB file {name}"));
    let mut doing = Doing { what: "start", ..Doing::default() };
    match findings.read(input, len, now_ms, &mut doing) {
        Ok(()) => findings.is_good = findings.modules.is_empty(),
        Err(error) => {
            findings.lines.push_str("--- RDB ERROR DETECTED ---\n");
            findings.say(error.position, &describe(&error.fault));
            let mut note = |text: &str| {
                // Writing to memory cannot fail.
                let _ = writeln!(findings.lines, "[additional info] {text}");
            };
            note(&format!("While doing: {}", doing.what));
            if let Some(key) = &doing.key {
                note(&format!("Reading key '{}'", key.escape_ascii()));
            }
            if let Some(kind) = doing.kind {
                note(&format!("Reading type {} ({kind:?})", kind.number()));
            }
        }
    }
    let counts = [
        (findings.keys, "keys read"),
        (findings.expires, "expires"),
        (findings.expired, "already expired"),
        (findings.functions, "function libraries"),
    ];
    for (count, what) in counts {
        let _ = writeln!(findings.lines, "[info] {count} {what}");
    }
    findings
}

impl Findings {
    /// Keys and bytes by type, one line each; for module types also the first names.
    pub fn summary(&self) -> String {
        let mut lines = String::new();
        let mut line = |kind: &str, of: &OfType, rest: &str| {
            let keys = braid_base::plural::plural(of.keys, "key");
            let bytes = braid_base::plural::plural(of.bytes, "byte");
            // Writing to memory cannot fail.
            let _ = writeln!(lines, "[summary] {kind}: {keys}, {bytes}{rest}");
        };
        for (name, of) in &self.types {
            line(name, of, "");
        }
        for (name, of) in &self.modules {
            let more = if of.keys > of.names.len() as u64 { ", ..." } else { "" };
            let names = of.names.join(", ");
            line(&format!("module type {name}"), of, &format!(", not supported: {names}{more}"));
        }
        lines
    }
}

fn describe(fault: &Fault) -> String {
    match fault {
        Fault::Short => "Unexpected EOF reading RDB file".to_owned(),
        other => other.to_string(),
    }
}

impl Findings {
    fn say(&mut self, offset: u64, text: &str) {
        let _ = writeln!(self.lines, "[offset {offset}] {text}");
    }

    fn read(
        &mut self,
        input: impl Read,
        len: Option<u64>,
        now_ms: i64,
        doing: &mut Doing,
    ) -> Result<(), Error> {
        let mut reader = FileReader::new(input, len, false, true)?;
        loop {
            (doing.what, doing.key, doing.kind) = ("read-type", None, None);
            let record = reader.record()?;
            let offset = reader.position();
            match record {
                Record::Note { name, text } => {
                    let (name, text) = (name.escape_ascii(), text.escape_ascii());
                    self.say(offset, &format!("AUX FIELD {name} = '{text}'"));
                }
                Record::Database(number) => self.say(offset, &format!("Selecting DB ID {number}")),
                Record::Size { .. } => {}
                Record::Function(_) => self.functions += 1,
                Record::ModuleData(name) => self.say(offset, &format!("MODULE AUX for: {name}")),
                Record::Key { kind, expire_at, .. } => {
                    doing.what = "read-object-value";
                    (doing.key, doing.kind) = (Some(reader.name().to_vec()), Some(kind));
                    let value =
                        braid_persistence::read_value(reader.name_and_value().1, kind, &limits(), now_ms);
                    let value = value.map(|value| value.value_type().name());
                    let bytes = reader.position() - offset;
                    match value {
                        Ok(name) => self.types.entry(name).or_default().add(bytes),
                        Err(Error { fault: Fault::Module(name), .. }) => {
                            let of = self.modules.entry(name).or_default();
                            of.add(bytes);
                            if of.names.len() < NAMES {
                                of.names.push(format!("'{}'", reader.name().escape_ascii()));
                            }
                        }
                        // A load skips such keys.
                        Err(Error { fault: Fault::Empty | Fault::LeftOut(_), .. }) => continue,
                        Err(error) => return Err(error),
                    }
                    self.keys += 1;
                    self.expires += u64::from(expire_at.is_some());
                    self.expired += u64::from(expire_at.is_some_and(|at| at < now_ms));
                }
                Record::End { checked } => {
                    let verdict =
                        if checked { "Checksum OK" } else { "RDB file was saved with checksum disabled" };
                    self.bytes = offset;
                    self.say(offset, verdict);
                    let foreign: u64 = self.modules.values().map(|of| of.keys).sum();
                    if foreign > 0 {
                        let types: Vec<&str> = self.modules.keys().map(String::as_str).collect();
                        let keys = braid_base::plural::plural(foreign, "key");
                        let text = format!(
                            "{keys} of module types that cannot be loaded ({}): rdb-skip-unsupported leaves them out",
                            types.join(", ")
                        );
                        self.say(offset, &text);
                        return Ok(());
                    }
                    self.say(offset, "\\o/ RDB looks OK! \\o/");
                    return Ok(());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_rdb::{FileWriter, Traits, ValueRef};

    const NOW: i64 = 1_800_000_000_000;

    fn file() -> Vec<u8> {
        let mut writer = FileWriter::new(Vec::new(), braid_rdb::VERSION, true, true).unwrap();
        writer.note("redis-ver", "7.2.4").unwrap();
        writer.function(b"#!lua name=l\n").unwrap();
        writer.database(0, 2, 1).unwrap();
        writer.key(b"k", ValueRef::Text(b"value"), None, Traits::default()).unwrap();
        writer.key(b"old", ValueRef::Integer(7), Some(NOW - 1), Traits::default()).unwrap();
        writer.database(3, 1, 1).unwrap();
        writer.key(b"new", ValueRef::Integer(7), Some(NOW + 1), Traits::default()).unwrap();
        writer.finish().unwrap()
    }

    fn check(bytes: &[u8]) -> Findings {
        check_rdb("dump.rdb", bytes, Some(bytes.len() as u64), NOW)
    }

    #[test]
    fn check_summarizes_a_valid_rdb_file() {
        let findings = check(&file());
        assert!(findings.is_good, "{}", findings.lines);
        assert_eq!((findings.keys, findings.expires, findings.expired), (3, 2, 1));
        for line in [
            "[offset 0] Checking RDB file dump.rdb",
            "AUX FIELD redis-ver = '7.2.4'",
            "Selecting DB ID 3",
            "Checksum OK",
            "\\o/ RDB looks OK! \\o/",
            "[info] 3 keys read",
            "[info] 1 function libraries",
        ] {
            assert!(findings.lines.contains(line), "{line} in {}", findings.lines);
        }
    }

    #[test]
    fn every_cut_and_most_changed_bytes_are_found() {
        let good = file();
        for len in 0..good.len() {
            let findings = check(&good[..len]);
            assert!(!findings.is_good && findings.lines.contains("--- RDB ERROR DETECTED ---"), "{len}");
        }
        for at in 0..good.len() {
            let mut bytes = good.clone();
            bytes[at] ^= 0x40;
            assert!(!check(&bytes).is_good, "byte {at}: the checksum misses a change");
        }
    }

    #[test]
    fn values_of_modules_are_counted_by_type() {
        let module = b"\x07\x01m\x81\x7c\x11\x2d\x1b\x08\xa5\x7c\x01\x02\x05\x05\x02ab\x00";
        let mut file = b"REDIS0011\xfe\x00".to_vec();
        for _ in 0..4 {
            file.extend_from_slice(module);
        }
        file.extend_from_slice(b"\x00\x01k\x05value\xff\0\0\0\0\0\0\0\0");
        let findings = check(&file);
        assert!(!findings.is_good && !findings.lines.contains("looks OK"), "{}", findings.lines);
        assert!(
            findings.lines.contains("4 keys of module types that cannot be loaded (fBEtGwilf)"),
            "{}",
            findings.lines
        );
        let summary = "[summary] string: 1 key, 6 bytes\n\
                       [summary] module type fBEtGwilf: 4 keys, 64 bytes, not supported: 'm', 'm', 'm', ...\n";
        assert_eq!(findings.summary(), summary);
    }

    #[test]
    fn check_reports_the_key_and_type_being_read() {
        let bytes = b"REDIS0011\xfe\x00\x02\x03set\x02\x01a\x01a\xff\0\0\0\0\0\0\0\0";
        let lines = check(bytes).lines;
        assert!(lines.contains("While doing: read-object-value"), "{lines}");
        assert!(lines.contains("Reading key 'set'") && lines.contains("Reading type 2 (Set)"), "{lines}");
    }
}
