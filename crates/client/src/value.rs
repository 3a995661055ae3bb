// SPDX-License-Identifier: BSD-3-Clause
//! A reply as a value, RESP2 and RESP3 alike.
//!
//! For the control connection, where replies are few. Nothing here panics on what a server sends: nesting is
//! bounded, and memory is taken only for bytes that arrived.

/// One reply. Verbatim strings are [`Value::Bulk`] without their format, sets and pushes are
/// [`Value::Array`], attributes are left out.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Status(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Double(f64),
    Boolean(bool),
    Null,
    Array(Vec<Value>),
    Map(Vec<(Value, Value)>),
}

/// Nested deeper than this is no reply that any server gives.
const DEPTH_MAX: usize = 32;

/// Why bytes are not a reply.
#[derive(Debug, PartialEq, Eq)]
pub enum ParseError {
    /// More bytes are needed.
    Incomplete,
    /// These bytes can never become a reply.
    Malformed,
}

impl Value {
    /// Reads one reply from the start of `bytes`; gives it and its length in bytes.
    pub fn parse(bytes: &[u8]) -> Result<(Value, usize), ParseError> {
        let mut reader = Reader { bytes, at: 0 };
        let value = reader.value(0)?;
        Ok((value, reader.at))
    }

    /// The text of a status, error, string or number; empty for everything else.
    pub fn text(&self) -> String {
        match self {
            Value::Status(text) | Value::Error(text) => text.clone(),
            Value::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::Integer(number) => number.to_string(),
            Value::Double(number) => number.to_string(),
            Value::Boolean(yes) => yes.to_string(),
            Value::Null | Value::Array(_) | Value::Map(_) => String::new(),
        }
    }

    /// The elements of an array; keys and values in turn of a map; none for everything else.
    pub fn elements(self) -> Vec<Value> {
        match self {
            Value::Array(elements) => elements,
            Value::Map(pairs) => pairs.into_iter().flat_map(|(key, value)| [key, value]).collect(),
            _ => Vec::new(),
        }
    }

    /// An integer, or the integer that a string spells.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Value::Integer(number) => Some(*number),
            Value::Bulk(_) | Value::Status(_) => self.text().parse().ok(),
            _ => None,
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn line(&mut self) -> Result<&'a [u8], ParseError> {
        let rest = &self.bytes[self.at..];
        let end = memchr::memchr(b'\n', rest).ok_or(ParseError::Incomplete)?;
        self.at += end + 1;
        rest[..end].strip_suffix(b"\r").ok_or(ParseError::Malformed)
    }

    fn value(&mut self, depth: usize) -> Result<Value, ParseError> {
        if depth > DEPTH_MAX {
            return Err(ParseError::Malformed);
        }
        let line = self.line()?;
        let (&kind, rest) = line.split_first().ok_or(ParseError::Malformed)?;
        let text = || String::from_utf8_lossy(rest).into_owned();
        Ok(match kind {
            b'+' => Value::Status(text()),
            b'(' => Value::Bulk(rest.to_vec()),
            b'-' => Value::Error(text()),
            b':' => Value::Integer(number(rest)?),
            b',' => Value::Double(text().parse().map_err(|_| ParseError::Malformed)?),
            b'#' => Value::Boolean(rest == b"t"),
            b'_' => Value::Null,
            b'$' | b'=' | b'!' => {
                let Ok(len) = usize::try_from(number(rest)?) else { return Ok(Value::Null) };
                let body = self.body(len)?;
                match kind {
                    b'$' => Value::Bulk(body.to_vec()),
                    b'=' => Value::Bulk(body.get(4..).unwrap_or_default().to_vec()),
                    _ => Value::Error(String::from_utf8_lossy(body).into_owned()),
                }
            }
            b'*' | b'~' | b'>' => {
                let Ok(count) = usize::try_from(number(rest)?) else { return Ok(Value::Null) };
                // Collected one by one: what a header announces is no reason to take memory.
                let mut elements = Vec::new();
                for _ in 0..count {
                    elements.push(self.value(depth + 1)?);
                }
                Value::Array(elements)
            }
            b'%' | b'|' => {
                let mut pairs = Vec::new();
                for _ in 0..number(rest)? {
                    pairs.push((self.value(depth + 1)?, self.value(depth + 1)?));
                }
                if kind == b'|' {
                    return self.value(depth + 1);
                }
                Value::Map(pairs)
            }
            _ => return Err(ParseError::Malformed),
        })
    }

    /// The `len` bytes of a string, and its line end.
    fn body(&mut self, len: usize) -> Result<&'a [u8], ParseError> {
        let end = self.at.checked_add(len).ok_or(ParseError::Malformed)?;
        let body = self.bytes.get(self.at..end).ok_or(ParseError::Incomplete)?;
        let line_end = self.bytes.get(end..end + 2).ok_or(ParseError::Incomplete)?;
        self.at = end + 2;
        if line_end == b"\r\n" { Ok(body) } else { Err(ParseError::Malformed) }
    }
}

fn number(digits: &[u8]) -> Result<i64, ParseError> {
    std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).ok_or(ParseError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_resp::{Protocol, ReplyBuffer};

    fn parse(bytes: &[u8]) -> Value {
        let (value, len) = Value::parse(bytes).unwrap();
        assert_eq!(len, bytes.len());
        value
    }

    #[test]
    fn replies_of_both_protocols_are_read() {
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let mut reply = ReplyBuffer::new(protocol);
            reply.array(6);
            reply.simple("OK");
            reply.bulk(b"a\r\nb");
            reply.null();
            reply.integer(-7);
            reply.verbatim("txt", b"words");
            reply.set(0);
            let values = parse(reply.as_contiguous().unwrap()).elements();
            assert_eq!(values[0], Value::Status("OK".into()));
            assert_eq!(values[1], Value::Bulk(b"a\r\nb".to_vec()));
            assert_eq!(values[2], Value::Null);
            assert_eq!(values[3].integer(), Some(-7));
            assert_eq!(values[4].text(), "words");
            assert_eq!(values[5], Value::Array(Vec::new()));
        }
        assert_eq!(
            parse(b"%1\r\n+a\r\n,1.5\r\n").elements(),
            [Value::Status("a".into()), Value::Double(1.5)]
        );
        assert_eq!(parse(b"|1\r\n+a\r\n:1\r\n#t\r\n"), Value::Boolean(true));
    }

    #[test]
    fn what_is_no_reply_is_refused_and_parts_wait_for_more() {
        for part in ["", "$3\r\nab", "$3\r\nabc\r", "*2\r\n:1\r\n", ":1\r", "%1\r\n+a\r\n"] {
            assert_eq!(Value::parse(part.as_bytes()), Err(ParseError::Incomplete), "{part:?}");
        }
        for wrong in ["hello\r\n", ":x\r\n", "$3\r\nabcde", "\r\n", ":1\n"] {
            assert_eq!(Value::parse(wrong.as_bytes()), Err(ParseError::Malformed), "{wrong:?}");
        }
        let deep = b"*1\r\n".repeat(1000);
        assert_eq!(Value::parse(&deep), Err(ParseError::Malformed));
        assert_eq!(Value::parse(b"*9223372036854775807\r\n"), Err(ParseError::Incomplete));
    }
}
