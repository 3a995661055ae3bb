// SPDX-License-Identifier: BSD-3-Clause
//! What is shipped is optimised everywhere: `dist` would inherit it if `release` optimises less,
//! as a whole or for a package.

use super::violation;
use crate::{Tree, Violation};

pub const NAME: &str = "profiles";

const MANIFEST: &str = "Cargo.toml";
const RELEASE: &str = "[profile.release.package]";
const DIST: &str = "[profile.dist.package]";
const RELEASE_AS_A_WHOLE: &str = "[profile.release]";
const DIST_AS_A_WHOLE: &str = "[profile.dist]";
/// The line that optimises fully; for a package, after its name and a point.
const FULLY: &str = "opt-level = 3";

pub fn check(tree: &Tree) -> Vec<Violation> {
    let text = tree.text(MANIFEST).unwrap_or_default();
    let shipped = lines(text, DIST).filter_map(|(_, line)| line.strip_suffix(FULLY)?.strip_suffix('.'));
    let shipped: Vec<&str> = shipped.collect();
    let is_full = lines(text, DIST_AS_A_WHOLE).any(|(_, line)| line == FULLY);
    let whole = lines(text, RELEASE_AS_A_WHOLE)
        .filter(|(_, line)| line.starts_with("opt-level") && *line != FULLY && !is_full)
        .map(|(number, _)| violation(NAME, MANIFEST, number, "dist inherits this".to_owned()));
    lines(text, RELEASE)
        .filter_map(|(number, line)| Some((number, line.split_once('.')?.0)))
        .filter(|(_, package)| !shipped.contains(package))
        .map(|(number, package)| {
            violation(NAME, MANIFEST, number, format!("dist inherits this for {package}"))
        })
        .chain(whole)
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
