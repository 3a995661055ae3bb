// SPDX-License-Identifier: BSD-3-Clause
//! The interface through which a Lua VM calls the server that runs it.

use braid_resp::reply::ReplyBuffer;

/// The outcome of a command that a script called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Called {
    /// It ran, and its reply was written; the reply may be an error.
    Replied,
    /// It was refused before it ran; the error line was written as its reply.
    Refused,
    /// The run must end now and will be repeated in another way: its effects are discarded.
    Abandoned,
}

/// The host's verdict on a script that has been running for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Continue,
    /// Kill it.
    Kill,
    /// End it: the run will be repeated in another way.
    Abandon,
}

/// Levels of `redis.log`, least important first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    Debug,
    Verbose,
    Notice,
    Warning,
}

/// The server, as seen by a running script.
pub trait Host {
    /// Runs a command. Writes the reply to `reply`, in the protocol of `reply.protocol`.
    fn call(&mut self, args: &[&[u8]], reply: &mut ReplyBuffer) -> Called;

    /// Writes to the server's log.
    fn log(&mut self, level: Level, text: &[u8]);

    /// True if messages of this level are logged.
    fn logs(&self, level: Level) -> bool;

    /// True if the caller's user may run this command; `None` if there is no such command.
    fn may_call(&mut self, args: &[&[u8]]) -> Option<bool>;

    /// Sets where the effects of the following commands are replicated: bit 0 the append-only file,
    /// bit 1 the replicas.
    fn set_replication(&mut self, targets: u8);

    /// Called every 100,000 instructions, and every 20 ms once a run has lasted that long.
    fn interrupt(&mut self) -> Verdict;
}
