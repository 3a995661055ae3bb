// SPDX-License-Identifier: BSD-3-Clause
//! Health checks: whether the process is alive (`/health`), and whether it should receive clients
//! (`/ready`).
//!
//! Both need no password and reveal only one word, so any load balancer or Kubernetes probe can
//! use them.

use braid_clients::attention::{STALE, STOPPING};
use braid_cluster_node::group;
use braid_executor::Engine;

/// Whether the server should receive clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readiness {
    Ready,
    /// The dataset is being loaded: most commands are refused.
    Loading,
    /// A server of a group or cluster whose records it has not seen yet: etcd has not answered.
    NoRecords,
    /// The server is shutting down.
    Stopping,
    /// A replica that has never received its primary's data and has none of its own, or an
    /// active-active server of whose peers one is another kind of server and none has answered.
    NoData,
    /// A replica whose link is down and which does not serve stale data.
    LinkDown,
    /// An active-active server whose changes its peers refuse: what clients write here, nobody
    /// else gets.
    Refused,
}

impl Readiness {
    /// The current readiness.
    pub fn of(engine: &Engine) -> Readiness {
        if engine.shutdown.is_imminent() || engine.attention.get() & STOPPING != 0 {
            Readiness::Stopping
        } else if engine.config.is_loading() {
            Readiness::Loading
        } else if !group::report::has_records(engine) {
            Readiness::NoRecords
        } else if engine.attention.get() & STALE != 0 {
            Readiness::LinkDown
        } else if lacks_data(engine) || lacks_peers(engine) {
            Readiness::NoData
        } else if is_refused(engine) {
            Readiness::Refused
        } else {
            Readiness::Ready
        }
    }

    /// The word in the reply.
    pub fn name(self) -> &'static str {
        match self {
            Readiness::Ready => "ready",
            Readiness::Loading => "loading",
            Readiness::NoRecords => "no-records",
            Readiness::Stopping => "stopping",
            Readiness::NoData => "no-data",
            Readiness::LinkDown => "link-down",
            Readiness::Refused => "refused",
        }
    }
}

/// Whether a replica is still waiting for its first full sync and has no other data to serve. A
/// replica that has lost its link, or has loaded a file, serves the data it has.
fn lacks_data(engine: &Engine) -> bool {
    let (link, keyspace) = (&engine.replication.link, &engine.keyspace);
    link.is_replica() && !link.is_up() && link.down_since_ms().is_none() && keyspace.is_empty()
}

/// Whether an active-active server is in contact with servers that refuse its changes, and with
/// none that takes them.
fn is_refused(engine: &Engine) -> bool {
    braid_active_node::report::active_report(engine).is_some_and(|report| report.is_isolated)
}

/// Whether an active-active server was given a peer that it cannot share data with, and has met no
/// other: its configuration is that of KeyDB servers, whose data it does not have. A peer that
/// cannot be reached does not count, since each server serves without the others.
fn lacks_peers(engine: &Engine) -> bool {
    braid_active_node::report::active_report(engine).is_some_and(|report| {
        report.peers.iter().any(|peer| peer.is_foreign)
            && report.peers.iter().all(|peer| peer.region.is_none())
    })
}
