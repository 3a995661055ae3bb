// SPDX-License-Identifier: BSD-3-Clause
//! A crate's dependencies point down.
//!
//! Tests may depend on higher crates, but not on one that depends on the crate under test: its
//! unit tests would then see two builds of its types.

use std::collections::{BTreeMap, BTreeSet};

use super::violation;
use crate::house::FLOORS;
use crate::{Tree, Violation};

pub const NAME: &str = "layers";

struct Dependency<'a> {
    name: &'a str,
    line: usize,
    for_tests: bool,
}

/// The workspace crates among a manifest's dependencies.
fn dependencies(manifest: &str) -> Vec<Dependency<'_>> {
    let mut found = Vec::new();
    let mut section = "";
    for (index, line) in manifest.lines().enumerate() {
        if let Some(header) = line.trim().strip_prefix('[') {
            section = header.trim_end_matches(']');
        }
        let table = section.rsplit_once("dependencies").map(|(_, name)| name.trim_start_matches('.'));
        let Some(table) = table else { continue };
        let is_header = line.trim_start().starts_with('[');
        let named = if is_header { table } else { line.trim_start() };
        if let Some(rest) = named.trim_matches('"').strip_prefix("braid-")
            && (is_header || table.is_empty())
        {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(rest.len());
            let for_tests = section.contains("dev-dependencies");
            found.push(Dependency { name: &rest[..end], line: index + 1, for_tests });
        }
    }
    found
}

/// A crate's floor, and its position on it.
fn floor(name: &str) -> Option<(usize, usize)> {
    FLOORS
        .iter()
        .enumerate()
        .find_map(|(floor, crates)| crates.iter().position(|one| *one == name).map(|place| (floor, place)))
}

pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut all: BTreeMap<&str, (&str, Vec<Dependency<'_>>)> = BTreeMap::new();
    for (path, text) in tree.files() {
        let name = path.strip_prefix("crates/").and_then(|rest| rest.strip_suffix("/Cargo.toml"));
        if let Some(name) = name {
            all.insert(name, (path, dependencies(text)));
        }
    }
    let below = |name: &str| {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut todo = vec![name];
        while let Some(name) = todo.pop() {
            let next = all.get(name).into_iter().flat_map(|(_, dependencies)| dependencies);
            for one in next.filter(|one| !one.for_tests) {
                if seen.insert(one.name) {
                    todo.push(one.name);
                }
            }
        }
        seen.into_iter().map(str::to_owned).collect::<BTreeSet<String>>()
    };
    for (name, (path, dependencies)) in &all {
        let Some(own) = floor(name) else {
            let message = format!("crate {name} is on no floor in tests/tidy/src/house.rs");
            found.push(violation(NAME, path, 0, message));
            continue;
        };
        for one in dependencies {
            let message = if one.for_tests {
                if !below(one.name).contains(*name) {
                    continue;
                }
                format!("tests of {name} depend on {}, which depends on {name}", one.name)
            } else {
                if floor(one.name).is_none_or(|other| other < own) {
                    continue;
                }
                format!("{name} depends on {}, which is not below it", one.name)
            };
            found.push(violation(NAME, path, one.line, message));
        }
    }
    found
}
