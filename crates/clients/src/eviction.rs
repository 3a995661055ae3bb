// SPDX-License-Identifier: BSD-3-Clause
//! Client eviction: chooses the clients to close while all clients together exceed
//! `maxmemory-clients`.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_config::{ClientsMemoryLimit, Config};

use crate::clients::Clients;
use crate::record::{ClientRecord, client_flags};
use crate::registry::Registry;

/// The limit in bytes; `None` if there is none.
#[inline]
pub fn limit_bytes(config: &Config) -> Option<u64> {
    match config.maxmemory_clients() {
        ClientsMemoryLimit::Unlimited => None,
        ClientsMemoryLimit::Bytes(bytes) => Some(bytes),
        ClientsMemoryLimit::PercentOfMaxmemory(percent) => {
            let bytes = u128::from(config.maxmemory()) * u128::from(percent) / 100;
            u64::try_from(bytes).ok().filter(|bytes| *bytes > 0)
        }
    }
}

impl Clients {
    /// Closes the largest clients, of any loop, until the rest is within the limit; returns those
    /// closed by this call. No element goes to them from then on, and their memory no longer
    /// counts. Allowed under locks of keys.
    #[inline]
    pub fn evict(&self, config: &Config) -> Vec<Arc<ClientRecord>> {
        // Late updates may make the sum negative.
        let sum = u64::try_from(self.bytes.load(Relaxed)).unwrap_or(0);
        match limit_bytes(config) {
            Some(max) if sum > max => self.evict_beyond(max),
            _ => Vec::new(),
        }
    }

    #[cold]
    fn evict_beyond(&self, max: u64) -> Vec<Arc<ClientRecord>> {
        let mut closed = self.registry.beyond(max);
        // Another thread may have chosen the same clients.
        closed.retain(|record| self.registry.disconnect(record));
        closed.iter().for_each(|record| record.count_bytes(0, &self.bytes));
        closed
    }
}

impl Registry {
    /// The clients to close, largest first, so that the rest hold at most `max` bytes. Clients
    /// with CLIENT NO-EVICT, monitors and replicas neither count nor are closed.
    pub fn beyond(&self, max: u64) -> Vec<Arc<ClientRecord>> {
        let exempt =
            client_flags::NO_EVICT | client_flags::MONITOR | client_flags::REPLICA | client_flags::CLOSE_NOW;
        let mut clients: Vec<(u64, Arc<ClientRecord>)> = self
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
