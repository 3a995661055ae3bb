// SPDX-License-Identifier: BSD-3-Clause
//! The group as INFO, the metrics and the page report it: this server's part, and the members with
//! role, in-sync set, address and lag.
//!
//! Everything comes from the group's [`View`] and from the replication links; this module talks
//! neither to etcd nor to other servers. Facts that only the primary knows are `None` elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use braid_base::clock::boot_nanos;
use braid_executor::cluster_map::{ClusterMap, ClusterView};
use braid_executor::engine::Engine;
use braid_group::cluster::MapNode;
use braid_group::{MemberId, Node, Why};
use braid_replica::report::{self, ReplicaReport};
use braid_replication::link::Phase;
use braid_replication::{Replica, Stage};

use super::Group;
use super::view::{Address, MemberRole, View, milliseconds};
use crate::group::{self, own_node};

/// The group as this server knows it.
pub struct GroupReport {
    pub view: View,
    /// This server is the primary and may currently serve.
    pub is_serving: bool,
    /// Why it does not serve as the primary; empty if it does.
    pub not_serving: String,
    /// For how long the lease in etcd is certainly alive, in ms.
    pub lease_ms: i64,
    /// For how long this server may serve as the primary, in ms; -1: indefinitely.
    pub serve_ms: i64,
    /// Milliseconds since etcd last answered; `None` if it never has.
    pub etcd_silent_ms: Option<i64>,
    /// By name; in a cluster, the members of this server's shard.
    pub members: Vec<MemberReport>,
    /// Number of the cluster's nodes in other shards; `None` outside of a cluster.
    pub nodes_elsewhere: Option<usize>,
}

/// A member of the group.
pub struct MemberReport {
    pub name: Arc<str>,
    /// The node's record; `None` without a lease in etcd: its process has ended, or is cut off.
    pub node: Option<Node>,
    pub role: MemberRole,
    /// The member's current process is in the in-sync set.
    pub is_in_sync: bool,
    /// The member's link to the primary, where known: on the primary, and on a replica its own.
    pub link: Option<MemberLink>,
    /// The member's offset in the stream, in bytes.
    pub offset: Option<u64>,
    /// Unacknowledged bytes of the stream, and the age of the oldest of them.
    pub lag_bytes: Option<u64>,
    pub lag_ms: Option<i64>,
    /// Why the primary does not take it into the in-sync set, and for how many ms; -1: as long as
    /// the reason lasts. Known on the primary.
    pub held_out: Option<(Why, i64)>,
}

/// A member's link to the primary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberLink {
    Up,
    /// The member is receiving a full sync.
    Sync,
    Down,
}

impl MemberLink {
    pub fn name(self) -> &'static str {
        match self {
            MemberLink::Up => "up",
            MemberLink::Sync => "sync",
            MemberLink::Down => "down",
        }
    }
}

impl MemberReport {
    /// True if the member's lease in etcd is alive.
    pub fn is_up(&self) -> bool {
        self.node.is_some()
    }

    /// `host:port`, with the TLS port if there is no other; `-` if unknown.
    pub fn address(&self) -> String {
        self.node.as_ref().map_or_else(|| "-".into(), |node| Address::of(node).to_string())
    }
}

/// The group as this server knows it; `None` without a group.
pub fn group_report(engine: &Engine) -> Option<GroupReport> {
    let group = group::of(engine)?;
    let view = group.view.lock().clone();
    let now = boot_nanos();
    let is_serving = view.is_primary && engine.replication.in_sync.may_serve(now);
    Some(GroupReport {
        is_serving,
        not_serving: if is_serving { String::new() } else { why_not_serving(engine, group, &view, now) },
        lease_ms: view.lease_ms(now),
        serve_ms: view.serve_ms(now),
        etcd_silent_ms: (view.etcd_answered > 0)
            .then(|| milliseconds(now.saturating_sub(view.etcd_answered))),
        members: members(engine, &view),
        nodes_elsewhere: engine.cluster_view().map(|cluster| {
            let is_elsewhere = |node: &&MapNode| Some(&node.known.shard) != cluster.shard.as_ref();
            cluster.map.nodes.values().filter(is_elsewhere).count()
        }),
        view,
    })
}

/// Why this server does not serve as the primary, in words.
pub(super) fn why_not_serving(engine: &Engine, group: &Group, view: &View, now: u64) -> String {
    if !view.is_primary {
        return match &view.primary {
            _ if view.is_candidate => "it is a candidate to become the primary".into(),
            _ if !view.leaderless.is_empty() => view.leaderless.clone(),
            Some(primary) if !view.etcd_error.is_empty() && !engine.replication.link.is_up() => {
                format!("{} does not answer, and etcd cannot be used: {}", primary.node, view.etcd_error)
            }
            Some(primary) if primary.node == view.id.node && *primary != view.id => {
                format!("it is a new process of {}, which was the primary", primary.node)
            }
            Some(primary) if *primary != view.id => format!("it is a replica of {}", primary.node),
            _ => "it knows no primary".into(),
        };
    }
    if view.is_handing_over {
        return "it is handing over to another server".into();
    }
    if view.is_resigned {
        return "it has given up its lease, since it hears too few of the members in sync".into();
    }
    let is_silent = |member: &&MemberId| {
        let probed = engine.replication.in_sync.acknowledged_probe(member).unwrap_or(0);
        **member != view.id && now >= group.timing.acknowledged_right(probed)
    };
    let silent: Vec<&str> = view.in_sync.iter().filter(is_silent).map(|member| &*member.node).collect();
    match silent.is_empty() {
        true => "it holds no valid lease".into(),
        false => format!("it holds no valid lease, and {} did not answer", silent.join(",")),
    }
}

/// False while a server of a group or cluster has not seen the records: etcd has not answered.
pub fn has_records(engine: &Engine) -> bool {
    group::of(engine).is_none_or(|group| group.has_records())
}

/// True if every known server of this server's group that is up, other than this one, is
/// connected as a replica.
pub(super) fn has_all_members(group: &Group, map: Option<&ClusterMap>, replicas: &[Arc<Replica>]) -> bool {
    let view = group.view.lock();
    if !view.is_primary {
        return false;
    }
    let connected: BTreeSet<&str> = replicas
        .iter()
        .filter_map(|replica| replica.options.member.as_ref())
        .map(|(id, _)| &*id.node)
        .collect();
    let cluster = map.map(ClusterMap::view);
    let of_shard = cluster.as_deref().map(names_of_shard);
    let is_here = |name: &str| of_shard.as_ref().is_none_or(|names| names.contains(name));
    let mut others = view.records.nodes.keys().filter(|name| **name != view.id.node && is_here(name));
    others.all(|name| connected.contains(&**name))
}

fn members(engine: &Engine, view: &View) -> Vec<MemberReport> {
    let mut nodes: BTreeMap<Arc<str>, (MemberId, Option<Node>)> = BTreeMap::new();
    // Without a lease, a member is known only by the shard's record.
    for id in &view.in_sync {
        nodes.insert(Arc::clone(&id.node), (id.clone(), None));
    }
    // The records of a cluster cover all shards, perhaps thousands of nodes.
    let cluster = engine.cluster_view();
    let of_shard = cluster.as_deref().map(names_of_shard);
    let is_here = |name: &str| of_shard.as_ref().is_none_or(|names| names.contains(name));
    for (name, node) in view.records.nodes.iter().filter(|(name, _)| is_here(name)) {
        nodes.insert(Arc::clone(name), (MemberId::new(name, &node.run), Some(node.clone())));
    }
    nodes
        .insert(Arc::clone(&view.id.node), (view.id.clone(), Some(own_node::own_node(engine, &view.id.run))));
    let replicas = report::replica_reports(engine);
    let member = |(id, node): (MemberId, Option<Node>)| member(engine, view, id, node, &replicas);
    nodes.into_values().map(member).collect()
}

fn member(
    engine: &Engine,
    view: &View,
    id: MemberId,
    node: Option<Node>,
    replicas: &[ReplicaReport],
) -> MemberReport {
    let is_own = id == view.id;
    let is_primary = view.primary.as_ref() == Some(&id);
    let offer = view.records.offers.get(&id.node);
    let offers = offer.is_some_and(|offer| offer.run == id.run && offer.epoch == view.epoch);
    let role = match (is_primary, offers) {
        // The record may name an earlier process of this server that was the leader.
        (true, _) if !is_own || view.is_primary => MemberRole::Primary,
        (_, true) => MemberRole::Candidate,
        _ => MemberRole::Replica,
    };
    let mut report = MemberReport {
        name: Arc::clone(&id.node),
        node,
        role,
        is_in_sync: view.in_sync.contains(&id),
        link: None,
        offset: None,
        lag_bytes: None,
        lag_ms: None,
        held_out: view.held_out.iter().find(|one| one.id == id).map(|one| {
            let left = |until: u64| milliseconds(until.saturating_sub(boot_nanos()));
            (one.why, one.until.map_or(-1, left))
        }),
    };
    let is_it = |replica: &&ReplicaReport| {
        let options = &replica.replica.options;
        options.member.as_ref().is_some_and(|(of, epoch)| *of == id && *epoch == view.epoch)
    };
    if is_own {
        let end = engine.keyspace.journal.end();
        report.offset = Some(engine.replication.history().offset(end));
        report.link = report::link_report(engine).map(|link| match link.phase {
            Phase::Connected => MemberLink::Up,
            Phase::Sync => MemberLink::Sync,
            _ => MemberLink::Down,
        });
    } else if view.is_primary {
        report.link = Some(MemberLink::Down);
        if let Some(found) = replicas.iter().find(is_it) {
            let is_online = found.replica.stage() == Stage::Online;
            report.link = Some(if is_online { MemberLink::Up } else { MemberLink::Sync });
            report.offset = Some(found.offset);
            (report.lag_bytes, report.lag_ms) = (Some(found.lag_bytes), Some(found.lag_ms));
        }
    }
    report
}

/// The names of the nodes of this server's shard.
fn names_of_shard(cluster: &ClusterView) -> BTreeSet<&str> {
    let members = cluster.shard.iter().flat_map(|id| cluster.map.members(id));
    members.map(|node| &*node.name).collect()
}
