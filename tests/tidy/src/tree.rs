// SPDX-License-Identifier: BSD-3-Clause
//! The sources as the rules see them: paths and texts, read once.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use crate::modules::Crate;
use crate::scan::{self, Facts};

/// Folders with foreign files, or without source.
const SKIPPED: [&str; 7] = ["target", "node_modules", "venv", ".git", "corpus", "third_party", "advisories"];

/// Files by path relative to the workspace's folder, with `/` as the separator.
pub struct Tree {
    files: BTreeMap<String, String>,
    facts: BTreeMap<String, Facts>,
    crates: Vec<Crate>,
}

impl Tree {
    /// Builds a tree from these files.
    ///
    /// # Panics
    /// If a Rust file is not valid Rust tokens.
    pub fn new(files: BTreeMap<String, String>) -> Tree {
        let facts: BTreeMap<String, Facts> = files
            .iter()
            .filter(|(path, _)| path.ends_with(".rs"))
            .map(|(path, text)| match scan::scan(text) {
                Ok(facts) => (path.clone(), facts),
                Err(error) => panic!("{path}: {error}"),
            })
            .collect();
        let crates = Crate::find(&files, &facts);
        Tree { files, facts, crates }
    }

    /// Reads all text files below a folder.
    ///
    /// # Errors
    /// If a folder or file cannot be read.
    pub fn read(root: &Path) -> io::Result<Tree> {
        let mut files = BTreeMap::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                if path.is_symlink() {
                    continue;
                }
                if path.is_dir() {
                    if !SKIPPED.contains(&name.as_str()) {
                        folders.push(path);
                    }
                } else if let Ok(text) = String::from_utf8(fs::read(&path)?) {
                    let inside = path.strip_prefix(root).unwrap_or(&path);
                    let inside = inside.components().map(|part| part.as_os_str().to_string_lossy());
                    files.insert(inside.collect::<Vec<_>>().join("/"), text);
                }
            }
        }
        Ok(Tree::new(files))
    }

    /// Paths and texts, ordered by path.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// The scanner's facts about each Rust file.
    pub fn rust(&self) -> impl Iterator<Item = (&str, &Facts)> {
        self.facts.iter().map(|(path, facts)| (path.as_str(), facts))
    }

    pub fn facts(&self, path: &str) -> Option<&Facts> {
        self.facts.get(path)
    }

    /// Every library, program and build script below `crates/` and `tests/`, with its modules.
    pub fn crates(&self) -> &[Crate] {
        &self.crates
    }

    /// True if a file is compiled for tests only.
    pub fn is_test(&self, path: &str) -> bool {
        let outside = path.starts_with("tests/") || path.contains("/tests/") || path.contains("/benches/");
        outside || self.crates.iter().any(|one| one.is_test(path))
    }
}
