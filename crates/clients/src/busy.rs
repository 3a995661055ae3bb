// SPDX-License-Identifier: BSD-3-Clause
//! Long-running scripts: their state, and killing them.
//!
//! A run becomes *visible* after some milliseconds: from then on, SCRIPT KILL, FUNCTION KILL and
//! FUNCTION STATS see it on every thread. A run with the world stopped blocks all other threads:
//! they continue outside the gate and run the few commands that are allowed there. Other requests
//! are held back until `busy-reply-threshold`, when the run becomes *busy* and they get an error.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use parking_lot::Mutex;

use braid_spec::{CommandError, CommandResult};

/// Kind of the running script.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScriptKind {
    Script,
    Function,
}

impl ScriptKind {
    /// The error for all other clients.
    pub fn busy_error(self) -> &'static str {
        match self {
            ScriptKind::Script => {
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
            }
            ScriptKind::Function => {
                "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
            }
        }
    }
}

/// A visible run.
pub struct Running {
    pub kind: ScriptKind,
    /// The function's name, or the script's SHA-1.
    pub name: String,
    /// The request that started the run.
    pub command: Vec<Vec<u8>>,
    started: Instant,
    killed: AtomicBool,
    wrote: AtomicBool,
    /// The run has lasted for `busy-reply-threshold`.
    busy: AtomicBool,
    /// The run has stopped the world.
    alone: AtomicBool,
}

impl Running {
    /// A run that started at `started`.
    pub fn new(kind: ScriptKind, name: &str, command: &[&[u8]], started: Instant) -> Running {
        Running {
            kind,
            name: name.to_owned(),
            command: command.iter().map(|arg| arg.to_vec()).collect(),
            started,
            killed: AtomicBool::new(false),
            wrote: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            alone: AtomicBool::new(false),
        }
    }

    /// Milliseconds since the start of the run.
    pub fn elapsed_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// True if a kill was requested.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Relaxed)
    }

    /// Marks the run as busy: waiting requests get an error from now on.
    pub fn set_busy(&self) {
        self.busy.store(true, Relaxed);
    }

    /// True if the run has lasted for `busy-reply-threshold`.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Relaxed)
    }

    /// Marks the run as one that has stopped the world.
    pub fn set_alone(&self) {
        self.alone.store(true, Relaxed);
    }

    /// Records a write, after which the run can no longer be killed.
    pub fn note_write(&self) {
        self.wrote.store(true, Relaxed);
    }
}

/// The visible runs.
#[derive(Default)]
pub struct Busy {
    running: Mutex<Vec<Arc<Running>>>,
}

impl Busy {
    /// Makes a run visible.
    pub fn begin(&self, running: Arc<Running>) {
        self.running.lock().push(running);
    }

    /// Removes a run that has ended.
    pub fn end(&self, running: &Arc<Running>) {
        self.running.lock().retain(|other| !Arc::ptr_eq(other, running));
    }

    /// The error for other commands while a busy script has stopped the world.
    pub fn error(&self) -> Option<CommandError> {
        self.error_of(|running| running.alone.load(Relaxed))
    }

    /// The error for commands that wait for any busy script, even one that runs concurrently with
    /// other commands.
    pub fn any_error(&self) -> Option<CommandError> {
        self.error_of(|_| true)
    }

    fn error_of(&self, counts: impl Fn(&Running) -> bool) -> Option<CommandError> {
        let all = self.running.lock();
        let running = all.iter().find(|running| running.is_busy() && counts(running))?;
        Some(CommandError::text(running.kind.busy_error()))
    }

    /// True if any run is visible. Requests held back resume when the run ends or becomes busy.
    pub fn is_any(&self) -> bool {
        !self.running.lock().is_empty()
    }

    /// The longest-running script of this kind.
    pub fn current_of(&self, kind: ScriptKind) -> Option<Arc<Running>> {
        let all = self.running.lock();
        all.iter().filter(|running| running.kind == kind).min_by_key(|running| running.started).cloned()
    }

    /// Kills all runs, even those that have written, because the server exits without saving.
    pub fn kill_all(&self) {
        self.running.lock().iter().for_each(|running| running.killed.store(true, Relaxed));
    }

    /// Kills the longest run of this kind that has not written.
    ///
    /// # Errors
    /// NOTBUSY if no script runs, UNKILLABLE if it has written, and BUSY if the one that runs is of
    /// another kind.
    pub fn kill(&self, kind: ScriptKind) -> CommandResult {
        let all = self.running.lock();
        let of_kind = || all.iter().filter(|running| running.kind == kind);
        let victim = of_kind()
            .filter(|running| !running.wrote.load(Relaxed) && !running.is_killed())
            .min_by_key(|running| running.started)
            .or_else(|| of_kind().find(|running| running.is_killed()));
        if let Some(victim) = victim {
            victim.killed.store(true, Relaxed);
            return Ok(());
        }
        Err(CommandError::text(match all.first() {
            None => "NOTBUSY No scripts in execution right now.",
            Some(_) if of_kind().next().is_some() => {
                "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the \
                 script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command."
            }
            Some(other) => other.kind.busy_error(),
        }))
    }
}
