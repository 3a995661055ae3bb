// SPDX-License-Identifier: BSD-3-Clause
//! Which clients are closed when all of them together hold more memory than they may (`maxmemory-clients`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_config::ClientsMemoryLimit;

use super::{ClientRecord, client_flags};
use crate::engine::Engine;

impl Engine {
    /// The most bytes that clients may hold together; nothing if there is no limit.
    #[inline]
    pub fn client_bytes_max(&self) -> Option<u64> {
        match self.config.maxmemory_clients() {
            ClientsMemoryLimit::Unlimited => None,
            ClientsMemoryLimit::Bytes(bytes) => Some(bytes),
            ClientsMemoryLimit::PercentOfMaxmemory(percent) => {
                let bytes = u128::from(self.config.maxmemory()) * u128::from(percent) / 100;
                u64::try_from(bytes).ok().filter(|bytes| *bytes > 0)
            }
        }
    }

    /// The clients to be closed so that the others hold at most `max` bytes: the largest first. Those protected by CLIENT NO-EVICT, and those
    /// that only look on, neither count nor go.
    pub fn clients_beyond(&self, max: u64) -> Vec<Arc<ClientRecord>> {
        let exempt =
            client_flags::NO_EVICT | client_flags::MONITOR | client_flags::REPLICA | client_flags::CLOSE_NOW;
        let mut clients: Vec<(u64, Arc<ClientRecord>)> = self
            .clients
            .all()
            .into_iter()
            .filter(|record| !record.has(exempt))
            .map(|record| (record.total_bytes.load(Relaxed) as u64, record))
            .collect();
        let mut total: u64 = clients.iter().map(|(bytes, _)| bytes).sum();
        clients.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let too_many = clients.into_iter().take_while(|(bytes, _)| {
            let over = total > max;
            total -= bytes;
            over
        });
        too_many.map(|(_, record)| record).collect()
    }
}
