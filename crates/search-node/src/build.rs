// SPDX-License-Identifier: BSD-3-Clause
//! Looks at the keys that are there already, for new indexes: on threads of its own, about as many
//! as serve clients, a few documents at a time under a shard's lock, shared with other readers.
//!
//! Changes meanwhile come by the hook of all changes. Both bring a key as it is, each under the
//! lock of its shard: whoever comes last has seen the last value.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::thread::Builder;
use std::time::Duration;

use braid_base::clock::unix_ms;
use braid_clients::attention::LOADING;
use braid_executor::Engine;
use braid_keyspace::documents::INDEXED_DB;
use braid_keyspace::keyspace::READERS_MAX;
use braid_keyspace::{Keyspace, scan};
use braid_persistence::take_short_turns;

use crate::index::SearchIndex;

/// Keys looked at under one lock: about a millisecond.
const SLICE_KEYS: usize = 64;
/// The same, of indexes with vectors.
const SLICE_VECTORS: usize = 4;

/// One reader is left for commands that work in the background.
const THREADS_MAX: usize = READERS_MAX - 1;

/// Up to so many keys are looked at at once, by the command that makes the index.
const AT_ONCE_KEYS: usize = 1000;

/// Starts looking at all keys for these indexes.
pub fn start(engine: &Weak<Engine>, indexes: Vec<Arc<SearchIndex>>) {
    for index in &indexes {
        index.building.done.store(0, Relaxed);
        index.building.is_running.store(true, Relaxed);
    }
    let weak = engine.clone();
    let run = move || {
        if let Some(engine) = weak.upgrade() {
            wait_for_dataset(&engine);
            look_at_all(&engine, &indexes);
        }
        indexes.iter().for_each(|index| index.building.is_running.store(false, Relaxed));
    };
    if let Err(wrong) = thread().spawn(run) {
        log::warn!("Cannot start a thread that fills search indexes: {wrong}");
    }
}

fn thread() -> Builder {
    Builder::new().name("search_build".into())
}

/// While files are loaded, the keys are not all there.
fn wait_for_dataset(engine: &Engine) {
    while engine.attention.get() & LOADING != 0 && !engine.shutdown.is_requested() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn look_at_all(engine: &Engine, indexes: &[Arc<SearchIndex>]) {
    let shards = engine.keyspace.shard_count() as u32;
    for index in indexes {
        index.building.all.store(u64::from(shards), Relaxed);
    }
    let next = AtomicU32::new(0);
    let work = || {
        take_short_turns();
        let mut next =
            std::iter::repeat_with(|| next.fetch_add(1, Relaxed)).take_while(|next| *next < shards);
        while let Some(shard) = next.next()
            && indexes.iter().any(|index| !index.is_dropped.load(Relaxed))
            && !engine.shutdown.is_requested()
        {
            look_at_shard(&engine.keyspace, shard, indexes);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..engine.config.io_threads().min(THREADS_MAX) {
            if let Err(wrong) = thread().spawn_scoped(scope, work) {
                log::warn!("Fewer threads than intended fill search indexes: {wrong}");
            }
        }
        work();
    });
}

fn look_at_shard(keyspace: &Keyspace, shard: u32, indexes: &[Arc<SearchIndex>]) {
    let has_vectors = indexes.iter().any(|index| index.definition().vector_fields().next().is_some());
    let slice = if has_vectors { SLICE_VECTORS } else { SLICE_KEYS };
    let mut cursor = Some(Default::default());
    while let Some(from) = cursor {
        let now = unix_ms();
        let reader = keyspace.reader();
        cursor = reader.visit_some(shard, INDEXED_DB, from, slice, now, |entry| {
            for index in indexes {
                index.bring(shard, entry.key(), Some(entry), now);
            }
        });
    }
    for index in indexes {
        index.building.done.fetch_add(1, Relaxed);
    }
}

/// Looks at all keys now, if they are few: the caller holds the world. False if they are many.
pub fn at_once(keyspace: &Keyspace, index: &SearchIndex, now_ms: i64) -> bool {
    if keyspace.len(INDEXED_DB).0 > AT_ONCE_KEYS {
        return false;
    }
    let mut cursor = 0;
    loop {
        cursor = scan::scan(keyspace, INDEXED_DB, cursor, AT_ONCE_KEYS, |entry| {
            if !entry.is_expired(now_ms) {
                let shard = keyspace.shard_of(keyspace.hash(entry.key()));
                index.bring(shard, entry.key(), Some(entry), now_ms);
            }
        });
        if cursor == 0 {
            return true;
        }
    }
}
