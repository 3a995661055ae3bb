// SPDX-License-Identifier: BSD-3-Clause
//! Inline requests: a plain line of words, as typed into telnet or sent by simple clients.
//!
//! Configuration files and `redis-cli` use the same quoting rules, so [`split_words`] is
//! independent: words are separated by blanks; `"..."` understands `\n \r \t \b \a`, `\xHH`, and
//! `\` before any other byte as that byte; `'...'` understands only `\'`; a closing quote ends
//! its word and must be followed by a blank or the end. A quote may open in the middle of a word:
//! `ab"c d"` is the word `abc d`.

/// The error of [`split_words`]: a quote was left open, or closed directly before another byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnbalancedQuotes;

/// Splits a line (without its line end) into words and unquotes them. An empty or blank line has no
/// words.
///
/// # Errors
/// If a quote is not closed, or a closing one is not followed by a blank.
pub fn split_words(line: &[u8]) -> Result<Vec<Vec<u8>>, UnbalancedQuotes> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        while let [first, tail @ ..] = rest
            && is_blank(*first)
        {
            rest = tail;
        }
        if rest.is_empty() {
            return Ok(words);
        }
        let (word, tail) = take_word(rest)?;
        words.push(word);
        rest = tail;
    }
}

/// Reads one word from the start of `rest`. Returns the word and the remaining bytes.
fn take_word(mut rest: &[u8]) -> Result<(Vec<u8>, &[u8]), UnbalancedQuotes> {
    let mut word = Vec::new();
    while let [byte, tail @ ..] = rest {
        match byte {
            b'"' => return take_double_quoted(word, tail),
            b'\'' => return take_single_quoted(word, tail),
            // As in Redis, vertical tabs and form feeds separate words but do not end a word that
            // has begun.
            b' ' | b'\n' | b'\r' | b'\t' | 0 => return Ok((word, tail)),
            _ => word.push(*byte),
        }
        rest = tail;
    }
    Ok((word, rest))
}

fn take_double_quoted(mut word: Vec<u8>, mut rest: &[u8]) -> Result<(Vec<u8>, &[u8]), UnbalancedQuotes> {
    loop {
        match rest {
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                word.push(hex_digit(*high) << 4 | hex_digit(*low));
                rest = tail;
            }
            [b'\\', escaped, tail @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                rest = tail;
            }
            [b'"', tail @ ..] => return end_of_quotes(word, tail),
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
            [] => return Err(UnbalancedQuotes),
        }
    }
}

fn take_single_quoted(mut word: Vec<u8>, mut rest: &[u8]) -> Result<(Vec<u8>, &[u8]), UnbalancedQuotes> {
    loop {
        match rest {
            [b'\\', b'\'', tail @ ..] => {
                word.push(b'\'');
                rest = tail;
            }
            [b'\'', tail @ ..] => return end_of_quotes(word, tail),
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
            [] => return Err(UnbalancedQuotes),
        }
    }
}

fn end_of_quotes(word: Vec<u8>, rest: &[u8]) -> Result<(Vec<u8>, &[u8]), UnbalancedQuotes> {
    match rest.first() {
        Some(next) if !is_blank(*next) => Err(UnbalancedQuotes),
        _ => Ok((word, rest)),
    }
}

/// The bytes accepted by C's `isspace`, including the vertical tab that `is_ascii_whitespace`
/// leaves out.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn hex_digit(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => byte - b'0',
        b'a'..=b'f' => byte - b'a' + 10,
        _ => byte.wrapping_sub(b'A').wrapping_add(10),
    }
}

/// Writes a word in double quotes, escaping everything but printable ASCII; [`split_words`] reads
/// it back.
pub fn push_quoted(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b'"');
    for &byte in word {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &[u8], words: &[&[u8]]) {
        assert_eq!(split_words(line), Ok(words.iter().map(|word| word.to_vec()).collect()));
    }

    #[test]
    fn words_are_separated_by_any_blanks() {
        check(b"", &[]);
        check(b" \t\r\x0b\x0c ", &[]);
        check(b"PING", &[b"PING"]);
        check(b"  SET\tkey   value ", &[b"SET", b"key", b"value"]);
        check(b"a\rb", &[b"a", b"b"]);
        check(b"a\x0bb \x0b c", &[b"a\x0bb", b"c"]);
    }

    #[test]
    fn double_quotes_understand_escapes() {
        check(br#"SET k "a b""#, &[b"SET", b"k", b"a b"]);
        check(br#""\n\r\t\b\a\\\"\q""#, &[b"\n\r\t\x08\x07\\\"q"]);
        check(br#""\x00\xfF\x7a\xg1\x1""#, &[b"\x00\xff\x7axg1x1"]);
        check(br#""" x"#, &[b"", b"x"]);
        check(br#"ab"c d" e"#, &[b"abc d", b"e"]);
        check(b"\"a\"\x0bb", &[b"a", b"b"]);
    }

    #[test]
    fn single_quotes_understand_the_quote_alone() {
        check(br"'a\'b\n' ''", &[br"a'b\n", b""]);
        check(br#"'"' "'""#, &[b"\"", b"'"]);
        check(br"a\ b", &[br"a\", b"b"]);
    }

    #[test]
    fn quotes_must_close_at_the_end_of_a_word() {
        for line in
            [&br#"""#[..], b"'", br#""a\"#, br#""a\""#, br"'a\'", br#""a"b"#, br"'a'b", br#"x "a"'b'"#]
        {
            assert_eq!(split_words(line), Err(UnbalancedQuotes), "{}", line.escape_ascii());
        }
    }

    #[test]
    fn quoted_words_are_read_back() {
        let all: Vec<u8> = (0..=255).collect();
        let mut line = Vec::new();
        push_quoted(&mut line, &all);
        assert_eq!(split_words(&line), Ok(vec![all]));
    }
}
