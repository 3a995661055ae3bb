// SPDX-License-Identifier: BSD-3-Clause
//! Directives about sockets: where the server listens and how it treats connections.

use crate::directive::{Special, Unit};
use crate::rows::{INT_MAX, UINT_MAX};

super::directives! {
    "Network", after start;

    /// Port for plain TCP connections; 0 switches them off.
    port: u16 => integer("port", || 6379, 0, 65535, Unit::Plain).of_one_node();

    /// Addresses to listen on. A leading hyphen lets the start go on when the address is missing on
    /// this machine; an asterisk stands for all addresses of IPv4, `::*` for all of IPv6.
    bind: special => special("bind", Special::Bind).of_one_node();

    /// Local address from which outgoing connections start (to a master, to other nodes).
    bind_source_addr: text => optional_text("bind-source-addr").of_one_node();

    /// As long as the default user has no password, refuse connections from other machines.
    protected_mode: bool => switch("protected-mode", true);

    /// Path of a Unix domain socket to listen on.
    unixsocket: text => optional_text("unixsocket").immutable();

    /// Group that owns the Unix domain socket.
    unixsocketgroup: text => optional_text("unixsocketgroup").immutable().beyond_redis().no_effect_yet();

    /// Permissions of the Unix domain socket, octal; 0 leaves them as the system makes them.
    unixsocketperm: u32 =>
        integer("unixsocketperm", || 0, 0, 0o777, Unit::Octal).immutable().only_with(&["unixsocket"]);

    /// Length of the kernel's queue of connections not yet accepted. The kernel caps it at its own
    /// limit.
    tcp_backlog: u32 => integer("tcp-backlog", || 511, 0, INT_MAX, Unit::Plain).immutable();

    /// Seconds between the kernel's probes on idle connections; 0 sends none.
    tcp_keepalive_seconds: u32 => integer("tcp-keepalive", || 300, 0, INT_MAX, Unit::Seconds);

    /// Close a client that was idle for this many seconds; 0 never does.
    timeout_seconds: u32 => integer("timeout", || 0, 0, INT_MAX, Unit::Seconds);

    /// Let clients use several network paths for one connection (multipath TCP).
    mptcp: bool => switch("mptcp", false).immutable().beyond_redis().no_effect_yet();

    /// Mark on the listening sockets for packet filters (SO_MARK); 0 sets none.
    socket_mark_id: u32 =>
        integer("socket-mark-id", || 0, 0, UINT_MAX, Unit::Plain).immutable().no_effect_yet();

    /// Connections accepted in one turn of an event loop.
    max_new_connections_per_cycle: u32 =>
        integer("max-new-connections-per-cycle", || 10, 1, 1000, Unit::Plain);

    /// TLS connections accepted in one turn of an event loop; their handshakes are costly.
    max_new_tls_connections_per_cycle: u32 =>
        integer("max-new-tls-connections-per-cycle", || 1, 1, 1000, Unit::Plain);
}

/// Position of `bind`.
pub(crate) const BIND: usize = index_of!(bind);
