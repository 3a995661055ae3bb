// SPDX-License-Identifier: BSD-3-Clause
//! Cuts a query into symbols and words, each with its offset.

use crate::text::is_separator;

#[derive(Clone, Debug, PartialEq)]
pub enum Lexeme {
    /// Without escapes, in the case it has.
    Word(String),
    /// As it is written: as a word it is searched in this form.
    Number(String),
    /// A parameter's name.
    Parameter(String),
    /// A field's name; what follows the `@`.
    Field(String),
    /// A pattern `w'...'`.
    Pattern(String),
    /// The text between double quotes, with escapes; nothing between single ones.
    Quoted(String),
    Symbol(&'static str),
    End,
}

#[derive(Clone, Debug)]
pub struct Placed {
    pub lexeme: Lexeme,
    pub offset: usize,
    pub end: usize,
}

/// Two characters before one.
const SYMBOLS: [&str; 22] = [
    "=>", "==", "!=", ">=", "<=", "(", ")", "{", "}", "[", "]", "|", "-", "~", "*", "%", ":", ";", ">", "<",
    "'", "\"",
];

/// The lexemes of a query, an end after them.
pub fn lex(text: &str) -> Vec<Placed> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let (lexeme, len) = next(text, at, found.last());
        if let Some(lexeme) = lexeme {
            found.push(Placed { lexeme, offset: at, end: at + len });
        }
        at += len;
    }
    // An error at the end of a query is reported at its last lexeme.
    let offset = found.last().map_or(0, |last| last.offset);
    found.push(Placed { lexeme: Lexeme::End, offset, end: text.len() });
    found
}

/// The lexeme at an offset, and its length. Punctuation without a meaning is none.
fn next(text: &str, at: usize, before: Option<&Placed>) -> (Option<Lexeme>, usize) {
    let rest = &text[at..];
    let first = rest.as_bytes()[0];
    // A sign belongs to a number, except after a word: `a-5` excludes 5.
    let after_text = before.is_some_and(|one| {
        matches!(one.lexeme, Lexeme::Word(_) | Lexeme::Number(_) | Lexeme::Parameter(_))
            && !text[..at].ends_with(|c: char| c.is_ascii_whitespace())
    });
    if !(after_text && matches!(first, b'-' | b'+'))
        && let Some(len) = number_len(rest)
    {
        return (Some(Lexeme::Number(rest[..len].to_owned())), len);
    }
    if first == b'$' || first == b'@' {
        let (name, len) = word(&rest[1..]);
        if len > 0 {
            let lexeme = if first == b'$' { Lexeme::Parameter(name) } else { Lexeme::Field(name) };
            return (Some(lexeme), len + 1);
        }
        return (None, 1);
    }
    if first == b'"'
        && let Some(len) = quoted_len(&rest[1..], '"')
    {
        return (Some(Lexeme::Quoted(rest[1..1 + len].to_owned())), len + 2);
    }
    if let Some(pattern) = rest.strip_prefix("w'")
        && let Some(len) = quoted_len(pattern, '\'')
    {
        return (Some(Lexeme::Pattern(pattern[..len].to_owned())), len + 3);
    }
    if rest.starts_with("''") {
        return (Some(Lexeme::Quoted(String::new())), 2);
    }
    if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
        return (Some(Lexeme::Symbol(symbol)), symbol.len());
    }
    let (found, len) = word(rest);
    if len > 0 {
        return ((!found.is_empty()).then_some(Lexeme::Word(found)), len);
    }
    (None, 1)
}

/// A word at the beginning of a text, without its escapes, and its length there.
fn word(text: &str) -> (String, usize) {
    let mut found = String::new();
    let mut rest = text.char_indices();
    while let Some((at, one)) = rest.next() {
        if one == '\\' {
            found.extend(rest.next().map(|(_, escaped)| escaped));
        } else if one.is_ascii() && is_separator(one as u8) {
            return (found, at);
        } else {
            found.push(one);
        }
    }
    (found, text.len())
}

/// The length of what stands before a closing quote that is not escaped.
fn quoted_len(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, one) in text.char_indices() {
        if one == quote && !escaped {
            return Some(at);
        }
        escaped = one == '\\' && !escaped;
    }
    None
}

/// The length of a number at the beginning of a text, if no word goes on after it.
fn number_len(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = usize::from(matches!(bytes[0], b'-' | b'+'));
    if bytes[at..].len() >= 3 && bytes[at..at + 3].eq_ignore_ascii_case(b"inf") {
        at += 3;
    } else {
        let whole = digits(at);
        at += whole;
        let mut fraction = 0;
        if bytes.get(at) == Some(&b'.') {
            fraction = digits(at + 1);
            at += if fraction > 0 { 1 + fraction } else { 0 };
        }
        if whole + fraction == 0 {
            return None;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(at + 1), Some(b'-' | b'+')));
            let exponent = digits((at + 1 + sign).min(bytes.len()));
            at += if exponent > 0 { 1 + sign + exponent } else { 0 };
        }
    }
    bytes.get(at).is_none_or(|&byte| is_separator(byte)).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let shown = lex(text).into_iter().map(|placed| match placed.lexeme {
            Lexeme::Word(word) => word,
            Lexeme::Number(number) => format!("#{number}"),
            Lexeme::Parameter(name) => format!("${name}"),
            Lexeme::Field(name) => format!("@{name}"),
            Lexeme::Pattern(pattern) => format!("w'{pattern}'"),
            Lexeme::Quoted(text) => format!("\"{text}\""),
            Lexeme::Symbol(symbol) => symbol.to_owned(),
            Lexeme::End => ".".to_owned(),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn words_numbers_and_symbols_are_told_apart() {
        assert_eq!(shown("Hello -5 a-5 1e5 12abc 3.14"), "Hello #-5 a - #5 #1e5 12abc #3.14 .");
        assert_eq!(shown("@n:[(1 +inf]=>{$w:2;}"), "@n : [ ( #1 #+inf ] => { $w : #2 ; } .");
        assert_eq!(shown("\"a \\\" b\" w'x?*' foo\\-bar"), "\"a \\\" b\" w'x?*' foo-bar .");
        assert_eq!(shown("a, b/c \" \\"), "a b c \" .");
        assert_eq!(shown("@t:'' '"), "@t : \"\" ' .");
        assert_eq!(shown("é@t>=5"), "é @t >= #5 .");
    }
}
