// SPDX-License-Identifier: BSD-3-Clause
//! The composition root: creates the [`Engine`](braid_executor::Engine) with the services that the
//! configuration asks for, applies changes of settings to them, and shuts all of them down in
//! order.
#![forbid(unsafe_code)]

pub mod follow_settings;
pub mod shutdown;
mod start;

pub use start::start;
