// SPDX-License-Identifier: BSD-3-Clause
//! Clients that wait until what they have changed is on disk (WAITAOF), or has reached replicas (WAIT).
//!
//! What is waited for is the journal up to the end of the client's own last change. The append-only
//! file's threads tell whenever more is on disk, and replicas when they have more; who waits for
//! that is answered then. Timeouts end as those of all commands that wait (`blocking.rs`).

pub mod state;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_keyspace::Type;
use braid_resp::reply::ReplyBuffer;

use crate::blocking;
use crate::blocking::state::{TimeoutReply, Wait};
use crate::engine::Engine;
use crate::engine::call::Call;
use braid_spec::CommandResult;

pub use state::{Copies, CopiesOf, Durability};

impl Copies {
    fn is_met(self, engine: &Engine) -> bool {
        let replication = &engine.replication;
        match self.of {
            CopiesOf::Replicas(wanted) => replication.have(self.offset) >= wanted,
            CopiesOf::Files { own, replicas } => {
                (!own || self.is_in_own_file(engine)) && replication.have_on_disk(self.offset) >= replicas
            }
        }
    }

    fn is_in_own_file(self, engine: &Engine) -> bool {
        engine.append_only.on.load(Relaxed) && engine.append_only.appender.synced() >= self.offset
    }

    /// Replies with who has it now.
    pub(crate) fn reply(self, engine: &Engine, reply: &mut ReplyBuffer) {
        match self.of {
            CopiesOf::Replicas(_) => reply.integer(engine.replication.have(self.offset)),
            CopiesOf::Files { .. } => {
                reply.array(2);
                reply.integer(i64::from(self.is_in_own_file(engine)));
                reply.integer(engine.replication.have_on_disk(self.offset));
            }
        }
    }
}

impl Durability {
    /// Answers those who have what they wait for.
    pub(crate) fn serve(&self, engine: &Engine) {
        let ready: Vec<_> = {
            let mut waiters = self.waiters.lock();
            waiters.retain(|(_, waiter)| waiter.is_waiting());
            waiters.extract_if(.., |(copies, _)| copies.is_met(engine)).collect()
        };
        for (copies, waiter) in ready {
            blocking::serve_keyless(&waiter, 0, |reply| copies.reply(engine, reply));
        }
    }
}

impl Call<'_, '_> {
    /// Answers with how many replicas, or files, have everything that the client has changed so
    /// far, once there are as many as wanted or the time is over.
    pub fn wait_for_copies(&mut self, of: CopiesOf, deadline_ms: i64) -> CommandResult {
        let engine = self.engine;
        let copies = Copies { offset: self.session.written_to, of };
        if copies.is_met(engine) || self.session.deny_blocking {
            copies.reply(engine, self.reply);
            return Ok(());
        }
        self.wait(Wait {
            timeout: TimeoutReply::Copies(copies),
            ..Wait::new(Type::STRING, &[], deadline_ms)
        })?;
        if let Some(blocked) = &self.session.blocked {
            engine.durability.waiters.lock().push((copies, Arc::clone(&blocked.waiter)));
            engine.ask_replicas(self.keyspace.context);
            // It may have come true in between.
            engine.durability.serve(engine);
        }
        Ok(())
    }
}
