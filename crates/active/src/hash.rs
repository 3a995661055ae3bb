// SPDX-License-Identifier: BSD-3-Clause
//! Hashes: an observed-remove set of fields, each with a value like a string's.
//!
//! A field that is set while another region removes it stays. HINCRBY and HINCRBYFLOAT add up as
//! INCR does, times of fields merge as keys' do.

use crate::Bytes;
use crate::members::Members;

pub type Hash = Members<Bytes>;
