// SPDX-License-Identifier: BSD-3-Clause
//! Event loops and threading models.
//!
//! Every model is a composition of the same three steps over clients that one thread at a time owns: read and
//! parse, execute, write ([`steps`]). [`models`] says which thread does which of them.

pub mod accept;
mod balance;
pub mod batch;
pub mod client;
mod clients;
mod crew;
pub mod cron;
pub mod event_loop;
mod feed;
mod give_way;
mod keep;
mod leave;
mod mail;
pub mod models;
mod pool;
pub mod push;
mod settle;
mod shed;
pub mod steps;
pub mod travel;

pub use models::start;
pub use pool::Pool;
