// SPDX-License-Identifier: BSD-3-Clause
//! The start of the table, before the first section.

/// Index after the last row of this empty section.
pub(crate) const END: usize = 0;
