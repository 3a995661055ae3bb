// SPDX-License-Identifier: BSD-3-Clause
//! Directives about groups: servers that elect their primary by etcd.

use super::checks;
use crate::directive::Unit;
use crate::rows::IN_GROUP;

super::directives! {
    "Groups", after replication;

    /// Be a server of the group with this name: etcd holds which of its servers is the primary.
    group_name: text => optional_text("group-name").immutable();

    /// This server's name in the group or cluster; without one, that of the machine and the port.
    node_name: text => optional_text("node-name").immutable();

    /// Addresses of etcd, host:port with commas between; https://host:port for TLS.
    etcd_endpoints: text => optional_text("etcd-endpoints").immutable();

    /// User in etcd; empty for none.
    etcd_user: text => optional_text("etcd-user").immutable().only_with(IN_GROUP);

    /// That user's password.
    etcd_password: text => optional_text("etcd-password").immutable().secret().only_with(IN_GROUP);

    /// File with the authorities that etcd's certificate is signed by (PEM).
    etcd_ca_cert_file: text => optional_text("etcd-ca-cert-file").immutable().only_with(IN_GROUP);

    /// File with the certificate that etcd is shown (PEM).
    etcd_cert_file: text => optional_text("etcd-cert-file").immutable().only_with(IN_GROUP);

    /// Private key that belongs to that certificate (PEM).
    etcd_key_file: text => optional_text("etcd-key-file").immutable().only_with(IN_GROUP);

    /// Milliseconds that a primary may be silent before another server takes its place, rounded
    /// up to seconds.
    lease_time_ms: u32 =>
        integer("lease-time", || 2000, 2000, 3_600_000, Unit::Milliseconds).integer_check(checks::whole_seconds).immutable()
            .only_with(IN_GROUP);
}
