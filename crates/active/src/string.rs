// SPDX-License-Identifier: BSD-3-Clause
//! Strings: the last writer wins, increments add up.
//!
//! SET, APPEND, SETRANGE and bit commands write the whole value. INCR, DECR and INCRBYFLOAT of
//! all regions since the last SET add up; a SET replaces the increments it saw, and increments it
//! had not seen are added to its value. After a DEL only the increments it had not seen remain.

use crate::Bytes;
use crate::amount::Amount;
use crate::cell::Cell;

/// The value as GET returns it.
pub fn shown<T: AsRef<[u8]> + Clone>(cell: &Cell<T>) -> Option<Bytes> {
    let Some(amount) = cell.amount() else { return cell.base().map(|text| text.as_ref().into()) };
    let base = match cell.base() {
        None => Amount::ZERO,
        // Increments of a value that has since become text do not show.
        Some(text) => match Amount::parse(text.as_ref()) {
            Some(base) => base,
            None => return Some(text.as_ref().into()),
        },
    };
    let mut out = Vec::new();
    base.plus(amount).write(&mut out);
    Some(out.into())
}
