// SPDX-License-Identifier: BSD-3-Clause
//! Full syncs from a sibling: a replica that needs one is sent to another replica, so that the
//! primary serves clients meanwhile (`repl-sibling-sync`, Braid servers only).
//!
//! The replica comes back for the stream after the full sync, which the primary's backlog must
//! still have; otherwise it gets a full sync here, as it does if the sibling fails.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_executor::engine::Engine;
use braid_executor::session::Session;
use braid_replication::link::Primary;
use braid_replication::{Filter, Replica, ReplicaOptions, Stage};

use crate::position::{self, Position};

/// The sibling from which a client that requests the stream should take a full sync. `None`
/// if it needs none, if it does not support siblings, or if no other replica can serve one.
pub fn sibling_for(engine: &Engine, session: &Session, position: Option<&Position<'_>>) -> Option<Primary> {
    let options = session.replication.options.as_deref()?;
    let knows_siblings = options.takes_sibling && !options.rdb_only && options.filter == Filter::ALL;
    let position = position.filter(|_| knows_siblings)?;
    let state = engine.replication.state.lock();
    if position::can_resume_at(engine, &state, position) {
        return None;
    }
    // Recent enough that the stream after its full sync is still kept when that has been
    // loaded.
    let least = engine.keyspace.journal.end().saturating_sub(engine.config.repl_backlog_size() / 2);
    let can_serve = |replica: &&Arc<Replica>| {
        let ReplicaOptions { sibling, rdb_only, port, .. } = replica.options;
        let can_be_reached = sibling && !rdb_only && port != 0;
        can_be_reached && replica.stage() == Stage::Online && replica.has_acknowledged.load(Relaxed)
    };
    let siblings = state.replicas.iter().filter(can_serve);
    let newest = siblings.max_by_key(|replica| replica.acknowledged.load(Relaxed))?;
    let is_near = newest.acknowledged.load(Relaxed) >= least;
    is_near.then(|| Primary { host: newest.ip(), port: newest.options.port })
}
