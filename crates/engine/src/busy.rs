//! Scripts that run for longer than `busy-reply-threshold`: who they are, and ending them.
//!
//! A script that runs alone, with the world stopped, keeps everybody else waiting. Once it is busy the other threads go on without
//! entering the gate, and answer everything with an error except the few commands that are allowed then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::Mutex;

use crate::error::{CommandError, CommandResult};

/// What is running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Script,
    Function,
}

impl Kind {
    /// The error that everybody else gets.
    pub fn busy_error(self) -> &'static str {
        match self {
            Kind::Script => {
                "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
            }
            Kind::Function => {
                "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
            }
        }
    }
}

/// A script that has been running for long.
pub struct Running {
    pub kind: Kind,
    /// Of the function, or the script's SHA-1.
    pub name: String,
    /// The request that runs it.
    pub command: Vec<Vec<u8>>,
    started: Instant,
    killed: AtomicBool,
    wrote: AtomicBool,
}

impl Running {
    /// A script that began at `started`.
    pub fn new(kind: Kind, name: &str, command: &[&[u8]], started: Instant) -> Running {
        Running {
            kind,
            name: name.to_owned(),
            command: command.iter().map(|arg| arg.to_vec()).collect(),
            started,
            killed: AtomicBool::new(false),
            wrote: AtomicBool::new(false),
        }
    }

    /// Milliseconds since it began.
    pub fn elapsed_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Somebody wants it to end.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Relaxed)
    }

    /// It has called a command that writes, so it can no longer be ended.
    pub fn note_write(&self) {
        self.wrote.store(true, Relaxed);
    }
}

/// The scripts that have been running for long.
#[derive(Default)]
pub struct Busy {
    running: Mutex<Vec<(Arc<Running>, bool)>>,
}

impl Busy {
    /// Notes a script; `alone` if nobody else can work meanwhile.
    pub fn begin(&self, running: Arc<Running>, alone: bool) {
        self.running.lock().push((running, alone));
    }

    /// It has ended.
    pub fn end(&self, running: &Arc<Running>) {
        self.running.lock().retain(|(other, _)| !Arc::ptr_eq(other, running));
    }

    /// The one that has been running for longest.
    pub fn current(&self) -> Option<Arc<Running>> {
        let all = self.running.lock();
        all.iter().map(|(running, _)| running).min_by_key(|running| running.started).cloned()
    }

    /// The error for commands that have to wait, while there is a script that nobody can work beside.
    pub fn error(&self) -> Option<CommandError> {
        let all = self.running.lock();
        let alone = all.iter().find(|(_, alone)| *alone)?;
        Some(CommandError::text(alone.0.kind.busy_error()))
    }

    /// The error for commands that have to wait because of any script, also one that others can work beside.
    pub fn any_error(&self) -> Option<CommandError> {
        self.current().map(|running| CommandError::text(running.kind.busy_error()))
    }

    /// Ends what is running, if it is of this kind and has not written.
    pub fn kill(&self, kind: Kind) -> CommandResult {
        let Some(running) = self.current() else {
            return Err(CommandError::text("NOTBUSY No scripts in execution right now."));
        };
        if running.wrote.load(Relaxed) {
            return Err(CommandError::text(
                "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait the \
                 script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.",
            ));
        }
        if running.kind != kind {
            return Err(CommandError::text(running.kind.busy_error()));
        }
        running.killed.store(true, Relaxed);
        Ok(())
    }
}
