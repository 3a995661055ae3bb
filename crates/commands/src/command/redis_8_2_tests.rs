// SPDX-License-Identifier: BSD-3-Clause
//! Compares COMMAND INFO and COMMAND DOCS with Redis 8.2.3, as a server tells them that reports
//! such a version.
//!
//! `testdata/redis-8.2-commands.tsv` has what Redis 8.2.3 tells of each command and subcommand that
//! is here as well, one line each: name, arity, flags, key positions, categories, tips, group,
//! since, deprecated since, key specifications with their notes, arguments (tokens and types, in
//! brackets of their groups, `?` optional, `*` repeated, `+` with the token). Lists without an
//! order are sorted; empty fields are hyphens.

use std::fmt::Write;

use braid_spec::syntax::{self, Argument, ArgumentKind};
use braid_spec::{Command, KeySpec};

use super::describe::{Positions, command_flags};
use super::table_tests::key_text;
use crate::rows;

const STOCK: &str = include_str!("../../testdata/redis-8.2-commands.tsv");

const FACTS: [&str; 10] = [
    "arity",
    "flags",
    "positions",
    "categories",
    "tips",
    "group",
    "since",
    "deprecated since",
    "key specifications",
    "arguments",
];

/// Commands, a fact in which they differ, and why that is right.
const DIFFERENT: &[(&str, &str, &str)] = &[
    ("bitcount", "arguments", "the end may be left out, as in Valkey"),
    ("cluster|info", "flags", "answered during loading, as in Valkey 9"),
    ("cluster|myid", "flags", "answered during loading, as in Valkey 9"),
    ("cluster|myshardid", "flags", "answered during loading, as in Valkey 9"),
    ("cluster|nodes", "flags", "answered during loading, as in Valkey 9"),
    ("failover", "arguments", "TAKEOVER"),
    ("geosearch", "arguments", "BYPOLYGON, as in Valkey 9"),
    ("geosearchstore", "arguments", "BYPOLYGON, as in Valkey 9"),
    ("hsetex", "key specifications", "inserts, as Valkey says"),
    ("move", "arguments", "REPLACE of Valkey 9.2"),
    ("move", "arity", "REPLACE of Valkey 9.2"),
    ("set", "arguments", "the conditions of Valkey 8.1 and Redis 8.4"),
    ("shutdown", "arguments", "SAFE and FAILOVER of Valkey 9"),
    ("xadd", "arguments", "IDMP of Redis 8.6"),
    ("xread", "arguments", "MAXCOUNT and MAXSIZE of Redis 8.10"),
    ("xreadgroup", "arguments", "CLAIM of Redis 8.4, MAXCOUNT and MAXSIZE of 8.10"),
    ("zinter", "arguments", "AGGREGATE COUNT of Redis 8.8"),
    ("zinterstore", "arguments", "AGGREGATE COUNT of Redis 8.8"),
    ("zunion", "arguments", "AGGREGATE COUNT of Redis 8.8"),
    ("zunionstore", "arguments", "AGGREGATE COUNT of Redis 8.8"),
];

fn sorted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    names.sort_unstable();
    names.join(",")
}

fn key_and_notes(key: &KeySpec) -> String {
    let notes = if key.notes.is_empty() { String::new() } else { format!(" ({})", key.notes) };
    key_text(key) + &notes
}

fn argument_text(argument: &Argument<'_>) -> String {
    let inside =
        |separator: &str| argument.arguments.iter().map(argument_text).collect::<Vec<_>>().join(separator);
    let mut text = argument.token.unwrap_or_default().to_owned();
    let _ = match argument.kind {
        ArgumentKind::OneOf => write!(text, "({})", inside("|")),
        ArgumentKind::Block => write!(text, "{{{}}}", inside(" ")),
        ArgumentKind::PureToken => Ok(()),
        kind => write!(text, ":{}", kind.name()),
    };
    if let Some(index) = argument.key_spec {
        let _ = write!(text, "#{index}");
    }
    let marks = [(argument.optional, '?'), (argument.multiple, '*'), (argument.multiple_token, '+')];
    text.extend(marks.iter().filter(|(set, _)| *set).map(|(_, mark)| mark));
    text
}

/// The facts of a command in the order of [`FACTS`].
fn facts(command: &Command) -> [String; 10] {
    let spec = command.spec;
    let told = |redis: &'static str, usual: &'static str| if redis.is_empty() { usual } else { redis };
    let Positions { first, last, step, .. } = Positions::of(spec.keys);
    let arguments = syntax::parse(told(spec.syntax_in_redis, spec.syntax)).expect("valid notation");
    [
        spec.arity.number().to_string(),
        sorted(command_flags(spec)),
        format!("{first},{last},{step}"),
        sorted(spec.categories_all().names()),
        spec.tips.join(","),
        spec.group.name().to_owned(),
        told(spec.since_in_redis, spec.since).to_owned(),
        spec.deprecated.map_or("", |(since, _)| since).to_owned(),
        spec.keys.iter().map(key_and_notes).collect::<Vec<_>>().join("; "),
        arguments.iter().map(argument_text).collect::<Vec<_>>().join(" "),
    ]
}

/// Reports all differences in one list. Redis 7.2 has some tokens in other letters, which are the
/// ones here: letters are not compared.
#[test]
fn commands_are_as_in_redis_8_2() {
    let table = rows().table;
    let mut needed = DIFFERENT.to_vec();
    let mut faults = String::new();
    for line in STOCK.lines() {
        let (name, stock) = line.split_once('\t').expect("a name");
        let stock = stock.split('\t').map(|fact| if fact == "-" { "" } else { fact });
        let Some(command) = table.find_full(name.as_bytes()) else { panic!("{name} is missing") };
        for ((fact, ours), theirs) in FACTS.iter().zip(facts(command)).zip(stock) {
            if ours.eq_ignore_ascii_case(theirs) {
                continue;
            }
            let known = needed.iter().position(|(command, what, _)| *command == name && what == fact);
            match known {
                Some(at) => drop(needed.remove(at)),
                None => {
                    let _ = writeln!(faults, "{name}: {fact} is '{ours}', Redis 8.2.3 has '{theirs}'");
                }
            }
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
    assert!(needed.is_empty(), "no difference: {needed:?}");
    assert_eq!(STOCK.lines().count(), 385);
}

/// The replies have what the comparison is made with.
#[test]
fn documentation_follows_the_version() {
    use crate::testing::Tester;
    for (settings, since, has_nx) in [("", "9.0.0", true), ("redis-version 8.2.3", "8.0.0", false)] {
        let reply = Tester::with(settings).run("COMMAND DOCS hsetex");
        assert!(reply.contains(&format!("$5\r\nsince\r\n$5\r\n{since}\r\n")), "{settings}: {reply}");
        assert_eq!(reply.contains("$5\r\ntoken\r\n$2\r\nNX\r\n"), has_nx, "{settings}: {reply}");
        assert!(reply.contains("$5\r\ntoken\r\n$3\r\nFNX\r\n"), "{settings}: {reply}");
    }
}
