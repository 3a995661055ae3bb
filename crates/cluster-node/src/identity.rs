// SPDX-License-Identifier: BSD-3-Clause
//! Cluster mode: this server's identity as a node, and the file that keeps it across restarts.
//!
//! A node alone is a cluster of its own: it owns all slots and knows no other node, so only its
//! ids and epochs are kept. The file (`cluster-config-file`) has Redis's format with a single
//! node. A stock server's file with one node is adopted; a file that names other nodes is
//! refused, since keys of their slots would be served in two places.

use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use braid_base::system_text::reason;
use braid_config::Config;
use braid_executor::cluster_map::ClusterMap;
use braid_executor::engine::Engine;
use braid_executor::services::{self, ClusterMode};
use braid_persistence::files;
use parking_lot::Mutex;

use crate::forwarding::peers::Forwarding;

/// Number of digits of a node or shard id.
const ID_LEN: usize = 40;

/// Offset from the client port to the cluster bus port, if none is configured.
const BUS_PORT_OFFSET: u16 = 10_000;

/// This server as a cluster node.
pub struct ClusterNode {
    /// 40 hexadecimal digits: the id of the shard whose only node this is. Kept across restarts.
    pub shard_id: String,
    identity: Mutex<Identity>,
    path: PathBuf,
    /// Forwards PUBLISH messages to the other nodes.
    pub forwarding: Forwarding,
}

/// This server's identity in the cluster.
struct Identity {
    /// 40 hexadecimal digits, kept across restarts.
    id: Arc<str>,
    epochs: Epochs,
}

/// Epochs of a node that is in no cluster.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Epochs {
    /// The node's configuration epoch.
    pub own: u64,
    /// The highest epoch the node has seen.
    pub current: u64,
}

/// The content of the file.
#[derive(PartialEq, Eq, Debug)]
struct Stored {
    id: String,
    shard_id: Option<String>,
    epochs: Epochs,
}

/// The outcome of CLUSTER BUMPEPOCH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bump {
    /// The epoch was zero.
    Raised(u64),
    /// The node already has the cluster's highest epoch.
    Still(u64),
}

/// Creates the node if the configuration enables cluster mode. Its file is read, or written if
/// there is none.
///
/// # Errors
/// If the node's file cannot be read, parsed or written.
pub fn of_config(config: &Config) -> Result<Option<ClusterMode>, String> {
    if !config.cluster_enabled() {
        return Ok(None);
    }
    let path = config.dir().join(&*config.cluster_config_file());
    let node = ClusterNode::open(&path, config)?;
    let name = config.cluster_announce_human_nodename();
    let name = if name.is_empty() { String::new() } else { format!(" ({name})") };
    let of = config.cluster_name();
    match of.is_empty() {
        true => log::info!("Running mode=cluster: node {}{name} owns all slots by itself", node.id()),
        false => log::info!("Running mode=cluster: node {}{name} of the cluster {of}", node.id()),
    }
    let map = (!of.is_empty()).then(|| ClusterMap::new(node.id()));
    Ok(Some(ClusterMode { map, service: Arc::new(node) }))
}

/// This server as a node, in cluster mode.
pub fn of(engine: &Engine) -> Option<&ClusterNode> {
    services::state_of(&*engine.cluster.as_ref()?.service)
}

impl ClusterNode {
    fn open(path: &Path, config: &Config) -> Result<ClusterNode, String> {
        let named = |what: &str| format!("Cluster configuration file '{}': {what}", path.display());
        let mut text = String::new();
        let stored = match files::open(path).and_then(|mut file| file.read_to_string(&mut text)) {
            Ok(_) if !text.trim().is_empty() => Some(Stored::parse(&text).map_err(named)?),
            Ok(_) => None,
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(named(&reason(&error))),
        };
        let stored = stored.unwrap_or_else(|| Stored {
            id: braid_replication::random_id(),
            shard_id: None,
            epochs: Epochs::default(),
        });
        let node = ClusterNode {
            forwarding: Forwarding::default(),
            identity: Mutex::new(Identity { id: stored.id.into(), epochs: stored.epochs }),
            shard_id: stored.shard_id.unwrap_or_else(braid_replication::random_id),
            path: path.to_owned(),
        };
        node.save(config).map_err(|error| named(&reason(&error)))?;
        Ok(node)
    }

    /// 40 hexadecimal digits, kept across restarts.
    pub fn id(&self) -> Arc<str> {
        Arc::clone(&self.identity.lock().id)
    }

    /// The epochs of a node that is in no cluster.
    pub fn epochs(&self) -> Epochs {
        self.identity.lock().epochs
    }

    /// Stores the epochs that the node knows when it leaves a cluster (CLUSTER RESET).
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn keep_epochs(&self, config: &Config, epochs: Epochs) -> std::io::Result<()> {
        let mut own = self.identity.lock();
        self.write(config, &own.id, epochs)?;
        own.epochs = epochs;
        Ok(())
    }

    /// Gives the node a new id and no epoch (CLUSTER RESET HARD).
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn renew(&self, config: &Config, map: Option<&ClusterMap>) -> std::io::Result<()> {
        let mut own = self.identity.lock();
        let id: Arc<str> = braid_replication::random_id().into();
        self.write(config, &id, Epochs::default())?;
        if let Some(map) = map {
            map.renew(Arc::clone(&id));
        }
        *own = Identity { id, epochs: Epochs::default() };
        Ok(())
    }

    /// Sets the epoch of a node that has none. False if it has one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn set_epoch(&self, config: &Config, epoch: u64) -> std::io::Result<bool> {
        let mut own = self.identity.lock();
        if own.epochs.own != 0 {
            return Ok(false);
        }
        let epochs = Epochs { own: epoch, current: own.epochs.current.max(epoch) };
        self.write(config, &own.id, epochs)?;
        own.epochs = epochs;
        Ok(true)
    }

    /// Gives a node without an epoch the first one.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn bump_epoch(&self, config: &Config) -> std::io::Result<Bump> {
        let mut own = self.identity.lock();
        if own.epochs.own != 0 {
            return Ok(Bump::Still(own.epochs.own));
        }
        let epochs = Epochs { own: 1, current: own.epochs.current.max(1) };
        self.write(config, &own.id, epochs)?;
        own.epochs = epochs;
        Ok(Bump::Raised(1))
    }

    /// Writes the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn save(&self, config: &Config) -> std::io::Result<()> {
        let own = self.identity.lock();
        self.write(config, &own.id, own.epochs)
    }

    fn write(&self, config: &Config, id: &str, epochs: Epochs) -> std::io::Result<()> {
        let (hostname, name) = (config.cluster_announce_hostname(), config.cluster_announce_human_nodename());
        let name = if name.is_empty() { String::new() } else { format!(",nodename={name}") };
        let text = format!(
            "{id} {}:{}@{},{hostname}{name},shard-id={} myself,master - 0 0 {} connected 0-16383\n\
             vars currentEpoch {} lastVoteEpoch 0\n",
            config.cluster_announce_ip(),
            port(config, false),
            bus_port(config),
            self.shard_id,
            epochs.own,
            epochs.current
        );
        files::store(&self.path, text.as_bytes())
    }
}

impl Stored {
    fn parse(text: &str) -> Result<Stored, &'static str> {
        const MALFORMED: &str = "it is malformed";
        let (mut stored, mut current) = (None, 0);
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words[..] {
                ["vars", ref vars @ ..] => {
                    let told = vars.chunks_exact(2).find(|pair| pair[0] == "currentEpoch");
                    current = told.map_or(Ok(0), |pair| pair[1].parse()).map_err(|_| MALFORMED)?;
                }
                [id, address, flags, _, _, _, epoch, ..] => {
                    let flags: Vec<&str> = flags.split(',').collect();
                    if !flags.contains(&"myself") {
                        return Err("it names other nodes: a node of a larger cluster needs cluster-name \
                                    and etcd-endpoints");
                    }
                    if !flags.contains(&"master") {
                        return Err("it lists this node as a replica");
                    }
                    let shard_id = address.split(',').find_map(|part| part.strip_prefix("shard-id="));
                    if !is_id(id) || shard_id.is_some_and(|id| !is_id(id)) {
                        return Err(MALFORMED);
                    }
                    let own = epoch.parse().map_err(|_| MALFORMED)?;
                    let (id, shard_id) = (id.to_owned(), shard_id.map(str::to_owned));
                    stored = Some(Stored { id, shard_id, epochs: Epochs { own, current: own } });
                }
                _ => return Err(MALFORMED),
            }
        }
        let mut stored: Stored = stored.ok_or(MALFORMED)?;
        stored.epochs.current = stored.epochs.current.max(current);
        Ok(stored)
    }
}

fn is_id(text: &str) -> bool {
    text.len() == ID_LEN && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}

/// The port announced to clients, for TLS or plain connections.
pub fn port(config: &Config, is_tls: bool) -> u16 {
    let (client, announced, own) = if is_tls {
        (config.cluster_announce_client_tls_port(), config.cluster_announce_tls_port(), config.tls_port())
    } else {
        (config.cluster_announce_client_port(), config.cluster_announce_port(), config.port())
    };
    [client, announced, own].into_iter().find(|&port| port != 0).unwrap_or(0)
}

/// True if this node never takes over another node's role on its own.
pub fn stays_replica(config: &Config) -> bool {
    config.cluster_enabled() && config.cluster_replica_no_failover()
}

/// The announced replica priority: 0 if this server must never take over on its own.
pub fn announced_priority(config: &Config) -> u32 {
    if stays_replica(config) { 0 } else { config.replica_priority() }
}

/// Cluster bus port as announced to clients, although nothing listens there; 0 if none can be
/// derived from the client port.
pub fn bus_port(config: &Config) -> u16 {
    let client = if config.port() != 0 { config.port() } else { config.tls_port() };
    let derived = client.checked_add(BUS_PORT_OFFSET).unwrap_or(0);
    let set = [config.cluster_announce_bus_port(), config.cluster_port()];
    set.into_iter().find(|&port| port != 0).unwrap_or(derived)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "4fa43a2a239e0f369eb6fe62fdf94030cbfbfdca";

    #[test]
    fn files_of_one_node_are_taken_over() {
        let id = ID.to_owned();
        // As written by Redis 7.0 and 8.
        let old = format!("{ID} :7701@17701 myself,master - 0 0 5 connected 0-16383\nvars currentEpoch 7\n");
        let epochs = Epochs { own: 5, current: 7 };
        assert_eq!(Stored::parse(&old), Ok(Stored { id: id.clone(), shard_id: None, epochs }));
        let new = format!(
            "{ID} :7000@8000,h.x,tls-port=0,nodename=human,shard-id={ID} myself,master - 0 0 0 connected 0-16383\n\
             vars currentEpoch 0 lastVoteEpoch 0\n"
        );
        assert_eq!(
            Stored::parse(&new),
            Ok(Stored { id: id.clone(), shard_id: Some(id), epochs: Epochs::default() })
        );
    }

    #[test]
    fn other_files_are_refused() {
        let refused = |text: &str| Stored::parse(text).expect_err(text);
        let own = format!("{ID} :1@2 myself,master - 0 0 0 connected\n");
        let other = format!("{own}{ID} 10.0.0.2:1@2 master - 0 0 0 connected 0-5\n");
        assert!(refused(&other).contains("other nodes"));
        assert!(refused(&own.replace("master", "slave")).contains("replica"));
        for text in [
            "x",
            "vars currentEpoch 0\n",
            &own.replacen('a', "-", 1),
            &own.replace("0 connected", "x"),
            &format!("{own}vars currentEpoch x\n"),
        ] {
            assert!(refused(text).contains("form"), "{text}");
        }
    }

    #[test]
    fn the_identity_is_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("nodes.conf");
        let config = Config::new();
        let node = ClusterNode::open(&path, &config).expect("a new file");
        assert!(is_id(&node.id()) && is_id(&node.shard_id) && *node.id() != *node.shard_id);
        assert_eq!(node.bump_epoch(&config).expect("written"), Bump::Raised(1));
        assert_eq!(node.bump_epoch(&config).expect("written"), Bump::Still(1));
        assert!(!node.set_epoch(&config, 7).expect("written"));
        let again = ClusterNode::open(&path, &config).expect("the same file");
        assert_eq!((again.id(), &again.shard_id, again.epochs().own), (node.id(), &node.shard_id, 1));
        let epochs = Epochs { own: 2, current: 9 };
        again.keep_epochs(&config, epochs).expect("written");
        assert_eq!(ClusterNode::open(&path, &config).expect("the same file").epochs(), epochs);
        again.renew(&config, None).expect("written");
        assert!(is_id(&again.id()) && again.id() != node.id() && again.epochs() == Epochs::default());
        let renewed = ClusterNode::open(&path, &config).expect("the same file");
        assert_eq!((renewed.id(), &renewed.shard_id, renewed.epochs().own), (again.id(), &node.shard_id, 0));
        std::fs::write(&path, "").expect("a file");
        assert_ne!(ClusterNode::open(&path, &config).expect("an empty file").id(), renewed.id());
        let missing = folder.path().join("missing/nodes.conf");
        assert!(ClusterNode::open(&missing, &config).err().expect("no folder").contains("No such file"));
    }
}
