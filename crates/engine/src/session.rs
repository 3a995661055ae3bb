// SPDX-License-Identifier: BSD-3-Clause
//! A session: what a client's commands can see and change of the client itself. Owned by the thread that serves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::blocking::{Blocked, Serving};
use crate::engine::Engine;
use crate::replication::{Replica, Wish};
use crate::transaction::Queue;
use braid_acl::user::User;
use braid_clients::{ClientRecord, client_flags};
use braid_notify::Subscriptions;
use braid_notify::Tracking;

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
    pub const REPLIES: u8 = 1;
    /// It listens to channels or patterns.
    pub const LISTENS: u8 = 2;
    /// Reads do not mark keys as used.
    pub const NO_TOUCH: u8 = 4;
    /// It is told of every command.
    pub const MONITORS: u8 = 8;
    /// It tracks what it reads.
    pub const TRACKS: u8 = 16;
    /// Its present command is to be run under its locks, though it could do without.
    pub const LOCKS: u8 = 32;
    /// It is fed as a replica.
    pub const FED: u8 = 64;
    /// It is a source of what is imported.
    pub const IMPORTS: u8 = 128;
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
    /// The attention word under which its commands need no particular checks; [`Session::NEVER`] if there is none.
    pub(crate) calm: u64,
    /// Bits of [`session_attention`], kept by [`Session::settle_attention`].
    pub attention: u8,
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
    /// What the client listens to; nothing when it listens to nothing.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// How it tracks what it reads, if it does.
    pub tracking: Option<Box<Tracking>>,
    /// What it has said about itself as a replica, before it became one; and what it is since.
    pub replica_wish: Option<Box<Wish>>,
    pub replica: Option<Arc<Replica>>,
    /// Pushes in its loop's queue below this number have reached it.
    pub pushes_seen: u64,
    /// CLIENT NO-EVICT.
    pub no_evict: bool,
    /// A script of it is running.
    pub in_script: bool,
    /// What a script has caused and needs other locks than its run's.
    pub(crate) later: Option<Box<crate::blocking::Later>>,
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
    /// Not the client's own session but one that stands in for it, while another thread runs its command.
    pub(crate) serving: Option<Serving>,
}

impl Session {
    /// No attention word has all state bits set.
    const NEVER: u64 = u64::MAX;

    /// A fresh session.
    pub fn new(record: Arc<ClientRecord>, engine: &Engine) -> Session {
        let generation = engine.attention.generation();
        let user = engine.acl.default_user();
        let authenticated = user.is_open();
        let mut session = Session::of_user(record, user);
        let user = Arc::clone(&session.user);
        session.take_user(user, authenticated, generation);
        session
    }

    fn of_user(record: Arc<ClientRecord>, user: Arc<User>) -> Session {
        Session {
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
            subscriptions: None,
            tracking: None,
            replica_wish: None,
            replica: None,
            pushes_seen: 0,
            no_evict: false,
            in_script: false,
            later: None,
            out_of_memory: false,
            close_after_reply: false,
            blocked: None,
            deny_blocking: false,
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
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        self.attention = bit(self.reply_mode != ReplyMode::On, session_attention::REPLIES)
            | bit(self.subscriptions.is_some(), session_attention::LISTENS)
            | bit(self.no_touch, session_attention::NO_TOUCH)
            | bit(self.record.has(client_flags::MONITOR), session_attention::MONITORS)
            | bit(self.tracking.is_some(), session_attention::TRACKS)
            | bit(self.replica.is_some(), session_attention::FED)
            | bit(self.import_source, session_attention::IMPORTS);
    }

    /// Lets the client see keys past their expiry while the server is in import mode, or not (CLIENT IMPORT-SOURCE).
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

    /// Its pushes are numbered by another loop from now on.
    pub fn change_queue(&mut self) {
        self.pushes_seen = 0;
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
