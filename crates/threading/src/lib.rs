// SPDX-License-Identifier: BSD-3-Clause
//! Event loops and threading models.
//!
//! Every model is a composition of the same three steps over clients that one thread at a time owns: read and
//! parse, execute, write ([`client_set`]). [`models`] says which thread does which of them.

pub mod accept;
mod adaptive_yield;
pub mod batch;
pub mod client;
pub mod client_set;
mod client_slab;
pub mod cron;
mod deferred_input;
pub mod event_loop;
pub mod models;
mod pool;
mod replica_output;

pub use models::start;
pub use pool::Pool;
