// SPDX-License-Identifier: BSD-3-Clause
//! The primary's side of full syncs in parallel with the stream
//! (`dual-channel-replication-enabled`; the protocol is documented at the replica's side:
//! `link/dual_channel.rs`).
//!
//! From the full sync's cut on, the journal keeps the stream for a replica that has not yet
//! requested it on its first connection ([`Reserved`]).

use std::sync::atomic::Ordering::Relaxed;

use braid_executor::engine::Engine;
use braid_executor::session::Session;
use braid_replication::state::{Reserved, State};
use braid_replication::{ReplicaOptions, StreamPosition};

use crate::position::{self, Position, own_offset};
use crate::throttle;

/// How long the stream is kept after the second connection has ended.
const GRACE_MS: i64 = 60_000;

/// The stream kept for a replica's first connection, if that connection requests it.
pub(super) fn take_reserved(
    state: &mut State,
    options: &ReplicaOptions,
    position: &Position<'_>,
) -> Option<StreamPosition> {
    let client = options.rdb_client?;
    let wanted = own_offset(state, position)?;
    let at = state.reserved.iter().position(|reserved| reserved.client == client)?;
    let mut reserved = state.reserved.swap_remove(at);
    let is_there = reserved.position.reader().is_some_and(|reader| reader.position() == wanted);
    is_there.then_some(reserved.position)
}

/// Handles a client that is no longer a replica. It may have been a second connection.
pub(super) fn note_gone(state: &mut State, client: u64, now_ms: i64) {
    let of_client = |reserved: &&mut Reserved| reserved.client == client;
    if let Some(reserved) = state.reserved.iter_mut().find(of_client) {
        reserved.until_ms = Some(now_ms + GRACE_MS);
    }
}

/// True if a replica that requests the stream should take a full sync on a second connection
/// (`+DUALCHANNELSYNC`).
pub fn needs_dual_channel_sync(engine: &Engine, session: &Session, position: Option<&Position<'_>>) -> bool {
    let Some(options) = session.replication.options.as_deref() else { return false };
    let Some(position) = position.filter(|_| options.dual_channel && !options.rdb_only) else {
        return false;
    };
    let is_full = {
        let state = engine.replication.state.lock();
        let is_reserved = |client| state.reserved.iter().any(|reserved| reserved.client == client);
        !options.rdb_client.is_some_and(is_reserved) && !position::can_resume_at(engine, &state, position)
    };
    if is_full && position.id != b"?" {
        engine.replication.partial_refused.fetch_add(1, Relaxed);
    }
    is_full
}

/// True if a client is a second connection whose stream is kept (REPLCONF set-rdb-client-id).
pub fn has_reserved(engine: &Engine, client: u64) -> bool {
    engine.replication.state.lock().reserved.iter().any(|reserved| reserved.client == client)
}

/// The current database of the stream: on a primary the stream after each full sync begins
/// with a SELECT.
pub(super) fn stream_database(engine: &Engine) -> u64 {
    let link = &engine.replication.link;
    if link.is_replica() { link.db.load(Relaxed) } else { 0 }
}

/// Drops kept streams that were not requested in time, or have become too long.
pub(super) fn give_up_reserved(engine: &Engine, now_ms: i64) {
    let (limit, end) = (throttle::replica_output_limit(engine).hard_bytes, engine.keyspace.journal.end());
    engine.replication.state.lock().reserved.retain_mut(|reserved| {
        let at = reserved.position.reader().map_or(end, |reader| reader.position());
        let is_late = reserved.until_ms.is_some_and(|until| now_ms >= until);
        let is_long = limit > 0 && end.saturating_sub(at) > limit;
        if is_late || is_long {
            log::warn!(
                "Dropping the stream reserved for the full sync of client {}: it was never requested",
                reserved.client
            );
        }
        !(is_late || is_long)
    });
}
