// SPDX-License-Identifier: BSD-3-Clause
//! Sorted sets: observed-remove membership, ZADD's last writer wins, ZINCRBY adds up.
//!
//! A ZREM takes the score and the increments that it saw; a member with an increment that it had
//! not seen stays, and has only that as its score.

use crate::cell::Cell;
use crate::members::Members;

pub type SortedSet = Members<f64>;

/// A member's score.
pub fn score(cell: &Cell<f64>) -> Option<f64> {
    let Some(amount) = cell.amount() else { return cell.base().copied() };
    // One rounding, of the sum, in whatever order the increments came.
    Some(cell.base().copied().unwrap_or(0.0) + amount.to_float())
}
