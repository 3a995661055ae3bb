// SPDX-License-Identifier: BSD-3-Clause
//! Closing clients that together hold too much memory (`maxmemory-clients`).
//!
//! What clients hold is counted whenever their records are told of it; the sum is compared with the limit before requests
//! are executed and before replies are sent, so clients go before any key is evicted for them.

use std::sync::atomic::Ordering::Relaxed;

use braid_clients::describe::describe;

use crate::event_loop::EventLoop;
use crate::models::Model;

impl<M: Model> EventLoop<M> {
    /// Closes the largest clients, of whatever loop, until the rest holds no more than it may.
    #[inline]
    pub(crate) fn shed_clients(&mut self) {
        if let Some(max) = self.engine.client_bytes_max() {
            self.shed_beyond(max);
        }
    }

    fn shed_beyond(&mut self, max: u64) {
        // Nobody holds less than nothing, but sums may be told of late.
        if u64::try_from(self.station.client_bytes.load(Relaxed)).unwrap_or(0) <= max {
            return;
        }
        for record in self.engine.clients_beyond(max) {
            let mut line = Vec::new();
            describe(&mut line, &self.engine, &record, self.worker.now_ms(), None);
            if !self.engine.disconnect(&record) {
                // Another thread has found the same.
                continue;
            }
            log::info!("Evicting client: {}", String::from_utf8_lossy(line.trim_ascii_end()));
            self.engine.threads[self.slot].evicted_clients.add(1);
            if let Some(&place) = self.by_id.get(&record.id)
                && let Some(client) = self.station.clients.get(place)
            {
                client.broken = true;
                client.uncount(&self.station.client_bytes);
                self.station.to_drop.push(place);
            }
        }
    }
}
