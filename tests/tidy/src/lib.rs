// SPDX-License-Identifier: BSD-3-Clause
//! Rules of the code's layout, checked on the text of the sources.
//!
//! A rule is a function from a [`Tree`] (path -> text) to violations, so each can be shown to
//! fail on a small made-up tree (`tests/planted.rs`). `tests/tree.rs` applies them to this
//! repository. Remaining violations are listed in `allowed.txt`, which may only shrink.
//!
//! The rules read tokens, not types: they never need to compile the code they judge, and must not
//! depend on any crate of the workspace.
#![forbid(unsafe_code)]

pub mod allowed;
pub mod house;
pub mod modules;
pub mod rules;
pub mod scan;
mod tree;
mod violation;

pub use tree::Tree;
pub use violation::Violation;

/// Applies every rule.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found: Vec<Violation> = rules::ALL.iter().flat_map(|(_, rule)| rule(tree)).collect();
    found.sort();
    found
}
