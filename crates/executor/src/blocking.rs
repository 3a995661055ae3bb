// SPDX-License-Identifier: BSD-3-Clause
//! Blocking commands: how a client starts to wait, is served, or stops waiting.
//!
//! A body that finds nothing calls [`Call::wait`]: under the current locks the client is added to
//! the queue of each of its keys (`keyspace/waiters.rs`). A thread that changes such a key notes
//! it, and before its next command it serves the waiting clients, the longest waiting first: it
//! runs the waiter's own command for it, under the locks that it still holds ([`serve_held`]). So
//! no other client comes between a push and the pop that it allows. Only a command that needs more
//! keys than are held (BLMOVE's destination) runs afterwards under its own lock set
//! ([`serve_later`]); bodies make sure that later commands do not overtake it ([`Call::may_take`]).
//!
//! While a waiter is served, keys outside of the lock set are left alone: if one of them has been
//! filled, the thread that filled it is about to serve the client itself. [`Call::claim`] decides
//! between the two: the single step that ends a wait, which a body takes once it knows its reply
//! and before it changes anything. Timeouts, CLIENT UNBLOCK and closed connections claim in the
//! same way, so a client gets exactly one reply. A client that is to be closed, for any reason,
//! takes nothing: whoever decides to close it claims its wait at once.
//!
//! The reply is sent to the loop that owns the client as a message.

pub mod state;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use ::braid_acl as acl;
use braid_acl::Denied;
use braid_acl::log::Origin;
use braid_base::clock::{Ticks, unix_ms};
use braid_base::long_double::LongDouble;
use braid_clients::record::Waiting;
use braid_clients::{ClientRecord, Message, Unblocking};
use braid_group::cluster::SlotSet;
use braid_keyspace::{KeyRef, Txn, Type};
use braid_resp::reply::{Protocol, ReplyBuffer};
use braid_resp::request;
use braid_spec::{Command, CommandError, CommandResult, keys};
use braid_telemetry::Cost;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::blocking::state::WaitQueues;
use crate::dispatch::body::run_journalled;
use crate::dispatch::data::command_reveals_data;
use crate::dispatch::journal::note_unit;
use crate::dispatch::{report, slot_stats};
use crate::engine::call::{Call, Others};
use crate::engine::{Engine, access};
use crate::locks::{LockSet, lock};
use crate::session::{ReplyMode, Session};
use crate::state::shutdown::SHUTDOWN_FAILED;
use crate::worker::Worker;
use crate::world;
use crate::{client_eviction, redirect};

pub use state::{Blocked, Precomputed, Refusal, TimeoutReply, Wait};
pub(crate) use state::{Later, Request, Serving, Unserved, Waiter};

impl Blocked {
    /// Makes the wait visible, unless it has ended meanwhile. Called after MONITOR lines are sent,
    /// so that a client seen as blocked has its command in MONITOR's output.
    pub(crate) fn show(&self) {
        self.waiter.request.client.show_wait();
    }
}

/// Ends a wait. True for the one caller that must reply.
pub(crate) fn claim(waiter: &Waiter) -> bool {
    waiter.request.client.claim(waiter)
}

impl Call<'_, '_> {
    /// A timeout in seconds, possibly fractional, as a deadline (ms since the Unix epoch; 0 =
    /// none).
    ///
    /// # Errors
    /// If the argument is not a number, negative, or out of range.
    pub fn deadline_arg(&self, index: usize) -> Result<i64, CommandError> {
        let seconds = LongDouble::parse(self.args[index])
            .ok_or(CommandError::text("ERR timeout is not a float or out of range"))?;
        deadline(seconds.times(1000).ceil_i64(), self.clock_ms())
    }

    /// True if a blocking command may take a key's value. False if others wait for the key, because
    /// it is about to be given to them. While a waiter is served, only keys under lock may be
    /// taken.
    pub fn may_take(&self, key: &[u8], kind: Type) -> bool {
        if self.session.execution.serving.is_some() {
            return self.reaches(key);
        }
        self.session.execution.deny_blocking
            || !is_awaited(&self.engine.wait_queues, self.keyspace, key, kind)
    }

    /// True if a key may be read: while a waiter is served, only those under lock.
    pub fn reaches(&self, key: &[u8]) -> bool {
        self.session.execution.serving.is_none() || self.keyspace.holds(key)
    }

    /// Call it when a blocking command is about to reply, before it changes anything. False if the
    /// served client's wait has ended meanwhile: then the command must do nothing.
    pub fn claim(&mut self) -> bool {
        match &mut self.session.execution.serving {
            None => true,
            Some(serving) => {
                serving.claimed = serving.claimed || claim(&serving.waiter);
                serving.claimed
            }
        }
    }

    /// Blocks the client. A client that is waiting already continues; one that may not wait (in a
    /// transaction) gets its reply now.
    ///
    /// # Errors
    /// None today: a client that may not wait gets its reply.
    pub fn wait(&mut self, wait: Wait<'_>) -> CommandResult {
        if self.session.execution.serving.is_some() {
            return Ok(());
        }
        if self.session.execution.deny_blocking {
            match wait.refusal {
                Refusal::Null => self.reply.null(),
                Refusal::NullArray => self.reply.null_array(),
            }
            return Ok(());
        }
        let session = &mut *self.session;
        let request = Request {
            command: self.command.id,
            args: wait.args.unwrap_or_else(|| self.args.iter().map(|&arg| arg.into()).collect()),
            needs_all_keys: wait.needs_all_keys,
            may_be_overtaken: wait.may_be_overtaken,
            client: Arc::clone(&session.record),
            protocol: self.reply.protocol,
            no_touch: session.options.no_touch,
            user: Arc::clone(&session.login.user),
            generation: session.login.generation,
            nanos: AtomicU64::new(0),
            timeout: wait.timeout,
            until_ms: wait.until_ms,
            precomputed: Mutex::new(None),
        };
        let db = self.keyspace.db();
        let waiter = Arc::new(Waiter::new(db, wait.keys, wait.kind, wait.wakes_on_delete, request));
        let has_deadline = wait.deadline_ms > 0;
        let can_be_ended = wait.timeout != TimeoutReply::Never;
        session.record.begin_wait(Waiting { waiter: Arc::clone(&waiter) as _, has_deadline, can_be_ended });
        // From here on CLIENT UNBLOCK may claim it, and it may be served once the locks are
        // released.
        self.keyspace.wait(&self.engine.wait_queues, &waiter);
        let silent = session.reply.mode != ReplyMode::On;
        session.blocked = Some(Box::new(Blocked { waiter, deadline_ms: wait.deadline_ms, silent }));
        self.keyspace.context.follow_up.set(true);
        Ok(())
    }
}

/// Answers a client that waits for no key, unless its wait has ended. `written_to`: the journal
/// offset where the changes made for it end (0: none).
pub fn serve_keyless(waiter: &Waiter, written_to: u64, answer: impl FnOnce(&mut ReplyBuffer)) {
    if claim(waiter) {
        let request = &waiter.request;
        let mut reply = ReplyBuffer::new(request.protocol);
        answer(&mut reply);
        let (id, reply) = (request.client.id, reply.take_vec());
        request.client.send(Message::Served { id, reply, written_to });
    }
}

/// Reruns the command of a client that waits for no key, unless its wait has ended.
pub(crate) fn run_again(waiter: &Waiter, precomputed: Precomputed) {
    if claim(waiter) {
        let Request { client, precomputed: slot, .. } = &waiter.request;
        *slot.lock() = Some(Box::new(precomputed));
        client.send(Message::RunAgain(client.id));
    }
}

/// Makes the clients that wait for keys of slots no longer served here run their commands
/// again, so that they are redirected. Must not be called by a loop.
pub fn redirect_waiters(engine: &Engine, slots: &SlotSet) {
    let mut ended = Vec::new();
    for waiter in slots.iter().flat_map(|slot| engine.wait_queues.of_shard(u32::from(slot))) {
        if claim(&waiter) {
            let client = &waiter.request.client;
            client.send(Message::RunAgain(client.id));
            ended.push(waiter);
        }
    }
    if !ended.is_empty() {
        let _world = world::stop(engine);
        let mut worker = engine.worker(0);
        ended.iter().for_each(|waiter| leave_queues(engine, &mut worker, waiter));
    }
}

/// Protocol of a blocked client.
pub(crate) fn protocol_of(waiter: &Waiter) -> Protocol {
    waiter.request.protocol
}

/// Adds background work to the execution time of a command.
pub(crate) fn note_work(waiter: &Waiter, nanos: u64) {
    waiter.request.nanos.fetch_add(nanos, Relaxed);
    waiter.request.client.user.lock().note_work(nanos);
}

/// A timeout in ms (`None`: overflow) as a deadline.
///
/// # Errors
/// If the timeout is negative or out of range.
pub fn deadline(timeout_ms: Option<i64>, now_ms: i64) -> Result<i64, CommandError> {
    match timeout_ms {
        Some(..0) => Err(CommandError::text("ERR timeout is negative")),
        Some(0) => Ok(0),
        _ => timeout_ms
            .and_then(|timeout| timeout.checked_add(now_ms))
            .ok_or(CommandError::text("ERR timeout is out of range")),
    }
}

fn is_awaited(wait_queues: &WaitQueues, keyspace: &Txn<'_>, key: &[u8], kind: Type) -> bool {
    let mut behind = 0;
    while let Some(waiter) = keyspace.next_waiter(wait_queues, key, behind) {
        if waiter.kind == kind && !waiter.request.may_be_overtaken {
            return true;
        }
        behind = waiter.ticket();
    }
    false
}

/// Serves clients that wait for changed keys, as far as the held locks suffice.
pub(crate) fn serve_held(engine: &Engine, txn: &mut Txn<'_>, later: &mut Later) {
    let db = txn.db();
    // Serving a client may make keys ready for others, so repeat.
    loop {
        let ready = std::mem::take(txn.context.ready.get_mut());
        if ready.is_empty() {
            break;
        }
        // Clients that are to be closed get nothing, even if the command that filled the keys, or
        // one before it in the same batch, is what made them exceed the limit.
        later.evicted.append(&mut client_eviction::evict_clients(engine, txn.context.slot));
        // A transaction or script uses the time of its start, which may be long ago.
        txn.catch_up(unix_ms());
        for (db, key) in ready {
            txn.set_db(db);
            if txn.holds(&key) {
                serve_key(engine, txn, key, later);
            } else {
                later.keys.push(Unserved { db, key, waiter: None });
            }
        }
    }
    txn.set_db(db);
}

/// Serves the waiters of a key in order of arrival.
fn serve_key(engine: &Engine, txn: &mut Txn<'_>, key: Box<[u8]>, later: &mut Later) {
    let mut behind = 0;
    while let Some(waiter) = txn.next_waiter(&engine.wait_queues, &key, behind) {
        behind = waiter.ticket();
        let kind = txn.peek(&key).map(|entry| entry.value_type());
        if kind != Some(waiter.kind) && !waiter.wakes_on_delete {
            if kind.is_none() && !txn.wakes_on_delete(&key) {
                return;
            }
            continue;
        }
        if needs_more_locks(engine, txn, &waiter) {
            // Later waiters must not overtake it.
            later.keys.push(Unserved { db: txn.db(), key, waiter: Some(waiter) });
            return;
        }
        if serve(engine, txn, &waiter) && !txn.stop_waiting(&engine.wait_queues, &waiter) {
            later.served.push(waiter);
        }
    }
}

fn needs_more_locks(engine: &Engine, txn: &Txn<'_>, waiter: &Waiter) -> bool {
    let request = &waiter.request;
    request.needs_all_keys && keys_of(engine, request).iter().any(|key| !txn.holds(key.key))
}

fn keys_of<'r>(engine: &Engine, request: &'r Request) -> SmallVec<[KeyRef<'r>; 8]> {
    let spec = engine.commands.get(request.command).spec;
    let found = keys::find(spec, &request.args()).unwrap_or_default();
    let key_ref = |at: keys::KeyAt| {
        let key = &*request.args[at.index];
        KeyRef { key, hash: engine.keyspace.hash(key), write: true }
    };
    found.into_iter().map(key_ref).collect()
}

/// Runs a waiter's command for it. True if it was answered.
fn serve(engine: &Engine, txn: &mut Txn<'_>, waiter: &Arc<Waiter>) -> bool {
    let request = &waiter.request;
    let command = engine.commands.get(request.command);
    let args = request.args();
    let serving = Serving { waiter: Arc::clone(waiter), claimed: false };
    let mut session = Session::serving(&request.client, &request.user, waiter.db, request.no_touch, serving);
    session.login.generation = request.generation;
    let mut reply = ReplyBuffer::new(request.protocol);
    // Permissions may have changed during the wait.
    session.refresh_user(&engine.acl, &engine.attention);
    let access = access::check_access(engine, &session, command, &args, Origin::TopLevel, (command, &args));
    if let Err(denied) = access {
        return refuse(engine, txn.context.slot, waiter, &session, denied, reply);
    }
    let start = Ticks::now();
    txn.set_touches(!request.no_touch);
    let since = txn.context.journal.end;
    let mut call = Call {
        engine,
        command,
        session: &mut session,
        args: &args,
        blobs: &[],
        keyspace: txn,
        reply: &mut reply,
        others: Others::default(),
    };
    let result = run_journalled(&mut call, false);
    note_unit(call.keyspace, call.session, since);
    let written_to = call.session.written_to;
    let slot = call.keyspace.context.slot;
    let failed = result.is_err();
    if let Err(error) = result
        && call.claim()
    {
        let line = error.line();
        call.reply.clear();
        call.reply.error_bytes(&line);
        engine.telemetry.threads[slot].count_error(&line);
    }
    let claimed = session.execution.serving.as_ref().is_some_and(|serving| serving.claimed);
    if !claimed {
        debug_assert!(failed || reply.is_empty(), "{} answers without a claim", command.full_name);
        return false;
    }
    let nanos = request.nanos.load(Relaxed) + Ticks::now().nanos_since(start);
    account(engine, slot, &session, command, &args, nanos, failed);
    slot_stats::count_later(engine, slot, command, &args, nanos, reply.len());
    let reply = reply.to_bytes().into_owned();
    request.client.send(Message::Served { id: request.client.id, reply, written_to });
    true
}

/// Ends the wait of a client that lost the permission for its command. True if it was answered.
#[cold]
fn refuse(
    engine: &Engine,
    slot: usize,
    waiter: &Arc<Waiter>,
    session: &Session,
    denied: Denied,
    mut reply: ReplyBuffer,
) -> bool {
    if !claim(waiter) {
        return false;
    }
    let request = &waiter.request;
    let command = engine.commands.get(request.command);
    let error = acl::refusal(denied, session.login.user.name(), command);
    let line = error.line();
    engine.telemetry.command_stats(slot, command.id).rejected.add(1);
    engine.telemetry.threads[slot].count_error(&line);
    reply.error_bytes(&line);
    request.client.send(Message::Served { id: request.client.id, reply: reply.take_vec(), written_to: 0 });
    true
}

/// Counts a command whose wait is over, as one call.
fn account(
    engine: &Engine,
    slot: usize,
    session: &Session,
    command: &Command,
    args: &[&[u8]],
    nanos: u64,
    failed: bool,
) {
    report::count(engine, slot, command, nanos, failed);
    report::log(engine, session, command, args, Cost { nanos, reply_bytes: 0 });
}

/// Performs the work deferred by [`serve_held`], each part under its own locks. No lock may be
/// held.
pub(crate) fn serve_later(engine: &Engine, worker: &mut Worker, mut later: Later) {
    loop {
        client_eviction::log_evicted(engine, &std::mem::take(&mut later.evicted), worker.now_ms());
        for (db, key) in std::mem::take(worker.context.ready.get_mut()) {
            later.keys.push(Unserved { db, key, waiter: None });
        }
        for waiter in std::mem::take(&mut later.served) {
            leave_queues(engine, worker, &waiter);
        }
        let todo = std::mem::take(&mut later.keys);
        if todo.is_empty() {
            return;
        }
        for Unserved { db, key, waiter } in todo {
            let mut keys =
                waiter.as_ref().map_or_else(SmallVec::new, |waiter| keys_of(engine, &waiter.request));
            keys.push(KeyRef { key: &key, hash: engine.keyspace.hash(&key), write: true });
            let now = worker.now_ms();
            let mut txn = lock(&engine.keyspace, &mut worker.context, LockSet::Keys(&keys), db, now);
            txn.context.ready.get_mut().push((db, key.clone()));
            serve_held(engine, &mut txn, &mut later);
        }
    }
}

/// Removes a waiter from all queues. No lock may be held.
fn leave_queues(engine: &Engine, worker: &mut Worker, waiter: &Waiter) {
    let keys: SmallVec<[KeyRef<'_>; 8]> =
        waiter.keys.iter().map(|key| KeyRef { key, hash: engine.keyspace.hash(key), write: true }).collect();
    lock(&engine.keyspace, &mut worker.context, LockSet::Keys(&keys), waiter.db, 0)
        .stop_waiting(&engine.wait_queues, waiter);
}

/// The error of a client whose wait CLIENT UNBLOCK ... ERROR has ended.
const UNBLOCKED: &[u8] = b"UNBLOCKED client unblocked via CLIENT UNBLOCK";

/// CLIENT UNBLOCK: ends a client's wait and counts its command, so that the statistics are
/// complete once CLIENT UNBLOCK has replied. False if the client does not wait.
pub fn unblock(engine: &Engine, slot: usize, record: &ClientRecord, how: Unblocking) -> bool {
    let Some(waiter) = record.unblock() else { return false };
    let failed = how == Unblocking::Error;
    if failed {
        engine.telemetry.threads[slot].count_error(UNBLOCKED);
    }
    let command = engine.commands.get(waiter.request.command());
    report::count(engine, slot, command, waiter.request.nanos(), failed);
    record.send(Message::Unblock { id: record.id, how })
}

/// How a wait ends without being served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitEnd {
    /// The timeout has passed.
    Timeout,
    /// What it waits for may be there: the command runs again.
    WokenUp,
    /// CLIENT UNBLOCK, which has counted the command.
    Unblocked,
    /// CLIENT UNBLOCK ... ERROR, which has counted the command.
    Error,
    /// This server has become a replica; the connection is closed, too.
    RoleChange,
    /// As [`WaitEnd::RoleChange`], but the client is redirected to the primary.
    Redirect,
}

impl From<Unblocking> for WaitEnd {
    fn from(how: Unblocking) -> WaitEnd {
        match how {
            Unblocking::Timeout => WaitEnd::Unblocked,
            Unblocking::Error => WaitEnd::Error,
            Unblocking::RoleChange => WaitEnd::RoleChange,
            Unblocking::Redirect => WaitEnd::Redirect,
        }
    }
}

impl Blocked {
    /// Ends the wait; false if it has ended already.
    pub fn claim(&self) -> bool {
        claim(&self.waiter)
    }

    /// Whether the reply may reveal data.
    pub fn reveals_data(&self, engine: &Engine) -> bool {
        command_reveals_data(engine, self.waiter.request.command)
    }

    /// True if the wait has ended and its reply is in transit.
    pub fn is_over(&self) -> bool {
        !self.waiter.is_waiting()
    }

    /// Adds the reply of the serving thread to the client's replies, and counts the command if
    /// needed.
    pub fn answer(
        &self,
        engine: &Engine,
        slot: usize,
        session: &Session,
        reply: &mut ReplyBuffer,
        served: Vec<u8>,
    ) {
        let request = &self.waiter.request;
        if request.timeout == TimeoutReply::Never {
            let command = engine.commands.get(request.command);
            let (nanos, failed) = (request.nanos.load(Relaxed), served.first() == Some(&b'-'));
            if failed {
                let line = served[1..].trim_ascii_end();
                engine.telemetry.threads[slot].count_error(line);
            }
            report::count(engine, slot, command, nanos, failed);
            let cost = Cost { nanos, reply_bytes: served.len() };
            report::log(engine, session, command, &request.args(), cost);
            slot_stats::count_later(engine, slot, command, &request.args(), nanos, served.len());
        }
        if !self.silent {
            reply.raw_vec(served);
        }
    }

    /// The precomputed result for the command that runs again.
    pub fn take_precomputed(&self) -> Option<Box<Precomputed>> {
        self.waiter.request.precomputed.lock().take()
    }

    /// True if the command runs again after the wait has ended in this way.
    pub fn runs_again(&self, end: WaitEnd) -> bool {
        match end {
            WaitEnd::Timeout => self.waiter.request.timeout == TimeoutReply::RunAgain,
            WaitEnd::WokenUp => true,
            _ => false,
        }
    }

    /// True if the command may run again before its time is over, on behalf of nobody's change of
    /// its keys ([`Wait::until_ms`]).
    pub fn continues(&self) -> bool {
        self.waiter.request.until_ms.is_some()
    }

    /// Called before the command runs again: its reply is still unwanted if it was (CLIENT REPLY
    /// SKIP), and its time is over when it was.
    pub fn continue_in(&self, session: &mut Session) {
        if self.silent && session.reply.mode == ReplyMode::On {
            session.set_reply_mode(ReplyMode::Skip);
        }
        if let Some(until_ms) = self.waiter.request.until_ms {
            session.set_waits_until(until_ms);
        }
    }

    /// The waiting command's request, encoded.
    pub fn request(&self) -> Vec<u8> {
        let mut encoded = Vec::new();
        request::push(&mut encoded, &self.waiter.request.args());
        encoded
    }

    /// Leaves the queues. Called by the client's own thread, inside the gate and without locks,
    /// when the wait ended without being served.
    pub fn leave(&self, engine: &Engine, worker: &mut Worker) {
        leave_queues(engine, worker, &self.waiter);
    }

    /// Answers a wait that was not served, and counts the command.
    pub fn give_up(
        &self,
        engine: &Engine,
        worker: &Worker,
        session: &Session,
        reply: &mut ReplyBuffer,
        end: WaitEnd,
    ) {
        let request = &self.waiter.request;
        let command = engine.commands.get(request.command);
        let slot = worker.context.slot;
        let (mark, reply_start) = (reply.mark(), reply.len());
        match end {
            WaitEnd::Timeout | WaitEnd::WokenUp | WaitEnd::Unblocked => match request.timeout {
                TimeoutReply::NullArray | TimeoutReply::RunAgain => reply.null_array(),
                TimeoutReply::Acknowledgements(acks) => acks.reply(engine, reply),
                TimeoutReply::ShutdownFailed => reply.error(SHUTDOWN_FAILED),
                TimeoutReply::Never => reply.error("ERR the command was cancelled"),
            },
            WaitEnd::Error | WaitEnd::RoleChange | WaitEnd::Redirect => {
                let redirection = if end == WaitEnd::Redirect {
                    redirect::redirection(engine, &session.record)
                } else {
                    None
                };
                let redirection = redirection.map(|error| error.line().into_owned());
                let line: &[u8] = match end {
                    WaitEnd::Redirect if redirection.is_some() => redirection.as_deref().unwrap_or_default(),
                    WaitEnd::RoleChange | WaitEnd::Redirect => {
                        b"UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"
                    }
                    _ => UNBLOCKED,
                };
                reply.error_bytes(line);
                if end != WaitEnd::Error {
                    engine.telemetry.threads[slot].count_error(line);
                }
            }
        }
        let bytes = reply.len().saturating_sub(reply_start);
        if self.silent {
            reply.truncate(mark);
        }
        let nanos = request.nanos.load(Relaxed);
        match end {
            WaitEnd::Unblocked | WaitEnd::Error => {
                report::log(engine, session, command, &request.args(), Cost { nanos, reply_bytes: 0 });
            }
            _ => account(engine, slot, session, command, &request.args(), nanos, end != WaitEnd::Timeout),
        }
        slot_stats::count_later(engine, slot, command, &request.args(), nanos, bytes);
    }

    /// Records how long the command ran before it blocked.
    pub(crate) fn note_nanos(&self, nanos: u64) {
        self.waiter.request.nanos.fetch_add(nanos, Relaxed);
    }
}
