// SPDX-License-Identifier: BSD-3-Clause
//! Instantaneous rates: commands, bytes and turns per second.

use crate::stats::{ThreadStats, Threads};

/// Rates over the last 16 samples, taken every 100 ms.
#[derive(Default)]
pub struct Rates {
    samples: std::collections::VecDeque<Sample>,
}

#[derive(Clone, Copy)]
struct Sample {
    time_us: i64,
    commands: u64,
    net_in: u64,
    net_out: u64,
    links: LinkBytes,
    cycles: u64,
    cycle_nanos: u64,
}

/// Bytes of replication links: received from primaries, and sent to replicas.
#[derive(Clone, Copy, Default, Debug)]
pub struct LinkBytes {
    pub received: u64,
    pub sent: u64,
}

/// Rates per second.
#[derive(Clone, Copy, Default, Debug)]
pub struct Rate {
    pub commands: u64,
    pub net_in: u64,
    pub net_out: u64,
    pub links: LinkBytes,
    pub cycles: u64,
    /// Average length of a turn of an event loop, in microseconds.
    pub cycle_micros: u64,
}

impl Rates {
    const SAMPLES: usize = 16;

    /// The current rates.
    pub fn current(&self) -> Rate {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return Rate::default();
        };
        let elapsed = u64::try_from(last.time_us - first.time_us).unwrap_or(0);
        if elapsed == 0 {
            return Rate::default();
        }
        let per_second = |a: u64, b: u64| b.saturating_sub(a) * 1_000_000 / elapsed;
        let cycles = last.cycles.saturating_sub(first.cycles);
        Rate {
            commands: per_second(first.commands, last.commands),
            net_in: per_second(first.net_in, last.net_in),
            net_out: per_second(first.net_out, last.net_out),
            links: LinkBytes {
                received: per_second(first.links.received, last.links.received),
                sent: per_second(first.links.sent, last.links.sent),
            },
            cycles: per_second(first.cycles, last.cycles),
            cycle_micros: last.cycle_nanos.saturating_sub(first.cycle_nanos).checked_div(cycles).unwrap_or(0)
                / 1000,
        }
    }

    /// Takes a sample; must be called every 100 ms.
    pub fn sample(&mut self, threads: &Threads, links: LinkBytes, now_us: i64) {
        let total = |counter: fn(&ThreadStats) -> u64| crate::stats::total(threads, counter);
        let sample = Sample {
            time_us: now_us,
            commands: total(|stats| stats.executed.get()),
            net_in: total(|stats| stats.net_in.get()),
            net_out: total(|stats| stats.net_out.get()),
            links,
            cycles: total(|stats| stats.cycles.get()),
            cycle_nanos: total(|stats| stats.cycle_nanos.get()),
        };
        if self.samples.len() == Rates::SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
    }

    /// Drops the samples.
    pub fn clear(&mut self) {
        self.samples.clear();
    }
}
