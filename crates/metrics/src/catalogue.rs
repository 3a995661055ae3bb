// SPDX-License-Identifier: BSD-3-Clause
//! The catalogue: one row per metric, with its name, type, help text and source.
//!
//! Names follow Prometheus conventions: prefix `braid_`, base units (seconds, bytes, ratios from
//! 0 to 1), `_total` for counters. The five metrics `process_...` have the names and meaning used
//! by all Prometheus client libraries. A metric without labels is always present; one with labels
//! has a sample for each existing object (a thread, a replica, a called command). No label takes
//! unbounded values from clients: see [`USERS_MAX`].
//!
//! A source reads counters and settings. It must not lock a shard or read a key, because the world
//! may be stopped.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_acl::log::Reason;
use braid_acl::user::User;
use braid_active_node::report::{ActiveReport, PeerReport};
use braid_base::clock::unix_ms;
use braid_clients::attention::{APPEND_ONLY_FAILED, FEW_REPLICAS, WRITES_REFUSED};
use braid_clients::{ClientRecord, client_flags};
use braid_cluster_node::cluster_report::{self, ClusterReport};
use braid_cluster_node::group;
use braid_cluster_node::group::report::{GroupReport, SyncWritesReport};
use braid_commands::scripting;
use braid_commands::server::system::{self, Whose};
use braid_commands::server::{allocator, hot_keys};
use braid_durable::background_save;
use braid_executor::Engine;
use braid_executor::engine::access;
use braid_keyspace::Counters;
use braid_notify::SubscriptionKind;
use braid_replica::report::{LinkReport, ReplicaReport, SendProgress};
use braid_replication::Stage;
use braid_replication::link::Phase;
use braid_search_node::report::SearchReport;
use braid_spec::Command;
use braid_telemetry::command_log::LogKind;
use braid_telemetry::hot_keys::Report;
use braid_telemetry::stats::{self, CommandTotals, ThreadStats};

use crate::text::{MetricKind, Samples};

/// A metric.
pub struct Metric {
    pub name: &'static str,
    pub kind: MetricKind,
    pub help: &'static str,
    pub source: Source,
}

/// The source of a metric's samples.
pub enum Source {
    /// One sample without labels.
    One(fn(&Scrape<'_>) -> f64),
    /// Samples with labels, possibly none.
    Many(fn(&Scrape<'_>, &mut Samples<'_>)),
}

const fn counter(name: &'static str, help: &'static str, value: fn(&Scrape<'_>) -> f64) -> Metric {
    Metric { name, kind: MetricKind::Counter, help, source: Source::One(value) }
}

const fn gauge(name: &'static str, help: &'static str, value: fn(&Scrape<'_>) -> f64) -> Metric {
    Metric { name, kind: MetricKind::Gauge, help, source: Source::One(value) }
}

const fn counters(
    name: &'static str,
    help: &'static str,
    samples: fn(&Scrape<'_>, &mut Samples<'_>),
) -> Metric {
    Metric { name, kind: MetricKind::Counter, help, source: Source::Many(samples) }
}

const fn gauges(
    name: &'static str,
    help: &'static str,
    samples: fn(&Scrape<'_>, &mut Samples<'_>),
) -> Metric {
    Metric { name, kind: MetricKind::Gauge, help, source: Source::Many(samples) }
}

/// Maximum number of users with refusals shown; those with the most come first.
const USERS_MAX: usize = 100;

/// Upper bounds of the buckets of run times, in nanoseconds.
pub const BUCKETS_NANOS: [u64; 16] = [
    500,
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
];

/// Sources shared by several metrics, read once per scrape.
pub struct Scrape<'e> {
    engine: &'e Engine,
    now_ms: i64,
    clients: Vec<Arc<ClientRecord>>,
    /// Replicas, with unique names for labels.
    replicas: Vec<(String, ReplicaReport)>,
    /// The link to the primary, and the primary's address, if this server is a replica.
    link: Option<(String, LinkReport)>,
    /// The group, if this server is in one.
    group: Option<GroupReport>,
    /// The cluster, in cluster mode.
    cluster: Option<ClusterReport>,
    /// Active-active replication, if it is on.
    active: Option<ActiveReport>,
    /// Commands that have been called.
    commands: Vec<(&'e Command, CommandTotals)>,
    used: usize,
    resident: usize,
    allocator: allocator::Figures,
    cpu_seconds: f64,
    scripts: (usize, usize),
    script_bytes: usize,
    hot_keys: Option<Report>,
    search: SearchReport,
}

impl<'e> Scrape<'e> {
    pub fn new(engine: &'e Engine) -> Scrape<'e> {
        let commands = engine.commands.all().iter();
        let commands = commands
            .map(|command| (command, stats::command_totals(&engine.telemetry.threads, command.id)))
            .filter(|(_, totals)| totals.calls + totals.rejected + totals.failed > 0)
            .collect();
        let cpu = system::cpu_time(Whose::Process);
        let scripts = scripting::figures(engine);
        Scrape {
            engine,
            now_ms: unix_ms(),
            clients: engine.clients.registry.all(),
            replicas: named(braid_replica::report::replica_reports(engine)),
            link: braid_replica::report::link_report(engine)
                .map(|report| (report.primary.to_string(), report)),
            group: group::report::group_report(engine),
            cluster: cluster_report::cluster_report(engine),
            active: braid_active_node::report::active_report(engine),
            commands,
            used: braid_base::alloc::used_bytes(),
            resident: braid_process::memory::resident_bytes(),
            allocator: allocator::figures(),
            cpu_seconds: (cpu.user + cpu.system).as_secs_f64(),
            scripts: (scripts.scripts, scripts.functions),
            script_bytes: scripts.script_vm_bytes
                + scripts.function_vm_bytes
                + scripts.script_bytes
                + scripts.function_bytes,
            hot_keys: hot_keys::report(engine),
            search: braid_search_node::report::report(&engine.keyspace),
        }
    }

    /// The sum of a counter over all threads.
    fn total(&self, counter: fn(&ThreadStats) -> u64) -> f64 {
        stats::total(&self.engine.telemetry.threads, counter) as f64
    }

    /// The sum of one of the keyspace's counters over all threads.
    fn keys_total(&self, counter: fn(&Counters) -> u64) -> f64 {
        self.engine.keyspace.total(counter) as f64
    }

    /// Number of clients with a flag.
    fn clients_with(&self, flag: u32) -> f64 {
        self.clients.iter().filter(|record| record.has(flag)).count() as f64
    }

    /// The maximum of an amount over all clients.
    fn client_max(&self, amount: fn(&ClientRecord) -> usize) -> f64 {
        self.clients.iter().map(|record| amount(record)).max().unwrap_or(0) as f64
    }

    /// 1 if a state of the engine's attention word is set.
    fn state(&self, state: u64) -> f64 {
        yes(self.engine.attention.get() & state != 0)
    }
}

/// Gives replicas unique names, since several may report the same address.
fn named(reports: Vec<ReplicaReport>) -> Vec<(String, ReplicaReport)> {
    let mut taken = BTreeSet::new();
    let name = |report: ReplicaReport| {
        let mut name = report.replica.name();
        if !taken.insert(name.clone()) {
            name = format!("{name} (client id #{})", report.replica.record.id);
        }
        (name, report)
    };
    reports.into_iter().map(name).collect()
}

/// 1 for true, 0 for false.
fn yes(is: bool) -> f64 {
    f64::from(u8::from(is))
}

/// Seconds, or NaN for -1, which means that there is no value yet.
fn seconds_or_none(seconds: i64) -> f64 {
    if seconds < 0 { f64::NAN } else { seconds as f64 }
}

/// A share from 0 to 1; `whole` may be 0.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn each_thread(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: fn(&ThreadStats) -> f64) {
    for (number, thread) in scrape
        .engine
        .telemetry
        .threads
        .iter()
        .take(scrape.engine.clients.mailboxes.thread_count())
        .enumerate()
    {
        samples.add(&[("thread", &number.to_string())], value(thread));
    }
}

fn each_database(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: fn((usize, usize)) -> usize) {
    let keyspace = &scrape.engine.keyspace;
    for db in 0..keyspace.databases() {
        let (keys, expiring) = keyspace.visible_len(db);
        if keys > 0 || db == 0 {
            samples.add(&[("db", &db.to_string())], value((keys, expiring)) as f64);
        }
    }
}

fn each_command(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: fn(&CommandTotals) -> u64) {
    for (command, totals) in &scrape.commands {
        samples.add(&[("command", &command.full_name)], value(totals) as f64);
    }
}

fn each_replica(
    scrape: &Scrape<'_>,
    samples: &mut Samples<'_>,
    value: fn(&Scrape<'_>, &ReplicaReport) -> f64,
) {
    for (name, report) in &scrape.replicas {
        samples.add(&[("replica", name)], value(scrape, report));
    }
}

/// A metric of full syncs to replicas, while there are any.
fn each_full_sync(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: fn(&SendProgress) -> f64) {
    for (name, report) in &scrape.replicas {
        if let Some(sync) = &report.full_sync {
            samples.add(&[("replica", name)], value(sync));
        }
    }
}

/// A metric of the link to the primary, if there is a link and the value is known.
fn of_link(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: fn(&LinkReport) -> Option<f64>) {
    if let Some((primary, report)) = &scrape.link
        && let Some(value) = value(report)
    {
        samples.add(&[("primary", primary)], value);
    }
}

/// A metric of the group, if this server is in one and the value exists.
fn of_group(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: impl FnOnce(&GroupReport) -> Option<f64>) {
    if let Some(report) = &scrape.group
        && let Some(value) = value(report)
    {
        samples.add(&[("group", &report.view.group), ("node", &report.view.id.node)], value);
    }
}

/// A metric of synchronous writes, while there may be any.
fn of_sync_writes(
    scrape: &Scrape<'_>,
    samples: &mut Samples<'_>,
    value: impl FnOnce(&SyncWritesReport) -> u64,
) {
    of_group(scrape, samples, |group| Some(value(group.sync_writes.as_ref()?) as f64));
}

/// A metric of the cluster, in cluster mode.
fn of_cluster(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: fn(&ClusterReport) -> f64) {
    if let Some(report) = &scrape.cluster {
        let cluster = scrape.engine.config.cluster_name();
        samples.add(&[("cluster", &cluster), ("node", &report.node)], value(report));
    }
}

/// Two values of the cluster, by direction: out of this node, and into it.
fn both_ways(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: fn(&ClusterReport) -> (usize, usize)) {
    if let Some(report) = &scrape.cluster {
        let (cluster, (out, into)) = (scrape.engine.config.cluster_name(), value(report));
        for (direction, count) in [("out", out), ("in", into)] {
            let labels = [("cluster", &*cluster), ("node", &*report.node), ("direction", direction)];
            samples.add(&labels, count as f64);
        }
    }
}

/// A metric of active-active replication, if it is on.
fn of_active(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: fn(&ActiveReport) -> u64) {
    if let Some(report) = &scrape.active {
        samples.add(&[("region", &report.region.to_string())], value(report) as f64);
    }
}

/// A metric of each peer, labelled with its region, which is empty until it is known.
fn each_peer(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: fn(&PeerReport) -> f64) {
    for peer in scrape.active.iter().flat_map(|report| &report.peers) {
        let region = peer.region.map(|region| region.to_string()).unwrap_or_default();
        samples.add(&[("peer", &peer.address()), ("peer_region", &region)], value(peer));
    }
}

/// The lag of each peer that pulls from this server.
fn each_behind(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: fn((u64, u64)) -> f64) {
    for peer in scrape.active.iter().flat_map(|report| &report.peers) {
        if let Some(behind) = peer.behind {
            let region = peer.region.map(|region| region.to_string()).unwrap_or_default();
            samples.add(&[("peer", &peer.address()), ("peer_region", &region)], value(behind));
        }
    }
}

fn seconds(ms: i64) -> f64 {
    ms as f64 / 1e3
}

fn each_log(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: fn(&Engine, LogKind) -> f64) {
    for (name, log) in [
        ("slow", LogKind::Slow),
        ("large-request", LogKind::LargeRequest),
        ("large-reply", LogKind::LargeReply),
    ] {
        samples.add(&[("log", name)], value(scrape.engine, log));
    }
}

fn each_hot_key(keys: &[(Box<[u8]>, u64)], samples: &mut Samples<'_>, unit: f64) {
    for (key, weight) in keys {
        samples.add(&[("key", &key.escape_ascii().to_string())], *weight as f64 / unit);
    }
}

fn info(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    let engine = scrape.engine;
    let model = engine.config.get_one("threading-model").unwrap_or_default();
    let policy = engine.config.get_one("maxmemory-policy").unwrap_or_default();
    let labels = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("compatible_with", &engine.config.redis_version()),
        ("threading_model", &model),
        ("maxmemory_policy", &policy),
        ("run_id", &engine.process.run_id),
    ];
    samples.add(&labels, 1.0);
}

/// Whether a client waits in a blocking command.
pub fn is_blocked(record: &ClientRecord) -> bool {
    record.has(client_flags::BLOCKED) && !record.has(client_flags::POSTPONED)
}

/// Logins, commands and names refused by the ACL, by reason.
pub fn refusals(engine: &Engine) -> [(&'static str, u64); 6] {
    let total = |counter: fn(&ThreadStats) -> u64| stats::total(&engine.telemetry.threads, counter);
    [
        ("auth", access::denied_logins(engine)),
        ("command", total(|thread| thread.denied_commands.get())),
        ("key", total(|thread| thread.denied_keys.get())),
        ("channel", total(|thread| thread.denied_channels.get())),
        ("database", total(|thread| thread.denied_databases.get())),
        ("tls-cert", total(|thread| thread.denied_certificates.get())),
    ]
}

fn refused_by_reason(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    for (reason, count) in refusals(scrape.engine) {
        samples.add(&[("reason", reason)], count as f64);
    }
}

/// Users with any refusals, those with the most first. Names without a user are not shown,
/// because clients can invent them.
fn refused_by_user(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    let counts = |user: &User| {
        let denied = Reason::ALL.map(|reason| (reason.name(), user.identity.denied(reason)));
        denied.into_iter().chain([("limit", user.identity.limited.load(Relaxed))])
    };
    let users = scrape.engine.acl.users().into_iter();
    let mut refused: Vec<_> = users
        .map(|user| (counts(&user).map(|(_, count)| count).sum::<u64>(), user))
        .filter(|(count, _)| *count > 0)
        .collect();
    refused.sort_by_key(|(count, _)| Reverse(*count));
    for (_, user) in refused.iter().take(USERS_MAX) {
        let name = user.name().escape_ascii().to_string();
        for (reason, count) in counts(user).filter(|(_, count)| *count > 0) {
            samples.add(&[("user", &name), ("reason", reason)], count as f64);
        }
    }
}

fn errors_by_code(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    let mut sum: BTreeMap<String, u64> = BTreeMap::new();
    for thread in scrape.engine.telemetry.threads.iter() {
        for (code, count) in thread.errors.lock().iter() {
            *sum.entry(code.clone()).or_default() += count;
        }
    }
    for (code, count) in sum {
        samples.add(&[("code", &code)], count as f64);
    }
}

fn refused_writes(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    let reasons =
        [("rdb_save", WRITES_REFUSED), ("aof_write", APPEND_ONLY_FAILED), ("min_replicas", FEW_REPLICAS)];
    for (reason, state) in reasons {
        samples.add(&[("reason", reason)], scrape.state(state));
    }
}

fn run_times(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    for (command, totals) in &scrape.commands {
        let sum = stats::command_latency(&scrape.engine.telemetry.threads, command.id);
        let count = sum.count();
        if count == 0 {
            continue;
        }
        let command = &*command.full_name;
        for limit in BUCKETS_NANOS {
            let bound = (limit as f64 / 1e9).to_string();
            let labels = [("command", command), ("le", &*bound)];
            samples.add_part("_bucket", &labels, sum.count_at_most(limit).min(count) as f64);
        }
        samples.add_part("_bucket", &[("command", command), ("le", "+Inf")], count as f64);
        samples.add_part("_sum", &[("command", command)], totals.nanos as f64 / 1e9);
        samples.add_part("_count", &[("command", command)], count as f64);
    }
}

/// All metrics, in display order.
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    // The server and its process.
    gauges("braid_info", "Version and mode of the server, in labels; always 1.", info),
    gauge("braid_uptime_seconds", "Time since the server started.", |s| s.engine.process.uptime_seconds() as f64),
    gauge("braid_loading", "1 while the dataset is being loaded.", |s| yes(s.engine.config.is_loading())),
    gauge("braid_loading_progress_ratio", "Fraction of the file that has been loaded; 0 while nothing is being loaded.", |s| {
        let progress = &s.engine.persistence.progress;
        if progress.active.load(Relaxed) { share(progress.loaded_bytes.load(Relaxed), progress.total_bytes.load(Relaxed)) } else { 0.0 }
    }),
    counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", |s| s.cpu_seconds),
    gauge("process_resident_memory_bytes", "Resident memory size in bytes.", |s| s.resident as f64),
    gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", |s| s.engine.process.started_at as f64),
    gauge("process_open_fds", "Number of open file descriptors.", |_| system::open_descriptors() as f64),
    gauge("process_max_fds", "Maximum number of open file descriptors.", |_| system::descriptors_max() as f64),

    // Clients.
    gauge("braid_clients", "Connected clients, replicas included.", |s| s.clients.len() as f64),
    gauge("braid_clients_max", "Limit of connected clients (maxclients).", |s| s.engine.config.maxclients() as f64),
    gauge("braid_clients_blocked", "Clients waiting in a blocking command.", |s| {
        s.clients.iter().filter(|record| is_blocked(record)).count() as f64
    }),
    gauge("braid_clients_pubsub", "Clients subscribed to channels or patterns.", |s| s.clients_with(client_flags::PUBSUB)),
    gauge("braid_clients_monitor", "Clients in MONITOR.", |s| s.clients_with(client_flags::MONITOR)),
    gauge("braid_clients_tracking", "Clients with client-side caching (CLIENT TRACKING).", |s| s.engine.trackers.clients() as f64),
    gauge("braid_clients_memory_bytes", "Memory held for clients.", |s| {
        s.clients.iter().map(|record| record.total_bytes.load(Relaxed)).sum::<usize>() as f64
    }),
    gauge("braid_clients_input_buffer_max_bytes", "Largest input buffer of a client.", |s| {
        s.client_max(|record| record.query_bytes.load(Relaxed) + record.query_free.load(Relaxed))
    }),
    gauge("braid_clients_output_buffer_max_bytes", "Largest output buffer of a client.", |s| {
        s.client_max(|record| record.reply_bytes.load(Relaxed))
    }),
    counter("braid_connections_total", "Connections accepted.", |s| s.engine.clients.registry.accepted.load(Relaxed) as f64),
    counter("braid_connections_rejected_total", "Connections refused because of maxclients.", |s| s.engine.clients.registry.rejected.load(Relaxed) as f64),
    counter("braid_clients_evicted_total", "Clients closed because of maxmemory-clients.", |s| s.total(|thread| thread.evicted_clients.get())),
    counter("braid_output_limit_disconnections_total", "Clients closed because of client-output-buffer-limit.", |s| s.total(|thread| thread.output_limit_disconnections.get())),
    counter("braid_query_limit_disconnections_total", "Clients closed because of client-query-buffer-limit.", |s| s.total(|thread| thread.query_limit_disconnections.get())),

    // Memory.
    gauge("braid_memory_used_bytes", "Memory allocated.", |s| s.used as f64),
    gauge("braid_memory_peak_bytes", "Peak of allocated memory.", |s| s.engine.memory.peak_with(s.used) as f64),
    gauge("braid_memory_resident_bytes", "Physical memory of the process.", |s| s.resident as f64),
    gauge("braid_memory_max_bytes", "Memory limit (maxmemory); 0 without one.", |s| s.engine.config.maxmemory() as f64),
    gauge("braid_memory_not_counted_bytes", "Memory not counted towards maxmemory: buffers of replicas and of the append-only file.", |s| s.engine.memory.uncounted_bytes.load(Relaxed) as f64),
    gauge("braid_memory_system_bytes", "Memory that the process may use: the machine's, or less in a container.", |s| {
        let container = s.engine.process.container_memory_bytes.unwrap_or(u64::MAX);
        braid_process::memory::machine_bytes().min(container) as f64
    }),
    gauge("braid_memory_fragmentation_ratio", "Physical memory of the process divided by memory allocated.", |s| share(s.resident as u64, s.used as u64)),
    gauge("braid_memory_allocator_active_bytes", "Memory in pages of the allocator that are in use.", |s| s.allocator.active as f64),
    gauge("braid_memory_allocator_resident_bytes", "Physical memory held by the allocator.", |s| s.allocator.resident as f64),
    gauge("braid_memory_allocator_fragmentation_ratio", "Pages of the allocator in use divided by memory allocated.", |s| share(s.allocator.active as u64, s.allocator.allocated as u64)),
    gauge("braid_memory_scripts_bytes", "Memory used by scripts and functions.", |s| s.script_bytes as f64),
    gauge("braid_memory_replication_buffers_bytes", "Memory used by the replication backlog and by changes not yet sent or written.", |s| s.engine.keyspace.journal.memory_bytes() as f64),
    counter("braid_memory_over_limit_seconds_total", "Time spent above maxmemory.", |s| s.engine.memory.over_limit.times(s.now_ms).0 as f64 / 1e3),
    gauge("braid_lazyfree_pending_objects", "Values waiting to be freed in the background.", |s| s.engine.keyspace.lazy_free.pending() as f64),

    // Keys.
    gauges("braid_keys", "Keys in a database.", |s, to| each_database(s, to, |counts| counts.0)),
    gauges("braid_keys_expiring", "Keys in a database that have an expiry.", |s, to| each_database(s, to, |counts| counts.1)),
    counter("braid_keyspace_hits_total", "Key lookups that found the key.", |s| s.keys_total(|keys| keys.hits.get())),
    counter("braid_keyspace_misses_total", "Key lookups that did not find the key.", |s| s.keys_total(|keys| keys.misses.get())),
    counter("braid_keys_expired_total", "Keys removed because they expired.", |s| s.keys_total(|keys| keys.expired.get())),
    counter("braid_members_expired_total", "Hash fields and members of collections removed because they expired.", |s| s.keys_total(|keys| keys.expired_members.get())),
    counter("braid_keys_evicted_total", "Keys evicted because of maxmemory.", |s| s.keys_total(|keys| keys.evicted.get())),
    counter("braid_changes_total", "Changes to the dataset.", |s| s.keys_total(|keys| keys.dirty.get())),
    gauge("braid_search_indexes", "Search indexes.", |s| s.search.indexes as f64),
    gauge("braid_search_indexes_building", "Search indexes for which the keys that were there already are being looked at.", |s| s.search.building as f64),
    gauge("braid_search_documents", "Documents in all search indexes.", |s| s.search.documents as f64),
    gauge("braid_search_memory_bytes", "Memory of all search indexes.", |s| s.search.memory_bytes as f64),
    gauge("braid_search_cursors", "Open cursors of FT.AGGREGATE.", |s| s.search.cursors as f64),
    gauge("braid_search_failures", "Documents that could not be put into the search indexes that there are.", |s| s.search.failures as f64),
    counter("braid_search_queries_total", "Queries of search indexes.", |s| s.search.queries as f64),
    counter("braid_search_query_seconds_total", "Time from the beginning to the end of such queries.", |s| s.search.query_seconds),
    counter("braid_search_queries_late_total", "Queries that ended because of search-timeout or TIMEOUT.", |s| s.search.late_queries as f64),
    counter("braid_lock_waits_total", "Waits for a shard lock.", |s| s.keys_total(|keys| keys.contended.get())),

    // Snapshots (RDB).
    gauge("braid_rdb_last_save_timestamp_seconds", "Unix time of the last successful save; the start time before the first.", |s| s.engine.persistence.last_save_s.load(Relaxed) as f64),
    gauge("braid_rdb_last_bgsave_success", "1 if the last background save succeeded, or none has run.", |s| yes(!s.engine.background_save.last_failed.load(Relaxed))),
    gauge("braid_rdb_last_bgsave_duration_seconds", "Duration of the last background save; NaN before the first.", |s| seconds_or_none(s.engine.background_save.last_seconds.load(Relaxed))),
    gauge("braid_rdb_changes_since_last_save", "Changes to the dataset since the last successful save.", |s| s.engine.keyspace.unsaved_changes() as f64),
    gauge("braid_rdb_save_in_progress", "1 while a snapshot is being written to a file.", |s| yes(background_save::is_saving(s.engine))),
    gauge("braid_rdb_save_progress_ratio", "Fraction of the keys that the current background save has written; 0 without one.", |s| {
        let save = &s.engine.background_save;
        if save.active.load(Relaxed) { share(save.progress.keys.load(Relaxed), save.keys.load(Relaxed)).min(1.0) } else { 0.0 }
    }),
    counter("braid_rdb_saves_total", "Successful saves.", |s| s.engine.persistence.saves.load(Relaxed) as f64),

    // The append-only file.
    gauge("braid_aof_enabled", "1 if the append-only file is on.", |s| yes(s.engine.append_only.on.load(Relaxed))),
    gauge("braid_aof_last_write_success", "0 while changes cannot be written to the append-only file.", |s| yes(s.engine.append_only.appender.failure().is_none())),
    gauge("braid_aof_size_bytes", "Size of the append-only file; 0 while it is off.", |s| aof(s, |engine| engine.append_only.appender.size())),
    gauge("braid_aof_base_size_bytes", "Size of the append-only file after the last rewrite, or at startup; 0 while it is off.", |s| aof(s, |engine| engine.append_only.base_size.load(Relaxed))),
    gauge("braid_aof_buffer_bytes", "Changes not yet written to the append-only file.", |s| {
        aof(s, |engine| engine.keyspace.journal.end().saturating_sub(engine.append_only.appender.written()))
    }),
    gauge("braid_aof_pending_fsyncs", "Calls of fsync that are waiting or in progress.", |s| aof(s, |engine| engine.append_only.appender.syncs_pending())),
    counter("braid_aof_delayed_fsyncs_total", "Times that clients had to wait because the disk was behind.", |s| s.engine.append_only.delayed_syncs.load(Relaxed) as f64),
    gauge("braid_aof_rewrite_in_progress", "1 while the append-only file is being rewritten.", |s| yes(s.engine.append_only.rewriting.load(Relaxed))),
    gauge("braid_aof_rewrite_scheduled", "1 if a rewrite is scheduled.", |s| yes(s.engine.append_only.scheduled.load(Relaxed))),
    gauge("braid_aof_last_rewrite_success", "1 if the last rewrite succeeded, or none has run.", |s| yes(!s.engine.append_only.last_failed.load(Relaxed))),
    gauge("braid_aof_last_rewrite_duration_seconds", "Duration of the last rewrite; NaN before the first.", |s| seconds_or_none(s.engine.append_only.last_seconds.load(Relaxed))),
    gauge("braid_aof_rewrite_consecutive_failures", "Rewrites that failed since the last success.", |s| s.engine.append_only.failures.load(Relaxed) as f64),
    counter("braid_aof_rewrites_total", "Rewrites begun.", |s| s.engine.append_only.rewrites.load(Relaxed) as f64),
    gauges("braid_writes_refused", "1 while writes are refused because a save failed, the append-only file cannot be written, or too few replicas keep up.", refused_writes),

    // Replication.
    gauge("braid_replicas", "Replicas connected.", |s| s.replicas.len() as f64),
    gauge("braid_replicas_online", "Replicas that have completed their full sync and receive changes.", |s| s.replicas.iter().filter(|(_, report)| report.replica.stage() == Stage::Online).count() as f64),
    gauge("braid_replicas_good", "Replicas that are online and within min-replicas-max-lag.", |s| s.engine.replication.good.load(Relaxed) as f64),
    gauge("braid_replicas_min", "Replicas required for writes (min-replicas-to-write).", |s| s.engine.config.min_replicas_to_write() as f64),
    gauge("braid_replication_offset_bytes", "Offset of the end of the replication stream.", |s| s.engine.replication.history().offset(s.engine.keyspace.journal.end()) as f64),
    gauge("braid_replication_backlog_bytes", "Bytes of the replication stream kept for replicas that reconnect.", |s| s.engine.keyspace.journal.backlog().map_or(0, |kept| kept.len) as f64),
    gauge("braid_replication_backlog_max_bytes", "Maximum size of the replication backlog (repl-backlog-size).", |s| s.engine.config.repl_backlog_size() as f64),
    counter("braid_replication_sent_bytes_total", "Bytes sent to replicas.", |s| s.engine.replication.sent_bytes.load(Relaxed) as f64),
    counter("braid_replication_full_syncs_total", "Full syncs started for replicas.", |s| s.engine.replication.full.load(Relaxed) as f64),
    counter("braid_replication_partial_syncs_total", "Replicas that resumed from the backlog.", |s| s.engine.replication.partial.load(Relaxed) as f64),
    counter("braid_replication_partial_syncs_refused_total", "Replicas that could not resume from the backlog.", |s| s.engine.replication.partial_refused.load(Relaxed) as f64),
    gauges("braid_replica_online", "1 if the replica has completed its full sync and receives changes.", |s, to| {
        each_replica(s, to, |_, report| yes(report.replica.stage() == Stage::Online));
    }),
    gauges("braid_replica_offset_bytes", "Offset up to which the replica has acknowledged the stream.", |s, to| {
        each_replica(s, to, |_, report| report.offset as f64);
    }),
    gauges("braid_replica_lag_bytes", "Bytes of the stream that the replica has not acknowledged.", |s, to| {
        each_replica(s, to, |_, report| report.lag_bytes as f64);
    }),
    gauges("braid_replica_lag_seconds", "Time since the last message from the replica.", |s, to| {
        each_replica(s, to, |s, report| seconds((s.now_ms - report.replica.heard_ms()).max(0)));
    }),
    gauges("braid_replica_delay_seconds", "Age of the oldest change that the replica has not acknowledged; replicas acknowledge once a second.", |s, to| {
        each_replica(s, to, |_, report| seconds(report.lag_ms));
    }),
    gauges("braid_replica_sync_ratio", "Fraction of the replica's full sync that is done, during a full sync.", |s, to| {
        each_full_sync(s, to, |sync| sync.done);
    }),
    gauges("braid_replica_sync_sent_bytes", "Bytes of the full sync sent to the replica, during a full sync.", |s, to| {
        each_full_sync(s, to, |sync| sync.sent_bytes as f64);
    }),
    gauge("braid_is_replica", "1 if the server is a replica.", |s| yes(s.link.is_some())),
    gauges("braid_primary_link_up", "1 if the server receives changes from its primary.", |s, to| {
        of_link(s, to, |link| Some(yes(link.phase == Phase::Connected)));
    }),
    gauges("braid_primary_link_down_seconds", "Time since the link to the primary was lost; only while it is down after having been up.", |s, to| {
        of_link(s, to, |link| link.down_ms.map(seconds));
    }),
    gauges("braid_primary_last_io_seconds", "Time since the last message from the primary, while the link is up.", |s, to| {
        of_link(s, to, |link| link.last_io_ms.map(seconds));
    }),
    gauges("braid_primary_unapplied_bytes", "Bytes of the stream received but not yet applied.", |s, to| {
        of_link(s, to, |link| Some(link.unapplied_bytes as f64));
    }),
    gauges("braid_primary_sync_in_progress", "1 while a full sync is received or loaded.", |s, to| {
        of_link(s, to, |link| Some(yes(link.full_sync.is_some())));
    }),
    gauges("braid_primary_sync_read_bytes", "Bytes of the full sync received so far, during a full sync.", |s, to| {
        of_link(s, to, |link| link.full_sync.map(|sync| sync.read_bytes as f64));
    }),
    gauges("braid_primary_sync_total_bytes", "Length of the full sync, while one of known length is received.", |s, to| {
        of_link(s, to, |link| link.full_sync?.total_bytes.map(|total| total as f64));
    }),
    counter("braid_replication_received_bytes_total", "Bytes received from primaries.", |s| s.engine.replication.link.received_bytes.load(Relaxed) as f64),

    // The group, if this server is in one.
    gauges("braid_group_epoch", "Epoch of the group; it grows with each change of the primary.", |s, to| of_group(s, to, |group| Some(group.view.epoch as f64))),
    gauges("braid_group_primary", "1 if this server is the primary of its group.", |s, to| of_group(s, to, |group| Some(yes(group.view.is_primary)))),
    gauges("braid_group_serving", "1 if this server is the primary of its group and may serve.", |s, to| of_group(s, to, |group| Some(yes(group.is_serving)))),
    gauges("braid_group_members", "Members of the group whose lease is alive, this server included.", |s, to| {
        of_group(s, to, |group| Some(group.members.iter().filter(|member| member.is_up()).count() as f64));
    }),
    gauges("braid_group_in_sync_members", "Members of the in-sync set, the primary among them.", |s, to| of_group(s, to, |group| Some(group.view.in_sync.len() as f64))),
    gauges("braid_group_lease_seconds", "Time for which the lease of this server is certain to be alive; 0 without one.", |s, to| of_group(s, to, |group| Some(seconds(group.lease_ms)))),
    gauges("braid_group_etcd_up", "0 while etcd is unavailable.", |s, to| of_group(s, to, |group| Some(yes(group.view.etcd_error.is_empty())))),
    gauges("braid_group_etcd_last_answer_seconds", "Time since the last reply from etcd; absent before the first.", |s, to| of_group(s, to, |group| group.etcd_silent_ms.map(seconds))),
    counters("braid_group_primary_changes_total", "Changes of the primary seen by this server.", |s, to| of_group(s, to, |group| Some(group.view.changes as f64))),
    counters("braid_group_fenced_refusals_total", "Commands refused because this server could not prove that it was the primary (MASTERDOWN).", |s, to| {
        of_group(s, to, |group| Some(group.fenced_refusals as f64));
    }),
    gauges("braid_sync_writes_replicas_min", "In-sync replicas required for synchronous writes (min-sync-replicas).", |s, to| {
        of_sync_writes(s, to, |_| u64::from(s.engine.config.min_sync_replicas()));
    }),
    gauges("braid_sync_writes_waiting", "Clients whose replies wait for the in-sync set.", |s, to| of_sync_writes(s, to, |counts| counts.waiting)),
    counters("braid_sync_writes_acknowledged_total", "Waits for the in-sync set that ended with its acknowledgement; replies sent together count as one wait.", |s, to| {
        of_sync_writes(s, to, |counts| counts.acknowledged);
    }),
    counters("braid_sync_writes_uncertain_total", "Replies replaced by UNCERTAIN, or cut off.", |s, to| of_sync_writes(s, to, |counts| counts.uncertain)),
    counters("braid_sync_writes_refused_total", "Writes refused because too few replicas were in sync (NOREPLICAS).", |s, to| of_sync_writes(s, to, |counts| counts.refused)),

    // The cluster, in cluster mode.
    gauges("braid_cluster_state_ok", "1 if the cluster serves requests, as this node sees it (cluster_state).", |s, to| of_cluster(s, to, |cluster| yes(cluster.is_ok))),
    gauges("braid_cluster_slots_assigned", "Slots that belong to a shard; 16384 when the cluster is complete.", |s, to| of_cluster(s, to, |cluster| cluster.assigned as f64)),
    gauges("braid_cluster_slots_lost", "Slots of shards without a live node.", |s, to| of_cluster(s, to, |cluster| cluster.lost as f64)),
    gauges("braid_cluster_slots_own", "Slots of this node's shard.", |s, to| of_cluster(s, to, |cluster| cluster.own_slots as f64)),
    gauges("braid_cluster_nodes", "Nodes of the cluster, this one included.", |s, to| of_cluster(s, to, |cluster| cluster.nodes as f64)),
    gauges("braid_cluster_nodes_failed", "Nodes whose lease has ended.", |s, to| of_cluster(s, to, |cluster| cluster.failed_nodes as f64)),
    gauges("braid_cluster_shards", "Shards that have slots.", |s, to| of_cluster(s, to, |cluster| cluster.size as f64)),
    gauges("braid_cluster_epoch", "Epoch of the cluster; it grows when nodes or slots change.", |s, to| of_cluster(s, to, |cluster| cluster.epoch as f64)),
    gauges("braid_cluster_slot_moves", "Slot moves in progress, from this node and to it.", |s, to| {
        both_ways(s, to, |cluster| (cluster.moves_out, cluster.moves_in));
    }),

    // Active-active replication, if it is on.
    gauges("braid_active_peer_up", "1 while the link that receives from a peer is up.", |s, to| each_peer(s, to, |peer| yes(peer.is_up))),
    gauges("braid_active_peer_lag_seconds", "Time that the last unit from a peer took from its region to this server.", |s, to| {
        each_peer(s, to, |peer| peer.lag_ms as f64 / 1e3);
    }),
    gauges("braid_active_peer_behind_seconds", "Age of the oldest unit that a peer has not yet received from this server.", |s, to| {
        each_behind(s, to, |(ms, _)| ms as f64 / 1e3);
    }),
    gauges("braid_active_peer_behind_bytes", "Bytes of units that a peer has not yet received from this server.", |s, to| {
        each_behind(s, to, |(_, bytes)| bytes as f64);
    }),
    counters("braid_active_peer_received_units_total", "Units received from a peer.", |s, to| each_peer(s, to, |peer| peer.units as f64)),
    counters("braid_active_peer_received_bytes_total", "Bytes of units and copies received from a peer.", |s, to| each_peer(s, to, |peer| peer.bytes as f64)),
    counters("braid_active_own_units_total", "Units created by this server's own clients.", |s, to| of_active(s, to, |report| report.own)),
    counters("braid_active_merged_units_total", "Units of other regions merged by this server.", |s, to| of_active(s, to, |report| report.merged)),
    counters("braid_active_known_units_total", "Received units that were already known.", |s, to| of_active(s, to, |report| report.known)),
    counters("braid_active_sent_units_total", "Units sent to peers.", |s, to| of_active(s, to, |report| report.sent)),
    counters("braid_active_sent_bytes_total", "Bytes of the units sent to peers.", |s, to| of_active(s, to, |report| report.sent_bytes)),
    counters("braid_active_copies_sent_total", "Full copies made for peers.", |s, to| of_active(s, to, |report| report.copies_sent)),
    counters("braid_active_copies_merged_total", "Full copies of peers that were merged.", |s, to| of_active(s, to, |report| report.copies_merged)),
    counters("braid_active_type_conflicts_total", "Keys that got different types on different servers; one value is hidden.", |s, to| of_active(s, to, |report| report.type_conflicts)),
    counters("braid_active_conflicts_total", "Values that lost to another region's concurrent write, by type.", |s, to| {
        for (region, kind, count) in s.active.iter().flat_map(|report| report.conflicts.iter().map(|(kind, count)| (report.region, kind, count))) {
            to.add(&[("region", &region.to_string()), ("type", kind)], *count as f64);
        }
    }),
    counters("braid_active_throttled_total", "Times that writes had to wait for lagging peers.", |s, to| of_active(s, to, |report| report.throttled)),
    gauges("braid_active_evicted_keys", "Keys with parts that were evicted here and not written since.", |s, to| of_active(s, to, |report| report.evicted)),
    gauges("braid_active_shared_strings", "Short strings that are in memory once, although active-active replication keeps them too.", |s, to| of_active(s, to, |report| report.shared)),
    gauges("braid_active_tombstone_keys", "Keys with tombstones that can be removed once all regions have acknowledged them.", |s, to| of_active(s, to, |report| report.tombstones)),
    gauges("braid_active_backlog_bytes", "Units in memory kept for peers that lack them.", |s, to| of_active(s, to, |report| report.backlog_bytes as u64)),
    gauges("braid_active_backlog_disk_bytes", "Units in logs on disk kept for peers that lack them.", |s, to| of_active(s, to, |report| report.backlog_disk_bytes)),
    gauges("braid_active_log_bytes", "Size of the log of units.", |s, to| of_active(s, to, |report| report.log_bytes)),
    gauges("braid_active_log_unwritten_bytes", "Units that wait to be written to the log.", |s, to| of_active(s, to, |report| report.log_unwritten_bytes)),
    gauges("braid_active_files_ok", "0 while the files of active-active replication cannot be written; nothing is sent then.", |s, to| {
        of_active(s, to, |report| u64::from(report.files_ok));
    }),
    gauges("braid_active_refused_by_servers", "Other servers that refuse this server's changes or its number; active_trouble of INFO says why.", |s, to| {
        of_active(s, to, |report| report.refused_by as u64);
    }),
    gauges("braid_active_clock_ahead_seconds", "How far this server's changes are stamped ahead of its own clock; more than active-clock-ahead-max, and peers refuse them.", |s, to| {
        for report in s.active.iter() {
            to.add(&[("region", &report.region.to_string())], report.clock_ahead_ms as f64 / 1e3);
        }
    }),

    // Traffic and errors.
    counter("braid_commands_total", "Commands executed.", |s| s.total(|thread| thread.executed.get())),
    counter("braid_net_received_bytes_total", "Bytes received from clients.", |s| s.total(|thread| thread.net_in.get())),
    counter("braid_net_sent_bytes_total", "Bytes sent to clients.", |s| s.total(|thread| thread.net_out.get())),
    counter("braid_error_replies_total", "Error replies sent.", |s| s.total(|thread| thread.error_replies.get())),
    counters("braid_errors_total", "Error replies by error code (at most 128 codes per thread).", errors_by_code),
    counters("braid_access_denied_total", "Logins, commands, keys and channels refused by the ACL.", refused_by_reason),
    counters("braid_user_access_denied_total", "ACL refusals by user: at most 100 users, those with the most refusals. Logins with unknown names are not included.", refused_by_user),
    gauge("braid_pubsub_channels", "Channels with subscribers.", |s| s.engine.hub.name_count(SubscriptionKind::Channel) as f64),
    gauge("braid_pubsub_patterns", "Patterns with subscribers.", |s| s.engine.hub.name_count(SubscriptionKind::Pattern) as f64),
    gauge("braid_pubsub_shard_channels", "Shard channels with subscribers.", |s| s.engine.hub.name_count(SubscriptionKind::ShardChannel) as f64),
    gauge("braid_tracking_keys", "Keys read by clients with client-side caching.", |s| s.engine.trackers.keys() as f64),
    gauge("braid_scripts_cached", "Scripts in the script cache.", |s| s.scripts.0 as f64),
    gauge("braid_functions", "Functions loaded.", |s| s.scripts.1 as f64),
    gauges("braid_commandlog_entries", "Entries of the slow log and of the logs of large requests and replies.", |s, to| {
        each_log(s, to, |engine, log| engine.telemetry.logs.of(log).len() as f64);
    }),
    counters("braid_commandlog_entries_total", "Entries ever added to these logs.", |s, to| {
        each_log(s, to, |engine, log| engine.telemetry.logs.of(log).total() as f64);
    }),

    // Threads.
    gauges("braid_thread_clients", "Clients of a thread.", |s, to| each_thread(s, to, |thread| thread.clients.get() as f64)),
    counters("braid_thread_commands_total", "Commands executed by a thread.", |s, to| each_thread(s, to, |thread| thread.executed.get() as f64)),
    counters("braid_thread_busy_seconds_total", "Time that a thread's event loop was busy, excluding waits.", |s, to| {
        each_thread(s, to, |thread| thread.cycle_nanos.get() as f64 / 1e9);
    }),
    counters("braid_thread_cpu_seconds_total", "Processor time of a thread.", |s, to| {
        each_thread(s, to, |thread| {
            let time = system::thread_time(thread.task.load(Relaxed)).unwrap_or_default();
            (time.user + time.system).as_secs_f64()
        });
    }),
    counters("braid_thread_reads_total", "Reads from sockets by a thread.", |s, to| each_thread(s, to, |thread| thread.reads.get() as f64)),
    counters("braid_thread_writes_total", "Writes to sockets by a thread.", |s, to| each_thread(s, to, |thread| thread.writes.get() as f64)),
    counters("braid_thread_received_bytes_total", "Bytes received by a thread.", |s, to| each_thread(s, to, |thread| thread.net_in.get() as f64)),
    counters("braid_thread_sent_bytes_total", "Bytes sent by a thread.", |s, to| each_thread(s, to, |thread| thread.net_out.get() as f64)),

    // Commands.
    counters("braid_command_calls_total", "Calls of a command.", |s, to| each_command(s, to, |totals| totals.calls)),
    counters("braid_command_rejected_total", "Calls of a command rejected before execution.", |s, to| each_command(s, to, |totals| totals.rejected)),
    counters("braid_command_failed_total", "Calls of a command that failed during execution.", |s, to| each_command(s, to, |totals| totals.failed)),
    Metric { name: "braid_command_duration_seconds", kind: MetricKind::Histogram, help: "Run times of a command.", source: Source::Many(run_times) },

    // Hot keys, while HOTKEYS tracks them.
    gauges("braid_hot_keys_tracking", "1 while HOTKEYS is tracking.", |s, to| {
        if let Some(report) = &s.hot_keys {
            to.add(&[], yes(report.is_active));
        }
    }),
    gauges("braid_hot_key_cpu_seconds", "Processor time of commands on a hot key, estimated.", |s, to| {
        if let Some(report) = &s.hot_keys {
            each_hot_key(&report.by_cpu, to, 1e9);
        }
    }),
    gauges("braid_hot_key_net_bytes", "Bytes of requests and replies with a hot key, estimated.", |s, to| {
        if let Some(report) = &s.hot_keys {
            each_hot_key(&report.by_net, to, 1.0);
        }
    }),
];

/// A metric that is meaningful only while the append-only file is on.
fn aof(scrape: &Scrape<'_>, value: fn(&Engine) -> u64) -> f64 {
    if scrape.engine.append_only.on.load(Relaxed) { value(scrape.engine) as f64 } else { 0.0 }
}
