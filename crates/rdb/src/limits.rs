// SPDX-License-Identifier: BSD-3-Clause
//! Thresholds between the forms of values, which apply to what is loaded, too.

use braid_containers::limits::{HashLimits, ListLimits, PackedLimits, SetLimits};

/// The thresholds of all types.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub hash: HashLimits,
    pub list: ListLimits,
    pub set: SetLimits,
    pub sorted_set: PackedLimits,
}
