// SPDX-License-Identifier: BSD-3-Clause
//! Limits of the compact encodings of values; loaded values also obey them.

use braid_containers::limits::{HashLimits, ListLimits, PackedLimits, SetLimits};

/// The limits of all types.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub hash: HashLimits,
    pub list: ListLimits,
    pub set: SetLimits,
    pub sorted_set: PackedLimits,
}
