// SPDX-License-Identifier: BSD-3-Clause
//! Session: the client state that commands can see and change. Owned by the thread that serves the
//! client.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use braid_acl::limits::Charged;
use braid_acl::user::User;
use braid_acl::{Acl, Denied};
use braid_clients::attention::Attention;
use braid_clients::identity::Presence;
use braid_clients::{ClientRecord, client_flags};
use braid_keyspace::Keyspace;
use braid_notify::tracking::Trackers;
use braid_notify::{Hub, Listener, SubscriptionKind, Tracking};
use braid_replication::{Replica, ReplicaOptions};
use braid_spec::{Command, CommandError};
use braid_telemetry::monitor;

use crate::blocking::state::{Blocked, Findings, Later, Precomputed, Serving};
use crate::state::script_debugger::{Debugged, Debugging, Departure};
use crate::state::slot_moves::ImportSession;
use crate::transaction::{Queue, SlotBatch};

/// Whether replies are sent (CLIENT REPLY).
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

/// Bits of session states that need more than the usual checks, read as one word per command.
pub mod session_attention {
    /// Replies are off, or skipped for this command or the next.
    pub const REPLIES: u16 = 1;
    /// Subscribed to channels or patterns.
    pub const LISTENS: u16 = 2;
    /// Reads do not mark keys as used.
    pub const NO_TOUCH: u16 = 4;
    /// In MONITOR mode.
    pub const MONITORS: u16 = 8;
    /// Tracks the keys that it reads.
    pub const TRACKS: u16 = 16;
    /// The current command must run under its locks, even if it could run without.
    pub const LOCKS: u16 = 32;
    /// Is a replica.
    pub const IS_REPLICA: u16 = 64;
    /// Is an import source.
    pub const IMPORTS: u16 = 128;
    /// The current command runs again, with a result computed in the background, or because
    /// there may be something for it now.
    pub const RUNS_AGAIN: u16 = 256;
}

/// Names of fields that a client has sent for HIMPORT SET.
pub struct FieldSet {
    pub name: Box<[u8]>,
    pub fields: Box<[Box<[u8]>]>,
}

impl FieldSet {
    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        let fields = self.fields.iter().map(|field| field.len() + size_of::<Box<[u8]>>());
        size_of::<FieldSet>() + self.name.len() + fields.sum::<usize>()
    }
}

/// A watched key. If it had expired when the watch began it was removed then.
pub struct Watched {
    pub db: u32,
    pub key: Box<[u8]>,
}

/// Who the client is, and what it may do.
#[repr(C)]
pub struct Login {
    /// The attention word under which the session's commands need no special checks;
    /// [`Session::NEVER`] if there is none.
    pub(crate) fast_path_word: u64,
    /// The user, with the permissions of this generation of users (`attention.rs`).
    pub user: Arc<User>,
    pub(crate) generation: u64,
    /// What the user's limits have been charged with.
    pub(crate) charged: Charged,
    /// Counts the connection with its user, if it is logged in.
    presence: Option<Presence>,
}

/// What becomes of the client's replies.
pub struct ReplyState {
    /// Set with [`Session::set_reply_mode`].
    pub mode: ReplyMode,
    /// Unwanted parts of the current command's reply have been dropped.
    pub(crate) is_complete: bool,
    /// Close the connection when the pending replies are sent.
    pub close_after: bool,
    /// The client has changed something since replies were last sent. Maintained while changes are
    /// journalled.
    pub has_written: bool,
}

/// The client's transaction.
#[repr(C)]
pub struct TransactionState {
    pub watched: Vec<Watched>,
    /// Set when a watched key changes.
    pub watch_flag: Arc<AtomicBool>,
    /// The current transaction changes slots only: its commands are gathered here.
    pub slot_batch: Option<Box<SlotBatch>>,
    /// Commands queued since MULTI.
    pub queue: Option<Box<Queue>>,
}

/// The client as a replica.
#[derive(Default)]
pub struct ReplicationState {
    /// Options sent by REPLCONF, also before the client becomes a replica.
    pub options: Option<Box<ReplicaOptions>>,
    pub replica: Option<Arc<Replica>>,
}

/// The client's scripts.
#[derive(Default)]
pub struct ScriptState {
    /// SCRIPT DEBUG.
    pub debugging: Option<Box<Debugging>>,
    /// Effects of a script that need other locks than the run's.
    pub(crate) later: Option<Box<Later>>,
}

/// The slots that the client may reach besides this server's own.
#[derive(Default)]
pub struct ClusterState {
    /// Slots being moved here that this connection fills.
    pub import: Option<Arc<ImportSession>>,
    /// The slot of the current command's keys, if it was served here at the check.
    pub(crate) served: Option<u16>,
    /// The next command may reach a slot that is being moved here (ASKING).
    pub asks: bool,
}

/// The options set by CLIENT. [`Session::update_attention`] must follow a change.
#[derive(Default)]
pub struct ClientOptions {
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
    /// CLIENT NO-EVICT.
    pub no_evict: bool,
    /// CLIENT IMPORT-SOURCE. Set with [`Session::set_import_source`].
    pub import_source: bool,
    /// CLIENT DURABLE: whether its replies wait for the in-sync members of the group; if `None`,
    /// `sync-writes` decides.
    pub durable: Option<bool>,
}

/// On what terms commands run.
#[derive(Default)]
pub struct Execution {
    /// Result for the current command, computed in the background (`background.rs`).
    pub(crate) precomputed: Option<Box<Precomputed>>,
    /// What the current command has found before its keys were locked (`ahead.rs`).
    pub(crate) findings: Option<Findings>,
    /// The current command has waited before, and waits until this time (ms since the Unix epoch;
    /// 0 = forever).
    waits_until: Option<i64>,
    /// Set for a session that stands in for a client's own while another thread runs its command.
    pub(crate) serving: Option<Serving>,
    /// Commands may not block: they run within an atomic context.
    pub deny_blocking: bool,
    /// A script of this client is running.
    pub in_script: bool,
    /// Replays commands of an append-only file or a primary, which succeeded there.
    pub is_replay: bool,
    /// When the current command was checked, memory was above the limit and nothing could be
    /// evicted.
    pub out_of_memory: bool,
}

/// State of one client. The order is that in memory: what every request reads stands together, from
/// the transaction's queue to the login.
#[repr(C)]
pub struct Session {
    pub transaction: TransactionState,
    pub record: Arc<ClientRecord>,
    pub db: u32,
    /// Bits of [`session_attention`], updated by [`Session::update_attention`].
    pub attention: u16,
    pub authenticated: bool,
    pub reply: ReplyState,
    pub options: ClientOptions,
    /// Field sets of HIMPORT, oldest first.
    pub field_sets: Vec<FieldSet>,
    /// The client's blocked command: nothing else runs until it is answered.
    pub blocked: Option<Box<Blocked>>,
    pub login: Login,
    pub execution: Execution,
    /// End of the client's last change in the journal.
    pub written_to: u64,
    pub cluster: ClusterState,
    pub replication: ReplicationState,
    pub script: ScriptState,
    /// Subscriptions, tracking and monitoring.
    pub listener: Listener,
    /// Takes over the connection once pending replies are sent; the client is then forgotten. Set
    /// together with [`Session::close`].
    pub departure: Option<Departure>,
}

impl Session {
    /// A session that runs a debugged script for a client that has left its loop.
    pub fn for_debugger(record: Arc<ClientRecord>, user: Arc<User>, db: u32, debugged: Debugged) -> Session {
        let mut session = Session::of_user(record, user);
        (session.db, session.authenticated, session.execution.deny_blocking) = (db, true, true);
        session.script.debugging = Some(Box::new(Debugging::Running(debugged)));
        session
    }

    /// No attention word has all state bits set.
    const NEVER: u64 = u64::MAX;

    /// A fresh session.
    pub fn new(record: Arc<ClientRecord>, attention: &Attention, acl: &Acl) -> Session {
        let generation = attention.generation();
        let user = acl.default_user();
        let authenticated = user.is_open();
        let mut session = Session::of_user(record, Arc::clone(&user));
        session.take_user(user, authenticated, generation);
        session
    }

    pub fn of_user(record: Arc<ClientRecord>, user: Arc<User>) -> Session {
        Session {
            listener: Listener::new(Arc::clone(&record)),
            record,
            db: 0,
            attention: 0,
            authenticated: false,
            reply: ReplyState {
                mode: ReplyMode::On,
                is_complete: false,
                close_after: false,
                has_written: false,
            },
            options: ClientOptions::default(),
            field_sets: Vec::new(),
            login: Login {
                fast_path_word: Session::NEVER,
                user,
                generation: 0,
                charged: Charged::default(),
                presence: None,
            },
            transaction: TransactionState {
                queue: None,
                watched: Vec::new(),
                watch_flag: Arc::new(AtomicBool::new(false)),
                slot_batch: None,
            },
            blocked: None,
            execution: Execution::default(),
            written_to: 0,
            cluster: ClusterState::default(),
            replication: ReplicationState::default(),
            script: ScriptState::default(),
            departure: None,
        }
    }

    /// A session that stands in for a blocked client's own while its command runs.
    pub(crate) fn serving(
        record: &Arc<ClientRecord>,
        user: &Arc<User>,
        db: u32,
        no_touch: bool,
        serving: Serving,
    ) -> Session {
        let mut session = Session::of_user(Arc::clone(record), Arc::clone(user));
        (session.db, session.options.no_touch, session.execution.serving) = (db, no_touch, Some(serving));
        session
    }

    /// The client's id.
    pub fn id(&self) -> u64 {
        self.record.id
    }

    /// Selects a database.
    pub fn select(&mut self, db: u32) {
        self.db = db;
        self.record.db.store(db, Relaxed);
    }

    /// Sets the user, with the permissions of a generation.
    pub(crate) fn take_user(&mut self, user: Arc<User>, authenticated: bool, generation: u64) {
        self.authenticated = authenticated;
        self.login.generation = generation;
        self.login.fast_path_word =
            if authenticated && user.is_unlimited() { generation } else { Session::NEVER };
        self.record.authenticated.store(authenticated, Relaxed);
        *self.record.user.lock() = Arc::clone(&user.identity);
        self.login.charged = Charged::until_now(&self.record);
        self.login.presence = authenticated.then(|| Presence::of(&user.identity));
        self.login.user = user;
    }

    /// Checks that the client may be one more connection of a user, or is one already.
    ///
    /// # Errors
    /// If the user has too many.
    pub(crate) fn check_connections(&self, user: &User) -> Result<(), CommandError> {
        let is_counted = self.login.presence.as_ref().is_some_and(|own| *own.user() == *user.identity);
        let others = user.identity.connections() - u64::from(is_counted);
        user.limits().check_connections(&user.identity, others)
    }

    /// As [`Session::check_connections`] for a new client, which is counted.
    ///
    /// # Errors
    /// If its user has too many.
    pub fn check_as_new(&self) -> Result<(), CommandError> {
        if self.authenticated { self.check_connections(&self.login.user) } else { Ok(()) }
    }

    /// Until when the client's next request waits for a limit of its user, ms since the Unix epoch.
    pub fn delayed_until_ms(&self) -> Option<i64> {
        self.login.charged.until_ms()
    }

    /// Resets the session's user to that of a new connection.
    pub fn log_out(&mut self, acl: &Acl, attention: &Attention) {
        let generation = attention.generation();
        let user = acl.default_user();
        let authenticated = user.is_open();
        self.take_user(user, authenticated, generation);
    }

    /// Refreshes the user if users have changed. A deleted user leaves a session without
    /// permissions.
    #[inline]
    pub(crate) fn refresh_user(&mut self, acl: &Acl, attention: &Attention) {
        if attention.generation() != self.login.generation {
            self.refresh_user_now(acl, attention);
        }
    }

    #[cold]
    fn refresh_user_now(&mut self, acl: &Acl, attention: &Attention) {
        let generation = attention.generation();
        match acl.current(&self.login.user.identity) {
            Some(user) => self.take_user(user, self.authenticated, generation),
            None => {
                self.take_user(acl.default_user(), false, generation);
                self.close();
            }
        }
    }

    /// True if the session must authenticate first.
    #[inline]
    pub fn must_log_in(&self) -> bool {
        // The session's user is the default user here.
        !self.authenticated && !self.login.user.is_open()
    }

    /// Checks a request; logs nothing.
    #[inline]
    pub(crate) fn allows(&self, command: &Command, args: &[&[u8]]) -> Result<(), Denied> {
        if self.login.user.is_unrestricted() {
            return Ok(());
        }
        let selected = self.transaction.queue.as_ref().and_then(|queue| queue.selected);
        self.login.user.check(command, args, selected.unwrap_or(self.db))
    }

    /// Sets the reply mode.
    pub fn set_reply_mode(&mut self, mode: ReplyMode) {
        self.reply.mode = mode;
        self.update_attention();
    }

    /// Recomputes the attention bits after a change.
    pub fn update_attention(&mut self) {
        let bit = |on: bool, bit: u16| if on { bit } else { 0 };
        self.attention = bit(self.reply.mode != ReplyMode::On, session_attention::REPLIES)
            | bit(self.listener.subscriptions.is_some(), session_attention::LISTENS)
            | bit(self.options.no_touch, session_attention::NO_TOUCH)
            | bit(self.record.has(client_flags::MONITOR), session_attention::MONITORS)
            | bit(self.listener.tracking.is_some(), session_attention::TRACKS)
            | bit(self.replication.replica.is_some(), session_attention::IS_REPLICA)
            | bit(self.options.import_source, session_attention::IMPORTS)
            | bit(
                self.execution.precomputed.is_some() || self.execution.waits_until.is_some(),
                session_attention::RUNS_AGAIN,
            );
    }

    /// Provides the precomputed result of the next command.
    pub fn set_precomputed(&mut self, precomputed: Box<Precomputed>) {
        self.execution.precomputed = Some(precomputed);
        self.update_attention();
    }

    /// Drops what the next command was to continue with, once it has run.
    pub(crate) fn forget_precomputed(&mut self) {
        if self.execution.precomputed.take().is_some() | self.execution.waits_until.take().is_some() {
            self.update_attention();
        }
    }

    /// The next command has waited before, and waits until this time.
    pub(crate) fn set_waits_until(&mut self, until_ms: i64) {
        self.execution.waits_until = Some(until_ms);
        self.update_attention();
    }

    /// If the current command has waited before: until when it waits (ms since the Unix epoch; 0 =
    /// forever).
    pub fn waits_until(&self) -> Option<i64> {
        self.execution.waits_until
    }

    /// Lets the client see expired keys while the server is in import mode (CLIENT IMPORT-SOURCE).
    pub fn set_import_source(&mut self, on: bool) {
        self.options.import_source = on;
        self.record.set_flag(client_flags::IMPORT_SOURCE, on);
        self.update_attention();
    }

    /// True if pushes may be sent to the client.
    pub fn hears(&self) -> bool {
        self.attention
            & (session_attention::LISTENS | session_attention::MONITORS | session_attention::TRACKS)
            != 0
    }

    /// Subscribes to a channel or pattern. Returns the client's number of subscriptions.
    pub fn subscribe(&mut self, hub: &Hub, kind: SubscriptionKind, name: &[u8]) -> usize {
        let count = hub.subscribe(&mut self.listener, kind, name);
        self.update_attention();
        count
    }

    /// Ends a subscription. Returns the number left.
    pub fn unsubscribe(&mut self, hub: &Hub, kind: SubscriptionKind, name: &[u8]) -> usize {
        let count = hub.unsubscribe(&mut self.listener, kind, name);
        self.update_attention();
        count
    }

    /// Ends all subscriptions.
    pub fn unsubscribe_all(&mut self, hub: &Hub) {
        hub.leave(&mut self.listener);
        self.update_attention();
    }

    /// Starts or changes key tracking.
    pub fn start_tracking(&mut self, trackers: &Trackers, keyspace: &Keyspace, tracking: Tracking) {
        trackers.start(keyspace, &mut self.listener, tracking);
        self.update_attention();
    }

    /// Starts MONITOR. False if it is on already.
    pub fn start_monitor(&mut self, hub: &Hub, attention: &Attention) -> bool {
        let has_begun = monitor::start(hub, attention, &self.record);
        self.update_attention();
        has_begun
    }

    /// Ends MONITOR, if it is on.
    pub fn stop_monitor(&mut self, hub: &Hub, attention: &Attention) {
        monitor::stop(hub, attention, &self.record);
        self.update_attention();
    }

    /// Stops key tracking.
    pub fn stop_tracking(&mut self, trackers: &Trackers, keyspace: &Keyspace) {
        trackers.stop(keyspace, &mut self.listener);
        self.update_attention();
    }

    /// True if commands are queued (MULTI).
    #[inline]
    pub fn in_multi(&self) -> bool {
        self.transaction.queue.is_some()
    }

    /// Closes the connection once the replies are sent.
    pub fn close(&mut self) {
        self.reply.close_after = true;
        self.record.set_flag(client_flags::CLOSE_AFTER_REPLY, true);
    }
}
