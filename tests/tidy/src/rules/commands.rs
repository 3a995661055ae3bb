// SPDX-License-Identifier: BSD-3-Clause
//! Dispatcher, loops and scripts recognise no command by its name: a command's special treatment
//! is a flag of its spec.

use std::collections::BTreeSet;

use super::{is_below, violation};
use crate::house::NAMELESS;
use crate::{Tree, Violation};

pub const NAME: &str = "command-name";

/// Command names from the tables of docs/compatibility.md, in lower case, `client|pause` for
/// subcommands.
fn names(tree: &Tree) -> BTreeSet<String> {
    let page = tree.text("docs/compatibility.md").unwrap_or_default();
    let cells = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let names = cells.map(|cell| cell.trim().to_ascii_lowercase().replacen(' ', "|", 1));
    names.filter(|name| !name.is_empty() && name != "command").collect()
}

pub fn check(tree: &Tree) -> Vec<Violation> {
    let names = names(tree);
    let mut found = Vec::new();
    for (path, facts) in tree.rust() {
        if !is_below(path, &NAMELESS) || tree.is_test(path) {
            continue;
        }
        for one in facts.compared.iter().filter(|one| !one.test) {
            if names.contains(&one.text.to_ascii_lowercase()) {
                let message = format!("a comparison with the command name \"{}\"", one.text);
                found.push(violation(NAME, path, one.line, message));
            }
        }
    }
    found
}
