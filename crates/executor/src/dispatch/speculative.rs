// SPDX-License-Identifier: BSD-3-Clause
//! Statistics of a speculative script run: a run under the locks of the declared keys that may
//! still be abandoned and restarted with the world stopped. Rolling back makes each command count
//! once, although two runs have called it.
//!
//! Counters are updated immediately, and the increments are recorded here. MONITOR lines, hot-key
//! samples and entries of the command logs cannot be undone, so they are held until the run
//! commits. The thread does nothing else during such a run, so every change of its hit and miss
//! counters belongs to the run.

use std::collections::VecDeque;
use std::sync::Arc;

use braid_keyspace::Context;
use braid_notify::payload::Payload;
use braid_spec::Command;
use braid_telemetry::hot_keys::Sample;
use braid_telemetry::{Cost, histogram};
use smallvec::SmallVec;

use super::report;
use crate::engine::Engine;
use crate::session::Session;

/// Tallies are merged when this many have been collected.
const TALLIES_MAX: usize = 1024;
/// Maximum number of calls held for the command logs; of more, the latest are kept.
const LOGGED_MAX: usize = 1024;

/// A call for the command logs.
struct Logged {
    command: u32,
    args: Vec<Box<[u8]>>,
    cost: Cost,
}

/// Calls of one command that took about the same time.
#[derive(Clone, Copy)]
struct Tally {
    command: u32,
    /// Cell of the command's latency histogram.
    cell: u32,
    calls: u64,
    nanos: u64,
    failed: u64,
    rejected: u64,
}

/// Counter increments and held output of one speculative run.
pub struct Speculative {
    /// Keys found and not found by the thread before the run.
    before: (u64, u64),
    tallies: SmallVec<[Tally; 4]>,
    /// Number of tallies that triggers the next merge.
    tallies_max: usize,
    /// Errors by their first word.
    errors: Vec<(Box<[u8]>, u64)>,
    pub(super) samples: Vec<Sample>,
    pub(super) lines: Vec<Arc<Payload>>,
    logged: VecDeque<Logged>,
}

impl Speculative {
    /// Starts recording a run on this thread.
    pub fn begin(context: &Context) -> Speculative {
        Speculative::new((context.counters.hits.get(), context.counters.misses.get()))
    }

    fn new(before: (u64, u64)) -> Speculative {
        Speculative {
            before,
            tallies: SmallVec::new(),
            tallies_max: TALLIES_MAX,
            errors: Vec::new(),
            samples: Vec::new(),
            lines: Vec::new(),
            logged: VecDeque::new(),
        }
    }

    /// Records a counted command.
    #[inline]
    pub(super) fn note_call(&mut self, command: u32, nanos: u64, failed: bool) {
        let cell = histogram::cell_of(nanos) as u32;
        self.push(Tally { command, cell, calls: 1, nanos, failed: u64::from(failed), rejected: 0 });
    }

    /// Holds a call that the command logs may record.
    #[cold]
    pub(super) fn note_logged(&mut self, command: &Command, args: &[&[u8]], cost: Cost) {
        if self.logged.len() == LOGGED_MAX {
            self.logged.pop_front();
        }
        let args = args.iter().map(|&arg| arg.into()).collect();
        self.logged.push_back(Logged { command: command.id, args, cost });
    }

    /// Records a rejected command.
    pub(super) fn note_rejected(&mut self, command: u32) {
        self.push(Tally { command, cell: 0, calls: 0, nanos: 0, failed: 0, rejected: 1 });
    }

    /// Records a counted error.
    pub(super) fn note_error(&mut self, line: &[u8]) {
        let code = line.split(|&byte| matches!(byte, b' ' | b'\r')).next().unwrap_or_default();
        match self.errors.iter_mut().find(|(known, _)| **known == *code) {
            Some((_, count)) => *count += 1,
            None => self.errors.push((code.into(), 1)),
        }
    }

    #[inline]
    fn push(&mut self, tally: Tally) {
        if self.tallies.len() >= self.tallies_max {
            self.merge();
        }
        self.tallies.push(tally);
    }

    #[cold]
    fn merge(&mut self) {
        self.tallies.sort_unstable_by_key(|tally| (tally.command, tally.cell));
        self.tallies.dedup_by(|next, sum| {
            let same = (next.command, next.cell) == (sum.command, sum.cell);
            if same {
                sum.calls += next.calls;
                sum.nanos += next.nanos;
                sum.failed += next.failed;
                sum.rejected += next.rejected;
            }
            same
        });
        self.tallies_max = TALLIES_MAX.max(2 * self.tallies.len());
    }

    /// Releases the held output. The run's locks must still be held.
    pub fn commit(self, engine: &Engine, session: &Session, slot: usize) {
        for Logged { command, args, cost } in &self.logged {
            let args: Vec<&[u8]> = args.iter().map(|arg| &**arg).collect();
            report::log(engine, session, engine.commands.get(*command), &args, *cost);
        }
        for line in &self.lines {
            engine.hub.tell_monitors(slot, line);
        }
        if !self.samples.is_empty() {
            engine.telemetry.hot_keys.add(slot, self.samples);
        }
    }

    /// Subtracts the run's increments and drops the held output.
    pub fn roll_back(self, engine: &Engine, context: &Context) {
        let stats = &engine.telemetry.threads[context.slot];
        for tally in &self.tallies {
            let command = engine.telemetry.command_stats(context.slot, tally.command);
            command.calls.take_back(tally.calls);
            command.nanos.take_back(tally.nanos);
            command.failed.take_back(tally.failed);
            command.rejected.take_back(tally.rejected);
            stats.executed.take_back(tally.calls);
            if let Some(latency) = command.latency.get() {
                latency.take_back(tally.cell as usize, tally.calls);
            }
        }
        for (code, count) in &self.errors {
            stats.take_back_errors(code, *count);
        }
        let (counters, (hits, misses)) = (&context.counters, self.before);
        counters.hits.take_back(counters.hits.get().saturating_sub(hits));
        counters.misses.take_back(counters.misses.get().saturating_sub(misses));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_of_a_long_run_are_merged() {
        let mut run = Speculative::new((0, 0));
        for number in 0..100_000_u64 {
            run.note_call((number % 3) as u32, 100 + number % 50, number % 10 == 0);
            if number % 4 == 0 {
                run.note_rejected(7);
            }
        }
        assert!(run.tallies.len() <= 2 * TALLIES_MAX, "{}", run.tallies.len());
        let sum = |of: fn(&Tally) -> u64| run.tallies.iter().map(of).sum::<u64>();
        assert_eq!(sum(|tally| tally.calls), 100_000);
        assert_eq!(sum(|tally| tally.failed), 10_000);
        assert_eq!(sum(|tally| tally.rejected), 25_000);
        assert_eq!(sum(|tally| tally.nanos), (0..100_000).map(|number| 100 + number % 50).sum::<u64>());
    }
}
