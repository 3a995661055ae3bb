// SPDX-License-Identifier: BSD-3-Clause
//! HTTP server thread for metrics in Prometheus' format (`/metrics`), health checks (`/health`,
//! `/ready`), and a dashboard page (`/`).
//!
//! `serve.rs` accepts connections and answers; `access.rs` decides who may see what; `catalogue.rs`
//! has one row per metric, `text.rs` writes the format, and `render.rs` puts both together;
//! `panels.rs` has the dashboard's data beyond metrics.
//!
//! Nothing here reaches into an event loop: it reads counters that the loops keep anyway. Nothing
//! may lock a shard or look at a key, since the world may be stopped for long. This crate knows no
//! Redis protocol.
#![forbid(unsafe_code)]

mod access;
mod catalogue;
mod connections;
mod health;
mod page;
mod panels;
mod render;
mod serve;
mod text;

pub use render::render;
pub use serve::{bind, serve};
