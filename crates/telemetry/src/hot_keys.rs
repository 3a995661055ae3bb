// SPDX-License-Identifier: BSD-3-Clause
//! Hot keys: the keys that use the most processor time and traffic (HOTKEYS, as documented by
//! Redis 8.6).
//!
//! While tracking is on, one in `sample` commands is sampled. The gap to the next sample is
//! random, so that periodic requests do not bias the result. Each thread has its own sketch
//! ([`Sketch`]); a report sums them.
//!
//! HOT PATH: each command decrements a counter of its thread and compares it with zero
//! ([`HotKeys::note`]), whether tracking is on or not.

mod sketch;

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use braid_base::Padded;
use braid_base::slots::Slots;
use braid_keyspace::Context;
use parking_lot::Mutex;

use braid_clients::THREADS_MAX;
use braid_clients::describe::request_bytes;
use braid_spec::{Command, keys};

use crate::Cost;
use crate::stats::{self, Threads};
use sketch::Sketch;

/// Longer keys are ignored.
const KEY_BYTES_MAX: usize = 4096;
/// Keys in a sketch per reported key, and the minimum number of keys in a sketch.
const SKETCH_FACTOR: usize = 8;
const SKETCH_MIN: usize = 128;

/// Options of HOTKEYS START.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub cpu: bool,
    pub net: bool,
    /// Number of keys in the report.
    pub count: usize,
    /// One in this many commands is sampled.
    pub sample: u32,
    /// Milliseconds after which tracking stops.
    pub duration_ms: Option<i64>,
}

/// Totals since the server's start.
#[derive(Clone, Copy, Default, Debug)]
pub struct Totals {
    pub command_nanos: u64,
    pub net_bytes: u64,
    pub user: Duration,
    pub system: Duration,
}

impl Totals {
    /// The current totals. `user` and `system` are the process's processor time, supplied by the
    /// caller.
    pub fn of(threads: &Threads, (user, system): (Duration, Duration)) -> Totals {
        let in_commands =
            |thread: &stats::ThreadStats| thread.commands.iter().map(|command| command.nanos.get()).sum();
        let command_nanos = stats::total(threads, in_commands);
        let net_bytes = stats::total(threads, |thread| thread.net_in.get() + thread.net_out.get());
        Totals { command_nanos, net_bytes, user, system }
    }

    fn since(self, before: Totals) -> Totals {
        // Statistics may have been reset meanwhile.
        Totals {
            command_nanos: self.command_nanos.saturating_sub(before.command_nanos),
            net_bytes: self.net_bytes.saturating_sub(before.net_bytes),
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
        }
    }
}

/// Computes the totals.
pub type TotalsOf = fn(&Threads) -> Totals;

/// Maximum number of samples held for one speculative run.
const HELD_MAX: usize = 1024;

/// A sampled key of a command, held until the command is final.
pub struct Sample {
    key: Box<[u8]>,
    nanos: u64,
    bytes: u64,
}

/// A thread's samples.
struct Seen {
    cpu: Sketch,
    net: Sketch,
}

impl Seen {
    fn add(&mut self, options: Options, key: &[u8], nanos: u64, bytes: u64) {
        if options.cpu {
            self.cpu.add(key, nanos);
        }
        if options.net {
            self.net.add(key, bytes);
        }
    }
}

/// A tracking period, active or ended.
struct Tracking {
    options: Options,
    began_ms: i64,
    before: Totals,
    totals: TotalsOf,
    /// The end of the period, and the totals at that time.
    ended: OnceLock<(i64, Totals)>,
    /// By slot. Locked by the slot's thread and by readers.
    seen: Slots<Padded<Mutex<Seen>>>,
}

impl Tracking {
    fn seen_by(&self, slot: usize) -> &Mutex<Seen> {
        let size = (self.options.count * SKETCH_FACTOR).max(SKETCH_MIN);
        let empty = |_| Padded::new(Mutex::new(Seen { cpu: Sketch::new(size), net: Sketch::new(size) }));
        self.seen.grow(slot + 1, empty);
        &self.seen[slot]
    }
}

/// Result of tracking.
#[derive(Debug)]
pub struct Report {
    pub options: Options,
    pub is_active: bool,
    pub began_ms: i64,
    pub duration_ms: i64,
    /// Totals of all commands in the period.
    pub totals: Totals,
    /// Keys with nanoseconds, highest first.
    pub by_cpu: Vec<(Box<[u8]>, u64)>,
    /// Keys with bytes of requests and replies, highest first.
    pub by_net: Vec<(Box<[u8]>, u64)>,
}

/// State of hot-key tracking. One per server.
pub struct HotKeys {
    tracking: ArcSwapOption<Tracking>,
    /// Incremented when tracking starts or stops; threads check it once per batch.
    version: AtomicU64,
    /// Time at which tracking stops, ms since the Unix epoch.
    ends_ms: AtomicI64,
    changing: Mutex<()>,
}

impl Default for HotKeys {
    fn default() -> HotKeys {
        HotKeys {
            tracking: ArcSwapOption::empty(),
            version: AtomicU64::new(0),
            ends_ms: AtomicI64::new(i64::MAX),
            changing: Mutex::new(()),
        }
    }
}

impl HotKeys {
    /// Incremented when tracking starts or stops; threads check it once per batch.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    /// Starts tracking. False if tracking is already active.
    pub fn start(&self, threads: &Threads, options: Options, totals: TotalsOf) -> bool {
        let _changing = self.changing.lock();
        if self.active().is_some() {
            return false;
        }
        let began_ms = braid_base::clock::unix_ms();
        let (before, ended, seen) = (totals(threads), OnceLock::new(), Slots::new(THREADS_MAX));
        let ends_ms = options.duration_ms.map_or(i64::MAX, |duration| began_ms.saturating_add(duration));
        self.tracking.store(Some(Arc::new(Tracking { options, began_ms, before, totals, ended, seen })));
        self.ends_ms.store(ends_ms, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
        true
    }

    /// Stops tracking and keeps the result. False if tracking was not active.
    pub fn stop(&self, threads: &Threads) -> bool {
        let _changing = self.changing.lock();
        let Some(tracking) = self.active() else { return false };
        let now = braid_base::clock::unix_ms().min(self.ends_ms.load(Ordering::Relaxed));
        // No other thread sets it concurrently.
        let _ = tracking.ended.set((now, (tracking.totals)(threads)));
        self.ends_ms.store(i64::MAX, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
        true
    }

    /// Drops the result. False while tracking is active.
    pub fn reset(&self) -> bool {
        let _changing = self.changing.lock();
        let is_over = self.active().is_none();
        if is_over {
            self.tracking.store(None);
        }
        is_over
    }

    /// Stops tracking once its duration is over. Called periodically.
    #[inline]
    pub fn end_if_due(&self, threads: &Threads, now_ms: i64) {
        if now_ms >= self.ends_ms.load(Ordering::Relaxed) {
            self.stop(threads);
        }
    }

    fn active(&self) -> Option<Arc<Tracking>> {
        self.tracking.load_full().filter(|tracking| tracking.ended.get().is_none())
    }

    /// The current result; `None` if tracking was never started.
    pub fn report(&self, threads: &Threads) -> Option<Report> {
        self.end_if_due(threads, braid_base::clock::unix_ms());
        let tracking = self.tracking.load_full()?;
        let ended = tracking.ended.get().copied();
        let (now, totals) =
            ended.unwrap_or_else(|| (braid_base::clock::unix_ms(), (tracking.totals)(threads)));
        let options = tracking.options;
        let most = |of: fn(&Seen) -> &Sketch| {
            let mut sums: HashMap<Box<[u8]>, u64> = HashMap::new();
            for seen in tracking.seen.iter() {
                for (key, weight) in of(&seen.lock()).weights() {
                    match sums.get_mut(key) {
                        Some(sum) => *sum += weight,
                        None => drop(sums.insert(key.into(), weight)),
                    }
                }
            }
            let mut all: Vec<_> = sums.into_iter().collect();
            all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
            all.truncate(options.count);
            all.iter_mut().for_each(|(_, weight)| *weight = weight.saturating_mul(u64::from(options.sample)));
            all
        };
        Some(Report {
            options,
            is_active: ended.is_none(),
            began_ms: tracking.began_ms,
            duration_ms: (now - tracking.began_ms).max(0),
            totals: totals.since(tracking.before),
            by_cpu: if options.cpu { most(|seen| &seen.cpu) } else { Vec::new() },
            by_net: if options.net { most(|seen| &seen.net) } else { Vec::new() },
        })
    }

    /// Commands until the next sample, inclusive; 0 means no sampling.
    fn gap(&self, context: &mut Context) -> u32 {
        let tracking = self.tracking.load();
        let active = tracking.as_ref().filter(|tracking| tracking.ended.get().is_none());
        // The requested rate on average.
        active.map_or(0, |tracking| context.random.u32(1..tracking.options.sample.saturating_mul(2).max(2)))
    }

    /// Adapts a thread to the current tracking state.
    #[cold]
    pub fn follow(&self, context: &mut Context) {
        context.until_sample = self.gap(context);
    }
    /// Counts an executed command.
    #[inline]
    pub fn note(&self, context: &mut Context, command: &Command, args: &[&[u8]], cost: Cost) {
        context.until_sample = context.until_sample.wrapping_sub(1);
        if context.until_sample == 0 {
            self.sample(context, command, args, cost, None);
        }
    }

    /// As [`HotKeys::note`], for a command that may be rolled back: its sample is held.
    #[inline]
    pub fn note_held(
        &self,
        context: &mut Context,
        command: &Command,
        args: &[&[u8]],
        cost: Cost,
        held: &mut Vec<Sample>,
    ) {
        context.until_sample = context.until_sample.wrapping_sub(1);
        if context.until_sample == 0 {
            self.sample(context, command, args, cost, Some(held));
        }
    }

    /// Adds held samples.
    #[cold]
    pub fn add(&self, slot: usize, samples: Vec<Sample>) {
        let tracking = self.tracking.load();
        let Some(tracking) = tracking.as_ref().filter(|tracking| tracking.ended.get().is_none()) else {
            return;
        };
        let mut seen = tracking.seen_by(slot).lock();
        for Sample { key, nanos, bytes } in samples {
            seen.add(tracking.options, &key, nanos, bytes);
        }
    }

    /// Samples a command.
    #[cold]
    #[inline(never)]
    fn sample(
        &self,
        context: &mut Context,
        command: &Command,
        args: &[&[u8]],
        cost: Cost,
        mut held: Option<&mut Vec<Sample>>,
    ) {
        context.until_sample = self.gap(context);
        let tracking = self.tracking.load();
        let Some(tracking) = tracking.as_ref().filter(|tracking| tracking.ended.get().is_none()) else {
            return;
        };
        if command.runs_scripts {
            // The script's commands are sampled individually.
            return;
        }
        let Some(keys) = keys::find(command.spec, args) else { return };
        if keys.is_empty() {
            return;
        }
        // The cost is divided evenly among several keys.
        let share = |whole: u64| whole / keys.len() as u64;
        let (nanos, bytes) = (share(cost.nanos), share((request_bytes(args) + cost.reply_bytes) as u64));
        for key in keys.iter().map(|at| args[at.index]).filter(|key| key.len() <= KEY_BYTES_MAX) {
            match &mut held {
                // Held samples are bounded to limit memory; they are a random selection anyway.
                Some(held) if held.len() < HELD_MAX => held.push(Sample { key: key.into(), nanos, bytes }),
                _ => tracking.seen_by(context.slot).lock().add(tracking.options, key, nanos, bytes),
            }
        }
    }
}
