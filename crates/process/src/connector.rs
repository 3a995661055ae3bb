// SPDX-License-Identifier: BSD-3-Clause
//! Connections to other servers: links of replicas and of active-active peers, slot moves, MIGRATE,
//! and requests to other nodes. All are opened here, so that the address they come from, TLS and
//! time-outs follow the same settings.

use std::fmt;
use std::io;
use std::time::Duration;

use braid_config::Config;
use braid_net::outgoing::{ConnectOptions, Outgoing};
use braid_net::target::{Broken, Connection};

use crate::tls;

/// How to connect to other servers.
pub struct Connector<'c> {
    config: &'c Config,
    is_tls: bool,
    timeout: Duration,
    is_multipath: bool,
}

/// Why no connection was opened.
#[derive(Debug)]
pub enum ConnectError {
    /// The settings for TLS cannot be used.
    Settings(String),
    Socket(io::Error),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Settings(why) => formatter.write_str(why),
            ConnectError::Socket(error) => error.fmt(formatter),
        }
    }
}

impl<'c> Connector<'c> {
    /// `timeout`: for each address of a host, and for each wait of the TLS handshake.
    pub fn new(config: &'c Config, is_tls: bool, timeout: Duration) -> Connector<'c> {
        Connector { config, is_tls, timeout, is_multipath: false }
    }

    /// For links of replicas and active-active peers (`tls-replication`).
    pub fn of_links(config: &'c Config, timeout: Duration) -> Connector<'c> {
        Connector::new(config, config.tls_replication(), timeout)
    }

    /// For nodes of the cluster (`tls-cluster`).
    pub fn of_cluster(config: &'c Config, timeout: Duration) -> Connector<'c> {
        Connector::new(config, config.tls_cluster(), timeout)
    }

    /// Also offers multipath TCP.
    #[must_use]
    pub fn with_multipath(self, is_multipath: bool) -> Connector<'c> {
        Connector { is_multipath, ..self }
    }

    /// Connects to the first address of the host that accepts.
    ///
    /// # Errors
    /// The settings for TLS cannot be used, or no address accepts in time.
    pub fn connect(&self, host: &str, port: u16) -> Result<Outgoing, ConnectError> {
        let tls = self.is_tls.then(|| tls::client_config(self.config)).transpose();
        let options = ConnectOptions {
            source: self.config.bind_source_addr().to_string(),
            tls: tls.map_err(ConnectError::Settings)?,
            is_multipath: self.is_multipath,
            timeout: self.timeout,
        };
        Outgoing::connect(host, port, &options).map_err(ConnectError::Socket)
    }

    /// A connection for requests that are answered by lines.
    ///
    /// # Errors
    /// As [`Connector::connect`].
    pub fn open(&self, host: &str, port: u16) -> Result<Connection, ConnectError> {
        self.connect(host, port).map(Connection::new)
    }

    /// A connection for a few requests, logged in as replicas do (`masteruser`, `masterauth`), with
    /// this connector's time-out for each wait. `broken`: how a broken connection is reported.
    ///
    /// # Errors
    /// The server cannot be reached in time, or refuses the password.
    pub fn open_logged_in(
        &self,
        host: &str,
        port: u16,
        broken: impl Fn(Broken) -> String,
    ) -> Result<Connection, String> {
        let mut connection = self.open(host, port).map_err(|error| error.to_string())?;
        connection.set_timeout(self.timeout).map_err(&broken)?;
        connection.log_in(&self.config.masteruser(), &self.config.masterauth()).map_err(&broken)??;
        Ok(connection)
    }
}
