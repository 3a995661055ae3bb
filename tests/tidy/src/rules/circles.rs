// SPDX-License-Identifier: BSD-3-Clause
//! No two files of a crate import from each other, directly or through others, except a module
//! and its children.

use std::collections::{BTreeMap, BTreeSet};

use super::violation;
use crate::modules::{Edges, circles};
use crate::scan::Facts;
use crate::{Tree, Violation};

pub const NAME: &str = "circle";

/// One violation for each file in a circle, reported at the crate's folder because circles move
/// from file to file as they are taken apart.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let facts: BTreeMap<&str, &Facts> = tree.rust().collect();
    let mut found = Vec::new();
    for one in tree.crates() {
        let edges = one.edges(&facts);
        let folder = one.root.split("/src/").next().unwrap_or(&one.root);
        for circle in circles(&edges) {
            for file in &circle {
                found.push(violation(NAME, folder, 0, describe(file, &circle, &edges)));
            }
        }
    }
    found
}

/// The file's imports within its circle.
fn describe(file: &str, circle: &BTreeSet<String>, edges: &Edges) -> String {
    let imports: Vec<String> = edges
        .iter()
        .filter(|((from, to), _)| from == file && circle.contains(to))
        .map(|((_, to), name)| format!("{name} of {to}"))
        .collect();
    format!("{file} is in an import cycle of {} files; it imports {}", circle.len(), imports.join(", "))
}
