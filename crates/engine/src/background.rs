// SPDX-License-Identifier: BSD-3-Clause
//! Long commands that threads in the background work for, while their clients wait and all others are served.
//!
//! A body that finds that it would take long calls [`Call::leave_to_background`] and hands the
//! [`Answer`] over with the work: to [`Engine::in_background`], or to the lazy-free thread. The
//! wait is one for no key (`blocking.rs`): what the client has sent behind the command stays in its
//! buffer, and whoever closes the connection ends the wait. CLIENT UNBLOCK does not.
//!
//! What is computed of whole collections is computed of loans
//! ([`Reader::lend`](braid_keyspace::reader::Reader::lend)): all keys are borrowed at one moment,
//! and their locks are free again microseconds later. A command that only reads is done then: its
//! reply is that of this moment ([`Call::answer_from_loans`]). One that stores its result
//! ([`Call::precompute`]) is run again by its client's own thread, as if the client had sent it
//! anew, with the result at hand ([`Precomputed`]): all checks, a pause, the journal, events and
//! waiters are those of an ordinary command. The keys are watched meanwhile. If one has changed the
//! result is void, and is computed again; after some tries the command does the work itself, under
//! its locks.
//!
//! In a transaction or a script everything happens at one moment: there, bodies do the work themselves.

pub mod threads;

use std::any::Any;
use std::sync::Arc;
use std::sync::mpsc::channel;

use braid_base::clock::{Ticks, unix_ms};
use braid_keyspace::Type;
use braid_keyspace::reader::Loan;
use braid_keyspace::waiters::Waiter;
use braid_resp::reply::ReplyBuffer;
use parking_lot::Mutex;

use crate::blocking::state::Discard;
pub use crate::blocking::state::Precomputed;
use crate::blocking::{self, TimeoutReply, Wait};
use crate::engine::Engine;
use crate::engine::call::Call;
use crate::session::session_attention;
use braid_spec::{CommandError, CommandResult};
pub use threads::Background;
use threads::Job;

/// The right to answer a client whose command was left to a thread in the background.
pub struct Answer {
    waiter: Arc<Waiter>,
    limit: usize,
    began: Ticks,
}

impl Answer {
    /// False if the client is gone: nobody needs the work any more.
    pub fn is_wanted(&self) -> bool {
        self.waiter.is_waiting()
    }

    /// For the client's reply: in its protocol, with its limit.
    pub fn buffer(&self) -> ReplyBuffer {
        let mut reply = ReplyBuffer::new(blocking::protocol_of(&self.waiter));
        reply.set_limit(self.limit);
        reply
    }

    /// Answers the client. The time until now counts as the command's.
    pub fn give(self, reply: ReplyBuffer) {
        self.give_after(reply, 0);
    }

    /// As [`Answer::give`], for work that has changed keys: where it ends in the journal (0:
    /// nothing was journalled).
    pub fn give_after(self, reply: ReplyBuffer, written_to: u64) {
        blocking::note_work(&self.waiter, Ticks::now().nanos_since(self.began));
        blocking::serve_keyless(&self.waiter, written_to, |answer| *answer = reply);
    }

    /// Answers the client that its command has failed.
    pub fn give_error(self, error: &CommandError) {
        let mut reply = self.buffer();
        reply.error_bytes(&error.line());
        self.give(reply);
    }

    /// Answers the client that its command is done.
    pub fn give_ok(self) {
        let mut reply = self.buffer();
        reply.ok();
        self.give(reply);
    }
}

/// How often a result is computed in the background before the command does the work itself.
const TRIES_MAX: u32 = 3;

impl Engine {
    /// What a [`Precomputed`] is dropped by: locks may be held, and a result may take long to free.
    /// If it cannot be sent the server ends.
    fn discard(&self) -> Discard {
        let engine = self.this.clone();
        Box::new(move |watch, result| {
            if let Some(engine) = engine.upgrade() {
                engine.in_background(move |engine| {
                    if let Some(watch) = watch {
                        engine.keyspace.reader().unwatch(&watch);
                    }
                    drop(result);
                });
            }
        })
    }

    /// Has a thread in the background do `job`, begun after those that were given before. False if
    /// there is none.
    pub fn in_background(&self, job: impl FnOnce(&Engine) + Send + 'static) -> bool {
        let sender = self.background.sender.lock();
        let engine = self.this.clone();
        let job = move || {
            if let Some(engine) = engine.upgrade() {
                job(&engine);
            }
        };
        sender.as_ref().is_some_and(|sender| sender.send(Box::new(job)).is_ok())
    }

    /// Sees to it that the threads are there. False if none can be started.
    fn start_background(&self) -> bool {
        let mut sender = self.background.sender.lock();
        if sender.is_none() {
            let (jobs, receiver) = channel::<Job>();
            let receiver = Arc::new(Mutex::new(receiver));
            for _ in 0..self.thread_count().div_ceil(2) {
                let receiver = Arc::clone(&receiver);
                let next = move || receiver.lock().recv();
                let run = move || {
                    while let Ok(job) = next() {
                        job();
                    }
                };
                match std::thread::Builder::new().name("bio_commands".into()).spawn(run) {
                    Ok(_) => *sender = Some(jobs.clone()),
                    Err(error) => log::warn!("A thread for long commands cannot be started: {error}"),
                }
            }
        }
        sender.is_some()
    }
}

impl Call<'_, '_> {
    /// Whether long work may be left to a thread in the background. `reads`: the reply tells of
    /// keys. A client that is told of changes to what it reads (CLIENT TRACKING) must not be told
    /// before it has the reply.
    pub fn may_leave(&self, reads: bool) -> bool {
        let session = &*self.session;
        let tracks = session.attention & session_attention::TRACKS != 0;
        let must_stay = session.deny_blocking || session.in_script || session.serving.is_some();
        !must_stay && (!reads || !tracks) && self.engine.start_background()
    }

    /// The client waits from now on; whoever has what this returns answers it.
    pub fn leave_to_background(&mut self) -> Result<Option<Answer>, CommandError> {
        let limit = self.reply.limit();
        self.wait(Wait { timeout: TimeoutReply::Never, ..Wait::new(Type::STRING, &[], 0) })?;
        let blocked = self.session.blocked.as_ref();
        let began = Ticks::now();
        Ok(blocked.map(|blocked| Answer { waiter: Arc::clone(&blocked.waiter), limit, began }))
    }

    /// Has the thread in the background do `work` and answer the client. To be called only where
    /// [`Call::may_leave`] says so.
    pub fn work_in_background(
        &mut self,
        work: impl FnOnce(&Engine, Answer) + Send + 'static,
    ) -> CommandResult {
        if let Some(answer) = self.leave_to_background()? {
            self.engine.in_background(move |engine| work(engine, answer));
        }
        Ok(())
    }

    /// Whether a result may be computed by the thread in the background, from loans.
    pub fn may_precompute(&self) -> bool {
        let session = &*self.session;
        let tries = session.precomputed.as_ref().map_or(0, |precomputed| precomputed.tries);
        let must_stay = session_attention::REPLIES | session_attention::IMPORTS;
        tries < TRIES_MAX && session.attention & must_stay == 0 && self.may_leave(true)
    }

    /// What [`Call::precompute`] has had computed for this command, if the keys that it was
    /// computed of have not changed since.
    pub fn take_precomputed<T: 'static>(&mut self) -> Option<Box<T>> {
        let now = self.now();
        let precomputed = self.session.precomputed.as_mut()?;
        if !precomputed.watch.as_ref().is_some_and(|watch| watch.holds(now)) {
            return None;
        }
        precomputed.result.take()?.downcast().ok()
    }

    /// Has the thread in the background borrow `keys`, which are in the command's lock set, and
    /// compute what the command stores of them; then the command is run again. To be called only
    /// where [`Call::may_precompute`] says so. `compute` gets a loan for each key, none of them
    /// [`Loan::Unlent`], and the time in ms since the Unix epoch; nothing if these are not what the
    /// command is for.
    pub fn precompute<T: Send + 'static>(
        &mut self,
        keys: &[&[u8]],
        compute: impl FnOnce(&[Loan], i64) -> Option<Box<T>> + Send + 'static,
    ) -> CommandResult {
        let before = self.session.precomputed.as_ref();
        let (tries, began) = before.map_or((0, None), |before| (before.tries, Some(before.began)));
        let (db, keys) = (self.keyspace.db(), boxed(keys));
        self.work_in_background(move |engine, answer| {
            if !answer.is_wanted() {
                return;
            }
            let now = unix_ms();
            let (loans, watch) = engine.keyspace.reader().lend(db, now, &keys, true);
            let began = began.unwrap_or(answer.began);
            let mut again = Precomputed::new(began, tries + 1, watch, engine.discard());
            if are_lent(&loans) {
                let result = compute(&loans, now);
                again.result = result.map(|result| result as Box<dyn Any + Send>);
            } else {
                again.tries = TRIES_MAX;
            }
            drop(loans);
            blocking::run_again(&answer.waiter, again);
        })
    }

    /// Has the thread in the background borrow `keys`, which are in the command's lock set, and
    /// write the command's reply. To be called only where [`Call::may_precompute`] says so. `work`
    /// gets a loan for each key, none of them [`Loan::Unlent`], and the time in ms since the Unix
    /// epoch.
    pub fn answer_from_loans(
        &mut self,
        keys: &[&[u8]],
        work: impl FnOnce(&[Loan], i64, &mut ReplyBuffer) -> CommandResult + Send + 'static,
    ) -> CommandResult {
        let (db, keys) = (self.keyspace.db(), boxed(keys));
        self.work_in_background(move |engine, answer| {
            if !answer.is_wanted() {
                return;
            }
            let now = unix_ms();
            let (loans, _) = engine.keyspace.reader().lend(db, now, &keys, false);
            if !are_lent(&loans) {
                let inline = Precomputed::new(answer.began, TRIES_MAX, None, engine.discard());
                return blocking::run_again(&answer.waiter, inline);
            }
            let mut reply = answer.buffer();
            let result = work(&loans, now, &mut reply);
            drop(loans);
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

fn are_lent(loans: &[Loan]) -> bool {
    loans.iter().all(|loan| !matches!(loan, Loan::Unlent))
}
