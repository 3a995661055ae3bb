// SPDX-License-Identifier: BSD-3-Clause
//! A server of the run: started or found, and pointed at its peers.

use std::collections::BTreeMap;

use braid_client::{Connection, Info, Target};

use super::options::{Named, Options};
use crate::server::Server;

/// How a server is told its peers.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Linking {
    /// Braid's: a directive, with the value that it had.
    Directive(String),
    /// REPLICAOF, once for each peer.
    ReplicaOf,
}

/// Name and version. KeyDB calls its version Redis', and has a section of its own.
fn version(info: &Info) -> String {
    let is_keydb = info.get("mvcc_depth").is_some();
    let redis = if is_keydb { "keydb" } else { "redis" };
    let names = [("braid_version", "braid"), ("valkey_version", "valkey"), ("redis_version", redis)];
    let found = names.iter().find_map(|(field, name)| Some(format!("{name} {}", info.get(field)?)));
    found.unwrap_or_else(|| "a server".into())
}

/// A server.
pub struct Region {
    server: Server,
    /// As it tells them: `braid 0.1.0`.
    pub version: String,
    linking: Linking,
    is_linked: bool,
}

impl Region {
    /// Starts or finds the server, and looks whether it can take part.
    pub fn open(named: &Named, options: &Options) -> Result<Region, String> {
        let mut target = options.target.clone();
        // Replies are read in one form.
        target.resp3 = false;
        let server = match named {
            Named::Command(command) => Server::start(command, &target.target()?, &[])?,
            Named::Running(address) => {
                let uri =
                    if address.contains("://") { address.clone() } else { format!("redis://{address}") };
                target.take_uri(&uri).ok_or_else(|| format!("'{address}' is no address"))?;
                Server::running(target.target()?)
            }
        };
        let mut region =
            Region { server, version: String::new(), linking: Linking::ReplicaOf, is_linked: false };
        region.look()?;
        Ok(region)
    }

    /// The server, to connect to.
    pub fn target(&self) -> &Target {
        &self.server.target
    }

    /// Where it is.
    pub fn address(&self) -> String {
        self.server.target.address.to_string()
    }

    /// A connection, or why there is none.
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

    /// Points it at its peers, and at no others.
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

    /// Points it where it was pointed before. The proxies are going.
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

    /// What it tells about active-active replication: fields of INFO, and their numbers.
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
    fn servers_are_told_apart() {
        for (text, expected) in [
            ("redis_version:7.2.4\nbraid_version:0.1.0\n", "braid 0.1.0"),
            ("redis_version:6.3.4\n# KeyDB\nmvcc_depth:0\n", "keydb 6.3.4"),
            ("redis_version:7.0.15\n", "redis 7.0.15"),
        ] {
            assert_eq!(version(&Info::parse(text)), expected);
        }
    }
}
