// SPDX-License-Identifier: BSD-3-Clause
//! Client record: atomics updated by the owner and readable by all threads, and messages to the
//! owner.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize};

use braid_base::sync::{self, Fault, planted};
use braid_keyspace::waiters::Waiter;
use parking_lot::Mutex;

use crate::identity::{DEFAULT_USER, Identity};
use crate::mailbox::Mailbox;

/// Messages to the loop that owns a client.
pub enum Message {
    /// Close this client.
    Kill(u64),
    /// A client's wait ended without being served.
    Unblock { id: u64, how: Unblocking },
    /// A blocked client was served: its reply, and the journal offset of the changes (0 means
    /// none).
    Served { id: u64, reply: Vec<u8>, written_to: u64 },
    /// A precomputed result is ready: run the command again.
    RunAgain(u64),
    /// Slots are no longer served here: end the client's subscriptions to their shard channels.
    LeaveSlots(u64),
    /// A replica has data to send.
    Feed(u64),
    /// A pause has ended or become shorter: recheck postponed clients.
    Resume,
    /// A new connection for this loop.
    Accepted(Accepted),
    /// Ask the replicas for acknowledgements.
    AskReplicas,
    /// Settings that loops cache have changed.
    Reconfigure,
    /// Stop serving and end the thread.
    Stop,
}

impl Message {
    /// The client concerned, if any.
    pub fn client(&self) -> Option<u64> {
        match self {
            Message::Kill(id)
            | Message::Feed(id)
            | Message::Unblock { id, .. }
            | Message::RunAgain(id)
            | Message::LeaveSlots(id)
            | Message::Served { id, .. } => Some(*id),
            Message::Resume
            | Message::Accepted(_)
            | Message::AskReplicas
            | Message::Reconfigure
            | Message::Stop => None,
        }
    }
}

/// How a wait ended without being served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unblocking {
    /// As if by its timeout.
    Timeout,
    /// CLIENT UNBLOCK ... ERROR.
    Error,
    /// This server has become a replica.
    RoleChange,
    /// The same, for a client that is redirected to the primary.
    Redirect,
}

/// A newly accepted connection.
pub struct Accepted {
    pub socket: std::os::fd::OwnedFd,
    /// Accepted on a TLS port.
    pub is_tls: bool,
    pub record: Arc<ClientRecord>,
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    /// Path of a Unix socket.
    Unix(Arc<str>),
    Unknown,
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Tcp(SocketAddr::V4(address)) => write!(f, "{address}"),
            Address::Tcp(SocketAddr::V6(address)) => match address.ip().to_ipv4_mapped() {
                Some(v4) => write!(f, "{v4}:{}", address.port()),
                None => write!(f, "[{}]:{}", address.ip(), address.port()),
            },
            Address::Unix(path) => write!(f, "{path}:0"),
            Address::Unknown => write!(f, "?:0"),
        }
    }
}

/// Reply bytes that do not count towards `client-output-buffer-limit`.
pub const UNCOUNTED_REPLY: usize = 16 * 1024;
/// Bytes beyond that count in steps of this size: Redis allocates in such steps, and limits are
/// tuned to that.
const REPLY_STEP: usize = 20 * 1024;

/// Unsent reply bytes beyond the first [`UNCOUNTED_REPLY`], as counted by limits and shown by
/// CLIENT LIST.
pub fn counted_reply_bytes(bytes: usize) -> usize {
    bytes.saturating_sub(UNCOUNTED_REPLY).next_multiple_of(REPLY_STEP)
}

/// Texts that rarely change.
#[derive(Default, Clone)]
pub struct ClientTexts {
    pub name: Vec<u8>,
    pub lib_name: Vec<u8>,
    pub lib_ver: Vec<u8>,
}

/// Flags of a client record.
pub mod client_flags {
    pub const MULTI: u32 = 1;
    pub const BLOCKED: u32 = 2;
    /// Never stored: derived from the watch flag.
    pub const DIRTY_WATCH: u32 = 4;
    pub const CLOSE_AFTER_REPLY: u32 = 8;
    pub const CLOSE_NOW: u32 = 16;
    pub const UNIX_SOCKET: u32 = 32;
    pub const NO_EVICT: u32 = 64;
    pub const NO_TOUCH: u32 = 128;
    pub const PUBSUB: u32 = 256;
    pub const MONITOR: u32 = 512;
    pub const WATCHING: u32 = 1024;
    /// Paused by CLIENT PAUSE: set together with BLOCKED, but CLIENT UNBLOCK does not end it.
    pub const POSTPONED: u32 = 2048;
    pub const TRACKING: u32 = 4096;
    /// The target of redirected invalidations is gone.
    pub const TRACKING_BROKEN: u32 = 8192;
    pub const TRACKING_BCAST: u32 = 16384;
    /// The client gets no invalidations for its own changes.
    pub const TRACKING_NOLOOP: u32 = 32768;
    /// The client is a replica.
    pub const REPLICA: u32 = 65536;
    /// The client sees expired keys while the server is in import mode.
    pub const IMPORT_SOURCE: u32 = 131_072;
    /// The link to a primary, shown as a client by CLIENT LIST.
    pub const PRIMARY: u32 = 262_144;
    /// The client reads from a replica (READONLY) although it supports redirections.
    pub const READS_REPLICA: u32 = 524_288;
    /// The client connected from one of `priority-subnets`.
    pub const PRIORITY: u32 = 1_048_576;
}

/// What a record knows of the command with which its client waits.
pub trait BlockedCommand: Send + Sync {
    /// Its ID in the command table.
    fn command(&self) -> u32;
    /// Nanoseconds that it has run so far.
    fn nanos(&self) -> u64;
}

/// A waiter with a blocked command, whatever else its request has.
pub type BlockedWaiter = Waiter<dyn BlockedCommand>;

/// The wait of a blocked client.
#[derive(Clone)]
pub struct Waiting {
    pub waiter: Arc<BlockedWaiter>,
    pub has_deadline: bool,
    /// CLIENT UNBLOCK may end the wait.
    pub can_be_ended: bool,
}

/// A client's record. Times are in ms since the Unix epoch, sizes in bytes.
pub struct ClientRecord {
    pub id: u64,
    pub address: Address,
    pub local_address: Address,
    pub descriptor: i32,
    pub created_ms: i64,
    pub last_active_ms: AtomicI64,
    /// Command ID + 1; 0 means none yet.
    pub last_command: AtomicU32,
    pub db: AtomicU32,
    pub flags: sync::atomic::AtomicU32,
    /// 2 or 3.
    pub protocol: AtomicU8,
    /// The client supports redirections (CLIENT CAPA).
    pub knows_redirect: AtomicBool,
    /// The owning loop. See [`ClientRecord::set_owner`].
    pub io_thread: AtomicU32,
    /// Commands executed or queued.
    pub commands: AtomicU64,
    pub net_in: AtomicU64,
    pub net_out: AtomicU64,
    pub query_bytes: AtomicUsize,
    pub query_free: AtomicUsize,
    pub argument_bytes: AtomicUsize,
    pub multi_bytes: AtomicUsize,
    /// Number of queued commands; -1 outside MULTI.
    pub multi_count: AtomicI64,
    pub watch_count: AtomicUsize,
    /// Number of subscriptions.
    pub channels: AtomicU32,
    pub patterns: AtomicU32,
    pub shard_channels: AtomicU32,
    /// Target of the client's invalidations; 0 means the client itself, -1 means not tracking.
    pub redirect: AtomicI64,
    pub reply_bytes: AtomicUsize,
    pub reply_capacity: AtomicUsize,
    pub reply_list_len: AtomicUsize,
    pub total_bytes: AtomicUsize,
    /// The part of `total_bytes` that is in the sum of all clients.
    counted_bytes: AtomicI64,
    pub authenticated: AtomicBool,
    pub texts: Mutex<Arc<ClientTexts>>,
    /// The client's user; the default user before log-in.
    pub user: Mutex<Arc<Identity>>,
    /// Set to true when a watched key has changed; present while keys are watched.
    pub watch_flag: Mutex<Option<Arc<AtomicBool>>>,
    /// The client's wait, while blocked. See [`ClientRecord::begin_wait`].
    waiting: sync::Mutex<Option<Waiting>>,
    /// The owner's mailbox; `None` until a loop is assigned.
    mailbox: Mutex<Option<Arc<Mailbox<Message>>>>,
}

impl ClientRecord {
    /// The record of a new connection.
    pub fn new(
        id: u64,
        descriptor: i32,
        address: Address,
        local_address: Address,
        now_ms: i64,
    ) -> ClientRecord {
        let unix = matches!(local_address, Address::Unix(_));
        ClientRecord {
            id,
            address,
            local_address,
            descriptor,
            created_ms: now_ms,
            last_active_ms: AtomicI64::new(now_ms),
            last_command: AtomicU32::new(0),
            db: AtomicU32::new(0),
            flags: sync::atomic::AtomicU32::new(if unix { client_flags::UNIX_SOCKET } else { 0 }),
            protocol: AtomicU8::new(2),
            knows_redirect: AtomicBool::new(false),
            io_thread: AtomicU32::new(0),
            commands: AtomicU64::new(0),
            net_in: AtomicU64::new(0),
            net_out: AtomicU64::new(0),
            query_bytes: AtomicUsize::new(0),
            query_free: AtomicUsize::new(0),
            argument_bytes: AtomicUsize::new(0),
            multi_bytes: AtomicUsize::new(0),
            multi_count: AtomicI64::new(-1),
            watch_count: AtomicUsize::new(0),
            channels: AtomicU32::new(0),
            patterns: AtomicU32::new(0),
            shard_channels: AtomicU32::new(0),
            redirect: AtomicI64::new(-1),
            reply_bytes: AtomicUsize::new(0),
            reply_capacity: AtomicUsize::new(0),
            reply_list_len: AtomicUsize::new(0),
            total_bytes: AtomicUsize::new(0),
            counted_bytes: AtomicI64::new(0),
            authenticated: AtomicBool::new(false),
            texts: Mutex::default(),
            user: Mutex::new(Arc::new(Identity::new(0, DEFAULT_USER))),
            watch_flag: Mutex::new(None),
            waiting: sync::Mutex::new(None),
            mailbox: Mutex::new(None),
        }
    }

    /// True if a watched key has changed, so that EXEC will fail.
    pub fn is_watch_dirty(&self) -> bool {
        self.watch_flag.lock().as_ref().is_some_and(|flag| flag.load(Relaxed))
    }

    /// True for clients on this machine, as required by some directives and commands.
    pub fn is_local(&self) -> bool {
        match &self.address {
            Address::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Address::Unix(_) => true,
            // A connection from the process itself.
            Address::Unknown => self.descriptor < 0,
        }
    }

    /// True for RESP2, which cannot distinguish messages from replies.
    pub fn speaks_resp2(&self) -> bool {
        self.protocol.load(Relaxed) != 3
    }

    /// Makes another loop the owner: pushes go there from now on. [`ClientRecord::set_mailbox`]
    /// follows once the client has arrived.
    pub fn set_owner(&self, slot: usize) {
        let _mailbox = self.mailbox.lock();
        self.io_thread.store(slot as u32, Relaxed);
    }

    /// Calls `work` with the owner's slot; the owner cannot change meanwhile.
    pub fn with_owner<R>(&self, work: impl FnOnce(usize) -> R) -> R {
        let _mailbox = self.mailbox.lock();
        work(self.io_thread.load(Relaxed) as usize)
    }

    /// Sets the owner's mailbox. Once this returns, nothing more is posted to the old one.
    pub fn set_mailbox(&self, mailbox: &Arc<Mailbox<Message>>) {
        *self.mailbox.lock() = Some(Arc::clone(mailbox));
    }

    /// Posts a message to the owner. False if the client has no owner yet.
    pub fn send(&self, message: Message) -> bool {
        match &*self.mailbox.lock() {
            Some(mailbox) => {
                mailbox.send(message);
                true
            }
            None => false,
        }
    }

    /// True if a flag is set.
    pub fn has(&self, flag: u32) -> bool {
        self.flags.load(Relaxed) & flag != 0
    }

    /// Sets or clears a flag. Returns its old value.
    pub fn set_flag(&self, flag: u32, on: bool) -> bool {
        let before =
            if on { self.flags.fetch_or(flag, Relaxed) } else { self.flags.fetch_and(!flag, Relaxed) };
        before & flag != 0
    }

    /// Edits the texts.
    pub fn edit_texts(&self, edit: impl FnOnce(&mut ClientTexts)) {
        edit(Arc::make_mut(&mut self.texts.lock()));
    }

    /// Counts this many bytes for the client in `all`, the sum of all clients.
    pub fn count_bytes(&self, bytes: i64, all: &AtomicI64) {
        if self.counted_bytes.load(Relaxed) != bytes {
            let before = self.counted_bytes.swap(bytes, Relaxed);
            all.fetch_add(bytes - before, Relaxed);
        }
    }

    /// Makes a wait known to other threads. The caller holds the locks of all awaited keys. The
    /// wait of a client that is to be closed has ended already: another thread may have closed it
    /// while this command ran, and found no wait to end.
    pub fn begin_wait(&self, wait: Waiting) {
        let waiter = Arc::clone(&wait.waiter);
        *sync::lock(&self.waiting) = Some(wait);
        if !planted(Fault::ClosedClientWaits) && self.has(client_flags::CLOSE_NOW) {
            self.claim(&waiter);
        }
    }

    /// Makes the wait visible, unless it has ended meanwhile.
    pub fn show_wait(&self) {
        let waiting = sync::lock(&self.waiting);
        if waiting.is_some() {
            self.set_flag(client_flags::BLOCKED, true);
        }
    }

    /// True if the client waits with a deadline.
    pub fn waits_until_deadline(&self) -> bool {
        sync::lock(&self.waiting).as_ref().is_some_and(|waiting| waiting.has_deadline)
    }

    /// Claims a wait of this client. True for the one caller that must reply.
    pub fn claim(&self, waiter: &BlockedWaiter) -> bool {
        if !waiter.claim() {
            return false;
        }
        let mut waiting = sync::lock(&self.waiting);
        self.set_flag(client_flags::BLOCKED, false);
        *waiting = None;
        true
    }

    /// Ends the client's wait, if any, without serving it. The caller must notify the client's
    /// loop.
    pub fn end_wait(&self) -> bool {
        let waiting = sync::lock(&self.waiting).clone();
        waiting.is_some_and(|waiting| self.claim(&waiting.waiter))
    }

    /// As [`ClientRecord::end_wait`], except for a wait that must get its reply (CLIENT UNBLOCK).
    /// Returns the ended wait.
    pub fn unblock(&self) -> Option<Arc<BlockedWaiter>> {
        let waiting = sync::lock(&self.waiting).clone().filter(|waiting| waiting.can_be_ended)?;
        self.claim(&waiting.waiter).then_some(waiting.waiter)
    }
}
