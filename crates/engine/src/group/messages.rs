// SPDX-License-Identifier: BSD-3-Clause
//! What the group's thread and the threads that talk to etcd tell each other.

use std::sync::Arc;

use braid_etcd::Event;
use braid_group::cluster::Map;
use braid_group::member::Outcome;
use braid_group::record::Keys;
use braid_group::{Node, Offer, Snapshot, Transaction};

/// What etcd's threads have learnt.
pub enum News {
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
    /// etcd cannot be used, or can again (empty).
    Trouble(String),
}

/// What etcd's threads are to do.
#[derive(Default)]
pub struct Wishes {
    /// With the keys of the shard that it is of.
    pub transaction: Option<(Arc<Keys>, Transaction)>,
    pub node: Option<(Node, i64)>,
    pub offer: Option<(Arc<Keys>, Offer, i64)>,
    pub reads: bool,
    /// What the watch has told, in its order.
    pub events: Vec<Event>,
    /// A watch stands.
    pub is_watched: bool,
}

impl Wishes {
    pub fn has_some(&self) -> bool {
        let Wishes { transaction, node, offer, reads, events, .. } = self;
        transaction.is_some() || node.is_some() || offer.is_some() || *reads || !events.is_empty()
    }

    /// What there is to do now; the rest stays.
    pub fn take(&mut self) -> Wishes {
        let is_watched = self.is_watched;
        Wishes { is_watched, ..std::mem::replace(self, Wishes { is_watched, ..Wishes::default() }) }
    }
}
