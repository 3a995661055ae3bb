// SPDX-License-Identifier: BSD-3-Clause
//! Paths named in the documentation must exist.
//!
//! A source may be named without its crate's `src` folder (`executor/dispatch.rs`) or by its last
//! components alone (`dispatch.rs`).

use super::violation;
use crate::{Tree, Violation};

pub const NAME: &str = "documents";

const FOLDERS: [&str; 8] = ["crates/", "tests/", "docs/", "bench/", "deploy/", "fuzz/", ".ci/", ".github/"];

pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".md")) {
        for (index, line) in text.lines().enumerate() {
            for word in paths(line) {
                if !exists(tree, word) {
                    found.push(violation(NAME, path, index + 1, format!("there is no {word}")));
                }
            }
        }
    }
    found
}

/// Words of a line that name a path of this repository.
fn paths(line: &str) -> Vec<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let mut found = Vec::new();
    let mut before = None;
    for word in line.split_inclusive(|c| !is_part(c)) {
        let separator = word.chars().next_back().filter(|c| !is_part(*c));
        let word = word.trim_end_matches(|c| !is_part(c));
        let opened_by = std::mem::replace(&mut before, separator);
        let word = word.trim_end_matches(['.', '/']);
        // `<family>.rs` is a pattern; `/srv/tests/x` and `target/docs/x` are outside of the
        // repository.
        let is_source = word.ends_with(".rs") && word.len() > 3;
        let is_path = FOLDERS.iter().any(|folder| word.starts_with(folder)) || is_source;
        if is_path && !word.starts_with('/') && !matches!(opened_by, Some('>' | '<' | ':' | '$' | '*')) {
            found.push(word);
        }
    }
    found
}

fn exists(tree: &Tree, word: &str) -> bool {
    let in_crate = word.split_once('/').map(|(name, rest)| format!("crates/{name}/src/{rest}"));
    let is = |path: &str| {
        tree.text(path).is_some() || tree.files().any(|(one, _)| one.starts_with(&format!("{path}/")))
    };
    let is_end = |one: &str| one.strip_suffix(word).is_some_and(|rest| rest.ends_with('/'));
    is(word)
        || in_crate.is_some_and(|path| is(&path))
        || (word.ends_with(".rs") && tree.rust().any(|(one, _)| one.starts_with("crates/") && is_end(one)))
}
