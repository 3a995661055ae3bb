// SPDX-License-Identifier: BSD-3-Clause
//! Threads that help the link's thread apply a stream while the world is stopped.
//!
//! A request with a single key goes to the thread that has the key's shard, so requests with the
//! same key keep the stream's order. Any other request waits until all of them are done
//! ([`ApplyPool::join`]) and runs alone. The threads are idle between two batches.
//!
//! They live as long as the link's thread: a primary that is ahead sends some 200 KB at a time,
//! and starting threads for that takes as long as applying it.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use braid_executor::dispatch::follow_up;
use braid_executor::dispatch::replay::{Replay, Single, Source};
use braid_executor::engine::Engine;
use braid_executor::worker::Worker;
use braid_replication::link::units::{StreamRequest, Units};
use smallvec::SmallVec;

/// Number of requests whose keys are prefetched together.
pub(super) const PREFETCHED: usize = 16;
/// With this many bytes at a time the primary is ahead, and threads pay off: dividing the stream
/// costs half as much processor time again as applying it.
const WORTH_IT: usize = 192 << 10;

/// The received bytes of a stream, and their division into units.
#[derive(Default)]
pub(super) struct Received {
    pub units: Units,
    pub buffer: Vec<u8>,
}

/// A request for one thread.
pub(super) struct Item {
    pub request: StreamRequest,
    pub single: Single,
    pub db: u32,
}

/// Requests sent to a thread.
struct Work {
    received: Arc<Received>,
    items: Vec<Item>,
}

/// A thread other than the link's.
struct PoolThread {
    requests: Sender<Work>,
    results: Receiver<Vec<Item>>,
    /// Requests collected for the thread.
    items: Vec<Item>,
    is_at_work: bool,
}

/// The threads as seen by the link's thread. They end when this is dropped.
pub(super) struct ApplyPool {
    /// The link's own thread takes a share as well.
    own: ApplyWorker,
    items: Vec<Item>,
    others: Vec<PoolThread>,
}

impl ApplyPool {
    /// Starts threads so that there are `threads` with the link's. `None` if a thread cannot be
    /// started, or if there would be only one.
    pub fn start(engine: &Engine, threads: usize) -> Option<ApplyPool> {
        if threads < 2 {
            return None;
        }
        let mut others = Vec::new();
        for slot in 1..threads {
            let ((requests, work), (back, results)) = (channel(), channel());
            let (engine, mut worker) = (engine.shared()?, ApplyWorker::new(engine, slot));
            let run = move || worker.run(&engine, &work, &back);
            std::thread::Builder::new().name("replica-apply".into()).spawn(run).ok()?;
            others.push(PoolThread { requests, results, items: Vec::new(), is_at_work: false });
        }
        Some(ApplyPool { own: ApplyWorker::new(engine, 0), items: Vec::new(), others })
    }

    /// Adds a request, which runs at the next [`ApplyPool::join`] at the latest.
    #[inline]
    pub fn add(&mut self, engine: &Engine, item: Item) {
        let index = engine.keyspace.shard_of(item.single.hash) as usize % self.threads();
        match index.checked_sub(1) {
            None => self.items.push(item),
            Some(index) => self.others[index].items.push(item),
        }
    }

    /// Number of threads, including the link's.
    pub fn threads(&self) -> usize {
        self.others.len() + 1
    }

    /// True if this many bytes of the stream are worth more threads.
    pub fn is_worth_it(bytes: usize) -> bool {
        bytes >= WORTH_IT
    }

    /// Runs all added requests and waits for them. No other thread holds `received` afterwards.
    pub fn join(&mut self, engine: &Engine, received: &Arc<Received>) {
        for thread in self.others.iter_mut().filter(|thread| !thread.items.is_empty()) {
            let work = Work { received: Arc::clone(received), items: std::mem::take(&mut thread.items) };
            // A thread that is gone has panicked, which ends the process.
            thread.is_at_work = thread.requests.send(work).is_ok();
        }
        self.own.run_all(engine, received, &self.items);
        self.items.clear();
        for thread in self.others.iter_mut().filter(|thread| thread.is_at_work) {
            thread.is_at_work = false;
            thread.items = thread.results.recv().unwrap_or_default();
        }
    }
}

/// A thread's state for applying. Its slot is free while the world is stopped.
struct ApplyWorker {
    worker: Worker,
    replay: Replay,
}

impl ApplyWorker {
    fn new(engine: &Engine, slot: usize) -> ApplyWorker {
        ApplyWorker { worker: engine.worker(slot), replay: Replay::new(engine, Source::Primary) }
    }

    fn run(&mut self, engine: &Engine, work: &Receiver<Work>, back: &Sender<Vec<Item>>) {
        while let Ok(Work { received, mut items }) = work.recv() {
            self.run_all(engine, &received, &items);
            drop(received);
            items.clear();
            if back.send(items).is_err() {
                return;
            }
        }
    }

    fn run_all(&mut self, engine: &Engine, received: &Received, items: &[Item]) {
        if items.is_empty() {
            return;
        }
        let ApplyWorker { worker, replay } = self;
        let Received { units, buffer } = received;
        for some in items.chunks(PREFETCHED) {
            for item in some {
                engine.keyspace.prefetch_bucket(item.db, item.single.hash);
            }
            for item in some {
                engine.keyspace.prefetch_entry(item.db, item.single.hash);
            }
            for item in some {
                let args: SmallVec<[&[u8]; 16]> = units.args(&item.request, buffer).collect();
                replay.run_single(engine, &mut worker.context, item.db, item.single, &args);
            }
        }
        engine.trackers.flush_invalidations(&mut worker.context, None);
        if worker.context.follow_up.get() {
            // Serves clients waiting for the applied changes. They see the rest when the world
            // resumes.
            follow_up(engine, worker);
        }
        worker.context.limbo.reclaim();
    }
}
