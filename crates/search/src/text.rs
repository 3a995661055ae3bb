// SPDX-License-Identifier: BSD-3-Clause
//! Texts: how they are cut into words, which words count, what a word's stem is, and how the words
//! that matched are shown.

mod fragments;
mod language;
mod stop_words;
mod tokens;

pub use fragments::{Highlighter, Summary, highlight, summarize};
pub use language::{Language, STEMMED_LEN_MIN, Stems};
pub use stop_words::StopWords;
pub use tokens::{TOKEN_LEN_MAX, Token, fold_case, is_separator, tokens};
