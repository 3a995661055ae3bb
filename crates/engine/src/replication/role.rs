// SPDX-License-Identifier: BSD-3-Clause
//! Roles: this server is a primary, or the replica of another.
//!
//! Roles change with the world stopped. While it is a replica its own commands are not journalled:
//! the journal has the primary's stream, byte for byte.

use std::sync::atomic::Ordering::Relaxed;

use braid_base::gate::World;
use braid_clients::attention::FORMER_PRIMARY;
use braid_clients::attention::{READ_ONLY, REPLICA, STALE};
use braid_clients::client_flags::READS_REPLICA;
use braid_clients::{Message, Unblocking};
use braid_config::MasterAddress;
use braid_keyspace::Context;
use braid_keyspace::keyspace::Removal;
use braid_persistence::ReplicationNote;
use braid_replication::failover::FailoverPhase;
use braid_replication::link::Primary;

use braid_spec::Flags;

use super::FOR_REPLICAS;
use super::redirect::leads_command_away;
use crate::append_only;
use crate::engine::Engine;
use crate::engine::settings;
use crate::replication;
use crate::replication::failover;
use crate::replication::link;
use crate::sync_writes;

/// Becomes the replica of `primary`, or of another primary than before (REPLICAOF). This
/// server's history is kept: if the primary knows it, the stream continues from there.
pub fn become_replica(engine: &Engine, world: &World<'_>, primary: Primary) {
    let link = &engine.replication.link;
    let was_primary = !link.is_replica();
    // A failover would hold back clients and the new primary's stream forever.
    match engine.replication.failover.phase() {
        FailoverPhase::WaitingForSync if was_primary => {
            failover::end_failover_in(engine, world, "another server has become the primary");
        }
        // A group's handover waits for this: it is complete when the role changes.
        FailoverPhase::InProgress if was_primary && sync_writes::has_group(engine) => {
            failover::note_failover_done(engine)
        }
        _ => {}
    }
    note_in_config(engine, &[&primary.host, &primary.port.to_string()]);
    // Replicas stay attached: if the stream continues they need not know.
    link.set_primary(Some(primary));
    if was_primary {
        if sync_writes::has_group(engine) {
            engine.replication.in_sync.clear();
        }
        // A cluster node redirects its clients to the new primary, and continues to do so.
        if sync_writes::has_group(engine) && engine.cluster.is_none() {
            engine.sync_writes.former.begin(engine.clients.registry.last_id());
            engine.attention.set(FORMER_PRIMARY, true);
        }
        unblock_all(engine);
    }
    apply_role(engine);
    link::start_link(engine);
}

/// Becomes a primary (REPLICAOF NO ONE). The history continues under a new ID; replicas that
/// know the old ID need no full sync.
pub fn become_primary(engine: &Engine, _world: &World<'_>) {
    let link = &engine.replication.link;
    if !link.is_replica() {
        return;
    }
    note_in_config(engine, &["no", "one"]);
    link.set_primary(None);
    // Clients that came while this server was the primary before find the newest data here
    // again.
    engine.attention.set(FORMER_PRIMARY, false);
    {
        let mut state = engine.replication.state.lock();
        let at = state.history.offset(engine.keyspace.journal.end());
        state.history.branch(at);
        // Replicas get time to reconnect.
        state.last_replica_ms = braid_base::clock::unix_ms();
        log::info!(
            "Setting secondary replication ID to {}, valid up to offset: {}. New replication ID is {}",
            state.history.earlier().map_or("", |(id, _)| id),
            at + 1,
            state.history.id()
        );
    }
    // The journal of this server's own changes begins with a SELECT.
    engine.keyspace.journal.forget_database();
    disconnect_replicas(engine);
    apply_role(engine);
    // A failed full sync leaves the append-only file off.
    resume_append_only(engine);
}

/// Switches the append-only file on again after a full sync has switched it off, if it is
/// configured.
pub(super) fn resume_append_only(engine: &Engine) {
    if let Err(error) = append_only::switch_append_only(engine) {
        log::warn!("Cannot switch the append-only file on again: {error}");
    }
}

/// Makes CONFIG GET and CONFIG REWRITE report the primary.
fn note_in_config(engine: &Engine, words: &[&str]) {
    if engine.group.is_some() {
        // The group decides the role; it is not a setting.
        return;
    }
    if let Err(error) = engine.config.assign("replicaof", words) {
        log::warn!("Cannot record the primary in the configuration: {error}");
    }
}

/// Applies the role, and the settings that concern replicas.
pub(crate) fn apply_role(engine: &Engine) {
    let (config, link) = (&engine.config, &engine.replication.link);
    let is_replica = link.is_replica();
    engine.attention.set(REPLICA, is_replica);
    engine.attention.set(READ_ONLY, is_replica && config.replica_read_only());
    engine.attention.set(STALE, is_replica && !link.is_up() && !config.replica_serve_stale_data());
    apply_journal_uses(engine);
    settings::apply_settings(engine);
    replication::count_good_replicas(engine, braid_base::clock::unix_ms());
    // A failure is in the log.
    let _ = settings::apply_oom_score(engine);
}

/// Starts or stops the use of the journal for a purpose. The world is stopped when it starts.
pub(crate) fn set_journal_use(engine: &Engine, purpose: u8, on: bool) {
    let uses = &engine.replication.journal_uses;
    if on {
        uses.fetch_or(purpose, Relaxed);
    } else {
        uses.fetch_and(!purpose, Relaxed);
    }
    apply_journal_uses(engine);
}

/// Journals the commands of this server's clients if the journal is read.
pub(crate) fn apply_journal_uses(engine: &Engine) {
    let is_replica = engine.replication.link.is_replica();
    let uses = if is_replica { 0 } else { engine.replication.journal_uses.load(Relaxed) };
    engine.keyspace.settings.journals.store(uses, Relaxed);
}

/// True if this server's own commands are journalled for a purpose.
#[inline]
pub(crate) fn journals_for(engine: &Engine, purpose: u8) -> bool {
    engine.keyspace.settings.journals.load(Relaxed) & purpose != 0
}

/// Closes the connections of all replicas: they reconnect, and learn of the current history.
pub(crate) fn disconnect_replicas(engine: &Engine) {
    for replica in engine.replication.replicas() {
        engine.clients.registry.disconnect(&replica.record);
    }
}

/// Ends all waits of clients: the changes they wait for are now made by another server.
fn unblock_all(engine: &Engine) {
    for record in engine.clients.registry.all() {
        let last = record.last_command.load(Relaxed).checked_sub(1);
        let command = last.map(|id| engine.commands.get(id));
        let how = match command {
            Some(command) if leads_command_away(&record, command) => Unblocking::Redirect,
            // This client reads from replicas, too.
            Some(command) if record.has(READS_REPLICA) && command.spec.flags.has(Flags::READONLY) => {
                continue;
            }
            _ => Unblocking::RoleChange,
        };
        if record.unblock().is_some() {
            record.send(Message::Unblock { id: record.id, how });
        }
    }
}

/// Applies the directive `replicaof` at startup, before anything is loaded.
pub(crate) fn begin_in_configured_role(engine: &Engine) {
    if engine.group.is_some() {
        engine.replication.link.set_primary(Some(Primary::nowhere()));
        apply_role(engine);
    }
    // In active mode it names a peer.
    if let Some(address) = engine.config.replicaof().filter(|_| engine.active.is_none()) {
        let MasterAddress { host, port } = (*address).clone();
        engine.replication.link.set_primary(Some(Primary { host, port }));
        apply_role(engine);
    }
}

/// Continues the history in which a dump file was saved, at its offset: replicas of a
/// restarted primary, and primaries of a restarted replica, need no full sync.
pub(crate) fn resume_history(engine: &Engine, world: &World<'_>, note: &ReplicationNote) {
    let journal = &engine.keyspace.journal;
    let is_replica = engine.replication.link.is_replica();
    {
        let mut state = engine.replication.state.lock();
        let (id, end) = (String::from_utf8_lossy(&note.id).into_owned(), journal.end());
        if is_replica {
            state.history.adopt(id, note.offset, end);
        } else {
            state.history.resume(id, note.offset, end);
        }
        state.last_replica_ms = braid_base::clock::unix_ms();
    }
    engine.replication.link.db.store(u64::from(note.db), Relaxed);
    keep_backlog(engine, world);
}

/// Makes replicas remove keys that had expired when the dataset was loaded. The world is
/// stopped.
pub(crate) fn journal_lost_keys(engine: &Engine, context: &mut Context, keys: &[(u32, Box<[u8]>)]) {
    let keyspace = &engine.keyspace;
    let name = keyspace.settings.removal(Removal::Expired);
    for (db, key) in keys {
        keyspace.journal.append_request(context.slot, &mut context.journal, *db, &[name, key]);
    }
}

/// Begins the backlog, if there is none yet.
pub(super) fn keep_backlog(engine: &Engine, _world: &World<'_>) {
    let journal = &engine.keyspace.journal;
    if journal.backlog().is_none() {
        journal.begin_backlog(engine.config.repl_backlog_size());
    }
    set_journal_use(engine, FOR_REPLICAS, true);
}
