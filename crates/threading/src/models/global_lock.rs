// SPDX-License-Identifier: BSD-3-Clause
//! The `global-lock` model, as in KeyDB: every thread serves its own clients, and holds one lock
//! while it executes a batch.
//!
//! The engine does not need the lock; it exists to show its cost. A waiting thread parks after a
//! moment: a pure spin lock ruins a machine on which the lock's holder is not running.
//!
//! The lock is taken before the gate is entered, so a thread that waits for the lock is outside
//! the gate and the lock's holder can stop the world. A long script releases the lock, because
//! the other threads must proceed far enough to answer that the server is busy.

use std::cell::RefCell;
use std::sync::Arc;

use braid_base::clock::Ticks;
use braid_base::gate::Entered;
use parking_lot::{ArcMutexGuard, Mutex, RawMutex};

use super::{Row, Starting};
use crate::event_loop::{EventLoop, Model, Properties};
use crate::pool::Starter;

/// A loop per thread; the first also accepts connections.
pub(super) const ROW: Row = Row::new(starter);

struct GlobalLock {
    lock: Arc<Mutex<()>>,
    /// Held while this thread executes.
    held: RefCell<Option<ArcMutexGuard<RawMutex, ()>>>,
}

impl GlobalLock {
    fn take(&self, event_loop: &mut EventLoop) {
        let mut held = self.lock.try_lock_arc();
        if held.is_none() {
            let start = Ticks::now();
            held = Some(self.lock.lock_arc());
            event_loop.note_wait(Ticks::now().nanos_since(start));
        }
        *self.held.borrow_mut() = held;
    }

    fn release(&self) {
        self.held.borrow_mut().take();
    }
}

impl Model for GlobalLock {
    fn properties(&self) -> Properties {
        Properties { holds_replies: true, ..Properties::default() }
    }

    fn before_execution(&self, event_loop: &mut EventLoop) {
        self.take(event_loop);
    }

    fn after_execution(&self, _event_loop: &mut EventLoop) {
        self.release();
    }

    fn script_takes_long(&self, _event_loop: &mut EventLoop) {
        self.release();
    }

    fn script_has_ended(&self, event_loop: &mut EventLoop) {
        if self.held.borrow().is_some() {
            return;
        }
        // The rest of the batch needs the lock again. Waiting for it inside the gate would keep
        // the lock's holder from stopping the world.
        let (gate, slot) = (event_loop.engine.keyspace.gate.clone(), event_loop.slot);
        if !event_loop.worker.context.outside {
            gate.leave(slot);
        }
        self.take(event_loop);
        event_loop.worker.context.outside = gate.enter_unless_busy(slot) == Entered::Busy;
    }
}

fn starter(starting: Starting) -> Starter {
    let lock = Arc::new(Mutex::new(()));
    Box::new(move |slot| {
        let lock = Arc::clone(&lock);
        starting.event_loop(slot, || GlobalLock { lock, held: RefCell::default() })
    })
}
