// SPDX-License-Identifier: BSD-3-Clause
//! The interface through which a Lua VM calls the server that runs it.

use braid_resp::reply::ReplyBuffer;

/// How a command that a script called has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Called {
    /// It has run; its reply (an error reply, maybe) was written.
    Replied,
    /// It was refused before it ran; the error line was written as its reply.
    Refused,
    /// The run must end now and is repeated in another way: nothing of it counts.
    Abandoned,
}

/// The host's verdict on a script that has been running for a while.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Continue,
    /// Kill it.
    Kill,
    /// End it: the run is repeated in another way.
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

/// The server, as a running script sees it.
pub trait Host {
    /// Runs a command. The reply goes to `reply`, in the protocol that `reply.protocol` says.
    fn call(&mut self, args: &[&[u8]], reply: &mut ReplyBuffer) -> Called;

    /// Writes to the server's log.
    fn log(&mut self, level: Level, text: &[u8]);

    /// True if lines of this level are logged at all.
    fn logs(&self, level: Level) -> bool;

    /// Whether the caller's user may run this command; nothing if there is no such command.
    fn may_call(&mut self, args: &[&[u8]]) -> Option<bool>;

    /// Which copies of the data set the effects of the following commands go to: bit 0 the
    /// append-only file, bit 1 the replicas.
    fn set_replication(&mut self, targets: u8);

    /// Asked every 100,000 instructions, and every 20 ms once a run has lasted for that long.
    fn interrupt(&mut self) -> Verdict;
}
