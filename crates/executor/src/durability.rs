// SPDX-License-Identifier: BSD-3-Clause
//! WAIT and WAITAOF: clients that wait until their changes have reached replicas or are on disk.
//!
//! A client waits for the journal up to the end of its own last change. The append-only file's
//! threads report when more is on disk, and replicas when they have received more; clients whose
//! condition is met are then answered. Timeouts work as for all blocking commands
//! (`blocking.rs`).

pub mod acknowledgements;
pub mod state;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_keyspace::Type;
use braid_resp::reply::ReplyBuffer;
use braid_spec::CommandResult;

use crate::blocking::state::{TimeoutReply, Wait};
use crate::engine::Engine;
use crate::engine::call::Call;
use crate::{blocking, tell_replicas};

pub use acknowledgements::{AckTarget, Acknowledgements};
pub use state::Durability;

/// Error for WAITAOF without an append-only file.
pub const NO_FILE: &str = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

impl Acknowledgements {
    fn is_met(self, engine: &Engine) -> bool {
        let replication = &engine.replication;
        match self.of {
            AckTarget::Replicas(wanted) => replication.have(self.offset) >= wanted,
            // The condition can no longer be met: the reply is an error.
            AckTarget::Files { own: true, .. } if !engine.append_only.on.load(Relaxed) => true,
            AckTarget::Files { own, replicas } => {
                (!own || self.is_in_own_file(engine)) && replication.have_on_disk(self.offset) >= replicas
            }
        }
    }

    fn is_in_own_file(self, engine: &Engine) -> bool {
        engine.append_only.on.load(Relaxed)
            && engine.append_only.appender.synced() >= self.offset
            && engine.active.as_ref().is_none_or(|active| active.offset_on_disk() >= self.offset)
    }

    /// Replies with the current counts.
    pub(crate) fn reply(self, engine: &Engine, reply: &mut ReplyBuffer) {
        match self.of {
            AckTarget::Replicas(_) => reply.integer(engine.replication.have(self.offset)),
            AckTarget::Files { own: true, .. } if !engine.append_only.on.load(Relaxed) => {
                reply.error(NO_FILE);
            }
            AckTarget::Files { .. } => {
                reply.array(2);
                reply.integer(i64::from(self.is_in_own_file(engine)));
                reply.integer(engine.replication.have_on_disk(self.offset));
            }
        }
    }
}

impl Durability {
    /// Answers clients whose condition is met.
    pub fn serve(&self, engine: &Engine) {
        let ready: Vec<_> = {
            let mut waiters = self.waiters.lock();
            waiters.retain(|(_, waiter)| waiter.is_waiting());
            waiters.extract_if(.., |(acks, _)| acks.is_met(engine)).collect()
        };
        for (acks, waiter) in ready {
            blocking::serve_keyless(&waiter, 0, |reply| acks.reply(engine, reply));
        }
    }
}

/// Blocks until enough replicas or files have the client's changes, or until the deadline, and
/// replies with their numbers.
///
/// # Errors
/// As [`Call::wait`].
pub fn wait_for_acknowledgements(call: &mut Call<'_, '_>, of: AckTarget, deadline_ms: i64) -> CommandResult {
    let engine = call.engine;
    let acks = Acknowledgements { offset: call.session.written_to, of };
    if acks.is_met(engine) || call.session.execution.deny_blocking {
        acks.reply(engine, call.reply);
        return Ok(());
    }
    call.wait(Wait {
        timeout: TimeoutReply::Acknowledgements(acks),
        ..Wait::new(Type::STRING, &[], deadline_ms)
    })?;
    if let Some(blocked) = &call.session.blocked {
        engine.durability.waiters.lock().push((acks, Arc::clone(&blocked.waiter)));
        tell_replicas::ask_replicas(engine, call.keyspace.context);
        // The condition may have been met meanwhile.
        engine.durability.serve(engine);
    }
    Ok(())
}

/// Rings the loops whose clients wait for the disk.
pub fn tell_durable(engine: &Engine) {
    engine.append_only.ring_loops(&engine.clients.mailboxes);
    engine.durability.serve(engine);
}
