// SPDX-License-Identifier: BSD-3-Clause
//! The matches of a path in a document, with the error as a reply: `braid_values::json::path::eval`
//! for bodies of commands.

use braid_spec::CommandError;
use braid_values::json::doc::Doc;
use braid_values::json::packed::Slot;
use braid_values::json::path::eval::{self, TooManyVisits};
use braid_values::json::path::{Path, Step};

/// Calls `found` for every match until it returns false.
pub fn visit(doc: Doc<'_>, path: &Path<'_>, found: &mut dyn FnMut(Slot) -> bool) -> Result<(), CommandError> {
    eval::visit(doc, path, found).map_err(refusal)
}

/// The first match.
pub fn first(doc: Doc<'_>, path: &Path<'_>) -> Result<Option<Slot>, CommandError> {
    eval::first(doc, path).map_err(refusal)
}

/// The first match of some steps.
pub fn first_of(doc: Doc<'_>, steps: &[Step<'_>]) -> Result<Option<Slot>, CommandError> {
    eval::first_of(doc, steps).map_err(refusal)
}

/// All matches.
pub fn all(doc: Doc<'_>, path: &Path<'_>) -> Result<Vec<Slot>, CommandError> {
    eval::all(doc, path).map_err(refusal)
}

fn refusal(error: TooManyVisits) -> CommandError {
    CommandError::text(error.to_string())
}
