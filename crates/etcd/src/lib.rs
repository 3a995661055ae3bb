// SPDX-License-Identifier: BSD-3-Clause
//! A small client of etcd (v3) over its JSON gateway: keys, transactions, leases and a watch.
//!
//! Calls block. A failed call says whether it may have been executed ([`Error::Unknown`]): nothing
//! is tried again by itself unless it certainly was not.
//!
//! Source: etcd documentation, "gRPC gateway" and "etcd API" (3.4 to 3.6). In the gateway's JSON
//! bytes are base64, 64-bit integers are strings, and fields that are zero, false or empty are left
//! out.

mod client;
mod error;
mod json;
mod watch;

pub use client::{Client, Options};
pub use error::Error;
pub use json::{Compare, KeyValue, Operation, Outcome, Range};
pub use watch::Watch;
