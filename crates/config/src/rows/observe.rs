// SPDX-License-Identifier: BSD-3-Clause
//! Directives about observability: slow commands, latency, metrics, events.

use crate::directive::{Special, Unit};
use crate::rows::LONG_MAX;

super::directives! {
    "Observation", after sketches;

    /// Log commands that take at least this many microseconds; 0 logs all, -1 none.
    slowlog_log_slower_than_microseconds: i64 =>
        integer("slowlog-log-slower-than", || 10_000, -1, LONG_MAX, Unit::Microseconds)
            .aliases(&["commandlog-execution-slower-than"]);

    /// Maximum number of entries in the slow log.
    slowlog_max_len: usize => integer("slowlog-max-len", || 128, 0, LONG_MAX, Unit::Plain)
        .aliases(&["commandlog-slow-execution-max-len"]);

    /// Log commands whose request has at least this many bytes; -1 logs none.
    commandlog_request_larger_than: i64 =>
        integer("commandlog-request-larger-than", || 1 << 20, -1, LONG_MAX, Unit::Plain);

    /// Maximum number of entries in the log of large requests.
    commandlog_large_request_max_len: usize =>
        integer("commandlog-large-request-max-len", || 128, 0, LONG_MAX, Unit::Plain);

    /// Log commands whose reply has at least this many bytes; -1 logs none.
    commandlog_reply_larger_than: i64 =>
        integer("commandlog-reply-larger-than", || 1 << 20, -1, LONG_MAX, Unit::Plain);

    /// Maximum number of entries in the log of large replies.
    commandlog_large_reply_max_len: usize =>
        integer("commandlog-large-reply-max-len", || 128, 0, LONG_MAX, Unit::Plain);

    /// Record latency events of at least this many milliseconds; 0 disables the latency monitor.
    latency_monitor_threshold_milliseconds: u64 =>
        integer("latency-monitor-threshold", || 0, 0, LONG_MAX, Unit::Milliseconds);

    /// HTTP port: Prometheus metrics at /metrics, health checks at /health and /ready, a status
    /// page at /. 0 disables it.
    metrics_port: u16 => integer("metrics-port", || 0, 0, 65535, Unit::Plain).immutable().beyond_redis();

    /// Addresses to listen on for metrics-port, separated by spaces.
    metrics_bind: text =>
        text("metrics-bind", "127.0.0.1").immutable().beyond_redis().only_with(&["metrics-port"]);

    /// Record a latency histogram for each command.
    latency_tracking: bool => switch("latency-tracking", true);

    /// Percentiles of these histograms shown by INFO latencystats.
    latency_tracking_info_percentiles: special =>
        special("latency-tracking-info-percentiles", Special::LatencyPercentiles);

    /// Keyspace events to publish: K (channel per key) and E (channel per event), then classes: g
    /// generic, $ strings, l lists, s sets, h hashes, z sorted sets, x expired, e evicted, t
    /// streams, d modules, m missed keys, n new keys, o overwritten values, c type changes, A all
    /// except m, n, o and c. S, T, I and V publish the fields of hashes that changed: a channel per
    /// key, per event, per key and field, per event and key. Empty publishes none.
    notify_keyspace_events: special => special("notify-keyspace-events", Special::NotifyKeyspaceEvents);

    /// Also publish the values of expired and evicted strings, on the channel
    /// `__keyvalue@<db>__:<event>:<key>`, if the event itself is published.
    notify_keyspace_values: bool => switch("notify-keyspace-values", false);
}

/// Position of `notify-keyspace-events`.
pub(crate) const NOTIFY: usize = index_of!(notify_keyspace_events);
/// Position of `latency-tracking-info-percentiles`.
pub(crate) const PERCENTILES: usize = index_of!(latency_tracking_info_percentiles);
