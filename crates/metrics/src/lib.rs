// SPDX-License-Identifier: BSD-3-Clause
//! HTTP: metrics for Prometheus (`/metrics`), health checks (`/health`, `/ready`), and a page that plots the metrics (`/`).
//!
//! Flow: `serve.rs` accepts connections on a thread of its own and answers; `access.rs` says who may see what; `catalogue.rs`
//! has one row per metric, `text.rs` writes them in Prometheus' format; `panels.rs` has what the page shows beyond metrics.
//!
//! Nothing here reaches into an event loop: what is read are counters that loops keep anyway. Nothing may lock a shard or look
//! at a key, since the world may be stopped meanwhile. This crate knows no Redis protocol.
#![forbid(unsafe_code)]

mod access;
mod catalogue;
mod connections;
mod health;
mod page;
mod panels;
mod serve;
mod text;

pub use serve::{bind, serve};
pub use text::render;
