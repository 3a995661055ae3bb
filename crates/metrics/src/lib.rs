//! HTTP: figures for Prometheus (`/metrics`), and a page that plots them (`/`).
//!
//! One thread of its own answers, and nothing here reaches into a loop: figures are read from counters that loops keep anyway. Only what is
//! safe to read while the world is stopped is read: no shard is locked, no key looked at. This crate knows no Redis protocol; who may see
//! the figures is decided in `access.rs`.

mod access;
mod page;
mod serve;
mod text;

pub use serve::{bind, serve};
pub use text::render;
