// SPDX-License-Identifier: BSD-3-Clause
//! The watchdog (`watchdog-period`): logs the stack of a thread whose command takes longer than the
//! period.
//!
//! A separate thread checks the executing threads a few times per period. If a thread is inside
//! the gate, or has stopped the world, and has completed no command for a period, a signal makes
//! it record its stack, as in a crash report. The executing threads have no overhead.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use braid_config::Config;
use braid_executor::Engine;
use parking_lot::{Condvar, Mutex};

use crate::crash;

/// Checks per period, and the minimum time between two checks.
const LOOKS: u32 = 4;
const STEP_MIN: Duration = Duration::from_millis(5);

#[derive(Default)]
struct State {
    /// Zero: nothing is watched.
    period: Duration,
    runs: bool,
}

/// A thread's progress: its number of commands when it was last seen to advance, and the time of
/// that.
#[derive(Clone, Copy)]
struct Seen {
    commands: u64,
    since: Instant,
    told: bool,
}

/// Applies the configuration, now and whenever it changes.
pub fn follow(engine: &Arc<Engine>) -> Result<(), String> {
    let shared = Arc::new((Mutex::new(State::default()), Condvar::new()));
    let weak = Arc::downgrade(engine);
    let apply = move |config: &Config| {
        let (state, changed) = &*shared;
        let mut state = state.lock();
        state.period = Duration::from_millis(config.watchdog_period_milliseconds().into());
        if !state.period.is_zero() && !state.runs {
            let (engine, shared) = (weak.clone(), Arc::clone(&shared));
            let thread = std::thread::Builder::new().name("watchdog".into());
            thread
                .spawn(move || watch(&engine, &shared.0, &shared.1))
                .map_err(|error| format!("Cannot start the watchdog: {error}"))?;
            state.runs = true;
        }
        changed.notify_all();
        Ok(())
    };
    apply(&engine.config)?;
    engine.config.on_change(&["watchdog-period"], apply);
    Ok(())
}

fn watch(engine: &Weak<Engine>, state: &Mutex<State>, changed: &Condvar) {
    let mut seen: Vec<Option<Seen>> = Vec::new();
    loop {
        let period = {
            let mut state = state.lock();
            if !state.period.is_zero() {
                let step = (state.period / LOOKS).max(STEP_MIN);
                changed.wait_for(&mut state, step);
            }
            if state.period.is_zero() {
                state.runs = false;
                return;
            }
            state.period
        };
        let Some(engine) = engine.upgrade() else { return };
        seen.resize(engine.clients.mailboxes.thread_count(), None);
        for (slot, seen) in seen.iter_mut().enumerate() {
            let commands = engine.telemetry.threads[slot].executed.get();
            if !engine.keyspace.gate.is_at_work(slot) {
                *seen = None;
                continue;
            }
            match seen {
                Some(seen) if seen.commands == commands => {
                    if !seen.told && seen.since.elapsed() >= period {
                        seen.told = true;
                        report(engine.telemetry.threads[slot].task.load(Relaxed), seen.since.elapsed());
                    }
                }
                _ => *seen = Some(Seen { commands, since: Instant::now(), told: false }),
            }
        }
    }
}

/// Logs a thread's call stack, in the words that tools look for.
fn report(task: u32, since: Duration) {
    let name = std::fs::read_to_string(format!("/proc/self/task/{task}/comm")).unwrap_or_default();
    crash::log_line(format_args!(
        "\n--- WATCHDOG TIMER EXPIRED ---\nThread {task} ({}) has executed one command for more than {} ms",
        name.trim_end(),
        since.as_millis()
    ));
    if !i32::try_from(task).is_ok_and(crash::log_calls) {
        crash::log_line(format_args!("The thread does not report its stack"));
    }
    crash::log_line(format_args!("--------\n"));
}
