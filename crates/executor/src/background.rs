// SPDX-License-Identifier: BSD-3-Clause
//! Long commands that run on background threads, while their clients wait and all others are
//! served.
//!
//! A body that would take long calls [`Call::leave_to_background`] and passes the [`Answer`] with
//! the work to [`in_background`], or to the lazy-free thread. The client blocks without a
//! key (`blocking.rs`): its further requests stay in its buffer, and closing the connection ends
//! the wait. CLIENT UNBLOCK does not.
//!
//! Results of whole collections are computed from shared copies
//! ([`Reader::share`](braid_keyspace::reader::Reader::share)): all keys are shared at one moment,
//! and their locks are free again microseconds later. A read-only command is then complete: its
//! reply reflects that moment ([`Call::answer_from_shared`]). A command that stores its result
//! ([`Call::precompute`]) is run again by its client's own thread, as if it had been sent anew,
//! with the precomputed result ([`Precomputed`]): checks, pauses, the journal, events and waiters
//! work as for any command. The keys are watched meanwhile. If one has changed, the result is
//! computed again; after some tries the command does the work itself, under its locks.
//!
//! Transactions and scripts are atomic: there, bodies do the work themselves.

pub mod threads;

use std::sync::Arc;
use std::sync::mpsc::channel;

use braid_base::clock::{Ticks, unix_ms};
use braid_keyspace::Type;
use braid_keyspace::object::{Object, ObjectType};
use braid_keyspace::reader::CowValue;
use braid_resp::reply::ReplyBuffer;
use parking_lot::Mutex;

pub use crate::blocking::state::Precomputed;
use crate::blocking::state::{Discard, Findings, Waiter};
use crate::blocking::{self, TimeoutReply, Wait};
use crate::engine::Engine;
use crate::engine::call::Call;
use crate::processors;
use crate::processors::Work;
use crate::session::session_attention;
use braid_spec::{CommandError, CommandResult};
pub use threads::Background;
use threads::Job;

/// The right to answer a client whose command runs in the background.
pub struct Answer {
    waiter: Arc<Waiter>,
    limit: usize,
    began: Ticks,
}

impl Answer {
    /// False if the client has disconnected: the work can be dropped.
    pub fn is_wanted(&self) -> bool {
        self.waiter.is_waiting()
    }

    /// A reply buffer with the client's protocol and limit.
    pub fn buffer(&self) -> ReplyBuffer {
        let mut reply = ReplyBuffer::new(blocking::protocol_of(&self.waiter));
        reply.set_limit(self.limit);
        reply
    }

    /// Sends the client its reply. The time until now counts as the command's.
    pub fn give(self, reply: ReplyBuffer) {
        self.give_after(reply, 0);
    }

    /// [`Answer::give`] for work that has changed keys. `written_to`: the journal offset where
    /// its changes end (0: nothing was journalled).
    pub fn give_after(self, reply: ReplyBuffer, written_to: u64) {
        blocking::note_work(&self.waiter, Ticks::now().nanos_since(self.began));
        blocking::serve_keyless(&self.waiter, written_to, |answer| *answer = reply);
    }

    /// Replies with an error.
    pub fn give_error(self, error: &CommandError) {
        let mut reply = self.buffer();
        reply.error_bytes(&error.line());
        self.give(reply);
    }

    /// Replies with OK.
    pub fn give_ok(self) {
        let mut reply = self.buffer();
        reply.ok();
        self.give(reply);
    }
}

/// Attempts to compute a result in the background before the command does the work itself.
const TRIES_MAX: u32 = 3;

/// Frees a [`Precomputed`] in the background, because locks may be held and freeing may take
/// long. If it cannot be sent, the server is shutting down.
fn discard(engine: &Engine) -> Discard {
    let weak = engine.weak();
    Box::new(move |watch, result| {
        if let Some(engine) = weak.upgrade() {
            in_background(&engine, move |engine| {
                if let Some(watch) = watch {
                    engine.keyspace.reader().unwatch(&watch);
                }
                drop(result);
            });
        }
    })
}

/// Runs `job` on a background thread, after earlier jobs have started. False if there is no
/// thread.
pub fn in_background(engine: &Engine, job: impl FnOnce(&Engine) + Send + 'static) -> bool {
    let sender = engine.background.sender.lock();
    let weak = engine.weak();
    let job = move || {
        if let Some(engine) = weak.upgrade() {
            job(&engine);
        }
    };
    sender.as_ref().is_some_and(|sender| sender.send(Box::new(job)).is_ok())
}

/// Starts the threads if needed. False if none can be started.
fn start_background(engine: &Engine) -> bool {
    let mut sender = engine.background.sender.lock();
    if sender.is_none() {
        let (jobs, receiver) = channel::<Job>();
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..engine.clients.mailboxes.thread_count().div_ceil(2) {
            let receiver = Arc::clone(&receiver);
            let next = move || receiver.lock().recv();
            let weak = engine.weak();
            let run = move || {
                if let Some(engine) = weak.upgrade() {
                    processors::bind_thread(&engine, Work::Background);
                }
                while let Ok(job) = next() {
                    job();
                }
            };
            match std::thread::Builder::new().name("bio_commands".into()).spawn(run) {
                Ok(_) => *sender = Some(jobs.clone()),
                Err(error) => log::warn!("Cannot start a thread for long commands: {error}"),
            }
        }
    }
    sender.is_some()
}

impl Call<'_, '_> {
    /// Whether long work may run in the background. `reads`: the reply contains data of keys. A
    /// client with CLIENT TRACKING must not get an invalidation before the reply.
    pub fn may_leave(&self, reads: bool) -> bool {
        let session = &*self.session;
        let tracks = session.attention & session_attention::TRACKS != 0;
        let must_stay = session.execution.deny_blocking
            || session.execution.in_script
            || session.execution.serving.is_some();
        !must_stay && (!reads || !tracks) && start_background(self.engine)
    }

    /// Blocks the client until the returned [`Answer`] is used.
    ///
    /// # Errors
    /// As [`Call::wait`]; `None` if the client may not wait.
    pub fn leave_to_background(&mut self) -> Result<Option<Answer>, CommandError> {
        let limit = self.reply.limit();
        self.wait(Wait { timeout: TimeoutReply::Never, ..Wait::new(Type::STRING, &[], 0) })?;
        let blocked = self.session.blocked.as_ref();
        let began = Ticks::now();
        Ok(blocked.map(|blocked| Answer { waiter: Arc::clone(&blocked.waiter), limit, began }))
    }

    /// Runs `work` in the background, which answers the client. Call it only if
    /// [`Call::may_leave`].
    ///
    /// # Errors
    /// As [`Call::leave_to_background`].
    pub fn work_in_background(
        &mut self,
        work: impl FnOnce(&Engine, Answer) + Send + 'static,
    ) -> CommandResult {
        if let Some(answer) = self.leave_to_background()? {
            in_background(self.engine, move |engine| work(engine, answer));
        }
        Ok(())
    }

    /// Whether a result may be computed by a background thread, from shared copies.
    pub fn may_precompute(&self) -> bool {
        let session = &*self.session;
        let tries = session.execution.precomputed.as_ref().map_or(0, |precomputed| precomputed.tries);
        let must_stay = session_attention::REPLIES | session_attention::IMPORTS;
        tries < TRIES_MAX && session.attention & must_stay == 0 && self.may_leave(true)
    }

    /// The result of [`Call::precompute`] for this command, if it is of this type and the source
    /// keys have not changed since.
    pub fn take_precomputed<T: ObjectType>(&mut self) -> Option<Result<T, CommandError>> {
        let now = self.now();
        let precomputed = self.session.execution.precomputed.as_mut()?;
        if !precomputed.watch.as_ref().is_some_and(|watch| watch.holds(now)) {
            return None;
        }
        precomputed.result.take()?.map(Object::into_inner).transpose()
    }

    /// Shares `keys`, which are in the command's lock set, on a background thread and computes what
    /// the command stores; then the command runs again. Call it only if [`Call::may_precompute`].
    /// `compute` gets a copy for each key, none of them [`CowValue::Unshareable`], and the time in
    /// ms since the Unix epoch; it returns `None` for values of the wrong type.
    ///
    /// # Errors
    /// As [`Call::leave_to_background`].
    pub fn precompute<T: ObjectType>(
        &mut self,
        keys: &[&[u8]],
        compute: impl FnOnce(&[CowValue], i64) -> Option<Result<T, CommandError>> + Send + 'static,
    ) -> CommandResult {
        let before = self.session.execution.precomputed.as_ref();
        let (tries, began) = before.map_or((0, None), |before| (before.tries, Some(before.began)));
        let (db, keys) = (self.keyspace.db(), boxed(keys));
        self.work_in_background(move |engine, answer| {
            if !answer.is_wanted() {
                return;
            }
            let now = unix_ms();
            let (shared, watch) = engine.keyspace.reader().share(db, now, &keys, true);
            let began = began.unwrap_or(answer.began);
            let mut again = Precomputed::new(began, tries + 1, watch, discard(engine));
            if are_shared(&shared) {
                again.result = compute(&shared, now).map(|result| result.map(Object::new));
            } else {
                again.tries = TRIES_MAX;
            }
            drop(shared);
            blocking::run_again(&answer.waiter, again);
        })
    }

    /// Runs `look` on a background thread. Then the command runs again, whatever has changed. Call
    /// it only if [`Call::may_precompute`].
    ///
    /// # Errors
    /// As [`Call::leave_to_background`].
    pub fn look_ahead(
        &mut self,
        look: impl FnOnce(&Engine) -> Option<Findings> + Send + 'static,
    ) -> CommandResult {
        self.work_in_background(move |engine, answer| {
            let mut again = Precomputed::new(answer.began, TRIES_MAX, None, discard(engine));
            again.findings = look(engine);
            blocking::run_again(&answer.waiter, again);
        })
    }

    /// Shares `key`, which is in the command's lock set, for [`Call::look_ahead`].
    ///
    /// # Errors
    /// As [`Call::leave_to_background`].
    pub fn look_ahead_in(
        &mut self,
        key: &[u8],
        look: impl FnOnce(&CowValue) -> Option<Findings> + Send + 'static,
    ) -> CommandResult {
        let (db, keys) = (self.keyspace.db(), boxed(&[key]));
        self.look_ahead(move |engine| {
            let (shared, _) = engine.keyspace.reader().share(db, unix_ms(), &keys, false);
            shared.first().and_then(look)
        })
    }

    /// Shares `keys`, which are in the command's lock set, on a background thread and writes the
    /// command's reply. Call it only if [`Call::may_precompute`]. `work` gets a copy for each key,
    /// none of them [`CowValue::Unshareable`], and the time in ms since the Unix epoch.
    ///
    /// # Errors
    /// As [`Call::leave_to_background`].
    pub fn answer_from_shared(
        &mut self,
        keys: &[&[u8]],
        work: impl FnOnce(&[CowValue], i64, &mut ReplyBuffer) -> CommandResult + Send + 'static,
    ) -> CommandResult {
        let (db, keys) = (self.keyspace.db(), boxed(keys));
        self.work_in_background(move |engine, answer| {
            if !answer.is_wanted() {
                return;
            }
            let now = unix_ms();
            let (shared, _) = engine.keyspace.reader().share(db, now, &keys, false);
            if !are_shared(&shared) {
                let inline = Precomputed::new(answer.began, TRIES_MAX, None, discard(engine));
                return blocking::run_again(&answer.waiter, inline);
            }
            let mut reply = answer.buffer();
            let result = work(&shared, now, &mut reply);
            drop(shared);
            match result {
                Ok(()) => answer.give(reply),
                Err(error) => answer.give_error(&error),
            }
        })
    }
}

fn boxed(keys: &[&[u8]]) -> Vec<Box<[u8]>> {
    keys.iter().map(|&key| key.into()).collect()
}

fn are_shared(shared: &[CowValue]) -> bool {
    shared.iter().all(|value| !matches!(value, CowValue::Unshareable))
}
