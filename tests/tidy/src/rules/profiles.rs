// SPDX-License-Identifier: BSD-3-Clause
//! What is shipped is optimised everywhere: a package that `release` builds faster, by optimising
//! it less, is named again under `dist`, which would inherit that.

use super::violation;
use crate::{Tree, Violation};

pub const NAME: &str = "profiles";

const MANIFEST: &str = "Cargo.toml";
const RELEASE: &str = "[profile.release.package]";
const DIST: &str = "[profile.dist.package]";
/// The end of a line that optimises a package fully.
const FULLY: &str = ".opt-level = 3";

pub fn check(tree: &Tree) -> Vec<Violation> {
    let text = tree.text(MANIFEST).unwrap_or_default();
    let shipped: Vec<&str> = lines(text, DIST).filter_map(|(_, line)| line.strip_suffix(FULLY)).collect();
    lines(text, RELEASE)
        .filter_map(|(number, line)| Some((number, line.split_once('.')?.0)))
        .filter(|(_, package)| !shipped.contains(package))
        .map(|(number, package)| {
            violation(NAME, MANIFEST, number, format!("dist inherits this for {package}"))
        })
        .collect()
}

/// The lines of a table, up to an empty one, with their numbers.
fn lines<'a>(text: &'a str, table: &str) -> impl Iterator<Item = (usize, &'a str)> {
    text.lines()
        .enumerate()
        .skip_while(move |(_, line)| *line != table)
        .skip(1)
        .take_while(|(_, line)| !line.is_empty())
        .map(|(index, line)| (index + 1, line))
}
