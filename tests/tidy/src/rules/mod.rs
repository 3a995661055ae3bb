// SPDX-License-Identifier: BSD-3-Clause
//! The rules: each is a function from the tree to its violations.

mod access;
mod budgets;
mod circles;
mod commands;
mod documents;
mod figures;
mod layers;
mod lengths;
mod licence;
mod profiles;
mod root;
mod unsafety;
mod unused;
mod words;
mod workflows;

use crate::{Tree, Violation};

pub type Rule = fn(&Tree) -> Vec<Violation>;

/// All rules by name.
pub const ALL: [(&str, Rule); 20] = [
    (layers::NAME, layers::check),
    (circles::NAME, circles::check),
    (lengths::FILES, lengths::files),
    (lengths::FUNCTIONS, lengths::functions),
    (lengths::COMMENTS, lengths::comments),
    (documents::NAME, documents::check),
    (figures::NAME, figures::check),
    (access::FILES, access::files),
    (access::LOCKS, access::locks),
    (access::CONNECTIONS, access::connections),
    (unsafety::UNLISTED, unsafety::unlisted),
    (unsafety::FORBID, unsafety::forbid),
    (commands::NAME, commands::check),
    (unused::NAME, unused::check),
    (workflows::NAME, workflows::check),
    (licence::NAME, licence::check),
    (root::NAME, root::check),
    (words::NAME, words::check),
    (budgets::NAME, budgets::check),
    (profiles::NAME, profiles::check),
];

fn violation(rule: &'static str, place: &str, line: usize, message: String) -> Violation {
    Violation { rule, place: place.to_owned(), line, message }
}

/// True if a path is one of these files, or below one of these folders.
fn is_below(path: &str, places: &[impl AsRef<str>]) -> bool {
    places
        .iter()
        .map(AsRef::as_ref)
        .any(|place| path == place || (place.ends_with('/') && path.starts_with(place)))
}
