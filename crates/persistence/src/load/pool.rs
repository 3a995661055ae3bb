// SPDX-License-Identifier: BSD-3-Clause
//! Loader threads that decode values and add keys, while another thread reads the file and cuts it
//! into pieces.
//!
//! Each thread owns a set of shards, and a piece goes to the thread of its key's shard, so the
//! pieces of a key stay in order, no thread waits for a lock, and no cache line is shared. The pool
//! works only while the world is stopped: before the world resumes for a moment,
//! [`LoadPool::drain`] waits until all sent pieces are done.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::Scope;

use braid_keyspace::txn::KeyRef;
use braid_keyspace::{Context, Keyspace, Txn};
use braid_rdb::{Bytes, Decoder, Fault, Limits, RdbType, Traits};

use super::{ExpiredKeys, LoadError, Loaded, clock_of, readable};
use crate::scheduling::stand_back;
use crate::value::read_value;

/// Larger values are decoded by the reading thread.
pub(super) const VALUE_MAX: usize = 256 * 1024;
/// A batch is sent when it has this many bytes or pieces.
const BATCH_BYTES: usize = 128 * 1024;
const BATCH_PIECES: usize = 512;
/// Batches queued for a thread before the reader waits.
const BATCHES_WAITING: usize = 4;
/// Keys prefetched at a time.
const PREFETCHED: usize = 32;

/// A key, and the location of its name and value in the batch.
struct Piece {
    hash: u64,
    /// Position of the value in the file.
    position: u64,
    expire_at: Option<i64>,
    traits: Traits,
    db: u32,
    /// Start of the name, start of the value, end of the value.
    ends: [u32; 3],
    kind: RdbType,
}

/// Pieces for one thread.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    pieces: Vec<Piece>,
}

/// A finished batch, and its result.
struct Done {
    batch: Batch,
    loaded: Loaded,
    error: Option<LoadError>,
}

/// Parameters of all loader threads.
#[derive(Clone, Copy)]
pub(super) struct Terms<'k> {
    pub keyspace: &'k Keyspace,
    /// The version of the file's format.
    pub version: u16,
    pub limits: Limits,
    /// Entries expired at this time are left out, ms since the Unix epoch.
    pub now_ms: i64,
    /// The gate slot of the thread that has stopped the world.
    pub slot: usize,
    pub expired: Option<&'k ExpiredKeys>,
    pub stands_back: bool,
}

/// A key as read from the file.
pub(super) struct Key<'k> {
    pub name: &'k [u8],
    pub db: u32,
    pub kind: RdbType,
    pub expire_at: Option<i64>,
    pub traits: Traits,
    /// Position of the value in the file.
    pub position: u64,
}

/// The threads, as the reader sees them.
pub(super) struct LoadPool {
    /// The channel to each thread, and the batch being filled for it.
    ways: Vec<(SyncSender<Batch>, Batch)>,
    results: Receiver<Done>,
    /// Batches sent and not yet returned.
    outstanding: usize,
    /// Batches to be reused.
    spare: Vec<Batch>,
    /// Totals of the finished batches.
    pub loaded: Loaded,
}

impl LoadPool {
    /// Starts `threads` threads, which end when the pool is dropped. With 0 there is no pool.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start<'scope, 'k: 'scope>(
        scope: &'scope Scope<'scope, '_>,
        threads: usize,
        terms: Terms<'k>,
    ) -> std::io::Result<Option<LoadPool>> {
        if threads == 0 {
            return Ok(None);
        }
        let (back, results) = channel();
        let mut ways = Vec::new();
        for _ in 0..threads {
            let (way, work) = sync_channel(BATCHES_WAITING);
            let back = back.clone();
            let thread = std::thread::Builder::new().name("load".into());
            thread.spawn_scoped(scope, move || work_off(&terms, &work, &back))?;
            ways.push((way, Batch::default()));
        }
        let (outstanding, spare, loaded) = (0, Vec::new(), Loaded::default());
        Ok(Some(LoadPool { ways, results, outstanding, spare, loaded }))
    }

    /// Passes a key and its encoded value to a thread.
    ///
    /// # Errors
    /// If a value sent to a thread cannot be decoded, or a thread has ended. The value may be that
    /// of another key.
    #[inline]
    pub fn add(&mut self, keyspace: &Keyspace, key: &Key<'_>, value: &[u8]) -> Result<(), LoadError> {
        let hash = keyspace.hash(key.name);
        let index = keyspace.shard_of(hash) as usize % self.ways.len();
        let batch = &mut self.ways[index].1;
        let begin = batch.bytes.len();
        batch.bytes.extend_from_slice(key.name);
        let middle = batch.bytes.len();
        batch.bytes.extend_from_slice(value);
        // No overflow: batches are sent long before 4 GiB, values are bounded, and over-long names
        // take another path.
        let ends = [begin as u32, middle as u32, batch.bytes.len() as u32];
        let &Key { db, kind, expire_at, traits, position, .. } = key;
        batch.pieces.push(Piece { hash, position, expire_at, traits, db, ends, kind });
        if batch.bytes.len() >= BATCH_BYTES || batch.pieces.len() >= BATCH_PIECES {
            self.send(index)?;
        }
        Ok(())
    }

    fn send(&mut self, index: usize) -> Result<(), LoadError> {
        while let Ok(done) = self.results.try_recv() {
            self.take_back(done)?;
        }
        let next = self.spare.pop().unwrap_or_default();
        let (way, batch) = &mut self.ways[index];
        let full = std::mem::replace(batch, next);
        self.outstanding += 1;
        way.send(full).map_err(|_| LoadError::Thread)
    }

    fn take_back(&mut self, done: Done) -> Result<(), LoadError> {
        let Done { mut batch, loaded, error } = done;
        self.outstanding -= 1;
        self.loaded.add(&loaded);
        batch.bytes.clear();
        batch.pieces.clear();
        self.spare.push(batch);
        error.map_or(Ok(()), Err)
    }

    /// Waits until all pieces are done, including those not sent yet.
    ///
    /// # Errors
    /// If a value cannot be decoded, or a thread has ended.
    pub fn drain(&mut self) -> Result<(), LoadError> {
        for index in 0..self.ways.len() {
            if !self.ways[index].1.pieces.is_empty() {
                self.send(index)?;
            }
        }
        while self.outstanding > 0 {
            let done = self.results.recv().map_err(|_| LoadError::Thread)?;
            self.take_back(done)?;
        }
        Ok(())
    }
}

/// A thread's main loop: processes batches until the channel closes. After the first error it
/// adds no more keys.
fn work_off(terms: &Terms<'_>, work: &Receiver<Batch>, back: &Sender<Done>) {
    /// Reports the end of a thread that panics, so that the reader does not wait for it.
    struct Farewell<'s>(&'s Sender<Done>);
    impl Drop for Farewell<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                let done = Done {
                    batch: Batch::default(),
                    loaded: Loaded::default(),
                    error: Some(LoadError::Thread),
                };
                // Fails only when the receiver is gone.
                let _ = self.0.send(done);
            }
        }
    }
    let _farewell = Farewell(back);
    if terms.stands_back {
        stand_back();
    }
    // Adding keys does not touch the counters, so sharing the slot of a waiting thread is harmless.
    let mut context = Context::new(terms.keyspace, terms.slot);
    let mut failed = false;
    while let Ok(batch) = work.recv() {
        let mut loaded = Loaded::default();
        let added = if failed { Ok(()) } else { add_all(terms, &mut context, &batch, &mut loaded) };
        failed |= added.is_err();
        context.limbo.reclaim();
        if back.send(Done { batch, loaded, error: added.err() }).is_err() {
            return;
        }
    }
}

fn add_all(
    terms: &Terms<'_>,
    context: &mut Context,
    batch: &Batch,
    loaded: &mut Loaded,
) -> Result<(), LoadError> {
    for pieces in batch.pieces.chunks(PREFETCHED) {
        for piece in pieces {
            terms.keyspace.prefetch_bucket(piece.db, piece.hash);
        }
        for piece in pieces {
            add(terms, context, batch, piece, loaded)?;
        }
    }
    Ok(())
}

fn add(
    terms: &Terms<'_>,
    context: &mut Context,
    batch: &Batch,
    piece: &Piece,
    loaded: &mut Loaded,
) -> Result<(), LoadError> {
    let [begin, middle, end] = piece.ends.map(|end| end as usize);
    let (name, value) = (&batch.bytes[begin..middle], &batch.bytes[middle..end]);
    let mut decoder = Decoder::new(Bytes::new(value), terms.version);
    match read_value(&mut decoder, piece.kind, &terms.limits, terms.now_ms) {
        Ok(_) if piece.expire_at.is_some_and(|time| time < terms.now_ms) => {
            loaded.expired += 1;
            if let Some(expired) = terms.expired {
                expired.lock().push((piece.db, name.into()));
            }
        }
        Ok(value) => {
            let keys = [KeyRef { key: name, hash: piece.hash, write: true }];
            let mut txn = Txn::lock(terms.keyspace, context, piece.db, terms.now_ms, &keys);
            let clock = piece.traits.access.and_then(|access| clock_of(terms.keyspace, access));
            if !txn.add(name, value, piece.expire_at, clock) {
                let (key, db, position) = (readable(name), piece.db, piece.position);
                return Err(LoadError::Duplicate { key, db, position });
            }
            if piece.traits.is_protected {
                txn.protect_loaded(name);
            }
            loaded.keys += 1;
        }
        Err(error) if matches!(error.fault, Fault::Empty) => {
            super::note_empty(name, loaded);
        }
        Err(mut error) => {
            error.position += piece.position;
            return Err(LoadError::Value { error, key: readable(name), db: piece.db });
        }
    }
    Ok(())
}
