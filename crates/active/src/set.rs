// SPDX-License-Identifier: BSD-3-Clause
//! Sets: observed-remove, so an addition that a removal had not seen wins.
//!
//! SADD of a member that is there gives it a new stamp: that it was added again has to survive a
//! concurrent SREM.

use crate::members::Members;

pub type Set = Members<()>;
