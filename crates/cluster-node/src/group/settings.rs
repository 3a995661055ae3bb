// SPDX-License-Identifier: BSD-3-Clause
//! The validated settings of a group.

use std::time::Duration;

use braid_config::Config;
use braid_group::record::is_name;

/// The group's settings from the configuration.
pub struct Settings {
    /// `group-name`, or `cluster-name`.
    pub name: String,
    /// The server is a node of a cluster, whose shards are groups.
    pub is_cluster: bool,
    /// `node-name`.
    pub node: String,
    pub lease_ms: u64,
    pub etcd: braid_etcd::Client,
}

impl Settings {
    pub(super) fn lease_seconds(&self) -> u32 {
        u32::try_from(self.lease_ms.div_ceil(1000)).unwrap_or(u32::MAX)
    }

    /// Timeout of a request to etcd.
    pub(super) fn etcd_patience(&self) -> Duration {
        request_timeout(self.lease_ms)
    }

    /// The settings; `None` without `group-name` or `cluster-name`. An error describes what is
    /// invalid.
    pub(super) fn of_config(config: &Config) -> Result<Option<Settings>, String> {
        let is_cluster = config.cluster_enabled();
        let (directive, name) = match is_cluster {
            true => ("cluster-name", config.cluster_name().to_string()),
            false => ("group-name", config.group_name().to_string()),
        };
        if !is_cluster && !config.cluster_name().is_empty() {
            return Err("cluster-name needs cluster-enabled yes".into());
        }
        let endpoints = config.etcd_endpoints();
        let endpoints: Vec<String> =
            endpoints.split([',', ' ']).filter(|text| !text.is_empty()).map(String::from).collect();
        if name.is_empty() {
            return if endpoints.is_empty() && config.node_name().is_empty() {
                Ok(None)
            } else {
                Err(format!("{directive} is missing: etcd-endpoints and node-name need it"))
            };
        }
        if endpoints.is_empty() {
            return Err(format!("{directive} needs etcd-endpoints"));
        }
        if config.replicaof().is_some() {
            return Err("replicaof cannot be used in a group: the group decides who replicates whom".into());
        }
        let node = match &*config.node_name() {
            "" => default_node_name(config.port()),
            node => node.to_owned(),
        };
        for (what, text) in [(directive, &name), ("node-name", &node)] {
            if !is_name(text) {
                return Err(format!("{what} '{text}' must be 1 to 64 letters, digits, '-', '_' or '.'"));
            }
        }
        let lease_ms = u64::from(config.lease_time_ms());
        let options = braid_etcd::Options {
            endpoints,
            user: config.etcd_user().to_string(),
            password: config.etcd_password().to_string(),
            tls: braid_process::tls::of_etcd(config)?,
            connect_timeout: Duration::from_millis(lease_ms / 8),
            // Unanswered requests are repeated, well before the lease ends.
            request_timeout: request_timeout(lease_ms),
        };
        // Reports invalid addresses and certificates.
        let etcd = braid_etcd::Client::new(&options).map_err(|error| error.to_string())?;
        Ok(Some(Settings { name, is_cluster, node, lease_ms, etcd }))
    }
}

/// Timeout of a request to etcd, derived from the lease time.
fn request_timeout(lease_ms: u64) -> Duration {
    Duration::from_millis(lease_ms / 4)
}

/// The machine's name and the port.
fn default_node_name(port: u16) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}-{port}")
}
