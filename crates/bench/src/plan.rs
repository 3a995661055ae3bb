// SPDX-License-Identifier: BSD-3-Clause
//! Runs a case: warm-up, iterations, and the server's processor time.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use braid_client::process::{self, Task as ThreadTime};
use braid_client::{Connection, Info, Target, cannot_connect};

use crate::cluster::ClusterMap;
use crate::distributions::{Pattern, Sizes};
use crate::request::{Keys, Load, RequestKind, Template};
use crate::session::{Progress, Session, Task};
use crate::statistics::{Estimate, estimate};
use crate::tally::Tally;
use crate::worker::{Failure, Rate};

/// One load at one pipeline depth.
#[derive(Clone, Debug)]
pub struct Case {
    /// The requests: `GET`, `SET:GET 1:10`.
    pub title: String,
    pub load: Arc<Load>,
    pub pipeline: usize,
}

/// The settings common to all cases.
#[derive(Clone, Debug)]
pub struct Method {
    pub threads: usize,
    pub connections: usize,
    pub requests: Option<u64>,
    pub duration: Option<Duration>,
    pub rate: Option<Rate>,
    pub reconnect: bool,
    pub seed: u64,
    /// Unmeasured time before each iteration.
    pub warm_up: Duration,
    pub iterations: usize,
    /// FLUSHDB before each iteration.
    pub flush: bool,
    /// Write every key once before each iteration's warm-up (only before the first without
    /// `flush`).
    pub fill: bool,
    /// The generator's own processors; empty: any.
    pub processors: Vec<usize>,
    /// The server is a node of a cluster, over whose primaries the load is spread.
    pub cluster: bool,
}

/// One iteration.
#[derive(Clone, Debug)]
pub struct Measurement {
    pub tally: Tally,
    /// The server's processor time, if reported.
    pub server: Option<ServerTime>,
    /// Processor time by thread, busiest first, if the server is on this machine.
    pub server_threads: Vec<(String, Duration)>,
    /// Requests per second over time: (seconds since the start, value).
    pub series: Vec<(f64, f64)>,
    /// The server's resident memory at the end in bytes, if reported.
    pub memory: Option<u64>,
}

/// Processor time of the whole server process.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ServerTime {
    pub user: Duration,
    pub system: Duration,
}

impl std::iter::Sum for ServerTime {
    fn sum<I: Iterator<Item = ServerTime>>(times: I) -> ServerTime {
        times.fold(ServerTime::default(), |sum, time| ServerTime {
            user: sum.user + time.user,
            system: sum.system + time.system,
        })
    }
}

impl ServerTime {
    pub fn total(self) -> Duration {
        self.user + self.system
    }
}

/// A case's iterations.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub case: Case,
    pub runs: Vec<Measurement>,
    /// Ended early by the user.
    pub interrupted: bool,
}

/// Reported latency percentiles.
pub const QUANTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

impl Measurement {
    /// A latency percentile over all kinds, in milliseconds.
    pub fn latency_ms(&self, quantile: f64) -> f64 {
        self.tally.latency().value_at_quantile(quantile) as f64 / 1e6
    }

    /// The server's processor time per request in microseconds.
    pub fn server_micros(&self) -> Option<f64> {
        let replies = self.tally.replies();
        let time = self.server.filter(|_| replies > 0)?;
        Some(time.total().as_secs_f64() * 1e6 / replies as f64)
    }

    /// The server's resident memory at the end in megabytes.
    pub fn memory_mb(&self) -> Option<f64> {
        self.memory.map(|bytes| bytes as f64 / 1e6)
    }

    /// The generator's processor time per request in microseconds.
    pub fn generator_micros(&self) -> f64 {
        self.tally.processor.as_secs_f64() * 1e6 / self.tally.replies().max(1) as f64
    }
}

impl Outcome {
    /// Requests per second.
    pub fn throughput(&self) -> Estimate {
        self.estimate(|run| Some(run.tally.throughput()))
    }

    /// A latency percentile in milliseconds: the mean of the iterations' percentiles.
    pub fn latency_ms(&self, quantile: f64) -> Estimate {
        self.estimate(|run| Some(run.latency_ms(quantile)))
    }

    /// The mean of a figure over the iterations that have it; NaN if none does.
    pub fn estimate(&self, value: impl Fn(&Measurement) -> Option<f64>) -> Estimate {
        estimate(&self.runs.iter().filter_map(value).collect::<Vec<f64>>())
    }

    /// All iterations together.
    pub fn total(&self) -> Tally {
        let mut runs = self.runs.iter();
        let mut total = runs.next().map_or_else(Tally::empty, |run| run.tally.clone());
        runs.for_each(|run| total.add(&run.tally));
        total
    }

    /// Share of a core used by each of the generator's threads: near 1, the generator was the
    /// bottleneck.
    pub fn generator_load(&self, threads: usize) -> f64 {
        let used: f64 = self.runs.iter().map(|run| run.tally.processor.as_secs_f64()).sum();
        let elapsed: f64 = self.runs.iter().map(|run| run.tally.elapsed().as_secs_f64()).sum();
        if elapsed > 0.0 { used / elapsed / threads.max(1) as f64 } else { 0.0 }
    }
}

/// The control connections, and the server state read through them. For a cluster there is one per
/// primary, and figures are summed.
pub struct Control {
    servers: Vec<Controlled>,
    /// The server's name and version: `redis 7.0.15`.
    pub server: String,
}

struct Controlled {
    connection: Connection,
    /// The server's process ID, if it certainly runs on this machine.
    process_id: Option<u32>,
}

impl Control {
    /// Connects. A server that does not allow INFO is measured without its processor time.
    ///
    /// # Errors
    /// If a server cannot be reached or refuses the login.
    pub fn open(targets: &[Target]) -> Result<Control, Failure> {
        let (mut servers, mut server) = (Vec::new(), String::new());
        for target in targets {
            let mut connection =
                Connection::open(target).map_err(|error| cannot_connect(&target.address, &error))?;
            let info = info(&mut connection, "server").unwrap_or_default();
            let process_id = if target.is_local() { process::of_server(&info) } else { None };
            server = describe(&info);
            servers.push(Controlled { connection, process_id });
        }
        Ok(Control { servers, server })
    }

    /// The sum of a figure over all servers; `None` if a server does not report it.
    fn sum<T: std::iter::Sum>(&mut self, of: impl Fn(&mut Connection) -> Option<T>) -> Option<T> {
        self.servers.iter_mut().map(|server| of(&mut server.connection)).sum()
    }

    fn processor_time(&mut self) -> Option<ServerTime> {
        self.sum(|connection| {
            let info = info(connection, "cpu")?;
            let time = |name: &str| Duration::try_from_secs_f64(info.number(name)?).ok();
            Some(ServerTime { user: time("used_cpu_user")?, system: time("used_cpu_sys")? })
        })
    }

    /// Resident memory in bytes.
    fn memory(&mut self) -> Option<u64> {
        self.sum(|connection| Some(info(connection, "memory")?.number("used_memory_rss")? as u64))
    }

    fn thread_times(&self) -> Vec<ThreadTime> {
        self.servers.iter().filter_map(|server| server.process_id).flat_map(process::tasks).collect()
    }

    /// Empties the selected database.
    ///
    /// # Errors
    /// If a connection fails, or the server refuses FLUSHDB.
    pub fn flush(&mut self) -> Result<(), Failure> {
        for server in &mut self.servers {
            server.connection.expect(&["FLUSHDB"]).map_err(|error| format!("FLUSHDB: {error}"))?;
        }
        Ok(())
    }
}

fn info(connection: &mut Connection, section: &str) -> Option<Info> {
    Some(Info::parse(&connection.expect(&["INFO", section]).ok()?.text()))
}

/// A server's name and version, from INFO.
fn describe(info: &Info) -> String {
    for (field, name) in
        [("braid_version", "braid"), ("valkey_version", "valkey"), ("redis_version", "redis")]
    {
        if let Some(version) = info.get(field) {
            return format!("{name} {version}");
        }
    }
    "unknown server".into()
}

/// Runs cases over one session.
pub struct Runner<'a> {
    session: Session,
    control: Control,
    method: &'a Method,
    stop: &'a Arc<AtomicBool>,
    /// The load whose keys were written, identified by its address.
    filled: Option<*const Load>,
}

impl<'a> Runner<'a> {
    /// Connects to a server. `stop` ends any run.
    ///
    /// # Errors
    /// As [`Session::open`], and if the cluster cannot be discovered.
    pub fn open(
        target: &Target,
        method: &'a Method,
        stop: &'a Arc<AtomicBool>,
    ) -> Result<Runner<'a>, Failure> {
        let cluster = method.cluster.then(|| ClusterMap::discover(target)).transpose()?.map(Arc::new);
        let control = match &cluster {
            None => Control::open(std::slice::from_ref(target))?,
            Some(cluster) => Control::open(&cluster.targets())?,
        };
        let session = Session::open(
            target,
            cluster.as_ref(),
            method.threads,
            method.connections,
            &method.processors,
            stop,
        )?;
        Ok(Runner { session, control, method, stop, filled: None })
    }

    /// The server's name and version.
    pub fn server(&self) -> &str {
        &self.control.server
    }

    /// All iterations of a case. If the user stops, returns the results so far; without any, a
    /// failure.
    ///
    /// # Errors
    /// As [`Runner::iteration`].
    pub fn outcome(
        &mut self,
        case: &Case,
        mut progress: impl FnMut(usize, &str, Progress),
    ) -> Result<Outcome, Failure> {
        let mut outcome = Outcome { case: case.clone(), runs: Vec::new(), interrupted: false };
        for iteration in 0..self.method.iterations {
            if self.stop.load(Relaxed) {
                break;
            }
            let seed = iteration as u64;
            let run = self.iteration(case, seed, |phase, now| progress(iteration, phase, now))?;
            outcome.runs.extend(run);
        }
        outcome.interrupted = self.stop.load(Relaxed);
        Ok(outcome)
    }

    /// One iteration: flush, fill, warm up, measure. `None` if the user stopped before anything was
    /// measured.
    ///
    /// # Errors
    /// If a connection fails, or the server refuses FLUSHDB.
    pub fn iteration(
        &mut self,
        case: &Case,
        number: u64,
        mut progress: impl FnMut(&str, Progress),
    ) -> Result<Option<Measurement>, Failure> {
        let method = self.method;
        if method.flush {
            self.control.flush()?;
            self.filled = None;
        }
        if method.fill && self.filled != Some(Arc::as_ptr(&case.load)) {
            self.fill(case, |now| progress("fill", now))?;
            self.filled = Some(Arc::as_ptr(&case.load));
        }
        let task = Task {
            load: case.load.clone(),
            pipeline: case.pipeline,
            requests: method.requests,
            duration: method.duration,
            rate: method.rate,
            reconnect: method.reconnect,
            seed: method.seed.wrapping_add(number.wrapping_mul(2)),
        };
        if !method.warm_up.is_zero() {
            let seed = task.seed.wrapping_add(1);
            let warm_up = Task { requests: None, duration: Some(method.warm_up), seed, ..task.clone() };
            self.session.run(&warm_up, |now| progress("warm-up", now))?;
        }
        if self.stop.load(Relaxed) {
            return Ok(None);
        }
        let threads_before = self.control.thread_times();
        let time_before = self.control.processor_time();
        let mut series = Series::default();
        let tally = self.session.run(&task, |now| {
            series.take(now);
            progress("run", now);
        })?;
        let time_after = self.control.processor_time();
        let threads_after = self.control.thread_times();
        let server = time_before.zip(time_after).map(|(before, after)| ServerTime {
            user: after.user.saturating_sub(before.user),
            system: after.system.saturating_sub(before.system),
        });
        let server_threads = thread_differences(&threads_before, &threads_after);
        let memory = self.control.memory();
        Ok(Some(Measurement { tally, server, server_threads, series: series.points, memory }))
    }

    /// Writes every key of the load once.
    fn fill(&mut self, case: &Case, progress: impl FnMut(Progress)) -> Result<(), Failure> {
        let Some(count) = case.load.keys.count else { return Ok(()) };
        let task = Task {
            load: Arc::new(fill_load(&case.load)),
            pipeline: FILL_PIPELINE,
            requests: Some(count),
            duration: None,
            rate: None,
            reconnect: false,
            seed: self.method.seed,
        };
        let tally = self.session.run(&task, progress)?;
        match tally.error_codes.values().next() {
            Some((count, text)) => Err(format!("the fill got {count} errors: {text}")),
            None => Ok(()),
        }
    }
}

const FILL_PIPELINE: usize = 32;

fn fill_load(load: &Load) -> Load {
    let kind = RequestKind {
        name: "SET".into(),
        template: Template::new(&["SET", "__key__", "__data__"], &load.keys),
        weight: 1,
        pattern: Pattern::Sequential,
    };
    Load { kinds: vec![kind], ..load.clone() }
}

/// Processor time of each thread between two readings, busiest first, without idle ones.
fn thread_differences(before: &[ThreadTime], after: &[ThreadTime]) -> Vec<(String, Duration)> {
    let mut used: Vec<(String, Duration)> = after
        .iter()
        .map(|thread| {
            let earlier = before.iter().find(|earlier| earlier.id == thread.id);
            let time = earlier.map_or(thread.time, |earlier| thread.time.saturating_sub(earlier.time));
            (thread.name.clone(), time)
        })
        .filter(|(_, time)| *time > Duration::from_micros(100))
        .collect();
    used.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    used
}

/// Throughput over time, a point every half second.
#[derive(Default)]
struct Series {
    points: Vec<(f64, f64)>,
    last: Option<(Instant, u64)>,
}

const SERIES_INTERVAL: Duration = Duration::from_millis(500);

impl Series {
    fn take(&mut self, now: Progress) {
        let instant = Instant::now();
        let Some((last, replies)) = self.last else {
            self.last = Some((instant, now.replies));
            return;
        };
        let gap = instant.duration_since(last);
        if gap >= SERIES_INTERVAL {
            let rate = (now.replies - replies) as f64 / gap.as_secs_f64();
            self.points.push((now.elapsed.as_secs_f64(), rate));
            self.last = Some((instant, now.replies));
        }
    }
}

/// A mixture of SET and GET.
pub fn mixture(sets: u32, gets: u32, patterns: (Pattern, Pattern), keys: &Keys) -> Vec<RequestKind> {
    let set = RequestKind {
        name: "SET".into(),
        template: Template::new(&["SET", "__key__", "__data__"], keys),
        weight: sets,
        pattern: patterns.0,
    };
    let get = RequestKind {
        name: "GET".into(),
        template: Template::new(&["GET", "__key__"], keys),
        weight: gets,
        pattern: patterns.1,
    };
    [set, get].into_iter().filter(|kind| kind.weight > 0).collect()
}

impl Case {
    /// A label that distinguishes this case from those with another pipeline depth or value size.
    pub fn label(&self) -> String {
        let sizes = match &self.load.sizes {
            Sizes::Fixed(1) => "1 byte".to_owned(),
            sizes => format!("{sizes} bytes"),
        };
        format!("{}, pipeline {}, {sizes}", self.title, self.pipeline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(id: u32, name: &str, millis: u64) -> ThreadTime {
        ThreadTime { id, name: name.into(), time: Duration::from_millis(millis) }
    }

    #[test]
    fn only_active_threads_are_listed_by_cpu_time() {
        let before = [thread(1, "main", 100), thread(2, "idle", 50)];
        let after = [thread(1, "main", 130), thread(2, "idle", 50), thread(3, "new", 90)];
        let used = thread_differences(&before, &after);
        assert_eq!(
            used,
            [("new".into(), Duration::from_millis(90)), ("main".into(), Duration::from_millis(30))]
        );
    }

    #[test]
    fn server_names_and_versions_are_described() {
        let text = |text: &str| describe(&Info::parse(text));
        assert_eq!(text("redis_version:7.0.15\n"), "redis 7.0.15");
        assert_eq!(text("redis_version:7.2.4\nserver_name:valkey\nvalkey_version:9.1.2\n"), "valkey 9.1.2");
        assert_eq!(text(""), "unknown server");
    }
}
