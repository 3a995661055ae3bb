// SPDX-License-Identifier: BSD-3-Clause
//! The form in which keys are written: records of a dump file, or requests that create them.

use braid_keyspace::Entry;
use braid_rdb::{Format, Target, Traits, encode_key};

use crate::aof::{push_key, push_protection};
use crate::value::to_rdb;

/// The form in which keys are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A dump file, with values in this format.
    Dump(Format),
    /// Requests, after a timestamp annotation (Unix time in seconds) if given.
    Requests(Option<i64>),
}

impl Default for Form {
    fn default() -> Form {
        Form::Dump(Format::default())
    }
}

impl Form {
    /// True for dump files.
    pub(crate) fn is_dump(self) -> bool {
        matches!(self, Form::Dump(_))
    }

    /// Encodes a key with its value as in the file; its database is selected separately.
    pub(crate) fn encode(self, entry: Entry<'_>, traits: Traits) -> Vec<u8> {
        match self {
            Form::Dump(format) => encode_key(entry.key(), to_rdb(entry), format, entry.expiry(), traits),
            Form::Requests(_) => {
                let mut out = Vec::new();
                push_key(&mut out, entry.key(), entry.value(), entry.expiry())
                    .expect("a write to memory cannot fail");
                if traits.is_protected {
                    push_protection(&mut out, entry.key());
                }
                out
            }
        }
    }

    /// Number of members of a key that become permanent because the form cannot store their expiry.
    pub(crate) fn times_left_out(self, entry: Entry<'_>) -> u64 {
        match self {
            // Only other servers' formats need the check; this server's own is the common case.
            Form::Dump(format) if format.target != Target::Own => {
                let value = to_rdb(entry);
                if format.is_foreign(value) {
                    log::warn!(
                        "rdb-target: key '{}' is omitted: the target has no type {}",
                        String::from_utf8_lossy(entry.key()),
                        entry.value_type().name()
                    );
                }
                format.times_left_out(value, true)
            }
            _ => 0,
        }
    }
}
