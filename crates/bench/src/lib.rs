// SPDX-License-Identifier: BSD-3-Clause
//! braid-bench: a load generator for every server that speaks the Redis protocol, cheap enough not
//! to be the bottleneck.
//!
//! Flow: [`options`] turns a command line into a plan; [`session`] opens the connections and runs
//! passes over them, each thread in [`worker`]'s loop, which sends what [`request`] makes (keys and
//! sizes drawn by [`distributions`]) and counts with [`reply_scanner`] into a [`tally`]; [`plan`]
//! repeats passes and sums them up with [`statistics`]; [`output`] prints. [`compare`] does all
//! that for several servers in turn, which [`server`] starts and stops, and [`report`] draws the
//! result with
//! [`plot`].
//!
//! What it must never do: change a server's data beyond what the load asks for (FLUSHDB only on
//! request), call a result good that had errors in it, or measure itself instead of the server
//! without saying so.
#![forbid(unsafe_code)]

pub mod compare;
pub mod distributions;
pub mod options;
pub mod output;
pub mod plan;
pub mod plot;
pub mod presets;
pub mod progress;
pub mod reply_scanner;
pub mod report;
pub mod request;
pub mod server;
pub mod session;
pub mod statistics;
pub mod table;
pub mod tally;
pub mod worker;
