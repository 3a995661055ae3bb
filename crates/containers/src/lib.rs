//! Pure data structures behind the Redis types; no server, no locks, no clock.

pub mod hash;
pub mod int_set;
pub mod list;
pub mod listpack;
pub mod lzf;
pub mod member_table;
pub mod set;
pub mod thin_block;
pub mod sorted_set;
pub mod bits;
pub mod geohash;
pub mod hyperloglog;
pub mod lcs;
pub mod stream;
