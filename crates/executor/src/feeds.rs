// SPDX-License-Identifier: BSD-3-Clause
//! Change feeds of a running server: what their readers may read, and clients that wait for
//! entries.
//!
//! A client that has read everything waits for the journal's bell (`Journal::wants_bell`). The
//! thread that appends next rings it and sends the client's loop a message; the client's command
//! runs again there. Often the new change is none of the feed's, and while others write all the
//! time that would cost writers a message each time. So a client that finds that the bell has just
//! been rung, or that there is news already, waits for a moment instead.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::unix_ms;
use braid_clients::Message;
use braid_clients::attention::FEEDS;
pub use braid_feed::Figures;
use braid_feed::{Feed, Source};
use braid_replication::history::History;
use braid_spec::{Command, CommandError, CommandResult, Flags, KeyFlags, keys};

use crate::blocking::{self, TimeoutReply, Wait};
use crate::engine::Engine;
use crate::engine::call::Call;
use crate::journal_uses::{self, FOR_FEEDS};
use crate::session::Session;

/// How long a client waits while others write, in milliseconds.
const MOMENT_MS: i64 = 2;
/// How often an appended range is awaited that another thread is still writing.
const LOOKS: u32 = 1000;
/// Makes the clients that wait for entries look for them.
pub fn wake_readers(engine: &Engine) {
    for waiter in engine.feed_waiters.take() {
        if blocking::claim(&waiter) {
            let client = &waiter.request.client;
            client.send(Message::RunAgain(client.id));
        }
    }
}

/// Begins to keep the journal for feeds. Nothing has been loaded yet, and no loop runs.
///
/// # Errors
/// If this kind of server has no feeds.
pub fn begin_feeds(engine: &Engine, feeds: Vec<Feed>) -> Result<(), &'static str> {
    if feeds.is_empty() {
        return Ok(());
    }
    if engine.keyspace.is_by_slot() {
        return Err("change-feed is not supported in cluster mode");
    }
    if engine.active.is_some() {
        return Err("change-feed is not supported with active-replica");
    }
    engine.feeds.set(feeds, |name| engine.keyspace.hash(name));
    engine.keyspace.settings.spells_losses.store(true, Relaxed);
    journal_uses::begin_backlog(engine);
    journal_uses::set_journal_use(engine, FOR_FEEDS, true);
    engine.attention.set(FEEDS, true);
    Ok(())
}

/// Refuses a command that would write to a key with the name of a feed.
///
/// # Errors
/// If it would.
#[cold]
pub(crate) fn check(engine: &Engine, command: &Command, args: &[&[u8]]) -> CommandResult {
    if !command.spec.flags.has(Flags::WRITE) {
        return Ok(());
    }
    let found = keys::find(command.spec, args).unwrap_or_default();
    let feed =
        found.iter().filter(|at| !at.flags.has(KeyFlags::RO)).find_map(|at| engine.feeds.get(args[at.index]));
    match feed {
        Some(feed) => {
            let text = "' is a change feed: it can only be read, by XREAD and XRANGE";
            Err(CommandError::quoting("ERR '", &feed.name, text))
        }
        None => Ok(()),
    }
}

/// True if a request for a key with this hash certainly writes to no feed.
pub(crate) fn is_far_from_feeds(engine: &Engine, command: &Command, hash: u64) -> bool {
    !command.spec.flags.has(Flags::WRITE) || command.simple_keys.is_single() && !engine.feeds.may_have(hash)
}

/// What a client may read of feeds now. Under `appendfsync always` that is what is on disk, as for
/// replicas. `history`: this server's.
pub fn source<'s>(engine: &'s Engine, session: &Session, history: &'s History) -> Source<'s> {
    let journal = &engine.keyspace.journal;
    let mut end = journal.complete();
    // The client finds its own changes, even if another thread is still copying earlier ones.
    for _ in 0..LOOKS {
        if end >= session.written_to {
            break;
        }
        std::thread::yield_now();
        end = journal.complete();
    }
    if engine.sync_writes.waits_for_disk() {
        end = end.min(engine.append_only.appender.synced());
    }
    source_until(engine, history, end)
}

/// What may be read up to an offset in the journal that [`source`] has found.
pub fn source_until<'s>(engine: &'s Engine, history: &'s History, end: u64) -> Source<'s> {
    let journal = &engine.keyspace.journal;
    let is_primary = !engine.replication.link.is_replica();
    Source { journal, history, commands: &engine.commands.table, end, is_primary }
}

/// The number of clients that wait for entries.
pub fn waiting_readers(engine: &Engine) -> usize {
    engine.feed_waiters.count()
}

impl Call<'_, '_> {
    /// Blocks the client until there may be new entries of a feed, or one of the wait's keys is
    /// filled; then the command runs again. `seen`: the offset in the journal up to which there
    /// are none.
    ///
    /// # Errors
    /// None today, as of [`Call::wait`].
    pub fn wait_for_entries(&mut self, wait: Wait<'_>, seen: u64) -> CommandResult {
        let engine = self.engine;
        let (journal, state) = (&engine.keyspace.journal, &engine.feed_waiters);
        let (until, now) = (wait.deadline_ms, unix_ms());
        let wait = Wait { until_ms: Some(until), ..wait };
        let (woken, moment) = (state.woken_ms(), now.saturating_add(MOMENT_MS));
        let is_busy = journal.end() > seen || (now - MOMENT_MS..=now).contains(&woken);
        if is_busy && (until == 0 || moment < until) {
            return self.wait(Wait { deadline_ms: moment, timeout: TimeoutReply::RunAgain, ..wait });
        }
        self.wait(wait)?;
        if let Some(blocked) = &self.session.blocked {
            state.add(Arc::clone(&blocked.waiter));
            if journal.wants_bell(seen) {
                wake_readers(engine);
            }
        }
        Ok(())
    }

    /// True while this thread runs the command for a client that waits, because one of its keys is
    /// filled.
    pub fn is_serving(&self) -> bool {
        self.session.execution.serving.is_some()
    }
}
