// SPDX-License-Identifier: BSD-3-Clause
//! A figure that INFO and the metrics show is written once: as a row of a `figures.rs`. The page
//! and the live view use no name that the server does not have.

use super::violation;
use crate::{Tree, Violation};

pub const NAME: &str = "figure";

const CATALOGUE: &str = "crates/metrics/src/catalogue.rs";
const PAGE: &str = "crates/metrics/src/page.html";
/// The sections of INFO.
const SECTIONS: &str = "crates/commands/src/server/sections";
const LIVE_VIEW: &str = "crates/top/src/";
/// How the live view reads a field.
const READERS: [&str; 4] = ["number(\"", "rate(\"", "get(\"", "text(\""];
/// Fields whose names INFO puts together.
const COMPOSED: [&str; 2] = ["used_cpu_user", "used_cpu_sys"];

/// A row, such as `pub static HITS: Figure<Engine> = Figure::counter("field", "metric", ..)`.
struct Row<'t> {
    name: &'t str,
    field: &'t str,
    metric: &'t str,
    line: usize,
}

/// What stands between the first two quotes, and the rest.
fn literal(text: &str) -> Option<(&str, &str)> {
    text.split_once('"')?.1.split_once('"')
}

fn row(line: usize, text: &str) -> Option<Row<'_>> {
    let (name, rest) = text.trim_start().strip_prefix("pub static ")?.split_once(':')?;
    let (_, arguments) = rest.split_once("= Figure::")?;
    let (field, rest) = literal(arguments)?;
    let (metric, _) = literal(rest)?;
    Some(Row { name, field, metric, line })
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// The words of a text that begin so.
fn words<'t>(text: &'t str, beginning: &str) -> impl Iterator<Item = &'t str> {
    text.split(|letter| !is_word(letter)).filter(move |word| word.starts_with(beginning))
}

/// A file without its tests, which are at its end.
fn without_tests(text: &str) -> &str {
    text.split_once("\n#[cfg(test)]\nmod tests {").map_or(text, |(code, _)| code)
}

pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    let code: Vec<(&str, &str)> = tree
        .files()
        .filter(|(path, _)| path.starts_with("crates/") && path.ends_with(".rs") && !tree.is_test(path))
        .map(|(path, text)| (path, without_tests(text)))
        .collect();
    let text_of = |beginning: &str| -> String {
        code.iter().filter(|(path, _)| path.starts_with(beginning)).map(|(_, text)| *text).collect()
    };
    let (catalogue, sections) = (text_of(CATALOGUE), text_of(SECTIONS));
    for (path, text) in code.iter().filter(|(path, _)| path.ends_with("/figures.rs")) {
        for row in text.lines().enumerate().filter_map(|(index, text)| row(index + 1, text)) {
            let mut note = |message: String| found.push(violation(NAME, path, row.line, message));
            let is_used = |text: &str| words(text, row.name).any(|word| word == row.name);
            if !is_used(&sections) {
                note(format!("no section of INFO shows {}", row.name));
            }
            if !is_used(&catalogue) {
                note(format!("no metric shows {}", row.name));
            }
            let quoted = format!("\"{}\"", row.field);
            // Shorter names stand in lines, beside others of the same name.
            if row.field.contains('_') && sections.contains(&quoted) {
                note(format!("a section of INFO has {quoted} a second time"));
            }
            let quoted = format!("\"{}\"", row.metric);
            let count: usize = code.iter().map(|(_, text)| text.matches(&quoted).count()).sum();
            if count != 1 {
                note(format!("{quoted} is written {count} times"));
            }
        }
    }
    let metrics: String = code
        .iter()
        .filter(|(path, _)| *path == CATALOGUE || path.ends_with("/figures.rs"))
        .map(|(_, text)| *text)
        .collect();
    for (index, line) in tree.text(PAGE).unwrap_or_default().lines().enumerate() {
        for word in words(line, "braid_") {
            let name = ["_bucket", "_sum", "_count"].iter().find_map(|end| word.strip_suffix(end));
            if !metrics.contains(&format!("\"{}\"", name.unwrap_or(word))) {
                found.push(violation(NAME, PAGE, index + 1, format!("there is no metric {word}")));
            }
        }
    }
    let server: String =
        code.iter().filter(|(path, _)| !path.starts_with(LIVE_VIEW)).map(|(_, text)| *text).collect();
    for (path, text) in code.iter().filter(|(path, _)| path.starts_with(LIVE_VIEW)) {
        for (index, line) in text.lines().enumerate() {
            for rest in READERS.iter().flat_map(|reader| line.split(reader).skip(1)) {
                let field = rest.split('"').next().unwrap_or_default();
                let is_word = |text: &str| words(text, field).any(|word| word == field);
                let is_known = COMPOSED.contains(&field)
                    || if field.contains('-') { server.contains(field) } else { is_word(&server) };
                if !is_known {
                    found.push(violation(NAME, path, index + 1, format!("the server has no {field}")));
                }
            }
        }
    }
    found
}
