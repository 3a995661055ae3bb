// SPDX-License-Identifier: BSD-3-Clause
//! The memory limit: which memory counts, and eviction before a command that needs some.

pub mod state;

use std::sync::atomic::Ordering::Relaxed;

use braid_base::alloc::used_bytes;
use braid_base::clock::Ticks;
use braid_clients::attention::PAUSED;
use braid_keyspace::{Keyspace, eviction};

use crate::client_eviction;
use crate::engine::Engine;
use crate::over_limit::{TELLING_MAX_MS, TELLING_MS};
use crate::worker::Worker;

/// Result of [`make_room`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pressure {
    /// Below the limit.
    Below,
    /// Above the limit, but eviction is making progress: the command may run.
    Evicting,
    /// Above the limit, and nothing can be evicted.
    Stuck,
}

/// Evicted memory that the active-active thread has yet to free counts as freed up to this
/// fraction of the limit.
const EVICTING_PART: usize = 8;

/// Excludes journal memory kept for slow readers, and messages that clients have not read, from
/// the memory limit: evicting keys because of them would add to both.
pub fn note_uncounted_bytes(engine: &Engine) {
    let uncounted = match engine.replication.journal_uses.load(Relaxed) {
        0 => 0,
        _ => {
            let journal = &engine.keyspace.journal;
            let kept = journal.backlog().map_or(0, |kept| kept.len);
            // The rest is kept for replicas that are behind.
            let counted = kept.min(engine.config.repl_backlog_size());
            journal.memory_bytes().saturating_sub(counted as usize)
        }
    };
    engine.memory.uncounted_bytes.store(uncounted + client_eviction::uncounted_push_bytes(engine), Relaxed);
}

/// Time slice of one eviction call in nanoseconds, by `maxmemory-eviction-tenacity` as
/// documented: 500 us at the default of 10, 15% more for each step beyond (about 2 minutes at
/// 99), unlimited at 100.
fn slice_nanos(tenacity: u32) -> u64 {
    match tenacity {
        0..=10 => 50_000 * u64::from(tenacity),
        11..=99 => (500_000.0 * 1.15f64.powi(tenacity as i32 - 10)) as u64,
        _ => u64::MAX,
    }
}

/// Evicts keys until memory is below the limit or the time slice is over; without `may_evict`, only
/// tells whether it is. No lock may be held.
pub fn make_room(engine: &Engine, worker: &mut Worker, now_ms: i64, may_evict: bool) -> Pressure {
    let limit = engine.config.maxmemory() as usize;
    let mut counted = engine.memory.counted_bytes();
    if limit > 0 && counted > limit {
        counted = counted_bytes_now(engine);
    }
    if limit == 0 || counted <= limit {
        engine.memory.over_limit.end(now_ms);
        return Pressure::Below;
    }
    // Messages caused by the eviction itself (invalidations, events) do not count: making room for
    // them would cause more of them, until no key is left.
    engine.memory.over_limit.begin(now_ms);
    if engine.active.is_some() {
        // Evicted keys are still in the memory of another thread. If that thread is late, more is
        // evicted.
        let evicting = engine.memory.evicting_bytes.load(Relaxed);
        counted = counted.saturating_sub(evicting.min(limit / EVICTING_PART));
        if counted <= limit {
            return Pressure::Evicting;
        }
    }
    let (to_free, mut freed) = (counted - limit, 0);
    if is_telling(engine, now_ms) {
        return Pressure::Evicting;
    }
    if !may_evict || engine.config.import_mode() {
        // During an import, which keys to evict is known only once all are loaded.
        return Pressure::Stuck;
    }
    let slice = slice_nanos(engine.config.maxmemory_eviction_tenacity());
    let start = Ticks::now();
    let mut evicted = 0u32;
    // Bytes evicted by this call that are not freed yet, because another thread may still read
    // them.
    let mut on_its_way = 0;
    loop {
        let Some(victim) = eviction::evict_one(&engine.keyspace, &mut worker.context, now_ms) else {
            // Memory queued for lazy freeing counts as well: it will be free soon.
            return if evicted > 0 || engine.keyspace.lazy_free.pending() > 0 {
                Pressure::Evicting
            } else {
                Pressure::Stuck
            };
        };
        evicted += 1;
        if engine.active.is_some() {
            engine.memory.evicting_bytes.fetch_add(victim.bytes, Relaxed);
        }
        on_its_way += victim.bytes;
        freed += victim.bytes;
        if evicted.is_multiple_of(16) {
            if !give_back(&engine.keyspace, worker) {
                return Pressure::Evicting;
            }
            on_its_way = 0;
        }
        if engine.memory.counted_bytes().saturating_sub(on_its_way) <= limit {
            give_back(&engine.keyspace, worker);
            engine.memory.over_limit.end(braid_base::clock::unix_ms());
            note_eviction_messages(engine, now_ms);
            return Pressure::Below;
        }
        if freed >= to_free {
            give_back(&engine.keyspace, worker);
            note_eviction_messages(engine, now_ms);
            return Pressure::Evicting;
        }
        if evicted.is_multiple_of(16) && Ticks::now().nanos_since(start) > slice {
            return Pressure::Evicting;
        }
    }
}

/// Memory in use that counts towards the limit. Much may have been journalled, and many messages
/// sent, since the cron last counted what does not.
#[cold]
fn counted_bytes_now(engine: &Engine) -> usize {
    // Memory that others allocate or free between these steps must not seem to count: for that,
    // keys would be evicted.
    note_uncounted_bytes(engine);
    let before = engine.memory.uncounted_bytes.load(Relaxed);
    let used = used_bytes();
    note_uncounted_bytes(engine);
    engine.memory.counted(used, before.max(engine.memory.uncounted_bytes.load(Relaxed)))
}

/// True if messages about evicted keys may be in transit.
fn is_telling(engine: &Engine, now_ms: i64) -> bool {
    let since_ms = now_ms - engine.memory.over_limit.told_ms.load(Relaxed);
    let is_waiting =
        || (0..engine.clients.mailboxes.thread_count()).any(|owner| engine.hub.has_pushes(owner));
    (0..TELLING_MS).contains(&since_ms) || ((0..TELLING_MAX_MS).contains(&since_ms) && is_waiting())
}

/// True while commands, or only writes, are paused (CLIENT PAUSE, FAILOVER).
#[inline]
pub fn is_paused(engine: &Engine, now_ms: i64) -> bool {
    engine.attention.get() & PAUSED != 0 && engine.clients.pause.current(now_ms).is_some()
}

/// Records an eviction whose messages are in transit.
fn note_eviction_messages(engine: &Engine, now_ms: i64) {
    if engine.trackers.clients() > 0 {
        engine.memory.over_limit.told_ms.store(now_ms, Relaxed);
    }
}

/// Frees evicted memory that no other thread can still see. Steps outside of the gate for that,
/// which is allowed between two commands: nothing looked up before is used afterwards.
///
/// False if the thread could not come back in, because a script has stopped the world for long.
fn give_back(keyspace: &Keyspace, worker: &mut Worker) -> bool {
    let (gate, slot) = (&keyspace.gate, worker.context.slot);
    let inside = gate.is_inside(slot);
    if inside {
        gate.leave(slot);
    }
    for _ in 0..=braid_base::gate::EPOCHS {
        worker.context.limbo.reclaim_now();
    }
    if inside {
        worker.context.outside = true;
        return keyspace.reenter_gate(&mut worker.context);
    }
    true
}
