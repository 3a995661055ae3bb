// SPDX-License-Identifier: BSD-3-Clause
//! The start of the table: before the first section.

/// Position behind the last row of a section that has none.
pub(crate) const END: usize = 0;
