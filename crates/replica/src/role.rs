// SPDX-License-Identifier: BSD-3-Clause
//! Roles: this server is a primary, or the replica of another.
//!
//! Roles change with the world stopped. While it is a replica its own commands are not journalled:
//! the journal has the primary's stream, byte for byte.

use std::sync::atomic::Ordering::Relaxed;

use braid_base::gate::World;
use braid_clients::attention::{FORMER_PRIMARY, READ_ONLY, REPLICA, STALE};
use braid_clients::client_flags::READS_REPLICA;
use braid_clients::{Message, Unblocking};
use braid_config::MasterAddress;
use braid_durable::append_only;
use braid_executor::engine::Engine;
use braid_executor::{journal_uses, redirect, settings};
use braid_replication::link::Primary;
use braid_spec::Flags;

use crate::replicas;

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
pub(crate) fn note_in_config(engine: &Engine, words: &[&str]) {
    if engine.group.is_some() {
        // The group decides the role; it is not a setting.
        return;
    }
    if let Err(error) = engine.config.assign("replicaof", words) {
        log::warn!("Cannot record the primary in the configuration: {error}");
    }
}

/// Applies the role, and the settings that concern replicas.
pub fn apply_role(engine: &Engine) {
    let (config, link) = (&engine.config, &engine.replication.link);
    let is_replica = link.is_replica();
    engine.attention.set(REPLICA, is_replica);
    engine.attention.set(READ_ONLY, is_replica && config.replica_read_only());
    engine.attention.set(STALE, is_replica && !link.is_up() && !config.replica_serve_stale_data());
    journal_uses::apply_journal_uses(engine);
    settings::apply_settings(engine);
    replicas::count_good_replicas(engine, braid_base::clock::unix_ms());
    // A failure is in the log.
    let _ = settings::apply_oom_score(engine);
}

/// Closes the connections of all replicas: they reconnect, and learn of the current history.
pub fn disconnect_replicas(engine: &Engine) {
    for replica in engine.replication.replicas() {
        engine.clients.registry.disconnect(&replica.record);
    }
}

/// Ends all waits of clients: the changes they wait for are now made by another server.
pub(crate) fn unblock_all(engine: &Engine) {
    for record in engine.clients.registry.all() {
        let last = record.last_command.load(Relaxed).checked_sub(1);
        let command = last.map(|id| engine.commands.get(id));
        let how = match command {
            Some(command) if redirect::leads_command_away(&record, command) => Unblocking::Redirect,
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
pub fn begin_in_configured_role(engine: &Engine) {
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
