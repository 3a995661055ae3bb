// SPDX-License-Identifier: BSD-3-Clause
//! Code shared by the types' dump forms.

/// Earlier than any other time: nothing has expired by then.
pub(crate) const BEFORE_ALL: i64 = i64::MIN;

/// The error for a collection with a repeated member.
pub(crate) const TWICE: &str = "a duplicate member";
