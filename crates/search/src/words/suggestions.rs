// SPDX-License-Identifier: BSD-3-Clause
//! Texts completed as they are typed (FT.SUGADD, FT.SUGGET, FT.SUGDEL, FT.SUGLEN).
//!
//! Sorted by their texts in lower case, so those with a prefix follow each other.

use std::collections::BTreeMap;

use crate::text::fold_case;

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    score: f64,
    payload: Option<Box<[u8]>>,
}

/// What an exact match scores.
const EXACT: f64 = 2_147_483_648.0;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Suggestions(BTreeMap<(Box<str>, Box<str>), Entry>);

#[derive(Clone, Debug, PartialEq)]
pub struct Suggested<'a> {
    pub text: &'a str,
    pub score: f64,
    pub payload: Option<&'a [u8]>,
}

fn key(text: &str) -> (Box<str>, Box<str>) {
    (fold_case(text).into(), text.into())
}

impl Suggestions {
    /// Adds a text, or gives it another score and payload; `increment` adds to the score that it
    /// has.
    pub fn add(&mut self, text: &str, score: f64, increment: bool, payload: Option<&[u8]>) {
        let entry = self.0.entry(key(text)).or_insert(Entry { score: 0.0, payload: None });
        entry.score = if increment { entry.score + score } else { score };
        entry.payload = payload.map(Into::into);
    }

    pub fn remove(&mut self, text: &str) -> bool {
        self.0.remove(&key(text)).is_some()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The best texts that begin with a prefix; if `fuzzy` with one of which a character differs.
    pub fn get(&self, prefix: &str, max: usize, fuzzy: bool) -> Vec<Suggested<'_>> {
        let prefix = fold_case(prefix);
        let mut found: Vec<Suggested<'_>> = Vec::new();
        if fuzzy {
            for (key, entry) in &self.0 {
                if let Some((distance, rest)) = fuzzy_prefix(&prefix, &key.0) {
                    found.push(suggested(&key.1, entry, distance, rest));
                }
            }
        } else {
            let from = (Box::from(&*prefix), Box::from(""));
            let with_prefix = self.0.range(from..).take_while(|(key, _)| key.0.starts_with(&*prefix));
            for (key, entry) in with_prefix {
                found.push(suggested(&key.1, entry, 0, key.0[prefix.len()..].chars().count()));
            }
        }
        found.sort_by(|one, other| other.score.total_cmp(&one.score).then_with(|| one.text.cmp(other.text)));
        found.truncate(max);
        found
    }
}

/// A text counts the less the more it adds to what was typed, and the more that was mistyped.
fn suggested<'a>(text: &'a str, entry: &'a Entry, distance: usize, rest: usize) -> Suggested<'a> {
    let score = if distance == 0 && rest == 0 {
        EXACT
    } else {
        entry.score / (1.0 + rest as f64).sqrt() * (-2.0 * distance as f64).exp()
    };
    Suggested { text, score, payload: entry.payload.as_deref() }
}

/// Whether a text begins with something at most one change away from a prefix; how many changes,
/// and how many characters follow.
fn fuzzy_prefix(prefix: &str, text: &str) -> Option<(usize, usize)> {
    let wanted = prefix.chars().count();
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let total = text.chars().count();
    let tried = ends.enumerate().filter(|(chars, _)| chars.abs_diff(wanted) <= 1);
    let near = tried.filter_map(|(chars, end)| {
        let distance = crate::execute::distance_within(prefix, &text[..end], 1)?;
        Some((distance, total - chars))
    });
    near.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_completed_by_score() {
        let mut all = Suggestions::default();
        all.add("hello", 1.0, false, None);
        all.add("help me", 5.0, false, Some(b"pp"));
        all.add("Helm", 2.0, false, None);
        all.add("hel", 0.5, false, None);
        all.add("hello", 2.0, true, None);
        let texts = |prefix: &str, max, fuzzy| -> Vec<&str> {
            all.get(prefix, max, fuzzy).into_iter().map(|one| one.text).collect()
        };
        assert_eq!(texts("HEL", 5, false), ["hel", "help me", "hello", "Helm"]);
        assert_eq!(texts("hel", 2, false), ["hel", "help me"]);
        assert_eq!(texts("hekp", 5, true), ["help me"]);
        assert_eq!(texts("hekp", 5, false), [""; 0]);
        let best = all.get("help", 1, false).remove(0);
        assert_eq!((best.payload, best.score), (Some(&b"pp"[..]), 2.5));
        assert_eq!(all.len(), 4);
        assert!(!all.remove("helm") && all.remove("Helm"));
        assert_eq!(all.len(), 3);
    }
}
