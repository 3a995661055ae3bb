// SPDX-License-Identifier: BSD-3-Clause
//! Members of an attribute: one pass over a JSON object that reads the values of wanted members
//! and skips all others. A text that is no object has no members; what follows the last wanted
//! member is not looked at.

use std::borrow::Cow;

use super::Value;

/// What a member is.
#[derive(Clone, Debug, PartialEq)]
pub enum Found<'a> {
    Value(Value<'a>),
    /// A value that filters do not know: an object, or a list with one.
    Other,
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

/// One member; what [`members`] would find, whatever other members it were asked for.
pub fn member<'a>(text: &'a [u8], name: &[u8]) -> Option<Found<'a>> {
    let mut found = [None];
    members(text, &[name], &mut found);
    let [found] = found;
    found
}

/// Reads the named members into `found`; false if one is missing.
pub(super) fn members<'a>(
    text: &'a [u8],
    names: &[impl AsRef<[u8]>],
    found: &mut [Option<Found<'a>>],
) -> bool {
    let mut reader = Reader { text, at: 0 };
    reader.object(names, found).unwrap_or(false)
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn object(&mut self, names: &[impl AsRef<[u8]>], found: &mut [Option<Found<'a>>]) -> Option<bool> {
        let mut missing = names.len();
        self.expect(b'{')?;
        if self.peek()? == b'}' {
            return Some(false);
        }
        loop {
            self.peek()?;
            let name = self.string()?;
            self.expect(b':')?;
            match names.iter().position(|wanted| *wanted.as_ref() == *name) {
                Some(number) if found[number].is_none() => {
                    found[number] = Some(self.value()?);
                    missing -= 1;
                    if missing == 0 {
                        return Some(true);
                    }
                }
                _ => self.skip()?,
            }
            match self.peek()? {
                b',' => self.at += 1,
                _ => return Some(false),
            }
        }
    }

    fn value(&mut self) -> Option<Found<'a>> {
        match self.peek()? {
            b'[' => self.list(),
            b'{' => {
                self.skip()?;
                Some(Found::Other)
            }
            _ => self.scalar().map(Found::Value),
        }
    }

    fn scalar(&mut self) -> Option<Value<'a>> {
        match self.peek()? {
            b'"' => self.string().map(Value::Text),
            b't' => self.word(b"true", Value::Number(1.0)),
            b'f' => self.word(b"false", Value::Number(0.0)),
            b'n' => self.word(b"null", Value::Null),
            _ => {
                let from = self.at;
                while self.text.get(self.at).is_some_and(|byte| b"+-.eE0123456789".contains(byte)) {
                    self.at += 1;
                }
                let text = std::str::from_utf8(&self.text[from..self.at]).ok()?;
                text.parse().ok().filter(|_| self.is_at_end_of_word()).map(Value::Number)
            }
        }
    }

    fn word(&mut self, word: &[u8], value: Value<'a>) -> Option<Value<'a>> {
        let is_there = self.text[self.at..].starts_with(word);
        self.at += if is_there { word.len() } else { 0 };
        (is_there && self.is_at_end_of_word()).then_some(value)
    }

    /// False within what [`Reader::skip`] skips as one word: whether a member is found must not
    /// depend on whether those before it are read or skipped.
    fn is_at_end_of_word(&self) -> bool {
        let next = self.text.get(self.at);
        next.is_none_or(|byte| byte.is_ascii_whitespace() || b"\",:{}[]".contains(byte))
    }

    fn list(&mut self) -> Option<Found<'a>> {
        let from = self.at;
        let mut items = Vec::new();
        self.at += 1;
        while self.peek()? != b']' {
            if matches!(self.peek()?, b'[' | b'{') {
                self.at = from;
                self.skip()?;
                return Some(Found::Other);
            }
            items.push(self.scalar()?);
            match self.peek()? {
                b',' => self.at += 1,
                b']' => {}
                _ => return None,
            }
        }
        self.at += 1;
        Some(Found::Value(Value::List(items)))
    }

    /// A string, without its quotes; copied only if it has escapes.
    fn string(&mut self) -> Option<Cow<'a, [u8]>> {
        if self.text.get(self.at) != Some(&b'"') {
            return None;
        }
        self.at += 1;
        let from = self.at;
        let end = from + self.text[from..].iter().position(|&byte| byte == b'"' || byte == b'\\')?;
        self.at = end;
        if self.text[end] == b'"' {
            self.at += 1;
            return Some(Cow::Borrowed(&self.text[from..end]));
        }
        let mut out = self.text[from..end].to_vec();
        loop {
            match *self.text.get(self.at)? {
                b'"' => break,
                b'\\' => self.escape(&mut out)?,
                byte => {
                    out.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        Some(Cow::Owned(out))
    }

    fn escape(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let kind = *self.text.get(self.at + 1)?;
        self.at += 2;
        let byte = match kind {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'b' => 8,
            b'f' => 12,
            b'u' => {
                let mut code = self.unit()?;
                if (0xd800..0xdc00).contains(&code) && self.text[self.at..].starts_with(b"\\u") {
                    self.at += 2;
                    let low = self.unit()?;
                    code = 0x1_0000 + ((code - 0xd800) << 10) + low.wrapping_sub(0xdc00) % 0x400;
                }
                let character = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Some(());
            }
            other => other,
        };
        out.push(byte);
        Some(())
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        std::str::from_utf8(digits).ok().and_then(|digits| u32::from_str_radix(digits, 16).ok())
    }

    /// Skips a value of any kind, however deep.
    fn skip(&mut self) -> Option<()> {
        let mut depth = 0usize;
        loop {
            match self.peek()? {
                b'"' => _ = self.string()?,
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                    continue;
                }
                b'}' | b']' => {
                    depth = depth.checked_sub(1)?;
                    self.at += 1;
                }
                b',' | b':' if depth > 0 => {
                    self.at += 1;
                    continue;
                }
                _ => {
                    let from = self.at;
                    while self.text.get(self.at).is_some_and(|byte| !b"\",:{}[] \t\r\n".contains(byte)) {
                        self.at += 1;
                    }
                    if self.at == from {
                        return None;
                    }
                }
            }
            if depth == 0 {
                return Some(());
            }
        }
    }
}
