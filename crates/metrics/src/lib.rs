// SPDX-License-Identifier: BSD-3-Clause
//! HTTP server thread for metrics in the Prometheus format (`/metrics`), health checks
//! (`/health`, `/ready`), and a dashboard page (`/`).
//!
//! `serve.rs` accepts connections and answers requests; `access.rs` checks permissions;
//! `catalogue.rs` has one row per metric, `text.rs` writes the format, and `render.rs` combines
//! both; `panels.rs` provides the dashboard's data beyond metrics, and `history.rs` the last five
//! minutes of its plots.
//!
//! This crate never touches an event loop: it reads counters that the loops maintain anyway. It
//! must not lock a shard or read a key, since the world may be stopped for long. It knows no
//! Redis protocol.
#![forbid(unsafe_code)]

mod access;
mod catalogue;
mod connections;
mod health;
mod history;
mod page;
mod panels;
mod render;
mod serve;
mod text;

pub use render::render;
pub use serve::{bind, serve};
