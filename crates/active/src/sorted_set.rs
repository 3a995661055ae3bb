// SPDX-License-Identifier: BSD-3-Clause
//! Sorted sets: observed-remove membership, the last ZADD wins, ZINCRBY adds up.
//!
//! A ZREM removes the score and the increments it saw; a member with an unseen increment stays,
//! with only that increment as its score.

use crate::cell::Cell;
use crate::members::Members;

pub type SortedSet = Members<f64>;

/// A member's visible score.
pub fn score(cell: &Cell<f64>) -> Option<f64> {
    let Some(amount) = cell.amount() else { return cell.base().copied() };
    // The sum is rounded once, so the order of the increments does not matter.
    Some(cell.base().copied().unwrap_or(0.0) + amount.to_float())
}
