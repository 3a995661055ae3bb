// SPDX-License-Identifier: BSD-3-Clause
//! Code shared by braid-bench, braid-top and braid-cluster: a server's address and connection,
//! its replies as values, its INFO, and its process statistics in `/proc`. Tests use its reply
//! parser.
//!
//! Works with any server that speaks the Redis protocol. This crate must not know the engine, the
//! commands or the server's own code; it sees a server as any client does.
#![forbid(unsafe_code)]

pub mod connection;
pub mod figures;
pub mod info;
pub mod options;
pub mod picture;
pub mod process;
pub mod reply;
pub mod stream;
pub mod target;
pub mod tls;
pub mod value;

pub use connection::Connection;
pub use info::Info;
pub use options::{Arguments, TargetOptions};
pub use stream::Stream;
pub use target::{Address, Target, cannot_connect};
pub use value::Value;
