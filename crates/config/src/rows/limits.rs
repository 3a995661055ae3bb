// SPDX-License-Identifier: BSD-3-Clause
//! Limits for one client and for all clients together.

use crate::directive::{Special, Unit};
use crate::rows::{INT_MAX, LONG_MAX, UINT_MAX};
use crate::subnets;

super::directives! {
    "Limits", after security;

    /// Maximum number of connected clients.
    maxclients: u32 => integer("maxclients", || 10_000, 1, UINT_MAX, Unit::Plain);

    /// How many of maxclients are reserved for clients from priority-subnets; they may have more,
    /// as long as there are any. Without priority-subnets none are.
    maxclients_reserved: u32 =>
        integer("maxclients-reserved", || 0, 0, UINT_MAX, Unit::Plain).beyond_redis();

    /// Addresses and networks (10.0.0.0/8) of clients that may use the connections that
    /// maxclients-reserved keeps free, such as those of operators and monitoring, separated by
    /// spaces or commas. What holds is where a client is when it connects.
    priority_subnets: text => optional_text("priority-subnets").text_check(subnets::check).beyond_redis();

    /// Limits of unsent replies: class (normal, replica, pubsub), hard limit, soft limit,
    /// seconds. A client is closed above the hard limit, or after those seconds above the soft
    /// limit. 0 means no limit.
    client_output_buffer_limits: special =>
        special("client-output-buffer-limit", Special::ClientOutputBufferLimit);

    /// Maximum unsent bytes of a MONITOR client before it is closed; 0 means no limit. The normal
    /// class of client-output-buffer-limit also applies.
    monitor_output_bytes: u64 => integer("monitor-output-limit", || 32 << 20, 0, LONG_MAX, Unit::Bytes);

    /// Maximum unsent bytes of invalidations (CLIENT TRACKING) for a client that does not read
    /// them, before it is closed; 0 means no limit. Subscribers have the limits of
    /// client-output-buffer-limit pubsub instead.
    tracking_output_bytes: u64 => integer("tracking-output-limit", || 32 << 20, 0, LONG_MAX, Unit::Bytes);

    /// Maximum size of an incomplete request; larger ones close the client.
    client_query_buffer_limit: u64 =>
        integer("client-query-buffer-limit", || 1 << 30, 1 << 20, LONG_MAX, Unit::Bytes);

    /// Maximum size of a command argument or a string value.
    proto_max_bulk_len: u64 =>
        integer("proto-max-bulk-len", || 512 << 20, 1 << 20, LONG_MAX, Unit::Bytes);

    /// Milliseconds after which a running script is reported as busy and can be killed; 0
    /// disables this.
    busy_reply_threshold_milliseconds: u64 =>
        integer("busy-reply-threshold", || 5000, 0, LONG_MAX, Unit::Milliseconds)
            .aliases(&["lua-time-limit"]);

    /// Maximum bytes of a thread's Lua state, and of the reply to a command called by a script. A
    /// script that needs more fails. 0 means no limit.
    lua_memory_bytes: u64 => integer("lua-memory", || 1 << 30, 0, LONG_MAX, Unit::Bytes);

    /// Maximum bytes of the scripts that are known only from EVAL (`used_memory_scripts_eval` of
    /// INFO also has those of SCRIPT LOAD); a new one makes the least recently run ones go. 0 means
    /// no limit but the number of 500. Scripts of SCRIPT LOAD always stay.
    maxmemory_scripts_bytes: u64 =>
        integer("maxmemory-scripts", || 0, 0, LONG_MAX, Unit::Bytes).beyond_redis();

    /// Give scripts the deprecated functions that let one change what another sees. Braid's scripts
    /// never have them.
    lua_enable_deprecated_api: bool =>
        switch("lua-enable-deprecated-api", false).unlisted_aliases(&["lua-enable-insecure-api"])
            .immutable().hidden().no_effect_yet();

    /// Maximum number of keys remembered for clients with tracking; 0 means no limit.
    tracking_table_max_keys: usize =>
        integer("tracking-table-max-keys", || 1_000_000, 0, LONG_MAX, Unit::Plain);

    /// Microseconds to wait after each loaded key; -N waits one microsecond every N keys. For
    /// tests.
    key_load_delay_microseconds: i64 =>
        integer("key-load-delay", || 0, -(1 << 31), INT_MAX, Unit::Microseconds).hidden();

    /// Bytes loaded from a file between two checks for client events.
    loading_process_events_interval_bytes: u64 =>
        integer("loading-process-events-interval-bytes", || 2 << 20, 1024, INT_MAX, Unit::Plain)
            .hidden().no_effect_yet();
}

/// Position of `client-output-buffer-limit`.
pub(crate) const OUTPUT_LIMITS: usize = index_of!(client_output_buffer_limits);
