// SPDX-License-Identifier: BSD-3-Clause
//! How the replies of two servers to one command are compared: byte for byte, except where the
//! command's definition leaves the reply open (the order of a set, a random element, a clock).
//!
//! Semantic differences do not belong here but in `known_differences.txt`.

use braid_tests::Value;

use crate::generator::Command;

/// The part of a reply that must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Every byte.
    Exact,
    /// The elements, in any order.
    AnyOrder,
    /// Pairs of elements, in any order of the pairs (a map in RESP2).
    PairsInAnyOrder,
    /// Integers may differ by the elapsed time; negative ones must be equal.
    Clock,
    /// Types and lengths, not contents.
    Shape,
    /// Type only.
    Kind,
    /// A cursor and elements: if both cursors are 0, the elements in any order.
    Scan,
    /// The elements of EXEC's reply, each by the rule of its command.
    Transaction,
}

/// Maximum time between a command's runs on the two servers, in seconds or milliseconds.
const CLOCK_TOLERANCE: i64 = 15_000;

/// A command's name in upper case.
pub fn name(command: &[Vec<u8>]) -> String {
    command.first().map(|name| String::from_utf8_lossy(name).to_ascii_uppercase()).unwrap_or_default()
}

/// The rule for a command.
pub fn rule(command: &[Vec<u8>]) -> Rule {
    let second =
        command.get(1).map(|word| String::from_utf8_lossy(word).to_ascii_uppercase()).unwrap_or_default();
    match (name(command).as_str(), second.as_str()) {
        ("KEYS" | "SMEMBERS" | "SINTER" | "SUNION" | "SDIFF" | "HKEYS" | "HVALS", _) => Rule::AnyOrder,
        ("HGETALL", _) => Rule::PairsInAnyOrder,
        // SORT leaves the order of equal elements open, and BY nosort that of a set.
        ("SORT" | "SORT_RO", _) => Rule::AnyOrder,
        (
            "TTL" | "PTTL" | "EXPIRETIME" | "PEXPIRETIME" | "HTTL" | "HPTTL" | "HEXPIRETIME" | "HPEXPIRETIME",
            _,
        ) => Rule::Clock,
        ("XPENDING" | "XCLAIM" | "XINFO", _) => Rule::Clock,
        ("SPOP" | "RANDOMKEY" | "SRANDMEMBER" | "HRANDFIELD" | "ZRANDMEMBER", _) => Rule::Shape,
        // Only a scan that starts at 0 and completes in a single call has a defined result.
        ("SCAN", _) if command.get(1).is_some_and(|cursor| cursor == b"0") => Rule::Scan,
        ("SSCAN" | "HSCAN" | "ZSCAN", _) if command.get(2).is_some_and(|cursor| cursor == b"0") => Rule::Scan,
        ("SCAN" | "SSCAN" | "HSCAN" | "ZSCAN", _) => Rule::Kind,
        ("COMMAND", "COUNT" | "") => Rule::Kind,
        // Without names these list all commands, which depend on the version.
        ("COMMAND", "INFO" | "DOCS" | "LIST") if command.len() == 2 => Rule::Kind,
        ("COMMAND", "INFO" | "LIST" | "DOCS" | "GETKEYSANDFLAGS") => Rule::AnyOrder,
        ("PUBSUB" | "CONFIG", _) => Rule::PairsInAnyOrder,
        ("OBJECT", "IDLETIME" | "FREQ" | "HELP") => Rule::Kind,
        ("CLIENT", "ID" | "INFO" | "LIST" | "HELP") => Rule::Kind,
        ("COMMAND" | "MEMORY" | "LATENCY" | "SLOWLOG" | "ACL" | "FUNCTION" | "SCRIPT", "HELP") => Rule::Kind,
        ("MEMORY" | "SLOWLOG" | "TIME" | "LASTSAVE" | "LOLWUT" | "HELLO", _) => Rule::Kind,
        ("ACL", "GENPASS") => Rule::Kind,
        ("FUNCTION", "LIST" | "STATS") => Rule::Shape,
        ("INFO", _) => Rule::Kind,
        ("EXEC", _) => Rule::Transaction,
        _ => Rule::Exact,
    }
}

/// True if the command's effect is random, so that the two keyspaces differ after it.
pub fn random_effect(command: &[Vec<u8>]) -> bool {
    name(command) == "SPOP"
}

/// True if the difference between two replies to a command is a known one.
pub type Excuse<'a> = &'a dyn Fn(&Command, &Value, &Value) -> bool;

/// True if two replies to `command` agree. `queued` are the commands to which an EXEC replies.
pub fn agree(command: &Command, queued: &[Command], one: &Value, other: &Value, excuse: Excuse) -> bool {
    if one == other || excuse(command, one, other) {
        return true;
    }
    if one.is_error() || other.is_error() {
        return false;
    }
    let rule = rule(command);
    if rule == Rule::Transaction {
        return match (one, other) {
            (Value::Array(one), Value::Array(other))
                if one.len() == other.len() && one.len() == queued.len() =>
            {
                // After the removal of a random element, all later replies may differ.
                queued.iter().any(|command| random_effect(command))
                    || queued
                        .iter()
                        .zip(one.iter().zip(other))
                        .all(|(command, (one, other))| agree(command, &[], one, other, excuse))
            }
            _ => false,
        };
    }
    // Inside MULTI both replies are only "QUEUED".
    by_rule(rule, one, other)
}

fn by_rule(rule: Rule, one: &Value, other: &Value) -> bool {
    if std::mem::discriminant(one) != std::mem::discriminant(other) {
        return false;
    }
    match rule {
        Rule::Exact | Rule::Transaction => one == other,
        Rule::Kind => true,
        Rule::AnyOrder => sorted(one) == sorted(other),
        Rule::PairsInAnyOrder => sorted_pairs(one) == sorted_pairs(other),
        Rule::Shape => match (one.elements(), other.elements()) {
            (Some(one), Some(other)) => {
                one.len() == other.len()
                    && one.iter().zip(other).all(|(one, other)| by_rule(Rule::Shape, one, other))
            }
            _ => true,
        },
        Rule::Clock => match (one, other) {
            (Value::Integer(one), Value::Integer(other)) => near(*one, *other),
            (Value::Map(one), Value::Map(other)) => {
                one.len() == other.len()
                    && one
                        .iter()
                        .zip(other)
                        .all(|(one, other)| one.0 == other.0 && by_rule(rule, &one.1, &other.1))
            }
            _ => match (one.elements(), other.elements()) {
                (Some(one), Some(other)) => {
                    one.len() == other.len()
                        && one.iter().zip(other).all(|(one, other)| by_rule(rule, one, other))
                }
                _ => one == other,
            },
        },
        Rule::Scan => match (one.elements(), other.elements()) {
            (Some([one_cursor, one]), Some([other_cursor, other])) => {
                let complete = Value::bulk("0");
                if *one_cursor != complete || *other_cursor != complete {
                    return one_cursor.bytes().is_some() == other_cursor.bytes().is_some();
                }
                sorted(one) == sorted(other)
            }
            _ => false,
        },
    }
}

fn near(one: i64, other: i64) -> bool {
    one == other || (one >= 0 && other >= 0 && one.abs_diff(other) <= CLOCK_TOLERANCE as u64)
}

/// The elements, sorted at every level.
pub fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) | Value::Set(items) => {
            let mut items: Vec<Value> = items.iter().map(sorted).collect();
            items.sort();
            if matches!(value, Value::Set(_)) { Value::Set(items) } else { Value::Array(items) }
        }
        Value::Map(pairs) => {
            let mut pairs: Vec<(Value, Value)> =
                pairs.iter().map(|(key, value)| (sorted(key), sorted(value))).collect();
            pairs.sort();
            Value::Map(pairs)
        }
        other => other.clone(),
    }
}

/// An array of alternating keys and values, sorted by pairs.
pub fn sorted_pairs(value: &Value) -> Value {
    match value {
        Value::Array(items) if items.len() % 2 == 0 => {
            let mut pairs: Vec<&[Value]> = items.chunks(2).collect();
            pairs.sort();
            Value::Array(pairs.concat())
        }
        other => sorted(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(text: &str) -> Value {
        Value::parse(text.as_bytes()).expect("a reply").0
    }

    fn check(command: &str, one: &str, other: &str) -> bool {
        agree(&braid_tests::words(command), &[], &reply(one), &reply(other), &|_, _, _| false)
    }

    #[test]
    fn only_unspecified_parts_of_replies_may_differ() {
        assert!(check("GET k", "$1\r\na\r\n", "$1\r\na\r\n"));
        assert!(!check("GET k", "$1\r\na\r\n", "$1\r\nb\r\n"));
        assert!(!check("GET k", "$-1\r\n", "_\r\n"));
        assert!(check("keys *", "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "*2\r\n$1\r\nb\r\n$1\r\na\r\n"));
        assert!(!check("KEYS *", "*1\r\n$1\r\na\r\n", "*1\r\n$1\r\nb\r\n"));
        assert!(check("HGETALL h", "*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n", "*4\r\n:3\r\n:4\r\n:1\r\n:2\r\n"));
        assert!(!check("HGETALL h", "*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n", "*4\r\n:3\r\n:2\r\n:1\r\n:4\r\n"));
        assert!(check("TTL k", ":100\r\n", ":99\r\n"));
        assert!(!check("TTL k", ":-1\r\n", ":-2\r\n"));
        assert!(!check("TTL k", ":-1\r\n", ":5\r\n"));
        assert!(check("SRANDMEMBER s", "$1\r\na\r\n", "$1\r\nb\r\n"));
        assert!(!check("SRANDMEMBER s 2", "*1\r\n$1\r\na\r\n", "*0\r\n"));
        assert!(!check("SCAN 0", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"));
        assert!(check("SCAN 0", "*2\r\n$1\r\n7\r\n*1\r\n$1\r\na\r\n", "*2\r\n$1\r\n0\r\n*0\r\n"));
        assert!(!check("TIME", "-ERR a\r\n", "-ERR b\r\n"));
    }
}
