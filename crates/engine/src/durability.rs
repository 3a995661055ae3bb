//! Clients that wait until what they have changed is on disk (WAITAOF).
//!
//! The append-only file's threads tell whenever more is on disk; who waits for that is answered then. Timeouts end as those of all commands
//! that wait (`blocking.rs`).

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_keyspace::Type;
use braid_keyspace::waiters::Waiter;
use parking_lot::Mutex;

use crate::blocking::{self, TimeoutReply, Wait};
use crate::call::Call;
use crate::engine::Engine;
use crate::error::CommandResult;

/// Who waits, and for which offset of the journal.
#[derive(Default)]
pub struct Durability {
    waiters: Mutex<Vec<(u64, Arc<Waiter>)>>,
}

impl Durability {
    /// Whether changes up to this offset of the journal are in an append-only file on disk.
    pub(crate) fn has(&self, engine: &Engine, offset: u64) -> bool {
        engine.append_only.on.load(Relaxed) && engine.append_only.appender.synced() >= offset
    }

    /// Answers those who wait for no more than `synced`.
    pub(crate) fn serve(&self, engine: &Engine, synced: u64) {
        let ready: Vec<_> = {
            let mut waiters = self.waiters.lock();
            waiters.retain(|(_, waiter)| waiter.is_waiting());
            waiters.extract_if(.., |(offset, _)| *offset <= synced).collect()
        };
        for (offset, waiter) in ready {
            blocking::serve_files(engine, &waiter, offset);
        }
    }
}

impl Call<'_, '_> {
    /// Answers with how many append-only files have everything that was changed so far, once the server's own has (if `local`) and `replicas`
    /// have, or when the time is over.
    pub fn wait_for_files(&mut self, local: bool, replicas: i64, deadline_ms: i64) -> CommandResult {
        let engine = self.engine;
        let offset = engine.keyspace.journal.end();
        let is_met = (!local || engine.durability.has(engine, offset)) && replicas == 0;
        if is_met || self.session.deny_blocking {
            blocking::reply_files(engine, self.reply, offset);
            return Ok(());
        }
        let timeout = TimeoutReply::Files(offset);
        self.wait(Wait { timeout, ..Wait::new(Type::String, &[], deadline_ms) })?;
        if replicas == 0
            && let Some(blocked) = &self.session.blocked
        {
            engine.durability.waiters.lock().push((offset, Arc::clone(&blocked.waiter)));
            engine.durability.serve(engine, engine.append_only.appender.synced());
        }
        Ok(())
    }

    /// Answers with how many replicas have everything that was changed so far, once `replicas` have or the time is over.
    pub fn wait_for_replicas(&mut self, replicas: i64, deadline_ms: i64) -> CommandResult {
        if replicas <= 0 || self.session.deny_blocking {
            self.reply.integer(0);
            return Ok(());
        }
        self.wait(Wait { timeout: TimeoutReply::Replicas, ..Wait::new(Type::String, &[], deadline_ms) })
    }
}
