// SPDX-License-Identifier: BSD-3-Clause
//! Commands that look at all texts of a range: AROP and ARGREP.

use std::borrow::Cow;

use braid_base::glob;
use braid_base::number::{format_f64_17, parse_f64, parse_i64};
use braid_executor::Call;
use braid_spec::{CommandError, CommandResult};
use braid_values::array::value::Array;
use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};

use super::{index_of, positive, reply_index, reply_pair};

/// Most predicates of ARGREP.
const PREDICATES_MAX: usize = 250;
/// Longest regular expression, in bytes, and most memory for what is made of it.
const PATTERN_MAX: usize = 2048;
const COMPILED_MAX: usize = 1 << 20;

/// A sum, or an extreme: exact as long as all numbers and the result are integers of 64 bits.
#[derive(Clone, Copy)]
enum Number {
    Integer(i64),
    Float(f64),
}

impl Number {
    fn of(text: &[u8]) -> Option<Number> {
        parse_i64(text).map(Number::Integer).or_else(|| parse_f64(text).map(Number::Float))
    }

    fn as_f64(self) -> f64 {
        match self {
            Number::Integer(number) => number as f64,
            Number::Float(number) => number,
        }
    }

    fn plus(self, other: Number) -> Number {
        if let (Number::Integer(a), Number::Integer(b)) = (self, other)
            && let Some(sum) = a.checked_add(b)
        {
            return Number::Integer(sum);
        }
        Number::Float(self.as_f64() + other.as_f64())
    }

    fn is_less(self, other: Number) -> bool {
        match (self, other) {
            (Number::Integer(a), Number::Integer(b)) => a < b,
            _ => self.as_f64() < other.as_f64(),
        }
    }

    fn reply(self, call: &mut Call) {
        match self {
            Number::Integer(number) => call.reply.bulk_integer(number),
            Number::Float(number) => {
                let mut text = Vec::new();
                format_f64_17(&mut text, number);
                call.reply.bulk(&text);
            }
        }
    }

    /// Without what is behind the point, and within 64 bits.
    fn truncated(self) -> i64 {
        match self {
            Number::Integer(number) => number,
            Number::Float(number) => number as i64,
        }
    }
}

pub(super) fn arop(call: &mut Call) -> CommandResult {
    let (start, end) = (index_of(call.args[2])?, index_of(call.args[3])?);
    let (first, last) = (start.min(end), start.max(end));
    let operation = call.args[4].to_ascii_lowercase();
    let rest = &call.args[5..];
    let array = call.keyspace.read_as::<Array>(call.args[1])?;
    let texts = array.into_iter().flat_map(|array| array.scan(first, last)).map(|(_, text)| text.bytes());
    let numbers = |texts| Iterator::filter_map(texts, Number::of);
    let fold = |texts, join: fn(Number, Number) -> Number| Iterator::reduce(numbers(texts), join);
    match (&operation[..], rest) {
        (b"used", []) => reply_index(call.reply, texts.count() as u64),
        (b"match", [wanted]) => reply_index(call.reply, texts.filter(|text| text == wanted).count() as u64),
        (b"sum" | b"min" | b"max", []) => {
            let join: fn(Number, Number) -> Number = match operation[1] {
                b'u' => Number::plus,
                b'i' => |a, b| if b.is_less(a) { b } else { a },
                _ => |a, b| if a.is_less(b) { b } else { a },
            };
            match fold(texts, join) {
                Some(number) => number.reply(call),
                None => call.reply.null(),
            }
        }
        (b"and" | b"or" | b"xor", []) => {
            let join: fn(i64, i64) -> i64 = match operation[0] {
                b'a' => |a, b| a & b,
                b'o' => |a, b| a | b,
                _ => |a, b| a ^ b,
            };
            match numbers(texts).map(Number::truncated).reduce(join) {
                Some(number) => call.reply.integer(number),
                None => call.reply.null(),
            }
        }
        _ => return Err(CommandError::Syntax),
    }
    Ok(())
}

/// What a text must be like.
enum Predicate<'a> {
    Exact(&'a [u8]),
    Match(Box<Finder<'static>>),
    Glob(&'a [u8]),
    Pattern(Regex),
}

/// The predicates and options of ARGREP.
struct Search<'a> {
    predicates: Vec<Predicate<'a>>,
    needs_all: bool,
    limit: u64,
    with_values: bool,
    ignores_case: bool,
}

impl<'a> Search<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Search<'a>, CommandError> {
        let mut search = Search {
            predicates: Vec::new(),
            needs_all: false,
            limit: u64::MAX,
            with_values: false,
            ignores_case: false,
        };
        let (mut texts, mut rest) = (Vec::new(), args);
        while let [word, after @ ..] = rest {
            rest = after;
            match &word.to_ascii_lowercase()[..] {
                b"and" => search.needs_all = true,
                b"or" => search.needs_all = false,
                b"withvalues" => search.with_values = true,
                b"nocase" => search.ignores_case = true,
                word => {
                    let [argument, after @ ..] = rest else { return Err(CommandError::Syntax) };
                    rest = after;
                    match word {
                        b"limit" => search.limit = positive(argument)?,
                        b"exact" | b"match" | b"glob" | b"re" => texts.push((word[0], *argument)),
                        _ => return Err(CommandError::Syntax),
                    }
                }
            }
        }
        if texts.is_empty() {
            return Err(CommandError::Syntax);
        }
        if texts.len() > PREDICATES_MAX {
            return Err(CommandError::text(format!("ERR more than {PREDICATES_MAX} predicates")));
        }
        let ignores_case = search.ignores_case;
        let all = texts.into_iter().map(|(kind, text)| Predicate::new(kind, text, ignores_case));
        search.predicates = all.collect::<Result<_, _>>()?;
        Ok(search)
    }

    fn finds(&self, text: &[u8]) -> bool {
        let mut folded = None;
        let mut holds = |predicate: &Predicate| match predicate {
            Predicate::Exact(wanted) if self.ignores_case => wanted.eq_ignore_ascii_case(text),
            Predicate::Exact(wanted) => *wanted == text,
            Predicate::Match(finder) if self.ignores_case => {
                finder.find(folded.get_or_insert_with(|| text.to_ascii_lowercase())).is_some()
            }
            Predicate::Match(finder) => finder.find(text).is_some(),
            Predicate::Glob(pattern) => glob::matches(pattern, text, self.ignores_case),
            Predicate::Pattern(pattern) => pattern.is_match(text),
        };
        if self.needs_all {
            self.predicates.iter().all(holds)
        } else {
            self.predicates.iter().any(&mut holds)
        }
    }
}

impl<'a> Predicate<'a> {
    /// `kind`: the first letter of the predicate's word.
    fn new(kind: u8, text: &'a [u8], ignores_case: bool) -> Result<Predicate<'a>, CommandError> {
        Ok(match kind {
            b'e' => Predicate::Exact(text),
            b'm' => {
                let needle =
                    if ignores_case { text.to_ascii_lowercase().into() } else { Cow::Borrowed(text) };
                Predicate::Match(Box::new(Finder::new(&needle).into_owned()))
            }
            b'g' => Predicate::Glob(text),
            _ => Predicate::Pattern(pattern(text, ignores_case)?),
        })
    }
}

fn pattern(text: &[u8], ignores_case: bool) -> Result<Regex, CommandError> {
    let refusal = || CommandError::text("ERR invalid regular expression");
    let text = str::from_utf8(text).ok().filter(|text| text.len() <= PATTERN_MAX).ok_or_else(refusal)?;
    RegexBuilder::new(text)
        .case_insensitive(ignores_case)
        .unicode(false)
        .size_limit(COMPILED_MAX)
        .dfa_size_limit(COMPILED_MAX)
        .build()
        .map_err(|_| refusal())
}

/// An end of ARGREP's range: `-` and `+` are those of the array.
fn bound(text: &[u8], array: Option<&Array>) -> Result<u64, CommandError> {
    match text {
        b"-" => Ok(0),
        b"+" => Ok(array.map_or(0, |array| array.len().saturating_sub(1))),
        _ => index_of(text),
    }
}

pub(super) fn argrep(call: &mut Call) -> CommandResult {
    let search = Search::parse(&call.args[4..])?;
    let array = call.keyspace.read_as::<Array>(call.args[1])?;
    let (start, end) = (bound(call.args[2], array)?, bound(call.args[3], array)?);
    let reply = call.reply.begin_array();
    let mut count = 0;
    for (index, text) in array.into_iter().flat_map(|array| array.scan(start, end)) {
        if !search.finds(text.bytes()) {
            continue;
        }
        match search.with_values {
            true => reply_pair(call.reply, index, text),
            false => reply_index(call.reply, index),
        }
        count += 1;
        if count as u64 == search.limit {
            break;
        }
    }
    call.reply.end_array(reply, count);
    Ok(())
}
