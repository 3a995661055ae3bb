// SPDX-License-Identifier: BSD-3-Clause
//! Figures of the server that INFO and the metrics show, one row each. Those of services stand
//! with their service.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_clients::{ClientRecord, client_flags};
use braid_durable::background_save;
use braid_executor::Engine;
use braid_executor::engine::access;
use braid_keyspace::Counters;
use braid_notify::SubscriptionKind;
use braid_scripting::cache;
use braid_telemetry::Figure;
use braid_telemetry::Reading::{self, Count, Flag, Milliseconds, Ratio, Seconds, Success};
use braid_telemetry::stats::{self, CommandTotals, ThreadStats};

use super::memory_report::Basics;

/// The sum of a counter over all threads.
fn total(engine: &Engine, counter: fn(&ThreadStats) -> u64) -> Reading {
    Count(stats::total(&engine.telemetry.threads, counter))
}

/// The sum of one of the keyspace's counters over all threads.
fn keys(engine: &Engine, counter: fn(&Counters) -> u64) -> Reading {
    Count(engine.keyspace.total(counter))
}

/// `None` for -1: there is no value yet.
fn seconds_or_none(seconds: i64) -> Reading {
    Seconds(Some(seconds).filter(|seconds| *seconds >= 0))
}

/// A figure that exists only while the append-only file is on.
fn of_file(engine: &Engine, value: fn(&Engine) -> u64) -> Reading {
    Count(if engine.append_only.on.load(Relaxed) { value(engine) } else { 0 })
}

/// The largest amount of a client.
fn client_max(clients: &[Arc<ClientRecord>], amount: fn(&ClientRecord) -> usize) -> Reading {
    Reading::count(clients.iter().map(|client| amount(client)).max().unwrap_or(0))
}

type OfEngine = Figure<Engine>;
type OfClients = Figure<[Arc<ClientRecord>]>;
type OfMemory = Figure<Basics>;
type OfScripts = Figure<cache::Figures>;

#[rustfmt::skip]
mod rows {
    use super::*;

    pub static UPTIME: OfEngine = Figure::gauge("uptime_in_seconds", "braid_uptime_seconds", "Time since the server started.", |engine| Seconds(Some(engine.process.uptime_seconds())));

    // Clients.
    pub static CLIENTS_MAX: OfEngine = Figure::gauge("maxclients", "braid_clients_max", "Limit of connected clients (maxclients).", |engine| Reading::Count(engine.config.maxclients().into()));
    pub static CLIENTS_PRIORITY: OfEngine = Figure::gauge("connected_priority_clients", "braid_clients_priority", "Connected clients from priority-subnets.", |engine| Reading::count(engine.clients.registry.priority_count()));
    pub static PUBSUB_CLIENTS: OfClients = Figure::gauge("pubsub_clients", "braid_clients_pubsub", "Clients subscribed to channels or patterns.", |clients| {
        Reading::count(clients.iter().filter(|client| client.has(client_flags::PUBSUB)).count())
    });
    pub static TRACKING_CLIENTS: OfEngine = Figure::gauge("tracking_clients", "braid_clients_tracking", "Clients with client-side caching (CLIENT TRACKING).", |engine| Reading::count(engine.trackers.clients()));
    pub static INPUT_BUFFER_MAX: OfClients = Figure::gauge("client_recent_max_input_buffer", "braid_clients_input_buffer_max_bytes", "Largest input buffer of a client.", |clients| {
        client_max(clients, |client| client.query_bytes.load(Relaxed) + client.query_free.load(Relaxed))
    });
    pub static OUTPUT_BUFFER_MAX: OfClients = Figure::gauge("client_recent_max_output_buffer", "braid_clients_output_buffer_max_bytes", "Largest output buffer of a client.", |clients| {
        client_max(clients, |client| client.reply_bytes.load(Relaxed))
    });
    pub static CONNECTIONS: OfEngine = Figure::counter("total_connections_received", "braid_connections_total", "Connections accepted.", |engine| Count(engine.clients.registry.accepted.load(Relaxed)));
    pub static CONNECTIONS_REJECTED: OfEngine = Figure::counter("rejected_connections", "braid_connections_rejected_total", "Connections refused because of maxclients.", |engine| Count(engine.clients.registry.rejected.load(Relaxed)));
    pub static PRIORITY_REJECTED: OfEngine = Figure::counter("rejected_priority_connections", "braid_priority_connections_rejected_total", "Connections from priority-subnets refused because of maxclients.", |engine| Count(engine.clients.registry.rejected_priority.load(Relaxed)));
    pub static CLIENTS_EVICTED: OfEngine = Figure::counter("evicted_clients", "braid_clients_evicted_total", "Clients closed because of maxmemory-clients.", |engine| total(engine, |thread| thread.evicted_clients.get()));
    pub static OUTPUT_LIMIT_DISCONNECTIONS: OfEngine = Figure::counter("client_output_buffer_limit_disconnections", "braid_output_limit_disconnections_total", "Clients closed because of client-output-buffer-limit.", |engine| total(engine, |thread| thread.output_limit_disconnections.get()));
    pub static QUERY_LIMIT_DISCONNECTIONS: OfEngine = Figure::counter("client_query_buffer_limit_disconnections", "braid_query_limit_disconnections_total", "Clients closed because of client-query-buffer-limit.", |engine| total(engine, |thread| thread.query_limit_disconnections.get()));

    // Memory.
    pub static MEMORY_USED: OfMemory = Figure::gauge("used_memory", "braid_memory_used_bytes", "Memory allocated.", |memory| Reading::count(memory.total));
    pub static MEMORY_PEAK: OfMemory = Figure::gauge("used_memory_peak", "braid_memory_peak_bytes", "Peak of allocated memory.", |memory| Reading::count(memory.peak));
    pub static MEMORY_RESIDENT: OfMemory = Figure::gauge("used_memory_rss", "braid_memory_resident_bytes", "Physical memory of the process.", |memory| Reading::count(memory.resident));
    pub static MEMORY_MAX: OfEngine = Figure::gauge("maxmemory", "braid_memory_max_bytes", "Memory limit (maxmemory); 0 without one.", |engine| Count(engine.config.maxmemory()));
    pub static MEMORY_NOT_COUNTED: OfEngine = Figure::gauge("mem_not_counted_for_evict", "braid_memory_not_counted_bytes", "Memory not counted towards maxmemory: buffers of replicas and of the append-only file.", |engine| Reading::count(engine.memory.uncounted_bytes.load(Relaxed)));
    pub static ALLOCATOR_ACTIVE: OfMemory = Figure::gauge("allocator_active", "braid_memory_allocator_active_bytes", "Memory in pages of the allocator that are in use.", |memory| Reading::count(memory.allocator.active));
    pub static ALLOCATOR_RESIDENT: OfMemory = Figure::gauge("allocator_resident", "braid_memory_allocator_resident_bytes", "Physical memory held by the allocator.", |memory| Reading::count(memory.allocator.resident));
    pub static FRAGMENTATION: OfMemory = Figure::gauge("mem_fragmentation_ratio", "braid_memory_fragmentation_ratio", "Physical memory of the process divided by memory allocated.", |memory| Ratio(memory.fragmentation().ratio));
    pub static ALLOCATOR_FRAGMENTATION: OfMemory = Figure::gauge("allocator_frag_ratio", "braid_memory_allocator_fragmentation_ratio", "Pages of the allocator in use divided by memory allocated.", |memory| Ratio(memory.allocator_fragmentation().ratio));
    pub static JOURNAL: OfEngine = Figure::gauge("mem_aof_buffer", "braid_memory_replication_buffers_bytes", "Memory used by the replication backlog and by changes not yet sent or written.", |engine| Reading::count(engine.keyspace.journal.memory_bytes()));
    /// Of the times above the limit: in all, and now.
    pub static OVER_LIMIT: Figure<(u64, u64)> = Figure::counter("total_eviction_exceeded_time", "braid_memory_over_limit_seconds_total", "Time spent above maxmemory.", |(total_ms, _)| Milliseconds(i64::try_from(*total_ms).ok()));
    pub static LAZYFREE_PENDING: OfEngine = Figure::gauge("lazyfree_pending_objects", "braid_lazyfree_pending_objects", "Values waiting to be freed in the background.", |engine| Reading::count(engine.keyspace.lazy_free.pending()));
    pub static SCRIPTS: OfScripts = Figure::gauge("number_of_cached_scripts", "braid_scripts_cached", "Scripts in the script cache.", |scripts| Reading::count(scripts.scripts));
    pub static FUNCTIONS: OfScripts = Figure::gauge("number_of_functions", "braid_functions", "Functions loaded.", |scripts| Reading::count(scripts.functions));

    // Keys.
    pub static HITS: OfEngine = Figure::counter("keyspace_hits", "braid_keyspace_hits_total", "Key lookups that found the key.", |engine| keys(engine, |keys| keys.hits.get()));
    pub static MISSES: OfEngine = Figure::counter("keyspace_misses", "braid_keyspace_misses_total", "Key lookups that did not find the key.", |engine| keys(engine, |keys| keys.misses.get()));
    pub static EXPIRED: OfEngine = Figure::counter("expired_keys", "braid_keys_expired_total", "Keys removed because they expired.", |engine| keys(engine, |keys| keys.expired.get()));
    /// The name in INFO is Valkey's; Redis 8 has another.
    pub static EXPIRED_MEMBERS: OfEngine = Figure::counter("expired_fields", "braid_members_expired_total", "Hash fields and members of collections removed because they expired.", |engine| keys(engine, |keys| keys.expired_members.get()));
    pub static EVICTED: OfEngine = Figure::counter("evicted_keys", "braid_keys_evicted_total", "Keys evicted because of maxmemory.", |engine| keys(engine, |keys| keys.evicted.get()));
    pub static LOCK_WAITS: OfEngine = Figure::counter("lock_waits", "braid_lock_waits_total", "Waits for a shard lock.", |engine| keys(engine, |keys| keys.contended.get()));

    // Snapshots (RDB).
    pub static LAST_SAVE: OfEngine = Figure::gauge("rdb_last_save_time", "braid_rdb_last_save_timestamp_seconds", "Unix time of the last successful save; the start time before the first.", |engine| Seconds(Some(engine.persistence.last_save_s.load(Relaxed))));
    pub static LAST_BGSAVE_SUCCESS: OfEngine = Figure::gauge("rdb_last_bgsave_status", "braid_rdb_last_bgsave_success", "1 if the last background save succeeded, or none has run.", |engine| Success(!engine.background_save.last_failed.load(Relaxed)));
    pub static LAST_BGSAVE_DURATION: OfEngine = Figure::gauge("rdb_last_bgsave_time_sec", "braid_rdb_last_bgsave_duration_seconds", "Duration of the last background save; NaN before the first.", |engine| seconds_or_none(engine.background_save.last_seconds.load(Relaxed)));
    pub static UNSAVED_CHANGES: OfEngine = Figure::gauge("rdb_changes_since_last_save", "braid_rdb_changes_since_last_save", "Changes to the dataset since the last successful save.", |engine| Count(engine.keyspace.unsaved_changes()));
    pub static SAVE_IN_PROGRESS: OfEngine = Figure::gauge("rdb_bgsave_in_progress", "braid_rdb_save_in_progress", "1 while a snapshot is being written to a file.", |engine| Flag(background_save::is_saving(engine)));
    pub static SAVES: OfEngine = Figure::counter("rdb_saves", "braid_rdb_saves_total", "Successful saves.", |engine| Count(engine.persistence.saves.load(Relaxed)));

    // The append-only file.
    pub static AOF_ENABLED: OfEngine = Figure::gauge("aof_enabled", "braid_aof_enabled", "1 if the append-only file is on.", |engine| Flag(engine.append_only.on.load(Relaxed)));
    pub static AOF_LAST_WRITE_SUCCESS: OfEngine = Figure::gauge("aof_last_write_status", "braid_aof_last_write_success", "0 while changes cannot be written to the append-only file.", |engine| Success(engine.append_only.appender.failure().is_none()));
    pub static AOF_SIZE: OfEngine = Figure::gauge("aof_current_size", "braid_aof_size_bytes", "Size of the append-only file; 0 while it is off.", |engine| of_file(engine, |engine| engine.append_only.appender.size()));
    pub static AOF_BASE_SIZE: OfEngine = Figure::gauge("aof_base_size", "braid_aof_base_size_bytes", "Size of the append-only file after the last rewrite, or at startup; 0 while it is off.", |engine| of_file(engine, |engine| engine.append_only.base_size.load(Relaxed)));
    pub static AOF_BUFFER: OfEngine = Figure::gauge("aof_buffer_length", "braid_aof_buffer_bytes", "Changes not yet written to the append-only file.", |engine| {
        of_file(engine, |engine| engine.keyspace.journal.end().saturating_sub(engine.append_only.appender.written()))
    });
    pub static AOF_PENDING_FSYNCS: OfEngine = Figure::gauge("aof_pending_bio_fsync", "braid_aof_pending_fsyncs", "Calls of fsync that are waiting or in progress.", |engine| of_file(engine, |engine| engine.append_only.appender.syncs_pending()));
    pub static AOF_DELAYED_FSYNCS: OfEngine = Figure::counter("aof_delayed_fsync", "braid_aof_delayed_fsyncs_total", "Times that clients had to wait because the disk was behind.", |engine| Count(engine.append_only.delayed_syncs.load(Relaxed)));
    /// Of [`braid_executor::state::append_only`]'s rewrite: whether it runs, and whether one is
    /// scheduled.
    pub static AOF_REWRITE_IN_PROGRESS: Figure<(bool, bool)> = Figure::gauge("aof_rewrite_in_progress", "braid_aof_rewrite_in_progress", "1 while the append-only file is being rewritten.", |(is_running, _)| Flag(*is_running));
    pub static BACKUP_IN_PROGRESS: OfEngine = Figure::gauge("backup_in_progress", "braid_backup_in_progress", "1 from BACKUP START until the backup is sealed or has failed.", |engine| Flag(engine.persistence.backup.phase().is_under_way()));
    pub static AOF_REWRITE_SCHEDULED: Figure<(bool, bool)> = Figure::gauge("aof_rewrite_scheduled", "braid_aof_rewrite_scheduled", "1 if a rewrite is scheduled.", |(_, is_scheduled)| Flag(*is_scheduled));
    pub static AOF_LAST_REWRITE_SUCCESS: OfEngine = Figure::gauge("aof_last_bgrewrite_status", "braid_aof_last_rewrite_success", "1 if the last rewrite succeeded, or none has run.", |engine| Success(!engine.append_only.last_failed.load(Relaxed)));
    pub static AOF_LAST_REWRITE_DURATION: OfEngine = Figure::gauge("aof_last_rewrite_time_sec", "braid_aof_last_rewrite_duration_seconds", "Duration of the last rewrite; NaN before the first.", |engine| seconds_or_none(engine.append_only.last_seconds.load(Relaxed)));
    pub static AOF_REWRITE_FAILURES: OfEngine = Figure::gauge("aof_rewrites_consecutive_failures", "braid_aof_rewrite_consecutive_failures", "Rewrites that failed since the last success.", |engine| Count(engine.append_only.failures.load(Relaxed).unsigned_abs()));
    pub static AOF_REWRITES: OfEngine = Figure::counter("aof_rewrites", "braid_aof_rewrites_total", "Rewrites begun.", |engine| Count(engine.append_only.rewrites.load(Relaxed)));

    // Replication.
    pub static GOOD_REPLICAS: OfEngine = Figure::gauge("min_slaves_good_slaves", "braid_replicas_good", "Replicas that are online and within min-replicas-max-lag.", |engine| Reading::count(engine.replication.good.load(Relaxed)));
    pub static BACKLOG: OfEngine = Figure::gauge("mem_replication_backlog", "braid_replication_backlog_bytes", "Bytes of the replication stream kept for replicas that reconnect.", |engine| Count(engine.keyspace.journal.backlog().map_or(0, |kept| kept.len)));
    pub static BACKLOG_MAX: OfEngine = Figure::gauge("repl_backlog_size", "braid_replication_backlog_max_bytes", "Maximum size of the replication backlog (repl-backlog-size).", |engine| Count(engine.config.repl_backlog_size()));
    pub static REPLICATION_SENT: OfEngine = Figure::counter("total_net_repl_output_bytes", "braid_replication_sent_bytes_total", "Bytes sent to replicas.", |engine| Count(engine.replication.sent_bytes.load(Relaxed)));
    pub static REPLICATION_RECEIVED: OfEngine = Figure::counter("total_net_repl_input_bytes", "braid_replication_received_bytes_total", "Bytes received from primaries.", |engine| Count(engine.replication.link.received_bytes.load(Relaxed)));
    pub static FULL_SYNCS: OfEngine = Figure::counter("sync_full", "braid_replication_full_syncs_total", "Full syncs started for replicas.", |engine| Count(engine.replication.full.load(Relaxed)));
    pub static PARTIAL_SYNCS: OfEngine = Figure::counter("sync_partial_ok", "braid_replication_partial_syncs_total", "Replicas that resumed from the backlog.", |engine| Count(engine.replication.partial.load(Relaxed)));
    pub static PARTIAL_SYNCS_REFUSED: OfEngine = Figure::counter("sync_partial_err", "braid_replication_partial_syncs_refused_total", "Replicas that could not resume from the backlog.", |engine| Count(engine.replication.partial_refused.load(Relaxed)));

    // Traffic and errors.
    pub static COMMANDS: OfEngine = Figure::counter("total_commands_processed", "braid_commands_total", "Commands executed.", |engine| Count(engine.telemetry.total_commands()));
    pub static ERROR_REPLIES: OfEngine = Figure::counter("total_error_replies", "braid_error_replies_total", "Error replies sent.", |engine| total(engine, |thread| thread.error_replies.get()));
    pub static CHANNELS: OfEngine = Figure::gauge("pubsub_channels", "braid_pubsub_channels", "Channels with subscribers.", |engine| Reading::count(engine.hub.name_count(SubscriptionKind::Channel)));
    pub static PATTERNS: OfEngine = Figure::gauge("pubsub_patterns", "braid_pubsub_patterns", "Patterns with subscribers.", |engine| Reading::count(engine.hub.name_count(SubscriptionKind::Pattern)));
    pub static SHARD_CHANNELS: OfEngine = Figure::gauge("pubsubshard_channels", "braid_pubsub_shard_channels", "Shard channels with subscribers.", |engine| Reading::count(engine.hub.name_count(SubscriptionKind::ShardChannel)));
    pub static TRACKING_KEYS: OfEngine = Figure::gauge("tracking_total_keys", "braid_tracking_keys", "Keys read by clients with client-side caching.", |engine| Reading::count(engine.trackers.keys()));

    // Commands: INFO shows them in a line for each.
    pub static CALLS: Figure<CommandTotals> = Figure::counter("calls", "braid_command_calls_total", "Calls of a command.", |command| Count(command.calls));
    pub static REJECTED_CALLS: Figure<CommandTotals> = Figure::counter("rejected_calls", "braid_command_rejected_total", "Calls of a command rejected before execution.", |command| Count(command.rejected));
    pub static FAILED_CALLS: Figure<CommandTotals> = Figure::counter("failed_calls", "braid_command_failed_total", "Calls of a command that failed during execution.", |command| Count(command.failed));

    // Threads: INFO shows them in a line for each.
    pub static THREAD_READS: Figure<ThreadStats> = Figure::counter("reads", "braid_thread_reads_total", "Reads from sockets by a thread.", |thread| Count(thread.reads.get()));
    pub static THREAD_WRITES: Figure<ThreadStats> = Figure::counter("writes", "braid_thread_writes_total", "Writes to sockets by a thread.", |thread| Count(thread.writes.get()));
    pub static THREAD_COMMANDS: Figure<ThreadStats> = Figure::counter("commands", "braid_thread_commands_total", "Commands executed by a thread.", |thread| Count(thread.executed.get()));
    pub static THREAD_RECEIVED: Figure<ThreadStats> = Figure::counter("net_in", "braid_thread_received_bytes_total", "Bytes received by a thread.", |thread| Count(thread.net_in.get()));
    pub static THREAD_SENT: Figure<ThreadStats> = Figure::counter("net_out", "braid_thread_sent_bytes_total", "Bytes sent by a thread.", |thread| Count(thread.net_out.get()));
}

pub use rows::*;

/// Logins, commands and names refused by the ACL: the name in INFO, the metric's label for the
/// reason, and how many.
pub fn refusals(engine: &Engine) -> [(&'static str, &'static str, u64); 6] {
    let total = |counter: fn(&ThreadStats) -> u64| stats::total(&engine.telemetry.threads, counter);
    [
        ("acl_access_denied_auth", "auth", access::denied_logins(engine)),
        ("acl_access_denied_cmd", "command", total(|thread| thread.denied_commands.get())),
        ("acl_access_denied_key", "key", total(|thread| thread.denied_keys.get())),
        ("acl_access_denied_channel", "channel", total(|thread| thread.denied_channels.get())),
        ("acl_access_denied_tls_cert", "tls-cert", total(|thread| thread.denied_certificates.get())),
        ("acl_access_denied_db", "database", total(|thread| thread.denied_databases.get())),
    ]
}
