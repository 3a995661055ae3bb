// SPDX-License-Identifier: BSD-3-Clause
//! Random histories of regions that all take writes. Servers run the real replica, with clocks
//! minutes apart, units lost, late, duplicated and routed any way, partitions, full copies,
//! crashes and restarts from saved files. To its own clients every region is an ordinary server.
//! After healing all servers show the same, which is exactly what an oracle computes from the
//! history: every effect is present or was removed by one that had seen it. Each rule on which
//! this depends is disabled once, and the violation must be found.
//!
//! `BRAID_SCHEDULES=1000000 cargo test --release -p braid-active --test simulation -- --nocapture`
//! runs a million histories; `BRAID_SEED` is the seed of the first one, `BRAID_TRACE` prints the
//! one that fails.

mod commands;
mod holding;
mod oracle;
mod server;
mod world;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use world::{Faults, Summary, World};

/// The number of histories in a default run.
const SCHEDULES: u64 = 1_000;
/// The maximum number of histories in which a planted fault must be found.
const FOUND_WITHIN: u64 = 100_000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn add(sum: &mut Summary, one: &Summary) {
    sum.units += one.units;
    sum.crashes += one.crashes;
    sum.copies += one.copies;
    (0..2).for_each(|kind| sum.beside_copies[kind] += one.beside_copies[kind]);
    sum.evictions += one.evictions;
    sum.conflicts += one.conflicts;
    sum.keys += one.keys;
}

/// Runs one history. A panic counts as a violation: some planted faults break invariants of the
/// code.
fn history(seed: u64, faults: Faults, traces: bool) -> Summary {
    let run = || {
        let mut world = World::new(seed, faults);
        world.traces = traces;
        world.run()
    };
    let panicked = || Summary { violation: Some("a panic".to_owned()), ..Summary::default() };
    std::panic::catch_unwind(run).unwrap_or_else(|_| panicked())
}

/// Runs histories from seed `first` on all processors until one violates. Returns its number,
/// counted from 1, and the sum of all summaries.
fn explore(first: u64, count: u64, faults: Faults) -> (Option<(u64, String)>, Summary) {
    let (next, found) = (AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let run = || {
        let mut sum = Summary::default();
        loop {
            let number = next.fetch_add(1, Relaxed);
            if number >= count || number > found.load(Relaxed) {
                return sum;
            }
            let one = history(first + number, faults, false);
            add(&mut sum, &one);
            if one.violation.is_some() {
                found.fetch_min(number, Relaxed);
            }
        }
    };
    let mut total = Summary::default();
    thread::scope(|scope| {
        for handle in Vec::from_iter((0..threads).map(|_| scope.spawn(run))) {
            add(&mut total, &handle.join().expect("a history panicked"));
        }
    });
    let found = found.into_inner();
    let violation = (found < u64::MAX).then(|| {
        let traces = std::env::var_os("BRAID_TRACE").is_some();
        let what = history(first + found, faults, traces).violation.unwrap_or_default();
        (found + 1, format!("seed {}, {what}", first + found))
    });
    (violation, total)
}

#[test]
fn no_history_violates() {
    let count = setting("BRAID_SCHEDULES", SCHEDULES);
    let (violation, sum) = explore(setting("BRAID_SEED", 1), count, Faults::default());
    println!(
        "{count} histories: {} units, {} crashes, {} full copies, {:?} units beside them, {} evictions, {} \
         conflicts of types, {} keys at the end",
        sum.units, sum.crashes, sum.copies, sum.beside_copies, sum.evictions, sum.conflicts, sum.keys
    );
    assert_eq!(violation, None);
    // The histories are not trivial.
    assert!(sum.units as u64 > count * 30, "too few units");
    assert!(sum.crashes as u64 > count && sum.copies as u64 > count, "too few crashes or full copies");
    // Their number varies with the keys of hash tables, which are new in each run.
    assert!(sum.beside_copies[1] as u64 > count / 40, "too few units beside a copy");
    assert!(sum.keys as u64 > count, "too few keys are left");
    assert!(sum.evictions as u64 > count, "too few evictions");
}

// `from`: the seed at which the search begins, just below one that finds the fault, if the first
// such seed is far from 1. If the code has changed since, the search continues from there.
macro_rules! faults {
    ($($name:ident: $($place:ident).+ $(, from $first:literal)?;)+) => {$(
        #[test]
        fn $name() {
            let mut faults = Faults::default();
            faults.$($place).+ = false;
            let first = [$($first,)? 1][0];
            let (found, _) = explore(first, FOUND_WITHIN, faults);
            let (count, what) = found.expect("the fault was not found");
            println!("{}: found by history {count} ({what})", stringify!($name));
        }
    )+};
}

mod left_out {
    use super::*;

    faults! {
        clocks_never_go_back: rules.clock_never_goes_back;
        clocks_are_hybrid: rules.clock_is_hybrid;
        units_wait_for_dependencies: rules.waits_for_dependencies, from 1_460;
        units_are_applied_once: rules.applies_once;
        units_are_applied_in_order: rules.applies_in_order;
        a_crash_starts_a_new_run: rules.starts_new_run;
        own_effects_are_taken_back: rules.takes_back_own;
        ties_are_decided_by_region: rules.ties_by_region;
        losers_are_kept: rules.keeps_losers;
        what_was_forgotten_is_kept: rules.keeps_forgotten;
        tallies_end_with_their_run: rules.tallies_end_with_their_run, from 6_500;
        tallies_wait_for_their_region: rules.tallies_wait_for_their_region, from 200;
        only_seen_increments_are_forgotten: rules.forgets_only_seen;
        only_what_was_seen_is_removed: rules.removes_only_seen;
        merges_know_removals: rules.merge_knows_removals;
        losing_types_are_kept: rules.keeps_losing_types;
        creating_clears: rules.clears_before_creating;
        garbage_waits_for_all_regions: rules.waits_for_all_regions, from 4_780;
        acknowledgements_wait: rules.acknowledgements_wait, from 78_800;
        the_longest_time_wins: rules.longest_time_wins;
        one_region_expires: rules.one_region_expires;
        eviction_is_no_removal: rules.eviction_is_no_removal;
        copies_are_seen_by_key: rules.copies_are_seen_by_key;
        what_is_acknowledged_is_on_disk: path.acknowledges_saved;
        gaps_are_closed_by_copies: path.copies_after_gap;
        backlogs_remember_copies: path.remembers_copies;
        logs_begin_after_copies: path.begins_logs_after_copies;
    }
}
