// SPDX-License-Identifier: BSD-3-Clause
//! Threads that apply a stream beside each other, while the world is stopped.
//!
//! Requests with a single key go to the thread that has the key's shard, so the order of those that
//! share a key is that of the stream. Anything else waits until all of them are done
//! ([`Crew::settle`]) and runs alone. Nothing is at work between two batches.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;

use braid_replication::link::units::{StreamRequest, Units};
use smallvec::SmallVec;

use crate::dispatch::follow_up;
use crate::dispatch::replay::{Replay, Single, Source};
use crate::engine::Engine;
use crate::worker::Worker;

/// Requests whose keys are fetched into the cache at once.
pub(super) const PREFETCHED: usize = 16;
/// With so many bytes at once the primary is ahead, and threads are worth it: dividing the stream
/// costs half as much processor time again as applying it.
const WORTH_IT: usize = 192 << 10;

/// A request for one thread.
pub(super) struct Item<'s> {
    pub request: &'s StreamRequest,
    pub single: Single,
    pub db: u32,
}

/// The threads, as the link's thread sees them.
pub(super) struct Crew<'s> {
    /// Each thread's queue, and the batch collected for it.
    ways: Vec<(Sender<Vec<Item<'s>>>, Vec<Item<'s>>)>,
    results: Receiver<Vec<Item<'s>>>,
    /// Emptied lists.
    spare: Vec<Vec<Item<'s>>>,
}

impl<'s> Crew<'s> {
    /// Starts a thread for each worker, which end when the crew is dropped. Nothing if a thread
    /// cannot be started, or if there would be but one.
    pub fn start<'scope>(
        scope: &'scope Scope<'scope, 's>,
        engine: &'s Engine,
        workers: &'s mut [Worker],
        units: &'s Units,
        buffer: &'s [u8],
    ) -> Option<Crew<'s>> {
        if workers.len() < 2 {
            return None;
        }
        let (back, results) = channel();
        let mut ways = Vec::new();
        for worker in workers {
            let (way, work) = channel();
            let back = back.clone();
            let thread = std::thread::Builder::new().name("replica-apply".into());
            let run = move || work_off(engine, worker, units, buffer, &work, &back);
            thread.spawn_scoped(scope, run).ok()?;
            ways.push((way, Vec::new()));
        }
        Some(Crew { ways, results, spare: Vec::new() })
    }

    /// Takes a request, which is run at the next [`Crew::settle`] at the latest.
    #[inline]
    pub fn add(&mut self, engine: &Engine, item: Item<'s>) {
        let index = engine.keyspace.shard_of(item.single.hash) as usize % self.ways.len();
        self.ways[index].1.push(item);
    }

    /// Threads.
    pub fn threads(&self) -> usize {
        self.ways.len()
    }

    /// Whether so many bytes of the stream are worth more threads.
    pub fn is_worth_it(bytes: usize) -> bool {
        bytes >= WORTH_IT
    }

    /// Has all that was taken run, and waits until that is done.
    pub fn settle(&mut self) {
        let mut sent = 0;
        for (way, items) in &mut self.ways {
            if items.is_empty() {
                continue;
            }
            let items = std::mem::replace(items, self.spare.pop().unwrap_or_default());
            // A thread that is gone has panicked, which ends the process.
            sent += usize::from(way.send(items).is_ok());
        }
        for _ in 0..sent {
            let Ok(mut items) = self.results.recv() else { return };
            items.clear();
            self.spare.push(items);
        }
    }
}

fn work_off<'s>(
    engine: &Engine,
    worker: &mut Worker,
    units: &Units,
    buffer: &[u8],
    work: &Receiver<Vec<Item<'s>>>,
    back: &Sender<Vec<Item<'s>>>,
) {
    let mut replay = Replay::new(engine, Source::Primary);
    while let Ok(items) = work.recv() {
        for some in items.chunks(PREFETCHED) {
            for item in some {
                engine.keyspace.prefetch_bucket(item.db, item.single.hash);
            }
            for item in some {
                engine.keyspace.prefetch_entry(item.db, item.single.hash);
            }
            for item in some {
                let args: SmallVec<[&[u8]; 16]> = units.args(item.request, buffer).collect();
                replay.run_single(engine, &mut worker.context, item.db, item.single, &args);
            }
        }
        engine.trackers.settle(&mut worker.context, None);
        if worker.context.follow_up.get() {
            // Clients that wait for what has come. They see the rest when the world goes on.
            follow_up(engine, worker);
        }
        worker.context.limbo.reclaim();
        if back.send(items).is_err() {
            return;
        }
    }
}
