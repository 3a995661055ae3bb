// SPDX-License-Identifier: BSD-3-Clause
//! The other nodes of a cluster, and the queues of messages for them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use braid_base::clock::unix_ms;
use braid_executor::cluster_map::ClusterView;
use braid_group::cluster::MapNode;
use parking_lot::{Condvar, Mutex};

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
    /// When it was first seen at this address, ms since the Unix epoch.
    seen_ms: i64,
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
    pub(super) is_reported: bool,
}

/// One direction of the exchange with another live node. Nodes know each other through etcd, so
/// there need not be a connection.
pub struct Link {
    pub node: Arc<str>,
    /// Messages to the node, or from it.
    pub is_outgoing: bool,
    /// Since when there is a connection, or else since when the node is seen; ms since the Unix
    /// epoch.
    pub since_ms: i64,
    /// Bytes waiting to be sent.
    pub bytes: usize,
}

impl Forwarding {
    /// Two links with each live node.
    pub fn links(&self) -> Vec<Link> {
        let links = |peer: &Arc<Peer>| {
            let (connected_ms, bytes) = {
                let queue = peer.queue.lock();
                (queue.connected_ms, queue.bytes)
            };
            let link = |is_outgoing, since_ms, bytes| Link {
                node: Arc::clone(&peer.id),
                is_outgoing,
                since_ms: if since_ms > 0 { since_ms } else { peer.seen_ms },
                bytes,
            };
            [link(true, connected_ms, bytes), link(false, 0, 0)]
        };
        self.peers.load().iter().flat_map(links).collect()
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
        let id = Arc::clone(id);
        Peer { id, address, seen_ms: unix_ms(), queue: Mutex::default(), has_more: Condvar::new() }
    }
}

impl Queue {
    pub(super) fn clear(&mut self) {
        self.requests.clear();
        self.bytes = 0;
    }
}
