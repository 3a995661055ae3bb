// SPDX-License-Identifier: BSD-3-Clause
//! Limits for one client and for all clients together.

use crate::directive::{Special, Unit};
use crate::rows::{INT_MAX, LONG_MAX, UINT_MAX};

super::directives! {
    "Limits", after security;

    /// Most clients at one time.
    maxclients: u32 => integer("maxclients", || 10_000, 1, UINT_MAX, Unit::Plain);

    /// Limits of a client's unsent replies, for each class: close it above the hard limit, or after
    /// so many seconds above the soft limit. Classes: normal, replica, pubsub. 0 means no limit.
    client_output_buffer_limits: special =>
        special("client-output-buffer-limit", Special::ClientOutputBufferLimit);

    /// Most unsent bytes of a client that runs MONITOR and does not read: beyond them it is closed.
    /// The normal class of client-output-buffer-limit holds for it, too. 0 means no limit of its
    /// own.
    monitor_output_bytes: u64 => integer("monitor-output-limit", || 32 << 20, 0, LONG_MAX, Unit::Bytes);

    /// Close a client whose unfinished request grows beyond this.
    client_query_buffer_limit: u64 =>
        integer("client-query-buffer-limit", || 1 << 30, 1 << 20, LONG_MAX, Unit::Bytes);

    /// Longest single argument of a command.
    proto_max_bulk_len: u64 =>
        integer("proto-max-bulk-len", || 512 << 20, 1 << 20, LONG_MAX, Unit::Bytes);

    /// Milliseconds after which a running script is reported as busy and can be killed; 0 never
    /// reports it.
    busy_reply_threshold_milliseconds: u64 =>
        integer("busy-reply-threshold", || 5000, 0, LONG_MAX, Unit::Milliseconds)
            .aliases(&["lua-time-limit"]);

    /// Most bytes of a thread's Lua state, and of the reply to a command that a script calls. A
    /// script that needs more ends with an error. 0 means no limit.
    lua_memory_bytes: u64 => integer("lua-memory", || 1 << 30, 0, LONG_MAX, Unit::Bytes);

    /// Keys that clients with tracking may have remembered in all; 0 means no limit.
    tracking_table_max_keys: usize =>
        integer("tracking-table-max-keys", || 1_000_000, 0, LONG_MAX, Unit::Plain);

    /// Microseconds to wait after each key that is loaded; for tests.
    key_load_delay_microseconds: i64 =>
        integer("key-load-delay", || 0, -(1 << 31), INT_MAX, Unit::Microseconds).hidden();

    /// Bytes of a file that are loaded between two looks at the clients.
    loading_process_events_interval_bytes: u64 =>
        integer("loading-process-events-interval-bytes", || 2 << 20, 1024, INT_MAX, Unit::Plain)
            .hidden().no_effect_yet();
}

/// Position of `client-output-buffer-limit`.
pub(crate) const OUTPUT_LIMITS: usize = index_of!(client_output_buffer_limits);
