// SPDX-License-Identifier: BSD-3-Clause
//! Messages between the group's thread and the threads that talk to etcd.

use std::sync::Arc;

use braid_etcd::Event;
use braid_group::cluster::Map;
use braid_group::member::Outcome;
use braid_group::record::Keys;
use braid_group::{Node, Offer, Snapshot, Transaction};

/// A message from etcd's threads.
pub enum EtcdEvent {
    /// Records of a shard, and of the whole cluster if this server is a node of one.
    Records(Arc<Keys>, Arc<Snapshot>, Option<Arc<Map>>),
    /// A lease is alive: its ID, when the request was sent and when it was answered.
    Lease {
        id: i64,
        sent: u64,
        received: u64,
    },
    LeaseLost,
    Transacted(Arc<Keys>, Transaction, Outcome),
    /// Why etcd cannot be used; empty if it can again.
    Error(String),
}

/// Requests to etcd's threads.
#[derive(Default)]
pub struct EtcdRequests {
    /// With the keys of its shard.
    pub transaction: Option<(Arc<Keys>, Transaction)>,
    pub node: Option<(Node, i64)>,
    pub offer: Option<(Arc<Keys>, Offer, i64)>,
    pub reads: bool,
    /// Events reported by the watch, in order.
    pub events: Vec<Event>,
    /// A watch is established.
    pub is_watched: bool,
}

impl EtcdRequests {
    pub fn has_some(&self) -> bool {
        let EtcdRequests { transaction, node, offer, reads, events, .. } = self;
        transaction.is_some() || node.is_some() || offer.is_some() || *reads || !events.is_empty()
    }

    /// Takes all requests; the state of the watch stays.
    pub fn take(&mut self) -> EtcdRequests {
        let is_watched = self.is_watched;
        EtcdRequests {
            is_watched,
            ..std::mem::replace(self, EtcdRequests { is_watched, ..EtcdRequests::default() })
        }
    }
}
