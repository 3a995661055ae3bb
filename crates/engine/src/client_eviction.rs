// SPDX-License-Identifier: BSD-3-Clause
//! Client eviction: closes the largest clients while all together hold more than
//! `maxmemory-clients`.
//!
//! The loops check the limit before they execute requests and before they send replies, CONFIG SET
//! before it replies, and every thread before it serves waiting clients: no element may go to a
//! client that the limit closes. The choice is made in `clients/eviction.rs`.

use std::sync::Arc;

use braid_clients::ClientRecord;
use braid_clients::describe::describe;

use crate::engine::Engine;

impl Engine {
    /// Closes clients if all together exceed the limit. Returns those that this call has closed,
    /// for [`Engine::log_evicted`]; locks of keys may be held. `slot` is the calling thread's.
    #[inline]
    pub fn evict_clients(&self, slot: usize) -> Vec<Arc<ClientRecord>> {
        let closed = self.clients.evict(&self.config);
        if !closed.is_empty() {
            self.telemetry.threads[slot].evicted_clients.add(closed.len() as u64);
            self.attention.next_generation();
        }
        closed
    }

    /// Logs closed clients. No lock should be held, because the log may be slow.
    pub fn log_evicted(&self, closed: &[Arc<ClientRecord>], now_ms: i64) {
        for record in closed {
            let mut line = Vec::new();
            describe(&mut line, &self.commands, record, now_ms, None);
            log::info!("Evicting client: {}", String::from_utf8_lossy(line.trim_ascii_end()));
        }
    }
}
