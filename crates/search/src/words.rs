// SPDX-License-Identifier: BSD-3-Clause
//! Words beside the index: synonyms, dictionaries, spelling, suggestions.

mod dictionaries;
mod spelling;
mod suggestions;
mod synonyms;

pub use dictionaries::Dictionaries;
pub use spelling::{DISTANCE_MAX, SpellOptions, SpellingError, Term, check};
pub use suggestions::{Suggested, Suggestions};
pub use synonyms::Synonyms;
