// SPDX-License-Identifier: BSD-3-Clause
//! Applies a primary's stream.
//!
//! A batch of whole units is applied with the world stopped, so that readers see the dataset as the
//! primary had it at some moment: never a later change without an earlier one. If there is much to
//! do, all threads take part ([`ApplyPool`]). Then the bytes go to the journal as they were
//! received.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use braid_base::clock::unix_ms;
use braid_base::gate::World;
use braid_clients::attention::{JOURNAL_FULL, SNAPSHOT_FULL};
use braid_executor::dispatch::replay::{Replay, Source, Streamed};
use braid_executor::engine::Engine;
use braid_executor::worker::Worker;
use braid_executor::{memory, world_change};
use braid_keyspace::txn::NOTHING_EXPIRED;
use braid_replication::link::LinkError;
use braid_replication::link::units::StreamRequest;
use smallvec::SmallVec;

use super::apply_pool::{ApplyPool, Item, PREFETCHED, Received};
use crate::dataset;

/// Bytes applied per thread and batch, so that readers do not wait for long.
const BATCH_BYTES: usize = 128 << 10;
/// How long to wait before checking again whether the disk or a snapshot has caught up.
const LOOK: Duration = Duration::from_millis(1);
/// Maximum number of applying threads.
const THREADS_MAX: usize = 16;

/// Applies a stream. Holds the state kept from one batch to the next.
pub(super) struct Applier {
    pub replay: Replay,
    /// Worker of slot 0, which is free while the world is stopped.
    worker: Worker,
    pool: Option<ApplyPool>,
}

impl Applier {
    pub fn new(engine: &Engine) -> Applier {
        Applier { replay: Replay::new(engine, Source::Primary), worker: engine.worker(0), pool: None }
    }

    /// Applies all whole units received. True if the primary has asked for this replica's offset.
    ///
    /// # Errors
    /// If the stream has something that cannot be applied, or the link is no longer the current
    /// one.
    pub fn apply(
        &mut self,
        engine: &Engine,
        generation: u64,
        received: &mut Received,
    ) -> Result<bool, LinkError> {
        let shared = Arc::new(std::mem::take(received));
        let Applier { replay, worker, pool } = self;
        let pool = if ApplyPool::is_worth_it(shared.buffer.len()) {
            let threads = engine.clients.mailboxes.thread_count().min(THREADS_MAX);
            if pool.as_ref().map_or(1, ApplyPool::threads) != threads {
                *pool = ApplyPool::start(engine, threads);
            }
            pool.as_mut()
        } else {
            None
        };
        let mut batch = Batch { engine, replay, worker, received: &shared, pool, is_asked: false };
        batch.apply_all(generation)?;
        let is_asked = batch.is_asked;
        // Any other owner has panicked, which ends the process.
        *received = Arc::into_inner(shared).ok_or(LinkError::CalledOff)?;
        Ok(is_asked)
    }
}

/// The batch being applied.
struct Batch<'b> {
    engine: &'b Engine,
    replay: &'b mut Replay,
    worker: &'b mut Worker,
    received: &'b Arc<Received>,
    pool: Option<&'b mut ApplyPool>,
    /// The primary has asked for this replica's offset.
    is_asked: bool,
}

impl<'b> Batch<'b> {
    fn apply_all(&mut self, generation: u64) -> Result<(), LinkError> {
        let (engine, received) = (self.engine, self.received);
        let most = BATCH_BYTES * self.pool.as_ref().map_or(1, |pool| pool.threads());
        let mut left = received.units.requests();
        while !left.is_empty() {
            let requests = batch_of(left, most);
            left = &left[requests.len()..];
            for requests in self.pieces(requests) {
                wait_for_writers_turn(engine, generation)?;
                let world = dataset::world_of_link(engine, generation)?;
                self.apply(world, requests);
            }
        }
        Ok(())
    }

    /// The parts of a batch that are each applied under one stop of the world: one part, the
    /// whole batch. A server without locks lets readers in between requests, and sorts
    /// those by key.
    fn pieces(&self, requests: &'b [StreamRequest]) -> SmallVec<[&'b [StreamRequest]; 1]> {
        let mut pieces = SmallVec::from_slice(&[requests]);
        if braid_base::build::are_locks_off() {
            let key = |piece: &&[StreamRequest]| {
                piece
                    .first()
                    .and_then(|request| self.received.units.args(request, &self.received.buffer).nth(1))
                    .map(<[u8]>::to_vec)
            };
            pieces = requests.chunks(1).collect();
            pieces.sort_by_key(key);
        }
        pieces
    }

    /// Applies whole units while the world is stopped.
    fn apply(&mut self, world: World<'_>, requests: &[StreamRequest]) {
        let Batch { engine, replay, worker, received, pool, is_asked } = self;
        let (engine, received) = (*engine, *received);
        let Received { units, buffer } = &**received;
        world_change::change_in_world(engine, world, worker, 0, NOTHING_EXPIRED, |txn| {
            let mut spans = Spans::default();
            for some in requests.chunks(PREFETCHED) {
                if pool.is_none() {
                    replay.prefetch(engine, some.iter().map(|request| units.args(request, buffer)));
                }
                for request in some {
                    let args: SmallVec<[&[u8]; 16]> = units.args(request, buffer).collect();
                    if args.is_empty() {
                        continue;
                    }
                    if let Some(pool) = pool {
                        if let Some(single) = replay.single(engine, &args) {
                            pool.add(engine, Item { request: request.clone(), single, db: replay.db() });
                            spans.add(request.bytes.clone(), false, replay.db());
                            continue;
                        }
                        pool.join(engine, received);
                    }
                    let streamed = replay.run_streamed(engine, txn, &args);
                    *is_asked |= streamed == Streamed::OffsetRequest;
                    spans.add(request.bytes.clone(), streamed != Streamed::Change, replay.db());
                }
            }
            if let Some(pool) = pool {
                pool.join(engine, received);
            }
            let context = &mut *txn.context;
            for Span { bytes, is_aside, db } in spans.0 {
                let (journal, bytes) = (&engine.keyspace.journal, &buffer[bytes]);
                journal.append_received(context.slot, &mut context.journal, bytes, is_aside, Some(db));
            }
            engine.replication.link.db.store(u64::from(replay.db()), Relaxed);
        });
    }
}

/// True while the stream is held because writes are paused (CLIENT PAUSE).
pub(super) fn holds_stream(engine: &Engine) -> bool {
    memory::is_paused(engine, unix_ms())
}

/// Waits while the snapshot or append-only file is behind, as every writer does.
fn wait_for_writers_turn(engine: &Engine, generation: u64) -> Result<(), LinkError> {
    while engine.attention.get() & (JOURNAL_FULL | SNAPSHOT_FULL) != 0 {
        if !engine.replication.link.is_current(generation) {
            return Err(LinkError::CalledOff);
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Adjacent byte ranges of the same kind.
#[derive(Default)]
struct Spans(Vec<Span>);

struct Span {
    bytes: std::ops::Range<usize>,
    is_aside: bool,
    /// The database selected at its end.
    db: u32,
}

impl Spans {
    fn add(&mut self, bytes: std::ops::Range<usize>, is_aside: bool, db: u32) {
        match self.0.last_mut() {
            Some(last) if last.is_aside == is_aside && last.bytes.end == bytes.start => {
                (last.bytes.end, last.db) = (bytes.end, db);
            }
            _ => self.0.push(Span { bytes, is_aside, db }),
        }
    }
}

/// The first requests, up to a size limit, that form whole units.
fn batch_of(requests: &[StreamRequest], most: usize) -> &[StreamRequest] {
    let begin = requests.first().map_or(0, |request| request.bytes.start);
    let mut whole = 0;
    for (index, request) in requests.iter().enumerate() {
        if whole > 0 && request.bytes.end - begin > most {
            break;
        }
        if request.ends_unit {
            whole = index + 1;
        }
    }
    &requests[..whole]
}
