// SPDX-License-Identifier: BSD-3-Clause
//! General-purpose data structures, pure: no server, no locks, no clock.
//!
//! A structure that belongs to a single value type is in that type's folder (crate `types`).

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
pub mod spiral;
pub mod tagged;
pub mod thin_block;
