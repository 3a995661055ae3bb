// SPDX-License-Identifier: BSD-3-Clause
//! Languages and their stems.
//!
//! A word is indexed under its stem as well, with `+` before it, so that `running` finds `runs` and
//! `"running"` in a phrase does not.

use std::borrow::Cow;

use rust_stemmers::{Algorithm, Stemmer};

/// Shorter words are their own stems.
pub const STEMMED_LEN_MIN: usize = 4;

macro_rules! languages {
    ($($name:ident $text:literal $algorithm:expr,)*) => {
        /// The languages that FT.CREATE takes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Language { $($name,)* }

        impl Language {
            pub fn parse(name: &[u8]) -> Option<Language> {
                $(if name.eq_ignore_ascii_case($text.as_bytes()) { return Some(Language::$name); })*
                None
            }

            pub fn name(self) -> &'static str {
                match self { $(Language::$name => $text,)* }
            }

            fn algorithm(self) -> Option<Algorithm> {
                match self { $(Language::$name => $algorithm,)* }
            }
        }
    };
}

languages! {
    Arabic "arabic" Some(Algorithm::Arabic),
    Danish "danish" Some(Algorithm::Danish),
    Dutch "dutch" Some(Algorithm::Dutch),
    English "english" Some(Algorithm::English),
    Finnish "finnish" Some(Algorithm::Finnish),
    French "french" Some(Algorithm::French),
    German "german" Some(Algorithm::German),
    Greek "greek" Some(Algorithm::Greek),
    Hungarian "hungarian" Some(Algorithm::Hungarian),
    Italian "italian" Some(Algorithm::Italian),
    Norwegian "norwegian" Some(Algorithm::Norwegian),
    Portuguese "portuguese" Some(Algorithm::Portuguese),
    Romanian "romanian" Some(Algorithm::Romanian),
    Russian "russian" Some(Algorithm::Russian),
    Spanish "spanish" Some(Algorithm::Spanish),
    Swedish "swedish" Some(Algorithm::Swedish),
    Tamil "tamil" Some(Algorithm::Tamil),
    Turkish "turkish" Some(Algorithm::Turkish),
    // Accepted, and not stemmed: there is no algorithm for them here.
    Armenian "armenian" None,
    Basque "basque" None,
    Catalan "catalan" None,
    Hindi "hindi" None,
    Indonesian "indonesian" None,
    Irish "irish" None,
    Lithuanian "lithuanian" None,
    Nepali "nepali" None,
    Serbian "serbian" None,
    Yiddish "yiddish" None,
}

/// Finds stems in one language.
pub struct Stems(Option<Stemmer>);

impl Stems {
    pub fn of(language: Language) -> Stems {
        Stems(language.algorithm().map(Stemmer::create))
    }

    /// The stem of a word in lower case, if it may have one. It may be the word itself.
    pub fn stem<'a>(&self, word: &'a str) -> Option<Cow<'a, str>> {
        if word.len() < STEMMED_LEN_MIN { None } else { self.stem_any(word) }
    }

    /// The stem of a query's word, however short: longer words may have it.
    pub fn stem_any<'a>(&self, word: &'a str) -> Option<Cow<'a, str>> {
        self.0.as_ref().map(|stemmer| stemmer.stem(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_stems_of_their_language() {
        let english = Stems::of(Language::English);
        assert_eq!(english.stem("running").as_deref(), Some("run"));
        assert_eq!(english.stem("ponies").as_deref(), Some("poni"));
        assert_eq!(english.stem("run"), None);
        assert_eq!(Stems::of(Language::German).stem("häuser").as_deref(), Some("haus"));
        assert_eq!(Stems::of(Language::Basque).stem("etxeak"), None);
        assert_eq!(Language::parse(b"GERMAN"), Some(Language::German));
        assert_eq!(Language::parse(b"klingon"), None);
        assert_eq!(Language::Irish.name(), "irish");
    }
}
