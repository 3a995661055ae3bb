// SPDX-License-Identifier: BSD-3-Clause
//! The `global-lock` model, KeyDB's: every thread serves its own clients, and one lock is held while a batch is executed.
//!
//! The engine would not need the lock; it is there to show what it costs. Waiting for it parks the thread after a moment: a lock that only
//! spins ruins a machine on which the thread that holds it does not get to run.
//!
//! The lock comes before the gate: whoever waits for it is outside, so that the one who holds it can stop the world. A script that takes long
//! gives it up, because the other threads have to get far enough to answer that the server is busy.

use std::sync::Arc;

use braid_base::clock::Ticks;
use braid_base::gate::Entered;
use parking_lot::{ArcMutexGuard, Mutex, RawMutex};

use super::{Model, Starting};
use crate::event_loop::EventLoop;
use crate::pool::Starter;

struct GlobalLock {
    lock: Arc<Mutex<()>>,
    /// There while this thread executes.
    held: Option<ArcMutexGuard<RawMutex, ()>>,
}

impl GlobalLock {
    fn take(event_loop: &mut EventLoop<Self>) {
        let mut held = event_loop.model.lock.try_lock_arc();
        if held.is_none() {
            let start = Ticks::now();
            held = Some(event_loop.model.lock.lock_arc());
            event_loop.waited(Ticks::now().nanos_since(start));
        }
        event_loop.model.held = held;
    }
}

impl Model for GlobalLock {
    const HOLDS_REPLIES: bool = true;

    #[inline]
    fn before_execution(event_loop: &mut EventLoop<Self>) {
        Self::take(event_loop);
    }

    #[inline]
    fn after_execution(event_loop: &mut EventLoop<Self>) {
        event_loop.model.held = None;
    }

    fn script_takes_long(event_loop: &mut EventLoop<Self>) {
        event_loop.model.held = None;
    }

    fn script_has_ended(event_loop: &mut EventLoop<Self>) {
        if event_loop.model.held.is_some() {
            return;
        }
        // The rest of the batch is executed under the lock again. To wait for it inside of the gate would keep out whoever holds it.
        let (gate, slot) = (event_loop.engine.keyspace.gate.clone(), event_loop.slot);
        if !event_loop.worker.context.outside {
            gate.leave(slot);
        }
        Self::take(event_loop);
        event_loop.worker.context.outside = gate.enter_unless_busy(slot) == Entered::Busy;
    }
}

/// Starts a loop per thread; the first one accepts connections too.
pub(super) fn starter(starting: Starting) -> Starter {
    let lock = Arc::new(Mutex::new(()));
    Box::new(move |slot| {
        let lock = Arc::clone(&lock);
        starting.event_loop(slot, || GlobalLock { lock, held: None })
    })
}
