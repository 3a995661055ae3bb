// SPDX-License-Identifier: BSD-3-Clause
//! What a client's change of a value means for one of its [parts](crate::parts).

use crate::Bytes;

#[derive(Clone, PartialEq, Debug)]
pub(crate) enum PartChange {
    Write(Bytes, Bytes),
    Remove(Bytes),
    /// Appends an element to the array that is this part.
    Append(Bytes, Bytes),
}
