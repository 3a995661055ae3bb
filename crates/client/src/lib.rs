// SPDX-License-Identifier: BSD-3-Clause
//! What braid-bench and braid-top share: where a server is and how to reach it, its replies as
//! values, its INFO, and what `/proc` says of its process. Tests use its parser of replies.
//!
//! Works with any server that speaks the Redis protocol. What this crate does not know: the engine,
//! the commands, the server's own code; it sees a server as every client does.
#![forbid(unsafe_code)]

pub mod connection;
pub mod figures;
pub mod info;
pub mod options;
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
