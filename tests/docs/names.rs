// SPDX-License-Identifier: BSD-3-Clause
//! Names in the documentation must exist.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use braid_tests::{TestServer, Value};

use crate::text::{self, spans, split, words};
use crate::{files, no_complaints, pages, root};

/// Words in code spans that look like directives but are not: other programs, values of
/// directives, rules of users, fields.
const NO_DIRECTIVES: [&str; 25] = [
    "limit-connections",
    "limit-delay",
    "limit-memory",
    "limit-time",
    "entries-read",
    "network-bytes-out",
    "etcd-client",
    "etcd-server",
    "group-member",
    "redis-tools",
    "keydb-cli",
    "redis-benchmark",
    "redis-check-aof",
    "redis-cli",
    "redis-server",
    "valkey-cli",
    "global-lock",
    "io-thread",
    "large-reply",
    "lua-src",
    "no-writes",
    "qbuf-free",
    "redis-8",
    "valkey-9",
    // A line of the configuration file, but not a setting that CONFIG GET knows.
    "rename-command",
];

/// Names with underscores that belong to other projects.
const FOREIGN: [&str; 3] = ["bg_unlink", "df_snapshot_format", "lp_count"];

/// The text of all sources, without documentation.
fn sources() -> String {
    let is_source = |path: &Path| {
        path.extension().is_none_or(|kind| {
            ["rs", "toml", "sh", "py", "html", "yaml", "yml", "json", "txt", "service"]
                .iter()
                .any(|one| kind == *one)
        })
    };
    let mut all = String::new();
    for folder in ["crates", "tests", "bench", "deploy", "fuzz", ".ci"] {
        for path in files(&root().join(folder), &is_source) {
            // The tests of the documentation must not be their own evidence.
            if !path.starts_with(root().join("tests/docs")) {
                all += &fs::read_to_string(path).unwrap_or_default();
            }
        }
    }
    assert!(all.len() > 1_000_000, "the sources were not found");
    all
}

/// Names of the workspace's packages and programs.
fn programs() -> HashSet<String> {
    let manifests = files(root(), &|path| path.ends_with("Cargo.toml"));
    let mut names = HashSet::new();
    for path in manifests {
        for line in fs::read_to_string(path).unwrap_or_default().lines() {
            if let Some(name) = line.strip_prefix("name = \"") {
                names.insert(name.trim_end_matches('"').to_owned());
            }
        }
    }
    names
}

#[test]
fn programs_and_packages_exist() {
    let known = programs();
    let mut complaints = Vec::new();
    for page in pages() {
        for (word, before) in words(&page.text, |c| c.is_ascii_alphanumeric() || c == '-') {
            let starts_there = !matches!(before, Some('/' | '.' | '_' | '@'));
            if word.starts_with("braid-") && starts_there && !known.contains(word.trim_end_matches('-')) {
                complaints.push(format!("{}: there is no program or package {word}", page.name()));
            }
        }
    }
    no_complaints(&complaints);
}

#[test]
fn options_of_the_tools_exist() {
    let source = |folders: &[&str]| -> String {
        let is_rust = |path: &Path| path.extension().is_some_and(|kind| kind == "rs");
        let paths = folders
            .iter()
            .flat_map(|folder| files(&root().join("crates").join(folder).join("src"), &is_rust));
        paths.map(|path| fs::read_to_string(path).unwrap_or_default()).collect()
    };
    let tools = [
        ("braid-bench", source(&["bench", "client"])),
        ("braid-top", source(&["top", "client"])),
        ("braid-cluster", source(&["cluster", "client"])),
        ("braid-check-rdb", source(&["check"])),
        ("braid-check-aof", source(&["check"])),
    ];
    let mut complaints = Vec::new();
    let mut options = 0;
    for page in pages() {
        // Join a command with its continuation lines.
        let joined = page.text.replace("\\\n", " ");
        for line in joined.lines() {
            for (tool, source) in &tools {
                let Some(at) = line.find(&format!("{tool} ")) else { continue };
                // Up to the end of the code span or of the line. Quoted words belong to another
                // program.
                let code = line[at..].split(['`', '\'']).next().unwrap_or_default();
                for word in code.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2) {
                    let name = word[2..].split(['=', ',', '|', ']', ')']).next().unwrap_or_default();
                    options += 1;
                    if !source.contains(&format!("--{name}")) && !source.contains(&format!("\"{name}\"")) {
                        complaints.push(format!("{}: {tool} has no option --{name}", page.name()));
                    }
                }
            }
        }
    }
    assert!(options > 20, "only {options} options found");
    no_complaints(&complaints);
}

/// True for a word such as `io-threads`: two or more lower-case parts joined by hyphens.
fn is_hyphenated(word: &str) -> bool {
    word.contains('-')
        && word.starts_with(|c: char| c.is_ascii_lowercase())
        && word.split('-').all(|part| {
            !part.is_empty() && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        })
}

#[test]
fn directives_exist() {
    let server = TestServer::start(&[]);
    if !server.is_braid() {
        println!("skipped, directives of the documentation: the server under test is not Braid");
        return;
    }
    let programs = programs();
    let reference = fs::read_to_string(root().join("docs/configuration.md")).expect("the reference");
    // Ignored directives have no setting, as the reference says.
    let ignored =
        reference.split("## Accepted and ignored").nth(1).expect("the section of ignored directives");
    let mut client = server.connect();
    let mut exists = |name: &str| {
        NO_DIRECTIVES.contains(&name)
            || programs.contains(name)
            || root().join("crates").join(name).is_dir()
            || ignored.contains(&format!("`{name}`"))
            || matches!(client.call(&format!("CONFIG GET {name}")), Value::Array(found) if !found.is_empty())
    };
    let mut complaints = Vec::new();
    let mut directives = HashSet::new();
    for page in pages() {
        let (prose, _) = split(&page.text);
        let mut names: Vec<String> = Vec::new();
        for span in spans(&prose) {
            let first = span.split_whitespace().next().unwrap_or_default();
            if is_hyphenated(first) {
                names.push(first.to_owned());
            }
        }
        for line in page.text.replace("\\\n", " ").lines() {
            // Names of settings in CONFIG commands, and options of the server.
            for set in ["CONFIG SET ", "config set ", "CONFIG GET ", "config get "] {
                for (at, _) in line.match_indices(set) {
                    let name = line[at + set.len()..]
                        .split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c))
                        .next();
                    names.extend(name.filter(|name| is_hyphenated(name)).map(str::to_owned));
                }
            }
            if let Some(at) = line.find("braid-server ") {
                let code = line[at..].split('`').next().unwrap_or_default();
                for word in code.split_whitespace().filter_map(|word| word.strip_prefix("--")) {
                    let name = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
                    if !["", "version", "help", "check-system", "name"].contains(&name) {
                        names.push(name.to_owned());
                    }
                }
            }
        }
        for name in names {
            if !exists(&name) {
                complaints.push(format!("{}: there is no directive {name}", page.name()));
            }
            directives.insert(name);
        }
    }
    assert!(directives.len() > 150, "only {} directives found", directives.len());
    no_complaints(&complaints);
}

#[test]
fn variables_and_fields_exist() {
    let sources = sources();
    let mut complaints = Vec::new();
    for page in pages() {
        for (word, _) in words(&page.text, |c| c.is_ascii_uppercase() || c == '_') {
            if word.starts_with("BRAID_") && !sources.contains(word) {
                complaints.push(format!("{}: {word} is not in any source", page.name()));
            }
        }
        // INFO fields, counters, functions: names with an underscore in a code span.
        let (prose, _) = split(&page.text);
        for span in spans(&prose) {
            for (word, _) in words(&span, |c| c.is_ascii_alphanumeric() || c == '_') {
                let is_name = word.trim_matches('_').contains('_')
                    && word.starts_with(|c: char| c.is_ascii_lowercase())
                    && !word.chars().any(|c| c.is_ascii_uppercase());
                if is_name && !FOREIGN.contains(&word) && !sources.contains(word.trim_end_matches('_')) {
                    complaints.push(format!("{}: {word} is not in any source", page.name()));
                }
            }
        }
    }
    no_complaints(&complaints);
}

#[test]
fn hyphenated_words_are_recognized() {
    assert!(is_hyphenated("io-threads") && is_hyphenated("active-defrag-2"));
    assert!(!is_hyphenated("io") && !is_hyphenated("-a") && !is_hyphenated("A-b") && !is_hyphenated("a-"));
    assert_eq!(text::spans("`a` b `c d`"), ["a", "c d"]);
}
