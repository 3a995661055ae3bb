// SPDX-License-Identifier: BSD-3-Clause
//! The connections of one run, spread over threads that wait for passes.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use braid_client::{Connection, Target, cannot_connect};

use crate::cluster::ClusterMap;
use crate::recorder::Live;
use crate::request::{Load, Sequences};
use crate::tally::Tally;
use crate::worker::{Failure, Pass, Rate, Worker};

/// The work of a pass on the connections of a session.
#[derive(Clone, Debug)]
pub struct Task {
    pub load: Arc<Load>,
    pub pipeline: usize,
    /// Total number of requests; `None`: `duration` decides.
    pub requests: Option<u64>,
    pub duration: Option<Duration>,
    pub rate: Option<Rate>,
    pub reconnect: bool,
    pub seed: u64,
}

/// A pass's running figures, for progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub elapsed: Duration,
    pub replies: u64,
    pub errors: u64,
    pub latency_nanos: u64,
}

/// Connections to a server, ready for passes.
pub struct Session {
    threads: Vec<Thread>,
    stop: Arc<AtomicBool>,
}

struct Thread {
    passes: Option<Sender<Arc<Pass>>>,
    results: Receiver<Result<Tally, Failure>>,
    handle: Option<JoinHandle<()>>,
}

impl Session {
    /// Opens `connections` connections on `threads` threads, to the primaries of a cluster if there
    /// is one. `stop` ends passes early. `processors` binds the threads.
    ///
    /// # Errors
    /// If a connection fails or the server refuses the login, there are too few connections for the
    /// primaries, or a thread cannot be started.
    pub fn open(
        target: &Target,
        cluster: Option<&Arc<ClusterMap>>,
        threads: usize,
        connections: usize,
        processors: &[usize],
        stop: &Arc<AtomicBool>,
    ) -> Result<Session, Failure> {
        // Finds a working address, and detects a wrong password, before many connections are
        // opened.
        let probe = Connection::open(target).map_err(|error| cannot_connect(&target.address, &error))?;
        let address = probe.address().clone();
        let threads = threads.clamp(1, connections.max(1));
        if let Some(cluster) = cluster
            && connections / threads < cluster.node_count()
        {
            return Err(format!(
                "{} of the cluster and {} need at least {} connections (-c)",
                braid_base::plural::plural(cluster.node_count() as u64, "primary"),
                braid_base::plural::plural(threads as u64, "thread"),
                cluster.node_count() * threads
            ));
        }
        let mut session = Session { threads: Vec::new(), stop: stop.clone() };
        for number in 0..threads {
            // The first threads get the remainder of an uneven division.
            let share = connections / threads + usize::from(number < connections % threads);
            let (pass_sender, passes) = channel::<Arc<Pass>>();
            let (result_sender, results) = channel();
            let (target, address, processors) = (target.clone(), address.clone(), processors.to_vec());
            let cluster = cluster.cloned();
            let work = move || {
                if !processors.is_empty() {
                    braid_net::affinity::bind_thread(&processors);
                }
                let mut worker = match Worker::connect(number, threads, share, &target, &address, cluster) {
                    Ok(worker) => worker,
                    Err(failure) => {
                        let _ = result_sender.send(Err(failure));
                        return;
                    }
                };
                let ready = Tally::empty();
                if result_sender.send(Ok(ready)).is_err() {
                    return;
                }
                while let Ok(pass) = passes.recv() {
                    let result = worker.run(&pass);
                    if result.is_err() {
                        pass.stop.store(true, Relaxed);
                    }
                    drop(pass);
                    if result_sender.send(result).is_err() {
                        return;
                    }
                }
            };
            let handle = std::thread::Builder::new()
                .name(format!("load {number}"))
                .spawn(work)
                .map_err(|error| format!("cannot start a thread: {error}"))?;
            session.threads.push(Thread { passes: Some(pass_sender), results, handle: Some(handle) });
        }
        for thread in &session.threads {
            thread.results.recv().map_err(|_| "a thread ended")??;
        }
        Ok(session)
    }

    /// Runs a pass to its end. `progress` is called several times a second.
    ///
    /// # Errors
    /// If a connection fails, or a thread has ended.
    pub fn run(&self, task: &Task, mut progress: impl FnMut(Progress)) -> Result<Tally, Failure> {
        let own_stop = Arc::new(AtomicBool::new(self.stop.load(Relaxed)));
        let pass = Arc::new(Pass {
            sequences: Sequences::new(&task.load),
            load: task.load.clone(),
            pipeline: task.pipeline,
            requests: task.requests,
            duration: task.duration,
            rate: task.rate,
            reconnect: task.reconnect,
            seed: task.seed,
            claimed: AtomicU64::new(0),
            stop: own_stop.clone(),
            live: self.threads.iter().map(|_| Live::default()).collect(),
        });
        let start = Instant::now();
        for thread in &self.threads {
            let sender = thread.passes.as_ref().expect("open until dropped");
            sender.send(pass.clone()).map_err(|_| "a thread ended")?;
        }
        let mut all: Option<Tally> = None;
        let mut failure = None;
        for thread in &self.threads {
            let result = loop {
                match thread.results.recv_timeout(PROGRESS_INTERVAL) {
                    Ok(result) => break result,
                    Err(RecvTimeoutError::Timeout) => {
                        if self.stop.load(Relaxed) {
                            own_stop.store(true, Relaxed);
                        }
                        progress(sum(&pass.live, start.elapsed()));
                    }
                    Err(RecvTimeoutError::Disconnected) => break Err("a thread ended".into()),
                }
            };
            match (result, &mut all) {
                (Ok(tally), None) => all = Some(tally),
                (Ok(tally), Some(all)) => all.add(&tally),
                (Err(reason), _) => failure = failure.or(Some(reason)),
            }
        }
        match failure {
            Some(reason) => Err(reason),
            None => all.ok_or_else(|| "no threads".into()),
        }
    }
}

/// Interval of progress reports.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

fn sum(live: &[Live], elapsed: Duration) -> Progress {
    let mut progress = Progress { elapsed, ..Progress::default() };
    for thread in live {
        progress.replies += thread.replies.load(Relaxed);
        progress.errors += thread.errors.load(Relaxed);
        progress.latency_nanos += thread.latency_nanos.load(Relaxed);
    }
    progress
}

impl Drop for Session {
    fn drop(&mut self) {
        for thread in &mut self.threads {
            thread.passes = None;
        }
        for thread in &mut self.threads {
            if let Some(handle) = thread.handle.take() {
                // A panicked thread has printed its message.
                let _ = handle.join();
            }
        }
    }
}
