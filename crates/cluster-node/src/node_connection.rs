// SPDX-License-Identifier: BSD-3-Clause
//! A connection to another node for a few requests: logged in as replicas do, with one limit for
//! each wait. Slot moves and MIGRATE have limits and credentials of their own.

use std::time::Duration;

use braid_executor::engine::Engine;
use braid_net::target::{Broken, Connection, Target};

/// Connects and logs in (`masteruser`, `masterauth`). `broken`: how a broken connection is
/// reported.
///
/// # Errors
/// The node cannot be reached in time, or refuses the password.
pub(crate) fn open(
    engine: &Engine,
    (host, port, is_tls): (&str, u16, bool),
    patience: Duration,
    broken: impl Fn(Broken) -> String,
) -> Result<Connection, String> {
    let config = &engine.config;
    let target = Target { host: host.to_owned(), port, credentials: None, tls: is_tls };
    let options = braid_process::tls::connect_options(config, is_tls, patience)?;
    let mut connection = Connection::open(&target, &options).map_err(|error| error.to_string())?;
    connection.set_timeout(patience).map_err(&broken)?;
    connection.log_in(&config.masteruser(), &config.masterauth()).map_err(&broken)??;
    Ok(connection)
}
