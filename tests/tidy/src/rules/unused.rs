// SPDX-License-Identifier: BSD-3-Clause
//! A package's sources name each of its manifest's dependencies: an entry that outlives its last
//! use lengthens builds and claims an edge that the crate graph does not have.

use super::violation;
use crate::modules::normal;
use crate::{Tree, Violation};

pub const NAME: &str = "unused";

/// Names and lines of a manifest's dependencies, including those of build scripts.
fn dependencies(manifest: &str) -> Vec<(&str, usize)> {
    let mut found = Vec::new();
    let mut is_list = false;
    for (index, line) in manifest.lines().enumerate() {
        let end = |text: &str| text.find(['.', ' ', '=']).unwrap_or(text.len());
        if let Some(header) = line.trim().strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            is_list = header.ends_with("dependencies") && !header.starts_with("workspace");
            if let Some((_, name)) = header.split_once("dependencies.") {
                found.push((name.trim_matches('"'), index + 1));
            }
        } else if is_list && line.starts_with(|first: char| first.is_ascii_alphanumeric()) {
            found.push((&line[..end(line)], index + 1));
        }
    }
    found
}

/// True if the text contains `word` as a whole word, not as part of a longer name.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |part: Option<char>| part.is_some_and(|one| one.is_ascii_alphanumeric() || one == '_');
    text.match_indices(word).any(|(at, _)| {
        !is_part(text[..at].chars().next_back()) && !is_part(text[at + word.len()..].chars().next())
    })
}

/// The files that a source in this folder includes as modules from elsewhere.
fn included(tree: &Tree, folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (file, text) in tree.files().filter(|(file, _)| file.starts_with(folder) && file.ends_with(".rs")) {
        let parent = file.rsplit_once('/').map_or("", |(parent, _)| parent);
        let paths =
            text.lines().filter_map(|line| line.trim().strip_prefix("#[path = \"")?.strip_suffix("\"]"));
        found.extend(paths.map(|path| normal(&format!("{parent}/{path}"))));
    }
    found
}

pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, manifest) in tree.files() {
        let Some(folder) = path.strip_suffix("Cargo.toml") else { continue };
        let included = included(tree, folder);
        let is_source = |file: &str| {
            file.starts_with(folder) && file.ends_with(".rs") || included.iter().any(|one| one == file)
        };
        for (name, line) in dependencies(manifest) {
            let word = name.replace('-', "_");
            let mut sources = tree.files().filter(|(file, _)| is_source(file));
            if !sources.any(|(_, text)| has_word(text, &word)) {
                found.push(violation(NAME, path, line, format!("{name} is unused")));
            }
        }
    }
    found
}
