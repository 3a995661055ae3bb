// SPDX-License-Identifier: BSD-3-Clause
//! Parses JSON text into packed bytes, with Redis Stack's messages: those of the serde_json crate,
//! which name the line and column.
//!
//! Integers stay integers as far as 64 bits hold them; all other numbers become the nearest f64.
//! Nesting is limited to [`DEPTH_MAX`] levels, so the recursion here and in all readers is bounded.
//! Text behind the value is not looked at, as in Redis Stack.

use std::fmt;

use super::builder::Builder;
use super::floats::FloatType;
use super::number::Num;

/// Levels of nesting that a text may have, one more than in a document.
const DEPTH_MAX: u32 = 128;

/// Why a text is not a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    what: &'static str,
    line: usize,
    column: usize,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at line {} column {}", self.what, self.line, self.column)
    }
}

const EOF_LIST: &str = "EOF while parsing a list";
const EOF_OBJECT: &str = "EOF while parsing an object";
const EOF_STRING: &str = "EOF while parsing a string";
const EOF_VALUE: &str = "EOF while parsing a value";
const COLON: &str = "expected `:`";
const COMMA_OR_LIST_END: &str = "expected `,` or `]`";
const COMMA_OR_OBJECT_END: &str = "expected `,` or `}`";
const IDENTIFIER: &str = "expected ident";
const VALUE: &str = "expected value";
const ESCAPE: &str = "invalid escape";
const NUMBER: &str = "invalid number";
const RANGE: &str = "number out of range";
const CONTROL: &str = "control character (\\u0000-\\u001F) found while parsing a string";
const NAME: &str = "key must be a string";
const LONE: &str = "lone leading surrogate in hex escape";
const TRAILING_COMMA: &str = "trailing comma";
const TRAILING: &str = "trailing characters";
const HEX_END: &str = "unexpected end of hex escape";
const DEPTH: &str = "recursion limit exceeded";

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
    /// Strings with escapes, decoded.
    scratch: Vec<u8>,
    out: Builder,
    /// What numbers of arrays that have nothing else become.
    floats: Option<FloatType>,
}

/// Parses a text, which is valid UTF-8.
///
/// # Errors
/// The first place where the text is not JSON, or is nested too deeply.
pub fn parse(text: &str) -> Result<Vec<u8>, SyntaxError> {
    parse_with(text, None)
}

/// [`parse`]; the numbers of each array that consists of numbers become ones of the given type.
///
/// # Errors
/// As [`parse`]; and behind a number that is too large for the type.
pub fn parse_with(text: &str, floats: Option<FloatType>) -> Result<Vec<u8>, SyntaxError> {
    let out = Builder::with_capacity(text.len() + 8);
    let mut parser = Parser { out, floats, ..Parser::new(text) };
    parser.value()?;
    Ok(parser.out.finish())
}

/// The error for text behind the value: for JSON.ARRINDEX, which refuses it.
pub fn trailing(text: &str) -> Option<SyntaxError> {
    let mut parser = Parser::new(text);
    parser.value().ok()?;
    parser.skip_space().map(|_| parser.peek_error(TRAILING))
}

/// Bytes that end the plain part of a string.
static SPECIAL: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table
};

/// Length of the plain part at the beginning of a string: no quote, backslash or control character.
#[inline]
pub fn plain_len(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x8080_8080_8080_8080;
    let zero = |word: u64| word.wrapping_sub(ONES) & !word & HIGHS;
    let mut at = 0;
    while let Some(chunk) = text.get(at..at + 8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let found = control | zero(word ^ (ONES * 0x22)) | zero(word ^ (ONES * 0x5c));
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < text.len() && !SPECIAL[usize::from(text[at])] {
        at += 1;
    }
    at
}

impl Parser<'_> {
    fn new(text: &str) -> Parser<'_> {
        Parser {
            text: text.as_bytes(),
            at: 0,
            depth: DEPTH_MAX,
            scratch: Vec::new(),
            out: Builder::default(),
            floats: None,
        }
    }

    fn error_at(&self, what: &'static str, index: usize) -> SyntaxError {
        let (mut line, mut column) = (1, 0);
        for &byte in &self.text[..index.min(self.text.len())] {
            if byte == b'\n' {
                (line, column) = (line + 1, 0);
            } else {
                column += 1;
            }
        }
        SyntaxError { what, line, column }
    }

    /// An error at the last byte read.
    #[cold]
    fn error(&self, what: &'static str) -> SyntaxError {
        self.error_at(what, self.at)
    }

    /// An error at the byte that would be read next.
    #[cold]
    fn peek_error(&self, what: &'static str) -> SyntaxError {
        self.error_at(what, self.at + 1)
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    fn skip_space(&mut self) -> Option<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.at += 1,
                other => return other,
            }
        }
    }

    fn value(&mut self) -> Result<(), SyntaxError> {
        match self.skip_space() {
            None => Err(self.peek_error(EOF_VALUE)),
            Some(b'"') => {
                self.at += 1;
                self.string(false)
            }
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'-') => {
                self.at += 1;
                self.number(true)
            }
            Some(b'0'..=b'9') => self.number(false),
            Some(b'n') => self.identifier(b"null").map(|()| self.out.null()),
            Some(b't') => self.identifier(b"true").map(|()| self.out.boolean(true)),
            Some(b'f') => self.identifier(b"false").map(|()| self.out.boolean(false)),
            Some(_) => Err(self.peek_error(VALUE)),
        }
    }

    fn identifier(&mut self, word: &[u8]) -> Result<(), SyntaxError> {
        self.at += 1;
        for &wanted in &word[1..] {
            match self.peek() {
                None => return Err(self.error(EOF_VALUE)),
                Some(found) => {
                    self.at += 1;
                    if found != wanted {
                        return Err(self.error(IDENTIFIER));
                    }
                }
            }
        }
        Ok(())
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<(), SyntaxError>) -> Result<(), SyntaxError> {
        self.depth -= 1;
        if self.depth == 0 {
            return Err(self.peek_error(DEPTH));
        }
        self.at += 1;
        read(self)?;
        self.depth += 1;
        Ok(())
    }

    fn array(&mut self) -> Result<(), SyntaxError> {
        self.out.begin_array();
        let mut is_first = true;
        // Where each element ends, if that may have to be known.
        let mut ends = Vec::new();
        loop {
            match self.skip_space() {
                Some(b']') => break,
                Some(b',') if !is_first => {
                    self.at += 1;
                    match self.skip_space() {
                        Some(b']') => return Err(self.peek_error(TRAILING_COMMA)),
                        Some(_) => {}
                        None => return Err(self.peek_error(EOF_VALUE)),
                    }
                }
                Some(_) if is_first => {}
                Some(_) => return Err(self.peek_error(COMMA_OR_LIST_END)),
                None => return Err(self.peek_error(EOF_LIST)),
            }
            is_first = false;
            self.value()?;
            if self.floats.is_some() {
                ends.push(self.at);
            }
        }
        self.at += 1;
        let Some(kind) = self.floats else {
            self.out.end();
            return Ok(());
        };
        let ended = self.out.end_array_of(kind);
        ended.map_err(|index| self.error_at(kind.out_of_range(), ends[index] + 1))
    }

    fn object(&mut self) -> Result<(), SyntaxError> {
        self.out.begin_object();
        let mut is_first = true;
        loop {
            let next = match self.skip_space() {
                Some(b'}') => break,
                Some(b',') if !is_first => {
                    self.at += 1;
                    self.skip_space()
                }
                Some(byte) if is_first => Some(byte),
                Some(_) => return Err(self.peek_error(COMMA_OR_OBJECT_END)),
                None => return Err(self.peek_error(EOF_OBJECT)),
            };
            is_first = false;
            match next {
                Some(b'"') => self.at += 1,
                Some(b'}') => return Err(self.peek_error(TRAILING_COMMA)),
                Some(_) => return Err(self.peek_error(NAME)),
                None => return Err(self.peek_error(EOF_VALUE)),
            }
            self.string(true)?;
            match self.skip_space() {
                Some(b':') => self.at += 1,
                Some(_) => return Err(self.peek_error(COLON)),
                None => return Err(self.peek_error(EOF_OBJECT)),
            }
            self.value()?;
        }
        self.at += 1;
        self.out.end();
        Ok(())
    }

    /// A string behind its quote: a value, or a name of a member.
    #[inline]
    fn string(&mut self, is_name: bool) -> Result<(), SyntaxError> {
        let start = self.at;
        let text = self.text;
        let len = plain_len(&text[start..]);
        self.at += len;
        if self.peek() == Some(b'"') {
            self.at += 1;
            self.push_string(&text[start..start + len], is_name);
            return Ok(());
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(&text[start..start + len]);
        self.escaped()?;
        let scratch = std::mem::take(&mut self.scratch);
        self.push_string(&scratch, is_name);
        self.scratch = scratch;
        Ok(())
    }

    fn push_string(&mut self, text: &[u8], is_name: bool) {
        if is_name { self.out.name(text) } else { self.out.string(text) }
    }

    /// The rest of a string from its first special byte on, into the scratch buffer.
    fn escaped(&mut self) -> Result<(), SyntaxError> {
        loop {
            match self.peek() {
                None => return Err(self.error(EOF_STRING)),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape()?;
                }
                Some(_) => {
                    self.at += 1;
                    return Err(self.error(CONTROL));
                }
            }
            let len = plain_len(&self.text[self.at..]);
            self.scratch.extend_from_slice(&self.text[self.at..self.at + len]);
            self.at += len;
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        let Some(byte) = self.peek() else { return Err(self.error(EOF_STRING)) };
        self.at += 1;
        let plain = match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.unicode(),
            _ => return Err(self.error(ESCAPE)),
        };
        self.scratch.push(plain);
        Ok(())
    }

    fn unicode(&mut self) -> Result<(), SyntaxError> {
        let first = self.hex()?;
        let code = match first {
            0xdc00..=0xdfff => return Err(self.error(LONE)),
            0xd800..=0xdbff => {
                for wanted in [b'\\', b'u'] {
                    match self.peek() {
                        None => return Err(self.error(EOF_STRING)),
                        Some(found) => {
                            self.at += 1;
                            if found != wanted {
                                return Err(self.error(HEX_END));
                            }
                        }
                    }
                }
                let second = self.hex()?;
                if !(0xdc00..=0xdfff).contains(&second) {
                    return Err(self.error(LONE));
                }
                0x1_0000 + ((first - 0xd800) << 10 | (second - 0xdc00))
            }
            _ => first,
        };
        let decoded = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
        self.scratch.extend_from_slice(decoded.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    fn hex(&mut self) -> Result<u32, SyntaxError> {
        let Some(digits) = self.text.get(self.at..self.at + 4) else {
            self.at = self.text.len();
            return Err(self.error(EOF_STRING));
        };
        self.at += 4;
        let value = digits
            .iter()
            .try_fold(0, |sum, &digit| char::from(digit).to_digit(16).map(|digit| sum * 16 + digit));
        value.ok_or_else(|| self.error(ESCAPE))
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    /// A number behind its minus sign, if it has one.
    fn number(&mut self, is_negative: bool) -> Result<(), SyntaxError> {
        let start = self.at - usize::from(is_negative);
        let first = self.at;
        match self.peek() {
            Some(b'0') => {
                self.at += 1;
                if matches!(self.peek(), Some(b'0'..=b'9')) {
                    return Err(self.peek_error(NUMBER));
                }
            }
            Some(b'1'..=b'9') => _ = self.digits(),
            Some(_) => {
                self.at += 1;
                return Err(self.error(NUMBER));
            }
            None => return Err(self.error(EOF_VALUE)),
        }
        let integer_end = self.at;
        let mut is_float = false;
        if self.peek() == Some(b'.') {
            is_float = true;
            self.at += 1;
            if self.digits() == 0 {
                let what = if self.peek().is_some() { NUMBER } else { EOF_VALUE };
                return Err(self.peek_error(what));
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            is_float = true;
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            match self.peek() {
                Some(b'0'..=b'9') => _ = self.digits(),
                Some(_) => {
                    self.at += 1;
                    return Err(self.error(NUMBER));
                }
                None => return Err(self.error(EOF_VALUE)),
            }
        }
        if !is_float && let Some(integer) = integer(&self.text[first..integer_end], is_negative) {
            self.out.number(integer);
            return Ok(());
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default();
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => self.out.number(Num::Float(value)),
            _ => return Err(self.error(RANGE)),
        }
        Ok(())
    }
}

/// An integer of these digits, if 64 bits hold it and it is not a negative zero.
#[inline]
fn integer(digits: &[u8], is_negative: bool) -> Option<Num> {
    if digits.len() > 20 {
        return None;
    }
    let magnitude = digits
        .iter()
        .try_fold(0_u64, |sum, &digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    match (is_negative, i64::try_from(magnitude)) {
        (true, Ok(0)) => None,
        (true, Ok(value)) => Some(Num::Int(-value)),
        (true, Err(_)) => (magnitude == 1 << 63).then_some(Num::Int(i64::MIN)),
        (false, Ok(value)) => Some(Num::Int(value)),
        (false, Err(_)) => Some(Num::Unsigned(magnitude)),
    }
}
