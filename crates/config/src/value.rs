// SPDX-License-Identifier: BSD-3-Clause
//! Values: conversion between the text of a directive and its value.
//!
//! Pure functions over a row of the table; they neither store nor apply values. The reasons in
//! errors are those that stock servers show after "CONFIG SET failed".

use crate::directive::{Directive, DirectiveKind, Special, Unit};
use crate::number::{format_memory, octal_integer, parse_memory, strict_integer};
use crate::special::{self, MasterAddress, NotifyFlags, OutputLimit, SavePoint};
use crate::text::{quote, quote_if_needed};
use std::sync::Arc;

/// A directive's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Switches, numbers, words and letters. Unsigned 64-bit numbers are stored bitwise.
    Scalar(i64),
    /// A text; for directories the absolute path.
    Text(Arc<str>),
    /// Save points.
    Save(Arc<[SavePoint]>),
    /// Output limits by class.
    OutputLimits([OutputLimit; 3]),
    /// Kernel scores.
    OomScores([i32; 3]),
    /// Addresses.
    Words(Arc<[String]>),
    /// The master, if there is one.
    Master(Option<Arc<MasterAddress>>),
    /// Percentiles.
    Percentiles(Arc<[f64]>),
}

/// Input of the parser besides the words.
pub(crate) struct ParseContext<'a> {
    /// The current value of the same directive.
    pub present: &'a Value,
    /// The current directory, against which a relative one is resolved.
    pub directory: &'a str,
}

/// The default value of a directive. For `dir` it is the process's working directory.
pub(crate) fn default_value(directive: &Directive) -> Value {
    match directive.kind {
        DirectiveKind::Bool { default, .. } => Value::Scalar(i64::from(default)),
        DirectiveKind::Integer { default, .. } => Value::Scalar(default()),
        DirectiveKind::Enum { default, .. } | DirectiveKind::Flags { default, .. } => Value::Scalar(default),
        DirectiveKind::Text { default, .. } => Value::Text(default.into()),
        DirectiveKind::Special(Special::Directory) => {
            let present =
                std::env::current_dir().ok().and_then(|path| path.into_os_string().into_string().ok());
            Value::Text(present.unwrap_or_default().into())
        }
        DirectiveKind::Special(Special::Save) => Value::Save(special::DEFAULT_SAVE.into()),
        DirectiveKind::Special(Special::ClientOutputBufferLimit) => {
            Value::OutputLimits(special::DEFAULT_OUTPUT_LIMITS)
        }
        DirectiveKind::Special(Special::OomScoreAdjValues) => Value::OomScores(special::DEFAULT_OOM_SCORES),
        DirectiveKind::Special(Special::NotifyKeyspaceEvents) => Value::Scalar(0),
        DirectiveKind::Special(Special::Bind) => {
            Value::Words(special::DEFAULT_BIND.map(str::to_owned).into())
        }
        DirectiveKind::Special(Special::ChangeFeed) => Value::Words([].into()),
        DirectiveKind::Special(Special::ReplicaOf) => Value::Master(None),
        DirectiveKind::Special(Special::LatencyPercentiles) => {
            Value::Percentiles(special::DEFAULT_PERCENTILES.as_slice().into())
        }
    }
}

/// Parses the arguments of a directive.
pub(crate) fn parse(
    directive: &Directive,
    words: &[&str],
    context: &ParseContext<'_>,
) -> Result<Value, String> {
    if !directive.takes_several() && words.len() != 1 {
        return Err("wrong number of arguments".to_owned());
    }
    let word = words.first().copied().unwrap_or("");
    match directive.kind {
        DirectiveKind::Bool { check, also_true_false, .. } => {
            let value = parse_bool(word, also_true_false).ok_or("argument must be 'yes' or 'no'")?;
            if let Some(check) = check {
                check(value)?;
            }
            Ok(Value::Scalar(i64::from(value)))
        }
        DirectiveKind::Integer { min, max, unit, check, .. } => {
            let number = parse_number(word, unit)?;
            check_range(number, min, max, unit)?;
            // Within range the number fits 64 bits, signed or unsigned; both keep their bits.
            let stored = number as i64;
            Ok(Value::Scalar(match check {
                Some(check) => check(stored)?,
                None => stored,
            }))
        }
        DirectiveKind::Text { check, .. } => {
            if let Some(check) = check {
                check(word)?;
            }
            Ok(Value::Text(word.into()))
        }
        DirectiveKind::Enum { words: allowed, .. } => find_word(allowed, word).map(Value::Scalar),
        DirectiveKind::Flags { words: allowed, .. } => parse_flags(allowed, words).map(Value::Scalar),
        DirectiveKind::Special(special) => parse_special(special, words, context),
    }
}

fn parse_special(special: Special, words: &[&str], context: &ParseContext<'_>) -> Result<Value, String> {
    let word = words.first().copied().unwrap_or("");
    Ok(match special {
        Special::Directory => Value::Text(special::parse_directory(word, context.directory)?.into()),
        Special::Save => Value::Save(special::parse_save(words)?.into()),
        Special::ClientOutputBufferLimit => {
            let present = match context.present {
                Value::OutputLimits(limits) => *limits,
                _ => special::DEFAULT_OUTPUT_LIMITS,
            };
            Value::OutputLimits(special::parse_output_limits(words, present)?)
        }
        Special::OomScoreAdjValues => Value::OomScores(special::parse_oom_scores(words)?),
        Special::NotifyKeyspaceEvents => {
            let flags =
                NotifyFlags::parse(word).ok_or("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")?;
            Value::Scalar(i64::from(flags.0))
        }
        Special::Bind => Value::Words(special::parse_bind(words)?.into()),
        Special::ChangeFeed => Value::Words(special::parse_change_feed(words)?.into()),
        Special::ReplicaOf => Value::Master(special::parse_replica_of(words)?.map(Arc::new)),
        Special::LatencyPercentiles => Value::Percentiles(special::parse_percentiles(words)?.into()),
    })
}

fn parse_bool(word: &str, also_true_false: bool) -> Option<bool> {
    let is = |expected: &str| word.eq_ignore_ascii_case(expected);
    if is("yes") || (also_true_false && is("true")) {
        Some(true)
    } else if is("no") || (also_true_false && is("false")) {
        Some(false)
    } else {
        None
    }
}

fn find_word(allowed: &[(&'static str, i64)], word: &str) -> Result<i64, String> {
    allowed.iter().find(|entry| entry.0.eq_ignore_ascii_case(word)).map(|entry| entry.1).ok_or_else(|| {
        let words: Vec<&str> = allowed.iter().map(|entry| entry.0).collect();
        format!("argument(s) must be one of the following: {}", words.join(", "))
    })
}

fn parse_flags(allowed: &[(&'static str, i64)], words: &[&str]) -> Result<i64, String> {
    if words.is_empty() {
        return find_word(allowed, "");
    }
    let mut bits = 0;
    for word in words {
        bits |= find_word(allowed, word)?;
    }
    let has = |bit: u8| bits & i64::from(bit) != 0;
    if has(crate::enums::ShutdownFlags::SAVE) && has(crate::enums::ShutdownFlags::NOSAVE) {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".to_owned());
    }
    Ok(bits)
}

fn parse_number(word: &str, unit: Unit) -> Result<i128, String> {
    let number = match unit {
        Unit::Bytes => parse_memory(word).map(i128::from),
        Unit::BytesOrPercent => parse_memory(word).map(i128::from).or_else(|| {
            // "%" alone is not a number; a percentage is stored as a negative number.
            let percent = strict_integer(word.strip_suffix('%')?)?;
            (percent >= 0).then_some(-i128::from(percent))
        }),
        Unit::Octal => octal_integer(word).map(i128::from),
        _ => strict_integer(word).map(i128::from),
    };
    number.ok_or_else(|| {
        match unit {
            Unit::BytesOrPercent => "argument must be a memory or percent value",
            Unit::Bytes => "argument must be a memory value",
            Unit::Octal => "argument couldn't be parsed as an octal number",
            _ => "argument couldn't be parsed into an integer",
        }
        .to_owned()
    })
}

fn check_range(number: i128, min: i128, max: i128, unit: Unit) -> Result<(), String> {
    if (min..=max).contains(&number) {
        return Ok(());
    }
    Err(match unit {
        Unit::BytesOrPercent if number < 0 => {
            format!("percentage argument must be less or equal to {}", -min)
        }
        Unit::Octal => format!("argument must be between {min:o} and {max:o} inclusive"),
        _ => format!("argument must be between {min} and {max} inclusive"),
    })
}

/// The numbers of a version such as `7.2.4`; signs and leading zeros are refused.
pub fn parse_version(text: &str) -> Option<[u8; 3]> {
    let mut numbers = text.split('.').map(|part| {
        let number: u8 = part.parse().ok()?;
        (number.to_string() == part).then_some(number)
    });
    let version = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(version)
}

/// True if setting this value has no effect. An unimplemented feature counts as off, so turning
/// it off, or setting a number to its default, is not reported. Of a directive that is always on,
/// turning it off is.
pub(crate) fn lacks_effect(directive: &Directive, value: &Value) -> bool {
    let is_on = matches!(directive.kind, DirectiveKind::Bool { .. }) && *value == Value::Scalar(1);
    let is_changed = *value != default_value(directive);
    let is_missed = if directive.is_always_on { is_changed && !is_on } else { is_changed || is_on };
    !directive.takes_effect && is_missed
}

/// The value as CONFIG GET shows it.
pub(crate) fn format_value(directive: &Directive, value: &Value) -> String {
    match value {
        Value::Scalar(raw) => format_scalar(directive, *raw),
        Value::Text(text) => text.to_string(),
        Value::Save(points) => special::join(points, |point| format!("{} {}", point.seconds, point.changes)),
        Value::OutputLimits(limits) => ["normal", "slave", "pubsub"]
            .iter()
            .zip(limits)
            .map(|(class, limit)| {
                format!("{class} {} {} {}", limit.hard_bytes, limit.soft_bytes, limit.soft_seconds)
            })
            .collect::<Vec<_>>()
            .join(" "),
        Value::OomScores(scores) => special::join(scores, i32::to_string),
        Value::Words(words) => words.join(" "),
        Value::Master(Some(master)) => format!("{} {}", master.host, master.port),
        Value::Master(None) => String::new(),
        Value::Percentiles(percentiles) => {
            special::join(percentiles, |number| special::format_percentile(*number))
        }
    }
}

fn format_scalar(directive: &Directive, raw: i64) -> String {
    match directive.kind {
        DirectiveKind::Bool { .. } => yes_no(raw != 0).to_owned(),
        DirectiveKind::Integer { unit: Unit::BytesOrPercent, .. } if raw < 0 => {
            format!("{}%", raw.unsigned_abs())
        }
        DirectiveKind::Integer { unit: Unit::Octal, .. } => format!("{raw:o}"),
        DirectiveKind::Integer { max, .. } if max > i128::from(i64::MAX) => (raw as u64).to_string(),
        DirectiveKind::Enum { words, .. } => {
            words.iter().find(|entry| entry.1 == raw).map_or("unknown", |entry| entry.0).to_owned()
        }
        DirectiveKind::Flags { words, .. } => format_flags(words, raw),
        DirectiveKind::Special(Special::NotifyKeyspaceEvents) => NotifyFlags(raw as u32).letters(),
        _ => raw.to_string(),
    }
}

fn format_flags(words: &[(&'static str, i64)], raw: i64) -> String {
    if let Some(exact) = words.iter().find(|entry| entry.1 == raw) {
        return exact.0.to_owned();
    }
    let set: Vec<&str> = words.iter().filter(|entry| entry.1 & raw != 0).map(|entry| entry.0).collect();
    set.join(" ")
}

fn yes_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

/// The lines that set this value in a file: usually one, several for lists, none for an unset
/// value.
pub(crate) fn file_lines(directive: &Directive, value: &Value) -> Vec<String> {
    let name = directive.name;
    match value {
        Value::Scalar(raw) => vec![match directive.kind {
            DirectiveKind::Integer { unit, .. } if unit.is_memory() && (*raw >= 0 || unit == Unit::Bytes) => {
                format!("{name} {}", format_memory(*raw as u64))
            }
            DirectiveKind::Special(_) => {
                format!("{name} {}", quote(format_scalar(directive, *raw).as_bytes()))
            }
            _ => format!("{name} {}", format_scalar(directive, *raw)),
        }],
        Value::Text(text) => match directive.kind {
            DirectiveKind::Text { empty_is_unset: true, .. } if text.is_empty() => Vec::new(),
            _ => vec![format!("{name} {}", quote(text.as_bytes()))],
        },
        Value::Save(points) if points.is_empty() => vec![format!("{name} \"\"")],
        Value::Save(points) => {
            points.iter().map(|point| format!("{name} {} {}", point.seconds, point.changes)).collect()
        }
        Value::OutputLimits(limits) => ["normal", "replica", "pubsub"]
            .iter()
            .zip(limits)
            .map(|(class, limit)| {
                let (hard, soft) = (format_memory(limit.hard_bytes), format_memory(limit.soft_bytes));
                format!("{name} {class} {hard} {soft} {}", limit.soft_seconds)
            })
            .collect(),
        Value::Words(words) if words.is_empty() => vec![format!("{name} \"\"")],
        Value::Words(words) if directive.kind_is(Special::ChangeFeed) => words
            .chunks(special::CHANGE_FEED_WORDS)
            .map(|feed| format!("{name} {}", special::join(feed, |word| quote_if_needed(word))))
            .collect(),
        Value::Words(words) => {
            let mut line = special::join(words, |word| quote_if_needed(word));
            if words.len() == 1 && line != words[0] {
                // When read, a single argument of a list is split again, so its quotes must be
                // quoted.
                line = quote(line.as_bytes());
            }
            vec![format!("{name} {line}")]
        }
        Value::Master(None) => Vec::new(),
        Value::Master(Some(master)) => {
            vec![format!("{name} {} {}", quote_if_needed(&master.host), master.port)]
        }
        Value::Percentiles(percentiles) if percentiles.is_empty() => vec![format!("{name} \"\"")],
        _ => vec![format!("{name} {}", format_value(directive, value))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_units() {
        let known = [
            ("0", 0),
            ("100", 100),
            ("1b", 1),
            ("2k", 2000),
            ("2KB", 2048),
            ("3m", 3_000_000),
            ("3Mb", 3 << 20),
            ("1g", 1_000_000_000),
            ("1gB", 1 << 30),
            ("", 0),
            ("gb", 0),
            ("18446744073709551615", u64::MAX),
            ("99999999999999999999", u64::MAX),
        ];
        for (text, bytes) in known {
            assert_eq!(parse_memory(text), Some(bytes), "{text}");
        }
        for wrong in ["-1", "+1", " 1", "1 ", "10x", "1kbb", "1%", "99999999999gb", "k1"] {
            assert_eq!(parse_memory(wrong), None, "{wrong}");
        }
        assert_eq!(parse_memory(&"1".repeat(128)), None);
    }

    #[test]
    fn integers_are_strict() {
        assert_eq!(strict_integer("0"), Some(0));
        assert_eq!(strict_integer("-12"), Some(-12));
        for wrong in ["", "-", "-0", "01", "+1", " 1", "1 ", "1x", "9223372036854775808", "-01", "--1", "00"]
        {
            assert_eq!(strict_integer(wrong), None, "{wrong}");
        }
    }
}
