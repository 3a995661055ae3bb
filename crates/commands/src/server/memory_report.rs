// SPDX-License-Identifier: BSD-3-Clause
//! Memory figures for INFO memory and MEMORY STATS.

use std::sync::atomic::Ordering::Relaxed;

use braid_executor::Engine;

use super::allocator;

/// The structures of one database.
pub struct Database {
    pub index: u32,
    pub table_bytes: usize,
}

/// The memory of the process, in bytes. The metrics show it too: nothing is locked for it.
#[derive(Clone, Copy, Debug)]
pub struct Basics {
    pub total: usize,
    pub peak: usize,
    pub allocator: allocator::Figures,
    pub resident: usize,
}

impl Basics {
    pub fn take(engine: &Engine) -> Basics {
        let total = braid_base::alloc::used_bytes();
        let peak = engine.memory.peak_with(total);
        let allocator = allocator::figures();
        Basics { total, peak, allocator, resident: braid_process::memory::resident_bytes() }
    }

    /// Active pages relative to allocated bytes.
    pub fn allocator_fragmentation(&self) -> Share {
        share(self.allocator.active, self.allocator.allocated)
    }

    /// The process's physical memory relative to the memory in use.
    pub fn fragmentation(&self) -> Share {
        share(self.resident, self.total)
    }
}

/// Memory figures at one moment, in bytes unless stated otherwise.
pub struct Report {
    pub basics: Basics,
    pub startup: usize,
    /// Memory in use as a percentage of the peak.
    pub peak_percent: f64,
    pub clients: usize,
    pub databases: Vec<Database>,
    pub keys: usize,
    pub bytes_per_key: usize,
    pub overhead: usize,
    pub dataset: usize,
    /// Dataset as a percentage of the memory in use beyond that at startup.
    pub dataset_percent: f64,
}

/// The ratio of two figures, and their difference.
#[derive(Clone, Copy)]
pub struct Share {
    pub ratio: f64,
    pub bytes: i64,
}

fn share(more: usize, less: usize) -> Share {
    let ratio = if less == 0 { 0.0 } else { more as f64 / less as f64 };
    Share { ratio, bytes: more as i64 - less as i64 }
}

impl Report {
    /// Takes the figures. Visits every shard, blocking only one at a time.
    pub fn take(engine: &Engine) -> Report {
        let basics = Basics::take(engine);
        let Basics { total, peak, .. } = basics;
        let clients =
            engine.clients.registry.all().iter().map(|client| client.total_bytes.load(Relaxed)).sum();
        let keyspace = &engine.keyspace;
        // Keys of hidden slots take memory, too, but are not shown.
        let (mut keys, mut shown) = (0, 0);
        let databases: Vec<Database> = (0..keyspace.databases())
            .filter_map(|index| {
                let (len, _) = keyspace.len(index);
                keys += len;
                shown += keyspace.visible_len(index).0;
                (len > 0).then(|| Database { index, table_bytes: keyspace.structure_bytes(index) })
            })
            .collect();
        let startup = engine.memory.initial_bytes;
        let overhead =
            startup + clients + databases.iter().map(|database| database.table_bytes).sum::<usize>();
        let dataset = total.saturating_sub(overhead);
        let net = total.saturating_sub(startup).max(1);
        Report {
            basics,
            startup,
            peak_percent: total as f64 * 100.0 / peak.max(1) as f64,
            clients,
            databases,
            keys: shown,
            bytes_per_key: net.checked_div(keys).unwrap_or(0),
            overhead,
            dataset,
            dataset_percent: dataset as f64 * 100.0 / net as f64,
        }
    }

    /// Resident pages relative to active pages.
    pub fn allocator_resident(&self) -> Share {
        share(self.basics.allocator.resident, self.basics.allocator.active)
    }

    /// The process's physical memory relative to the allocator's.
    pub fn resident_overhead(&self) -> Share {
        share(self.basics.resident, self.basics.allocator.resident)
    }
}
