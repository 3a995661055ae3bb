// SPDX-License-Identifier: BSD-3-Clause
//! Sets: observed-remove, so an addition wins over a removal that had not seen it.
//!
//! SADD of an existing member gives it a new stamp: the addition must survive a concurrent SREM.

use crate::members::Members;

pub type Set = Members<()>;
