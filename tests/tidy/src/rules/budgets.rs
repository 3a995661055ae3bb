// SPDX-License-Identifier: BSD-3-Clause
//! Every crate has a budget of lines, in tests/tidy/budgets.txt. A crate that would outgrow it
//! gives something away, or a page of docs/design says why it should be larger.
//!
//! A line of the list is `crate lines`, or after a raise `crate lines -> lines page`: the page
//! must state the new number, written `9,600 lines`.

use std::collections::BTreeMap;

use super::violation;
use crate::{Tree, Violation};

pub const NAME: &str = "budget";

/// The list.
pub const LIST: &str = "tests/tidy/budgets.txt";

struct Budget<'a> {
    lines: usize,
    /// The page that raised it.
    page: Option<&'a str>,
}

fn parse(line: &str) -> Option<(&str, Budget<'_>)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        [name, lines] => Some((name, Budget { lines: lines.parse().ok()?, page: None })),
        [name, before, "->", lines, page] => {
            let (before, lines): (usize, usize) = (before.parse().ok()?, lines.parse().ok()?);
            (lines > before).then_some((name, Budget { lines, page: Some(page) }))
        }
        _ => None,
    }
}

/// `9,600 lines`
fn written(lines: usize) -> String {
    let (thousands, rest) = (lines / 1000, lines % 1000);
    if thousands == 0 { format!("{rest} lines") } else { format!("{thousands},{rest:03} lines") }
}

pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut budgets = BTreeMap::new();
    for (index, line) in tree.text(LIST).unwrap_or_default().lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((name, budget)) = parse(line) else {
            found.push(violation(NAME, LIST, index + 1, format!("malformed line: {line}")));
            continue;
        };
        if let Some(page) = budget.page {
            let stated = page.starts_with("docs/design/")
                && tree.text(page).is_some_and(|text| text.contains(&written(budget.lines)));
            if !stated {
                let message = format!("{page} does not state a budget of {}", written(budget.lines));
                found.push(violation(NAME, LIST, index + 1, message));
            }
        }
        budgets.insert(name, (index + 1, budget.lines));
    }
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".rs")) {
        let inside = path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/"));
        if let Some((name, _)) = inside {
            *sizes.entry(name).or_default() += text.lines().count();
        }
    }
    for (name, lines) in &sizes {
        match budgets.get(name) {
            Some((_, most)) if lines <= most => {}
            Some((_, most)) => {
                let message = format!("{lines} lines, more than its budget of {}", written(*most));
                found.push(violation(NAME, &format!("crates/{name}"), 0, message));
            }
            None => {
                let message = format!("no budget in {LIST}");
                found.push(violation(NAME, &format!("crates/{name}"), 0, message));
            }
        }
    }
    for (name, (line, _)) in budgets.iter().filter(|(name, _)| !sizes.contains_key(**name)) {
        found.push(violation(NAME, LIST, *line, format!("there is no crate {name}")));
    }
    found
}
