// SPDX-License-Identifier: BSD-3-Clause
//! Directives about watching the server: slow commands, latency, events.

use crate::directive::{Special, Unit};
use crate::rows::LONG_MAX;

super::directives! {
    "Observation", after types;

    /// Log commands that take longer than this many microseconds; 0 logs all, -1 none.
    slowlog_log_slower_than_microseconds: i64 =>
        integer("slowlog-log-slower-than", || 10_000, -1, LONG_MAX, Unit::Microseconds)
            .aliases(&["commandlog-execution-slower-than"]);

    /// Slow commands that are kept.
    slowlog_max_len: usize => integer("slowlog-max-len", || 128, 0, LONG_MAX, Unit::Plain)
        .aliases(&["commandlog-slow-execution-max-len"]);

    /// Log commands whose request is larger than this many bytes; -1 logs none.
    commandlog_request_larger_than: i64 =>
        integer("commandlog-request-larger-than", || 1 << 20, -1, LONG_MAX, Unit::Plain);

    /// Commands with a large request that are kept.
    commandlog_large_request_max_len: usize =>
        integer("commandlog-large-request-max-len", || 128, 0, LONG_MAX, Unit::Plain);

    /// Log commands whose reply is larger than this many bytes; -1 logs none.
    commandlog_reply_larger_than: i64 =>
        integer("commandlog-reply-larger-than", || 1 << 20, -1, LONG_MAX, Unit::Plain);

    /// Commands with a large reply that are kept.
    commandlog_large_reply_max_len: usize =>
        integer("commandlog-large-reply-max-len", || 128, 0, LONG_MAX, Unit::Plain);

    /// Record events that take at least this many milliseconds; 0 records none.
    latency_monitor_threshold_milliseconds: u64 =>
        integer("latency-monitor-threshold", || 0, 0, LONG_MAX, Unit::Milliseconds);

    /// Port for HTTP: metrics for Prometheus at /metrics, health checks at /health and /ready, a
    /// page at /. 0 listens nowhere.
    metrics_port: u16 => integer("metrics-port", || 0, 0, 65535, Unit::Plain).immutable().beyond_redis();

    /// Addresses that this port is listened to at, separated by blanks.
    metrics_bind: text =>
        text("metrics-bind", "127.0.0.1").immutable().beyond_redis().only_with(&["metrics-port"]);

    /// Keep a histogram of run times for each command.
    latency_tracking: bool => switch("latency-tracking", true);

    /// Percentiles of those run times that INFO latencystats shows.
    latency_tracking_info_percentiles: special =>
        special("latency-tracking-info-percentiles", Special::LatencyPercentiles);

    /// Events that are published, by letters: K and E for the two kinds of channel, then classes: g
    /// generic, $ strings, l lists, s sets, h hashes, z sorted sets, x expired, e evicted, t
    /// streams, d modules, m missed keys, n new keys, o values that were overwritten, c keys whose
    /// type changed, A for all but m, n, o and c. Empty publishes nothing.
    notify_keyspace_events: special => special("notify-keyspace-events", Special::NotifyKeyspaceEvents);

    /// Publish the value of strings that expire or are evicted, too: on the channel
    /// __keyvalue@<db>__:<event>:<key>, where the event itself is published.
    notify_keyspace_values: bool => switch("notify-keyspace-values", false);
}

/// Position of `notify-keyspace-events`.
pub(crate) const NOTIFY: usize = index_of!(notify_keyspace_events);
/// Position of `latency-tracking-info-percentiles`.
pub(crate) const PERCENTILES: usize = index_of!(latency_tracking_info_percentiles);
