// SPDX-License-Identifier: BSD-3-Clause
//! The clients' operations and observations. In a file each operation is a line: client, action,
//! key, value, the times when it was sent and when it ended (nanoseconds since the start), and
//! the outcome: `ok` and the values read, `fail` (it was not executed), or `unknown` (it may have
//! been executed, or may be executed later).

use std::fmt::Write;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Action {
    /// RPUSH of a unique value.
    Push,
    /// LRANGE of the whole list.
    List,
    /// INCR.
    Count,
    /// SADD of a unique value.
    Add,
    /// SET of a unique value.
    Write,
    /// GET.
    Read,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The values read, or the counter's new value; empty for other writes.
    Ok(Vec<u64>),
    Fail,
    Unknown,
}

#[derive(Clone, Debug)]
pub struct Operation {
    /// A logical client with a single connection, whose operations are sequential.
    pub client: usize,
    pub action: Action,
    pub key: String,
    /// The value written; 0 for reads.
    pub value: u64,
    pub sent: u64,
    pub ended: u64,
    pub outcome: Outcome,
}

impl Operation {
    pub fn is_write(&self) -> bool {
        !matches!(self.action, Action::List | Action::Read)
    }

    pub fn is_acknowledged(&self) -> bool {
        self.is_write() && matches!(self.outcome, Outcome::Ok(_))
    }
}

/// All operations, and the final state.
#[derive(Default)]
pub struct History {
    pub operations: Vec<Operation>,
    /// The elements of each list.
    pub lists: Vec<(String, Vec<u64>)>,
    pub sets: Vec<(String, Vec<u64>)>,
    pub counters: Vec<(String, u64)>,
}

impl History {
    /// Writes the history into the folder `BRAID_HISTORY`, if that is set.
    pub fn write(&self, name: &str) {
        let Some(folder) = std::env::var_os("BRAID_HISTORY") else { return };
        let mut text = String::new();
        for Operation { client, action, key, value, sent, ended, outcome } in &self.operations {
            let outcome = match outcome {
                Outcome::Ok(read) => format!("ok {read:?}"),
                Outcome::Fail => "fail".into(),
                Outcome::Unknown => "unknown".into(),
            };
            let _ = writeln!(text, "{client} {action:?} {key} {value} {sent} {ended} {outcome}");
        }
        for (what, left) in [("list", &self.lists), ("set", &self.sets)] {
            for (key, values) in left {
                let _ = writeln!(text, "{what} {key} {values:?}");
            }
        }
        for (key, count) in &self.counters {
            let _ = writeln!(text, "counter {key} {count}");
        }
        let path = std::path::Path::new(&folder).join(format!("{name}.history"));
        std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
