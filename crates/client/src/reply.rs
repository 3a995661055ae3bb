// SPDX-License-Identifier: BSD-3-Clause
//! A reply exactly as sent, in RESP2 or RESP3, and its parser: the only one of the tools and
//! tests (braid-bench's `reply_scanner.rs` counts replies without building any).
//!
//! Tests compare replies in this form; tools turn them into a [`Value`](crate::Value), which
//! drops details that they do not need. Doubles, big numbers and errors stay text, because the
//! spelling of a number is part of the comparison. No input makes the parser panic: nesting is
//! bounded, and memory is allocated only for received bytes.

/// One reply.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reply {
    /// `+OK`
    Simple(Vec<u8>),
    /// `-ERR ...` (and RESP3's bulk error `!`)
    Error(Vec<u8>),
    /// `:1`
    Integer(i64),
    /// `$3` and its bytes
    Bulk(Vec<u8>),
    /// `=`: bytes after a three-letter format
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
    Array(Vec<Reply>),
    /// `~`
    Set(Vec<Reply>),
    /// `%`: pairs of key and value
    Map(Vec<(Reply, Reply)>),
    /// `>`
    Push(Vec<Reply>),
    /// `|`: the attributes, and the reply that they belong to
    Attribute(Vec<(Reply, Reply)>, Box<Reply>),
}

/// The reason why bytes are not a reply.
#[derive(Debug, PartialEq, Eq)]
pub enum ParseError {
    /// More bytes are needed.
    Incomplete,
    /// These bytes can never become a reply.
    Malformed(String),
}

impl Reply {
    /// Reads one reply from the start of `bytes`. Returns the reply and its length in bytes.
    ///
    /// # Errors
    /// If the reply is incomplete or malformed.
    pub fn parse(bytes: &[u8]) -> Result<(Reply, usize), ParseError> {
        let mut reader = Reader { bytes, at: 0 };
        let value = reader.value(0)?;
        Ok((value, reader.at))
    }

    /// The bytes of a string of any kind or of an error.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Reply::Simple(text) | Reply::Error(text) | Reply::Bulk(text) | Reply::Double(text) => Some(text),
            Reply::BigNumber(text) => Some(text),
            Reply::Verbatim(text) => text.get(4..),
            _ => None,
        }
    }

    /// [`Reply::bytes`] as text, for messages and asserts; empty for values without bytes.
    pub fn text(&self) -> String {
        self.bytes().map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
    }

    /// The number of an integer reply.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Reply::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The elements of an array, set or push.
    pub fn elements(&self) -> Option<&[Reply]> {
        match self {
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => Some(items),
            _ => None,
        }
    }

    /// True for an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }

    /// True for a null of any kind.
    pub fn is_null(&self) -> bool {
        matches!(self, Reply::Null | Reply::NullBulk | Reply::NullArray)
    }

    /// A bulk string, for comparisons.
    pub fn bulk(text: impl AsRef<[u8]>) -> Reply {
        Reply::Bulk(text.as_ref().to_vec())
    }

    /// The reply `+OK`.
    pub fn ok() -> Reply {
        Reply::Simple(b"OK".to_vec())
    }
}

/// Finds the end of a reply whose bytes arrive in pieces, so that it is parsed once, when it is
/// complete: parsing its beginning again for every piece would take a time that grows with the
/// square of its elements.
#[derive(Debug)]
pub struct Arrival {
    /// The length of what has been passed.
    passed: usize,
    /// Values missing after it.
    missing: usize,
}

impl Default for Arrival {
    fn default() -> Arrival {
        Arrival { passed: 0, missing: 1 }
    }
}

impl Arrival {
    /// True if [`Reply::parse`] will not ask for more bytes: a reply is complete, or its next line
    /// can never be part of one. `bytes` begins with those of the calls before.
    pub fn is_complete(&mut self, bytes: &[u8]) -> bool {
        while self.missing > 0 {
            let rest = &bytes[self.passed..];
            let Some(end) = memchr::memchr(b'\n', rest) else { return false };
            let [kind, text @ .., b'\r'] = &rest[..end] else { return true };
            let count = match (kind, text) {
                (b'$' | b'*', b"-1") => None,
                (b'$' | b'=' | b'!' | b'*' | b'~' | b'>' | b'%' | b'|', _) => match length(text) {
                    Ok(count) => Some(count),
                    Err(_) => return true,
                },
                (b'+' | b'-' | b':' | b',' | b'(' | b'#' | b'_', _) => None,
                _ => return true,
            };
            let (body, more) = match (kind, count) {
                (_, None) => (0, 0),
                (b'$' | b'=' | b'!', Some(len)) => (len.saturating_add(2), 0),
                (b'*' | b'~' | b'>', Some(count)) => (0, count),
                (b'%', Some(pairs)) => (0, pairs.saturating_mul(2)),
                // The reply that the attributes belong to counts as well.
                (_, Some(pairs)) => (0, pairs.saturating_mul(2).saturating_add(1)),
            };
            match rest[end + 1..].get(..body) {
                None => return false,
                Some([] | [.., b'\r', b'\n']) => self.passed += end + 1 + body,
                Some(_) => return true,
            }
            self.missing = (self.missing - 1).saturating_add(more);
        }
        true
    }
}

impl std::fmt::Display for Reply {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        fn list(out: &mut std::fmt::Formatter<'_>, name: &str, items: &[Reply]) -> std::fmt::Result {
            write!(out, "{name}[")?;
            for (place, item) in items.iter().enumerate() {
                write!(out, "{}{item}", if place == 0 { "" } else { ", " })?;
            }
            write!(out, "]")
        }
        match self {
            Reply::Simple(text) => write!(out, "+{}", line(&[text])),
            Reply::Error(text) => write!(out, "(error) {}", String::from_utf8_lossy(text)),
            Reply::Integer(number) => write!(out, "(integer) {number}"),
            Reply::Bulk(text) => write!(out, "{}", quote(text)),
            Reply::Verbatim(text) => write!(out, "(verbatim) {}", quote(text)),
            Reply::Double(text) => write!(out, "(double) {}", String::from_utf8_lossy(text)),
            Reply::Boolean(truth) => write!(out, "({truth})"),
            Reply::BigNumber(text) => write!(out, "(big) {}", String::from_utf8_lossy(text)),
            Reply::Null => write!(out, "(null)"),
            Reply::NullBulk => write!(out, "(nil)"),
            Reply::NullArray => write!(out, "(nil array)"),
            Reply::Array(items) => list(out, "", items),
            Reply::Set(items) => list(out, "set", items),
            Reply::Push(items) => list(out, "push", items),
            Reply::Map(pairs) | Reply::Attribute(pairs, _) => {
                write!(out, "map{{")?;
                for (place, (key, value)) in pairs.iter().enumerate() {
                    write!(out, "{}{key}: {value}", if place == 0 { "" } else { ", " })?;
                }
                write!(out, "}}")?;
                if let Reply::Attribute(_, reply) = self { write!(out, " {reply}") } else { Ok(()) }
            }
        }
    }
}

/// Bytes as a double-quoted word that `redis-cli` can read back.
pub fn quote(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for &byte in bytes {
        match byte {
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            0x20..=0x7e => text.push(byte as char),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
    text
}

/// Arguments as one line that `redis-cli` can read back; plain words stay unquoted.
pub fn line<A: AsRef<[u8]>>(arguments: &[A]) -> String {
    let words: Vec<String> = arguments
        .iter()
        .map(|argument| {
            let bytes = argument.as_ref();
            let plain = !bytes.is_empty()
                && bytes.iter().all(|b| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'\\'));
            if plain { String::from_utf8_lossy(bytes).into_owned() } else { quote(bytes) }
        })
        .collect();
    words.join(" ")
}

/// More nesting than any server sends; bounded so that invalid input cannot exhaust the stack.
const DEPTH_MAX: usize = 64;

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Result<Reply, ParseError> {
        if depth > DEPTH_MAX {
            return Err(ParseError::Malformed("nested too deeply".into()));
        }
        let kind = *self.bytes.get(self.at).ok_or(ParseError::Incomplete)?;
        self.at += 1;
        let line = self.line()?;
        Ok(match kind {
            b'+' => Reply::Simple(line.to_vec()),
            b'-' => Reply::Error(line.to_vec()),
            b':' => Reply::Integer(number(line)?),
            b',' => Reply::Double(line.to_vec()),
            b'(' => Reply::BigNumber(line.to_vec()),
            b'#' => match line {
                b"t" => Reply::Boolean(true),
                b"f" => Reply::Boolean(false),
                _ => return malformed("boolean", line),
            },
            b'_' if line.is_empty() => Reply::Null,
            b'$' if line == b"-1" => Reply::NullBulk,
            b'*' if line == b"-1" => Reply::NullArray,
            b'$' => Reply::Bulk(self.bulk(line)?),
            b'=' => Reply::Verbatim(self.bulk(line)?),
            b'!' => Reply::Error(self.bulk(line)?),
            b'*' => Reply::Array(self.items(line, depth)?),
            b'~' => Reply::Set(self.items(line, depth)?),
            b'>' => Reply::Push(self.items(line, depth)?),
            b'%' => Reply::Map(self.pairs(line, depth)?),
            b'|' => {
                let pairs = self.pairs(line, depth)?;
                Reply::Attribute(pairs, Box::new(self.value(depth + 1)?))
            }
            _ => return malformed("first byte", &[kind]),
        })
    }

    fn line(&mut self) -> Result<&'a [u8], ParseError> {
        let rest = &self.bytes[self.at..];
        let end = memchr::memchr(b'\n', rest).ok_or(ParseError::Incomplete)?;
        self.at += end + 1;
        let line = rest[..end].strip_suffix(b"\r");
        line.map_or_else(|| malformed("line end", &rest[..end]), Ok)
    }

    fn bulk(&mut self, line: &[u8]) -> Result<Vec<u8>, ParseError> {
        let len = length(line)?;
        let rest = &self.bytes[self.at..];
        if rest.len() < len.saturating_add(2) {
            return Err(ParseError::Incomplete);
        }
        if &rest[len..len + 2] != b"\r\n" {
            return malformed("end of bulk string", &rest[len..len + 2]);
        }
        let content = rest[..len].to_vec();
        self.at += len + 2;
        Ok(content)
    }

    fn items(&mut self, line: &[u8], depth: usize) -> Result<Vec<Reply>, ParseError> {
        (0..length(line)?).map(|_| self.value(depth + 1)).collect()
    }

    fn pairs(&mut self, line: &[u8], depth: usize) -> Result<Vec<(Reply, Reply)>, ParseError> {
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
    Err(ParseError::Malformed(format!("{what}: {}", quote(bytes))))
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
        let (value, used) = Reply::parse(text).unwrap();
        assert_eq!(used, text.len());
        assert_eq!(
            value.to_string(),
            "[+OK, (error) ERR x, (integer) -5, \"ab\", (nil), map{(double) 1.5: (true)}, set[(null)], \
             (verbatim) \"txt:hi\", push[(big) 12]]"
        );
        let mut arrival = Arrival::default();
        for end in 0..text.len() {
            assert_eq!(Reply::parse(&text[..end]), Err(ParseError::Incomplete), "prefix of {end} bytes");
            assert!(!arrival.is_complete(&text[..end]), "prefix of {end} bytes");
        }
        assert!(arrival.is_complete(text));
    }

    /// What is passed is not looked at again: its bytes may even have changed.
    #[test]
    fn each_element_is_passed_once() {
        let mut text = b"*3\r\n$2\r\nab\r\n|1\r\n+k\r\n:1\r\n".to_vec();
        let mut arrival = Arrival::default();
        assert!(!arrival.is_complete(&text));
        text.fill(b'?');
        text.extend_from_slice(b"+with attributes\r\n$5\r\nab");
        assert!(!arrival.is_complete(&text));
        text.extend_from_slice(b"cde\r\n+the next");
        assert!(arrival.is_complete(&text));
    }

    #[test]
    fn garbage_is_malformed() {
        for text in [
            &b"x\r\n"[..],
            b"hello\r\n",
            b"\r\n",
            b":1\n",
            b":1x\r\n",
            b"$-2\r\n",
            b"$1\r\nab\r\n",
            b"#x\r\n",
        ] {
            assert!(matches!(Reply::parse(text), Err(ParseError::Malformed(_))), "{text:?}");
            assert!(Arrival::default().is_complete(text), "{text:?}");
        }
    }

    #[test]
    fn deep_and_long_announcements_take_nothing() {
        assert!(matches!(Reply::parse(&b"*1\r\n".repeat(1000)), Err(ParseError::Malformed(_))));
        assert_eq!(Reply::parse(b"*9223372036854775807\r\n"), Err(ParseError::Incomplete));
        assert_eq!(Reply::parse(b"$9223372036854775807\r\n"), Err(ParseError::Incomplete));
        for announced in ["*9223372036854775807", "$9223372036854775807", "%9223372036854775807"] {
            let bytes = format!("*3\r\n{announced}\r\n{announced}\r\n");
            assert!(!Arrival::default().is_complete(bytes.as_bytes()), "{announced}");
        }
    }
}
