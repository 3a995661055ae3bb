// SPDX-License-Identifier: BSD-3-Clause
//! Pure data structures behind the Redis types; no server, no locks, no clock.

pub mod bits;
pub mod geohash;
pub mod hash;
pub mod hyperloglog;
pub mod int_set;
pub mod lcs;
pub mod lend;
mod lent_map;
pub mod list;
pub mod listpack;
pub mod lzf;
pub mod member_table;
pub mod set;
pub mod sorted_set;
pub mod stream;
mod tagged;
pub mod thin_block;
