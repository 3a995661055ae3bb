// SPDX-License-Identifier: BSD-3-Clause
//! This server as the author of changes of the cluster's records.

use std::sync::Arc;

use braid_clients::Address;
use braid_config::Config;
use braid_executor::engine::Engine;
use braid_group::cluster::KnownNode;
use braid_group::cluster::changes::LocalIdentity;

use crate::group::{self, Group};
use crate::identity;

/// This server as the author of automatic changes.
pub(crate) fn as_author(engine: &Engine) -> Option<LocalIdentity> {
    let id = engine.cluster_map()?.id();
    Some(group::of(engine)?.as_newcomer(&engine.config, &id, &Address::Unknown))
}

impl Group {
    /// This server's record if it joins by a request received at the address `reached`.
    pub fn as_newcomer(&self, config: &Config, id: &Arc<str>, reached: &Address) -> LocalIdentity {
        let host = match reached {
            Address::Tcp(address) => address.ip().to_canonical().to_string(),
            Address::Unix(_) | Address::Unknown => "127.0.0.1".to_owned(),
        };
        let node = KnownNode {
            id: Arc::clone(id),
            shard: Arc::clone(id),
            host: host.into(),
            port: identity::port(config, false),
            tls_port: identity::port(config, true),
        };
        LocalIdentity { name: self.settings.node.as_str().into(), node }
    }
}
