// SPDX-License-Identifier: BSD-3-Clause
//! `unsafe` appears only in the files that CONTRIBUTING.md lists, and a crate without any forbids
//! it.

use std::collections::BTreeSet;

use super::{is_below, violation};
use crate::{Tree, Violation};

pub const UNLISTED: &str = "unsafe-file";
pub const FORBID: &str = "unsafe-forbid";

const LIST: &str = "CONTRIBUTING.md";

/// The lines of CONTRIBUTING.md's block that opens with the fence "```unsafe": each is a file, or
/// a folder with a trailing slash.
fn listed(tree: &Tree) -> Vec<(usize, &str)> {
    let lines = tree.text(LIST).unwrap_or_default().lines().enumerate();
    lines
        .skip_while(|(_, line)| *line != "```unsafe")
        .skip(1)
        .take_while(|(_, line)| *line != "```")
        .map(|(index, line)| (index + 1, line.trim()))
        .collect()
}

/// Files with `unsafe` that are not listed, and listed places without any.
pub fn unlisted(tree: &Tree) -> Vec<Violation> {
    let listed = listed(tree);
    let places: Vec<&str> = listed.iter().map(|(_, place)| *place).collect();
    let mut found = Vec::new();
    let mut needed: BTreeSet<&str> = BTreeSet::new();
    for (path, facts) in tree.rust() {
        let Some(line) = facts.unsafe_lines.first() else { continue };
        needed.extend(places.iter().filter(|place| is_below(path, &[place])));
        if !is_below(path, &places) && !tree.is_test(path) {
            let message = format!("unsafe code in a file that {LIST} does not list");
            found.push(violation(UNLISTED, path, *line, message));
        }
    }
    for (line, place) in listed.iter().filter(|(_, place)| !needed.contains(place)) {
        found.push(violation(UNLISTED, LIST, *line, format!("{place} has no unsafe code")));
    }
    found
}

/// Roots of crates without unsafe that do not forbid it.
pub fn forbid(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for one in tree.crates().iter().filter(|one| one.root.contains("/src/")) {
        let folder = one.root.split("/src/").next().unwrap_or_default();
        let inside = format!("{folder}/src/");
        let has = |(path, facts): (&str, &crate::scan::Facts)| {
            path.starts_with(&inside) && !facts.unsafe_lines.is_empty()
        };
        let forbids = tree.facts(&one.root).is_some_and(|facts| facts.forbids_unsafe);
        if !forbids && !tree.rust().any(has) {
            let message = "#![forbid(unsafe_code)] is missing".to_owned();
            found.push(violation(FORBID, &one.root, 0, message));
        }
    }
    found
}
