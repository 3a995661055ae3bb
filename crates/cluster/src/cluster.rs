// SPDX-License-Identifier: BSD-3-Clause
//! Access to a cluster through the named node, or through any other node if that one is gone.

use std::time::{Duration, Instant};

use braid_client::{Connection, TargetOptions};

use crate::gather;
use crate::nodes::{Node, Nodes};

/// Polling interval of a condition.
const INTERVAL: Duration = Duration::from_millis(50);

/// The connection to one node, and the addresses of the others.
pub struct Cluster {
    options: TargetOptions,
    places: Vec<(String, u16)>,
    /// The node that is queried, and its host.
    entry: Option<(Connection, String)>,
}

impl Cluster {
    /// Connects to the cluster through the server named in the options.
    ///
    /// # Errors
    /// If the options are invalid, the server cannot be reached, or it does not answer CLUSTER
    /// NODES.
    pub fn open(options: &TargetOptions) -> Result<Cluster, String> {
        let host = options.host.clone().unwrap_or_else(|| "127.0.0.1".into());
        let connection = gather::connect(&options.target()?)?;
        let mut cluster =
            Cluster { options: options.clone(), places: Vec::new(), entry: Some((connection, host)) };
        cluster.nodes()?;
        Ok(cluster)
    }

    /// The current nodes, as known to one of them.
    ///
    /// # Errors
    /// If no known node can be reached, or one answers with an error or a malformed list.
    pub fn nodes(&mut self) -> Result<Nodes, String> {
        let mut why = String::new();
        if let Some((connection, host)) = &mut self.entry {
            match connection.command(&["CLUSTER", "NODES"]) {
                Ok(braid_client::Value::Error(error)) => return Err(error),
                Ok(reply) => {
                    let host = host.clone();
                    return self.read(&reply.text(), &host);
                }
                Err(error) => why = error.to_string(),
            }
        }
        self.entry = None;
        for (host, port) in self.places.clone() {
            let asked = self.connect_to(&host, port).and_then(|mut connection| {
                let text =
                    connection.expect(&["CLUSTER", "NODES"]).map_err(|error| error.to_string())?.text();
                Ok((connection, text))
            });
            match asked {
                Ok((connection, text)) => {
                    self.entry = Some((connection, host.clone()));
                    return self.read(&text, &host);
                }
                Err(error) => why = error,
            }
        }
        Err(format!("no node of the cluster replies: {why}"))
    }

    fn read(&mut self, text: &str, host: &str) -> Result<Nodes, String> {
        let nodes = Nodes::parse(text, host)?;
        self.places = nodes.nodes.iter().map(|node| (node.host.clone(), node.port)).collect();
        Ok(nodes)
    }

    /// Connects to a node with the login from the options.
    ///
    /// # Errors
    /// If the node cannot be reached or refuses the login.
    pub fn connect(&self, node: &Node) -> Result<Connection, String> {
        self.connect_to(&node.host, node.port)
    }

    /// Connects to any address with the same login.
    ///
    /// # Errors
    /// If the node cannot be reached or refuses the login.
    pub fn connect_to(&self, host: &str, port: u16) -> Result<Connection, String> {
        gather::connect(&gather::place(&self.options, host, port)?)
    }

    /// Sends one command to a node.
    ///
    /// # Errors
    /// If the node cannot be reached or answers with an error.
    pub fn ask(&self, node: &Node, words: &[&str]) -> Result<braid_client::Value, String> {
        let mut connection = self.connect(node)?;
        connection.expect(words).map_err(|error| format!("{}: {error}", node.address()))
    }

    /// Finds a node by its address, ID, ID prefix or `node-name`.
    ///
    /// # Errors
    /// If there is no such node, or the word is a prefix of the IDs of several.
    pub fn find(&self, nodes: &Nodes, word: &str) -> Result<Node, String> {
        if let Some(node) = nodes.find(word)? {
            return Ok(node.clone());
        }
        let is_called = |node: &&Node| {
            let info = self
                .connect(node)
                .and_then(|mut connection| gather::info(&mut connection).map_err(|error| error.to_string()));
            info.is_ok_and(|info| info.get("node_name") == Some(word))
        };
        let addresses = || nodes.nodes.iter().map(Node::address).collect::<Vec<_>>().join(", ");
        let found = nodes.nodes.iter().find(is_called).cloned();
        found.ok_or_else(|| format!("there is no node {word}, only {}", addresses()))
    }
}

/// Waits until a condition holds.
///
/// # Errors
/// If the condition does not hold in time. The text includes the last failure of `is_so`.
pub fn wait_until(
    what: &str,
    patience: Duration,
    mut is_so: impl FnMut() -> Result<bool, String>,
) -> Result<(), String> {
    let begin = Instant::now();
    let mut why = String::new();
    loop {
        match is_so() {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) => why = format!(" ({error})"),
        }
        if begin.elapsed() > patience {
            return Err(format!("gave up after {:.0} s waiting until {what}{why}", patience.as_secs_f64()));
        }
        std::thread::sleep(INTERVAL);
    }
}
