// SPDX-License-Identifier: BSD-3-Clause
//! Full-text search without a server: what FT.* commands do once their arguments are read.
//!
//! A query goes from [`query::parse`] (text to tree) over [`execute::Plan`] (terms looked up and
//! weighed over the whole index) to [`execute::Search`] (slices over the parts, the best results).
//! [`aggregate`] makes rows of results. [`index::Index`] holds the documents; [`schema`] says what
//! of them, [`text`] how texts become words. [`words`] has what stands beside an index: synonyms,
//! dictionaries, spelling.
//!
//! # How a server uses it
//!
//! *Parts.* An index is cut into parts, 16 to 64, and a document's part follows from its key's
//! shard: `shard % parts`. Each part has a lock of its own within the index. Whoever changes a key
//! calls [`index::Index::put`] or [`index::Index::remove`] while it holds the lock of the key's
//! shard, and before it answers: then every client finds what was acknowledged, and calls for one
//! key do not overlap, which is the only thing that the index asks for. What a change costs is
//! mostly the analysis of the text, which needs no lock.
//!
//! *Locks.* The order is: the shard, the part, the dictionary. A query takes one part at a time,
//! for reading, and no shard. Therefore values that the index does not have are loaded when a
//! slice is over, by the keys of its hits, never from within.
//!
//! *Slices.* [`execute::Search::slice`] looks at 8,192 documents of one part and unlocks it; a
//! writer waits for no more than that. Between slices the caller looks at the time
//! (`search-timeout`), at whether the client is still there, and lets others run. Documents keep
//! their numbers while they are replaced, so the next slice goes on where the last one ended. A
//! document that changes during a query is seen as it was or as it is, once.
//!
//! *Bounds.* Queries: [`query::LEN_MAX`], [`query::DEPTH_MAX`], [`query::NODES_MAX`]. Forms of
//! words: [`execute::PlanOptions::expansions_max`]; the dictionary is unlocked every 2,048 words
//! while they are looked for. Results: [`execute::SearchOptions::results_max`], `LIMIT`'s offset
//! and count; what does not get among them is never copied. Rows, groups and collected values:
//! [`aggregate::Pipeline::rows_max`]. Words of documents are cut at [`text::TOKEN_LEN_MAX`].
//!
//! *Vectors* are the caller's, behind [`execute::Vectors`]. It knows documents by the
//! [`index::DocRef`] that `put` and `remove` return.
//!
//! # Invariants
//!
//! Nothing here knows sessions, keys' values, files, clocks or threads. No input panics: neither a
//! query nor a document. Postings are changed in place, block by block; nothing is left of a
//! removed document, and nothing is cleaned up later.
//!
//! # Known differences from RediSearch 2.10
//!
//! Letters beyond ASCII are folded to lower case. A phrase needs a word as often as it has it.
//! Suffixes, infixes, patterns and fuzzy words are looked for among words, not among stems. A sign
//! or a field's name holds for the one thing that follows it, and `|` binds most loosely, whatever
//! its sides are. All alternatives that match count in a score. The distance between words is the
//! smallest one. The average length is that of the documents that are there. `*` scores documents
//! without texts like others, not infinitely. Synonyms hold for all documents at once. In
//! aggregations a missing value makes an expression's result missing, and does not end the rows;
//! averages are over the values that there are. Fragments of SUMMARIZE are the first ones of the
//! text, whatever words are in them.
//!
//! Not there: GEOSHAPE, PHONETIC, payloads with HAMMING, FT.HYBRID, `matched_terms`, Chinese
//! segmentation, NOOFFSETS and its kin (a server may accept them: they change nothing that a query
//! finds).

#![forbid(unsafe_code)]

pub mod aggregate;
pub mod execute;
pub mod index;
pub mod query;
pub mod schema;
pub mod text;
pub mod words;
