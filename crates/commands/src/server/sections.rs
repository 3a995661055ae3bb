// SPDX-License-Identifier: BSD-3-Clause
//! The sections of INFO, with Redis 7.2's field names and order, so that existing parsers work.
//!
//! Fields of features that the server lacks have the value of a fresh standalone server. Braid's
//! own: `server_name`, `braid_version`, and the section `threads`.

mod active;
mod group;
mod replication;

use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock;
use braid_clients::attention::{LOADING, LOADING_BESIDE};
use braid_clients::client_flags;
use braid_cluster_node::forwarding;
use braid_cluster_node::group::shared;
use braid_config::Config;
use braid_executor::{Engine, memory};
use braid_keyspace::Keyspace;
use braid_keyspace::table::TableCursor;
use braid_replication::Replica;
use braid_search_node::figures as search_figures;
use braid_telemetry::stats::{self, ThreadStats};
use braid_telemetry::{Figure, Reading, Telemetry};

use super::figures;
use super::memory_report::Report;
use super::system::{self, CpuTime, Whose};
use crate::module;

/// When a section is shown without being requested by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Usually {
    Shown,
    /// As `Shown` on a server of a group or cluster, otherwise as `OnlyWithEverything`.
    ShownInGroups,
    /// As `Shown` if Redis 8's version is reported, otherwise as `OnlyWithEverything`.
    ShownInRedis8,
    OnlyWithAll,
    OnlyWithEverything,
    OnlyByName,
}

/// A section.
pub struct Section {
    /// The names that select it in INFO.
    pub names: &'static [&'static str],
    title: &'static str,
    pub usually: Usually,
    fields: fn(&mut Fields<'_>),
}

const fn section(
    names: &'static [&'static str],
    title: &'static str,
    usually: Usually,
    fields: fn(&mut Fields<'_>),
) -> Section {
    Section { names, title, usually, fields }
}

/// All sections in display order.
pub const SECTIONS: &[Section] = &[
    section(&["server"], "Server", Usually::Shown, server),
    section(&["clients"], "Clients", Usually::Shown, clients),
    section(&["memory"], "Memory", Usually::Shown, memory),
    section(&["persistence"], "Persistence", Usually::Shown, persistence),
    section(&["threads"], "Threads", Usually::ShownInRedis8, threads),
    section(&["stats"], "Stats", Usually::Shown, statistics),
    section(&["replication"], "Replication", Usually::Shown, replication::write),
    section(&["cpu"], "CPU", Usually::Shown, cpu),
    section(&["module_list", "modules"], "Modules", Usually::Shown, modules),
    section(&["commandstats"], "Commandstats", Usually::OnlyWithAll, command_stats),
    section(&["errorstats"], "Errorstats", Usually::Shown, error_stats),
    section(&["latencystats"], "Latencystats", Usually::OnlyWithAll, latency_stats),
    section(&["cluster"], "Cluster", Usually::Shown, cluster),
    section(&["keyspace"], "Keyspace", Usually::Shown, keyspace),
    section(&["links"], "Links", Usually::OnlyWithEverything, replication::links),
    section(&["group"], "Group", Usually::ShownInGroups, group::write),
    section(&["active"], "Active", Usually::OnlyWithEverything, active::write),
    section(&["search"], "Search", Usually::OnlyWithEverything, search),
    section(&["feeds"], "Feeds", Usually::OnlyWithEverything, feeds),
    section(&["hotkeys"], "Hotkeys", Usually::OnlyWithEverything, hot_keys),
    section(&["debug"], "Debug", Usually::OnlyByName, debug),
];

fn modules(fields: &mut Fields<'_>) {
    let engine = fields.engine;
    module::write_info(engine, |name, value| fields.field(name, value));
}

/// Writes a section with its title.
pub fn write(engine: &Engine, section: &Section, text: &mut String) {
    let _ = write!(text, "# {}\r\n", section.title);
    (section.fields)(&mut Fields { engine, text });
}

/// The destination of fields.
struct Fields<'a> {
    engine: &'a Engine,
    text: &'a mut String,
}

impl Fields<'_> {
    fn field(&mut self, name: impl Display, value: impl Display) {
        let _ = write!(self.text, "{name}:{value}\r\n");
    }

    /// Writes the field of a figure.
    fn show<S: ?Sized>(&mut self, figure: &Figure<S>, source: &S) {
        self.field(figure.field, (figure.read)(source));
    }

    /// Writes a figure in bytes, also in human-readable form.
    fn show_bytes<S: ?Sized>(&mut self, figure: &Figure<S>, source: &S) {
        if let Reading::Count(bytes) = (figure.read)(source) {
            self.bytes(figure.field, bytes);
        }
    }

    /// Writes several fields with the same value.
    fn same(&mut self, value: impl Display + Copy, names: &[&str]) {
        for name in names {
            self.field(name, value);
        }
    }

    /// Writes bytes, also in human-readable form.
    fn bytes(&mut self, name: &str, bytes: u64) {
        self.field(name, bytes);
        self.field(format_args!("{name}_human"), human(bytes));
    }

    fn ratio(&mut self, name: &str, ratio: f64) {
        self.field(name, format_args!("{ratio:.2}"));
    }

    fn total(&self, counter: impl Fn(&ThreadStats) -> u64) -> u64 {
        stats::total(&self.engine.telemetry.threads, counter)
    }
}

/// Formats bytes with a unit, with two decimals from a kilobyte on.
fn human(bytes: u64) -> String {
    const UNITS: [char; 5] = ['K', 'M', 'G', 'T', 'P'];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2}{}", UNITS[unit])
}

/// Keeps client input from breaking the line format.
fn safe(text: &str) -> String {
    text.replace(['#', ':', '\n', '\r'], "_")
}

/// [`safe`] for an address: IPv6 addresses have colons, which readers need.
fn safe_address(text: &str) -> String {
    text.replace([',', '\n', '\r'], "_")
}

fn server(fields: &mut Fields<'_>) {
    let engine = fields.engine;
    let config = &engine.config;
    let uptime = engine.process.uptime_seconds();
    let now_us = clock::unix_us();
    fields.field("redis_version", config.redis_version());
    fields.field("server_name", "braid");
    fields.field("braid_version", env!("CARGO_PKG_VERSION"));
    fields.field("braid_build_profile", braid_base::build::PROFILE);
    fields.field("redis_git_sha1", "00000000");
    fields.field("redis_git_dirty", 0);
    let build = braid_base::crc::crc64(0, concat!("braid ", env!("CARGO_PKG_VERSION")).as_bytes());
    fields.field("redis_build_id", format_args!("{build:016x}"));
    fields.field("redis_mode", if config.cluster_enabled() { "cluster" } else { "standalone" });
    fields.field("os", system::kernel());
    fields.field("arch_bits", usize::BITS);
    fields.field(
        "monotonic_clock",
        if cfg!(target_arch = "x86_64") { "X86 TSC" } else { "POSIX clock_gettime" },
    );
    fields.field("multiplexing_api", "epoll");
    fields.field("atomicvar_api", "rust-core");
    fields.field("gcc_version", "0.0.0");
    fields.field("process_id", std::process::id());
    fields.field("process_supervised", engine.process.supervisor.name());
    fields.field("run_id", &engine.process.run_id);
    fields.field("tcp_port", config.port());
    fields.field("server_time_usec", now_us);
    fields.show(&figures::UPTIME, engine);
    fields.field("uptime_in_days", uptime / 86_400);
    fields.same(config.hz(), &["hz", "configured_hz"]);
    fields.field("lru_clock", (now_us / 1_000_000) & 0x00ff_ffff);
    fields.field("executable", &engine.process.executable);
    let file = engine.process.config_file.as_deref().unwrap_or(std::path::Path::new(""));
    fields.field("config_file", file.display());
    let active = engine.telemetry.io_threads_active.load(Relaxed);
    fields.field("io_threads_active", u8::from(engine.clients.mailboxes.thread_count() > 1 && active));
    fields.field("availability_zone", &*config.availability_zone());
    if let Some(left) = engine.shutdown.left_ms(now_us / 1000) {
        fields.field("shutdown_in_milliseconds", left);
    }
    listeners(fields, config);
}

fn listeners(fields: &mut Fields<'_>, config: &Config) {
    let mut number = 0;
    if config.port() != 0 {
        let mut line = "name=tcp".to_owned();
        for address in config.bind().iter() {
            let _ = write!(line, ",bind={address}");
        }
        let _ = write!(line, ",port={}", config.port());
        fields.field(format_args!("listener{number}"), line);
        number += 1;
    }
    let socket = config.unixsocket();
    if !socket.is_empty() {
        fields.field(format_args!("listener{number}"), format_args!("name=unix,bind={socket}"));
    }
}

fn clients(fields: &mut Fields<'_>) {
    let engine = fields.engine;
    let all = engine.clients.registry.all();
    // Replicas are counted separately.
    let replicas = engine.replication.replicas().len();
    fields.field("connected_clients", engine.clients.registry.count().saturating_sub(replicas));
    fields.field("cluster_connections", 0);
    fields.show(&figures::CLIENTS_MAX, engine);
    fields.show(&figures::CLIENTS_PRIORITY, engine);
    fields.show(&figures::INPUT_BUFFER_MAX, &all[..]);
    fields.show(&figures::OUTPUT_BUFFER_MAX, &all[..]);
    fields
        .field("watching_clients", all.iter().filter(|client| client.watch_count.load(Relaxed) > 0).count());
    fields.field("total_watched_keys", engine.keyspace.watched_keys());
    fields.field("blocked_clients", all.iter().filter(|client| client.has(client_flags::BLOCKED)).count());
    fields.show(&figures::TRACKING_CLIENTS, engine);
    fields.show(&figures::PUBSUB_CLIENTS, &all[..]);
    let with_deadline = all.iter().filter(|client| client.waits_until_deadline()).count();
    fields.field("clients_in_timeout_table", with_deadline);
    let (awaited, wakes_on_delete) = engine.keyspace.awaited_keys();
    fields.field("total_blocking_keys", awaited);
    fields.field("total_blocking_keys_on_nokey", wakes_on_delete);
}

fn memory(fields: &mut Fields<'_>) {
    let engine = fields.engine;
    let config = &engine.config;
    // Updated together with the memory in use, so that their difference is consistent.
    memory::note_uncounted_bytes(engine);
    let report = Report::take(engine);
    fields.show_bytes(&figures::MEMORY_USED, &report.basics);
    fields.show_bytes(&figures::MEMORY_RESIDENT, &report.basics);
    fields.show_bytes(&figures::MEMORY_PEAK, &report.basics);
    fields.field("used_memory_peak_time", engine.memory.peak_at());
    fields.field("used_memory_peak_perc", format_args!("{:.2}%", report.peak_percent));
    fields.field("used_memory_overhead", report.overhead);
    fields.field("used_memory_startup", report.startup);
    fields.field("used_memory_dataset", report.dataset);
    fields.field("used_memory_dataset_perc", format_args!("{:.2}%", report.dataset_percent));
    fields.field("allocator_allocated", report.basics.allocator.allocated);
    fields.show(&figures::ALLOCATOR_ACTIVE, &report.basics);
    fields.show(&figures::ALLOCATOR_RESIDENT, &report.basics);
    fields.field("allocator_muzzy", report.basics.allocator.muzzy);
    fields.bytes("total_system_memory", braid_process::memory::machine_bytes());
    if let Some(bytes) = engine.process.container_memory_bytes {
        fields.bytes("braid_container_memory", bytes);
    }
    let scripts = crate::scripting::figures(engine);
    fields.field("used_memory_lua", scripts.script_vm_bytes);
    fields.field("used_memory_vm_eval", scripts.script_vm_bytes);
    fields.field("used_memory_lua_human", human(scripts.script_vm_bytes as u64));
    fields.field("used_memory_scripts_eval", scripts.script_bytes);
    fields.show(&figures::SCRIPTS, &scripts);
    fields.show(&figures::FUNCTIONS, &scripts);
    fields.field("number_of_libraries", scripts.libraries);
    fields.field("used_memory_vm_functions", scripts.function_vm_bytes);
    fields.bytes("used_memory_vm_total", (scripts.script_vm_bytes + scripts.function_vm_bytes) as u64);
    fields.field("used_memory_functions", scripts.function_bytes);
    fields.bytes("used_memory_scripts", (scripts.script_bytes + scripts.function_bytes) as u64);
    fields.show_bytes(&figures::MEMORY_MAX, engine);
    fields.field("maxmemory_policy", config.get_one("maxmemory-policy").unwrap_or_default());
    fields.show(&figures::ALLOCATOR_FRAGMENTATION, &report.basics);
    fields.field("allocator_frag_bytes", report.basics.allocator_fragmentation().bytes);
    for (name, share) in
        [("allocator_rss", report.allocator_resident()), ("rss_overhead", report.resident_overhead())]
    {
        fields.ratio(&format!("{name}_ratio"), share.ratio);
        fields.field(format_args!("{name}_bytes"), share.bytes);
    }
    fields.show(&figures::FRAGMENTATION, &report.basics);
    fields.field("mem_fragmentation_bytes", report.basics.fragmentation().bytes);
    fields.show(&figures::MEMORY_NOT_COUNTED, engine);
    // Replica buffers and the backlog are the same memory: the journal's.
    let backlog = engine.keyspace.journal.backlog().map_or(0, |kept| kept.len);
    // A killed replica no longer counts, though its loop closes it later.
    let behind = |replica: &Arc<Replica>| {
        let is_gone = replica.record.has(client_flags::CLOSE_NOW);
        if is_gone { 0 } else { replica.record.reply_bytes.load(Relaxed) as u64 }
    };
    fields.show(&figures::BACKLOG, engine);
    let buffers = if backlog > 0 { engine.keyspace.journal.memory_bytes() as u64 } else { 0 };
    fields.field("mem_total_replication_buffers", buffers);
    // The stream after a full sync stays with the primary until the full sync is loaded.
    fields.field("mem_replica_full_sync_buffer", 0);
    fields.field("mem_clients_slaves", engine.replication.replicas().iter().map(behind).sum::<u64>());
    fields.field("mem_clients_normal", report.clients);
    fields.field("mem_cluster_links", 0);
    // Tables grow segment by segment: there is never a second table.
    fields.field("mem_overhead_db_hashtable_rehashing", 0);
    fields.show(&figures::JOURNAL, engine);
    fields.field("mem_allocator", super::allocator::name());
    fields.field("active_defrag_running", engine.keyspace.defrag.share());
    fields.show(&figures::LAZYFREE_PENDING, engine);
    fields.field("lazyfreed_objects", engine.keyspace.lazy_free.freed());
}

fn persistence(fields: &mut Fields<'_>) {
    let engine = fields.engine;
    let state = &engine.persistence;
    let attention = engine.attention.get();
    let is_beside = attention & LOADING_BESIDE != 0;
    // Also until commands are served again, so that a client waiting for the end is not refused.
    let is_loading = (state.progress.active.load(Relaxed) || attention & LOADING != 0) && !is_beside;
    fields.field("loading", u8::from(is_loading));
    let save = &engine.background_save;
    let active = save.active.load(Relaxed);
    let forms = if active || engine.append_only.rewriting.load(Relaxed) { save.copied_bytes() } else { 0 };
    let (done, total) = (save.progress.keys.load(Relaxed), save.keys.load(Relaxed));
    let (done, total) = if active { (done, total) } else { (0, 0) };
    fields.field("async_loading", u8::from(is_beside));
    // Copy-on-write memory: old forms of values that changed before they were saved.
    fields.same(forms, &["current_cow_peak", "current_cow_size"]);
    fields.field("current_cow_size_age", 0);
    fields.ratio("current_fork_perc", if total == 0 { 0.0 } else { done as f64 * 100.0 / total as f64 });
    fields.field("current_save_keys_processed", done);
    fields.field("current_save_keys_total", total);
    fields.show(&figures::UNSAVED_CHANGES, engine);
    fields.show(&figures::SAVE_IN_PROGRESS, engine);
    fields.show(&figures::LAST_SAVE, engine);
    fields.show(&figures::LAST_BGSAVE_SUCCESS, engine);
    fields.show(&figures::LAST_BGSAVE_DURATION, engine);
    fields.field("rdb_current_bgsave_time_sec", save.current_seconds());
    fields.show(&figures::SAVES, engine);
    fields.field("rdb_last_cow_size", save.last_copied_bytes.load(Relaxed));
    fields.field("rdb_last_load_keys_expired", state.keys_expired.load(Relaxed));
    fields.field("rdb_last_load_keys_loaded", state.keys_loaded.load(Relaxed));
    fields.field("rdb_last_load_keys_unsupported", state.keys_unsupported.load(Relaxed));
    fields.show(&figures::BACKUP_IN_PROGRESS, engine);
    let file = &engine.append_only;
    let is_on = file.on.load(Relaxed);
    fields.show(&figures::AOF_ENABLED, engine);
    let status = file.rewrite_status();
    fields.show(&figures::AOF_REWRITE_IN_PROGRESS, &status);
    fields.show(&figures::AOF_REWRITE_SCHEDULED, &status);
    fields.show(&figures::AOF_LAST_REWRITE_DURATION, engine);
    fields.field("aof_current_rewrite_time_sec", file.current_seconds());
    fields.show(&figures::AOF_LAST_REWRITE_SUCCESS, engine);
    fields.show(&figures::AOF_REWRITES, engine);
    fields.show(&figures::AOF_REWRITE_FAILURES, engine);
    fields.show(&figures::AOF_LAST_WRITE_SUCCESS, engine);
    fields.field("aof_last_cow_size", file.last_copied_bytes.load(Relaxed));
    fields.same(0, &["module_fork_in_progress", "module_fork_last_cow_size"]);
    if is_on {
        fields.show(&figures::AOF_SIZE, engine);
        fields.show(&figures::AOF_BASE_SIZE, engine);
        fields.field("aof_pending_rewrite", 0);
        fields.show(&figures::AOF_BUFFER, engine);
        fields.show(&figures::AOF_PENDING_FSYNCS, engine);
        fields.show(&figures::AOF_DELAYED_FSYNCS, engine);
    }
    if is_loading {
        loading(fields);
    }
}

/// The load in progress.
fn loading(fields: &mut Fields<'_>) {
    let progress = &fields.engine.persistence.progress;
    let (started, total) = (progress.started_s.load(Relaxed), progress.total_bytes.load(Relaxed));
    let (loaded, used) = (progress.loaded_bytes.load(Relaxed), progress.used_memory.load(Relaxed));
    let elapsed = u64::try_from(clock::unix_ms() / 1000 - started).unwrap_or(0);
    // At the rate so far.
    let eta = (elapsed * total.saturating_sub(loaded)).checked_div(loaded).unwrap_or(1);
    fields.field("loading_start_time", started);
    fields.field("loading_total_bytes", total);
    fields.field("loading_rdb_used_mem", used);
    fields.field("loading_loaded_bytes", loaded);
    fields.ratio("loading_loaded_perc", progress.percent());
    fields.field("loading_eta_seconds", eta);
}

/// Number of reads or writes by threads other than the first.
fn beyond_first(telemetry: &Telemetry, counter: impl Fn(&ThreadStats) -> u64) -> u64 {
    telemetry.threads.iter().skip(1).map(|thread| counter(thread)).sum()
}

fn statistics(fields: &mut Fields<'_>) {
    let engine = fields.engine;
    let rate = engine.telemetry.rates.lock().current();
    let keyspace = &engine.keyspace;
    let over_limit = engine.memory.over_limit.times(clock::unix_ms());
    fields.show(&figures::CONNECTIONS, engine);
    fields.show(&figures::COMMANDS, engine);
    fields.field("instantaneous_ops_per_sec", rate.commands);
    let links_in = engine.replication.link.received_bytes.load(Relaxed);
    let links_out = engine.replication.sent_bytes.load(Relaxed);
    fields.field("total_net_input_bytes", fields.total(|thread| thread.net_in.get()) + links_in);
    fields.field("total_net_output_bytes", fields.total(|thread| thread.net_out.get()) + links_out);
    fields.show(&figures::REPLICATION_RECEIVED, engine);
    fields.show(&figures::REPLICATION_SENT, engine);
    let kilobytes = |bytes: u64| bytes as f64 / 1024.0;
    fields.ratio("instantaneous_input_kbps", kilobytes(rate.net_in + rate.links.received));
    fields.ratio("instantaneous_output_kbps", kilobytes(rate.net_out + rate.links.sent));
    fields.ratio("instantaneous_input_repl_kbps", kilobytes(rate.links.received));
    fields.ratio("instantaneous_output_repl_kbps", kilobytes(rate.links.sent));
    fields.show(&figures::CONNECTIONS_REJECTED, engine);
    fields.show(&figures::PRIORITY_REJECTED, engine);
    fields.show(&figures::FULL_SYNCS, engine);
    fields.show(&figures::PARTIAL_SYNCS, engine);
    fields.show(&figures::PARTIAL_SYNCS_REFUSED, engine);
    fields.show(&figures::EXPIRED, engine);
    // The names of Valkey and of Redis 8.
    let expired_members = (figures::EXPIRED_MEMBERS.read)(engine);
    fields.field(figures::EXPIRED_MEMBERS.field, expired_members);
    fields.field("expired_subkeys", expired_members);
    fields.ratio("expired_stale_perc", 0.0);
    fields.same(0, &["expired_time_cap_reached_count", "expire_cycle_cpu_milliseconds"]);
    fields.show(&figures::EVICTED, engine);
    fields.show(&figures::CLIENTS_EVICTED, engine);
    fields.field("evicted_scripts", crate::scripting::figures(engine).evicted);
    fields.show(&figures::OVER_LIMIT, &over_limit);
    fields.field("current_eviction_exceeded_time", over_limit.1);
    fields.show(&figures::HITS, engine);
    fields.show(&figures::MISSES, engine);
    fields.show(&figures::CHANNELS, engine);
    fields.show(&figures::PATTERNS, engine);
    fields.show(&figures::SHARD_CHANNELS, engine);
    fields.same(0, &["latest_fork_usec", "total_forks"]);
    fields.field("migrate_cached_sockets", engine.migrations.kept_connections());
    fields.field("slave_expires_tracked_keys", engine.keyspace.own_expiring_keys());
    fields.field("active_defrag_hits", keyspace.total(|counters| counters.defrag_hits.get()));
    fields.field("active_defrag_misses", keyspace.total(|counters| counters.defrag_misses.get()));
    fields.field("active_defrag_key_hits", keyspace.total(|counters| counters.defrag_key_hits.get()));
    fields.field("active_defrag_key_misses", keyspace.total(|counters| counters.defrag_key_misses.get()));
    let (total_ms, current_ms) = keyspace.defrag.run_ms(braid_base::clock::unix_ms());
    fields.field("total_active_defrag_time", total_ms);
    fields.field("current_active_defrag_time", current_ms);
    fields.show(&figures::TRACKING_KEYS, engine);
    fields.field("tracking_total_items", engine.trackers.items());
    fields.field("tracking_total_prefixes", engine.trackers.prefixes());
    fields.field("unexpected_error_replies", fields.total(|thread| thread.unexpected_errors.get()));
    fields.show(&figures::ERROR_REPLIES, engine);
    fields.field("dump_payload_sanitizations", fields.total(|thread| thread.payload_checks.get()));
    fields.field("total_reads_processed", fields.total(|thread| thread.reads.get()));
    fields.field("total_writes_processed", fields.total(|thread| thread.writes.get()));
    fields.field("io_threaded_reads_processed", beyond_first(&engine.telemetry, |thread| thread.reads.get()));
    fields
        .field("io_threaded_writes_processed", beyond_first(&engine.telemetry, |thread| thread.writes.get()));
    // Helper threads of other models prefetch nothing; the threads that execute are not counted.
    fields.same(0, &["io_threaded_total_prefetch_batches", "io_threaded_total_prefetch_entries"]);
    fields.same(0, &["reply_buffer_shrinks", "reply_buffer_expands"]);
    fields.field("eventloop_cycles", fields.total(|thread| thread.cycles.get()));
    fields.field("eventloop_duration_sum", fields.total(|thread| thread.cycle_nanos.get()) / 1000);
    let in_commands = |thread: &ThreadStats| thread.commands.iter().map(|command| command.nanos.get()).sum();
    fields.field("eventloop_duration_cmd_sum", fields.total(in_commands) / 1000);
    // Average per loop, since readers of this field expect a single loop.
    fields.field(
        "instantaneous_eventloop_cycles_per_sec",
        rate.cycles / engine.clients.mailboxes.thread_count() as u64,
    );
    fields.field("instantaneous_eventloop_duration_usec", rate.cycle_micros);
    fields.field("client_turns_cut_short", fields.total(|thread| thread.turns_cut_short.get()));
    fields.field("scripts_run_beside_others", fields.total(|thread| thread.scripts_beside.get()));
    fields.field("scripts_run_alone", fields.total(|thread| thread.scripts_alone.get()));
    fields.field("scripts_begun_again", fields.total(|thread| thread.scripts_again.get()));
    fields.show(&figures::QUERY_LIMIT_DISCONNECTIONS, engine);
    fields.show(&figures::OUTPUT_LIMIT_DISCONNECTIONS, engine);
    for (name, _, count) in figures::refusals(engine) {
        fields.field(name, count);
    }
}

fn cpu(fields: &mut Fields<'_>) {
    let mut both = |suffix: &str, time: CpuTime| {
        for (kind, time) in [("sys", time.system), ("user", time.user)] {
            let value = format!("{}.{:06}", time.as_secs(), time.subsec_micros());
            fields.field(format_args!("used_cpu_{kind}{suffix}"), value);
        }
    };
    both("", system::cpu_time(Whose::Process));
    both("_children", system::cpu_time(Whose::Children));
    // There is no main thread that executes: this is the thread that replies.
    both("_main_thread", system::cpu_time(Whose::Thread));
}

fn command_stats(fields: &mut Fields<'_>) {
    let engine = fields.engine;
    for command in engine.commands.all() {
        let totals = stats::command_totals(&engine.telemetry.threads, command.id);
        if totals.calls == 0 && totals.failed == 0 && totals.rejected == 0 {
            continue;
        }
        let micros = totals.nanos / 1000;
        let per_call =
            if totals.calls == 0 { 0.0 } else { totals.nanos as f64 / 1000.0 / totals.calls as f64 };
        let line = format!(
            "{},usec={micros},usec_per_call={per_call:.2},{},{}",
            figures::CALLS.pair(&totals),
            figures::REJECTED_CALLS.pair(&totals),
            figures::FAILED_CALLS.pair(&totals)
        );
        fields.field(format_args!("cmdstat_{}", command.full_name), line);
    }
}

fn error_stats(fields: &mut Fields<'_>) {
    let mut sum: BTreeMap<String, u64> = BTreeMap::new();
    for thread in fields.engine.telemetry.threads.iter() {
        for (code, count) in thread.errors.lock().iter() {
            *sum.entry(safe(code)).or_default() += count;
        }
    }
    for (code, count) in sum {
        fields.field(format_args!("errorstat_{code}"), format_args!("count={count}"));
    }
}

fn latency_stats(fields: &mut Fields<'_>) {
    let engine = fields.engine;
    if !engine.config.latency_tracking() {
        return;
    }
    let percentiles = engine.config.latency_tracking_info_percentiles();
    for command in engine.commands.all() {
        let sum = stats::command_latency(&engine.telemetry.threads, command.id);
        if sum.count() == 0 {
            continue;
        }
        let values: Vec<String> = percentiles
            .iter()
            .map(|&percent| format!("p{percent}={:.3}", sum.percentile(percent) as f64 / 1000.0))
            .collect();
        fields.field(format_args!("latency_percentiles_usec_{}", command.full_name), values.join(","));
    }
}

fn cluster(fields: &mut Fields<'_>) {
    let enabled = fields.engine.config.cluster_enabled();
    fields.field("cluster_enabled", u8::from(enabled));
    if let Some((count, errors)) = shared::shared_figures(fields.engine) {
        fields.field("cluster_settings", count);
        fields.field("cluster_settings_failed", errors.len());
        if let Some(error) = errors.first() {
            fields.field("cluster_settings_error", error.replace(['\r', '\n'], " "));
        }
    }
    if let Some(forwarding) = forwarding::of(fields.engine) {
        fields.field("cluster_messages_lost", forwarding.lost.load(Relaxed));
    }
}

fn keyspace(fields: &mut Fields<'_>) {
    let engine = fields.engine;
    for db in 0..engine.keyspace.databases() {
        let (keys, expires) = engine.keyspace.visible_len(db);
        if keys > 0 {
            let ttl = if expires == 0 { 0 } else { average_ttl(&engine.keyspace, db) };
            let expiring = engine.keyspace.expiring_collections(db);
            // Redis's name or Valkey's.
            let name =
                if engine.process.follows_redis_8() { "subexpiry" } else { "keys_with_volatile_items" };
            fields.field(
                format_args!("db{db}"),
                format_args!("keys={keys},expires={expires},avg_ttl={ttl},{name}={expiring}"),
            );
        }
    }
}

/// Number of keys sampled for the average time to live.
const TTL_SAMPLES: usize = 64;

/// The average time to live (ms) of some keys that have one, from a random position on.
fn average_ttl(keyspace: &Keyspace, db: u32) -> i64 {
    let shard = fastrand::u64(0..keyspace.shard_count() as u64);
    let start = braid_keyspace::scan::cursor_of(keyspace, shard, TableCursor::default());
    let now = clock::unix_ms();
    let (mut sum, mut count) = (0i64, 0i64);
    // From the random position to the end, then from the beginning if none was found.
    for cursor in [start, 0] {
        braid_keyspace::scan::scan(keyspace, db, cursor, TTL_SAMPLES, |entry| {
            if let Some(at) = entry.expiry().filter(|&at| at > now) {
                sum = sum.saturating_add(at - now);
                count += 1;
            }
        });
        if count > 0 {
            break;
        }
    }
    sum.checked_div(count).unwrap_or(0)
}

fn threads(fields: &mut Fields<'_>) {
    let engine = fields.engine;
    let count = engine.clients.mailboxes.thread_count();
    let mut owned = vec![0usize; count];
    for client in engine.clients.registry.all() {
        if let Some(count) = owned.get_mut(client.io_thread.load(Relaxed) as usize) {
            *count += 1;
        }
    }
    let keyspace = &engine.keyspace;
    fields.field("io_threads", count);
    fields.field("threading_model", engine.config.get_one("threading-model").unwrap_or_default());
    fields.field("shards", keyspace.shard_count());
    for (number, thread) in engine.telemetry.threads.iter().take(count).enumerate() {
        let counters = &keyspace.counters[number];
        let time = system::thread_time(thread.task.load(Relaxed)).unwrap_or_default();
        let line = format!(
            "clients={},{},{},{},user_usec={},sys_usec={},busy_usec={},cycles={},lock_waits={},\
             optimistic_retries={},{},{},waits={},wait_usec={},sent_away={},requests_sent_away={},ring_full={},handed_over={}",
            owned[number],
            figures::THREAD_READS.pair(thread),
            figures::THREAD_WRITES.pair(thread),
            figures::THREAD_COMMANDS.pair(thread),
            time.user.as_micros(),
            time.system.as_micros(),
            thread.cycle_nanos.get() / 1000,
            thread.cycles.get(),
            counters.contended.get(),
            counters.optimistic_failures.get(),
            figures::THREAD_RECEIVED.pair(thread),
            figures::THREAD_SENT.pair(thread),
            thread.waits.get(),
            thread.wait_nanos.get() / 1000,
            thread.sent_away.get(),
            thread.requests_sent_away.get(),
            thread.ring_full.get(),
            thread.handed_over.get(),
        );
        fields.field(format_args!("io_thread_{number}"), line);
    }
    fields.show(&figures::LOCK_WAITS, engine);
    fields.field("optimistic_retries", keyspace.total(|counters| counters.optimistic_failures.get()));
    fields.field("reads_from_copies", keyspace.total(|counters| counters.from_value_cache.get()));
}

/// The HOTKEYS report, if there is one.
fn hot_keys(fields: &mut Fields<'_>) {
    let Some(report) = super::hot_keys::report(fields.engine) else {
        return fields.field("hotkeys_tracking", 0);
    };
    fields.field("hotkeys_tracking", u8::from(report.is_active));
    fields.field("hotkeys_sample_ratio", report.options.sample);
    fields.field("hotkeys_duration_ms", report.duration_ms);
    fields.field("hotkeys_all_commands_usec", report.totals.command_nanos / 1000);
    fields.field("hotkeys_all_net_bytes", report.totals.net_bytes);
    let lists = [("cpu", "usec", &report.by_cpu, 1000), ("net", "bytes", &report.by_net, 1)];
    for (metric, name, keys, unit) in lists {
        for (number, (key, weight)) in keys.iter().enumerate() {
            // The key is last, so that a comma or colon in it does no harm.
            let key = key.escape_ascii();
            fields.field(
                format_args!("hotkey_{metric}_{number}"),
                format_args!("{name}={},key={key}", weight / unit),
            );
        }
    }
}

fn search(to: &mut Fields<'_>) {
    let report = &braid_search_node::report::report(&to.engine.keyspace);
    to.show(&search_figures::INDEXES, report);
    to.show(&search_figures::BUILDING, report);
    to.show(&search_figures::BUILT, report);
    to.show(&search_figures::DOCUMENTS, report);
    to.show_bytes(&search_figures::MEMORY, report);
    to.field("search_total_indexing_time", format_args!("{:.3}", report.indexing_seconds * 1000.0));
    to.show(&search_figures::FAILURES, report);
    to.show(&search_figures::CURSORS, report);
    to.show(&search_figures::QUERIES, report);
    to.show(&search_figures::QUERY_TIME, report);
    to.show(&search_figures::QUERIES_LATE, report);
}

fn feeds(to: &mut Fields<'_>) {
    let feeds = to.engine.feeds.list();
    to.field("change_feeds", feeds.len());
    to.field("change_feed_waiting_clients", braid_executor::feeds::waiting_readers(to.engine));
    for (number, feed) in feeds.iter().enumerate() {
        let text = format_args!(
            "name={},pattern={},values={},entries={},gaps={},bytes_read={}",
            feed.name.escape_ascii(),
            feed.pattern.escape_ascii(),
            if feed.has_values { "yes" } else { "no" },
            feed.figures.entries.load(Relaxed),
            feed.figures.gaps.load(Relaxed),
            feed.figures.bytes.load(Relaxed),
        )
        .to_string();
        to.field(format_args!("change_feed{number}"), text);
    }
}

fn debug(fields: &mut Fields<'_>) {
    let threads = &fields.engine.telemetry.threads;
    let most =
        |counter: fn(&ThreadStats) -> u64| threads.iter().map(|thread| counter(thread)).max().unwrap_or(0);
    let (longest, most_commands) =
        (most(|thread| thread.cycle_nanos_max.get()), most(|thread| thread.cycle_commands_max.get()));
    fields.field("eventloop_duration_aof_sum", 0);
    fields.field("eventloop_duration_cron_sum", fields.total(|thread| thread.cron_nanos.get()) / 1000);
    fields.field("eventloop_duration_max", longest / 1000);
    fields.field("eventloop_cmd_per_cycle_max", most_commands);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_for_people() {
        assert_eq!([0, 1023, 1024, 1536, 1 << 20].map(human), ["0B", "1023B", "1.00K", "1.50K", "1.00M"]);
        assert_eq!(human(u64::MAX), "16384.00P");
    }

    #[test]
    fn lines_cannot_be_broken() {
        assert_eq!(safe("A:b#c\r\nd"), "A_b_c__d");
    }
}
