// SPDX-License-Identifier: BSD-3-Clause
//! A RESP reply as a value, RESP2 and RESP3 alike, and the parser that makes it from bytes.
//!
//! Texts of doubles, big numbers and errors stay bytes: how a server writes a number is part of what is
//! compared.

use crate::words;

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// `+OK`
    Simple(Vec<u8>),
    /// `-ERR ...` (and RESP3's bulk error `!`)
    Error(Vec<u8>),
    /// `:1`
    Integer(i64),
    /// `$3` and its bytes
    Bulk(Vec<u8>),
    /// `=`: bytes with a format of three letters in front
    Verbatim(Vec<u8>),
    /// `,1.5`, as written
    Double(Vec<u8>),
    /// `#t` or `#f`
    Boolean(bool),
    /// `(`, as written
    BigNumber(Vec<u8>),
    /// `_`
    Null,
    /// RESP2's `$-1`
    NullBulk,
    /// RESP2's `*-1`
    NullArray,
    /// `*`
    Array(Vec<Value>),
    /// `~`
    Set(Vec<Value>),
    /// `%`: key and value after each other
    Map(Vec<(Value, Value)>),
    /// `>`
    Push(Vec<Value>),
    /// `|`: the attributes, and the reply they belong to
    Attribute(Vec<(Value, Value)>, Box<Value>),
}

/// Why bytes are not a reply.
#[derive(Debug, PartialEq, Eq)]
pub enum ParseError {
    /// More bytes are needed.
    Incomplete,
    /// These bytes can never become a reply.
    Malformed(String),
}

impl Value {
    /// Reads one reply from the start of `bytes`; answers it and its length in bytes.
    pub fn parse(bytes: &[u8]) -> Result<(Value, usize), ParseError> {
        let mut reader = Reader { bytes, at: 0 };
        let value = reader.value(0)?;
        Ok((value, reader.at))
    }

    /// The bytes of a string of any kind or of an error.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Value::Simple(text) | Value::Error(text) | Value::Bulk(text) | Value::Double(text) => Some(text),
            Value::BigNumber(text) => Some(text),
            Value::Verbatim(text) => text.get(4..),
            _ => None,
        }
    }

    /// [`Value::bytes`] as text, for messages and asserts; empty for values without bytes.
    pub fn text(&self) -> String {
        self.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    }

    /// The number of an integer reply.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The elements of an array, set or push.
    pub fn elements(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) | Value::Set(items) | Value::Push(items) => Some(items),
            _ => None,
        }
    }

    /// Whether this is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Value::Error(_))
    }

    /// Whether this is a null of any kind.
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null | Value::NullBulk | Value::NullArray)
    }

    /// A bulk string, for comparing.
    pub fn bulk(text: impl AsRef<[u8]>) -> Value {
        Value::Bulk(text.as_ref().to_vec())
    }

    /// The reply `+OK`.
    pub fn ok() -> Value {
        Value::Simple(b"OK".to_vec())
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        fn list(out: &mut std::fmt::Formatter<'_>, name: &str, items: &[Value]) -> std::fmt::Result {
            write!(out, "{name}[")?;
            for (place, item) in items.iter().enumerate() {
                write!(out, "{}{item}", if place == 0 { "" } else { ", " })?;
            }
            write!(out, "]")
        }
        match self {
            Value::Simple(text) => write!(out, "+{}", words::line(&[text])),
            Value::Error(text) => write!(out, "(error) {}", String::from_utf8_lossy(text)),
            Value::Integer(number) => write!(out, "(integer) {number}"),
            Value::Bulk(text) => write!(out, "{}", words::quote(text)),
            Value::Verbatim(text) => write!(out, "(verbatim) {}", words::quote(text)),
            Value::Double(text) => write!(out, "(double) {}", String::from_utf8_lossy(text)),
            Value::Boolean(truth) => write!(out, "({truth})"),
            Value::BigNumber(text) => write!(out, "(big) {}", String::from_utf8_lossy(text)),
            Value::Null => write!(out, "(null)"),
            Value::NullBulk => write!(out, "(nil)"),
            Value::NullArray => write!(out, "(nil array)"),
            Value::Array(items) => list(out, "", items),
            Value::Set(items) => list(out, "set", items),
            Value::Push(items) => list(out, "push", items),
            Value::Map(pairs) | Value::Attribute(pairs, _) => {
                write!(out, "map{{")?;
                for (place, (key, value)) in pairs.iter().enumerate() {
                    write!(out, "{}{key}: {value}", if place == 0 { "" } else { ", " })?;
                }
                write!(out, "}}")?;
                if let Value::Attribute(_, reply) = self { write!(out, " {reply}") } else { Ok(()) }
            }
        }
    }
}

/// Deeper nesting than any server sends; a bound so that garbage cannot exhaust the stack.
const DEPTH_MAX: usize = 64;

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, ParseError> {
        if depth > DEPTH_MAX {
            return Err(ParseError::Malformed("nested too deeply".into()));
        }
        let kind = *self.bytes.get(self.at).ok_or(ParseError::Incomplete)?;
        self.at += 1;
        let line = self.line()?;
        Ok(match kind {
            b'+' => Value::Simple(line),
            b'-' => Value::Error(line),
            b':' => Value::Integer(number(&line)?),
            b',' => Value::Double(line),
            b'(' => Value::BigNumber(line),
            b'#' => match line.as_slice() {
                b"t" => Value::Boolean(true),
                b"f" => Value::Boolean(false),
                _ => return malformed("boolean", &line),
            },
            b'_' if line.is_empty() => Value::Null,
            b'$' if line == b"-1" => Value::NullBulk,
            b'*' if line == b"-1" => Value::NullArray,
            b'$' => Value::Bulk(self.bulk(&line)?),
            b'=' => Value::Verbatim(self.bulk(&line)?),
            b'!' => Value::Error(self.bulk(&line)?),
            b'*' => Value::Array(self.items(&line, depth)?),
            b'~' => Value::Set(self.items(&line, depth)?),
            b'>' => Value::Push(self.items(&line, depth)?),
            b'%' => Value::Map(self.pairs(&line, depth)?),
            b'|' => {
                let pairs = self.pairs(&line, depth)?;
                Value::Attribute(pairs, Box::new(self.value(depth + 1)?))
            }
            _ => return malformed("first byte", &[kind]),
        })
    }

    fn line(&mut self) -> Result<Vec<u8>, ParseError> {
        let rest = &self.bytes[self.at..];
        let end = rest.windows(2).position(|pair| pair == b"\r\n").ok_or(ParseError::Incomplete)?;
        let line = rest[..end].to_vec();
        self.at += end + 2;
        Ok(line)
    }

    fn bulk(&mut self, line: &[u8]) -> Result<Vec<u8>, ParseError> {
        let len = length(line)?;
        let rest = &self.bytes[self.at..];
        if rest.len() < len + 2 {
            return Err(ParseError::Incomplete);
        }
        if &rest[len..len + 2] != b"\r\n" {
            return malformed("end of bulk string", &rest[len..len + 2]);
        }
        let content = rest[..len].to_vec();
        self.at += len + 2;
        Ok(content)
    }

    fn items(&mut self, line: &[u8], depth: usize) -> Result<Vec<Value>, ParseError> {
        (0..length(line)?).map(|_| self.value(depth + 1)).collect()
    }

    fn pairs(&mut self, line: &[u8], depth: usize) -> Result<Vec<(Value, Value)>, ParseError> {
        (0..length(line)?).map(|_| Ok((self.value(depth + 1)?, self.value(depth + 1)?))).collect()
    }
}

fn number(line: &[u8]) -> Result<i64, ParseError> {
    match std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()) {
        Some(number) => Ok(number),
        None => malformed("number", line),
    }
}

fn length(line: &[u8]) -> Result<usize, ParseError> {
    usize::try_from(number(line)?).or_else(|_| malformed("length", line))
}

fn malformed<T>(what: &str, bytes: &[u8]) -> Result<T, ParseError> {
    Err(ParseError::Malformed(format!("{what}: {}", words::quote(bytes))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_and_every_prefix_is_incomplete() {
        let text = [
            &b"*9\r\n+OK\r\n-ERR x\r\n:-5\r\n$2\r\nab\r\n$-1\r\n%1\r\n,1.5\r\n#t\r\n"[..],
            b"~1\r\n_\r\n=6\r\ntxt:hi\r\n>1\r\n(12\r\n",
        ]
        .concat();
        let text = text.as_slice();
        let (value, used) = Value::parse(text).unwrap();
        assert_eq!(used, text.len());
        assert_eq!(
            value.to_string(),
            "[+OK, (error) ERR x, (integer) -5, \"ab\", (nil), map{(double) 1.5: (true)}, set[(null)], \
             (verbatim) \"txt:hi\", push[(big) 12]]"
        );
        for end in 0..text.len() {
            assert_eq!(Value::parse(&text[..end]), Err(ParseError::Incomplete), "prefix of {end} bytes");
        }
    }

    #[test]
    fn garbage_is_malformed() {
        for text in [&b"x\r\n"[..], b":1x\r\n", b"$-2\r\n", b"$1\r\nab\r\n", b"#x\r\n"] {
            assert!(matches!(Value::parse(text), Err(ParseError::Malformed(_))), "{text:?}");
        }
    }
}
