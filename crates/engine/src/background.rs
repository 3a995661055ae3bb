// SPDX-License-Identifier: BSD-3-Clause
//! Long commands that a thread in the background works for, while their clients wait and all others are served.
//!
//! A body that finds that it would take long calls [`Call::leave_to_background`] and hands the [`Answer`] over with the work: to
//! [`Engine::in_background`], or to the lazy-free thread. The wait is one for no key (`blocking.rs`): what the client has sent behind the
//! command stays in its buffer, and whoever closes the connection ends the wait. CLIENT UNBLOCK does not.
//!
//! In a transaction or a script everything happens at one moment: there, bodies do the work themselves.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use braid_base::clock::Ticks;
use braid_keyspace::Type;
use braid_keyspace::waiters::Waiter;
use braid_resp::reply::ReplyBuffer;
use parking_lot::Mutex;

use crate::blocking::{self, TimeoutReply, Wait};
use crate::call::Call;
use crate::engine::Engine;
use crate::session::session_attention;
use braid_spec::{CommandError, CommandResult};

type Job = Box<dyn FnOnce(&Engine) + Send>;

/// The thread in the background, started when it is first needed.
#[derive(Default)]
pub struct Background {
    sender: Mutex<Option<Sender<Job>>>,
}

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
        blocking::note_work(&self.waiter, Ticks::now().nanos_since(self.began));
        blocking::serve_keyless(&self.waiter, |answer| *answer = reply);
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

impl Engine {
    /// Has the thread in the background do `job`, after those that it has been given before. False if there is none.
    pub fn in_background(&self, job: impl FnOnce(&Engine) + Send + 'static) -> bool {
        let sender = self.background.sender.lock();
        sender.as_ref().is_some_and(|sender| sender.send(Box::new(job)).is_ok())
    }

    /// Sees to it that the thread is there. False if it cannot be started.
    fn start_background(&self) -> bool {
        let mut sender = self.background.sender.lock();
        if sender.is_none() {
            let (jobs, receiver) = channel::<Job>();
            let engine = self.this.clone();
            let run = move || {
                while let Ok(job) = receiver.recv() {
                    let Some(engine) = engine.upgrade() else { return };
                    job(&engine);
                }
            };
            match std::thread::Builder::new().name("bio_commands".into()).spawn(run) {
                Ok(_) => *sender = Some(jobs),
                Err(error) => log::warn!("No thread for long commands can be started: {error}"),
            }
        }
        sender.is_some()
    }
}

impl Call<'_, '_> {
    /// Whether long work may be left to a thread in the background. `reads`: the reply tells of keys. A client that is told of changes to
    /// what it reads (CLIENT TRACKING) must not be told before it has the reply.
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

    /// Has the thread in the background do `work` and answer the client. To be called only where [`Call::may_leave`] says so.
    pub fn work_in_background(
        &mut self,
        work: impl FnOnce(&Engine, Answer) + Send + 'static,
    ) -> CommandResult {
        if let Some(answer) = self.leave_to_background()? {
            self.engine.in_background(move |engine| work(engine, answer));
        }
        Ok(())
    }
}
