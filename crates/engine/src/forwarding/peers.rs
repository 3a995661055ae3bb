// SPDX-License-Identifier: BSD-3-Clause
//! The other nodes of a cluster, and the queues of messages for them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use braid_group::cluster::MapNode;
use parking_lot::{Condvar, Mutex};

use crate::cluster_map::ClusterView;

/// The other nodes, and message counters.
#[derive(Default)]
pub struct Forwarding {
    pub(super) peers: ArcSwap<Vec<Arc<Peer>>>,
    /// Messages sent to other nodes, and received from them.
    pub sent: AtomicU64,
    pub received: AtomicU64,
    /// Messages that could not be given to a node.
    pub lost: AtomicU64,
}

/// A node's address.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PeerAddress {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_tls: bool,
}

/// Another node.
pub(super) struct Peer {
    pub(super) id: Arc<str>,
    pub(super) address: PeerAddress,
    pub(super) queue: Mutex<Queue>,
    pub(super) has_more: Condvar,
}

#[derive(Default)]
pub(super) struct Queue {
    pub(super) requests: VecDeque<Arc<[u8]>>,
    pub(super) bytes: usize,
    /// A thread is sending the queue.
    pub(super) is_served: bool,
    /// When the connection was made, ms since the Unix epoch; 0 without a connection.
    pub(super) connected_ms: i64,
    /// The node has left or failed.
    pub(super) is_gone: bool,
    /// Until when the node is left alone, and how long that lasts.
    pub(super) alone_until: Option<Instant>,
    pub(super) pause: Duration,
    /// The log has reported that the node is unreachable or refuses requests.
    pub(super) has_trouble: bool,
}

/// A connection to another node.
pub struct Link {
    pub node: Arc<str>,
    pub connected_ms: i64,
    /// Bytes waiting to be sent.
    pub bytes: usize,
}

impl Forwarding {
    /// The open connections to other nodes.
    pub fn links(&self) -> Vec<Link> {
        let link = |peer: &Arc<Peer>| {
            let queue = peer.queue.lock();
            let link =
                Link { node: Arc::clone(&peer.id), connected_ms: queue.connected_ms, bytes: queue.bytes };
            (queue.connected_ms > 0).then_some(link)
        };
        self.peers.load().iter().filter_map(link).collect()
    }

    /// Applies a newer map.
    pub(crate) fn follow(&self, view: &ClusterView, is_tls: bool) {
        let known = self.peers.load_full();
        let peer = |node: &MapNode| {
            let port = if is_tls { node.tls_port() } else { node.port() };
            let address = PeerAddress { host: node.host().to_owned(), port, is_tls };
            let same = known.iter().find(|peer| *peer.id == *node.known.id && peer.address == address);
            same.cloned().unwrap_or_else(|| Arc::new(Peer::new(&node.known.id, address)))
        };
        let is_wanted = |node: &&MapNode| *node.known.id != *view.id && node.server.is_some();
        let peers: Vec<Arc<Peer>> = match view.own() {
            Some(_) => view.map.nodes.values().filter(is_wanted).map(peer).collect(),
            None => Vec::new(),
        };
        for peer in known.iter().filter(|known| !peers.iter().any(|peer| Arc::ptr_eq(peer, known))) {
            peer.queue.lock().is_gone = true;
            peer.has_more.notify_one();
        }
        self.peers.store(Arc::new(peers));
    }
}

impl Peer {
    pub(super) fn new(id: &Arc<str>, address: PeerAddress) -> Peer {
        Peer { id: Arc::clone(id), address, queue: Mutex::default(), has_more: Condvar::new() }
    }
}

impl Queue {
    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.bytes = 0;
    }
}
