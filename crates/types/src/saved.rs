// SPDX-License-Identifier: BSD-3-Clause
//! What the dump forms of the types share.

/// A time before all others: at it nothing has expired.
pub(crate) const BEFORE_ALL: i64 = i64::MIN;

/// What is said of a collection with the same member twice.
pub(crate) const TWICE: &str = "a member that comes twice";
