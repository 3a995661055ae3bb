// SPDX-License-Identifier: BSD-3-Clause
//! Event loops and threading models.
//!
//! Every model is a composition of the same three steps over clients that one thread at a time
//! owns: read and parse, execute, write. From the bottom up: a client ([`client`]) and the parsed
//! requests of several ([`batch`]); the clients of a thread, with steps one and three
//! ([`client_set`]); the loop, with step two ([`event_loop`]); and which thread does which step
//! ([`models`]).

pub mod accept;
mod adaptive_yield;
pub mod batch;
pub mod client;
pub mod client_set;
mod client_slab;
pub mod cron;
mod deferred_input;
pub mod event_loop;
pub mod loop_loads;
pub mod models;
mod pool;
mod replica_output;

pub use models::start;
pub use pool::Pool;
