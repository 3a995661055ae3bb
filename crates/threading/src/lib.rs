//! Event loops and threading models.
//!
//! Every model is a composition of the same three steps over clients that one thread at a time owns: read and
//! parse, execute, write ([`steps`]). [`parallel`] does all three on the thread that polls the client.

pub mod accept;
pub mod batch;
pub mod client;
pub mod cron;
pub mod event_loop;
pub mod parallel;
pub mod steps;
