// SPDX-License-Identifier: BSD-3-Clause
//! Strings: the last writer wins, increments add up.
//!
//! SET, APPEND, SETRANGE and bits write the whole value. INCR, DECR and INCRBYFLOAT of all regions
//! since the last SET add up; a SET wins over the increments that it saw, and those that it had not
//! seen count on top of it. After a DEL only increments that it had not seen remain.

use crate::Bytes;
use crate::amount::Amount;
use crate::cell::Cell;

/// What GET shows.
pub fn shown(cell: &Cell<Bytes>) -> Option<Bytes> {
    let Some(amount) = cell.amount() else { return cell.base().cloned() };
    let base = match cell.base() {
        None => Amount::ZERO,
        // Increments of what has become a text meanwhile do not show.
        Some(text) => match Amount::parse(text) {
            Some(base) => base,
            None => return Some(text.clone()),
        },
    };
    let mut out = Vec::new();
    base.plus(amount).write(&mut out);
    Some(out.into())
}
