// SPDX-License-Identifier: BSD-3-Clause
//! Directives about groups: servers that elect their primary through etcd.

use super::checks;
use crate::directive::Unit;
use crate::rows::IN_GROUP;

super::directives! {
    "Groups", after replication;

    /// Join the group of this name; etcd stores which of its servers is the primary.
    group_name: text => optional_text("group-name").immutable().beyond_redis();

    /// Name of this server in the group or cluster; empty means its host name and port.
    node_name: text => optional_text("node-name").immutable().beyond_redis();

    /// Addresses of etcd: comma-separated host:port, or https://host:port for TLS.
    etcd_endpoints: text => optional_text("etcd-endpoints").immutable().beyond_redis();

    /// User name for etcd; empty disables authentication.
    etcd_user: text => optional_text("etcd-user").immutable().beyond_redis().only_with(IN_GROUP);

    /// Password of the etcd user.
    etcd_password: text => optional_text("etcd-password").immutable().beyond_redis().secret().only_with(IN_GROUP);

    /// CA certificates (PEM) that verify etcd's certificate.
    etcd_ca_cert_file: text => optional_text("etcd-ca-cert-file").immutable().beyond_redis().only_with(IN_GROUP);

    /// Client certificate (PEM) presented to etcd.
    etcd_cert_file: text => optional_text("etcd-cert-file").immutable().beyond_redis().only_with(IN_GROUP);

    /// Private key (PEM) of the client certificate for etcd.
    etcd_key_file: text => optional_text("etcd-key-file").immutable().beyond_redis().only_with(IN_GROUP);

    /// Milliseconds of silence after which another server replaces the primary, rounded up to
    /// whole seconds.
    lease_time_ms: u32 =>
        integer("lease-time", || 2000, 2000, 3_600_000, Unit::Milliseconds).integer_check(checks::whole_seconds).immutable().beyond_redis()
            .only_with(IN_GROUP);
}
