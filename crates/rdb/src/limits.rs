// SPDX-License-Identifier: BSD-3-Clause
//! Thresholds between the forms of values, which apply to what is loaded, too.

use braid_containers::hash::HashLimits;
use braid_containers::list::ListLimits;
use braid_containers::set::SetLimits;
use braid_containers::sorted_set::PackedLimits;

/// The thresholds of all types.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    pub hash: HashLimits,
    pub list: ListLimits,
    pub set: SetLimits,
    pub sorted_set: PackedLimits,
}
