// SPDX-License-Identifier: BSD-3-Clause
//! Defragmentation during a load, which has the world stopped: an append-only file repeats all the
//! removals that once left the memory sparse.

use std::cell::RefCell;
use std::num::NonZero;

use braid_base::clock::{Ticks, unix_ms};
use braid_base::relocation::{Mover, flush_cache, occupancy};
use braid_config::Config;
use braid_executor::Engine;
use braid_keyspace::Txn;
use braid_keyspace::defrag::{Limits, Walk, defragment_stopped};

/// Time between two reviews, in milliseconds.
const REVIEW_MS: i64 = 1000;
/// Length of a step, in nanoseconds.
const STEP_NANOS: u64 = 500_000;

/// The settings of defragmentation.
pub fn defrag_limits(config: &Config) -> Limits {
    Limits {
        is_enabled: config.activedefrag(),
        ignore_bytes: config.active_defrag_ignore_bytes(),
        percent: (config.active_defrag_threshold_lower(), config.active_defrag_threshold_upper()),
        cycle: (config.active_defrag_cycle_min(), config.active_defrag_cycle_max()),
        memory_bytes: config.maxmemory(),
        keys_make_room: false,
    }
}

/// A load's part in defragmentation.
pub struct LoadDefrag<'e> {
    engine: &'e Engine,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    walk: Walk,
    next_review_ms: i64,
    /// The end of the last step, and nanoseconds until the next one.
    last: Option<Ticks>,
    pause: u64,
}

impl LoadDefrag<'_> {
    /// At the start of a load.
    pub fn new(engine: &Engine) -> LoadDefrag<'_> {
        engine.keyspace.defrag.begin_anew();
        let state = State { next_review_ms: unix_ms() + REVIEW_MS, ..State::default() };
        LoadDefrag { engine, state: RefCell::new(state) }
    }

    /// Between two records: a review or a step, if one is due. Nothing else reviews meanwhile
    /// (`threading/cron.rs`).
    pub fn turn(&self, txn: &mut Txn<'_>) {
        let keyspace = &self.engine.keyspace;
        let state = &mut *self.state.borrow_mut();
        let start = Ticks::now();
        if state.last.is_some_and(|last| start.nanos_since(last) < state.pause) {
            return;
        }
        let now = unix_ms();
        if now >= state.next_review_ms {
            state.next_review_ms = now + REVIEW_MS;
            keyspace.review_defrag(defrag_limits(&self.engine.config), now, occupancy);
        }
        let share = NonZero::new(u64::from(keyspace.defrag.share()));
        state.pause = STEP_NANOS;
        if let Some(share) = share {
            let mut others = |mover: &mut Mover| self.engine.scripts.relocate(mover);
            if defragment_stopped(txn, &mut state.walk, STEP_NANOS, &mut others) {
                state.pause = Ticks::now().nanos_since(start) * (100 - share.get().min(99)) / share;
            } else {
                flush_cache();
            }
            txn.context.limbo.reclaim();
        }
        state.last = Some(Ticks::now());
    }
}
