//! The commands: one file a family, each row with its body and tests.
//!
//! A family exports `COMMANDS`, a list of [`Spec`]s. Bodies run under the locks that their specs name; nothing here blocks, takes a
//! shard lock for a key of its own, or performs I/O.

use braid_engine::Spec;

pub mod bitmap;
pub mod client;
pub mod command;
pub mod connection;
pub mod debug;
pub mod expire;
pub mod keys;
pub mod scan;
pub mod server;
pub mod string;
#[cfg(test)]
mod testing;
pub mod transaction;

/// All families.
pub const FAMILIES: &[&[Spec]] = &[
    bitmap::COMMANDS,
    client::COMMANDS,
    command::COMMANDS,
    connection::COMMANDS,
    debug::COMMANDS,
    expire::COMMANDS,
    keys::COMMANDS,
    scan::COMMANDS,
    server::COMMANDS,
    string::COMMANDS,
    transaction::COMMANDS,
];
