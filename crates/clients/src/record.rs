// SPDX-License-Identifier: BSD-3-Clause
//! A client's shared record: atomics that its owner keeps up cheaply, for all threads to read; and
//! the messages that its owner can be sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

use braid_keyspace::waiters::AnyWaiter;
use parking_lot::Mutex;

use crate::identity::{DEFAULT_USER, Identity};
use crate::mailbox::Mailbox;

/// What can be told to the loop that owns a client.
pub enum Message {
    /// Close this client.
    Kill(u64),
    /// A client's wait was ended before it was served.
    Unblock { id: u64, how: Unblocking },
    /// A client that waited was served: its reply, and where what was changed for it ends in the
    /// journal (0: nothing was).
    Served { id: u64, reply: Vec<u8>, written_to: u64 },
    /// What a client's waiting command stores has been computed: the command is to be run again.
    RunAgain(u64),
    /// There is something to be sent to a client that is a replica.
    Feed(u64),
    /// The pause is over, or shorter: look at postponed clients again.
    Resume,
    /// A connection for this loop.
    Accepted(Accepted),
    /// Settings that loops cache have changed.
    Reconfigure,
    /// Stop serving and end the thread.
    Stop,
}

impl Message {
    /// The client that it is about, if it is about one.
    pub fn client(&self) -> Option<u64> {
        match self {
            Message::Kill(id)
            | Message::Feed(id)
            | Message::Unblock { id, .. }
            | Message::RunAgain(id)
            | Message::Served { id, .. } => Some(*id),
            Message::Resume | Message::Accepted(_) | Message::Reconfigure | Message::Stop => None,
        }
    }
}

/// How a wait was ended before it was served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unblocking {
    /// As if its time was over.
    Timeout,
    /// By CLIENT UNBLOCK ... ERROR.
    Error,
    /// This server has become a replica.
    RoleChange,
}

/// A connection that was just accepted.
pub struct Accepted {
    pub socket: std::os::fd::OwnedFd,
    /// It came in where TLS is spoken.
    pub is_tls: bool,
    pub record: Arc<ClientRecord>,
}

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    /// A unix socket's path.
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

/// Bytes of replies that do not count towards `client-output-buffer-limit`.
pub const UNCOUNTED_REPLY: usize = 16 * 1024;
/// What exceeds them counts in steps of this many bytes: so much memory Redis takes at a time, and
/// limits are set by that.
const REPLY_STEP: usize = 20 * 1024;

/// What waits to be sent to a client beyond the first bytes, as limits count it and CLIENT LIST shows it.
pub fn counted_reply_bytes(bytes: usize) -> usize {
    bytes.saturating_sub(UNCOUNTED_REPLY).next_multiple_of(REPLY_STEP)
}

/// Texts of a client that change rarely.
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
    /// Never stored: told from the flag of the watched keys.
    pub const DIRTY_WATCH: u32 = 4;
    pub const CLOSE_AFTER_REPLY: u32 = 8;
    pub const CLOSE_NOW: u32 = 16;
    pub const UNIX_SOCKET: u32 = 32;
    pub const NO_EVICT: u32 = 64;
    pub const NO_TOUCH: u32 = 128;
    pub const PUBSUB: u32 = 256;
    pub const MONITOR: u32 = 512;
    pub const WATCHING: u32 = 1024;
    /// Held back by CLIENT PAUSE: set together with BLOCKED, but CLIENT UNBLOCK does not end it.
    pub const POSTPONED: u32 = 2048;
    pub const TRACKING: u32 = 4096;
    /// The client that invalidations are redirected to is gone.
    pub const TRACKING_BROKEN: u32 = 8192;
    pub const TRACKING_BCAST: u32 = 16384;
    /// It is not told of its own changes.
    pub const TRACKING_NOLOOP: u32 = 32768;
    /// It is fed as a replica.
    pub const REPLICA: u32 = 65536;
    /// It sees what is past its expiry while the server is in import mode.
    pub const IMPORT_SOURCE: u32 = 131_072;
    /// It is no client: the link to a primary, of which CLIENT LIST tells.
    pub const PRIMARY: u32 = 262_144;
}

/// What a blocked client waits for.
#[derive(Clone)]
pub struct Waiting {
    pub waiter: Arc<AnyWaiter>,
    pub has_deadline: bool,
    /// CLIENT UNBLOCK may end it.
    pub can_be_ended: bool,
}

/// The shared record of one client. Times are ms since the Unix epoch, sizes are bytes.
pub struct ClientRecord {
    pub id: u64,
    pub address: Address,
    pub local_address: Address,
    pub descriptor: i32,
    pub created_ms: i64,
    pub last_active_ms: AtomicI64,
    /// Command id + 1; 0 = none yet.
    pub last_command: AtomicU32,
    pub db: AtomicU32,
    pub flags: AtomicU32,
    /// 2 or 3.
    pub protocol: AtomicU8,
    /// It has said that it follows redirections (CLIENT CAPA).
    pub knows_redirect: AtomicBool,
    /// The loop that owns it. See [`ClientRecord::set_owner`].
    pub io_thread: AtomicU32,
    /// Commands executed or queued.
    pub commands: AtomicU64,
    pub net_in: AtomicU64,
    pub net_out: AtomicU64,
    pub query_bytes: AtomicUsize,
    pub query_free: AtomicUsize,
    pub argument_bytes: AtomicUsize,
    pub multi_bytes: AtomicUsize,
    /// Queued commands; -1 outside MULTI.
    pub multi_count: AtomicI64,
    pub watch_count: AtomicUsize,
    /// What it listens to.
    pub channels: AtomicU32,
    pub patterns: AtomicU32,
    pub shard_channels: AtomicU32,
    /// The client that its invalidations go to; 0 = itself, -1 = it does not track.
    pub redirect: AtomicI64,
    pub reply_bytes: AtomicUsize,
    pub reply_capacity: AtomicUsize,
    pub reply_list_len: AtomicUsize,
    pub total_bytes: AtomicUsize,
    pub authenticated: AtomicBool,
    pub texts: Mutex<Arc<ClientTexts>>,
    /// The user that it has logged in as; the default user if it has not.
    pub user: Mutex<Arc<Identity>>,
    /// Raised when a watched key has changed; there while keys are watched.
    pub watch_flag: Mutex<Option<Arc<AtomicBool>>>,
    /// What it waits for, if it is blocked.
    pub waiting: Mutex<Option<Waiting>>,
    /// Set once by the loop that owns it.
    mailbox: Mutex<Option<Arc<Mailbox<Message>>>>,
}

impl ClientRecord {
    /// The record of a connection that was just accepted.
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
            flags: AtomicU32::new(if unix { client_flags::UNIX_SOCKET } else { 0 }),
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
            authenticated: AtomicBool::new(false),
            texts: Mutex::default(),
            user: Mutex::new(Arc::new(Identity::new(0, DEFAULT_USER))),
            watch_flag: Mutex::new(None),
            waiting: Mutex::new(None),
            mailbox: Mutex::new(None),
        }
    }

    /// True if a watched key has changed, so that the client's transaction will not run.
    pub fn is_watch_dirty(&self) -> bool {
        self.watch_flag.lock().as_ref().is_some_and(|flag| flag.load(Relaxed))
    }

    /// True if the client sits on this machine: some directives and commands are for such clients only.
    pub fn is_local(&self) -> bool {
        match &self.address {
            Address::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Address::Unix(_) => true,
            // A connection of the process itself.
            Address::Unknown => self.descriptor < 0,
        }
    }

    /// True while it speaks RESP2, in which nothing tells messages from replies.
    pub fn speaks_resp2(&self) -> bool {
        self.protocol.load(Relaxed) != 3
    }

    /// Says that another loop owns the client from now on: what is pushed to it goes there. Its
    /// mailbox is said by [`ClientRecord::set_mailbox`] once the client has come there.
    pub fn set_owner(&self, slot: usize) {
        let _mailbox = self.mailbox.lock();
        self.io_thread.store(slot as u32, Relaxed);
    }

    /// Does something with the slot of the loop that owns the client, which stays the owner meanwhile.
    pub fn with_owner<R>(&self, work: impl FnOnce(usize) -> R) -> R {
        let _mailbox = self.mailbox.lock();
        work(self.io_thread.load(Relaxed) as usize)
    }

    /// Says which mailbox reaches the owner. Nothing is put into the old one any more when this returns.
    pub fn set_mailbox(&self, mailbox: &Arc<Mailbox<Message>>) {
        *self.mailbox.lock() = Some(Arc::clone(mailbox));
    }

    /// Leaves a message for the owner. False if the client has none yet.
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

    /// Sets or clears a flag; whether it was set.
    pub fn set_flag(&self, flag: u32, on: bool) -> bool {
        let before =
            if on { self.flags.fetch_or(flag, Relaxed) } else { self.flags.fetch_and(!flag, Relaxed) };
        before & flag != 0
    }

    /// Changes the texts.
    pub fn edit_texts(&self, edit: impl FnOnce(&mut ClientTexts)) {
        edit(Arc::make_mut(&mut self.texts.lock()));
    }
    /// Whether the client waits with a deadline.
    pub fn waits_until_deadline(&self) -> bool {
        self.waiting.lock().as_ref().is_some_and(|waiting| waiting.has_deadline)
    }

    /// Claims a wait of this client. True for the one caller who is responsible for the reply from now on.
    pub fn claim(&self, waiter: &AnyWaiter) -> bool {
        if !waiter.claim() {
            return false;
        }
        let mut waiting = self.waiting.lock();
        self.set_flag(client_flags::BLOCKED, false);
        *waiting = None;
        true
    }

    /// Ends the client's wait, if it waits: nobody serves it after this. The caller has to tell the
    /// client's loop.
    pub fn end_wait(&self) -> bool {
        let waiting = self.waiting.lock().clone();
        waiting.is_some_and(|waiting| self.claim(&waiting.waiter))
    }

    /// As [`ClientRecord::end_wait`], unless the client waits for a reply that it must get (CLIENT UNBLOCK).
    pub fn unblock(&self) -> bool {
        let waiting = self.waiting.lock().clone().filter(|waiting| waiting.can_be_ended);
        waiting.is_some_and(|waiting| self.claim(&waiting.waiter))
    }
}
