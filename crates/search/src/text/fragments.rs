// SPDX-License-Identifier: BSD-3-Clause
//! Shows the words of a text that matched: all of it with marks (HIGHLIGHT), or the parts around
//! them (SUMMARIZE).
//!
//! Nothing is kept for this in the index: the text is cut into words again, and each word is asked
//! about.

use std::ops::Range;

use super::tokens::{is_separator, tokens};

/// What is written before and after a word that matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Highlighter {
    pub open: Box<str>,
    pub close: Box<str>,
}

impl Default for Highlighter {
    fn default() -> Highlighter {
        Highlighter { open: "<b>".into(), close: "</b>".into() }
    }
}

/// The options of SUMMARIZE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub fragments: usize,
    /// In words.
    pub fragment_len: usize,
    /// Follows each fragment.
    pub separator: Box<str>,
}

impl Default for Summary {
    fn default() -> Summary {
        Summary { fragments: 3, fragment_len: 20, separator: "... ".into() }
    }
}

/// The text with marks around the words that matched.
pub fn highlight(text: &str, marks: &Highlighter, matched: impl FnMut(&str) -> bool) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    push_marked(&mut out, text, 0..text.len(), Some(marks), matched);
    out
}

fn push_marked(
    out: &mut String,
    text: &str,
    range: Range<usize>,
    marks: Option<&Highlighter>,
    mut matched: impl FnMut(&str) -> bool,
) {
    let part = &text[range];
    let Some(marks) = marks else {
        out.push_str(part);
        return;
    };
    let mut copied = 0;
    for token in tokens(part) {
        if matched(&token.word) {
            out.push_str(&part[copied..token.start]);
            out.push_str(&marks.open);
            out.push_str(&part[token.start..token.end]);
            out.push_str(&marks.close);
            copied = token.end;
        }
    }
    out.push_str(&part[copied..]);
}

/// The parts of a text around the words that matched, each followed by the separator; white space
/// becomes one space. `matched`: the term by which a word is found, and how rare it is.
/// `is_counted` is false for stop words.
///
/// What Redis Stack shows, found by comparing: the fragments whose different terms are the rarest
/// in sum, of equal ones those in front, in the order of the text. Matches with fewer than
/// [`APART`] words between them are in one fragment. For each word that this has less than a
/// fragment should have, not counting the matches, three bytes are added before it and behind it,
/// less what would be a part of a word, and what belongs to the fragments beside it. A text without
/// matches is cut after as many bytes as all fragments could have.
pub fn summarize<'t>(
    text: &str,
    options: &Summary,
    marks: Option<&Highlighter>,
    mut matched: impl FnMut(&str) -> Option<(&'t str, u32)>,
    mut is_counted: impl FnMut(&str) -> bool,
) -> String {
    let mut fragments: Vec<Fragment<'t>> = Vec::new();
    let mut position = 0;
    for token in tokens(text) {
        let found = matched(&token.word);
        position += usize::from(found.is_some() || is_counted(&token.word));
        let Some((term, rarity)) = found else { continue };
        match fragments.last_mut().filter(|last| position - last.last <= APART) {
            Some(last) => {
                (last.bytes.end, last.last, last.matches) = (token.end, position, last.matches + 1);
                if !last.terms.contains(&term) {
                    last.terms.push(term);
                    last.rarity = last.rarity.saturating_add(rarity);
                }
            }
            None => fragments.push(Fragment {
                bytes: token.start..token.end,
                first: position,
                last: position,
                matches: 1,
                terms: vec![term],
                rarity,
            }),
        }
    }
    if fragments.is_empty() {
        // With marks to show, and nothing to mark, it is the whole text.
        return if marks.is_some() { text.to_owned() } else { beginning(text, options) };
    }
    // A stable sort: equal ones stay in the order of the text.
    fragments.sort_by_key(|fragment| std::cmp::Reverse(fragment.rarity));
    fragments.truncate(options.fragments);
    fragments.sort_by_key(|fragment| fragment.bytes.start);
    let mut out = String::new();
    let mut before = 0;
    for (at, fragment) in fragments.iter().enumerate() {
        let next = fragments.get(at + 1).map_or(text.len(), |next| next.bytes.start);
        let range = fragment.widened(text, before..next, options.fragment_len);
        // What is around it has no marks, even if a fragment that is not shown is there.
        let mut part = text[range.start..fragment.bytes.start].to_owned();
        push_marked(&mut part, text, fragment.bytes.clone(), marks, |word| matched(word).is_some());
        part.push_str(&text[fragment.bytes.end..range.end]);
        push_spaced(&mut out, &part);
        out.push_str(&options.separator);
        before = fragment.bytes.end;
    }
    out
}

/// Matches whose positions differ by more are in two fragments.
const APART: usize = 8;
/// Bytes that stand for a word.
const WORD_BYTES: usize = 6;

/// Words of a text from one match to another one.
struct Fragment<'t> {
    bytes: Range<usize>,
    /// Positions of the first and the last match.
    first: usize,
    last: usize,
    matches: usize,
    /// The different terms that match, and how rare they are in sum.
    terms: Vec<&'t str>,
    rarity: u32,
}

impl Fragment<'_> {
    /// The bytes with what is around them, inside of `bounds`.
    fn widened(&self, text: &str, bounds: Range<usize>, len: usize) -> Range<usize> {
        let others = self.last + 1 - self.first - self.matches;
        let Some(missing @ 1..) = len.checked_sub(others) else { return self.bytes.clone() };
        // An odd word counts for neither side.
        let context = (missing / 2).saturating_mul(WORD_BYTES);
        let separates = |at| separates(text, at);
        let mut start = self.bytes.start.saturating_sub(context).max(bounds.start);
        while start < self.bytes.start && !separates(start) {
            start += 1;
        }
        while start < self.bytes.start && separates(start) {
            start += 1;
        }
        let first = self.bytes.end;
        if first >= bounds.end {
            return start..first;
        }
        let mut last = first.saturating_add(context).min(bounds.end);
        while last > first && !separates(last) {
            last -= 1;
        }
        while last > first && separates(last) {
            last -= 1;
        }
        start..text.ceil_char_boundary(last + 1)
    }
}

/// True if there is a byte at this offset that is between words.
fn separates(text: &str, at: usize) -> bool {
    text.as_bytes().get(at).is_some_and(|&byte| is_separator(byte))
}

/// The beginning of a text without matches.
fn beginning(text: &str, options: &Summary) -> String {
    let words = options.fragments.saturating_mul(options.fragment_len);
    let mut last = words.saturating_mul(WORD_BYTES).saturating_add(WORD_BYTES - 1).min(text.len());
    while last > 0 && !separates(text, last) {
        last -= 1;
    }
    let mut out = String::new();
    // A text of one word is cut after a character.
    push_spaced(&mut out, &text[..text.ceil_char_boundary((last + 1).min(text.len()))]);
    out.truncate(out.trim_end().len());
    out
}

/// Appends a text with one space for each run of white space.
fn push_spaced(out: &mut String, text: &str) {
    let mut was_space = false;
    for one in text.chars() {
        let is_space = one.is_ascii_whitespace();
        if !(is_space && was_space) {
            out.push(if is_space { ' ' } else { one });
        }
        was_space = is_space;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_words_are_marked_and_everything_else_stays() {
        let text = "Hello big world, hello again!";
        let marked = highlight(text, &Highlighter::default(), |word| word == "hello");
        assert_eq!(marked, "<b>Hello</b> big world, <b>hello</b> again!");
        assert_eq!(highlight(text, &Highlighter::default(), |_| false), text);
    }

    fn hit(word: &str) -> Option<(&'static str, u32)> {
        (word == "hit").then_some(("hit", 1))
    }

    fn summary(text: &str, fragments: usize, fragment_len: usize) -> String {
        let options = Summary { fragments, fragment_len, ..Summary::default() };
        summarize(text, &options, None, hit, |word| word != "the" && word != "of")
    }

    /// Words, `hit` at some places.
    fn words(count: usize, hits: &[usize], digits: usize) -> String {
        let word = |at: usize| if hits.contains(&at) { "hit".to_owned() } else { format!("w{at:0digits$}") };
        (0..count).map(word).collect::<Vec<_>>().join(" ")
    }

    /// Replies of Redis Stack 7.4, here and below.
    #[test]
    fn fragments_are_those_of_redis_stack() {
        for (digits, len, found) in [
            (2, 1, "hit ... "),
            (2, 2, "w29 hit w31... "),
            (2, 3, "w29 hit w31... "),
            (2, 4, "w28 w29 hit w31 w32 w33... "),
            (2, 6, "w26 w27 w28 w29 hit w31 w32 w33 w34... "),
            (2, 8, "w25 w26 w27 w28 w29 hit w31 w32 w33 w34 w35 w36... "),
            (4, 4, "w0029 hit w0031 w0032... "),
            (7, 4, "w0000029 hit w0000031... "),
        ] {
            assert_eq!(summary(&words(60, &[30], digits), 3, len), found);
        }
        for (gap, found) in [
            (1, "w16 w17 w18 w19 hit hit w22 w23 w24 w25... "),
            (2, "w18 w19 hit w21 hit w23 w24 w25... "),
            (3, "w18 w19 hit w21 w22 hit w24 w25 w26... "),
            (5, "w19 hit w21 w22 w23 w24 hit w26... "),
            (6, "hit w21 w22 w23 w24 w25 hit ... "),
            (7, "hit w21 w22 w23 w24 w25 w26 hit... "),
            (8, "hit w21 w22 w23 w24 w25 w26 w27 hit... "),
            (9, "w16 w17 w18 w19 hit w21 w22 w23 w24... w25 w26 w27 w28 hit w30 w31 w32 w33... "),
        ] {
            assert_eq!(summary(&words(60, &[20, 20 + gap], 2), 3, 6), found);
        }
        let near = words(60, &[20, 29], 2);
        let both = "w12 w13 w14 w15 w16 w17 w18 w19 hit w21 w22 w23 w24 w25 w26 w27 w28... \
                    w21 w22 w23 w24 w25 w26 w27 w28 hit w30 w31 w32 w33 w34 w35 w36 w37 w38... ";
        assert_eq!(summary(&near, 2, 12), both);
        assert_eq!(summary(&near, 0, 12), "");
        // Only fragments that are shown are in each other's way.
        let (options, marks) = (Summary { fragments: 1, ..Summary::default() }, Highlighter::default());
        let first = summarize(&words(32, &[20, 29], 2), &options, Some(&marks), hit, |_| true);
        assert!(first.ends_with(" w19 <b>hit</b> w21 w22 w23 w24 w25 w26 w27 w28 hit w30... "), "{first}");
    }

    /// Redis Stack's choice among fragments that have these words, all others apart. `b` is twice
    /// as rare as the others.
    #[test]
    fn fragments_with_the_rarest_words_are_shown() {
        let rare = |word: &str| {
            let term = ["a", "b", "c"].into_iter().find(|term| *term == word)?;
            Some((term, if term == "b" { 2 } else { 1 }))
        };
        for (fragments, count, found) in [
            (&["a", "a c", "a"][..], 1, &["a c"][..]),
            (&["a", "a a", "c"], 1, &["a"]),
            (&["a", "c c c", "a c"], 1, &["a c"]),
            (&["a", "c c c", "a c"], 2, &["a", "a c"]),
            (&["a", "b", "a"], 1, &["b"]),
            (&["a a a a", "b", "a"], 1, &["b"]),
            (&["a c", "b", "b"], 1, &["a c"]),
            (&["a", "c", "a c", "a c b"], 3, &["a", "a c", "a c b"]),
        ] {
            let apart = " x x x x x x x x x x ";
            let text = format!("{apart}{}{apart}", fragments.join(apart));
            let options = Summary { fragments: count, fragment_len: 0, separator: "|".into() };
            assert_eq!(summarize(&text, &options, None, rare, |_| true), format!("{}|", found.join("|")));
        }
    }

    #[test]
    fn fragments_end_with_whole_words() {
        for (text, len, found) in [
            ("hit", 20, "hit... "),
            ("hit a", 20, "hit ... "),
            ("a hit", 20, "hit... "),
            ("a b hit", 20, "b hit... "),
            ("a hit b", 4, "hit ... "),
            ("a, b; hit. c, d. e", 2, "b; hit. c, d... "),
            ("aa  bb  hit  cc  dd  ee", 2, "bb hit cc... "),
            ("x-y hit-z q r", 2, "y hit-z q... "),
            ("the hit of the of the of a", 4, "hit of the of... "),
            ("hit. a b", 1, "hit.... "),
            ("hit -- a b c", 2, "hit -- a... "),
            ("hit b..  cccccccc", 2, "hit b... "),
            ("hit \t bb  cc  dd ee", 4, "hit bb cc... "),
            ("héé hit ééééé éé é", 4, "hit ééééé... "),
            ("ééé éé é hit a a", 4, "éé é hit a... "),
            ("aa bb  hit (ww)   hit,  cc  dd ee ff", 2, "hit (ww) hit,... "),
            ("aa bb cc hit dd ee ff gg", 0, "hit... "),
            ("aa bb hit the w0 w1 w2 w3 w4 w5 w6 of hit cc", 4, "hit the w0 w1 w2 w3 w4 w5 w6 of hit... "),
            (
                "aa bb hit the ww the ww the ww hit cc dd ee ff gg hh",
                8,
                "bb hit the ww the ww the ww hit cc dd ee ff... ",
            ),
        ] {
            assert_eq!(summary(text, 3, len), found, "{text}");
        }
        let options = Summary { fragment_len: 2, separator: "|".into(), ..Summary::default() };
        let text = "aa bb hit (ww)   hit,  cc";
        let marked = summarize(text, &options, Some(&Highlighter::default()), hit, |_| true);
        assert_eq!(marked, "<b>hit</b> (ww) <b>hit</b>,|");
    }

    #[test]
    fn a_text_without_matches_is_cut() {
        let text = "no such words in here at all so what now then ".repeat(20);
        for (len, fragments, bytes) in [
            (20, 3, 362),
            (4, 3, 77),
            (20, 1, 123),
            (10, 3, 183),
            (10, 1, 62),
            (1, 1, 7),
            (2, 1, 16),
            (3, 1, 21),
        ] {
            assert_eq!(summary(&text, fragments, len), text[..bytes], "{len} {fragments}");
        }
        let others = [("", ""), ("one", "o"), ("éone", "é"), ("short text", "short")];
        for (text, found) in others.into_iter().chain([("short  text, here.  ", "short text, here.")]) {
            assert_eq!(summary(text, 3, 20), found);
        }
        assert_eq!(summary("aa bb cc  dd ee ff gg", 0, 4), "aa bb");
        let (options, marks) = (Summary::default(), Highlighter::default());
        assert_eq!(summarize("a  b", &options, Some(&marks), |_| None, |_| true), "a  b");
    }
}
