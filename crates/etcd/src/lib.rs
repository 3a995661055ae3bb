// SPDX-License-Identifier: BSD-3-Clause
//! A small blocking client of etcd's v3 API over its JSON gateway (etcd 3.4 and newer).
//!
//! [`Client`] has the calls, `endpoints.rs` chooses who gets them; `http.rs` sends one request to
//! one endpoint and tells its errors apart; `transport.rs` opens connections; `json.rs` and `kv.rs`
//! have the gateway's forms; `watch.rs` reads the stream of a watch.
//!
//! What failover relies on: an error other than [`Error::Unknown`] and [`Error::Invalid`] means
//! that the request was not executed; a request is never sent twice, but for one that etcd refused
//! because its login had expired; the bytes of a request are sent after its call began. A lease's
//! time counts from when the caller made the call.
//!
//! Source of the forms: etcd's documentation, "gRPC gateway" and "etcd API" (3.4 to 3.6). This
//! crate reads no files and knows no Redis.
#![forbid(unsafe_code)]

mod client;
mod endpoints;
mod error;
mod http;
mod json;
mod kv;
mod options;
mod transport;
mod watch;

pub use client::{Client, Status};
pub use error::Error;
pub use kv::{Compare, KeyValue, LeaseId, Operation, Outcome, Transaction};
pub use options::Options;
pub use watch::{Batch, Event, Watch};

#[cfg(test)]
mod tests;
