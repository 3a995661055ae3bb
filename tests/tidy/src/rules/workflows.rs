// SPDX-License-Identifier: BSD-3-Clause
//! Scripts started by workflows and by other scripts exist and know their arguments, and a
//! workflow that runs `tests/nightly` in pieces runs every piece.
//!
//! A script counts as knowing an option or a word if its text contains it: enough to catch a
//! renamed stage.

use super::violation;
use crate::{Tree, Violation};

pub const NAME: &str = "workflows";

/// The folders of scripts.
const FOLDERS: [&str; 4] = [".ci/", "tests/", "bench/", "deploy/"];
/// The script that lists its pieces in a line `pieces=(...)`, and a workflow's expression for one
/// of them.
const NIGHTLY: &str = "tests/nightly";
const PIECE: &str = "matrix.piece";
/// Start of the list of pieces in a workflow.
const MATRIX: &str = "piece: [";

pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let callers = tree.files().filter(|(path, _)| path.starts_with(".github/workflows/") || *path == NIGHTLY);
    for (path, text) in callers {
        let matrix: Vec<&str> = list(text, MATRIX, ']').collect();
        for (index, line) in text.lines().enumerate() {
            for call in calls(line) {
                for message in complaints(tree, call, &matrix) {
                    found.push(violation(NAME, path, index + 1, message));
                }
            }
        }
    }
    found
}

/// The commands of a line that run a script, each from the script's path to the end of the
/// command.
fn calls(line: &str) -> Vec<&str> {
    let code = line.split('#').next().unwrap_or_default();
    code.split([';', '&', '|', '(']).filter_map(call).collect()
}

fn call(command: &str) -> Option<&str> {
    let at = FOLDERS.iter().filter_map(|folder| command.find(folder)).min()?;
    let before = command[..at].trim_end();
    // The path may follow nothing, `- run:`, `name() {` or a variable's value.
    let is_start = at == 0 || command[..at].ends_with(' ');
    let last = before.rsplit(' ').next().unwrap_or_default();
    let is_command = last.is_empty() || last.ends_with([':', '{']) || last.contains('=');
    (is_start && is_command).then(|| command[at..].trim_end_matches([' ', '}']))
}

fn complaints(tree: &Tree, call: &str, matrix: &[&str]) -> Vec<String> {
    let path = call.split_whitespace().next().unwrap_or_default();
    let Some(script) = tree.text(path) else { return vec![format!("there is no {path}")] };
    let mut messages = Vec::new();
    let mut words: Vec<&str> = call[path.len()..].split_whitespace().collect();
    if call.contains(PIECE) {
        words = matrix.to_vec();
        let pieces = list(script, "pieces=(", ')').filter(|piece| !piece.contains('$'));
        for piece in pieces.filter(|piece| !matrix.contains(piece)) {
            messages.push(format!("{path} {piece} is not in the matrix"));
        }
    }
    // Words after `-p` are for `cargo test`.
    let own = words.iter().take_while(|word| **word != "-p");
    for word in own.filter(|word| is_plain(word) && !knows(script, word)) {
        messages.push(format!("{path} has no stage or option {word}"));
    }
    messages
}

/// The words of the last list in a text that begins with `start`.
fn list<'a>(text: &'a str, start: &str, end: char) -> impl Iterator<Item = &'a str> {
    let inside = text.rsplit_once(start).and_then(|(_, rest)| rest.split_once(end));
    inside.map_or("", |(inside, _)| inside).split([',', ' ']).filter(|word| !word.is_empty())
}

/// True for a stage or an option; false for a value or an expansion.
fn is_plain(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

fn knows(script: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    script
        .lines()
        .filter(|line| !line.starts_with('#'))
        .any(|line| line.split(|c| !is_part(c)).any(|one| one == word))
}
