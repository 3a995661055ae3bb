// SPDX-License-Identifier: BSD-3-Clause
//! Client eviction: closes clients that together hold too much memory (`maxmemory-clients`).
//!
//! The memory of clients is counted when their records are updated. The sum is compared with the
//! limit before requests are executed and before replies are sent, so clients are closed before
//! any key is evicted on their account.

use std::sync::atomic::Ordering::Relaxed;

use braid_clients::describe::describe;

use super::{EventLoop, Model};

impl<M: Model> EventLoop<M> {
    /// Closes the largest clients, of any loop, until the rest is within the limit.
    #[inline]
    pub(crate) fn evict_clients(&mut self) {
        if let Some(max) = braid_clients::eviction::limit_bytes(&self.engine.config) {
            self.evict_beyond(max);
        }
    }

    fn evict_beyond(&mut self, max: u64) {
        // Late updates may make the sum negative.
        if u64::try_from(self.clients.client_bytes.load(Relaxed)).unwrap_or(0) <= max {
            return;
        }
        for record in self.engine.clients.registry.beyond(max) {
            let mut line = Vec::new();
            describe(&mut line, &self.engine.commands, &record, self.worker.now_ms(), None);
            if !self.engine.clients.registry.disconnect(&record) {
                // Another thread has chosen the same client.
                continue;
            }
            log::info!("Evicting client: {}", String::from_utf8_lossy(line.trim_ascii_end()));
            self.engine.telemetry.threads[self.slot].evicted_clients.add(1);
            if let Some(&place) = self.by_id.get(&record.id)
                && let Some(client) = self.clients.slab.get(place)
            {
                client.broken = true;
                client.uncount(&self.clients.client_bytes);
                self.clients.to_drop.push(place);
            }
        }
    }
}
