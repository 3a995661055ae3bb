// SPDX-License-Identifier: BSD-3-Clause
//! Queries: from their text (dialect 2) to a tree.
//!
//! Field names are resolved while parsing, so a tree belongs to one schema. Nothing here sees an
//! index. Parsing is linear in the text, its recursion is bounded ([`DEPTH_MAX`]), and so is the
//! size of the tree.

mod ast;
mod dialect;
mod error;
mod lexer;
mod parser;
mod values;

pub use ast::{GeoArea, Knn, Node, Query, Range, Shape, TagMatch, VectorOptions, Wanted};
pub use error::QueryError;
pub use parser::{DEPTH_MAX, LEN_MAX, NODES_MAX, Options, parse};
pub use values::geo_unit;
