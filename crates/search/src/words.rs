// SPDX-License-Identifier: BSD-3-Clause
//! Words beside the index: synonyms, dictionaries, spelling.

mod dictionaries;
mod spelling;
mod synonyms;

pub use dictionaries::Dictionaries;
pub use spelling::{DISTANCE_MAX, SpellOptions, SpellingError, Term, check};
pub use synonyms::Synonyms;
