// SPDX-License-Identifier: BSD-3-Clause
//! CLUSTER INFO, NODES, SLOTS, SHARDS and other descriptions of the cluster for clients. Replies
//! have Redis's format, so that clients and tools find the fields they expect.
//!
//! A single-node cluster is shown as one shard of one node, which owns all slots.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::unix_ms;
use braid_clients::Address;
use braid_clients::attention::LOADING;
use braid_config::{ClusterEndpointType, Config};
use braid_executor::cluster_map::{ClusterMap, ClusterView};
use braid_executor::dispatch::LOADING_REFUSAL;
use braid_executor::dispatch::slots::is_over_tls;
use braid_executor::{Call, Engine};
use braid_group::cluster::{Health, MapNode, ShardSlots, SlotSet};
use braid_resp::reply::ReplyBuffer;
use braid_spec::{CommandError, CommandResult};

use super::node_of;
use crate::forwarding::peers::Forwarding;
use crate::identity::{ClusterNode, announced_priority, bus_port, port};
use crate::{cluster_report, forwarding};

/// Added to a node's port for its bus port, on which nothing listens.
const BUS_PORT_OFFSET: u16 = 10_000;

/// Resolution, in milliseconds, of the last-contact times shown for live nodes. Nodes do not send
/// each other PINGs; the records give their state. Stock nodes have contact about this often, and
/// tools compare replies taken at the same time.
const HEARD_STEP_MS: i64 = 2_000;

/// A shard, as described in replies.
struct Shard {
    slots: ShardSlots,
    epoch: u64,
    /// The primary first.
    nodes: Vec<Node>,
}

/// A node, as described in replies.
struct Node {
    id: Arc<str>,
    ip: String,
    hostname: String,
    port: u16,
    tls_port: u16,
    bus_port: u16,
    is_own: bool,
    is_primary: bool,
    stays_replica: bool,
    health: Health,
    /// Last contact in milliseconds of Unix time; 0: never, or this node itself.
    heard: i64,
}

/// The view of the cluster for one client.
struct Picture<'c> {
    config: &'c Config,
    /// True if the client is connected over TLS.
    is_tls: bool,
    shards: Vec<Shard>,
}

impl<'c> Picture<'c> {
    /// # Errors
    /// If the cluster's records have not been read yet.
    fn of(call: &Call<'c, '_>) -> Result<Picture<'c>, CommandError> {
        let (own, engine) = (node_of(call)?, call.engine);
        let config = &*engine.config;
        let is_tls = is_over_tls(&engine.config, &call.session.record);
        let view = call.engine.cluster_map().map(view_of).transpose()?;
        let shards = match &view {
            Some(view) => shards_of(call, own, view),
            None => {
                let slots = ShardSlots { slots: SlotSet::all(), ..ShardSlots::default() };
                vec![Shard { slots, epoch: own.epochs().own, nodes: vec![own_node(call, own, None)] }]
            }
        };
        Ok(Picture { config, is_tls, shards })
    }

    /// All nodes with their shards.
    fn nodes(&self) -> impl Iterator<Item = (&Shard, &Node)> {
        self.shards.iter().flat_map(|shard| shard.nodes.iter().map(move |node| (shard, node)))
    }

    /// The node with this id, and its shard.
    fn find(&self, id: &[u8]) -> Result<(&Shard, &Node), CommandError> {
        let found = self.nodes().find(|(_, node)| node.id.as_bytes() == id);
        found.ok_or(CommandError::quoting("ERR Unknown node ", id, ""))
    }

    fn port_of(&self, node: &Node) -> u16 {
        if self.is_tls { node.tls_port } else { node.port }
    }

    /// The endpoint for clients; `None` if they should use the address that they know.
    fn endpoint_of<'n>(&self, node: &'n Node) -> Option<&'n str> {
        match self.config.cluster_preferred_endpoint_type() {
            ClusterEndpointType::Ip => Some(&node.ip),
            // Redis's marker for an unset name.
            ClusterEndpointType::Hostname if node.hostname.is_empty() => Some("?"),
            ClusterEndpointType::Hostname => Some(&node.hostname),
            ClusterEndpointType::UnknownEndpoint => None,
        }
    }

    /// A node's line in CLUSTER NODES.
    fn line(&self, shard: &Shard, node: &Node) -> String {
        let mut flags = String::new();
        if node.is_own {
            flags.push_str("myself,");
        }
        flags.push_str(if node.is_primary { "master" } else { "slave" });
        if node.health == Health::Failed {
            flags.push_str(",fail");
        }
        if node.stays_replica {
            flags.push_str(",nofailover");
        }
        let name = if node.hostname.is_empty() { String::new() } else { format!(",{}", node.hostname) };
        let primary = shard.nodes.first().filter(|_| !node.is_primary).map_or("-", |primary| &primary.id);
        let link = if node.health == Health::Failed { "disconnected" } else { "connected" };
        let mut line = format!(
            "{} {}:{}@{}{name} {flags} {primary} 0 {} {} {link}",
            node.id,
            node.ip,
            self.port_of(node),
            node.bus_port,
            node.heard,
            shard.epoch
        );
        if node.is_primary {
            for (first, last) in shard.slots.slots.ranges() {
                // Writing to a string cannot fail.
                let _ = match first == last {
                    true => write!(line, " {first}"),
                    false => write!(line, " {first}-{last}"),
                };
            }
        }
        if node.is_own && node.is_primary {
            for (slot, id) in &shard.slots.migrating {
                let _ = write!(line, " [{slot}->-{id}]");
            }
            for (slot, id) in &shard.slots.importing {
                let _ = write!(line, " [{slot}-<-{id}]");
            }
        }
        line
    }
}

/// The cluster as this node knows it. A node that has just started would report a cluster without
/// slots, so it refuses.
fn view_of(map: &ClusterMap) -> Result<Arc<ClusterView>, CommandError> {
    if map.is_awaited() { Err(CommandError::text(LOADING_REFUSAL)) } else { Ok(map.view()) }
}

/// This server under its announced address, or else the address that the client connected to, as
/// nodes of a stock cluster learn theirs. Empty on a Unix socket: clients then use the address
/// that they know.
fn own_node(call: &Call, own: &ClusterNode, known: Option<&MapNode>) -> Node {
    let config = &*call.engine.config;
    let (local, peer) = (&call.session.record.local_address, &call.session.record.address);
    let is_v6 = match peer {
        Address::Tcp(SocketAddr::V6(address)) => address.ip().to_ipv4_mapped().is_none(),
        _ => false,
    };
    let of_family =
        if is_v6 { config.cluster_announce_client_ipv6() } else { config.cluster_announce_client_ipv4() };
    let ip = if of_family.is_empty() { config.cluster_announce_ip() } else { of_family };
    let ip = match (local, known) {
        _ if !ip.is_empty() => ip.to_string(),
        // All nodes should report the same address.
        (_, Some(known)) => known.host().to_owned(),
        (Address::Tcp(address), None) => address.ip().to_canonical().to_string(),
        _ => String::new(),
    };
    Node {
        id: own.id(),
        ip,
        hostname: config.cluster_announce_hostname().to_string(),
        port: port(config, false),
        tls_port: port(config, true),
        bus_port: bus_port(config),
        is_own: true,
        is_primary: true,
        stays_replica: announced_priority(config) == 0,
        health: known
            .map(MapNode::health)
            .filter(|&health| health == Health::Loading)
            .unwrap_or(Health::Online),
        heard: 0,
    }
}

/// The time of the last contact with another node.
fn heard(engine: &Engine, node: &MapNode) -> i64 {
    match node.health() {
        Health::Online | Health::Loading => unix_ms() / HEARD_STEP_MS * HEARD_STEP_MS,
        Health::Failed => engine.cluster_map().map_or(0, |map| map.lost_since(&node.known.id)),
    }
}

/// The cluster's shards. A server that the cluster does not know sees only itself.
fn shards_of(call: &Call, own: &ClusterNode, view: &ClusterView) -> Vec<Shard> {
    if view.own().is_none() {
        let nodes = vec![own_node(call, own, None)];
        return vec![Shard { slots: ShardSlots::default(), epoch: own.epochs().own, nodes }];
    }
    let map = &view.map;
    let shard = |(id, shard): (&Arc<str>, &braid_group::cluster::MapShard)| {
        let primary = map.primary(id).map(|node| &node.known.id);
        let node = |node: &MapNode| {
            let is_primary = primary == Some(&node.known.id);
            if node.known.id == view.id {
                return Node { is_primary, ..own_node(call, own, Some(node)) };
            }
            let client_port = if node.port() == 0 { node.tls_port() } else { node.port() };
            Node {
                id: Arc::clone(&node.known.id),
                ip: node.host().to_owned(),
                hostname: node.hostname().to_owned(),
                port: node.port(),
                tls_port: node.tls_port(),
                bus_port: match node.bus_port() {
                    0 => client_port.checked_add(BUS_PORT_OFFSET).unwrap_or(0),
                    port => port,
                },
                is_own: false,
                is_primary,
                stays_replica: node.stays_replica(),
                health: node.health(),
                heard: heard(call.engine, node),
            }
        };
        let mut nodes: Vec<Node> = map.members(id).map(node).collect();
        nodes.sort_by_key(|node| !node.is_primary);
        let mut slots = shard.slots.clone();
        for id in slots.migrating.values_mut().chain(slots.importing.values_mut()) {
            *id = map.primary_for(id);
        }
        Shard { epoch: slots.config_epoch, slots, nodes }
    };
    map.shards.iter().map(shard).filter(|shard| !shard.nodes.is_empty()).collect()
}

pub(super) fn my_id(call: &mut Call) -> CommandResult {
    let node = node_of(call)?;
    call.reply.bulk(node.id().as_bytes());
    Ok(())
}

pub(super) fn my_shard_id(call: &mut Call) -> CommandResult {
    let node = node_of(call)?;
    match call.engine.cluster_map().map(view_of).transpose()? {
        Some(view) => call.reply.bulk(view.shard.as_ref().unwrap_or(&view.id).as_bytes()),
        None => call.reply.bulk(node.shard_id.as_bytes()),
    }
    Ok(())
}

pub(super) fn links(call: &mut Call) -> CommandResult {
    // Nodes meet through etcd, and connect only for messages of PUBLISH. Tools that judge a stock
    // cluster's bus expect two links with each live node.
    node_of(call)?;
    let links = forwarding::of(call.engine).map_or_else(Vec::new, Forwarding::links);
    let reply = &mut *call.reply;
    reply.array(links.len());
    for link in links {
        reply.map(6);
        reply.bulk(b"direction");
        reply.bulk(if link.is_outgoing { b"to" } else { b"from" });
        reply.bulk(b"node");
        reply.bulk(link.node.as_bytes());
        reply.bulk(b"create-time");
        reply.integer(link.since_ms);
        reply.bulk(b"events");
        reply.bulk(if link.bytes > 0 { b"rw" } else { b"r" });
        reply.bulk(b"send-buffer-allocated");
        reply.integer(link.bytes as i64);
        reply.bulk(b"send-buffer-used");
        reply.integer(link.bytes as i64);
    }
    Ok(())
}

pub(super) fn replicas(call: &mut Call) -> CommandResult {
    let picture = Picture::of(call)?;
    let (shard, node) = picture.find(call.args[2])?;
    if !node.is_primary {
        return Err(CommandError::text("ERR The specified node is not a master"));
    }
    let replicas: Vec<String> =
        shard.nodes.iter().filter(|node| !node.is_primary).map(|node| picture.line(shard, node)).collect();
    call.reply.array(replicas.len());
    replicas.iter().for_each(|line| call.reply.bulk(line.as_bytes()));
    Ok(())
}

pub(super) fn count_failure_reports(call: &mut Call) -> CommandResult {
    let picture = Picture::of(call)?;
    picture.find(call.args[2])?;
    call.reply.integer(0);
    Ok(())
}

pub(super) fn info(call: &mut Call) -> CommandResult {
    node_of(call)?;
    call.engine.cluster_map().map(view_of).transpose()?;
    let Some(report) = cluster_report::cluster_report(call.engine) else { return Ok(()) };
    let forwarding = forwarding::of(call.engine);
    let messages = |what: &str, count: fn(&Forwarding) -> &AtomicU64| {
        let count = forwarding.map_or(0, |forwarding| count(forwarding).load(Relaxed));
        let published = match count {
            0 => String::new(),
            _ => format!("cluster_stats_messages_publish_{what}:{count}\r\n"),
        };
        format!("{published}cluster_stats_messages_{what}:{count}\r\n")
    };
    let text = format!(
        "cluster_state:{}\r\n\
         cluster_slots_assigned:{}\r\n\
         cluster_slots_ok:{}\r\n\
         cluster_slots_pfail:0\r\n\
         cluster_slots_fail:{}\r\n\
         cluster_known_nodes:{}\r\n\
         cluster_size:{}\r\n\
         cluster_current_epoch:{}\r\n\
         cluster_my_epoch:{}\r\n\
         {}{}\
         total_cluster_links_buffer_limit_exceeded:0\r\n",
        if report.is_ok { "ok" } else { "fail" },
        report.assigned,
        report.assigned.saturating_sub(report.lost),
        report.lost,
        report.nodes,
        report.size,
        report.epoch,
        report.own_epoch,
        messages("sent", |forwarding| &forwarding.sent),
        messages("received", |forwarding| &forwarding.received),
    );
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

pub(super) fn nodes(call: &mut Call) -> CommandResult {
    let picture = Picture::of(call)?;
    let mut text = String::new();
    for (shard, node) in picture.nodes() {
        text.push_str(&picture.line(shard, node));
        text.push('\n');
    }
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

pub(super) fn slots(call: &mut Call) -> CommandResult {
    let picture = Picture::of(call)?;
    let of_shard = |shard: &'_ Shard| shard.slots.slots.ranges();
    let mut ranges: Vec<_> = picture
        .shards
        .iter()
        .flat_map(|shard| of_shard(shard).into_iter().map(move |range| (range, shard)))
        .collect();
    ranges.sort_by_key(|(range, _)| *range);
    let reply = &mut *call.reply;
    reply.array(ranges.len());
    for ((first, last), shard) in ranges {
        // Replicas that have failed or have no data yet serve no clients.
        let told: Vec<&Node> =
            shard.nodes.iter().filter(|node| node.is_primary || node.health == Health::Online).collect();
        reply.array(2 + told.len());
        reply.integer(i64::from(first));
        reply.integer(i64::from(last));
        told.into_iter().for_each(|node| describe_endpoint(&picture, node, reply));
    }
    Ok(())
}

/// Writes a node for CLUSTER SLOTS.
fn describe_endpoint(picture: &Picture<'_>, node: &Node, reply: &mut ReplyBuffer) {
    reply.array(4);
    match picture.endpoint_of(node) {
        Some(endpoint) => reply.bulk(endpoint.as_bytes()),
        None => reply.null(),
    }
    reply.integer(i64::from(picture.port_of(node)));
    reply.bulk(node.id.as_bytes());
    // The addresses that the endpoint does not give.
    let preferred = picture.config.cluster_preferred_endpoint_type();
    let has_ip = preferred != ClusterEndpointType::Ip;
    let has_name = preferred != ClusterEndpointType::Hostname && !node.hostname.is_empty();
    reply.map(usize::from(has_ip) + usize::from(has_name));
    if has_ip {
        reply.bulk(b"ip");
        reply.bulk(node.ip.as_bytes());
    }
    if has_name {
        reply.bulk(b"hostname");
        reply.bulk(node.hostname.as_bytes());
    }
}

pub(super) fn shards(call: &mut Call) -> CommandResult {
    let picture = Picture::of(call)?;
    let engine = call.engine;
    let offset = engine.replication.history().offset(engine.keyspace.journal.end());
    let is_loading = engine.attention.get() & LOADING != 0;
    let reply = &mut *call.reply;
    reply.array(picture.shards.len());
    for shard in &picture.shards {
        let ranges = shard.slots.slots.ranges();
        reply.map(2);
        reply.bulk(b"slots");
        reply.array(2 * ranges.len());
        for (first, last) in ranges {
            reply.integer(i64::from(first));
            reply.integer(i64::from(last));
        }
        reply.bulk(b"nodes");
        reply.array(shard.nodes.len());
        for node in &shard.nodes {
            let health = match node.health {
                Health::Failed => "fail",
                Health::Loading => "loading",
                Health::Online if node.is_own && is_loading => "loading",
                Health::Online => "online",
            };
            // The offset of another node is not known here.
            describe_member(&picture, node, if node.is_own { offset } else { 0 }, health, reply);
        }
    }
    Ok(())
}

/// Writes a node for CLUSTER SHARDS.
fn describe_member(picture: &Picture<'_>, node: &Node, offset: u64, health: &str, reply: &mut ReplyBuffer) {
    let config = picture.config;
    // For this node, only the ports that it listens on, under the announced numbers.
    let has = |port: u16, own: u16| if node.is_own { own != 0 } else { port != 0 };
    let ports = [("port", node.port, config.port()), ("tls-port", node.tls_port, config.tls_port())];
    let ports: Vec<_> = ports.into_iter().filter(|(_, port, own)| has(*port, *own)).collect();
    reply.map(6 + ports.len() + usize::from(!node.hostname.is_empty()));
    reply.bulk(b"id");
    reply.bulk(node.id.as_bytes());
    for (name, port, _) in ports {
        reply.bulk(name.as_bytes());
        reply.integer(i64::from(port));
    }
    reply.bulk(b"ip");
    reply.bulk(node.ip.as_bytes());
    reply.bulk(b"endpoint");
    reply.bulk(picture.endpoint_of(node).unwrap_or_default().as_bytes());
    if !node.hostname.is_empty() {
        reply.bulk(b"hostname");
        reply.bulk(node.hostname.as_bytes());
    }
    reply.bulk(b"role");
    reply.bulk(if node.is_primary { "master" } else { "replica" }.as_bytes());
    reply.bulk(b"replication-offset");
    reply.integer(i64::try_from(offset).unwrap_or(i64::MAX));
    reply.bulk(b"health");
    reply.bulk(health.as_bytes());
}
