// SPDX-License-Identifier: BSD-3-Clause
//! Generated text: the example configuration, the reference page, the usage.
//!
//! `braid.conf` and `docs/configuration.md` in the repository are these texts; a test compares
//! them. To update the files after changing the table: `BLESS=1 cargo test -p braid-config docs`.

use crate::directive::{Directive, DirectiveKind, Mutability, Section, Special, Unit};
use crate::number::format_memory;
use crate::rows::SECTIONS;
use crate::value::{default_value, file_lines, format_value};
use std::fmt::Write;

/// Width of the example configuration.
const WIDTH: usize = 80;

/// The example configuration: every directive, commented out, at its default.
pub fn example_configuration() -> String {
    let mut text = String::new();
    let rule = format!("#{}\n", "-".repeat(WIDTH - 1));
    text.push_str(&rule);
    text.push_str("# Braid configuration. Pass it to the server:\n#\n#     braid-server ./braid.conf\n#\n");
    text.push_str(&commented(
        "All directives are listed at their defaults, commented out. To change one, uncomment it and edit \
         the value. Command-line options override the file:",
    ));
    text.push_str("#\n#     braid-server ./braid.conf --port 7000\n");
    text.push_str("#\n");
    text.push_str(&commented(
        "Sizes are in bytes or have a case-insensitive unit: k, m, g are powers of 1000; kb, mb, gb are \
         powers of 1024. Values with spaces need double quotes.",
    ));
    text.push_str("#\n");
    text.push_str(&commented(
        "An include line reads other files in place; wildcards are allowed. Later lines override earlier ones.",
    ));
    text.push_str("#\n# include /path/to/local.conf\n# include /path/to/conf.d/*.conf\n");
    text.push_str(&rule);
    for section in SECTIONS {
        write_example_section(&mut text, section);
    }
    text
}

fn write_example_section(text: &mut String, section: &Section) {
    let title = format!("# ---- {} ", section.title);
    let _ = writeln!(text, "\n{title}{}", "-".repeat(WIDTH - title.len()));
    for directive in section.directives.iter().filter(|directive| !directive.hidden) {
        text.push('\n');
        text.push_str(&commented(doc(directive)));
        text.push_str(&remarks(directive));
        text.push_str("#\n");
        for line in example_lines(directive) {
            let _ = writeln!(text, "# {line}");
        }
    }
    if section.title == "Security" {
        text.push('\n');
        text.push_str(&commented(
            "Users and their permissions, one line per user, unless aclfile names a file for them.",
        ));
        text.push_str("#\n# user reader on >password ~cache:* +@read\n\n");
        text.push_str(&commented("Rename a command; an empty name removes it. Prefer ACLs."));
        text.push_str("#\n# rename-command CONFIG \"\"\n");
    }
}

/// The lines that set the default.
fn example_lines(directive: &Directive) -> Vec<String> {
    if let Some((example, _)) = directive.documented_default {
        return vec![format!("{} {example}", directive.name)];
    }
    let lines = file_lines(directive, &default_value(directive));
    match directive.kind {
        DirectiveKind::Special(Special::ReplicaOf) => vec![format!("{} no one", directive.name)],
        _ if lines.is_empty() => vec![format!("{} \"\"", directive.name)],
        _ => lines,
    }
}

/// Remarks in brackets after the doc; empty if there are none.
fn remarks(directive: &Directive) -> String {
    let mut remarks = Vec::new();
    if let Some((_, sentence)) = directive.documented_default {
        remarks.push(format!("default: {sentence}"));
    }
    remarks.extend(range(directive).filter(|_| !doc_names_all_words(directive)));
    remarks.extend((directive.mutability == Mutability::Immutable).then(|| "only at start".to_owned()));
    remarks.extend(effect_mark(directive).map(|mark| format!("accepted, {mark}")));
    if remarks.is_empty() { String::new() } else { commented(&format!("[{}]", remarks.join("; "))) }
}

/// Mark of a directive without effect.
fn effect_mark(directive: &Directive) -> Option<&'static str> {
    match directive {
        Directive { takes_effect: true, .. } => None,
        Directive { is_always_on: true, .. } => Some("always on"),
        _ => Some("no effect yet"),
    }
}

/// True if the doc already lists all accepted words.
fn doc_names_all_words(directive: &Directive) -> bool {
    match directive.kind {
        DirectiveKind::Enum { words, .. } | DirectiveKind::Flags { words, .. } => {
            words.iter().all(|(word, _)| doc(directive).contains(word))
        }
        _ => false,
    }
}

/// Range or words, if they add information to the default.
fn range(directive: &Directive) -> Option<String> {
    match directive.kind {
        DirectiveKind::Integer { min, max, unit, .. } => {
            let number = |bound: i128| match u64::try_from(bound) {
                Ok(bytes) if unit.is_memory() => format_memory(bytes),
                _ if unit == Unit::Octal => format!("{bound:o}"),
                _ => bound.to_string(),
            };
            let unbounded = max >= i128::from(i32::MAX);
            match (min, unit) {
                (_, Unit::BytesOrPercent) => Some("bytes, or 0% to 100%".to_owned()),
                (0, _) if unbounded => None,
                (_, _) if unbounded && min > i128::from(i32::MIN) => Some(format!("{} or more", number(min))),
                (_, _) if unbounded => None,
                _ => Some(format!("{} to {}", number(min), number(max))),
            }
        }
        DirectiveKind::Enum { words, .. } | DirectiveKind::Flags { words, .. } => {
            let words: Vec<&str> = words.iter().map(|entry| entry.0).collect();
            Some(words.join(", "))
        }
        _ => None,
    }
}

/// A directive's sentence, from its doc comment.
pub fn doc(directive: &Directive) -> &'static str {
    directive.doc.trim_start()
}

/// The words as comment lines, wrapped to the width of the example.
fn commented(words: &str) -> String {
    let mut text = String::new();
    let mut line = String::from("#");
    for word in words.split(' ').filter(|word| !word.is_empty()) {
        if line.len() + 1 + word.len() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    text.push_str(&line);
    text.push('\n');
    text
}

/// The text of the reference page.
pub fn reference_page() -> String {
    let mut text = String::from(REFERENCE_HEAD);
    for section in SECTIONS {
        let _ = writeln!(text, "\n## {}\n", section.title);
        text.push_str("| Directive | Type | Default | Change | Meaning |\n| --- | --- | --- | --- | --- |\n");
        for directive in section.directives {
            let _ = writeln!(text, "{}", reference_row(directive));
        }
    }
    text.push_str(REFERENCE_TAIL);
    text
}

const REFERENCE_HEAD: &str = "# Configuration

<!-- Made from the table in crates/config. Do not edit: BLESS=1 cargo test -p braid-config docs -->

Braid reads Redis configuration: the file syntax, the directive names and the command line are the same.

    braid-server [file] [-] [--name value ...]

The server reads the file, then standard input (`-` as first or last argument), then the options; later
settings override earlier ones. `CONFIG GET`, `CONFIG SET` and `CONFIG REWRITE` work as in Redis: a
`CONFIG SET` of several directives sets all or none, and a rewrite keeps the file's comments and order.
`braid.conf` in the source tree lists all directives with their defaults.

A file may also contain `include file` (wildcards allowed), `user name rules...` and
`rename-command old new`. `loadmodule` is refused: Braid has no modules.

In the tables, *Change* is `live` (CONFIG SET at any time) or `start` (only at start). *no effect yet* marks
directives that Braid accepts and stores, but does not implement; setting one logs a warning at start. So does
turning off one that is *always on*, and setting a directive without one that it depends on, such as
`metrics-bind` without `metrics-port`. *hidden* directives are not listed by `CONFIG GET *`. *protected*
directives need `enable-protected-configs`. Names in parentheses are aliases.
";

const REFERENCE_TAIL: &str = "
## Accepted and ignored

`list-max-ziplist-entries`, `list-max-ziplist-value` and `lua-replicate-commands` are accepted with one
argument and ignored; the server logs a warning.

## Differences from Redis

- `io-threads` defaults to the number of CPUs; the maximum is 256.
- Values are UTF-8 text; other bytes are refused, including in passwords.
- A size that overflows 64 bits is refused instead of wrapping around.
- `CONFIG GET` sorts the names that match a pattern.
- `tls-key-file-pass` and `tls-client-key-file-pass` are secrets.
- More than 16 levels of nested includes are an error.
- `CONFIG REWRITE` keeps the file's permissions and follows symbolic links.
";

fn reference_row(directive: &Directive) -> String {
    let mut name = format!("`{}`", directive.name);
    let aliases = || directive.aliases.iter().chain(directive.unlisted_aliases);
    if aliases().next().is_some() {
        let aliases: Vec<String> = aliases().map(|alias| format!("`{alias}`")).collect();
        let _ = write!(name, " ({})", aliases.join(", "));
    }
    let change = match directive.mutability {
        Mutability::Live => "live",
        Mutability::Immutable => "start",
    };
    let mut marks = Vec::new();
    marks.extend(effect_mark(directive));
    marks.extend(directive.hidden.then_some("hidden"));
    marks.extend(directive.protected.then_some("protected"));
    marks.extend(directive.deny_loading.then_some("not while loading"));
    marks.extend(directive.secret.then_some("secret"));
    let marks = if marks.is_empty() { String::new() } else { format!(" *{}*", marks.join(", ")) };
    format!(
        "| {name} | {} | {} | {change} | {}{marks} |",
        type_text(directive),
        default_text(directive),
        doc(directive).replace('|', "\\|"),
    )
}

fn type_text(directive: &Directive) -> String {
    let range = range(directive).map(|range| format!(", {range}")).unwrap_or_default();
    match directive.kind {
        DirectiveKind::Bool { .. } => "yes/no".to_owned(),
        DirectiveKind::Integer { unit, .. } => {
            let base = match unit {
                Unit::Plain => "number",
                Unit::Seconds => "seconds",
                Unit::Milliseconds => "milliseconds",
                Unit::Microseconds => "microseconds",
                Unit::Percent => "percent",
                Unit::Bytes => "size",
                Unit::BytesOrPercent => return "size or percent of maxmemory".to_owned(),
                Unit::Octal => "octal",
            };
            format!("{base}{range}")
        }
        DirectiveKind::Text { .. } => "text".to_owned(),
        DirectiveKind::Enum { .. } => format!("one of{}", range.trim_start_matches(',')),
        DirectiveKind::Flags { .. } => format!("some of{}", range.trim_start_matches(',')),
        DirectiveKind::Special(_) => "list".to_owned(),
    }
}

fn default_text(directive: &Directive) -> String {
    if let Some((_, sentence)) = directive.documented_default {
        return sentence.to_owned();
    }
    let value = default_value(directive);
    let text = match directive.kind {
        DirectiveKind::Integer { unit, .. } if unit.is_memory() => match value {
            crate::value::Value::Scalar(raw) => format_memory(raw.unsigned_abs()),
            _ => String::new(),
        },
        _ => format_value(directive, &value),
    };
    if text.is_empty() { String::new() } else { format!("`{text}`") }
}

/// Output of `--help`: usage and the names of all directives by section.
pub fn usage(program: &str) -> String {
    let mut text = format!(
        "Usage: {program} [/path/to/braid.conf] [options] [-]
       {program} -                  read the configuration from standard input
       {program} -v or --version
       {program} -h or --help
       {program} --check-system     settings of the system that matter to the server

Examples:
       {program}                    every directive at its default
       echo 'maxmemory 128mb' | {program} -
       {program} ./braid.conf --port 7777
       {program} --port 7777 --io-threads 4 --loglevel verbose -

Any directive may stand as an option: --name value
"
    );
    for section in SECTIONS {
        let _ = writeln!(text, "\n{}:", section.title);
        for directive in section.directives.iter().filter(|directive| !directive.hidden) {
            let first = doc(directive).split_inclusive(". ").next().unwrap_or("").trim_end();
            let mark = effect_mark(directive).map(|mark| format!(" [{mark}]")).unwrap_or_default();
            let name = format!("  --{:<USAGE_NAMES$} ", directive.name);
            write_wrapped(&mut text, &name, &format!("{first}{mark}"));
        }
    }
    text
}

/// Width of the usage, and of its column of names.
const USAGE_WIDTH: usize = 100;
const USAGE_NAMES: usize = 44;

/// Writes a heading and words, wrapped to the width of the usage; further lines are indented to
/// the first word.
fn write_wrapped(text: &mut String, head: &str, words: &str) {
    let mut line = head.to_owned();
    for word in words.split(' ').filter(|word| !word.is_empty()) {
        if line.len() + word.len() > USAGE_WIDTH {
            let _ = writeln!(text, "{}", line.trim_end());
            line = " ".repeat(head.len());
        }
        line.push_str(word);
        line.push(' ');
    }
    let _ = writeln!(text, "{}", line.trim_end());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use std::path::Path;

    fn compare(file: &str, expected: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        assert!(expected.is_ascii(), "{file} is ASCII");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, expected).unwrap();
        }
        let present = std::fs::read_to_string(&path).unwrap_or_default();
        let same = present.lines().zip(expected.lines()).take_while(|(left, right)| left == right).count();
        assert!(
            present == expected,
            "{file} differs from the table at line {}; renew it: BLESS=1 cargo test -p braid-config docs",
            same + 1
        );
    }

    #[test]
    fn docs_example_is_up_to_date() {
        compare("braid.conf", &example_configuration());
    }

    #[test]
    fn docs_reference_is_up_to_date() {
        compare("docs/configuration.md", &reference_page());
    }

    /// The example contains every directive, at its real default.
    #[test]
    fn docs_example_states_the_defaults() {
        let example = example_configuration();
        let lines: Vec<&str> = example.lines().filter_map(|line| line.strip_prefix("# ")).collect();
        let config = Config::new();
        let defaults = config.get(&["*"]);
        for section in SECTIONS {
            for directive in section.directives.iter().filter(|directive| !directive.hidden) {
                let settings: Vec<&&str> = lines
                    .iter()
                    .filter(|line| line.split(' ').next() == Some(directive.name))
                    .filter(|line| Config::new().load_text(line).is_ok())
                    .collect();
                assert!(!settings.is_empty(), "{} is missing", directive.name);
                if directive.documented_default.is_none() {
                    let text: Vec<&str> = settings.iter().map(|line| **line).collect();
                    config.load_text(&text.join("\n")).unwrap();
                }
            }
        }
        assert_eq!(config.get(&["*"]), defaults);
    }

    #[test]
    fn docs_lines_are_not_too_long() {
        for line in example_configuration().lines() {
            assert!(line.len() <= WIDTH, "{line}");
        }
    }

    #[test]
    fn docs_usage_names_directives() {
        let usage = usage("braid-server");
        assert!(
            usage.contains("--maxmemory ")
                && usage.contains("--shards ")
                && !usage.contains("key-load-delay")
        );
        assert!(usage.contains("[no effect yet]"));
        for line in usage.lines() {
            assert!(line.len() <= USAGE_WIDTH, "{line}");
            // Names end before the column of descriptions.
            let column = 2 + 2 + USAGE_NAMES;
            assert!(!line.starts_with("  --") || line.as_bytes()[column] == b' ', "{line}");
        }
    }
}
