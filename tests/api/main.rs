// SPDX-License-Identifier: BSD-3-Clause
//! The server as programs use it: through a client library, on several connections and threads,
//! by topic.
//!
//!   cargo test -p braid-tests --test api
//!   cargo test -p braid-tests --test api strings::        one topic
//!
//! Deliberate differences from stock servers (`INFO threads` ...) are tested only against Braid.

mod access;
mod advisories;
mod atomicity;
mod blocking;
mod clients;
mod closing;
mod cluster;
mod configuration;
mod crashes;
mod eviction;
mod expiry;
mod fairness;
mod feeds;
mod hot_values;
mod keys;
mod lifecycle;
mod logging;
mod long_commands;
mod long_scripts;
mod messages;
mod metrics;
mod migrate;
mod moving;
mod page;
mod scanning;
mod script_debugger;
mod search;
mod strings;
mod threads;
mod under_load;
mod unread_messages;
mod vectors;
mod watchdog;
mod watching;
