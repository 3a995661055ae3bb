// SPDX-License-Identifier: BSD-3-Clause
//! Client eviction: closes the largest clients while all together hold more than
//! `maxmemory-clients`.
//!
//! The loops check the limit before they execute requests and before they send replies, CONFIG SET
//! before it replies, and every thread before it serves waiting clients: no element may go to a
//! client that the limit closes. The choice is made in `clients/eviction.rs`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::alloc::used_bytes;
use braid_clients::ClientRecord;
use braid_clients::describe::describe;

use crate::engine::Engine;

/// Closes clients if all together exceed the limit. Returns those that this call has closed,
/// for [`log_evicted`]; locks of keys may be held. `slot` is the calling thread's.
#[inline]
pub fn evict_clients(engine: &Engine, slot: usize) -> Vec<Arc<ClientRecord>> {
    let closed = engine.clients.evict(&engine.config);
    if !closed.is_empty() {
        engine.telemetry.threads[slot].evicted_clients.add(closed.len() as u64);
        engine.attention.next_generation();
    }
    closed
}

/// Memory of unread messages, if they do not count towards `maxmemory`.
pub(crate) fn uncounted_push_bytes(engine: &Engine) -> usize {
    match engine.config.maxmemory_pushes_percent() {
        0 => 0,
        _ => {
            let unsent = usize::try_from(engine.clients.push_bytes.load(Relaxed)).unwrap_or(0);
            unsent + engine.hub.queued_bytes()
        }
    }
}

/// Bytes of unread messages beyond `maxmemory-pushes`, for which clients that do not read must
/// be closed now; 0 while memory is below its limit.
pub fn excess_push_bytes(engine: &Engine) -> usize {
    let (limit, percent) = (engine.config.maxmemory(), engine.config.maxmemory_pushes_percent());
    if limit == 0 || percent == 0 || (used_bytes() as u64) <= limit {
        return 0;
    }
    let allowed = usize::try_from(u128::from(limit) * u128::from(percent) / 100).unwrap_or(usize::MAX);
    uncounted_push_bytes(engine).saturating_sub(allowed)
}

/// Logs closed clients. No lock should be held, because the log may be slow.
pub fn log_evicted(engine: &Engine, closed: &[Arc<ClientRecord>], now_ms: i64) {
    for record in closed {
        let mut line = Vec::new();
        describe(&mut line, &engine.commands, record, now_ms, None);
        log::info!("Evicting client: {}", String::from_utf8_lossy(line.trim_ascii_end()));
    }
}
