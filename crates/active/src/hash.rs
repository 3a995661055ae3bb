// SPDX-License-Identifier: BSD-3-Clause
//! Hashes: an observed-remove set of fields, each with a value that merges like a string.
//!
//! A field that is set while another region removes it stays. HINCRBY and HINCRBYFLOAT add up
//! like INCR; expiry times of fields merge like those of keys.

use crate::Bytes;
use crate::members::Members;

pub type Hash = Members<Bytes>;
