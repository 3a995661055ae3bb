// SPDX-License-Identifier: BSD-3-Clause
//! Cluster changes by operators: computed from etcd's records, committed, and awaited until this
//! server applies them. These calls block: loops must never make them.

use std::time::{Duration, Instant};

use braid_executor::cluster_map::ClusterMap;
use braid_executor::engine::Engine;
use braid_group::cluster::changes::{LocalIdentity, Operator};
use braid_group::cluster::{Change, Map, Refusal};
use braid_net::target::{Broken, Connection};
use braid_process::connector::Connector;

use super::Group;
use crate::group::{self, author, own_node, transactions};

/// How often a change is recomputed because another one was committed first.
const TRIES: usize = 16;
/// Delay before a mandatory change is retried, and before etcd is read again.
const PAUSE: Duration = Duration::from_millis(250);
/// How long a change waits for etcd to be read, and for this server to apply it: as many timeouts
/// of one request. An etcd that has just started elects its leader first, and `redis-cli --cluster
/// create` goes on without saying so if ADDSLOTS fails.
const PATIENCE: u32 = 4;
/// How often a wait looks at this server's role.
const LOOK: Duration = Duration::from_millis(1);

/// Why nothing was changed, or why the outcome is uncertain.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChangeError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error("ERR etcd: {0}")]
    Store(String),
    #[error("ERR another change of the cluster is in progress: try again")]
    Busy,
    #[error("ERR etcd's records of the cluster are older than this node's state")]
    Older,
    #[error("ERR the change was made, but this node has not seen it yet")]
    Unseen,
    #[error("ERR the change was made for the cluster, but cannot be applied here: {0}")]
    NotHere(String),
}

/// Changes the cluster as computed by `work`. True if there was something to change.
///
/// # Errors
/// A refusal by `work`, or a failure of etcd.
pub fn change_cluster(
    engine: &Engine,
    me: &LocalIdentity,
    work: impl Fn(&Operator<'_>) -> Result<Change, Refusal>,
) -> Result<bool, ChangeError> {
    change_cluster_from(engine, None, me, work, || ())
}

/// The cluster's records as read from etcd, for [`change_cluster_from`].
///
/// # Errors
/// A failure of etcd.
pub(crate) fn cluster_records(engine: &Engine) -> Result<Map, ChangeError> {
    let (group, _) = several_nodes(engine)?;
    let (_, read, _) =
        transactions::read(group, &group.keys(), &group.settings.etcd).map_err(ChangeError::Store)?;
    Ok(read.unwrap_or_default())
}

fn several_nodes(engine: &Engine) -> Result<(&Group, &ClusterMap), ChangeError> {
    let map = engine.cluster_map();
    let none = || ChangeError::Store("this server is not in a cluster of several nodes".into());
    Ok((group::of(engine).ok_or_else(none)?, map.ok_or_else(none)?))
}

/// [`change_cluster`] based on records that were read before: if they have changed
/// since, they are read again. `committed` is called before this node applies the change.
pub(crate) fn change_cluster_from(
    engine: &Engine,
    mut known: Option<Map>,
    me: &LocalIdentity,
    work: impl Fn(&Operator<'_>) -> Result<Change, Refusal>,
    committed: impl FnOnce(),
) -> Result<bool, ChangeError> {
    let (group, map) = several_nodes(engine)?;
    let client = &group.settings.etcd;
    let until = Instant::now() + group.settings.etcd_patience() * PATIENCE;
    for _ in 0..TRIES {
        let keys = group.keys();
        // Before the read: this node may see later changes at any time.
        let seen = map.view().map.epoch;
        let read = match known.take().filter(|known| known.epoch >= seen) {
            Some(known) => known,
            None => match cluster_records(engine) {
                Err(ChangeError::Store(_)) if Instant::now() < until => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                read => read?,
            },
        };
        if read.epoch < seen {
            return Err(ChangeError::Older);
        }
        let change = work(&Operator { map: &read, keys: &keys, me })?;
        let revision = match change.writes.is_empty() {
            true => Some(read.revision),
            false => transactions::commit(client, &change)
                .map_err(|error| ChangeError::Store(error.to_string()))?,
        };
        let Some(revision) = revision else { continue };
        committed();
        return see(engine, group, map, revision).map(|()| !change.writes.is_empty());
    }
    Err(ChangeError::Busy)
}

/// Waits until this server follows the primary of the shard that it has joined, so that INFO
/// and ROLE show it. Gives up after a lease time: the primary may be away.
pub fn wait_for_primary(engine: &Engine) {
    let Some(group) = group::of(engine) else { return };
    let until = Instant::now() + Duration::from_millis(group.settings.lease_ms);
    while !follows_its_shard(engine) && Instant::now() < until {
        std::thread::sleep(LOOK);
    }
}

fn follows_its_shard(engine: &Engine) -> bool {
    let Some(view) = engine.cluster_view() else { return false };
    let primary = view.own().and_then(|own| view.map.primary(&own.known.shard));
    let server = primary.and_then(|node| node.server.as_ref());
    server.is_some_and(|node| engine.replication.link.primary() == Some(own_node::primary_at(engine, node)))
}

/// Makes sure that no change of the cluster computed earlier can still be committed. Blocks
/// until that is certain; false if the server shuts down first.
pub(crate) fn raise_epoch(engine: &Engine) -> bool {
    while !engine.shutdown.is_requested() {
        let Some(me) = author::as_author(engine) else { return false };
        match change_cluster(engine, &me, |operator| Ok(operator.raise_epoch())) {
            Ok(_) => return true,
            Err(error) => log::warn!("Cannot raise the cluster's epoch: {error}"),
        }
        std::thread::sleep(PAUSE);
    }
    false
}

/// Requests an immediate read of etcd's records.
pub(crate) fn read_records(engine: &Engine) {
    if let Some(group) = group::of(engine) {
        group.etcd_requests.lock().reads = true;
        group.has_etcd_requests.notify_one();
    }
}

/// Waits until this server applies a revision of the map.
fn see(engine: &Engine, group: &Group, map: &ClusterMap, revision: u64) -> Result<(), ChangeError> {
    read_records(engine);
    match map.wait_for(revision, group.settings.etcd_patience() * PATIENCE) {
        true => Ok(()),
        false => Err(ChangeError::Unseen),
    }
}

/// Why another node has not carried out a request.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AskError {
    /// The node cannot be reached, or has not answered.
    #[error("{0}")]
    Silent(String),
    /// The node's own error.
    #[error("{0}")]
    Refused(String),
}

/// Sends a request to another node and returns its reply: a line, or the text of a bulk
/// string.
///
/// # Errors
/// The node cannot be reached, or replies with an error.
pub fn ask_node(engine: &Engine, host: &str, port: u16, request: &[&[u8]]) -> Result<String, AskError> {
    let reply = reply_of_node(engine, host, port, request).map_err(AskError::Silent)?;
    reply.map_err(AskError::Refused)
}

/// A connection to another node, logged in, which waits a lease time for each answer.
///
/// # Errors
/// The node cannot be reached, or refuses the password.
pub(crate) fn open_node(engine: &Engine, host: &str, port: u16) -> Result<Connection, String> {
    let patience = Duration::from_millis(u64::from(engine.config.lease_time_ms()));
    let connector = Connector::of_cluster(&engine.config, patience);
    connector.open_logged_in(host, port, |broken| broken_text(engine, broken))
}

/// Why another node has not answered on such a connection.
pub(crate) fn broken_text(engine: &Engine, broken: Broken) -> String {
    match broken.timed_out {
        true => format!("no answer within {} ms", engine.config.lease_time_ms()),
        false => "the connection was closed".to_owned(),
    }
}

/// The reply of another node, or its error. The outer error says why the node could not be
/// reached.
fn reply_of_node(
    engine: &Engine,
    host: &str,
    port: u16,
    request: &[&[u8]],
) -> Result<Result<String, String>, String> {
    let broken = |broken| broken_text(engine, broken);
    let mut connection = open_node(engine, host, port)?;
    connection.request(request).and_then(|()| connection.flush()).map_err(broken)?;
    let mut line =
        || connection.line().map(|line| String::from_utf8_lossy(&line).into_owned()).map_err(broken);
    let reply = line()?;
    match reply.split_at_checked(1) {
        Some(("-", error)) => Ok(Err(error.to_owned())),
        Some(("$", _)) => line().map(Ok),
        Some((_, text)) => Ok(Ok(text.to_owned())),
        None => Err("the reply is empty".into()),
    }
}
