// SPDX-License-Identifier: BSD-3-Clause
//! Client eviction on a loop: closes clients that together hold too much memory
//! (`executor/client_eviction.rs`).
//!
//! The memory of clients is counted when their records are updated. The sum is compared with the
//! limit before requests are executed and before replies are sent, so clients are closed before
//! any key is evicted on their account.

use braid_executor::client_eviction;

use super::EventLoop;

impl EventLoop {
    /// Closes the largest clients, of any loop, until the rest is within the limit.
    #[inline]
    pub(crate) fn evict_clients(&mut self) {
        let closed = client_eviction::evict_clients(&self.engine, self.slot);
        if closed.is_empty() {
            return;
        }
        client_eviction::log_evicted(&self.engine, &closed, self.worker.now_ms());
        for record in closed {
            // Others are told by message.
            if let Some(&place) = self.by_id.get(&record.id)
                && let Some(client) = self.clients.slab.get(place)
            {
                client.break_off();
                client.uncount(&self.clients.client_bytes);
                self.clients.to_drop.push(place);
            }
        }
    }
}
