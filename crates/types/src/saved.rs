// SPDX-License-Identifier: BSD-3-Clause
//! Code shared by the dump forms of the types.

/// A time before all others, at which nothing has expired.
pub(crate) const BEFORE_ALL: i64 = i64::MIN;

/// The fault of a collection with a repeated member.
pub(crate) const TWICE: &str = "a member that comes twice";
