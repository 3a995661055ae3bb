// SPDX-License-Identifier: BSD-3-Clause
//! RESP2 and RESP3: the request parser and the reply encoder.
//!
//! Flow: the event loop passes received bytes to [`RequestParser::next`], which returns the
//! arguments as spans of those bytes; command bodies write their replies into a [`ReplyBuffer`];
//! the event loop sends the slices of [`ReplyBuffer::io_slices`]. Both ends are pure: bytes in,
//! bytes out. [`request`] encodes requests for files and replicas.
//!
//! This crate knows no sockets, clocks, commands or keys. It never panics on client input, and
//! never allocates more than the received bytes justify, whatever lengths they announce.
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
