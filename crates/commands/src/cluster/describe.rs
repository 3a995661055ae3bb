// SPDX-License-Identifier: BSD-3-Clause
//! CLUSTER INFO, NODES, SLOTS, SHARDS and others that tell clients of the cluster: one node, which
//! owns all slots. Replies have the form of Redis's, so that clients and tools find what they look
//! for.

use std::net::SocketAddr;

use braid_base::crc::HASH_SLOTS;
use braid_clients::Address;
use braid_clients::attention::LOADING;
use braid_config::{ClusterEndpointType, Config};
use braid_engine::Call;
use braid_engine::cluster_node::{bus_port, port};
use braid_spec::{CommandError, CommandResult};

use super::node_of;

const LAST_SLOT: u16 = HASH_SLOTS - 1;

pub(super) fn my_id(call: &mut Call) -> CommandResult {
    let node = node_of(call)?;
    call.reply.bulk(node.id.as_bytes());
    Ok(())
}

pub(super) fn my_shard_id(call: &mut Call) -> CommandResult {
    let node = node_of(call)?;
    call.reply.bulk(node.shard_id.as_bytes());
    Ok(())
}

pub(super) fn links(call: &mut Call) -> CommandResult {
    node_of(call)?;
    call.reply.array(0);
    Ok(())
}

/// Refuses ids other than this node's.
fn check_own_id(call: &Call) -> CommandResult {
    let (node, id) = (node_of(call)?, call.args[2]);
    if id != node.id.as_bytes() {
        return Err(CommandError::quoting("ERR Unknown node ", id, ""));
    }
    Ok(())
}

pub(super) fn replicas(call: &mut Call) -> CommandResult {
    check_own_id(call)?;
    call.reply.array(0);
    Ok(())
}

pub(super) fn count_failure_reports(call: &mut Call) -> CommandResult {
    check_own_id(call)?;
    call.reply.integer(0);
    Ok(())
}

pub(super) fn info(call: &mut Call) -> CommandResult {
    let epoch = node_of(call)?.epoch();
    let text = format!(
        "cluster_state:ok\r\n\
         cluster_slots_assigned:{HASH_SLOTS}\r\n\
         cluster_slots_ok:{HASH_SLOTS}\r\n\
         cluster_slots_pfail:0\r\n\
         cluster_slots_fail:0\r\n\
         cluster_known_nodes:1\r\n\
         cluster_size:1\r\n\
         cluster_current_epoch:{epoch}\r\n\
         cluster_my_epoch:{epoch}\r\n\
         cluster_stats_messages_sent:0\r\n\
         cluster_stats_messages_received:0\r\n\
         total_cluster_links_buffer_limit_exceeded:0\r\n"
    );
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

/// How a client reaches this node.
struct Endpoint<'c> {
    config: &'c Config,
    /// The client's connection is one of TLS.
    is_tls: bool,
    /// As announced, or that which the client has connected to, as nodes of a stock cluster have
    /// learned theirs. Empty on a Unix socket: clients then use the address that they know.
    ip: String,
    hostname: String,
}

impl<'c> Endpoint<'c> {
    fn of(call: &Call<'c, '_>) -> Endpoint<'c> {
        let config = &*call.engine.config;
        let (local, peer) = (&call.session.record.local_address, &call.session.record.address);
        let is_tls = match local {
            Address::Tcp(address) if config.tls_port() != 0 => address.port() == config.tls_port(),
            _ => config.port() == 0,
        };
        let is_v6 = match peer {
            Address::Tcp(SocketAddr::V6(address)) => address.ip().to_ipv4_mapped().is_none(),
            _ => false,
        };
        let of_family =
            if is_v6 { config.cluster_announce_client_ipv6() } else { config.cluster_announce_client_ipv4() };
        let ip = if of_family.is_empty() { config.cluster_announce_ip() } else { of_family };
        let ip = match local {
            Address::Tcp(address) if ip.is_empty() => address.ip().to_canonical().to_string(),
            _ => ip.to_string(),
        };
        let hostname = config.cluster_announce_hostname().to_string();
        Endpoint { config, is_tls, ip, hostname }
    }

    fn port(&self) -> u16 {
        port(self.config, self.is_tls)
    }

    fn preferred(&self) -> ClusterEndpointType {
        self.config.cluster_preferred_endpoint_type()
    }

    /// What clients are to connect to; nothing if they are to use the address that they know.
    fn endpoint(&self) -> Option<&str> {
        match self.preferred() {
            ClusterEndpointType::Ip => Some(&self.ip),
            // Redis's sign for a name that is not set.
            ClusterEndpointType::Hostname if self.hostname.is_empty() => Some("?"),
            ClusterEndpointType::Hostname => Some(&self.hostname),
            ClusterEndpointType::UnknownEndpoint => None,
        }
    }
}

pub(super) fn nodes(call: &mut Call) -> CommandResult {
    let (node, at) = (node_of(call)?, Endpoint::of(call));
    let name = if at.hostname.is_empty() { String::new() } else { format!(",{}", at.hostname) };
    let text = format!(
        "{} {}:{}@{}{name} myself,master - 0 0 {} connected 0-{LAST_SLOT}\n",
        node.id,
        at.ip,
        at.port(),
        bus_port(at.config),
        node.epoch()
    );
    call.reply.verbatim("txt", text.as_bytes());
    Ok(())
}

pub(super) fn slots(call: &mut Call) -> CommandResult {
    let (node, at) = (node_of(call)?, Endpoint::of(call));
    let reply = &mut *call.reply;
    reply.array(1);
    reply.array(3);
    reply.integer(0);
    reply.integer(i64::from(LAST_SLOT));
    reply.array(4);
    match at.endpoint() {
        Some(endpoint) => reply.bulk(endpoint.as_bytes()),
        None => reply.null(),
    }
    reply.integer(i64::from(at.port()));
    reply.bulk(node.id.as_bytes());
    // What the endpoint does not say already.
    let has_ip = at.preferred() != ClusterEndpointType::Ip;
    let has_name = at.preferred() != ClusterEndpointType::Hostname && !at.hostname.is_empty();
    reply.map(usize::from(has_ip) + usize::from(has_name));
    if has_ip {
        reply.bulk(b"ip");
        reply.bulk(at.ip.as_bytes());
    }
    if has_name {
        reply.bulk(b"hostname");
        reply.bulk(at.hostname.as_bytes());
    }
    Ok(())
}

pub(super) fn shards(call: &mut Call) -> CommandResult {
    let (node, at) = (node_of(call)?, Endpoint::of(call));
    let engine = call.engine;
    let offset = engine.replication.history().offset(engine.keyspace.journal.end());
    let health = if engine.attention.get() & LOADING != 0 { "loading" } else { "online" };
    let ports = [("port", false, at.config.port()), ("tls-port", true, at.config.tls_port())];
    let ports: Vec<_> = ports.into_iter().filter(|(_, _, own)| *own != 0).collect();
    let reply = &mut *call.reply;
    reply.array(1);
    reply.map(2);
    reply.bulk(b"slots");
    reply.array(2);
    reply.integer(0);
    reply.integer(i64::from(LAST_SLOT));
    reply.bulk(b"nodes");
    reply.array(1);
    reply.map(6 + ports.len() + usize::from(!at.hostname.is_empty()));
    reply.bulk(b"id");
    reply.bulk(node.id.as_bytes());
    for (name, is_tls, _) in ports {
        reply.bulk(name.as_bytes());
        reply.integer(i64::from(port(at.config, is_tls)));
    }
    reply.bulk(b"ip");
    reply.bulk(at.ip.as_bytes());
    reply.bulk(b"endpoint");
    reply.bulk(at.endpoint().unwrap_or_default().as_bytes());
    if !at.hostname.is_empty() {
        reply.bulk(b"hostname");
        reply.bulk(at.hostname.as_bytes());
    }
    reply.bulk(b"role");
    reply.bulk(b"master");
    reply.bulk(b"replication-offset");
    reply.integer(i64::try_from(offset).unwrap_or(i64::MAX));
    reply.bulk(b"health");
    reply.bulk(health.as_bytes());
    Ok(())
}
