// SPDX-License-Identifier: BSD-3-Clause
//! The difference between two samples: rates, shares of time, and the state at the second one.
//!
//! Servers differ in the values they report. A missing value is `None` here, and a dash on the
//! screen.

use braid_client::info::{Info, part, part_number};
use braid_client::process::Task;

use crate::active::ActiveView;
use crate::group::GroupView;
use crate::links::{self, LinkRow};
use crate::sample::Sample;
use crate::slots::{self, SlotRow};

/// All data on display.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// `braid 0.1.0`, `redis 8.0.6`, `valkey 9.1.2`.
    pub server: String,
    /// `parallel` or another model, if the server has threading models.
    pub model: Option<String>,
    pub role: String,
    pub uptime_seconds: f64,
    /// Time between the samples.
    pub seconds: f64,
    pub totals: Totals,
    pub memory: Memory,
    pub databases: Vec<Database>,
    pub threads: Vec<ThreadRow>,
    pub commands: Vec<CommandRow>,
    pub links: Vec<LinkRow>,
    /// The server's group.
    pub group: Option<GroupView>,
    /// Active-active replication, if it is on.
    pub active: Option<ActiveView>,
    /// The server is in cluster mode.
    pub is_in_cluster: bool,
    /// The hottest slots, if they were requested.
    pub slots: Vec<SlotRow>,
}

/// Values of the whole server; rates are per second.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    pub clients: f64,
    pub blocked_clients: f64,
    pub clients_max: Option<f64>,
    pub connections_rate: f64,
    pub commands_rate: f64,
    pub errors_rate: f64,
    pub input_rate: f64,
    pub output_rate: f64,
    pub hits_rate: f64,
    pub misses_rate: f64,
    pub expired_rate: f64,
    pub evicted_rate: f64,
    /// Cores in use.
    pub user: f64,
    pub system: f64,
    /// Waits for shard locks, and optimistic reads repeated because a writer intervened.
    pub lock_waits_rate: Option<f64>,
    pub retries_rate: Option<f64>,
    /// Search indexes for which existing keys are being looked at, and what part of the keys the
    /// least advanced has looked at.
    pub indexes_building: Option<(f64, f64)>,
}

impl Totals {
    /// Share of lookups that found a key.
    pub fn hit_ratio(&self) -> Option<f64> {
        let lookups = self.hits_rate + self.misses_rate;
        (lookups > 0.0).then(|| self.hits_rate / lookups)
    }
}

/// Memory in bytes.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    pub used: f64,
    pub resident: f64,
    pub peak: f64,
    /// 0 means no limit.
    pub max: f64,
    pub policy: String,
    /// Ratio of resident to used memory.
    pub fragmentation: Option<f64>,
    /// Other fields, by their names in INFO.
    pub parts: Vec<(&'static str, f64)>,
}

/// A database with keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Database {
    pub name: String,
    pub keys: f64,
    pub expires: f64,
}

/// A thread that serves clients, or another thread of the process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadRow {
    /// The `io-thread` of CLIENT LIST; `None` for threads that serve no clients.
    pub number: Option<u32>,
    pub name: String,
    pub clients: Option<f64>,
    pub commands_rate: Option<f64>,
    pub reads_rate: Option<f64>,
    pub writes_rate: Option<f64>,
    pub input_rate: Option<f64>,
    pub output_rate: Option<f64>,
    pub lock_waits_rate: Option<f64>,
    pub retries_rate: Option<f64>,
    /// Share of the time in which the thread worked, excluding waits.
    pub useful: Option<f64>,
    /// Share of a core.
    pub user: Option<f64>,
    pub system: Option<f64>,
}

impl ThreadRow {
    /// Share of a core, user and system combined.
    pub fn processor(&self) -> Option<f64> {
        Some(self.user? + self.system.unwrap_or(0.0))
    }
}

/// A command that was called.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandRow {
    pub name: String,
    pub rate: f64,
    /// Cores spent on the command.
    pub share: f64,
    pub micros_per_call: f64,
    pub failed_rate: f64,
    pub rejected_rate: f64,
    /// Percentiles in microseconds since the server's start or CONFIG RESETSTAT, by the server's
    /// names (`p99`).
    pub percentiles: Vec<(String, f64)>,
}

const MEMORY_PARTS: [(&str, &str); 8] = [
    ("dataset", "used_memory_dataset"),
    ("overhead", "used_memory_overhead"),
    ("clients", "mem_clients_normal"),
    ("replicas", "mem_clients_slaves"),
    ("replication backlog", "mem_replication_backlog"),
    ("append-only buffer", "mem_aof_buffer"),
    ("scripts", "used_memory_scripts"),
    ("allocator's rest", "allocator_frag_bytes"),
];

/// The samples that a view compares.
struct Pair<'a> {
    before: &'a Sample,
    after: &'a Sample,
    seconds: f64,
}

impl Pair<'_> {
    fn now(&self, field: &str) -> f64 {
        self.after.info.number(field).unwrap_or(0.0)
    }

    /// Growth of a field per second. CONFIG RESETSTAT makes it shrink: then it counts from zero.
    fn rate(&self, field: &str) -> Option<f64> {
        Some(self.grown(self.before.info.number(field)?, self.after.info.number(field)?))
    }

    fn grown(&self, before: f64, after: f64) -> f64 {
        (if after < before { after } else { after - before }) / self.seconds
    }

    /// Growth per second of a part of a field of the form `a=1,b=2`.
    fn part_rate(&self, field: &str, name: &str) -> Option<f64> {
        let after = part_number(self.after.info.get(field)?, name)?;
        let before = self.before.info.get(field).and_then(|value| part_number(value, name)).unwrap_or(0.0);
        Some(self.grown(before, after))
    }
}

impl View {
    /// Compares two samples. If both are the same, rates are since the server's start.
    pub fn between(before: &Sample, after: &Sample) -> View {
        let since_start = std::ptr::eq(before, after);
        let nothing = Sample::default();
        let seconds = if since_start {
            after.info.number("uptime_in_seconds").unwrap_or(1.0)
        } else {
            after.at - before.at
        };
        // Rates need a field in both samples. For rates since the server's start there is no
        // earlier sample: an empty one stands in, and the field's value counts from zero.
        let pair =
            Pair { before: if since_start { &nothing } else { before }, after, seconds: seconds.max(1e-3) };
        let rate = |field: &str| {
            if since_start { Some(pair.now(field) / pair.seconds) } else { pair.rate(field) }.unwrap_or(0.0)
        };
        let info = &after.info;
        let is_known = |field: &str| info.get(field).is_some();
        View {
            server: server_name(after),
            model: info.get("threading_model").map(str::to_owned),
            role: info.get("role").unwrap_or("-").to_owned(),
            uptime_seconds: pair.now("uptime_in_seconds"),
            seconds,
            totals: Totals {
                clients: pair.now("connected_clients"),
                blocked_clients: pair.now("blocked_clients"),
                clients_max: info.number("maxclients"),
                connections_rate: rate("total_connections_received"),
                commands_rate: rate("total_commands_processed"),
                errors_rate: rate("total_error_replies"),
                input_rate: rate("total_net_input_bytes"),
                output_rate: rate("total_net_output_bytes"),
                hits_rate: rate("keyspace_hits"),
                misses_rate: rate("keyspace_misses"),
                expired_rate: rate("expired_keys"),
                evicted_rate: rate("evicted_keys"),
                user: rate("used_cpu_user"),
                system: rate("used_cpu_sys"),
                lock_waits_rate: is_known("lock_waits").then(|| rate("lock_waits")),
                retries_rate: is_known("optimistic_retries").then(|| rate("optimistic_retries")),
                indexes_building: indexes_building(info),
            },
            memory: memory(&pair),
            databases: databases(&pair),
            threads: threads(&pair, since_start),
            commands: commands(&pair),
            links: links::links(info),
            group: GroupView::of_info(info),
            active: ActiveView::of_info(info),
            is_in_cluster: info.number("cluster_enabled") == Some(1.0),
            slots: slots::between(
                if since_start { &[] } else { before.slots.as_deref().unwrap_or_default() },
                after.slots.as_deref().unwrap_or_default(),
                pair.seconds,
            ),
        }
    }
}

fn indexes_building(info: &Info) -> Option<(f64, f64)> {
    let count = info.number("search_number_of_indexes_indexing").filter(|count| *count > 0.0)?;
    Some((count, info.number("search_percent_indexed")? / 100.0))
}

fn server_name(sample: &Sample) -> String {
    for (field, name) in
        [("braid_version", "braid"), ("valkey_version", "valkey"), ("redis_version", "redis")]
    {
        if let Some(version) = sample.info.get(field) {
            return format!("{name} {version}");
        }
    }
    "unknown server".into()
}

fn memory(pair: &Pair<'_>) -> Memory {
    let info = &pair.after.info;
    Memory {
        used: pair.now("used_memory"),
        resident: pair.now("used_memory_rss"),
        peak: pair.now("used_memory_peak"),
        max: pair.now("maxmemory"),
        policy: info.get("maxmemory_policy").unwrap_or("-").to_owned(),
        fragmentation: info.number("mem_fragmentation_ratio"),
        parts: MEMORY_PARTS.iter().filter_map(|(name, field)| Some((*name, info.number(field)?))).collect(),
    }
}

fn databases(pair: &Pair<'_>) -> Vec<Database> {
    let mut all: Vec<(u32, Database)> = pair
        .after
        .info
        .with_prefix("db")
        .filter_map(|(number, value)| {
            let number: u32 = number.parse().ok()?;
            let expires = part_number(value, "expires").unwrap_or(0.0);
            Some((
                number,
                Database { name: format!("db{number}"), keys: part_number(value, "keys")?, expires },
            ))
        })
        .collect();
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, database)| database).collect()
}

fn commands(pair: &Pair<'_>) -> Vec<CommandRow> {
    let mut rows = Vec::new();
    for (name, value) in pair.after.info.with_prefix("cmdstat_") {
        let field = format!("cmdstat_{name}");
        let rate = |part: &str| pair.part_rate(&field, part).unwrap_or(0.0);
        let calls = rate("calls");
        if calls == 0.0 && rate("rejected_calls") == 0.0 {
            continue;
        }
        let micros = rate("usec");
        // With so few calls that the server's microsecond counter has not moved, its own mean is
        // better.
        let micros_per_call = match calls > 0.0 && micros > 0.0 {
            true => micros / calls,
            false => part_number(value, "usec_per_call").unwrap_or(0.0),
        };
        let percentiles =
            pair.after.info.get(&format!("latency_percentiles_usec_{name}")).unwrap_or_default();
        let percentile = |pair: &str| {
            let (name, value) = pair.split_once('=')?;
            Some((name.to_owned(), value.parse().ok()?))
        };
        rows.push(CommandRow {
            name: name.replace('|', " "),
            rate: calls,
            share: micros / 1e6,
            micros_per_call,
            failed_rate: rate("failed_calls"),
            rejected_rate: rate("rejected_calls"),
            percentiles: percentiles.split(',').filter_map(percentile).collect(),
        });
    }
    rows.sort_by(|a, b| b.rate.total_cmp(&a.rate));
    rows
}

/// The threads that the server reports, completed with the system's values, followed by other
/// busy threads of the process.
fn threads(pair: &Pair<'_>, since_start: bool) -> Vec<ThreadRow> {
    let mut rows: Vec<ThreadRow> = Vec::new();
    let info = &pair.after.info;
    let mut numbers: Vec<u32> =
        info.with_prefix("io_thread_").filter_map(|(number, _)| number.parse().ok()).collect();
    let active = info.with_prefix("used_active_time_io_thread_");
    numbers.extend(active.filter_map(|(number, _)| number.parse::<u32>().ok()));
    // Every server has a thread that serves clients.
    numbers.push(0);
    numbers.sort_unstable();
    numbers.dedup();
    for number in numbers {
        let field = format!("io_thread_{number}");
        let rate = |part: &str| pair.part_rate(&field, part);
        let share = |part: &str| rate(part).map(|micros| micros / 1e6);
        let mut row = ThreadRow {
            number: Some(number),
            name: if number == 0 { "main".to_owned() } else { format!("io {number}") },
            clients: info.get(&field).and_then(|value| part(value, "clients")?.parse().ok()),
            commands_rate: rate("commands"),
            reads_rate: rate("reads"),
            writes_rate: rate("writes"),
            input_rate: rate("net_in"),
            output_rate: rate("net_out"),
            lock_waits_rate: rate("lock_waits"),
            retries_rate: rate("optimistic_retries"),
            useful: share("busy_usec"),
            user: share("user_usec"),
            system: share("sys_usec"),
        };
        let whole = |field: &str| {
            if since_start { info.number(field).map(|value| value / pair.seconds) } else { pair.rate(field) }
        };
        if number == 0 && row.user.is_none() {
            row.user = whole("used_cpu_user_main_thread");
            row.system = whole("used_cpu_sys_main_thread");
        }
        let active = match number {
            0 => "used_active_time_main_thread".to_owned(),
            other => format!("used_active_time_io_thread_{other}"),
        };
        row.useful = row.useful.or_else(|| whole(&active));
        rows.push(row);
    }
    if rows.len() > 1 && rows[0].commands_rate.is_some() {
        // If every thread executes, the first is one of them.
        rows[0].name = "io 0".into();
    }
    if let Some(process) = &pair.after.process {
        add_tasks(&mut rows, pair, process.id, &process.tasks);
    }
    for row in &mut rows {
        // A thread without its own value, if it does not spin, is useful while it runs.
        row.useful = row.useful.or(row.processor()).map(|part| part.min(1.0));
    }
    rows
}

/// Adds the system's values for the process's threads.
fn add_tasks(rows: &mut Vec<ThreadRow>, pair: &Pair<'_>, process_id: u32, tasks: &[Task]) {
    let earlier = pair.before.process.as_ref();
    let has_io_0 = tasks.iter().any(|task| task.name == "io_thd_0");
    let mut others: Vec<ThreadRow> = Vec::new();
    for task in tasks {
        let before = earlier.and_then(|process| process.tasks.iter().find(|earlier| earlier.id == task.id));
        let before = before.map_or(0.0, |task| task.time.as_secs_f64());
        let used = (task.time.as_secs_f64() - before).max(0.0) / pair.seconds;
        let number = match task.name.strip_prefix("io_thd_") {
            Some(number) => number.parse().ok(),
            None if task.id == process_id && !has_io_0 => Some(0),
            None => None,
        };
        match number.and_then(|number| rows.iter_mut().find(|row| row.number == Some(number))) {
            Some(row) => row.user = row.user.or(Some(used)),
            // Threads that hardly work are left out.
            None if used >= 0.005 => {
                let name = if task.id == process_id { "process".to_owned() } else { task.name.clone() };
                others.push(ThreadRow { name, user: Some(used), ..ThreadRow::default() });
            }
            None => {}
        }
    }
    others.sort_by(|a, b| b.user.unwrap_or(0.0).total_cmp(&a.user.unwrap_or(0.0)));
    rows.extend(others);
}

#[cfg(test)]
mod tests;
