// SPDX-License-Identifier: BSD-3-Clause
//! Commands and bytes as text: splits a line into arguments as `redis-cli` does, and prints bytes
//! so that they can be read and pasted back.

pub use braid_client::reply::{line, quote};

/// Splits a line into arguments. Blanks separate; `"..."` may contain blanks and the escapes
/// `\r \n \t \0 \\ \" \xHH`; `'...'` is literal and may contain anything but a quote. Panics on
/// malformed text, because test authors write the lines.
pub fn words(line: &str) -> Vec<Vec<u8>> {
    let bytes = line.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        while at < bytes.len() && bytes[at].is_ascii_whitespace() {
            at += 1;
        }
        if at == bytes.len() {
            return found;
        }
        let mut word = Vec::new();
        while at < bytes.len() && !bytes[at].is_ascii_whitespace() {
            match bytes[at] {
                b'"' => at = quoted(bytes, at + 1, &mut word),
                b'\'' => {
                    let end =
                        at + 1 + bytes[at + 1..].iter().position(|&b| b == b'\'').expect("closing quote");
                    word.extend_from_slice(&bytes[at + 1..end]);
                    at = end + 1;
                }
                byte => {
                    word.push(byte);
                    at += 1;
                }
            }
        }
        found.push(word);
    }
}

/// Parses the inside of a double-quoted word from `at`; returns the index after the closing
/// quote.
fn quoted(bytes: &[u8], mut at: usize, word: &mut Vec<u8>) -> usize {
    loop {
        match bytes.get(at).expect("closing quote") {
            b'"' => return at + 1,
            b'\\' => {
                let escape = bytes[at + 1];
                at += 2;
                word.push(match escape {
                    b'r' => b'\r',
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'0' => 0,
                    b'x' => {
                        let digits = std::str::from_utf8(&bytes[at..at + 2]).expect("two digits after \\x");
                        at += 2;
                        u8::from_str_radix(digits, 16).expect("hexadecimal digits after \\x")
                    }
                    other => other,
                });
            }
            &byte => {
                word.push(byte);
                at += 1;
            }
        }
    }
}

/// Encodes `arguments` as a request: a RESP array of bulk strings.
pub fn encode<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        request.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        request.extend_from_slice(argument);
        request.extend_from_slice(b"\r\n");
    }
    request
}

/// True if `text` matches `pattern`, where `*` matches any bytes and `?` any single byte.
pub fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at_pattern, mut at_text) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while at_text < text.len() {
        match pattern.get(at_pattern) {
            Some(b'*') => {
                star = Some((at_pattern + 1, at_text));
                at_pattern += 1;
            }
            Some(&byte) if byte == b'?' || byte == text[at_text] => {
                at_pattern += 1;
                at_text += 1;
            }
            _ => match star {
                Some((after, from)) => {
                    at_pattern = after;
                    at_text = from + 1;
                    star = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
    pattern[at_pattern..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_words_are_inverse() {
        let arguments = words("SET k \"a b\\r\\n\\x00\\\"\" '' 'it \"s'");
        assert_eq!(arguments, [&b"SET"[..], b"k", b"a b\r\n\0\"", b"", b"it \"s"]);
        assert_eq!(words(&line(&arguments)), arguments);
    }

    #[test]
    fn requests_are_arrays_of_bulk_strings() {
        assert_eq!(encode(&["GET", ""]), b"*2\r\n$3\r\nGET\r\n$0\r\n\r\n");
    }

    #[test]
    fn glob_patterns_match_as_expected() {
        assert!(glob(b"SET * EX *", b"SET a EX 10"));
        assert!(glob(b"*", b""));
        assert!(glob(b"a?c*", b"abc"));
        assert!(!glob(b"a?c", b"abcd"));
    }
}
