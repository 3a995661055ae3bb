//! Between the keyspace and Redis's format of values: what an entry holds as the format sees it, and back.
//!
//! This crate knows neither clients nor commands.

mod value;

pub use value::{from_rdb, to_rdb};
