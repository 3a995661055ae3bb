// SPDX-License-Identifier: BSD-3-Clause
//! Cuts texts into words.
//!
//! ASCII spaces and punctuation separate words, except the underscore; all other characters belong
//! to words. A backslash is dropped and makes the next character part of the word. Words are in
//! lower case.

use std::borrow::Cow;

/// Longer words are cut: a dictionary entry is bounded, whatever the text.
pub const TOKEN_LEN_MAX: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// In lower case, without escapes.
    pub word: Cow<'a, str>,
    /// Where it is in the text.
    pub start: usize,
    pub end: usize,
}

pub fn is_separator(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || byte.is_ascii_control()
        || (byte.is_ascii_punctuation() && byte != b'_' && byte != b'\\')
}

/// The text in lower case, borrowed if it is.
pub fn fold_case(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(text.to_ascii_lowercase())
        } else {
            Cow::Borrowed(text)
        }
    } else {
        let lower = text.to_lowercase();
        if lower == text { Cow::Borrowed(text) } else { Cow::Owned(lower) }
    }
}

/// The words of a text, in order.
pub fn tokens(text: &str) -> impl Iterator<Item = Token<'_>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            while at < bytes.len() && is_separator(bytes[at]) {
                at += 1;
            }
            if at == bytes.len() {
                return None;
            }
            let start = at;
            let mut escapes = false;
            while at < bytes.len() && !is_separator(bytes[at]) {
                if bytes[at] == b'\\' {
                    escapes = true;
                    at += 1;
                    // What is escaped may be one of several bytes.
                    at += text[at..].chars().next().map_or(0, char::len_utf8);
                } else {
                    at += 1;
                }
            }
            let raw = cut(&text[start..at]);
            let word =
                if escapes { Cow::Owned(fold_case(&unescape(raw)).into_owned()) } else { fold_case(raw) };
            if !word.is_empty() {
                return Some(Token { word, start, end: at });
            }
        }
    })
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TOKEN_LEN_MAX)]
}

/// Drops backslashes; what follows one is kept, another backslash too.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(one) = rest.next() {
        out.extend(if one == '\\' { rest.next() } else { Some(one) });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        tokens(text).map(|token| token.word.into_owned()).collect()
    }

    #[test]
    fn punctuation_separates_and_backslashes_escape() {
        assert_eq!(words("Hello, big-World foo_bar 3.14"), ["hello", "big", "world", "foo_bar", "3", "14"]);
        assert_eq!(
            words("cccc\\-dddd eeee\\\\ffff gg\\ hh xy\\yz \\"),
            ["cccc-dddd", "eeee\\ffff", "gg hh", "xyyz"]
        );
        assert_eq!(words("ÉCOLE naïve\\é"), ["école", "naïveé"]);
        assert_eq!(words(" ,; "), [""; 0]);
    }

    #[test]
    fn a_token_knows_its_place() {
        let text = "Ah, BETA";
        let found: Vec<_> = tokens(text).map(|token| (token.start, token.end)).collect();
        assert_eq!(found, [(0, 2), (4, 8)]);
    }

    #[test]
    fn long_words_are_cut_between_characters() {
        let text = "é".repeat(TOKEN_LEN_MAX);
        let found: Vec<_> = tokens(&text).collect();
        assert_eq!((found.len(), found[0].word.len()), (1, TOKEN_LEN_MAX));
        let odd = format!("a{text}");
        assert_eq!(tokens(&odd).next().unwrap().word.len(), TOKEN_LEN_MAX - 1);
    }
}
