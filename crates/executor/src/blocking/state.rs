// SPDX-License-Identifier: BSD-3-Clause
//! State of blocking commands: the awaited keys, the request, and the waiters still to be served.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use braid_acl::user::User;
use braid_base::clock::Ticks;
use braid_clients::ClientRecord;
use braid_clients::record::BlockedCommand;
use braid_keyspace::object::Object;
use braid_keyspace::reader::CowWatch;
use braid_keyspace::{Type, waiters};
use braid_resp::reply::Protocol;
use braid_spec::CommandError;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::durability::acknowledgements::Acknowledgements;

/// A wait requested by a body.
pub struct Wait<'k> {
    /// The first of these keys to be filled ends the wait.
    pub keys: &'k [&'k [u8]],
    pub kind: Type,
    /// When to give up, ms since the Unix epoch; 0 = never.
    pub deadline_ms: i64,
    /// The command also runs again when a key is deleted or changes its type.
    pub wakes_on_delete: bool,
    /// Running it again needs all keys of the command, not only the filled ones.
    pub needs_all_keys: bool,
    /// It may go on waiting for a key that is filled, since it needs more of it; others need not
    /// queue up behind it.
    pub may_be_overtaken: bool,
    /// The reply where waiting is not allowed.
    pub refusal: Refusal,
    /// Arguments to run the command again with, if not its own.
    pub args: Option<Vec<Box<[u8]>>>,
    /// The reply after the timeout or CLIENT UNBLOCK.
    pub timeout: TimeoutReply,
    /// The command may run again before its time is over, and then waits until this time (ms since
    /// the Unix epoch; 0 = forever).
    pub until_ms: Option<i64>,
}

/// The reply of a command whose wait has timed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeoutReply {
    NullArray,
    /// None: the command runs again, with [`Wait::args`]. CLIENT UNBLOCK replies with an empty
    /// array.
    RunAgain,
    /// The number of replicas or files that have the client's changes.
    Acknowledgements(Acknowledgements),
    /// The shutdown failed.
    ShutdownFailed,
    /// The wait has no timeout, and CLIENT UNBLOCK does not end it (`background.rs`).
    Never,
}

/// The empty reply of a command that may not wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    Null,
    NullArray,
}

impl<'k> Wait<'k> {
    /// A wait for the first of some keys to hold a value of the given type.
    pub fn new(kind: Type, keys: &'k [&'k [u8]], deadline_ms: i64) -> Wait<'k> {
        Wait {
            keys,
            kind,
            deadline_ms,
            wakes_on_delete: false,
            needs_all_keys: false,
            may_be_overtaken: false,
            refusal: Refusal::NullArray,
            args: None,
            timeout: TimeoutReply::NullArray,
            until_ms: None,
        }
    }
}

/// A client's wait with its blocked command.
pub(crate) type Waiter = waiters::Waiter<Request>;

/// The waiters of each key.
pub(crate) type WaitQueues = waiters::WaitQueues<Request>;

/// A blocked command as its waiter keeps it.
pub struct Request {
    pub(crate) command: u32,
    pub(crate) args: Vec<Box<[u8]>>,
    pub(crate) needs_all_keys: bool,
    pub(crate) may_be_overtaken: bool,
    pub(crate) client: Arc<ClientRecord>,
    pub(crate) protocol: Protocol,
    pub(crate) no_touch: bool,
    /// The waiting user, with the permissions of this generation.
    pub(crate) user: Arc<User>,
    pub(crate) generation: u64,
    /// Nanoseconds that the command ran before it blocked, plus background work since.
    pub(crate) nanos: AtomicU64,
    pub(crate) timeout: TimeoutReply,
    pub(crate) until_ms: Option<i64>,
    /// The result computed for the command, when it is to run again.
    pub(crate) precomputed: Mutex<Option<Box<Precomputed>>>,
}

impl Request {
    pub(crate) fn args(&self) -> SmallVec<[&[u8]; 8]> {
        self.args.iter().map(|arg| &**arg).collect()
    }
}

impl BlockedCommand for Request {
    fn command(&self) -> u32 {
        self.command
    }

    fn nanos(&self) -> u64 {
        self.nanos.load(Relaxed)
    }
}

/// A wait as the client's session keeps it.
pub struct Blocked {
    pub waiter: Arc<Waiter>,
    /// When the wait ends by itself, ms since the Unix epoch; 0 = never.
    pub deadline_ms: i64,
    /// The client wants no reply to this command.
    pub(crate) silent: bool,
}

/// The part of a session that is set while it serves a waiting client.
pub struct Serving {
    pub(crate) waiter: Arc<Waiter>,
    pub(crate) claimed: bool,
}

/// A changed key whose waiters have not been served yet.
pub(crate) struct Unserved {
    pub(crate) db: u32,
    pub(crate) key: Box<[u8]>,
    /// The first waiter, if all keys of its command must be locked to serve it.
    pub(crate) waiter: Option<Arc<Waiter>>,
}

/// Work that could not be done under the held locks.
#[derive(Default)]
pub(crate) struct Later {
    pub(crate) keys: Vec<Unserved>,
    /// Served clients still queued for other keys.
    pub(crate) served: Vec<Arc<Waiter>>,
    /// Clients closed before others were served, not logged yet.
    pub(crate) evicted: Vec<Arc<ClientRecord>>,
}

/// A result computed in the background for a command that stores it, with the watch over its
/// source keys.
pub struct Precomputed {
    /// Ends the watch and frees the result, in the background, because locks may be held at the
    /// drop.
    discard: Option<Discard>,
    pub(crate) watch: Option<CowWatch>,
    /// The value to store; `None` if it must be computed again.
    pub(crate) result: Option<Computed>,
    /// What else was found, for the command to judge.
    pub(crate) findings: Option<Findings>,
    /// When the command first began to wait.
    pub(crate) began: Ticks,
    pub(crate) tries: u32,
}

/// What a search has found for a command; of a type that the command knows.
pub type Findings = Box<dyn Any + Send>;

/// The value to store, or the error why there is none.
pub(crate) type Computed = Result<Object, CommandError>;

/// Ends the watch of a [`Precomputed`] and frees its result.
pub(crate) type Discard = Box<dyn FnOnce(Option<CowWatch>, Option<Computed>) + Send>;

impl Precomputed {
    /// An empty result for a command that began to wait at `began`.
    pub(crate) fn new(began: Ticks, tries: u32, watch: Option<CowWatch>, discard: Discard) -> Precomputed {
        Precomputed { discard: Some(discard), watch, result: None, findings: None, began, tries }
    }
}

impl Drop for Precomputed {
    fn drop(&mut self) {
        if let Some(discard) = self.discard.take() {
            discard(self.watch.take(), self.result.take());
        }
    }
}
