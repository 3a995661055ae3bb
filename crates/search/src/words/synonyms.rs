// SPDX-License-Identifier: BSD-3-Clause
//! Groups of words that stand for the same (FT.SYNUPDATE, FT.SYNDUMP).
//!
//! They are looked up when a query is planned, so a group holds for all documents at once, those
//! indexed before it too.

use std::collections::{BTreeMap, BTreeSet};

use crate::text::fold_case;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synonyms {
    groups_of: BTreeMap<Box<str>, BTreeSet<Box<str>>>,
    words_of: BTreeMap<Box<str>, BTreeSet<Box<str>>>,
}

impl Synonyms {
    /// Adds words to a group, which may be new.
    pub fn add(&mut self, group: &str, words: impl IntoIterator<Item = impl AsRef<str>>) {
        for word in words {
            let word: Box<str> = fold_case(word.as_ref()).into();
            self.groups_of.entry(word.clone()).or_default().insert(group.into());
            self.words_of.entry(group.into()).or_default().insert(word);
        }
    }

    /// The words that stand for the same as one in lower case, without it.
    pub fn of<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a str> {
        let groups = self.groups_of.get(word).into_iter().flatten();
        let words = groups.filter_map(|group| self.words_of.get(group)).flatten();
        words.map(|one| &**one).filter(move |one| *one != word)
    }

    /// The groups of a word in lower case.
    pub fn groups<'a>(&'a self, word: &str) -> impl Iterator<Item = &'a str> {
        self.groups_of.get(word).into_iter().flatten().map(|group| &**group)
    }

    /// Each word with its groups.
    pub fn dump(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = &str>)> {
        self.groups_of.iter().map(|(word, groups)| (&**word, groups.iter().map(|group| &**group)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_all_their_groups_stand_for_the_same() {
        let mut synonyms = Synonyms::default();
        synonyms.add("g1", ["Boy", "child"]);
        synonyms.add("g2", ["child", "kid"]);
        assert_eq!(synonyms.of("child").collect::<Vec<_>>(), ["boy", "kid"]);
        assert_eq!(synonyms.of("boy").collect::<Vec<_>>(), ["child"]);
        assert_eq!(synonyms.of("other").count(), 0);
        let dump: Vec<(&str, Vec<&str>)> =
            synonyms.dump().map(|(word, groups)| (word, groups.collect())).collect();
        assert_eq!(dump, [("boy", vec!["g1"]), ("child", vec!["g1", "g2"]), ("kid", vec!["g2"])]);
    }
}
