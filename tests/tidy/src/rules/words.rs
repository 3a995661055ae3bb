// SPDX-License-Identifier: BSD-3-Clause
//! Identifiers use the field's words: those that a Redis or database engineer would search for.
//!
//! The list of exceptions has the identifiers that still use a replaced word, each once, wherever
//! and however often it occurs: it stays the same when code moves, and only a new name fails.

use std::collections::BTreeMap;

use super::violation;
use crate::house::{NAMES, OF_LIBRARIES, WORDS};
use crate::{Tree, Violation};

pub const NAME: &str = "word";

/// A longer identifier is a sentence: the name of a test.
const WORDS_OF_A_NAME: usize = 4;

/// The words of an identifier in lower case: those of `CamelCase` and of `snake_case` alike.
fn words(identifier: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in identifier.trim_start_matches("r#").split('_') {
        let mut after_small = true;
        for letter in part.chars() {
            match words.last_mut() {
                Some(word) if !(letter.is_uppercase() && after_small) => word.extend(letter.to_lowercase()),
                _ => words.push(letter.to_lowercase().collect()),
            }
            after_small = !letter.is_uppercase();
        }
        // The next part begins a word.
        words.push(String::new());
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What to use instead of this identifier.
fn instead(identifier: &str) -> Option<&'static str> {
    if OF_LIBRARIES.contains(&identifier) {
        return None;
    }
    let whole = NAMES.iter().find(|(name, _)| *name == identifier);
    let words = words(identifier);
    let of_word = || {
        let is_name = words.len() <= WORDS_OF_A_NAME;
        WORDS.iter().find(|(word, _)| is_name && words.iter().any(|other| other == word))
    };
    whole.or_else(of_word).map(|(_, instead)| *instead)
}

pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found: BTreeMap<&str, Violation> = BTreeMap::new();
    for (path, facts) in tree.rust().filter(|(path, _)| path.starts_with("crates/")) {
        for (identifier, line) in &facts.identifiers {
            if found.contains_key(identifier.as_str()) {
                continue;
            }
            if let Some(instead) = instead(identifier) {
                let message = format!("{path}:{line}: the field's word is: {instead}");
                found.insert(identifier, violation(NAME, identifier, 0, message));
            }
        }
    }
    found.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn identifiers_are_split_into_their_words() {
        assert_eq!(words("wants_NEWS"), ["wants", "news"]);
        assert_eq!(words("SPARE_INPUTS_CALM"), ["spare", "inputs", "calm"]);
        assert_eq!(words("ImportSeat"), ["import", "seat"]);
        assert_eq!(words("r#settle"), ["settle"]);
        assert_eq!(words("seated"), ["seated"]);
    }
}
