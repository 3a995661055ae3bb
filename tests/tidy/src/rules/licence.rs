// SPDX-License-Identifier: BSD-3-Clause
//! Every source file states its licence near its head.

use super::violation;
use crate::{Tree, Violation};

pub const NAME: &str = "licence";

const LINE: &str = "SPDX-License-Identifier: BSD-3-Clause";
/// Number of leading lines to search: a script starts with its interpreter.
const LINES: usize = 5;
/// Extensions of files that are written by hand and can have comments.
const ENDINGS: [&str; 14] = [
    ".rs", ".py", ".go", ".java", ".mjs", ".js", ".sh", ".toml", ".yml", ".yaml", ".service", ".css", ".c",
    ".h",
];

pub fn check(tree: &Tree) -> Vec<Violation> {
    let is_ours = |path: &str, text: &str| {
        ENDINGS.iter().any(|ending| path.ends_with(ending)) || text.starts_with("#!/")
    };
    tree.files()
        .filter(|(path, text)| is_ours(path, text))
        .filter(|(_, text)| !text.lines().take(LINES).any(|line| line.contains(LINE)))
        .map(|(path, _)| violation(NAME, path, 1, format!("no line {LINE}")))
        .collect()
}
