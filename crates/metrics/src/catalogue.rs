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
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use braid_acl::log::Reason;
use braid_acl::user::User;
use braid_active_node::figures as active;
use braid_active_node::report::{ActiveReport, PeerReport};
use braid_base::clock::unix_ms;
use braid_clients::attention::{APPEND_ONLY_FAILED, FEW_REPLICAS, WRITES_REFUSED};
use braid_clients::{ClientRecord, client_flags};
use braid_cluster_node::cluster_report::{self, ClusterReport};
use braid_cluster_node::group::report::GroupReport;
use braid_cluster_node::group::{self, figures as group_figures};
use braid_commands::scripting::{self, Figures as ScriptFigures};
use braid_commands::server::memory_report::Basics;
use braid_commands::server::system::{self, Whose};
use braid_commands::server::{figures, hot_keys};
use braid_executor::Engine;
use braid_executor::feeds::Figures as FeedFigures;
use braid_executor::state::sync_writes::Counts;
use braid_keyspace::Counters;
use braid_replica::figures as links;
use braid_replica::report::{LinkReport, ReceiveProgress, ReplicaReport, SendProgress};
use braid_replication::Stage;
use braid_search_node::figures as search;
use braid_search_node::report::SearchReport;
use braid_spec::Command;
use braid_telemetry::MetricKind;
use braid_telemetry::command_log::LogKind;
use braid_telemetry::hot_keys::Report;
use braid_telemetry::stats::{self, CommandTotals, ThreadStats};

use crate::text::Samples;

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

/// The metric of a figure without labels; `$source`: where a scrape has it.
macro_rules! one {
    ($figure:path, $scrape:ident => $source:expr) => {
        Metric {
            name: $figure.metric,
            kind: $figure.kind,
            help: $figure.help,
            source: Source::One(|$scrape| ($figure.read)($source).number().unwrap_or(f64::NAN)),
        }
    };
}

/// The metric of a figure with labels; `$each` adds the samples.
macro_rules! many {
    ($figure:path, $each:ident) => {
        Metric {
            name: $figure.metric,
            kind: $figure.kind,
            help: $figure.help,
            source: Source::Many(|scrape, to| $each(scrape, to, |source| ($figure.read)(source).number())),
        }
    };
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
    memory: Basics,
    cpu_seconds: f64,
    scripts: ScriptFigures,
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
            memory: Basics::take(engine),
            cpu_seconds: (cpu.user + cpu.system).as_secs_f64(),
            scripts: scripting::figures(engine),
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

/// A share from 0 to 1; `whole` may be 0.
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn each_thread(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: impl Fn(&ThreadStats) -> Option<f64>) {
    for (number, thread) in scrape
        .engine
        .telemetry
        .threads
        .iter()
        .take(scrape.engine.clients.mailboxes.thread_count())
        .enumerate()
    {
        samples.add_known(&[("thread", &number.to_string())], value(thread));
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

fn each_command(
    scrape: &Scrape<'_>,
    samples: &mut Samples<'_>,
    value: impl Fn(&CommandTotals) -> Option<f64>,
) {
    for (command, totals) in &scrape.commands {
        samples.add_known(&[("command", &command.full_name)], value(totals));
    }
}

fn each_replica(
    scrape: &Scrape<'_>,
    samples: &mut Samples<'_>,
    value: impl Fn(&ReplicaReport) -> Option<f64>,
) {
    for (name, report) in &scrape.replicas {
        samples.add_known(&[("replica", name)], value(report));
    }
}

/// A metric of full syncs to replicas, while there are any.
fn each_full_sync(
    scrape: &Scrape<'_>,
    samples: &mut Samples<'_>,
    value: impl Fn(&SendProgress) -> Option<f64>,
) {
    each_replica(scrape, samples, |report| value(report.full_sync.as_ref()?));
}

/// A metric of the link to the primary, if there is a link and the value is known.
fn of_link(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: impl Fn(&LinkReport) -> Option<f64>) {
    if let Some((primary, report)) = &scrape.link {
        samples.add_known(&[("primary", primary)], value(report));
    }
}

/// A metric of the full sync from the primary, during one.
fn of_link_sync(
    scrape: &Scrape<'_>,
    samples: &mut Samples<'_>,
    value: impl Fn(&ReceiveProgress) -> Option<f64>,
) {
    of_link(scrape, samples, |link| value(link.full_sync.as_ref()?));
}

/// A metric of the group, if this server is in one and the value exists.
fn of_group(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: impl FnOnce(&GroupReport) -> Option<f64>) {
    if let Some(report) = &scrape.group {
        samples.add_known(&[("group", &report.view.group), ("node", &report.view.id.node)], value(report));
    }
}

/// A metric of the replies that depend on the group.
fn of_replies(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: impl FnOnce(&Counts) -> Option<f64>) {
    of_group(scrape, samples, |_| value(&scrape.engine.sync_writes.counts));
}

/// A metric of synchronous writes, while there may be any.
fn of_sync_writes(
    scrape: &Scrape<'_>,
    samples: &mut Samples<'_>,
    value: impl FnOnce(&Counts) -> Option<f64>,
) {
    if scrape.engine.sync_writes.waits_for_members() {
        of_replies(scrape, samples, value);
    }
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
fn of_active(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: impl Fn(&ActiveReport) -> Option<f64>) {
    if let Some(report) = &scrape.active {
        samples.add_known(&[("region", &report.region.to_string())], value(report));
    }
}

/// A metric of each peer, labelled with its region, which is empty until it is known.
fn each_peer(scrape: &Scrape<'_>, samples: &mut Samples<'_>, value: impl Fn(&PeerReport) -> Option<f64>) {
    for peer in scrape.active.iter().flat_map(|report| &report.peers) {
        let region = peer.region.map(|region| region.to_string()).unwrap_or_default();
        samples.add_known(&[("peer", &peer.address()), ("peer_region", &region)], value(peer));
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

fn refused_by_reason(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    for (_, reason, count) in figures::refusals(scrape.engine) {
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
    for (_, user) in greatest(scrape, |user| counts(user).map(|(_, count)| count).sum()) {
        let name = user.name().escape_ascii().to_string();
        for (reason, count) in counts(&user).filter(|(_, count)| *count > 0) {
            samples.add(&[("user", &name), ("reason", reason)], count as f64);
        }
    }
}

/// The users of whom there is a number other than 0, with that number, the greatest first.
fn greatest(scrape: &Scrape<'_>, number: impl Fn(&User) -> u64) -> Vec<(u64, Arc<User>)> {
    let users = scrape.engine.acl.users().into_iter();
    let mut users: Vec<_> =
        users.map(|user| (number(&user), user)).filter(|(number, _)| *number > 0).collect();
    users.sort_by_key(|(number, _)| Reverse(*number));
    users.truncate(USERS_MAX);
    users
}

/// Adds a sample for each of these users.
fn by_user(scrape: &Scrape<'_>, samples: &mut Samples<'_>, number: impl Fn(&User) -> u64) {
    for (number, user) in greatest(scrape, number) {
        samples.add(&[("user", &user.name().escape_ascii().to_string())], number as f64);
    }
}

fn delayed_by_user(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    by_user(scrape, samples, |user| user.identity.delayed.load(Relaxed));
}

fn connections_by_user(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    by_user(scrape, samples, |user| user.identity.connections());
}

fn memory_by_user(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    by_user(scrape, samples, |user| match user.limits().memory_bytes() {
        0 => 0,
        _ => user.identity.memory.measured().unwrap_or(0),
    });
}

/// Adds a number of each change feed.
fn by_feed(scrape: &Scrape<'_>, samples: &mut Samples<'_>, number: impl Fn(&FeedFigures) -> &AtomicU64) {
    for feed in scrape.engine.feeds.list() {
        let name = feed.name.escape_ascii().to_string();
        samples.add(&[("feed", &name)], number(&feed.figures).load(Relaxed) as f64);
    }
}

fn entries_by_feed(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    by_feed(scrape, samples, |figures| &figures.entries);
}

fn gaps_by_feed(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    by_feed(scrape, samples, |figures| &figures.gaps);
}

fn bytes_by_feed(scrape: &Scrape<'_>, samples: &mut Samples<'_>) {
    by_feed(scrape, samples, |figures| &figures.bytes);
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
pub static METRICS: &[Metric] = &[
    // The server and its process.
    gauges("braid_info", "Version and mode of the server, in labels; always 1.", info),
    one!(figures::UPTIME, s => s.engine),
    gauge("braid_loading", "1 while the dataset is being loaded.", |s| yes(s.engine.config.is_loading())),
    gauge("braid_loading_progress_ratio", "Fraction of the file that has been loaded; 0 while nothing is being loaded.", |s| {
        let progress = &s.engine.persistence.progress;
        if progress.active.load(Relaxed) { share(progress.loaded_bytes.load(Relaxed), progress.total_bytes.load(Relaxed)) } else { 0.0 }
    }),
    counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", |s| s.cpu_seconds),
    gauge("process_resident_memory_bytes", "Resident memory size in bytes.", |s| s.memory.resident as f64),
    gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", |s| s.engine.process.started_at as f64),
    gauge("process_open_fds", "Number of open file descriptors.", |_| system::open_descriptors() as f64),
    gauge("process_max_fds", "Maximum number of open file descriptors.", |_| system::descriptors_max() as f64),

    // Clients.
    gauge("braid_clients", "Connected clients, replicas included.", |s| s.clients.len() as f64),
    one!(figures::CLIENTS_MAX, s => s.engine),
    one!(figures::CLIENTS_PRIORITY, s => s.engine),
    gauge("braid_clients_blocked", "Clients waiting in a blocking command.", |s| {
        s.clients.iter().filter(|record| is_blocked(record)).count() as f64
    }),
    one!(figures::PUBSUB_CLIENTS, s => &s.clients[..]),
    gauge("braid_clients_monitor", "Clients in MONITOR.", |s| s.clients_with(client_flags::MONITOR)),
    one!(figures::TRACKING_CLIENTS, s => s.engine),
    gauge("braid_clients_memory_bytes", "Memory held for clients.", |s| {
        s.clients.iter().map(|record| record.total_bytes.load(Relaxed)).sum::<usize>() as f64
    }),
    one!(figures::INPUT_BUFFER_MAX, s => &s.clients[..]),
    one!(figures::OUTPUT_BUFFER_MAX, s => &s.clients[..]),
    one!(figures::CONNECTIONS, s => s.engine),
    one!(figures::CONNECTIONS_REJECTED, s => s.engine),
    one!(figures::PRIORITY_REJECTED, s => s.engine),
    one!(figures::CLIENTS_EVICTED, s => s.engine),
    one!(figures::OUTPUT_LIMIT_DISCONNECTIONS, s => s.engine),
    one!(figures::QUERY_LIMIT_DISCONNECTIONS, s => s.engine),

    // Memory.
    one!(figures::MEMORY_USED, s => &s.memory),
    one!(figures::MEMORY_PEAK, s => &s.memory),
    one!(figures::MEMORY_RESIDENT, s => &s.memory),
    one!(figures::MEMORY_MAX, s => s.engine),
    one!(figures::MEMORY_NOT_COUNTED, s => s.engine),
    gauge("braid_memory_system_bytes", "Memory that the process may use: the machine's, or less in a container.", |s| {
        let container = s.engine.process.container_memory_bytes.unwrap_or(u64::MAX);
        braid_process::memory::machine_bytes().min(container) as f64
    }),
    one!(figures::FRAGMENTATION, s => &s.memory),
    one!(figures::ALLOCATOR_ACTIVE, s => &s.memory),
    one!(figures::ALLOCATOR_RESIDENT, s => &s.memory),
    one!(figures::ALLOCATOR_FRAGMENTATION, s => &s.memory),
    gauge("braid_memory_scripts_bytes", "Memory used by scripts and functions.", |s| {
        let scripts = &s.scripts;
        (scripts.script_vm_bytes + scripts.function_vm_bytes + scripts.script_bytes + scripts.function_bytes) as f64
    }),
    one!(figures::JOURNAL, s => s.engine),
    one!(figures::OVER_LIMIT, s => &s.engine.memory.over_limit.times(s.now_ms)),
    one!(figures::LAZYFREE_PENDING, s => s.engine),

    // Keys.
    gauges("braid_keys", "Keys in a database.", |s, to| each_database(s, to, |counts| counts.0)),
    gauges("braid_keys_expiring", "Keys in a database that have an expiry.", |s, to| each_database(s, to, |counts| counts.1)),
    one!(figures::HITS, s => s.engine),
    one!(figures::MISSES, s => s.engine),
    one!(figures::EXPIRED, s => s.engine),
    one!(figures::EXPIRED_MEMBERS, s => s.engine),
    one!(figures::EVICTED, s => s.engine),
    counter("braid_changes_total", "Changes to the dataset.", |s| s.keys_total(|keys| keys.dirty.get())),
    one!(search::INDEXES, s => &s.search),
    one!(search::BUILDING, s => &s.search),
    one!(search::BUILT, s => &s.search),
    one!(search::DOCUMENTS, s => &s.search),
    one!(search::MEMORY, s => &s.search),
    one!(search::CURSORS, s => &s.search),
    one!(search::FAILURES, s => &s.search),
    one!(search::QUERIES, s => &s.search),
    one!(search::QUERY_TIME, s => &s.search),
    one!(search::QUERIES_LATE, s => &s.search),
    one!(figures::LOCK_WAITS, s => s.engine),

    // Snapshots (RDB).
    one!(figures::LAST_SAVE, s => s.engine),
    one!(figures::LAST_BGSAVE_SUCCESS, s => s.engine),
    one!(figures::LAST_BGSAVE_DURATION, s => s.engine),
    one!(figures::UNSAVED_CHANGES, s => s.engine),
    one!(figures::SAVE_IN_PROGRESS, s => s.engine),
    gauge("braid_rdb_save_progress_ratio", "Fraction of the keys that the current background save has written; 0 without one.", |s| {
        let save = &s.engine.background_save;
        if save.active.load(Relaxed) { share(save.progress.keys.load(Relaxed), save.keys.load(Relaxed)).min(1.0) } else { 0.0 }
    }),
    one!(figures::SAVES, s => s.engine),

    // The append-only file.
    one!(figures::AOF_ENABLED, s => s.engine),
    one!(figures::AOF_LAST_WRITE_SUCCESS, s => s.engine),
    one!(figures::AOF_SIZE, s => s.engine),
    one!(figures::AOF_BASE_SIZE, s => s.engine),
    one!(figures::AOF_BUFFER, s => s.engine),
    one!(figures::AOF_PENDING_FSYNCS, s => s.engine),
    one!(figures::AOF_DELAYED_FSYNCS, s => s.engine),
    one!(figures::BACKUP_IN_PROGRESS, s => s.engine),
    one!(figures::AOF_REWRITE_IN_PROGRESS, s => &s.engine.append_only.rewrite_status()),
    one!(figures::AOF_REWRITE_SCHEDULED, s => &s.engine.append_only.rewrite_status()),
    one!(figures::AOF_LAST_REWRITE_SUCCESS, s => s.engine),
    one!(figures::AOF_LAST_REWRITE_DURATION, s => s.engine),
    one!(figures::AOF_REWRITE_FAILURES, s => s.engine),
    one!(figures::AOF_REWRITES, s => s.engine),
    gauges("braid_writes_refused", "1 while writes are refused because a save failed, the append-only file cannot be written, or too few replicas keep up.", refused_writes),

    // Replication.
    gauge("braid_replicas", "Replicas connected.", |s| s.replicas.len() as f64),
    gauge("braid_replicas_online", "Replicas that have completed their full sync and receive changes.", |s| s.replicas.iter().filter(|(_, report)| report.replica.stage() == Stage::Online).count() as f64),
    one!(figures::GOOD_REPLICAS, s => s.engine),
    gauge("braid_replicas_min", "Replicas required for writes (min-replicas-to-write).", |s| s.engine.config.min_replicas_to_write() as f64),
    gauge("braid_replication_offset_bytes", "Offset of the end of the replication stream.", |s| s.engine.replication.history().offset(s.engine.keyspace.journal.end()) as f64),
    one!(figures::BACKLOG, s => s.engine),
    one!(figures::BACKLOG_MAX, s => s.engine),
    one!(figures::REPLICATION_SENT, s => s.engine),
    one!(figures::FULL_SYNCS, s => s.engine),
    one!(figures::PARTIAL_SYNCS, s => s.engine),
    one!(figures::PARTIAL_SYNCS_REFUSED, s => s.engine),
    gauges("braid_replica_online", "1 if the replica has completed its full sync and receives changes.", |s, to| {
        each_replica(s, to, |report| Some(yes(report.replica.stage() == Stage::Online)));
    }),
    many!(links::REPLICA_OFFSET, each_replica),
    many!(links::REPLICA_LAG, each_replica),
    gauges("braid_replica_lag_seconds", "Time since the last message from the replica.", |s, to| {
        each_replica(s, to, |report| Some(seconds((s.now_ms - report.replica.heard_ms()).max(0))));
    }),
    many!(links::REPLICA_DELAY, each_replica),
    gauges("braid_replica_sync_ratio", "Fraction of the replica's full sync that is done, during a full sync.", |s, to| {
        each_full_sync(s, to, |sync| Some(sync.done));
    }),
    many!(links::SYNC_SENT, each_full_sync),
    gauge("braid_is_replica", "1 if the server is a replica.", |s| yes(s.link.is_some())),
    many!(links::LINK_UP, of_link),
    many!(links::DOWN, of_link),
    many!(links::LAST_IO, of_link),
    many!(links::UNAPPLIED, of_link),
    many!(links::SYNC_IN_PROGRESS, of_link),
    many!(links::SYNC_READ, of_link_sync),
    many!(links::SYNC_TOTAL, of_link_sync),
    one!(figures::REPLICATION_RECEIVED, s => s.engine),

    // The group, if this server is in one.
    many!(group_figures::EPOCH, of_group),
    gauges("braid_group_primary", "1 if this server is the primary of its group.", |s, to| of_group(s, to, |group| Some(yes(group.view.is_primary)))),
    many!(group_figures::SERVING, of_group),
    gauges("braid_group_members", "Members of the group whose lease is alive, this server included.", |s, to| {
        of_group(s, to, |group| Some(group.members.iter().filter(|member| member.is_up()).count() as f64));
    }),
    gauges("braid_group_in_sync_members", "Members of the in-sync set, the primary among them.", |s, to| of_group(s, to, |group| Some(group.view.in_sync.len() as f64))),
    many!(group_figures::LEASE, of_group),
    many!(group_figures::ETCD_UP, of_group),
    many!(group_figures::ETCD_LAST_ANSWER, of_group),
    many!(group_figures::PRIMARY_CHANGES, of_group),
    many!(group_figures::FENCED_REFUSALS, of_replies),
    gauges("braid_sync_writes_replicas_min", "In-sync replicas required for synchronous writes (min-sync-replicas).", |s, to| {
        of_sync_writes(s, to, |_| Some(s.engine.config.min_sync_replicas().into()));
    }),
    many!(group_figures::WAITING, of_sync_writes),
    many!(group_figures::ACKNOWLEDGED, of_sync_writes),
    many!(group_figures::UNCERTAIN, of_sync_writes),
    many!(group_figures::REFUSED, of_sync_writes),

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
    many!(active::PEER_UP, each_peer),
    many!(active::PEER_LAG, each_peer),
    many!(active::PEER_BEHIND, each_peer),
    many!(active::PEER_BEHIND_BYTES, each_peer),
    many!(active::PEER_UNITS, each_peer),
    many!(active::PEER_BYTES, each_peer),
    many!(active::OWN, of_active),
    many!(active::MERGED, of_active),
    many!(active::KNOWN, of_active),
    many!(active::SENT, of_active),
    many!(active::SENT_BYTES, of_active),
    many!(active::COPIES_SENT, of_active),
    many!(active::COPIES_MERGED, of_active),
    many!(active::COPY_LEFT, of_active),
    many!(active::TYPE_CONFLICTS, of_active),
    counters("braid_active_conflicts_total", "Values that lost to another region's concurrent write, by type.", |s, to| {
        for (region, kind, count) in s.active.iter().flat_map(|report| report.conflicts.iter().map(|(kind, count)| (report.region, kind, count))) {
            to.add(&[("region", &region.to_string()), ("type", kind)], *count as f64);
        }
    }),
    many!(active::THROTTLED, of_active),
    many!(active::EVICTED, of_active),
    many!(active::SHARED, of_active),
    many!(active::TOMBSTONES, of_active),
    many!(active::BACKLOG, of_active),
    many!(active::BACKLOG_ON_DISK, of_active),
    many!(active::LOG, of_active),
    many!(active::LOG_UNWRITTEN, of_active),
    gauges("braid_active_files_ok", "0 while the files of active-active replication cannot be written; nothing is sent then.", |s, to| {
        of_active(s, to, |report| Some(yes(report.files_ok)));
    }),
    many!(active::REFUSED_BY, of_active),
    many!(active::CLOCK_AHEAD, of_active),

    // Traffic and errors.
    one!(figures::COMMANDS, s => s.engine),
    counter("braid_net_received_bytes_total", "Bytes received from clients.", |s| s.total(|thread| thread.net_in.get())),
    counter("braid_net_sent_bytes_total", "Bytes sent to clients.", |s| s.total(|thread| thread.net_out.get())),
    one!(figures::ERROR_REPLIES, s => s.engine),
    counters("braid_errors_total", "Error replies by error code (at most 128 codes per thread).", errors_by_code),
    counters("braid_access_denied_total", "Logins, commands, keys and channels refused by the ACL.", refused_by_reason),
    counters("braid_user_access_denied_total", "ACL refusals by user: at most 100 users, those with the most refusals. Logins with unknown names are not included.", refused_by_user),
    counters("braid_user_requests_delayed_total", "Requests that waited for a limit of their user (limit-delay), by user.", delayed_by_user),
    gauges("braid_user_connections", "Connections by the user that they are logged in as: at most 100 users, those with the most.", connections_by_user),
    counters("braid_feed_entries_total", "Entries of a change feed that readers got.", entries_by_feed),
    counters("braid_feed_gaps_total", "Gaps that readers of a change feed were told of.", gaps_by_feed),
    counters("braid_feed_read_bytes_total", "Bytes of the journal that were looked at for readers of a change feed.", bytes_by_feed),
    gauges("braid_user_keys_bytes", "Memory of the keys that a user with limit-memory may change, when it was last measured.", memory_by_user),
    one!(figures::CHANNELS, s => s.engine),
    one!(figures::PATTERNS, s => s.engine),
    one!(figures::SHARD_CHANNELS, s => s.engine),
    one!(figures::TRACKING_KEYS, s => s.engine),
    one!(figures::SCRIPTS, s => &s.scripts),
    one!(figures::FUNCTIONS, s => &s.scripts),
    gauges("braid_commandlog_entries", "Entries of the slow log and of the logs of large requests and replies.", |s, to| {
        each_log(s, to, |engine, log| engine.telemetry.logs.of(log).len() as f64);
    }),
    counters("braid_commandlog_entries_total", "Entries ever added to these logs.", |s, to| {
        each_log(s, to, |engine, log| engine.telemetry.logs.of(log).total() as f64);
    }),

    // Threads.
    gauges("braid_thread_clients", "Clients of a thread.", |s, to| each_thread(s, to, |thread| Some(thread.clients.get() as f64))),
    many!(figures::THREAD_COMMANDS, each_thread),
    counters("braid_thread_busy_seconds_total", "Time that a thread's event loop was busy, excluding waits.", |s, to| {
        each_thread(s, to, |thread| Some(thread.cycle_nanos.get() as f64 / 1e9));
    }),
    counters("braid_thread_cpu_seconds_total", "Processor time of a thread.", |s, to| {
        each_thread(s, to, |thread| {
            let time = system::thread_time(thread.task.load(Relaxed)).unwrap_or_default();
            Some((time.user + time.system).as_secs_f64())
        });
    }),
    many!(figures::THREAD_READS, each_thread),
    many!(figures::THREAD_WRITES, each_thread),
    many!(figures::THREAD_RECEIVED, each_thread),
    many!(figures::THREAD_SENT, each_thread),

    // Commands.
    many!(figures::CALLS, each_command),
    many!(figures::REJECTED_CALLS, each_command),
    many!(figures::FAILED_CALLS, each_command),
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
