// SPDX-License-Identifier: BSD-3-Clause
//! From the form of a word to the words of the dictionary that have it.

use std::collections::HashMap;

use braid_base::glob;

use crate::index::{Index, Space};
use crate::query::Shape;
use crate::text::{Language, Stems};

/// The dictionary is looked through in steps of so many terms, unlocked in between: new words do
/// not wait for a query.
const STEP: usize = 2048;

/// The first terms of a space that have a form, in order, at most so many. Words only: no stems.
pub fn expand(index: &Index, space: Space, shape: &Shape, max: usize) -> Vec<String> {
    let mut found = Vec::new();
    let prefix = match shape {
        Shape::Prefix(prefix) => prefix.as_str(),
        Shape::Wildcard(pattern) => literal_beginning(pattern),
        _ => "",
    };
    let mut from = prefix.to_owned();
    loop {
        let dictionary = index.dictionary();
        let mut seen = 0;
        let mut last = None;
        for (_, text) in dictionary.terms_from(space, &from).take_while(|(_, text)| text.starts_with(prefix))
        {
            if seen == STEP || found.len() == max {
                break;
            }
            seen += 1;
            last = Some(text);
            // Stems stand before all words.
            if !(space == Space::WORDS && text.starts_with('+')) && has_shape(text, shape) {
                found.push(text.to_owned());
            }
        }
        if seen < STEP || found.len() == max {
            return found;
        }
        // Just after the last one.
        let next = format!("{}\0", last.unwrap_or_default());
        from = next;
    }
}

fn literal_beginning(pattern: &str) -> &str {
    &pattern[..pattern.find(['*', '?', '\\', '[']).unwrap_or(pattern.len())]
}

fn has_shape(text: &str, shape: &Shape) -> bool {
    match shape {
        Shape::Prefix(prefix) => text.starts_with(prefix.as_str()),
        Shape::Suffix(suffix) => text.ends_with(suffix.as_str()),
        Shape::Infix(infix) => text.contains(infix.as_str()),
        Shape::Wildcard(pattern) => wildcard(pattern.as_bytes(), text.as_bytes()),
        Shape::Fuzzy(word, distance) => distance_within(word, text, usize::from(*distance)).is_some(),
    }
}

/// Only `*` and `?` are special, and a backslash before them.
fn wildcard(pattern: &[u8], text: &[u8]) -> bool {
    if !pattern.contains(&b'[') {
        return glob::matches(pattern, text, false);
    }
    let escaped: Vec<u8> =
        pattern.iter().flat_map(|&byte| if byte == b'[' { vec![b'\\', b'['] } else { vec![byte] }).collect();
    glob::matches(&escaped, text, false)
}

/// The number of insertions, deletions and replacements of characters between two words, if it is
/// no more than a maximum.
pub fn distance_within(one: &str, other: &str, max: usize) -> Option<usize> {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if one.len().abs_diff(other.len()) > max {
        return None;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, a) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, b) in other.iter().enumerate() {
            let above = row[column + 1];
            let replaced = diagonal + usize::from(a != b);
            row[column + 1] = replaced.min(above + 1).min(row[column] + 1);
            diagonal = above;
        }
        if row.iter().all(|cost| *cost > max) {
            return None;
        }
    }
    row.last().copied().filter(|cost| *cost <= max)
}

/// A word that a query looks for.
#[derive(Clone, Copy, Debug)]
pub struct Sought {
    /// Its place among the query's words.
    pub place: usize,
    /// How rare it is, as SUMMARIZE counts it.
    pub rarity: u32,
}

/// The words that a query found, for marking them in texts.
pub struct Matched {
    words: HashMap<String, Sought>,
    stems: Stems,
}

impl Matched {
    pub fn new(words: HashMap<String, Sought>, language: Language) -> Matched {
        Matched { words, stems: Stems::of(language) }
    }

    /// Whether a word of a text, in lower case, is one of them.
    pub fn contains(&self, word: &str) -> bool {
        self.term(word).is_some()
    }

    /// The first of the query's terms that finds a word of a text, in lower case: the word itself
    /// or its stem; and how rare that is.
    pub fn term(&self, word: &str) -> Option<(&str, u32)> {
        let whole = self.words.get_key_value(word);
        let stem = self.stems.stem(word).and_then(|stem| self.words.get_key_value(&format!("+{stem}")));
        let first = whole.into_iter().chain(stem).min_by_key(|(_, sought)| sought.place);
        first.map(|(term, sought)| (&**term, sought.rarity))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_word_is_found_by_the_first_term_of_the_query() {
        let sought = |terms: &[&str]| {
            let each = terms.iter().enumerate();
            let words = each.map(|(place, term)| ((*term).to_owned(), Sought { place, rarity: 1 }));
            Matched::new(words.collect(), Language::English)
        };
        let matched = sought(&["runs", "+run", "running"]);
        assert_eq!(
            ["runs", "running", "run"].map(|word| matched.term(word).map(|(term, _)| term)),
            [Some("runs"), Some("+run"), None,]
        );
        assert_eq!(sought(&["running", "+run"]).term("running"), Some(("running", 1)));
    }

    #[test]
    fn distances_count_changes_of_characters() {
        assert_eq!(distance_within("hello", "helo", 1), Some(1));
        assert_eq!(distance_within("hello", "hlo", 1), None);
        assert_eq!(distance_within("hello", "ehllo", 2), Some(2));
        assert_eq!(distance_within("école", "ecole", 1), Some(1));
        assert_eq!(distance_within("", "abc", 3), Some(3));
        assert_eq!(distance_within("same", "same", 0), Some(0));
    }

    fn recursive(one: &[char], other: &[char]) -> usize {
        match (one, other) {
            ([], rest) | (rest, []) => rest.len(),
            ([a, one @ ..], [b, other @ ..]) if a == b => recursive(one, other),
            ([_, x @ ..], [_, y @ ..]) => 1 + recursive(x, y).min(recursive(x, other)).min(recursive(one, y)),
        }
    }

    proptest! {
        #[test]
        fn distances_agree_with_their_definition(one in "[ab]{0,5}", other in "[abc]{0,5}", max in 0usize..5) {
            let chars = |text: &str| text.chars().collect::<Vec<_>>();
            let expected = recursive(&chars(&one), &chars(&other));
            prop_assert_eq!(distance_within(&one, &other, max), (expected <= max).then_some(expected));
        }
    }

    #[test]
    fn brackets_are_no_pattern() {
        assert!(wildcard(b"a[b]?", b"a[b]c"));
        assert!(!wildcard(b"a[b]", b"ab"));
        assert!(wildcard(b"he*o", b"hello"));
    }
}
