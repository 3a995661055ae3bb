// SPDX-License-Identifier: BSD-3-Clause
//! A session: what a client's commands can see and change of the client itself. Owned by the thread
//! that serves it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use crate::blocking::state::{Blocked, Later, Precomputed, Serving};
use crate::transaction::Queue;
use braid_acl::Acl;
use braid_acl::user::User;
use braid_clients::attention::Attention;
use braid_clients::{ClientRecord, client_flags};
use braid_keyspace::Keyspace;
use braid_notify::tracking::Trackers;
use braid_notify::{Hub, Listener, SubscriptionKind, Tracking};
use braid_replication::{Replica, ReplicaOptions};
use braid_telemetry::monitor;

/// What becomes of replies (CLIENT REPLY).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ReplyMode {
    #[default]
    On,
    Off,
    /// The next command's reply is dropped.
    SkipNext,
    /// This command's reply is dropped.
    Skip,
}

/// What of a session needs more than the usual checks, as bits of one word that is read once per command.
pub mod session_attention {
    /// Replies are off, or this one or the next is skipped.
    pub const REPLIES: u16 = 1;
    /// It listens to channels or patterns.
    pub const LISTENS: u16 = 2;
    /// Reads do not mark keys as used.
    pub const NO_TOUCH: u16 = 4;
    /// It is told of every command.
    pub const MONITORS: u16 = 8;
    /// It tracks what it reads.
    pub const TRACKS: u16 = 16;
    /// Its present command is to be run under its locks, though it could do without.
    pub const LOCKS: u16 = 32;
    /// It is fed as a replica.
    pub const FED: u16 = 64;
    /// It is a source of what is imported.
    pub const IMPORTS: u16 = 128;
    /// Its present command runs again, with a result that was computed in the background.
    pub const RUNS_AGAIN: u16 = 256;
}

/// A watched key. If it was past its expiry when the watch began it was removed then.
pub struct Watched {
    pub db: u32,
    pub key: Box<[u8]>,
}

/// State of one client.
pub struct Session {
    pub record: Arc<ClientRecord>,
    pub db: u32,
    /// It need not log in any more.
    pub authenticated: bool,
    /// Who it is, with the rights that it had in this generation of users (`attention.rs`).
    pub user: Arc<User>,
    pub(crate) generation: u64,
    /// The attention word under which its commands need no particular checks; [`Session::NEVER`] if
    /// there is none.
    pub(crate) calm: u64,
    /// Bits of [`session_attention`], kept by [`Session::settle_attention`].
    pub attention: u16,
    /// Set with [`Session::set_reply_mode`].
    pub reply_mode: ReplyMode,
    /// Commands queued since MULTI.
    pub queue: Option<Box<Queue>>,
    pub watched: Vec<Watched>,
    /// Raised by whoever changes a watched key.
    pub watch_flag: Arc<AtomicBool>,
    /// CLIENT NO-TOUCH. Followed by [`Session::settle_attention`].
    pub no_touch: bool,
    /// CLIENT IMPORT-SOURCE. Set with [`Session::set_import_source`].
    pub import_source: bool,
    /// What it is sent without asking.
    pub listener: Listener,
    /// What it has said about itself as a replica, before it became one; and what it is since.
    pub replica_options: Option<Box<ReplicaOptions>>,
    pub replica: Option<Arc<Replica>>,
    /// CLIENT NO-EVICT.
    pub no_evict: bool,
    /// A script of it is running.
    pub in_script: bool,
    /// What a script has caused and needs other locks than its run's.
    pub(crate) later: Option<Box<Later>>,
    /// Memory was above the limit, and nothing could be evicted, when the present command was checked.
    pub out_of_memory: bool,
    /// It has changed something since replies were last sent. Kept while changes are journalled.
    pub has_written: bool,
    /// Where its own last change ends in the journal.
    pub written_to: u64,
    /// Close the connection when the pending replies are sent.
    pub close_after_reply: bool,
    /// Its command waits: nothing else of it is executed until it is answered.
    pub blocked: Option<Box<Blocked>>,
    /// Commands may not wait: they run within something that must not be interrupted.
    pub deny_blocking: bool,
    /// What its present command stores, computed in the background (`background.rs`).
    pub(crate) precomputed: Option<Box<Precomputed>>,
    /// Not the client's own session but one that stands in for it, while another thread runs its command.
    pub(crate) serving: Option<Serving>,
}

impl Session {
    /// No attention word has all state bits set.
    const NEVER: u64 = u64::MAX;

    /// A fresh session.
    pub fn new(record: Arc<ClientRecord>, attention: &Attention, acl: &Acl) -> Session {
        let generation = attention.generation();
        let user = acl.default_user();
        let authenticated = user.is_open();
        let mut session = Session::of_user(record, user);
        let user = Arc::clone(&session.user);
        session.take_user(user, authenticated, generation);
        session
    }

    fn of_user(record: Arc<ClientRecord>, user: Arc<User>) -> Session {
        Session {
            listener: Listener::new(Arc::clone(&record)),
            record,
            db: 0,
            authenticated: false,
            user,
            generation: 0,
            calm: Session::NEVER,
            attention: 0,
            reply_mode: ReplyMode::On,
            queue: None,
            watched: Vec::new(),
            watch_flag: Arc::new(AtomicBool::new(false)),
            no_touch: false,
            import_source: false,
            has_written: false,
            written_to: 0,
            replica_options: None,
            replica: None,
            no_evict: false,
            in_script: false,
            later: None,
            out_of_memory: false,
            close_after_reply: false,
            blocked: None,
            deny_blocking: false,
            precomputed: None,
            serving: None,
        }
    }

    /// A session that stands in for a client's own while it is served.
    pub(crate) fn serving(
        record: &Arc<ClientRecord>,
        user: &Arc<User>,
        db: u32,
        no_touch: bool,
        serving: Serving,
    ) -> Session {
        let mut session = Session::of_user(Arc::clone(record), Arc::clone(user));
        (session.db, session.no_touch, session.serving) = (db, no_touch, Some(serving));
        session
    }

    /// The client's id.
    pub fn id(&self) -> u64 {
        self.record.id
    }

    /// Chooses a database.
    pub fn select(&mut self, db: u32) {
        self.db = db;
        self.record.db.store(db, Relaxed);
    }

    /// Becomes a user, with the rights of a generation.
    pub(crate) fn take_user(&mut self, user: Arc<User>, authenticated: bool, generation: u64) {
        self.authenticated = authenticated;
        self.generation = generation;
        self.calm = if authenticated && user.is_unrestricted() { generation } else { Session::NEVER };
        self.record.authenticated.store(authenticated, Relaxed);
        *self.record.user.lock() = Arc::clone(&user.identity);
        self.user = user;
    }

    /// Says what becomes of replies.
    pub fn set_reply_mode(&mut self, mode: ReplyMode) {
        self.reply_mode = mode;
        self.settle_attention();
    }

    /// To be called when something has changed that checks before commands have to know of.
    pub fn settle_attention(&mut self) {
        let bit = |on: bool, bit: u16| if on { bit } else { 0 };
        self.attention = bit(self.reply_mode != ReplyMode::On, session_attention::REPLIES)
            | bit(self.listener.subscriptions.is_some(), session_attention::LISTENS)
            | bit(self.no_touch, session_attention::NO_TOUCH)
            | bit(self.record.has(client_flags::MONITOR), session_attention::MONITORS)
            | bit(self.listener.tracking.is_some(), session_attention::TRACKS)
            | bit(self.replica.is_some(), session_attention::FED)
            | bit(self.import_source, session_attention::IMPORTS)
            | bit(self.precomputed.is_some(), session_attention::RUNS_AGAIN);
    }

    /// Gives its next command the result that was computed for it.
    pub fn set_precomputed(&mut self, precomputed: Box<Precomputed>) {
        self.precomputed = Some(precomputed);
        self.settle_attention();
    }

    /// Forgets what was computed for a command that has ended.
    pub(crate) fn forget_precomputed(&mut self) {
        if self.precomputed.take().is_some() {
            self.settle_attention();
        }
    }

    /// Lets the client see keys past their expiry while the server is in import mode, or not
    /// (CLIENT IMPORT-SOURCE).
    pub fn set_import_source(&mut self, on: bool) {
        self.import_source = on;
        self.record.set_flag(client_flags::IMPORT_SOURCE, on);
        self.settle_attention();
    }

    /// True if things are sent to it that it has not asked for.
    pub fn hears(&self) -> bool {
        self.attention
            & (session_attention::LISTENS | session_attention::MONITORS | session_attention::TRACKS)
            != 0
    }

    /// Lets the client listen to a channel or pattern. Returns how many subscriptions it has then.
    pub fn subscribe(&mut self, hub: &Hub, kind: SubscriptionKind, name: &[u8]) -> usize {
        let count = hub.subscribe(&mut self.listener, kind, name);
        self.settle_attention();
        count
    }

    /// Ends a subscription. Returns how many the client has left.
    pub fn unsubscribe(&mut self, hub: &Hub, kind: SubscriptionKind, name: &[u8]) -> usize {
        let count = hub.unsubscribe(&mut self.listener, kind, name);
        self.settle_attention();
        count
    }

    /// Ends all subscriptions.
    pub fn unsubscribe_all(&mut self, hub: &Hub) {
        hub.leave(&mut self.listener);
        self.settle_attention();
    }

    /// Starts or changes the client's tracking of the keys that it reads.
    pub fn start_tracking(&mut self, trackers: &Trackers, keyspace: &Keyspace, tracking: Tracking) {
        trackers.start(keyspace, &mut self.listener, tracking);
        self.settle_attention();
    }

    /// Starts MONITOR. False if it is on already.
    pub fn start_monitor(&mut self, hub: &Hub, attention: &Attention) -> bool {
        let has_begun = monitor::start(hub, attention, &self.record);
        self.settle_attention();
        has_begun
    }

    /// Ends MONITOR, if it is on.
    pub fn stop_monitor(&mut self, hub: &Hub, attention: &Attention) {
        monitor::stop(hub, attention, &self.record);
        self.settle_attention();
    }

    /// Ends it.
    pub fn stop_tracking(&mut self, trackers: &Trackers, keyspace: &Keyspace) {
        trackers.stop(keyspace, &mut self.listener);
        self.settle_attention();
    }

    /// True if commands are queued rather than executed.
    #[inline]
    pub fn in_multi(&self) -> bool {
        self.queue.is_some()
    }

    /// Asks for the connection to be closed once the replies are sent.
    pub fn close(&mut self) {
        self.close_after_reply = true;
        self.record.set_flag(client_flags::CLOSE_AFTER_REPLY, true);
    }
}
