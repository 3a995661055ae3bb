// SPDX-License-Identifier: BSD-3-Clause
//! The progress of a shutdown, and the clients that wait for it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use parking_lot::{Mutex, RwLock};

use crate::blocking::state::Waiter;

/// The reply to SHUTDOWN when the server keeps running.
pub const SHUTDOWN_FAILED: &str = "ERR Errors trying to SHUTDOWN. Check logs.";

/// Progress of the shutdown; shared by all threads.
#[derive(Default)]
pub struct Shutdown {
    pub state: Mutex<State>,
    /// The loops must stop.
    stops: AtomicBool,
    /// The loops will have to stop, unless saving fails.
    imminent: AtomicBool,
    /// Stops the threads; set by the thread pool.
    on_request: RwLock<Option<Box<dyn Fn() + Send + Sync>>>,
}

#[derive(Default)]
pub struct State {
    pub stage: Stage,
    /// Number of the current request, so that an aborted request cannot be taken for the next one.
    pub request: u64,
    /// Deadline of the wait for replicas, ms since the Unix epoch.
    pub until_ms: i64,
    /// Clients blocked in SHUTDOWN.
    pub waiters: Vec<Arc<Waiter>>,
}

impl State {
    /// True while `request` waits for replicas.
    pub fn waits(&self, request: u64) -> bool {
        self.stage == Stage::WaitingForReplicas && self.request == request
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub enum Stage {
    #[default]
    Running,
    /// Requested by a signal.
    Scheduled,
    WaitingForReplicas,
    Started,
}

/// Options of a shutdown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ShutdownOptions {
    /// Whether to save a dump file; `None`: if save points are configured.
    pub save: Option<bool>,
    /// Do not wait for replicas.
    pub now: bool,
    /// Shut down even if saving fails, or although it is not safe.
    pub force: bool,
    /// Do not shut down while this node is a primary that owns slots, unless `force`.
    pub safe: bool,
    /// Let a replica that has everything take over first.
    pub failover: bool,
}

impl Shutdown {
    /// True once the loops must stop. Threads that end because of this are not restarted.
    #[inline]
    pub fn is_requested(&self) -> bool {
        self.stops.load(SeqCst)
    }

    /// True once the loops must stop, or will unless saving fails.
    #[inline]
    pub fn is_imminent(&self) -> bool {
        self.imminent.load(SeqCst) || self.is_requested()
    }

    /// Ends scripts and waits for the world; threads continue until [`Shutdown::request`]. False
    /// revokes it.
    pub fn set_imminent(&self, imminent: bool) {
        self.imminent.store(imminent, SeqCst);
    }

    /// Stops the loops.
    pub fn request(&self) {
        // Threads that are just starting see the flag; the others are woken.
        self.stops.store(true, SeqCst);
        if let Some(stop) = &*self.on_request.read() {
            stop();
        }
    }

    /// Calls `stop` when the loops must stop.
    pub fn on_request(&self, stop: impl Fn() + Send + Sync + 'static) {
        *self.on_request.write() = Some(Box::new(stop));
    }

    /// Requests a shutdown; false if one has already been requested.
    pub fn schedule(&self) -> bool {
        let mut state = self.state.lock();
        let is_first = state.stage == Stage::Running;
        if is_first {
            state.stage = Stage::Scheduled;
        }
        is_first
    }

    /// True if a shutdown has been requested and has not begun.
    pub fn is_scheduled(&self) -> bool {
        self.state.lock().stage == Stage::Scheduled
    }

    /// Enters `WaitingForReplicas` and returns the request's number; `None` if the stage is not
    /// `from`.
    pub fn wait(&self, from: Stage) -> Option<u64> {
        let mut state = self.state.lock();
        if state.stage != from {
            return None;
        }
        state.stage = Stage::WaitingForReplicas;
        state.request += 1;
        state.until_ms = i64::MAX;
        Some(state.request)
    }

    /// True while `request` waits for replicas.
    pub fn waits(&self, request: u64) -> bool {
        self.state.lock().waits(request)
    }

    /// Starts the shutdown; false if the request has been aborted.
    pub fn begin(&self, request: u64) -> bool {
        let mut state = self.state.lock();
        let may = state.waits(request);
        if may {
            state.stage = Stage::Started;
        }
        may
    }

    /// Milliseconds left for replicas to catch up, while the server waits for them.
    pub fn left_ms(&self, now_ms: i64) -> Option<i64> {
        let state = self.state.lock();
        (state.stage == Stage::WaitingForReplicas && state.until_ms < i64::MAX)
            .then(|| (state.until_ms - now_ms).max(0))
    }
}
