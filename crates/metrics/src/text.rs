//! The figures as text in Prometheus' format, version 0.0.4.
//!
//! Names begin with `braid_`, times are seconds, sizes bytes. Counters go back to zero with CONFIG RESETSTAT, as with a restart.

use std::fmt::{Display, Write};
use std::sync::atomic::Ordering::Relaxed;

use braid_commands::server::{hot_keys, system};
use braid_engine::Engine;
use braid_engine::client::client_flags;
use braid_engine::stats::{self, CommandTotals, ThreadStats};

/// Upper bounds of the buckets of run times, in nanoseconds.
const BUCKETS_NANOS: [u64; 16] = [
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

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The text in the making.
struct Text(String);

impl Text {
    /// Begins a family of samples.
    fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A sample; values of labels are quoted as the format wants it.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if index == 0 { '{' } else { ',' });
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }

    /// A family of one sample.
    fn one(&mut self, name: &str, kind: Kind, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }
}

/// All figures.
pub fn render(engine: &Engine) -> String {
    let mut text = Text(String::with_capacity(64 * 1024));
    server(&mut text, engine);
    clients(&mut text, engine);
    memory(&mut text, engine);
    keyspace(&mut text, engine);
    traffic(&mut text, engine);
    threads(&mut text, engine);
    commands(&mut text, engine);
    hot_keys(&mut text, engine);
    text.0
}

fn server(text: &mut Text, engine: &Engine) {
    let model = engine.config.get_one("threading-model").unwrap_or_default();
    text.family("braid_info", Kind::Gauge, "What runs; always 1.");
    let labels = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("compatible_with", &engine.config.redis_version()),
        ("threading_model", &model),
        ("run_id", &engine.run_id),
    ];
    text.sample("braid_info", &labels, 1);
    let uptime = engine.uptime_seconds();
    text.one("braid_uptime_seconds", Kind::Gauge, "Time since the start.", uptime);
    text.one(
        "braid_loading",
        Kind::Gauge,
        "1 while the dataset is loaded.",
        u8::from(engine.config.is_loading()),
    );
}

fn clients(text: &mut Text, engine: &Engine) {
    let records = engine.clients.all();
    let blocked = records
        .iter()
        .filter(|record| record.has(client_flags::BLOCKED) && !record.has(client_flags::POSTPONED))
        .count();
    let bytes: usize = records.iter().map(|record| record.total_bytes.load(Relaxed)).sum();
    text.one("braid_clients", Kind::Gauge, "Connected clients.", records.len());
    text.one("braid_clients_max", Kind::Gauge, "The most there may be.", engine.config.maxclients());
    text.one("braid_clients_blocked", Kind::Gauge, "Clients that wait for a key.", blocked);
    text.one("braid_clients_memory_bytes", Kind::Gauge, "Memory held for clients.", bytes);
    let accepted = engine.clients.accepted.load(Relaxed);
    text.one("braid_connections_total", Kind::Counter, "Connections accepted.", accepted);
    let rejected = engine.clients.rejected.load(Relaxed);
    text.one("braid_connections_rejected_total", Kind::Counter, "Connections refused.", rejected);
}

fn memory(text: &mut Text, engine: &Engine) {
    let used = braid_base::alloc::used_bytes();
    let peak = engine.peak_bytes.fetch_max(used, Relaxed).max(used);
    text.one("braid_memory_used_bytes", Kind::Gauge, "Memory in use, as the allocator counts it.", used);
    text.one("braid_memory_peak_bytes", Kind::Gauge, "The most ever in use.", peak);
    text.one(
        "braid_memory_resident_bytes",
        Kind::Gauge,
        "Physical memory of the process.",
        system::resident_bytes(),
    );
    let limit = engine.config.maxmemory();
    text.one("braid_memory_max_bytes", Kind::Gauge, "The limit (maxmemory); 0: none.", limit);
}

fn keyspace(text: &mut Text, engine: &Engine) {
    let keyspace = &engine.keyspace;
    let databases: Vec<(String, usize, usize)> = (0..keyspace.databases())
        .map(|db| (db.to_string(), keyspace.len(db)))
        .filter(|(name, (keys, _))| *keys > 0 || name == "0")
        .map(|(name, (keys, expiring))| (name, keys, expiring))
        .collect();
    text.family("braid_keys", Kind::Gauge, "Keys of a database.");
    databases.iter().for_each(|(name, keys, _)| text.sample("braid_keys", &[("db", name)], keys));
    text.family("braid_keys_expiring", Kind::Gauge, "Keys of a database that have an expiry.");
    for (name, _, expiring) in &databases {
        text.sample("braid_keys_expiring", &[("db", name)], expiring);
    }
    let figures = [
        ("braid_keyspace_hits_total", "Look-ups that found a key.", keyspace.total(|all| all.hits.get())),
        ("braid_keyspace_misses_total", "Look-ups that found none.", keyspace.total(|all| all.misses.get())),
        (
            "braid_keys_expired_total",
            "Keys removed past their expiry.",
            keyspace.total(|all| all.expired.get()),
        ),
        ("braid_keys_evicted_total", "Keys evicted for memory.", keyspace.total(|all| all.evicted.get())),
        ("braid_changes_total", "Changes to the dataset.", keyspace.total(|all| all.dirty.get())),
        (
            "braid_lock_waits_total",
            "How often a shard's lock was waited for.",
            keyspace.total(|all| all.contended.get()),
        ),
    ];
    for (name, help, value) in figures {
        text.one(name, Kind::Counter, help, value);
    }
}

fn traffic(text: &mut Text, engine: &Engine) {
    let total = |counter: fn(&ThreadStats) -> u64| stats::total(&engine.threads, counter);
    let figures = [
        ("braid_commands_total", "Commands executed.", total(|thread| thread.executed.get())),
        ("braid_error_replies_total", "Error replies sent.", total(|thread| thread.error_replies.get())),
        ("braid_net_received_bytes_total", "Bytes received.", total(|thread| thread.net_in.get())),
        ("braid_net_sent_bytes_total", "Bytes sent.", total(|thread| thread.net_out.get())),
        (
            "braid_output_limit_disconnections_total",
            "Clients dropped for reading too slowly.",
            total(|thread| thread.output_limit_disconnections.get()),
        ),
    ];
    for (name, help, value) in figures {
        text.one(name, Kind::Counter, help, value);
    }
    text.family("braid_access_denied_total", Kind::Counter, "What was refused for want of a right.");
    let reasons = [
        ("auth", engine.denied_logins()),
        ("command", total(|thread| thread.denied_commands.get())),
        ("key", total(|thread| thread.denied_keys.get())),
        ("channel", total(|thread| thread.denied_channels.get())),
    ];
    for (reason, count) in reasons {
        text.sample("braid_access_denied_total", &[("reason", reason)], count);
    }
}

fn threads(text: &mut Text, engine: &Engine) {
    let names: Vec<String> = (0..engine.thread_count()).map(|number| number.to_string()).collect();
    let seconds = |nanos: u64| nanos as f64 / 1e9;
    let mut family = |name: &str, kind: Kind, help: &str, value: &dyn Fn(&ThreadStats) -> f64| {
        text.family(name, kind, help);
        for (number, thread) in names.iter().zip(engine.threads.iter()) {
            text.sample(name, &[("thread", number)], value(thread));
        }
    };
    let number = |value: u64| value as f64;
    family("braid_thread_clients", Kind::Gauge, "Clients that a thread owns.", &|thread| {
        number(thread.clients.get())
    });
    family("braid_thread_commands_total", Kind::Counter, "Commands that a thread executed.", &|thread| {
        number(thread.executed.get())
    });
    family("braid_thread_busy_seconds_total", Kind::Counter, "Turns of a thread's loop.", &|thread| {
        seconds(thread.cycle_nanos.get())
    });
    family("braid_thread_cpu_seconds_total", Kind::Counter, "Processor time of a thread.", &|thread| {
        let time = system::thread_time(thread.task.load(Relaxed)).unwrap_or_default();
        (time.user + time.system).as_secs_f64()
    });
    family("braid_thread_reads_total", Kind::Counter, "Reads from sockets.", &|thread| {
        number(thread.reads.get())
    });
    family("braid_thread_writes_total", Kind::Counter, "Writes to sockets.", &|thread| {
        number(thread.writes.get())
    });
    family("braid_thread_received_bytes_total", Kind::Counter, "Bytes received.", &|thread| {
        number(thread.net_in.get())
    });
    family("braid_thread_sent_bytes_total", Kind::Counter, "Bytes sent.", &|thread| {
        number(thread.net_out.get())
    });
}

/// What HOTKEYS has found; nothing if it was not asked.
fn hot_keys(text: &mut Text, engine: &Engine) {
    let Some(report) = hot_keys::report(engine) else { return };
    let active = u8::from(report.is_active);
    text.one("braid_hot_keys_tracking", Kind::Gauge, "Whether HOTKEYS looks at commands now.", active);
    let mut family = |name: &str, help: &str, keys: &[(Box<[u8]>, u64)], unit: f64| {
        text.family(name, Kind::Gauge, help);
        for (key, weight) in keys {
            text.sample(name, &[("key", &key.escape_ascii().to_string())], *weight as f64 / unit);
        }
    };
    let (cpu, net) = (&report.by_cpu, &report.by_net);
    family("braid_hot_key_cpu_seconds", "Time that commands on a hot key took, estimated.", cpu, 1e9);
    family("braid_hot_key_net_bytes", "Requests and replies with a hot key, estimated.", net, 1.0);
}

fn commands(text: &mut Text, engine: &Engine) {
    let called: Vec<_> = engine
        .commands
        .all()
        .iter()
        .map(|command| (command, stats::command_totals(&engine.threads, command.id)))
        .filter(|(_, totals)| totals.calls + totals.rejected + totals.failed > 0)
        .collect();
    let mut counter = |name: &str, help: &str, value: fn(&CommandTotals) -> u64| {
        text.family(name, Kind::Counter, help);
        for (command, totals) in &called {
            text.sample(name, &[("command", &command.full_name)], value(totals));
        }
    };
    counter("braid_command_calls_total", "Calls of a command.", |totals| totals.calls);
    counter("braid_command_rejected_total", "Calls refused before execution.", |totals| totals.rejected);
    counter("braid_command_failed_total", "Calls that ended with an error.", |totals| totals.failed);
    let name = "braid_command_duration_seconds";
    text.family(name, Kind::Histogram, "How long calls of a command took.");
    for (command, totals) in &called {
        let sum = stats::command_latency(&engine.threads, command.id);
        let count = sum.count();
        if count == 0 {
            continue;
        }
        let command = &*command.full_name;
        for limit in BUCKETS_NANOS {
            let bound = (limit as f64 / 1e9).to_string();
            let labels = [("command", command), ("le", &*bound)];
            text.sample(&format!("{name}_bucket"), &labels, sum.count_at_most(limit).min(count));
        }
        text.sample(&format!("{name}_bucket"), &[("command", command), ("le", "+Inf")], count);
        text.sample(&format!("{name}_sum"), &[("command", command)], totals.nanos as f64 / 1e9);
        text.sample(&format!("{name}_count"), &[("command", command)], count);
    }
}

#[cfg(test)]
mod tests;
