// SPDX-License-Identifier: BSD-3-Clause
//! The index: documents in parts, and one dictionary of words and tags for all parts.

mod dictionary;
mod document;
mod moving;
mod ordered;
mod part;
mod postings;
mod record;
mod shared;
mod sort;
mod varint;

pub use dictionary::{Dictionary, Space, TermId};
pub use document::{Analysed, Analyser, Document, Value, ValueError};
pub use part::{DocId, DocRef, Part, PartSize};
pub use postings::{Hit, Reader, TagReader, WordReader};
pub use shared::{Index, PutError, Totals};
pub use sort::SortValue;
