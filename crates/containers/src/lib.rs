// SPDX-License-Identifier: BSD-3-Clause
//! Pure data structures of general use; no server, no locks, no clock.
//!
//! The structures of single value types stand in those types' folders (crate `types`).

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
