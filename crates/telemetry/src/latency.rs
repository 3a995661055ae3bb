// SPDX-License-Identifier: BSD-3-Clause
//! Latency monitor: the latest spikes of each event above `latency-monitor-threshold`.

use std::collections::{BTreeMap, VecDeque};

use parking_lot::Mutex;

const HISTORY: usize = 160;

/// Spikes of one event.
#[derive(Clone, Default, Debug)]
pub struct Series {
    /// The largest spike ever, in ms.
    pub max_ms: u32,
    /// Unix time in seconds and size in ms of each spike, oldest first.
    pub samples: VecDeque<(i64, u32)>,
}

/// All events.
#[derive(Default)]
pub struct LatencyMonitor {
    events: Mutex<BTreeMap<String, Series>>,
}

impl LatencyMonitor {
    /// Records a spike. Spikes within the same second count as one, the largest.
    pub fn add(&self, event: &str, time_s: i64, millis: u32) {
        let mut events = self.events.lock();
        let series = events.entry(event.to_owned()).or_default();
        series.max_ms = series.max_ms.max(millis);
        match series.samples.back_mut() {
            Some(last) if last.0 == time_s => last.1 = last.1.max(millis),
            _ => {
                if series.samples.len() == HISTORY {
                    series.samples.pop_front();
                }
                series.samples.push_back((time_s, millis));
            }
        }
    }

    /// All events and their series, by name.
    pub fn all(&self) -> Vec<(String, Series)> {
        self.events.lock().iter().map(|(name, series)| (name.clone(), series.clone())).collect()
    }

    /// One event's series.
    pub fn get(&self, event: &str) -> Option<Series> {
        self.events.lock().get(event).cloned()
    }

    /// Drops the named events, or all events if no names are given. Returns the number dropped.
    pub fn reset(&self, names: &[&str]) -> usize {
        let mut events = self.events.lock();
        if names.is_empty() {
            let count = events.len();
            events.clear();
            return count;
        }
        names.iter().filter(|name| events.remove(**name).is_some()).count()
    }
}
