// SPDX-License-Identifier: BSD-3-Clause
//! Where the table begins: the section before the first one.

/// Position behind the last row of a section that has none.
pub(crate) const END: usize = 0;
