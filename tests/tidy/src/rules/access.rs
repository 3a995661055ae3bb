// SPDX-License-Identifier: BSD-3-Clause
//! Only a few files may use `std::fs`, take shard locks or connect to other servers.

use super::{is_below, violation};
use crate::house::{CONNECTION_OPENERS, FILE_ACCESS, LOCK_FUNCTIONS, LOCK_METHODS, LOCK_TAKERS};
use crate::scan::Facts;
use crate::{Tree, Violation};

pub const FILES: &str = "file-access";
pub const LOCKS: &str = "shard-locks";
pub const CONNECTIONS: &str = "connections";

/// Non-test sources in `crates/` outside of the allowed places.
fn others<'a>(tree: &'a Tree, allowed: &'a [&str]) -> impl Iterator<Item = (&'a str, &'a Facts)> {
    tree.rust()
        .filter(|(path, _)| path.starts_with("crates/") && !tree.is_test(path) && !is_below(path, allowed))
}

pub fn files(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, facts) in others(tree, &FILE_ACCESS) {
        for one in facts.paths.iter().filter(|one| !one.test) {
            if one.segments.starts_with(&["std".to_owned(), "fs".to_owned()]) {
                let message = format!("{} outside of the crates that may use it", one.segments.join("::"));
                found.push(violation(FILES, path, one.line, message));
            }
        }
    }
    found
}

pub fn locks(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, facts) in others(tree, &LOCK_TAKERS) {
        for (name, line, test) in &facts.method_calls {
            if LOCK_METHODS.contains(&name.as_str()) && !test {
                let message = format!("{name} outside of the dispatcher");
                found.push(violation(LOCKS, path, *line, message));
            }
        }
        for one in facts.paths.iter().filter(|one| !one.test) {
            if let [.., of, function] = one.segments.as_slice()
                && of == "Txn"
                && LOCK_FUNCTIONS.contains(&function.as_str())
            {
                let message = format!("Txn::{function} outside of the dispatcher");
                found.push(violation(LOCKS, path, one.line, message));
            }
        }
    }
    found
}

pub fn connections(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, facts) in others(tree, &CONNECTION_OPENERS) {
        for one in facts.paths.iter().filter(|one| !one.test) {
            if one.segments.ends_with(&["Outgoing".to_owned(), "connect".to_owned()]) {
                let message = "Outgoing::connect outside of the connector".to_owned();
                found.push(violation(CONNECTIONS, path, one.line, message));
            }
        }
    }
    found
}
