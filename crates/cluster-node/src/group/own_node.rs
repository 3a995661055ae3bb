// SPDX-License-Identifier: BSD-3-Clause
//! This server as the group's records describe it, and where other servers are reached.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_executor::engine::Engine;
use braid_group::Node;
use braid_replication::link::{Phase, Primary};

use crate::{group, identity};

/// This server's record: how others reach it.
pub(crate) fn own_node(engine: &Engine, run: &Arc<str>) -> Node {
    let config = &engine.config;
    let announced = config.replica_announce_ip();
    let announced_port = config.replica_announce_port();
    if let Some(map) = engine.cluster_map() {
        let announced = match config.cluster_announce_ip() {
            ip if ip.is_empty() => announced,
            ip => ip,
        };
        // If no setting gives the address, it is the one at which the node was reached when
        // it joined.
        let host = Some(announced.to_string()).filter(|ip| !ip.is_empty()).or_else(|| bound_address(engine));
        return Node {
            run: Arc::clone(run),
            host: host.unwrap_or_default().into(),
            port: identity::port(config, false),
            tls_port: identity::port(config, true),
            bus_port: identity::bus_port(config),
            priority: identity::announced_priority(config),
            version: env!("CARGO_PKG_VERSION").into(),
            id: (*map.id()).into(),
            hostname: config.cluster_announce_hostname().as_ref().into(),
            is_loading: gets_full_sync(engine),
        };
    }
    let host = if announced.is_empty() { own_address(engine) } else { announced.to_string() };
    Node {
        run: Arc::clone(run),
        host: host.into(),
        port: if announced_port == 0 { config.port() } else { announced_port },
        tls_port: config.tls_port(),
        bus_port: 0,
        priority: config.replica_priority(),
        version: env!("CARGO_PKG_VERSION").into(),
        id: Box::default(),
        hostname: Box::default(),
        is_loading: gets_full_sync(engine),
    }
}

/// True if this server is a replica without a complete dataset.
pub(crate) fn gets_full_sync(engine: &Engine) -> bool {
    let is_whole = group::of(engine).is_none_or(|group| group.is_whole.load(Relaxed));
    let link = &engine.replication.link;
    link.is_replica() && (!is_whole || link.phase() == Phase::Sync)
}

/// The first listening address that belongs to this machine alone, or the machine's name.
pub(crate) fn own_address(engine: &Engine) -> String {
    let name = || rustix::system::uname().nodename().to_string_lossy().into_owned();
    bound_address(engine).unwrap_or_else(name)
}

/// The first listening address that belongs to this machine alone.
pub(crate) fn bound_address(engine: &Engine) -> Option<String> {
    let bound = engine.config.bind();
    let mut plain = bound.iter().map(|address| address.trim_start_matches('-'));
    let named = plain.find(|address| !matches!(*address, "*" | "0.0.0.0" | "::" | "::*" | ""));
    named.map(str::to_owned)
}

/// Where a replica reaches the server of a record.
pub(crate) fn primary_at(engine: &Engine, node: &Node) -> Primary {
    let use_tls = engine.config.tls_replication();
    Primary {
        host: node.host.to_string(),
        port: if use_tls && node.tls_port != 0 { node.tls_port } else { node.port },
    }
}
