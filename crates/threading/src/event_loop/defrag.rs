// SPDX-License-Identifier: BSD-3-Clause
//! A loop's part in defragmentation (`keyspace/defrag.rs`): short steps between two turns, so that
//! together they take the wanted share of the thread's time, and less while it has requests.
//!
//! The loop never works on it inside of a script: locks may be held further up the stack.

use std::time::Duration;

use braid_base::clock::Ticks;
use braid_base::gate::Entered;
use braid_base::relocation::{Mover, flush_cache};
use braid_keyspace::defrag::{Walk, defragment};

use super::EventLoop;

/// Longest step, in nanoseconds, whatever `active-defrag-cycle-us` says: clients of this loop, and
/// of the shard it works on, wait for it.
const STEP_NANOS: u64 = 100_000;
/// Wait between two looks at a pass that has no shard left to claim, in nanoseconds.
const LOOK_NANOS: u64 = 10_000_000;

/// A loop's position in a pass, and when its next step is due.
#[derive(Default)]
pub(super) struct DefragSteps {
    walk: Walk,
    /// The end of the last step; `None` before the first.
    last: Option<Ticks>,
    /// Nanoseconds until the next step.
    pause: u64,
    /// Commands executed up to the last step.
    executed: u64,
    /// Blocks freed since the thread's cache was given back: each may keep a slab alive.
    keeps_blocks: bool,
}

impl EventLoop {
    /// Runs a step if there is a pass and a step is due.
    pub(super) fn defragment(&mut self) {
        let share = u64::from(self.engine.keyspace.defrag.share());
        if share == 0 && std::mem::take(&mut self.defrag.keeps_blocks) && !self.in_script {
            self.worker.context.limbo.reclaim_now();
            flush_cache();
        }
        if self.in_script || share == 0 || !self.is_defrag_due() {
            return;
        }
        if self.engine.keyspace.gate.enter_unless_busy(self.slot) == Entered::Busy {
            return;
        }
        let start = Ticks::now();
        let context = &mut self.worker.context;
        let nanos = u64::from(self.engine.config.active_defrag_cycle_microseconds()) * 1000;
        let nanos = nanos.min(STEP_NANOS);
        let mut others = |mover: &mut Mover| self.engine.scripts.relocate(mover);
        let goes_on = defragment(&self.engine.keyspace, context, &mut self.defrag.walk, nanos, &mut others);
        self.engine.keyspace.gate.leave(self.slot);
        self.defrag.keeps_blocks = goes_on;
        if goes_on {
            context.limbo.reclaim();
        } else {
            context.limbo.reclaim_now();
            flush_cache();
        }
        let end = Ticks::now();
        let executed = self.stats().executed.get();
        let is_busy = executed != self.defrag.executed;
        let busy = || u64::from(self.engine.keyspace.defrag.busy_share()).max(1);
        let share = if is_busy { busy() } else { share };
        let pause = end.nanos_since(start) * (100 - share.min(99)) / share;
        self.defrag.executed = executed;
        self.defrag.pause = if goes_on { pause } else { LOOK_NANOS };
        self.defrag.last = Some(end);
    }

    fn is_defrag_due(&self) -> bool {
        self.defrag.last.is_none_or(|last| Ticks::now().nanos_since(last) >= self.defrag.pause)
    }

    /// How long the loop may sleep at most until its next step.
    pub(super) fn until_defrag(&self) -> Option<Duration> {
        if self.engine.keyspace.defrag.share() == 0 || self.in_script {
            return None;
        }
        let passed = self.defrag.last.map_or(u64::MAX, |last| Ticks::now().nanos_since(last));
        // The poller counts in milliseconds.
        Some(Duration::from_millis(self.defrag.pause.saturating_sub(passed).div_ceil(1_000_000)))
    }
}
