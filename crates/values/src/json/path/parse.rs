// SPDX-License-Identifier: BSD-3-Clause
//! Parses paths of both syntaxes into steps.
//!
//! The language and the messages are Redis Stack's: only spaces separate tokens, names without
//! quotes are of ASCII letters, digits and some signs, and indices have no leading zeros.
//! Nesting of filters and the number of steps are limited, so the recursion here and in the
//! evaluation is bounded.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use super::steps::{Comparison, Condition, Path, Selector, Step, Steps, Term};
use crate::json::number::Num;

/// Levels of filters and parentheses in one path.
const DEPTH_MAX: u32 = 32;
/// Steps and comparisons in one path, with those in its filters.
const PARTS_MAX: usize = 256;
/// Memory for one compiled regular expression, in bytes.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// A path that cannot be parsed.
#[derive(Debug, PartialEq, Eq)]
pub struct PathError {
    text: String,
    at: usize,
    expected: &'static str,
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, behind) = self.text.split_at(self.at);
        write!(f, "Error occurred on position {}, \"{before}", before.chars().count())?;
        if behind.is_empty() {
            write!(f, " <<<<----")?
        } else {
            write!(f, " ---->>>> {behind}")?
        }
        write!(f, "\", expected one of the following: {}.", self.expected)
    }
}

const STRING_OR_ALL: &str = "<string>, '*'";
const BRACKETS: &str = "'<string>[,<string>,...]', '<number>', ['start:end:steps'], '*'";
const AFTER_STRING: &str = "'<number>', ['start:end:steps']";
const AFTER_ALL: &str = "'<string>[,<string>,...]', '<number>', ['start:end:steps']";
const SLICE: &str = "['start:end:steps']";
const END: &str = "EOI, '..'";
const END_OR_ROOT: &str = "EOI, root";
const FEWER_PARTS: &str = "at most 256 steps and comparisons";
const STEP: &str = "pos_number";
const FILTER: &str = "single_filter";
const TERM: &str = "decimal, from_current, from_root, boolean_true, boolean_false, null";
const AND_OR: &str = "and, or";
const OPERATOR: &str = "ge, gt, le, lt, eq, ne, re, and, or, '..'";
const NUMBER: &str = "'<number>'";

/// The path as JSONPath: itself, or the older syntax with the root in front.
fn to_json_path(text: &[u8]) -> Cow<'_, [u8]> {
    if is_json_path(text) {
        Cow::Borrowed(text)
    } else if text == b"." {
        Cow::Borrowed(b"$")
    } else if text.first() == Some(&b'.') {
        Cow::Owned([b"$", text].concat())
    } else {
        Cow::Owned([b"$.", text].concat())
    }
}

fn is_json_path(text: &[u8]) -> bool {
    text == b"$" || text.starts_with(b"$.") || text.starts_with(b"$[")
}

impl Path<'_> {
    /// The path as JSONPath, as Redis Stack's messages show it.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(&to_json_path(self.text)).into_owned()
    }
}

impl<'a> Path<'a> {
    /// A path that was not parsed, for messages: Redis Stack looks for the key first.
    pub fn unparsed(text: &'a [u8]) -> Path<'a> {
        Path { text, is_legacy: !is_json_path(text), steps: Steps::new() }
    }

    /// A path that matches nothing.
    pub fn to_nothing(text: &'a [u8]) -> Path<'a> {
        let nothing = Step { descends: false, selector: Selector::Names(Vec::new()) };
        Path { steps: Steps::from_iter([nothing]), ..Path::unparsed(text) }
    }

    /// Parses a path of either syntax.
    ///
    /// # Errors
    /// The first place where the text is not a path.
    pub fn parse(text: &'a [u8]) -> Result<Path<'a>, PathError> {
        let is_legacy = !is_json_path(text);
        // Everything in front of `from` is not steps.
        let (from, has_dot) = match text {
            b"$" | b"." => return Ok(Path { text, is_legacy, steps: Steps::new() }),
            [b'$', ..] if !is_legacy => (1, true),
            [b'.' | b'[', ..] => (0, true),
            _ => (0, false),
        };
        let mut parser = Parser { text, at: from, depth: 0, parts: 0 };
        let parsed = parser.path(has_dot);
        let steps = parsed.map_err(|(at, expected)| {
            let shown = to_json_path(text);
            let at = at + shown.len() - text.len();
            let mut shown = String::from_utf8_lossy(&shown).into_owned();
            let mut at = at.min(shown.len());
            while !shown.is_char_boundary(at) {
                at -= 1;
            }
            if shown.len() > 512 {
                // The text around the error is enough, and the message stays short.
                let mut end = (at + 64).min(shown.len());
                while !shown.is_char_boundary(end) {
                    end -= 1;
                }
                shown.truncate(end);
            }
            PathError { text: shown, at, expected }
        })?;
        Ok(Path { text, is_legacy, steps })
    }
}

type Failure = (usize, &'static str);

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
    /// Steps and comparisons so far.
    parts: usize,
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'#' | b'$' | b'%' | b'+' | b'-' | b'/' | b':' | b'^' | b'_' | b'`' | b'~')
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    fn eat(&mut self, token: &[u8]) -> bool {
        let found = self.text[self.at..].starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn path(&mut self, has_dot: bool) -> Result<Steps<'a>, Failure> {
        let mut steps = Steps::new();
        if !has_dot {
            steps.push(Step { descends: false, selector: self.name_or_all()? });
        }
        self.steps(&mut steps)?;
        self.space();
        if self.at < self.text.len() { Err((self.at, END)) } else { Ok(steps) }
    }

    /// Reads steps as far as there are any.
    fn steps(&mut self, steps: &mut Steps<'a>) -> Result<(), Failure> {
        loop {
            let before = self.at;
            self.space();
            let (descends, selector) = if self.eat(b"..") {
                self.space();
                let selector = if self.peek() == Some(b'[') { self.bracket()? } else { self.name_or_all()? };
                (true, selector)
            } else if self.eat(b".") {
                self.space();
                let selector = if self.peek() == Some(b'[') { self.bracket()? } else { self.name_or_all()? };
                (false, selector)
            } else if self.peek() == Some(b'[') {
                (false, self.bracket()?)
            } else {
                self.at = before;
                return Ok(());
            };
            self.count_part()?;
            steps.push(Step { descends, selector });
        }
    }

    fn count_part(&mut self) -> Result<(), Failure> {
        self.parts += 1;
        if self.parts > PARTS_MAX { Err((self.at, FEWER_PARTS)) } else { Ok(()) }
    }

    fn name_or_all(&mut self) -> Result<Selector<'a>, Failure> {
        if self.eat(b"*") {
            return Ok(Selector::All);
        }
        let start = self.at;
        while self.peek().is_some_and(is_name_byte) {
            self.at += 1;
        }
        if self.at == start {
            return Err((start, STRING_OR_ALL));
        }
        Ok(Selector::Name(Cow::Borrowed(&self.text[start..self.at])))
    }

    fn bracket(&mut self) -> Result<Selector<'a>, Failure> {
        let open = self.at;
        self.at += 1;
        self.space();
        let start = self.at;
        let selector = match self.peek() {
            Some(b'*') => {
                self.at += 1;
                Selector::All
            }
            Some(b'?') => {
                self.at += 1;
                self.space();
                self.depth += 1;
                let condition = self.condition()?;
                self.depth -= 1;
                self.space();
                if !self.eat(b"]") {
                    return Err((self.at, AND_OR));
                }
                return Ok(Selector::Filter(Box::new(condition)));
            }
            Some(b'"' | b'\'') => self.names(start)?,
            Some(b'0'..=b'9' | b'-' | b':') => self.indices(open, start)?,
            _ => return Err((start, BRACKETS)),
        };
        self.space();
        if !self.eat(b"]") {
            let expected = match selector {
                Selector::All => AFTER_ALL,
                Selector::Slice { .. } => return Err((open, END_OR_ROOT)),
                Selector::Name(_) | Selector::Names(_) => AFTER_STRING,
                _ => SLICE,
            };
            return Err((start, expected));
        }
        Ok(selector)
    }

    fn names(&mut self, start: usize) -> Result<Selector<'a>, Failure> {
        let first = self.quoted().ok_or((start, BRACKETS))?;
        let mut names = vec![first];
        loop {
            let before = self.at;
            self.space();
            if !self.eat(b",") {
                self.at = before;
                break;
            }
            self.space();
            match self.quoted() {
                Some(name) => names.push(name),
                None => return Err((start, AFTER_STRING)),
            }
        }
        match names.len() {
            1 => Ok(Selector::Name(names.remove(0))),
            _ => Ok(Selector::Names(names)),
        }
    }

    /// A text in quotes, of either kind; only the quote and the backslash can be escaped.
    fn quoted(&mut self) -> Option<Cow<'a, [u8]>> {
        let quote = self.peek().filter(|byte| matches!(byte, b'"' | b'\''))?;
        let start = self.at + 1;
        let mut at = start;
        let mut has_escapes = false;
        loop {
            match *self.text.get(at)? {
                b'\\' => {
                    let escaped = *self.text.get(at + 1)?;
                    if escaped != quote && escaped != b'\\' {
                        return None;
                    }
                    has_escapes = true;
                    at += 2;
                }
                byte if byte == quote => break,
                _ => at += 1,
            }
        }
        self.at = at + 1;
        let raw = &self.text[start..at];
        if !has_escapes {
            return Some(Cow::Borrowed(raw));
        }
        let mut plain = Vec::with_capacity(raw.len());
        let mut bytes = raw.iter();
        while let Some(&byte) = bytes.next() {
            plain.push(if byte == b'\\' { *bytes.next()? } else { byte });
        }
        Some(Cow::Owned(plain))
    }

    /// An integer without leading zeros.
    fn integer(&mut self) -> Option<i64> {
        let start = self.at;
        let is_negative = self.eat(b"-");
        let first = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        let digits = &self.text[first..self.at];
        if digits.is_empty() || digits.len() > 1 && digits[0] == b'0' {
            self.at = start;
            return None;
        }
        // No document has so many elements, so larger numbers need not differ.
        let value = digits
            .iter()
            .fold(0_i64, |sum, &digit| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
        Some(if is_negative { -value } else { value })
    }

    fn indices(&mut self, open: usize, start: usize) -> Result<Selector<'a>, Failure> {
        let first = self.integer();
        self.space();
        if self.eat(b":") {
            return self.slice(open, first.unwrap_or(0));
        }
        let mut indices = vec![first.ok_or((start, SLICE))?];
        while self.eat(b",") {
            self.space();
            indices.push(self.integer().ok_or((self.at, NUMBER))?);
            self.space();
        }
        match indices.as_slice() {
            [index] => Ok(Selector::Index(*index)),
            _ => Ok(Selector::Indices(indices)),
        }
    }

    fn slice(&mut self, open: usize, start: i64) -> Result<Selector<'a>, Failure> {
        self.space();
        let end = self.integer();
        self.space();
        let mut step = 1;
        if self.eat(b":") {
            self.space();
            match self.peek() {
                Some(b']') => {}
                Some(b'1'..=b'9') => step = self.integer().ok_or((self.at, STEP))?.unsigned_abs(),
                _ => return Err((self.at, STEP)),
            }
        }
        self.space();
        if self.peek() != Some(b']') {
            return Err((open, END_OR_ROOT));
        }
        Ok(Selector::Slice { start, end, step })
    }

    /// A condition: comparisons and groups joined by `&&`, which binds tighter, and `||`.
    fn condition(&mut self) -> Result<Condition<'a>, Failure> {
        if self.depth > DEPTH_MAX {
            return Err((self.at, FILTER));
        }
        let mut any = vec![self.all_of()?];
        loop {
            let before = self.at;
            self.space();
            if !self.eat(b"||") {
                self.at = before;
                break;
            }
            self.space();
            any.push(self.all_of()?);
        }
        Ok(if any.len() == 1 { any.remove(0) } else { Condition::Any(any) })
    }

    fn all_of(&mut self) -> Result<Condition<'a>, Failure> {
        let mut all = vec![self.single()?];
        loop {
            let before = self.at;
            self.space();
            if !self.eat(b"&&") {
                self.at = before;
                break;
            }
            self.space();
            all.push(self.single()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Condition::All(all) })
    }

    fn single(&mut self) -> Result<Condition<'a>, Failure> {
        if self.eat(b"(") {
            self.space();
            self.depth += 1;
            let inner = self.condition()?;
            self.depth -= 1;
            self.space();
            return if self.eat(b")") { Ok(inner) } else { Err((self.at, self.continuation())) };
        }
        self.count_part()?;
        let left =
            self.term().map_err(|(at, expected)| (at, if expected == TERM { FILTER } else { expected }))?;
        let before = self.at;
        self.space();
        let Some(comparison) = self.comparison() else {
            self.at = before;
            return Ok(Condition::Exists(left));
        };
        self.space();
        let right = self.term()?;
        let comparison = match comparison {
            Comparison::Matches(_) => Comparison::Matches(regex(&right)),
            other => other,
        };
        Ok(Condition::Compare(Box::new((left, comparison, right))))
    }

    /// What may follow, for the message: behind a path also an operator.
    fn continuation(&self) -> &'static str {
        let before = self.text[..self.at].iter().rev().find(|&&byte| byte != b' ');
        let text =
            self.text[..self.at].iter().rposition(|&byte| matches!(byte, b'@' | b'=' | b'<' | b'>' | b'~'));
        match (before, text.map(|at| self.text[at])) {
            (Some(_), Some(b'@')) => OPERATOR,
            _ => AND_OR,
        }
    }

    fn comparison(&mut self) -> Option<Comparison> {
        // Longer operators first, since some begin like shorter ones.
        let comparison = if self.eat(b">=") {
            Comparison::Ordered(&[Ordering::Greater, Ordering::Equal])
        } else if self.eat(b"<=") {
            Comparison::Ordered(&[Ordering::Less, Ordering::Equal])
        } else if self.eat(b"==") {
            Comparison::Equal
        } else if self.eat(b"!=") {
            Comparison::NotEqual
        } else if self.eat(b"=~") {
            Comparison::Matches(None)
        } else if self.eat(b">") {
            Comparison::Ordered(&[Ordering::Greater])
        } else if self.eat(b"<") {
            Comparison::Ordered(&[Ordering::Less])
        } else {
            return None;
        };
        Some(comparison)
    }

    fn term(&mut self) -> Result<Term<'a>, Failure> {
        let start = self.at;
        match self.peek() {
            Some(b'"' | b'\'') => self.quoted().map(Term::Text).ok_or((start, TERM)),
            Some(b'@') => self.term_path().map(Term::Current),
            Some(b'$') => self.term_path().map(Term::Root),
            Some(b'-' | b'0'..=b'9') => self.decimal().map(Term::Num).ok_or((start, TERM)),
            _ if self.eat(b"true") => Ok(Term::Bool(true)),
            _ if self.eat(b"false") => Ok(Term::Bool(false)),
            _ if self.eat(b"null") => Ok(Term::Null),
            _ => Err((start, TERM)),
        }
    }

    fn term_path(&mut self) -> Result<Steps<'a>, Failure> {
        self.at += 1;
        let mut steps = Steps::new();
        self.steps(&mut steps)?;
        Ok(steps)
    }

    fn decimal(&mut self) -> Option<Num> {
        let start = self.at;
        self.eat(b"-");
        match self.peek()? {
            b'0' => self.at += 1,
            b'1'..=b'9' => {
                while matches!(self.peek(), Some(b'0'..=b'9')) {
                    self.at += 1;
                }
            }
            _ => return None,
        }
        let mut end = self.at;
        if self.eat(b".") {
            while matches!(self.peek(), Some(b'0'..=b'9')) {
                self.at += 1;
                end = self.at;
            }
            self.at = end;
        }
        let text = std::str::from_utf8(&self.text[start..end]).ok()?;
        if let Ok(value) = text.parse::<i64>() {
            return Some(Num::Int(value));
        }
        text.parse::<f64>().ok().filter(|value| value.is_finite()).map(Num::Float)
    }
}

fn regex(term: &Term<'_>) -> Option<Box<regex::bytes::Regex>> {
    let Term::Text(text) = term else { return None };
    let text = std::str::from_utf8(text).ok()?;
    regex::bytes::RegexBuilder::new(text)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build()
        .ok()
        .map(Box::new)
}
