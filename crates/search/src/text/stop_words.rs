// SPDX-License-Identifier: BSD-3-Clause
//! Words too common to be searched: they are not indexed, and queries ignore them outside phrases.

use std::sync::Arc;

/// The list that RediSearch's documentation gives.
const DEFAULT: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no",
    "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to",
    "was", "will", "with",
];

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct StopWords(Option<Arc<[Box<str>]>>);

impl StopWords {
    /// A list of one's own (STOPWORDS of FT.CREATE); it may be empty.
    pub fn of(words: impl IntoIterator<Item = impl AsRef<str>>) -> StopWords {
        let mut words: Vec<Box<str>> =
            words.into_iter().map(|word| word.as_ref().to_lowercase().into()).collect();
        words.sort_unstable();
        words.dedup();
        StopWords(Some(words.into()))
    }

    pub fn contains(&self, word: &str) -> bool {
        match &self.0 {
            None => word.len() <= 5 && DEFAULT.binary_search(&word).is_ok(),
            Some(words) => words.binary_search_by(|one| (**one).cmp(word)).is_ok(),
        }
    }

    /// The list, if it is not the default one.
    pub fn own(&self) -> Option<&[Box<str>]> {
        self.0.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_list_is_sorted_and_a_list_of_ones_own_replaces_it() {
        assert!(DEFAULT.is_sorted());
        let default = StopWords::default();
        assert!(default.contains("the") && default.contains("their") && !default.contains("hello"));
        let own = StopWords::of(["Foo", "bar"]);
        assert!(own.contains("foo") && own.contains("bar") && !own.contains("the"));
        assert!(!StopWords::of([""; 0]).contains("the"));
    }
}
