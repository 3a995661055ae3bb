// SPDX-License-Identifier: BSD-3-Clause
//! Limits on the length of files, functions and comment lines.

use super::violation;
use crate::house::{COMMENT_COLUMNS, FILE_LINES, FUNCTION_LINES};
use crate::{Tree, Violation};

pub const FILES: &str = "file-length";
pub const FUNCTIONS: &str = "function-length";
pub const COMMENTS: &str = "comment-length";

pub fn files(tree: &Tree) -> Vec<Violation> {
    let rust = tree.files().filter(|(path, _)| path.ends_with(".rs"));
    rust.filter_map(|(path, text)| {
        let lines = text.lines().count();
        (lines > FILE_LINES)
            .then(|| violation(FILES, path, 0, format!("{lines} lines, more than {FILE_LINES}")))
    })
    .collect()
}

pub fn functions(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, facts) in tree.rust() {
        for function in &facts.functions {
            let lines = function.last + 1 - function.first;
            if lines > FUNCTION_LINES {
                let message = format!("{} has {lines} lines, more than {FUNCTION_LINES}", function.name);
                found.push(violation(FUNCTIONS, path, function.first, message));
            }
        }
    }
    found
}

pub fn comments(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in tree.files().filter(|(path, _)| path.ends_with(".rs")) {
        for (index, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            // A link cannot be broken.
            if line.trim_start().starts_with("//") && columns > COMMENT_COLUMNS && !line.contains("://") {
                let message = format!("comment of {columns} columns, more than {COMMENT_COLUMNS}");
                found.push(violation(COMMENTS, path, index + 1, message));
            }
        }
    }
    found
}
