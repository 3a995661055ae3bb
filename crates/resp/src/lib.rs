// SPDX-License-Identifier: BSD-3-Clause
//! RESP2 and RESP3: the request parser and the reply encoder.
//!
//! Flow: the event loop hands the bytes it received to [`RequestParser::next`], which names the arguments as
//! spans of those bytes; command bodies write their answers into a [`ReplyBuffer`]; the event loop sends what
//! [`ReplyBuffer::io_slices`] lists. Both ends are pure: bytes in, bytes out. [`request`] encodes
//! requests, for files and replicas.
//!
//! What this crate does not know: sockets, clocks, commands, keys. It never panics on what a client sends,
//! and never allocates more than the bytes that really arrived justify, whatever lengths they announce.
#![forbid(unsafe_code)]

pub mod error;
pub mod inline;
pub mod parse;
pub mod reply;
pub mod request;

mod decimal;
mod pending;

pub use error::ProtocolError;
pub use parse::{Limits, RequestParser, Span, Step};
pub use reply::{Deferred, Mark, Protocol, ReplyBuffer};
