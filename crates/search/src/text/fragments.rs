// SPDX-License-Identifier: BSD-3-Clause
//! Shows the words of a text that matched: all of it with marks (HIGHLIGHT), or the parts around
//! them (SUMMARIZE).
//!
//! Nothing is kept for this in the index: the text is cut into words again, and each word is asked
//! about.

use std::ops::Range;

use super::tokens::tokens;

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

/// The parts of a text around the words that matched: those with the most such words, in the
/// order of the text, each followed by the separator. A text without such words is cut after as
/// many words as a fragment has.
pub fn summarize(
    text: &str,
    options: &Summary,
    marks: Option<&Highlighter>,
    mut matched: impl FnMut(&str) -> bool,
) -> String {
    let words: Vec<(Range<usize>, bool)> =
        tokens(text).map(|token| (token.start..token.end, matched(&token.word))).collect();
    let len = options.fragment_len.max(1);
    // Half of the words stand before the first match.
    let mut fragments: Vec<(Range<usize>, usize)> = Vec::new();
    for (at, _) in words.iter().enumerate().filter(|(_, (_, matched))| *matched) {
        match fragments.last_mut() {
            Some((range, matches)) if at < range.end => *matches += 1,
            last => {
                let floor = last.map_or(0, |(range, _)| range.end);
                let start = at.saturating_sub(len / 2).max(floor);
                fragments.push((start..(start + len).min(words.len()), 1));
            }
        }
    }
    if fragments.is_empty() {
        fragments.push((0..len.min(words.len()), 0));
    }
    let mut best: Vec<usize> = (0..fragments.len()).collect();
    best.sort_by_key(|&at| std::cmp::Reverse(fragments[at].1));
    best.truncate(options.fragments);
    best.sort_unstable();
    let mut out = String::new();
    for range in best.into_iter().map(|at| fragments[at].0.clone()).filter(|range| !range.is_empty()) {
        let bytes = words[range.start].0.start..words[range.end - 1].0.end;
        push_marked(&mut out, text, bytes, marks, &mut matched);
        out.push_str(&options.separator);
    }
    out
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

    #[test]
    fn fragments_surround_the_matches() {
        let text = "one two three four five six seven hello nine ten eleven twelve hello hello end";
        let options = Summary { fragments: 1, fragment_len: 4, separator: "|".into() };
        let of = |options: &Summary, word: &str| summarize(text, options, None, |one| one == word);
        assert_eq!(of(&options, "hello"), "eleven twelve hello hello|");
        let two = Summary { fragments: 2, ..options.clone() };
        assert_eq!(of(&two, "hello"), "six seven hello nine|eleven twelve hello hello|");
        assert_eq!(of(&options, "one"), "one two three four|");
        assert_eq!(of(&options, "absent"), "one two three four|");
        assert_eq!(of(&Summary { fragments: 0, ..options.clone() }, "hello"), "");
        let marked = summarize(text, &options, Some(&Highlighter::default()), |one| one == "hello");
        assert_eq!(marked, "eleven twelve <b>hello</b> <b>hello</b>|");
        assert_eq!(summarize("", &options, None, |_| true), "");
    }
}
