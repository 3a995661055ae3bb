// SPDX-License-Identifier: BSD-3-Clause
//! Named sets of words (FT.DICTADD, FT.DICTDEL, FT.DICTDUMP), for FT.SPELLCHECK.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dictionaries(BTreeMap<Box<str>, BTreeSet<Box<str>>>);

impl Dictionaries {
    /// Adds words; returns how many are new.
    pub fn add(&mut self, name: &str, words: impl IntoIterator<Item = impl AsRef<str>>) -> usize {
        let set = self.0.entry(name.into()).or_default();
        words.into_iter().filter(|word| set.insert(word.as_ref().into())).count()
    }

    /// Removes words; returns how many were there. A dictionary without words is none.
    pub fn remove(&mut self, name: &str, words: impl IntoIterator<Item = impl AsRef<str>>) -> usize {
        let Some(set) = self.0.get_mut(name) else { return 0 };
        let removed = words.into_iter().filter(|word| set.remove(word.as_ref())).count();
        if set.is_empty() {
            self.0.remove(name);
        }
        removed
    }

    pub fn get(&self, name: &str) -> Option<&BTreeSet<Box<str>>> {
        self.0.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_added_once_and_removed_once() {
        let mut all = Dictionaries::default();
        assert_eq!(all.add("d", ["helo", "hello", "helo"]), 2);
        assert_eq!(all.add("d", ["hello"]), 0);
        assert_eq!(all.remove("d", ["helo", "nosuch"]), 1);
        assert_eq!(all.get("d").map(BTreeSet::len), Some(1));
        assert_eq!((all.remove("d", ["hello"]), all.remove("x", ["a"])), (1, 0));
        assert_eq!(all.get("d"), None);
    }
}
