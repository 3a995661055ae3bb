// SPDX-License-Identifier: BSD-3-Clause
//! Figures of all indexes together, for INFO and the metrics. No shard is locked for them.

use std::sync::atomic::Ordering::Relaxed;

use braid_keyspace::Keyspace;

use crate::service;

/// Search at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchReport {
    pub indexes: usize,
    /// Indexes for which the keys that were there already are being looked at.
    pub building: usize,
    /// What part of these keys the least advanced of them has looked at, in percent; 100 without.
    pub built_percent: u64,
    pub documents: u64,
    /// With vectors.
    pub memory_bytes: usize,
    pub indexing_seconds: f64,
    /// Documents that could not be indexed.
    pub failures: u64,
    pub cursors: usize,
    pub queries: u64,
    pub query_seconds: f64,
    pub late_queries: u64,
}

impl Default for SearchReport {
    fn default() -> SearchReport {
        SearchReport {
            indexes: 0,
            building: 0,
            built_percent: 100,
            documents: 0,
            memory_bytes: 0,
            indexing_seconds: 0.0,
            failures: 0,
            cursors: 0,
            queries: 0,
            query_seconds: 0.0,
            late_queries: 0,
        }
    }
}

/// The figures of a server.
pub fn report(keyspace: &Keyspace) -> SearchReport {
    let Some(service) = service::of(keyspace) else { return SearchReport::default() };
    let totals = &service.queries;
    let mut report = SearchReport {
        cursors: service.cursors.lock().all(),
        queries: totals.count.load(Relaxed),
        query_seconds: totals.nanos.load(Relaxed) as f64 / 1e9,
        late_queries: totals.late.load(Relaxed),
        ..SearchReport::default()
    };
    let indexes: Vec<_> = service.registry.read().indexes.values().cloned().collect();
    for index in indexes {
        let (size, terms) = index.index.size();
        report.indexes += 1;
        report.building += usize::from(index.building.is_running.load(Relaxed));
        report.built_percent = report.built_percent.min((index.building.progress() * 100.0) as u64);
        report.documents += index.index.totals().docs;
        report.memory_bytes += size.total() + terms + index.vectors.memory_bytes();
        report.indexing_seconds += index.indexing_us.load(Relaxed) as f64 / 1e6;
        report.failures += index.failures.lock().count;
    }
    report
}
