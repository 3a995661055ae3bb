// SPDX-License-Identifier: BSD-3-Clause
//! `cjson`: JSON.

pub(crate) mod settings;

use std::ffi::c_int;

use super::number::push_general;
use super::{push_functions, set_texts};
use crate::interrupt::poll;
use crate::lua::{Lua, LuaType, Raise, function};
use crate::shared::Shared;
use settings::{Invalid, Settings};

pub(crate) fn push(lua: Lua<'_>, shared: *mut Shared) {
    push_functions(
        lua,
        shared,
        &[
            ("encode", function!(encode)),
            ("decode", function!(decode)),
            ("encode_sparse_array", function!(encode_sparse_array)),
            ("encode_max_depth", function!(encode_max_depth)),
            ("decode_max_depth", function!(decode_max_depth)),
            ("encode_number_precision", function!(encode_number_precision)),
            ("encode_keep_buffer", function!(encode_keep_buffer)),
            ("encode_invalid_numbers", function!(encode_invalid_numbers)),
            ("decode_invalid_numbers", function!(decode_invalid_numbers)),
            ("new", function!(new)),
        ],
    );
    lua.push_null();
    lua.raw_set_field(-3, "null");
    set_texts(lua, &[("_NAME", "cjson"), ("_VERSION", "2.1.0")]);
}

fn new(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    push(lua, shared);
    Ok(1)
}

// Settings.

fn arguments(lua: Lua<'_>, count: c_int) -> Result<(), Raise> {
    if lua.top() > count {
        return Err(Raise::argument(count + 1, "found too many arguments"));
    }
    lua.set_top(count);
    Ok(())
}

fn integer_option(lua: Lua<'_>, index: c_int, setting: &mut i32, min: i32, max: i32) -> Result<(), Raise> {
    if lua.kind(index) != LuaType::Nil {
        let value = lua.check_integer(index)?;
        if value < i64::from(min) || value > i64::from(max) {
            return Err(Raise::argument(1, format!("expected integer between {min} and {max}")));
        }
        *setting = value as i32;
    }
    lua.push_number(f64::from(*setting));
    Ok(())
}

fn boolean_option(lua: Lua<'_>, index: c_int, setting: &mut bool) -> Result<(), Raise> {
    match lua.kind(index) {
        LuaType::Nil => {}
        LuaType::Boolean => *setting = lua.boolean(index),
        _ => {
            *setting = match lua.check_text(index)? {
                b"on" => true,
                b"off" => false,
                other => return Err(invalid_option(index, other)),
            }
        }
    }
    lua.push_boolean(*setting);
    Ok(())
}

fn invalid_option(index: c_int, given: &[u8]) -> Raise {
    Raise::argument(index, [b"invalid option '", given, b"'"].concat())
}

fn encode_sparse_array(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    arguments(lua, 3)?;
    boolean_option(lua, 1, &mut shared.json.sparse_convert)?;
    integer_option(lua, 2, &mut shared.json.sparse_ratio, 0, i32::MAX)?;
    integer_option(lua, 3, &mut shared.json.sparse_safe, 0, i32::MAX)?;
    Ok(3)
}

fn encode_max_depth(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    arguments(lua, 1)?;
    integer_option(lua, 1, &mut shared.json.encode_depth_max, 1, i32::MAX)?;
    Ok(1)
}

fn decode_max_depth(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    arguments(lua, 1)?;
    integer_option(lua, 1, &mut shared.json.decode_depth_max, 1, i32::MAX)?;
    Ok(1)
}

fn encode_number_precision(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    arguments(lua, 1)?;
    integer_option(lua, 1, &mut shared.json.precision, 1, 14)?;
    Ok(1)
}

fn encode_keep_buffer(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    arguments(lua, 1)?;
    boolean_option(lua, 1, &mut shared.json.keep_buffer)?;
    Ok(1)
}

fn encode_invalid_numbers(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    arguments(lua, 1)?;
    let setting = &mut shared.json.encode_invalid;
    match lua.kind(1) {
        LuaType::Nil => {}
        LuaType::Boolean => *setting = if lua.boolean(1) { Invalid::Write } else { Invalid::Refuse },
        _ => {
            *setting = match lua.check_text(1)? {
                b"off" => Invalid::Refuse,
                b"on" => Invalid::Write,
                b"null" => Invalid::Null,
                other => return Err(invalid_option(1, other)),
            }
        }
    }
    match *setting {
        Invalid::Null => lua.push_string(b"null"),
        other => lua.push_boolean(other == Invalid::Write),
    }
    Ok(1)
}

fn decode_invalid_numbers(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    arguments(lua, 1)?;
    boolean_option(lua, 1, &mut shared.json.decode_invalid)?;
    Ok(1)
}

// Writing.

/// Maximum nesting for the thread's stack, whatever a script configures.
const DEPTH_LIMIT: i32 = 2000;

struct Encoder<'l, 's> {
    lua: Lua<'l>,
    shared: &'s mut Shared,
    settings: Settings,
    out: Vec<u8>,
}

fn encode(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    if lua.top() != 1 {
        return Err(Raise::argument(1, "expected 1 argument"));
    }
    let settings = shared.json;
    let mut encoder = Encoder { lua, shared, settings, out: Vec::new() };
    encoder.value(0)?;
    lua.push_string(&encoder.out);
    Ok(1)
}

impl Encoder<'_, '_> {
    fn refuse(&self, index: c_int, reason: &str) -> Raise {
        Raise::text(format!("Cannot serialise {}: {reason}", self.lua.kind_name(index)))
    }

    /// Writes the value on top.
    fn value(&mut self, depth: i32) -> Result<(), Raise> {
        poll(self.lua, self.shared)?;
        self.lua.check_memory(self.out.len() + self.lua.string(-1).map_or(0, <[u8]>::len))?;
        match self.lua.kind(-1) {
            LuaType::String => self.string(self.lua.string(-1).unwrap_or_default()),
            LuaType::Number => self.number(-1)?,
            LuaType::Boolean => {
                self.out.extend_from_slice(if self.lua.boolean(-1) { b"true" } else { b"false" })
            }
            LuaType::Nil => self.out.extend_from_slice(b"null"),
            LuaType::LightUserdata if self.lua.light_userdata(-1).is_null() => {
                self.out.extend_from_slice(b"null")
            }
            LuaType::Table => {
                let depth = depth + 1;
                if depth > self.settings.encode_depth_max.min(DEPTH_LIMIT) || !self.lua.has_room(6) {
                    return Err(Raise::text(format!("Cannot serialise, excessive nesting ({depth})")));
                }
                match self.array_len()? {
                    Some(len) => self.array(len, depth)?,
                    None => self.object(depth)?,
                }
            }
            _ => return Err(self.refuse(-1, "type not supported")),
        }
        Ok(())
    }

    fn string(&mut self, text: &[u8]) {
        self.out.reserve(text.len() + 2);
        self.out.push(b'"');
        for &byte in text {
            let escape: &[u8] = match byte {
                b'"' => b"\\\"",
                b'\\' => b"\\\\",
                b'/' => b"\\/",
                8 => b"\\b",
                b'\t' => b"\\t",
                b'\n' => b"\\n",
                12 => b"\\f",
                b'\r' => b"\\r",
                0..32 | 127 => {
                    const HEX: &[u8; 16] = b"0123456789abcdef";
                    let digits = [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]];
                    self.out.extend_from_slice(b"\\u00");
                    self.out.extend_from_slice(&digits);
                    continue;
                }
                _ => {
                    self.out.push(byte);
                    continue;
                }
            };
            self.out.extend_from_slice(escape);
        }
        self.out.push(b'"');
    }

    fn number(&mut self, index: c_int) -> Result<(), Raise> {
        let number = self.lua.number(index).unwrap_or_default();
        if !number.is_finite() {
            match self.settings.encode_invalid {
                Invalid::Refuse => return Err(self.refuse(index, "must not be NaN or Inf")),
                Invalid::Null => self.out.extend_from_slice(b"null"),
                Invalid::Write if number.is_nan() => self.out.extend_from_slice(b"nan"),
                Invalid::Write => push_general(&mut self.out, number, 14),
            }
            return Ok(());
        }
        push_general(&mut self.out, number, self.settings.precision as usize);
        Ok(())
    }

    /// The largest index if the table on top is an array; `None` if it is an object (or empty).
    fn array_len(&self) -> Result<Option<c_int>, Raise> {
        let (mut max, mut items) = (0i32, 0i64);
        self.lua.push_nil();
        while self.lua.next(-2) {
            let whole = |key: &f64| *key >= 1.0 && *key <= f64::from(i32::MAX) && key.trunc() == *key;
            let Some(key) = self.lua.number(-2).filter(whole) else {
                self.lua.pop(2);
                return Ok(None);
            };
            max = max.max(key as i32);
            items += 1;
            self.lua.pop(1);
        }
        let (ratio, safe) = (i64::from(self.settings.sparse_ratio), self.settings.sparse_safe);
        if ratio > 0 && i64::from(max) > items.saturating_mul(ratio) && max > safe {
            if !self.settings.sparse_convert {
                return Err(self.refuse(-1, "excessively sparse array"));
            }
            return Ok(None);
        }
        Ok((max > 0).then_some(max))
    }

    fn array(&mut self, len: c_int, depth: i32) -> Result<(), Raise> {
        self.out.push(b'[');
        for index in 1..=len {
            if index > 1 {
                self.out.push(b',');
            }
            self.lua.raw_get_index(-1, index);
            self.value(depth)?;
            self.lua.pop(1);
        }
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, depth: i32) -> Result<(), Raise> {
        self.out.push(b'{');
        let mut first = true;
        self.lua.push_nil();
        while self.lua.next(-2) {
            if !std::mem::take(&mut first) {
                self.out.push(b',');
            }
            match self.lua.kind(-2) {
                LuaType::Number => {
                    self.out.push(b'"');
                    self.number(-2)?;
                    self.out.push(b'"');
                }
                LuaType::String => self.string(self.lua.string(-2).unwrap_or_default()),
                _ => return Err(self.refuse(-2, "table key must be a number or string")),
            }
            self.out.push(b':');
            self.value(depth)?;
            self.lua.pop(1);
        }
        self.out.push(b'}');
        Ok(())
    }
}

// Reading.

/// The next token of the text.
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// The text is in [`Decoder::text`].
    String,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::String => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Error(text) => text,
        }
    }
}

struct Decoder<'l, 's> {
    lua: Lua<'l>,
    shared: &'s mut Shared,
    settings: Settings,
    data: &'l [u8],
    at: usize,
    /// Start of the current token, or its error.
    token_at: usize,
    text: Vec<u8>,
    depth: i32,
}

fn decode(lua: Lua<'_>, shared: &mut Shared) -> Result<c_int, Raise> {
    if lua.top() != 1 {
        return Err(Raise::argument(1, "expected 1 argument"));
    }
    let data = lua.check_text(1)?;
    if data.len() >= 2 && (data[0] == 0 || data[1] == 0) {
        return Err(Raise::text("JSON parser does not support UTF-16 or UTF-32"));
    }
    let settings = shared.json;
    let mut decoder = Decoder { lua, shared, settings, data, at: 0, token_at: 0, text: Vec::new(), depth: 0 };
    let token = decoder.next();
    decoder.value(token)?;
    match decoder.next() {
        Token::End => Ok(1),
        token => Err(decoder.expected("the end", &token)),
    }
}

impl Decoder<'_, '_> {
    fn expected(&self, what: &str, found: &Token) -> Raise {
        let (found, at) = (found.name(), self.token_at + 1);
        Raise::text(format!("Expected {what} but found {found} at character {at}"))
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.data.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn error(&mut self, text: &'static str) -> Token {
        self.token_at = self.at;
        Token::Error(text)
    }

    fn next(&mut self) -> Token {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.token_at = self.at;
        let single = match self.peek(0) {
            // A NUL ends the text anywhere.
            0 => return Token::End,
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => {
                return if !self.settings.decode_invalid && self.is_invalid_number() {
                    self.error("invalid number")
                } else {
                    self.number()
                };
            }
            b'f' | b'i' | b'I' | b'n' | b'N' | b't' | b'+' => return self.word(),
            _ => return self.error("invalid token"),
        };
        self.at += 1;
        single
    }

    fn word(&mut self) -> Token {
        let rest = &self.data[self.at..];
        for (word, token) in
            [("true", Token::Boolean(true)), ("false", Token::Boolean(false)), ("null", Token::Null)]
        {
            if rest.starts_with(word.as_bytes()) {
                self.at += word.len();
                return token;
            }
        }
        if self.settings.decode_invalid && self.is_invalid_number() {
            return self.number();
        }
        self.error("invalid token")
    }

    /// True for numbers that C accepts but JSON does not.
    fn is_invalid_number(&self) -> bool {
        let rest = &self.data[self.at..];
        if rest.first() == Some(&b'+') {
            return true;
        }
        let rest = rest.strip_prefix(b"-").unwrap_or(rest);
        let begins = |word: &[u8]| rest.len() >= 3 && rest[..3].eq_ignore_ascii_case(word);
        match rest {
            [b'0', second, ..] => matches!(second | 0x20, b'x') || second.is_ascii_digit(),
            [first, ..] if *first <= b'9' => false,
            _ => begins(b"inf") || begins(b"nan"),
        }
    }

    /// The longest prefix that C's `strtod` accepts.
    fn number(&mut self) -> Token {
        let rest = &self.data[self.at..];
        match read_number(rest) {
            Some((number, len)) => {
                self.at += len;
                Token::Number(number)
            }
            None => self.error("invalid number"),
        }
    }

    fn string(&mut self) -> Token {
        self.at += 1;
        self.text.clear();
        loop {
            match self.peek(0) {
                b'"' => {
                    self.at += 1;
                    return Token::String;
                }
                0 => return self.error("unexpected end of string"),
                b'\\' => {
                    let unescaped = match self.peek(1) {
                        escaped @ (b'"' | b'\\' | b'/') => escaped,
                        b'b' => 8,
                        b't' => b'\t',
                        b'n' => b'\n',
                        b'f' => 12,
                        b'r' => b'\r',
                        b'u' => match self.unicode() {
                            Some((character, len)) => {
                                let mut utf8 = [0; 4];
                                self.text.extend_from_slice(character.encode_utf8(&mut utf8).as_bytes());
                                self.at += len;
                                continue;
                            }
                            None => return self.error("invalid unicode escape code"),
                        },
                        _ => return self.error("invalid escape code"),
                    };
                    self.text.push(unescaped);
                    self.at += 2;
                }
                byte => {
                    self.text.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    /// The character of a `\uXXXX` escape here, or of a surrogate pair of them, and its length.
    fn unicode(&self) -> Option<(char, usize)> {
        let unit = |from: usize| {
            let digits = self.data.get(self.at + from..self.at + from + 4)?;
            let digit = |value: u32, digit: &u8| Some(value << 4 | (*digit as char).to_digit(16)?);
            digits.iter().try_fold(0, digit)
        };
        let first = unit(2)?;
        if first & 0xf800 != 0xd800 {
            return Some((char::from_u32(first)?, 6));
        }
        if first & 0x400 != 0 || self.peek(6) != b'\\' || self.peek(7) != b'u' {
            return None;
        }
        let second = unit(8).filter(|second| second & 0xfc00 == 0xdc00)?;
        Some((char::from_u32(((first & 0x3ff) << 10 | second & 0x3ff) + 0x1_0000)?, 12))
    }

    fn descend(&mut self) -> Result<(), Raise> {
        self.depth += 1;
        if self.depth <= self.settings.decode_depth_max.min(DEPTH_LIMIT) && self.lua.has_room(6) {
            return Ok(());
        }
        let (depth, at) = (self.depth, self.at);
        Err(Raise::text(format!("Found too many nested data structures ({depth}) at character {at}")))
    }

    /// Pushes the value that starts with a token.
    fn value(&mut self, token: Token) -> Result<(), Raise> {
        poll(self.lua, self.shared)?;
        self.lua.check_memory(0)?;
        match token {
            Token::String => self.lua.push_string(&self.text),
            Token::Number(number) => self.lua.push_number(number),
            Token::Boolean(value) => self.lua.push_boolean(value),
            Token::Null => self.lua.push_null(),
            Token::ObjectBegin => return self.object(),
            Token::ArrayBegin => return self.array(),
            token => return Err(self.expected("value", &token)),
        }
        Ok(())
    }

    fn object(&mut self) -> Result<(), Raise> {
        self.descend()?;
        self.lua.push_table(0, 0);
        let mut token = self.next();
        if matches!(token, Token::ObjectEnd) {
            self.depth -= 1;
            return Ok(());
        }
        loop {
            if !matches!(token, Token::String) {
                return Err(self.expected("object key string", &token));
            }
            self.lua.push_string(&self.text);
            token = self.next();
            if !matches!(token, Token::Colon) {
                return Err(self.expected("colon", &token));
            }
            token = self.next();
            self.value(token)?;
            self.lua.raw_set(-3);
            match self.next() {
                Token::ObjectEnd => break,
                Token::Comma => token = self.next(),
                token => return Err(self.expected("comma or object end", &token)),
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn array(&mut self) -> Result<(), Raise> {
        self.descend()?;
        self.lua.push_table(0, 0);
        let mut token = self.next();
        if matches!(token, Token::ArrayEnd) {
            self.depth -= 1;
            return Ok(());
        }
        for index in 1.. {
            self.value(token)?;
            self.lua.raw_set_index(-2, index);
            match self.next() {
                Token::ArrayEnd => break,
                Token::Comma => token = self.next(),
                token => return Err(self.expected("comma or array end", &token)),
            }
        }
        self.depth -= 1;
        Ok(())
    }
}

/// The number at the start of `text`, as C's `strtod` reads it, and its length.
fn read_number(text: &[u8]) -> Option<(f64, usize)> {
    let signed = usize::from(matches!(text.first(), Some(b'-' | b'+')));
    let negative = text.first() == Some(&b'-');
    let rest = &text[signed..];
    let begins = |word: &[u8]| rest.len() >= word.len() && rest[..word.len()].eq_ignore_ascii_case(word);
    let sign = |number: f64| if negative { -number } else { number };
    for (word, number) in [(&b"infinity"[..], f64::INFINITY), (b"inf", f64::INFINITY), (b"nan", f64::NAN)] {
        if begins(word) {
            return Some((sign(number), signed + word.len()));
        }
    }
    let is_hexadecimal = begins(b"0x")
        && match rest.get(2) {
            Some(b'.') => rest.get(3).is_some_and(u8::is_ascii_hexdigit),
            digit => digit.is_some_and(u8::is_ascii_hexdigit),
        };
    let is_digit = if is_hexadecimal { u8::is_ascii_hexdigit } else { u8::is_ascii_digit };
    let count = |from: usize| rest[from.min(rest.len())..].iter().take_while(|byte| is_digit(byte)).count();
    let start = if is_hexadecimal { 2 } else { 0 };
    let whole = count(start);
    let mut end = start + whole;
    let mut fraction = 0;
    if rest.get(end) == Some(&b'.') {
        fraction = count(end + 1);
        if whole + fraction > 0 {
            end += 1 + fraction;
        }
    }
    if whole + fraction == 0 {
        return None;
    }
    let mantissa_end = end;
    let marker = if is_hexadecimal { b'p' } else { b'e' };
    let mut exponent = 0i32;
    if rest.get(end).is_some_and(|byte| byte | 0x20 == marker) {
        let sign = usize::from(matches!(rest.get(end + 1), Some(b'-' | b'+')));
        let digits =
            rest[(end + 1 + sign).min(rest.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits > 0 {
            let text = &rest[end + 1 + sign..end + 1 + sign + digits];
            exponent = text.iter().fold(0i32, |all, digit| {
                all.saturating_mul(10).saturating_add(i32::from(digit - b'0')).min(100_000)
            });
            if rest[end + 1] == b'-' {
                exponent = -exponent;
            }
            end += 1 + sign + digits;
        }
    }
    let number = if is_hexadecimal {
        let mut number = 0f64;
        let mut scale = exponent;
        let mut point = false;
        for &byte in &rest[2..mantissa_end] {
            if byte == b'.' {
                point = true;
            } else {
                number = number * 16.0 + f64::from((byte as char).to_digit(16).unwrap_or(0));
                scale -= if point { 4 } else { 0 };
            }
        }
        number * 2f64.powi(scale)
    } else {
        std::str::from_utf8(&rest[..end]).ok()?.parse().ok()?
    };
    Some((sign(number), signed + end))
}

#[cfg(test)]
mod tests {
    use super::read_number;

    #[test]
    fn numbers_as_c_reads_them() {
        for (text, number, len) in [
            ("12,", 12.0, 2),
            ("-0.5e3]", -500.0, 6),
            ("1e", 1.0, 1),
            ("1e+x", 1.0, 1),
            (".5", 0.5, 2),
            ("5.", 5.0, 2),
            ("0x1F", 31.0, 4),
            ("0x.8p1", 1.0, 6),
            ("-inf", f64::NEG_INFINITY, 4),
            ("infinity", f64::INFINITY, 8),
            ("1e999", f64::INFINITY, 5),
        ] {
            assert_eq!(read_number(text.as_bytes()), Some((number, len)), "{text}");
        }
        assert_eq!(read_number(b"-"), None);
        assert_eq!(read_number(b"."), None);
        assert_eq!(read_number(b"-x"), None);
    }
}
