// SPDX-License-Identifier: BSD-3-Clause
//! A server of the run: started or already running, and pointed at its peers.

use std::collections::BTreeMap;

use braid_client::{Connection, Info, Target};

use super::options::{Named, Options};
use crate::server::Server;

/// How a server's peers are configured.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Linking {
    /// Braid: a directive, with its previous value.
    Directive(String),
    /// REPLICAOF, once for each peer.
    ReplicaOf,
}

/// The server's name and version. KeyDB reports its version as Redis', but has an INFO field of its
/// own.
fn version(info: &Info) -> String {
    let is_keydb = info.get("mvcc_depth").is_some();
    let redis = if is_keydb { "keydb" } else { "redis" };
    let names = [("braid_version", "braid"), ("valkey_version", "valkey"), ("redis_version", redis)];
    let found = names.iter().find_map(|(field, name)| Some(format!("{name} {}", info.get(field)?)));
    found.unwrap_or_else(|| "a server".into())
}

/// A server of the run.
pub struct Region {
    server: Server,
    /// The server's name and version: `braid 0.1.0`.
    pub version: String,
    linking: Linking,
    is_linked: bool,
}

impl Region {
    /// Starts or finds the server, and checks that it supports active-active replication.
    ///
    /// # Errors
    /// If the address is invalid, the server cannot be started or reached, or it does not support
    /// active-active replication.
    pub fn open(named: &Named, options: &Options) -> Result<Region, String> {
        let mut target = options.target.clone();
        // The reply parsing here assumes RESP2.
        target.resp3 = false;
        let server = match named {
            Named::Command(command) => Server::start(command, &target.target()?, &[])?,
            Named::Running(address) => {
                let uri =
                    if address.contains("://") { address.clone() } else { format!("redis://{address}") };
                target.take_uri(&uri).ok_or_else(|| format!("'{address}' is not an address"))?;
                Server::running(target.target()?)
            }
        };
        let mut region =
            Region { server, version: String::new(), linking: Linking::ReplicaOf, is_linked: false };
        region.look()?;
        Ok(region)
    }

    /// The server as a connection target.
    pub fn target(&self) -> &Target {
        &self.server.target
    }

    /// The server's address.
    pub fn address(&self) -> String {
        self.server.target.address.to_string()
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses the login.
    pub fn connect(&self) -> Result<Connection, String> {
        Connection::open(self.target())
            .map_err(|error| braid_client::cannot_connect(&self.target().address, &error))
    }

    fn told<T>(&self, result: std::io::Result<T>) -> Result<T, String> {
        result.map_err(|error| format!("{}: {error}", self.address()))
    }

    fn directive(&self, connection: &mut Connection, name: &str) -> Result<Option<String>, String> {
        let reply = self.told(connection.expect(&["CONFIG", "GET", name]))?;
        Ok(reply.elements().get(1).map(|value| value.text()))
    }

    fn look(&mut self) -> Result<(), String> {
        let mut connection = self.connect()?;
        let info = Info::parse(&self.told(connection.expect(&["INFO", "everything"]))?.text());
        self.version = version(&info);
        if self.directive(&mut connection, "active-replica")?.as_deref() != Some("yes") {
            return Err(format!(
                "{} ({}) does not take part: start it with active-replica yes",
                self.address(),
                self.version
            ));
        }
        if let Some(peers) = self.directive(&mut connection, "active-peers")? {
            self.linking = Linking::Directive(peers);
        }
        Ok(())
    }

    /// Points the server at exactly these peers.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses, or does not support several peers.
    pub fn link(&mut self, peers: &[(String, u16)]) -> Result<(), String> {
        let mut connection = self.connect()?;
        self.is_linked = true;
        if let Linking::Directive(_) = self.linking {
            let text: Vec<String> = peers.iter().map(|(host, port)| format!("{host}:{port}")).collect();
            self.told(connection.expect(&["CONFIG", "SET", "active-peers", &text.join(",")]))?;
            return Ok(());
        }
        if peers.len() > 1 && self.directive(&mut connection, "multi-master")?.as_deref() != Some("yes") {
            return Err(format!("{} needs multi-master yes for several peers", self.address()));
        }
        self.told(connection.expect(&["REPLICAOF", "NO", "ONE"]))?;
        for (host, port) in peers {
            self.told(connection.expect(&["REPLICAOF", host, &port.to_string()]))?;
        }
        Ok(())
    }

    /// Restores the server's previous peers, before the proxies go away.
    pub fn unlink(&mut self) {
        if !std::mem::take(&mut self.is_linked) {
            return;
        }
        let Ok(mut connection) = self.connect() else { return };
        let _ = match &self.linking {
            Linking::Directive(before) => connection.command(&["CONFIG", "SET", "active-peers", before]),
            Linking::ReplicaOf => connection.command(&["REPLICAOF", "NO", "ONE"]),
        };
    }

    /// The INFO fields about active-active replication with their numbers.
    ///
    /// # Errors
    /// If the server cannot be reached or refuses INFO.
    pub fn figures(&self) -> Result<BTreeMap<String, f64>, String> {
        let info = Info::parse(&self.told(self.connect()?.expect(&["INFO", "everything"]))?.text());
        let fields = info.with_prefix("active_");
        Ok(fields.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.unlink();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_kinds_are_distinguished() {
        for (text, expected) in [
            ("redis_version:7.2.4\nbraid_version:0.1.0\n", "braid 0.1.0"),
            ("redis_version:6.3.4\n# KeyDB\nmvcc_depth:0\n", "keydb 6.3.4"),
            ("redis_version:7.0.15\n", "redis 7.0.15"),
        ] {
            assert_eq!(version(&Info::parse(text)), expected);
        }
    }
}
