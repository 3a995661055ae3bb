// SPDX-License-Identifier: BSD-3-Clause
//! Words of a query that the index does not have, and those that it has instead (FT.SPELLCHECK).

use std::collections::BTreeSet;

use crate::execute::{distance_within, expand};
use crate::index::{Index, Space};
use crate::query::{Query, Shape, Wanted};

/// Of FT.SPELLCHECK's DISTANCE.
pub const DISTANCE_MAX: u8 = 4;

#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum SpellingError {
    #[error("bad distance given, distance must be a natural number between 1 to 4")]
    Distance,
}

pub struct SpellOptions<'a> {
    pub distance: u8,
    /// Words of these are suggested too.
    pub include: Vec<&'a BTreeSet<Box<str>>>,
    /// Words of these are right.
    pub exclude: Vec<&'a BTreeSet<Box<str>>>,
}

/// A word, and what may have been meant, the most frequent first.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    pub word: String,
    /// With the share of the documents that have it.
    pub suggestions: Vec<(f64, String)>,
}

/// Checks the words of a query, in its order.
///
/// # Errors
///
/// If the distance is out of range.
pub fn check(query: &Query, index: &Index, options: &SpellOptions<'_>) -> Result<Vec<Term>, SpellingError> {
    if !(1..=DISTANCE_MAX).contains(&options.distance) {
        return Err(SpellingError::Distance);
    }
    let mut words = Vec::new();
    query.root.visit(&mut |node| {
        if let Wanted::Word { word, .. } = &node.wanted {
            words.push(word.as_str());
        }
    });
    let totals = index.totals();
    let is_right = |word: &str| {
        index.dictionary().find(Space::WORDS, word).is_some()
            || options.exclude.iter().any(|words| words.contains(word))
    };
    let suggest = |word: &str| {
        let shape = Shape::Fuzzy(word.to_owned(), options.distance);
        let mut found: Vec<(f64, String)> = Vec::new();
        for text in expand(index, Space::WORDS, &shape, usize::MAX) {
            let dictionary = index.dictionary();
            let docs = dictionary.find(Space::WORDS, &text).map_or(0, |term| dictionary.docs(term));
            found.push((f64::from(docs) / (totals.docs.max(1) as f64), text));
        }
        for included in options.include.iter().copied().flatten() {
            let near = distance_within(word, included, usize::from(options.distance)).is_some();
            if near && !found.iter().any(|(_, text)| text[..] == **included) {
                found.push((0.0, included.to_string()));
            }
        }
        found.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
        found
    };
    let wrong = words.into_iter().filter(|word| !is_right(word));
    Ok(wrong.map(|word| Term { word: word.to_owned(), suggestions: suggest(word) }).collect())
}
