// SPDX-License-Identifier: BSD-3-Clause
//! The FT.* commands: their rows, and the bodies of all but queries.
//!
//! Names of indexes are no keys here: an index belongs to the server. Commands that make, change or
//! drop indexes run with the world stopped, so that their place among the changes of keys is the
//! same on this server, in its files and on its replicas.

mod define;
mod documents;
mod explain;
mod info;
mod profile;
mod rows;
mod words;

pub use rows::COMMANDS;
