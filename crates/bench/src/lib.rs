// SPDX-License-Identifier: BSD-3-Clause
//! braid-bench: a load generator for servers that speak the Redis protocol, efficient enough not to
//! be the bottleneck.
//!
//! Flow: [`options`] turns a command line into a plan; [`session`] opens the connections and runs
//! passes over them. Each thread runs [`worker`]'s loop, which sends requests made by [`request`]
//! (keys and sizes by [`distributions`]) and counts replies with [`reply_scanner`] in a [`tally`].
//! [`plan`] repeats passes and summarizes them with [`statistics`]; [`output`] prints. [`compare`]
//! does all that for several servers in turn, which [`server`] starts and stops, and [`report`]
//! draws the result with [`plot`]. For a cluster, [`cluster`] is the slot map and `routing` sends
//! each request to its primary; [`server_cluster`] starts one. [`active`] is a separate kind of
//! run, for several active-active servers with links that are cut and healed, and [`vectors`] one
//! for vector sets, whose results have a quality beside their rate.
//!
//! It must never change a server's data beyond the load (FLUSHDB only on request), accept a result
//! with errors in it, or measure itself instead of the server without a warning.
#![forbid(unsafe_code)]

pub mod active;
pub mod cluster;
pub mod compare;
pub mod distributions;
pub mod floor;
pub mod options;
pub mod output;
pub mod plan;
pub mod plot;
pub mod presets;
pub mod progress;
pub mod recorder;
pub mod reply_scanner;
pub mod report;
pub mod request;
mod routing;
pub mod server;
pub mod server_cluster;
pub mod session;
pub mod statistics;
pub mod table;
pub mod tally;
pub mod vectors;
pub mod worker;
