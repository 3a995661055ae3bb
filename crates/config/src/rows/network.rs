// SPDX-License-Identifier: BSD-3-Clause
//! Directives about sockets: where the server listens and how it treats connections.

use crate::directive::{Special, Unit};
use crate::rows::{INT_MAX, UINT_MAX};

super::directives! {
    "Network", after start;

    /// Port for plaintext TCP connections; 0 disables it.
    port: u16 => integer("port", || 6379, 0, 65535, Unit::Plain).of_one_node();

    /// Addresses to listen on. A leading hyphen makes an unavailable address non-fatal; `*` means
    /// all IPv4 addresses, `::*` all IPv6 addresses.
    bind: special => special("bind", Special::Bind).of_one_node();

    /// Local address of outgoing connections (to a primary, to other nodes).
    bind_source_addr: text => optional_text("bind-source-addr").of_one_node();

    /// Refuse connections from other hosts while the default user has no password.
    protected_mode: bool => switch("protected-mode", true);

    /// Path of a Unix domain socket to listen on.
    unixsocket: text => optional_text("unixsocket").immutable();

    /// Group of the Unix domain socket: a name in /etc/group, or a number.
    unixsocketgroup: text => optional_text("unixsocketgroup").immutable().beyond_redis();

    /// Permissions of the Unix domain socket, in octal; 0 leaves them to the umask.
    unixsocketperm: u32 =>
        integer("unixsocketperm", || 0, 0, 0o777, Unit::Octal).immutable().only_with(&["unixsocket"]);

    /// Maximum number of connections waiting to be accepted. The kernel caps it at its own limit.
    tcp_backlog: u32 => integer("tcp-backlog", || 511, 0, INT_MAX, Unit::Plain).immutable();

    /// Idle seconds before the kernel sends TCP keepalive probes; 0 disables them.
    tcp_keepalive_seconds: u32 => integer("tcp-keepalive", || 300, 0, INT_MAX, Unit::Seconds);

    /// Close a client after this many idle seconds; 0 disables it.
    timeout_seconds: u32 => integer("timeout", || 0, 0, INT_MAX, Unit::Seconds);

    /// Accept multipath TCP connections from clients. Needs a kernel with MPTCP.
    mptcp: bool => switch("mptcp", false).immutable().beyond_redis();

    /// Mark of the listening sockets for packet filters (SO_MARK); 0 sets none. Needs
    /// CAP_NET_ADMIN.
    socket_mark_id: u32 => integer("socket-mark-id", || 0, 0, UINT_MAX, Unit::Plain).immutable();

    /// Maximum number of connections accepted per event loop iteration.
    max_new_connections_per_cycle: u32 =>
        integer("max-new-connections-per-cycle", || 10, 1, 1000, Unit::Plain);

    /// Maximum number of TLS connections accepted per event loop iteration; TLS handshakes are
    /// expensive.
    max_new_tls_connections_per_cycle: u32 =>
        integer("max-new-tls-connections-per-cycle", || 1, 1, 1000, Unit::Plain);
}

/// Position of `bind`.
pub(crate) const BIND: usize = index_of!(bind);
