// SPDX-License-Identifier: BSD-3-Clause
//! Deliberate differences, read from `tests/known_differences.txt`, which explains its own
//! format.
//!
//! Every entry has an example, which is run before any random command: an entry whose example no
//! longer differs, or that does not excuse its own example, is out of date and fails the test.

use braid_tests::Value;
use braid_tests::words::{glob, line, words};

use crate::generator::Command;

/// The part of a reply that is still compared in case of a known difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// Nothing.
    Nothing,
    /// Both must be errors.
    Error,
    /// Both are compared as numbers, so their formatting may differ.
    Number,
    /// Type and, for arrays, length.
    Shape,
}

/// One entry of the file.
#[derive(Debug)]
pub struct Known {
    /// A glob over the command line, case-insensitive.
    pub command: String,
    /// A glob over the peer's reply as printed. Default: `*`.
    pub reply: String,
    /// A glob over the peer's version. Default: `*`.
    pub peer: String,
    pub compare: Compare,
    pub reason: String,
    pub example: Vec<Command>,
}

const FILE: &str = include_str!("../known_differences.txt");

/// The entries of the file.
pub fn read() -> Vec<Known> {
    parse(FILE)
}

fn parse(text: &str) -> Vec<Known> {
    let plain: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    plain.join("\n").split("\n\n").map(str::trim).filter(|block| !block.is_empty()).map(entry).collect()
}

fn entry(block: &str) -> Known {
    let field = |wanted: &str| {
        block.lines().find_map(|line| {
            line.split_once(':').filter(|(name, _)| *name == wanted).map(|(_, text)| text.trim())
        })
    };
    let must = |wanted: &str| {
        field(wanted).unwrap_or_else(|| panic!("known_differences.txt: no `{wanted}` in\n{block}"))
    };
    Known {
        command: must("command").into(),
        reply: field("reply").unwrap_or("*").into(),
        peer: field("peer").unwrap_or("*").into(),
        compare: match must("compare") {
            "nothing" => Compare::Nothing,
            "error" => Compare::Error,
            "number" => Compare::Number,
            "shape" => Compare::Shape,
            other => panic!("known_differences.txt: unknown comparison `{other}`"),
        },
        reason: must("reason").into(),
        example: must("example").split(';').map(words).collect(),
    }
}

impl Known {
    /// True if this entry applies to `command` and its replies, and accepts them.
    pub fn excuses(&self, command: &Command, under_test: &Value, peer: &Value) -> bool {
        // Subcommands and options are case-insensitive.
        glob(self.command.to_ascii_uppercase().as_bytes(), line(command).to_ascii_uppercase().as_bytes())
            && glob(self.reply.as_bytes(), peer.to_string().as_bytes())
            && match self.compare {
                Compare::Nothing => true,
                Compare::Error => under_test.is_error() && peer.is_error(),
                Compare::Number => same_numbers(under_test, peer),
                Compare::Shape => {
                    std::mem::discriminant(under_test) == std::mem::discriminant(peer)
                        && under_test.elements().map(<[Value]>::len) == peer.elements().map(<[Value]>::len)
                }
            }
    }
}

/// Equal, with numeric texts compared as numbers.
fn same_numbers(one: &Value, other: &Value) -> bool {
    if one == other {
        return true;
    }
    if let (Some(one), Some(other)) = (one.elements(), other.elements()) {
        return one.len() == other.len()
            && one.iter().zip(other).all(|(one, other)| same_numbers(one, other));
    }
    if let (Value::Map(one), Value::Map(other)) = (one, other) {
        let pairs = |(one, other): (&(Value, Value), &(Value, Value))| {
            one.0 == other.0 && same_numbers(&one.1, &other.1)
        };
        return one.len() == other.len() && one.iter().zip(other).all(pairs);
    }
    match (one.text().parse::<f64>(), other.text().parse::<f64>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => false,
    }
}

#[test]
fn known_differences_are_parsed_and_excuse_only_matching_cases() {
    let known = parse(
        "# note\ncommand: ZSCORE *\ncompare: number\nreason: digits\nexample: ZADD z 0.1 a; ZSCORE z a\n",
    );
    assert_eq!(known.len(), 1);
    assert_eq!(known[0].example.len(), 2);
    let (long, short) = (Value::bulk("0.10000000000000001"), Value::bulk("0.1"));
    assert!(known[0].excuses(&words("zscore z a"), &short, &long));
    assert!(!known[0].excuses(&words("ZINCRBY z 1 a"), &short, &long));
    assert!(!known[0].excuses(&words("ZSCORE z a"), &Value::bulk("0.2"), &long));
}
