// SPDX-License-Identifier: BSD-3-Clause
//! A small blocking client of etcd's v3 API over its JSON gateway (etcd 3.4 and newer).
//!
//! [`Client`] has the calls, `endpoints.rs` selects the endpoint; `http.rs` sends one request to
//! one endpoint and classifies its errors; `transport.rs` opens connections; `json.rs` and
//! `kv.rs` have the gateway's formats; `watch.rs` reads the stream of a watch.
//!
//! Guarantees that failover relies on: an error other than [`Error::Unknown`] and
//! [`Error::Invalid`] means that the request was not executed; a request is never sent twice,
//! except after etcd has refused it because the login had expired; a request's bytes are never sent
//! before its call began. Therefore the caller can count a lease's time from the moment of its
//! call.
//!
//! Source of the formats: etcd's documentation, "gRPC gateway" and "etcd API" (3.4 to 3.6). This
//! crate reads no files and knows nothing of Redis.
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
