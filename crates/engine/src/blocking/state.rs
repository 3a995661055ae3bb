// SPDX-License-Identifier: BSD-3-Clause
//! State of waiting commands: the awaited keys, the request, and the waiters left to serve.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use braid_acl::user::User;
use braid_base::clock::Ticks;
use braid_clients::ClientRecord;
use braid_keyspace::Type;
use braid_keyspace::object::Object;
use braid_keyspace::reader::CowWatch;
use braid_keyspace::waiters;
use braid_resp::reply::Protocol;
use braid_spec::CommandError;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::durability::acknowledgements::Acknowledgements;

/// What a body wants to wait for.
pub struct Wait<'k> {
    /// The first of these keys that is filled serves.
    pub keys: &'k [&'k [u8]],
    pub kind: Type,
    /// When to give up, ms since the Unix epoch; 0 = never.
    pub deadline_ms: i64,
    /// The command runs again when a key is gone or holds another type, too.
    pub heeds_loss: bool,
    /// Running it again needs all keys of the command, not only those that were filled.
    pub needs_all_keys: bool,
    /// What is answered instead of waiting where waiting is not allowed.
    pub refusal: Refusal,
    /// Arguments to run the command again with, if not those given.
    pub args: Option<Vec<Box<[u8]>>>,
    /// What is answered when the time is over, or CLIENT UNBLOCK says so.
    pub timeout: TimeoutReply,
}

/// What a command that has waited long enough answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimeoutReply {
    NullArray,
    /// How many replicas or files have what the client has changed.
    Acknowledgements(Acknowledgements),
    /// The server does not end.
    ShutdownFailed,
    /// It does not wait for a time, and CLIENT UNBLOCK does not end it (`background.rs`).
    Never,
}

/// The empty answer of a command that may not wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    Null,
    NullArray,
}

impl<'k> Wait<'k> {
    /// A wait for the first of some keys to hold a value of a type.
    pub fn new(kind: Type, keys: &'k [&'k [u8]], deadline_ms: i64) -> Wait<'k> {
        Wait {
            keys,
            kind,
            deadline_ms,
            heeds_loss: false,
            needs_all_keys: false,
            refusal: Refusal::NullArray,
            args: None,
            timeout: TimeoutReply::NullArray,
        }
    }
}

/// A client's wait, with the command that waits.
pub(crate) type Waiter = waiters::Waiter<Request>;

/// Who waits for which key.
pub(crate) type WaitQueues = waiters::WaitQueues<Request>;

/// A command that waits, as its waiter keeps it.
pub(crate) struct Request {
    pub(crate) command: u32,
    pub(crate) args: Vec<Box<[u8]>>,
    pub(crate) needs_all_keys: bool,
    pub(crate) client: Arc<ClientRecord>,
    pub(crate) protocol: Protocol,
    pub(crate) no_touch: bool,
    /// Who waits, with the rights that it had in this generation.
    pub(crate) user: Arc<User>,
    pub(crate) generation: u64,
    /// Nanoseconds that it ran before it began to wait, and that were worked for it since.
    pub(crate) nanos: AtomicU64,
    pub(crate) timeout: TimeoutReply,
    /// What was computed for it, when it is to be run again.
    pub(crate) precomputed: Mutex<Option<Box<Precomputed>>>,
}

impl Request {
    pub(crate) fn args(&self) -> SmallVec<[&[u8]; 8]> {
        self.args.iter().map(|arg| &**arg).collect()
    }
}

/// A wait, as the client's session keeps it.
pub struct Blocked {
    pub(crate) waiter: Arc<Waiter>,
    /// When the wait ends by itself, ms since the Unix epoch; 0 = never.
    pub deadline_ms: i64,
    /// The client wants no reply to this command.
    pub(crate) silent: bool,
}

/// The part of a session that serves a waiting client.
pub struct Serving {
    pub(crate) waiter: Arc<Waiter>,
    pub(crate) claimed: bool,
}

/// A changed key whose waiters are still to be looked at.
pub(crate) struct Unserved {
    pub(crate) db: u32,
    pub(crate) key: Box<[u8]>,
    /// The first of them, if the keys of its command have to be locked for that.
    pub(crate) waiter: Option<Arc<Waiter>>,
}

/// What could not be done under the locks that were held.
#[derive(Default)]
pub(crate) struct Later {
    pub(crate) keys: Vec<Unserved>,
    /// Served clients that still stand in queues of other keys.
    pub(crate) served: Vec<Arc<Waiter>>,
}

/// What a command stores, computed in the background, and the watch over what it was computed of.
pub struct Precomputed {
    /// Ends the watch and frees the result, in the background: locks may be held where it is
    /// dropped.
    discard: Option<Discard>,
    pub(crate) watch: Option<CowWatch>,
    /// The value to be stored; nothing if it has to be computed again.
    pub(crate) result: Option<Computed>,
    /// When the command began to wait first.
    pub(crate) began: Ticks,
    pub(crate) tries: u32,
}

/// The value that a command stores, or why it stores none.
pub(crate) type Computed = Result<Object, CommandError>;

/// Ends the watch of a [`Precomputed`] and frees its result.
pub(crate) type Discard = Box<dyn FnOnce(Option<CowWatch>, Option<Computed>) + Send>;

impl Precomputed {
    /// Nothing computed yet, for a command that began to wait at `began`.
    pub(crate) fn new(began: Ticks, tries: u32, watch: Option<CowWatch>, discard: Discard) -> Precomputed {
        Precomputed { discard: Some(discard), watch, result: None, began, tries }
    }
}

impl Drop for Precomputed {
    fn drop(&mut self) {
        if let Some(discard) = self.discard.take() {
            discard(self.watch.take(), self.result.take());
        }
    }
}
