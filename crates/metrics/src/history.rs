// SPDX-License-Identifier: BSD-3-Clause
//! The page's plots of the last five minutes, kept by the server, so that a page that is opened or
//! reloaded shows them at once.
//!
//! The HTTP thread takes a sample every five seconds, from the counters behind the metrics. Points
//! have the plots and lines that `page.html` computes from two scrapes; a value is absent if the
//! interval has nothing that it could describe, such as a hit rate without lookups. Memory is
//! bounded by [`POINTS_MAX`], and nothing is counted for it on the path of a request.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use braid_commands::server::{figures, system};
use braid_executor::Engine;
use braid_telemetry::histogram::HistogramSum;
use braid_telemetry::stats::{self, ThreadStats};
use serde_json::{Map, Value, json};

use crate::catalogue::{BUCKETS_NANOS, is_blocked};

/// Time between two samples.
pub const PERIOD: Duration = Duration::from_secs(5);
/// Number of points kept: five minutes.
const POINTS_MAX: usize = 60;

/// Counters and amounts at a moment.
#[derive(Clone, Default, Debug)]
struct Sample {
    commands: u64,
    /// Processor seconds of each thread.
    cpu: Vec<f64>,
    /// Calls that took at most [`BUCKETS_NANOS`], and all calls.
    at_most: [u64; BUCKETS_NANOS.len()],
    calls: u64,
    sent: u64,
    received: u64,
    hits: u64,
    misses: u64,
    expired: u64,
    evicted: u64,
    errors: u64,
    denied: u64,
    rejected: u64,
    resident: usize,
    used: usize,
    clients: usize,
    blocked: usize,
    keys: usize,
    expiring: usize,
}

impl Sample {
    fn take(engine: &Engine) -> Sample {
        let threads = &engine.telemetry.threads;
        let total = |counter: fn(&ThreadStats) -> u64| stats::total(threads, counter);
        let latency = latency(engine);
        let clients = engine.clients.registry.all();
        let keyspace = &engine.keyspace;
        let (keys, expiring) = (0..keyspace.databases())
            .map(|db| keyspace.visible_len(db))
            .fold((0, 0), |(keys, expiring), one| (keys + one.0, expiring + one.1));
        Sample {
            commands: total(|thread| thread.executed.get()),
            cpu: cpu_by_thread(engine),
            at_most: BUCKETS_NANOS.map(|limit| latency.count_at_most(limit)),
            calls: latency.count(),
            sent: total(|thread| thread.net_out.get()),
            received: total(|thread| thread.net_in.get()),
            hits: keyspace.total(|counters| counters.hits.get()),
            misses: keyspace.total(|counters| counters.misses.get()),
            expired: keyspace.total(|counters| counters.expired.get()),
            evicted: keyspace.total(|counters| counters.evicted.get()),
            errors: total(|thread| thread.error_replies.get()),
            denied: figures::refusals(engine).iter().map(|(.., count)| count).sum(),
            rejected: engine.clients.registry.rejected.load(Relaxed),
            resident: braid_process::memory::resident_bytes(),
            used: braid_base::alloc::used_bytes(),
            clients: clients.len(),
            blocked: clients.iter().filter(|record| is_blocked(record)).count(),
            keys,
            expiring,
        }
    }

    /// The plots of the time since an earlier sample.
    fn plots_since(&self, before: &Sample, seconds: f64) -> Value {
        let rate = |count: fn(&Sample) -> u64| grown(count(self), count(before)) as f64 / seconds;
        let cpu = self.cpu.iter().enumerate().map(|(thread, now)| {
            let then = before.cpu.get(thread).copied().unwrap_or(0.0);
            (format!("thread {thread}"), json!(100.0 * (now - then).max(0.0) / seconds))
        });
        let mut latency = Map::new();
        for (name, share) in [("p99.9", 0.999), ("p99", 0.99), ("p50", 0.5)] {
            latency.insert(name.to_owned(), json!(self.quantile_since(before, share)));
        }
        let (hits, misses) = (grown(self.hits, before.hits), grown(self.misses, before.misses));
        let hit_rate = (hits + misses > 0).then(|| 100.0 * hits as f64 / (hits + misses) as f64);
        json!({
            "commands": { "commands": rate(|sample| sample.commands) },
            "latency": latency,
            "cpu": cpu.collect::<Map<_, _>>(),
            "errors": {
                "error replies": rate(|sample| sample.errors),
                "refused by ACL": rate(|sample| sample.denied),
                "rejected connections": rate(|sample| sample.rejected),
            },
            "memory": { "resident": self.resident, "used": self.used },
            "clients": { "connected": self.clients, "blocked": self.blocked },
            "network": { "sent": rate(|sample| sample.sent), "received": rate(|sample| sample.received) },
            "keys": { "keys": self.keys, "with expiry": self.expiring },
            "hits": { "hits": hit_rate },
            "removed": {
                "expired": rate(|sample| sample.expired),
                "evicted": rate(|sample| sample.evicted),
            },
        })
    }

    /// The run time (seconds) that a share of the calls since an earlier sample did not exceed,
    /// interpolated within its bucket; `None` without calls.
    fn quantile_since(&self, before: &Sample, share: f64) -> Option<f64> {
        let calls = grown(self.calls, before.calls);
        if calls == 0 {
            return None;
        }
        let wanted = calls as f64 * share;
        let (mut low, mut under) = (0.0, 0.0);
        for (at, limit) in BUCKETS_NANOS.iter().enumerate() {
            let count = grown(self.at_most[at], before.at_most[at]) as f64;
            let bound = *limit as f64 / 1e9;
            if count >= wanted {
                let part = if count > under { (wanted - under) / (count - under) } else { 1.0 };
                return Some(low + (bound - low) * part);
            }
            (low, under) = (bound, count);
        }
        Some(low)
    }
}

/// Growth of a counter; one that was reset counts from zero.
fn grown(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

/// Run times of all commands on all threads.
fn latency(engine: &Engine) -> HistogramSum {
    let mut sum = HistogramSum::default();
    for thread in engine.telemetry.threads.iter() {
        for histogram in thread.commands.iter().filter_map(|command| command.latency.get()) {
            histogram.add_to(&mut sum);
        }
    }
    sum
}

fn cpu_by_thread(engine: &Engine) -> Vec<f64> {
    let count = engine.clients.mailboxes.thread_count();
    let seconds = |thread: &ThreadStats| {
        let time = system::thread_time(thread.task.load(Relaxed)).unwrap_or_default();
        (time.user + time.system).as_secs_f64()
    };
    engine.telemetry.threads.iter().take(count).map(|thread| seconds(thread)).collect()
}

/// Samples of the last five minutes.
#[derive(Default)]
pub struct History {
    last: Option<(Instant, Sample)>,
    points: VecDeque<(Instant, Value)>,
}

impl History {
    /// Takes a sample; must be called every [`PERIOD`].
    pub fn sample(&mut self, engine: &Engine, now: Instant) {
        self.add(Sample::take(engine), now);
    }

    fn add(&mut self, sample: Sample, now: Instant) {
        if let Some((then, before)) = self.last.replace((now, sample.clone())) {
            let seconds = now.saturating_duration_since(then).as_secs_f64();
            if seconds > 0.0 {
                if self.points.len() == POINTS_MAX {
                    self.points.pop_front();
                }
                self.points.push_back((now, sample.plots_since(&before, seconds)));
            }
        }
    }

    /// The server's host and port, and the points with their ages, the oldest first.
    pub fn json(&self, engine: &Engine, now: Instant) -> Value {
        let points = self.points.iter().map(|(at, plots)| {
            json!({ "age_seconds": now.saturating_duration_since(*at).as_secs_f64(), "plots": plots })
        });
        json!({
            "host": host_name(),
            "port": engine.config.port(),
            "tls_port": engine.config.tls_port(),
            "period_seconds": PERIOD.as_secs(),
            "points": points.collect::<Vec<_>>(),
        })
    }
}

/// The machine's name.
fn host_name() -> String {
    rustix::system::uname().nodename().to_bytes().escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use braid_config::Config;
    use std::sync::Arc;

    use braid_executor::engine::Start;

    use super::*;

    fn at(seconds: u64) -> Instant {
        static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
        *START.get_or_init(Instant::now) + Duration::from_secs(seconds)
    }

    fn engine() -> Arc<Engine> {
        let config = Config::new();
        config.load_text("port 7001\nio-threads 2\nshards 16\n").unwrap();
        braid_node::start(Arc::new(config), braid_commands::rows(), Start::default()).unwrap()
    }

    #[test]
    fn points_are_rates_between_two_samples() {
        let mut history = History::default();
        history.add(Sample { commands: 100, hits: 5, cpu: vec![1.0], ..Sample::default() }, at(0));
        assert!(history.points.is_empty(), "one sample has no rate");
        let cpu = vec![3.5, 0.5];
        let later =
            Sample { commands: 600, hits: 14, misses: 1, cpu, used: 7, errors: 10, ..Sample::default() };
        history.add(later, at(5));
        let (_, plots) = &history.points[0];
        assert_eq!(plots["commands"], json!({ "commands": 100.0 }));
        assert_eq!(plots["cpu"], json!({ "thread 0": 50.0, "thread 1": 10.0 }));
        assert_eq!(plots["hits"], json!({ "hits": 90.0 }));
        assert_eq!(plots["memory"]["used"], 7);
        assert_eq!(plots["errors"]["error replies"], 2.0);
    }

    #[test]
    fn what_did_not_happen_has_no_value() {
        let mut history = History::default();
        let sample = Sample { hits: 5, misses: 5, calls: 10, at_most: [10; 16], ..Sample::default() };
        history.add(sample.clone(), at(0));
        history.add(sample, at(5));
        let (_, plots) = &history.points[0];
        assert_eq!(plots["hits"], json!({ "hits": null }));
        assert_eq!(plots["latency"], json!({ "p99.9": null, "p99": null, "p50": null }));
        assert_eq!(plots["commands"], json!({ "commands": 0.0 }));
    }

    #[test]
    fn counters_that_are_reset_count_from_zero() {
        let mut history = History::default();
        history.add(Sample { commands: 1000, hits: 50, misses: 50, ..Sample::default() }, at(0));
        history.add(Sample { commands: 20, hits: 3, misses: 1, ..Sample::default() }, at(5));
        assert_eq!(history.points[0].1["commands"]["commands"], 4.0);
        assert_eq!(history.points[0].1["hits"]["hits"], 75.0);
    }

    #[test]
    fn quantiles_are_those_of_the_interval() {
        let before = Sample { calls: 1000, at_most: [1000; 16], ..Sample::default() };
        // 90 calls within 500 ns, 10 more within 1 us.
        let mut at_most = [1100; 16];
        at_most[0] = 1090;
        let now = Sample { calls: 1100, at_most, ..Sample::default() };
        assert_eq!(now.quantile_since(&before, 0.45), Some(250e-9));
        assert_eq!(now.quantile_since(&before, 0.95), Some(750e-9));
        // Calls above the last bound count as that bound.
        let slow = Sample { calls: 1200, at_most, ..Sample::default() };
        assert_eq!(slow.quantile_since(&now, 0.99), Some(1.0));
    }

    #[test]
    fn five_minutes_are_kept() {
        let mut history = History::default();
        for number in 0..200 {
            history.add(Sample { commands: number * number, ..Sample::default() }, at(number * 5));
        }
        assert_eq!(history.points.len(), POINTS_MAX);
        assert!(history.points.capacity() <= 2 * POINTS_MAX);
        let told = history.json(&engine(), at(995 + 2));
        let ages: Vec<f64> = told["points"]
            .as_array()
            .unwrap()
            .iter()
            .map(|point| point["age_seconds"].as_f64().unwrap())
            .collect();
        assert_eq!((ages.len(), ages[0], ages[59]), (60, 297.0, 2.0));
        assert_eq!(told["port"], 7001);
        assert_eq!(told["points"][59]["plots"]["commands"]["commands"], (199 * 199 - 198 * 198) as f64 / 5.0);
        // The same moment twice is no interval.
        history.add(Sample::default(), at(995));
        assert_eq!(history.points.len(), POINTS_MAX);
    }

    #[test]
    fn a_sample_has_the_values_of_the_metrics() {
        let engine = engine();
        let thread = &engine.telemetry.threads[1];
        thread.executed.add(3);
        thread.net_out.add(70);
        thread.error_replies.add(4);
        thread.denied_keys.add(2);
        let (sample, text) = (Sample::take(&engine), crate::render(&engine));
        let sum = |name: &str| -> f64 {
            let samples = text.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
            samples
                .filter(|(labels, _)| labels.is_empty() || labels.starts_with('{'))
                .map(|(_, value)| value.parse::<f64>().unwrap())
                .sum()
        };
        for (name, value) in [
            ("braid_commands_total", sample.commands),
            ("braid_net_sent_bytes_total", sample.sent),
            ("braid_net_received_bytes_total", sample.received),
            ("braid_error_replies_total", sample.errors),
            ("braid_access_denied_total", sample.denied),
            ("braid_connections_rejected_total", sample.rejected),
            ("braid_keyspace_hits_total", sample.hits),
            ("braid_keyspace_misses_total", sample.misses),
            ("braid_keys", sample.keys as u64),
            ("braid_keys_expiring", sample.expiring as u64),
            ("braid_clients", sample.clients as u64),
            ("braid_clients_blocked", sample.blocked as u64),
        ] {
            assert_eq!(sum(name), value as f64, "{name}");
        }
        assert_eq!((sample.commands, sample.sent, sample.errors, sample.denied), (3, 70, 4, 2));
        assert_eq!(sample.cpu.len(), engine.clients.mailboxes.thread_count());
        assert!(sample.resident > 1_000_000);
    }
}
