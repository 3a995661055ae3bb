// SPDX-License-Identifier: BSD-3-Clause
//! Applies a primary's stream.
//!
//! A batch of whole units is applied with the world stopped, so that readers see the dataset as the
//! primary had it at some moment: never a later change without an earlier one. Then the bytes go to
//! the journal as they were received.

use braid_base::clock::unix_ms;
use braid_base::gate::World;
use braid_clients::attention::{JOURNAL_FULL, PAUSED, SNAPSHOT_FULL};
use braid_keyspace::txn::NOTHING_EXPIRED;
use braid_replication::link::LinkError;
use braid_replication::link::units::{StreamRequest, Units};
use smallvec::SmallVec;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::dispatch::follow_up;
use crate::dispatch::replay::{Replay, Streamed};
use crate::engine::Engine;
use crate::locks::{LockSet, lock};

/// Bytes that are applied at once, so that readers do not wait for long.
const BATCH_BYTES: usize = 128 << 10;
/// Requests whose keys are fetched into the cache at once.
const PREFETCHED: usize = 16;
/// How long writers that are ahead of the disk, or of a snapshot, wait before they look again.
const LOOK: Duration = Duration::from_millis(1);

/// What came of applying.
#[derive(Default)]
pub(super) struct Applied {
    /// The primary wants to know how far this replica has got.
    pub is_asked: bool,
}

impl Engine {
    /// Applies all whole units at the begin of `buffer`.
    pub(super) fn apply_stream(
        &self,
        generation: u64,
        replay: &mut Replay,
        units: &Units,
        buffer: &[u8],
    ) -> Result<Applied, LinkError> {
        let mut applied = Applied::default();
        let mut left = units.requests();
        while !left.is_empty() {
            let batch = batch_of(left);
            left = &left[batch.len()..];
            self.wait_for_writers_turn(generation)?;
            let world = self.world_of_link(generation)?;
            self.apply_batch(world, replay, units, batch, buffer, &mut applied);
        }
        Ok(applied)
    }

    /// Whether the stream waits since writes are paused (CLIENT PAUSE).
    pub(super) fn holds_stream(&self) -> bool {
        self.attention.get() & PAUSED != 0 && self.pause.current(unix_ms()).is_some()
    }

    /// Waits while snapshot or append-only file are behind, as all do who write.
    fn wait_for_writers_turn(&self, generation: u64) -> Result<(), LinkError> {
        while self.attention.get() & (JOURNAL_FULL | SNAPSHOT_FULL) != 0 {
            if !self.replication.link.is_current(generation) {
                return Err(LinkError::CalledOff);
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn apply_batch(
        &self,
        world: World<'_>,
        replay: &mut Replay,
        units: &Units,
        batch: &[StreamRequest],
        buffer: &[u8],
        applied: &mut Applied,
    ) {
        // The first loop's context is free while the world is stopped.
        let mut worker = self.worker(0);
        let mut txn = lock(&self.keyspace, &mut worker.context, LockSet::World(world), 0, NOTHING_EXPIRED);
        let mut spans = Spans::default();
        for some in batch.chunks(PREFETCHED) {
            replay.prefetch(self, some.iter().map(|request| units.args(request, buffer)));
            for request in some {
                let args: SmallVec<[&[u8]; 16]> = units.args(request, buffer).collect();
                if args.is_empty() {
                    continue;
                }
                let streamed = replay.run_streamed(self, &mut txn, &args);
                applied.is_asked |= streamed == Streamed::Question;
                spans.add(request.bytes.clone(), streamed != Streamed::Change);
            }
        }
        let context = &mut *txn.context;
        for (bytes, is_aside) in spans.0 {
            let journal = &self.keyspace.journal;
            journal.append_received(context.slot, &mut context.journal, &buffer[bytes], is_aside);
        }
        let link = &self.replication.link;
        link.db.store(u64::from(replay.db()), Relaxed);
        self.trackers.settle(context, None);
        context.limbo.reclaim();
        drop(txn);
        self.keyspace.journal.wake();
        if worker.context.follow_up.get() {
            // Clients that wait for what has come.
            let _world = self.keyspace.gate.close(None);
            follow_up(self, &mut worker);
        }
        worker.context.limbo.reclaim();
    }
}

/// Neighbouring bytes of the same kind.
#[derive(Default)]
struct Spans(Vec<(std::ops::Range<usize>, bool)>);

impl Spans {
    fn add(&mut self, bytes: std::ops::Range<usize>, is_aside: bool) {
        match self.0.last_mut() {
            Some((last, kind)) if *kind == is_aside && last.end == bytes.start => last.end = bytes.end,
            _ => self.0.push((bytes, is_aside)),
        }
    }
}

/// The first requests, up to a bound, that make up whole units.
fn batch_of(requests: &[StreamRequest]) -> &[StreamRequest] {
    let begin = requests.first().map_or(0, |request| request.bytes.start);
    let mut whole = 0;
    for (index, request) in requests.iter().enumerate() {
        if whole > 0 && request.bytes.end - begin > BATCH_BYTES {
            break;
        }
        if request.ends_unit {
            whole = index + 1;
        }
    }
    &requests[..whole]
}
