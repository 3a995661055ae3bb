// SPDX-License-Identifier: BSD-3-Clause
//! Data structures of general use, pure: no server, no locks, no clock.
//!
//! Structures that belong to a single value type are in that type's folder (crate `types`).

pub mod bits;
pub mod cow;
pub mod cow_map;
pub mod geohash;
pub mod hyperloglog;
pub mod int_set;
pub mod lcs;
pub mod limits;
pub mod listpack;
pub mod lzf;
pub mod member_table;
pub mod tagged;
pub mod thin_block;
