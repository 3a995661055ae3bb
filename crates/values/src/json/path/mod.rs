// SPDX-License-Identifier: BSD-3-Clause
//! Paths into documents, in both syntaxes: JSONPath (`$..a[?(@.x>1)]`), and the older one without a
//! `$` in front (`.a.b`, `a[0]`), which names the same steps and means the first match.
//!
//! ```text
//! steps.rs   what a path consists of
//! parse.rs   text to steps
//! eval.rs    steps to slots of a document, in Redis Stack's order; the conditions of filters
//! ```
//! A path never changes a document, and never refers to one.

pub mod eval;
mod parse;
mod steps;

pub use steps::{Path, Selector, Step};
