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
use crate::engine::Engine;

impl Engine {
    /// Becomes the replica of `primary`, or of another one than before (REPLICAOF). The own history
    /// is kept: if the primary knows it, the stream goes on from there.
    pub fn become_replica(&self, world: &World<'_>, primary: Primary) {
        let link = &self.replication.link;
        let was_primary = !link.is_replica();
        // It would hold back clients and the new primary's stream for ever.
        match self.replication.failover.phase() {
            FailoverPhase::WaitingForSync if was_primary => {
                self.end_failover_in(world, "another server has become the primary meanwhile");
            }
            // What a group's handover waits for: it has come to its end when the role is seen.
            FailoverPhase::InProgress if was_primary && self.has_group() => self.note_failover_done(),
            _ => {}
        }
        self.note_in_config(&[&primary.host, &primary.port.to_string()]);
        // Replicas stay: if the stream goes on they need not know.
        link.set_primary(Some(primary));
        if was_primary {
            if self.has_group() {
                self.replication.in_sync.clear();
            }
            // A node of a cluster sends its clients to the new primary, and goes on to do so.
            if self.has_group() && self.cluster.is_none() {
                self.sync_writes.former.begin(self.clients.registry.last_id());
                self.attention.set(FORMER_PRIMARY, true);
            }
            self.unblock_all();
        }
        self.apply_role();
        self.start_link();
    }

    /// Becomes a primary (REPLICAOF NO ONE). The history goes on under a new ID; replicas that know
    /// the old one need no full sync.
    pub fn become_primary(&self, _world: &World<'_>) {
        let link = &self.replication.link;
        if !link.is_replica() {
            return;
        }
        self.note_in_config(&["no", "one"]);
        link.set_primary(None);
        // Who came when it was one before finds the newest data here again.
        self.attention.set(FORMER_PRIMARY, false);
        {
            let mut state = self.replication.state.lock();
            let at = state.history.offset(self.keyspace.journal.end());
            state.history.branch(at);
            // They have their time to come.
            state.last_replica_ms = braid_base::clock::unix_ms();
            log::info!(
                "Setting secondary replication ID to {}, valid up to offset: {}. New replication ID is {}",
                state.history.earlier().map_or("", |(id, _)| id),
                at + 1,
                state.history.id()
            );
        }
        // What this server's own commands change begins with the choice of a database.
        self.keyspace.journal.forget_database();
        self.disconnect_replicas();
        self.apply_role();
        // A full sync that has come to nothing has left it off.
        self.resume_append_only();
    }

    /// Switches the append-only file on again after a full sync had switched it off, if it is
    /// wanted.
    pub(super) fn resume_append_only(&self) {
        if let Err(error) = self.switch_append_only() {
            log::warn!("The append-only file could not be switched on again: {error}");
        }
    }

    /// Has CONFIG GET and CONFIG REWRITE tell of the primary.
    fn note_in_config(&self, words: &[&str]) {
        if self.group.is_some() {
            // The group decides; it is no setting.
            return;
        }
        if let Err(error) = self.config.assign("replicaof", words) {
            log::warn!("The configuration does not tell of the primary: {error}");
        }
    }

    /// Applies the role, and the settings that concern replicas.
    pub(crate) fn apply_role(&self) {
        let (config, link) = (&self.config, &self.replication.link);
        let is_replica = link.is_replica();
        self.attention.set(REPLICA, is_replica);
        self.attention.set(READ_ONLY, is_replica && config.replica_read_only());
        self.attention.set(STALE, is_replica && !link.is_up() && !config.replica_serve_stale_data());
        self.apply_journal_uses();
        self.apply_settings();
        self.count_good_replicas(braid_base::clock::unix_ms());
    }

    /// Has the journal read for a purpose, or no longer. The world is stopped when it begins.
    pub(crate) fn set_journal_use(&self, purpose: u8, on: bool) {
        let uses = &self.replication.journal_uses;
        if on {
            uses.fetch_or(purpose, Relaxed);
        } else {
            uses.fetch_and(!purpose, Relaxed);
        }
        self.apply_journal_uses();
    }

    /// Has the commands of this server's clients journalled if the journal is read.
    pub(crate) fn apply_journal_uses(&self) {
        let is_replica = self.replication.link.is_replica();
        let uses = if is_replica { 0 } else { self.replication.journal_uses.load(Relaxed) };
        self.keyspace.settings.journals.store(uses, Relaxed);
    }

    /// Whether this server's own commands are journalled for a purpose.
    #[inline]
    pub(crate) fn journals_for(&self, purpose: u8) -> bool {
        self.keyspace.settings.journals.load(Relaxed) & purpose != 0
    }

    /// Ends the connections of all replicas: they come again, and learn of the history as it is.
    pub(crate) fn disconnect_replicas(&self) {
        for replica in self.replication.replicas() {
            self.clients.registry.disconnect(&replica.record);
        }
    }

    /// Ends all waits of clients: what they wait for is another server's affair now.
    fn unblock_all(&self) {
        for record in self.clients.registry.all() {
            let last = record.last_command.load(Relaxed).checked_sub(1);
            let command = last.map(|id| self.commands.get(id));
            let how = match command {
                Some(command) if leads_command_away(&record, command) => Unblocking::Redirect,
                // It reads from replicas, too.
                Some(command) if record.has(READS_REPLICA) && command.spec.flags.has(Flags::READONLY) => {
                    continue;
                }
                _ => Unblocking::RoleChange,
            };
            if record.unblock() {
                record.send(Message::Unblock { id: record.id, how });
            }
        }
    }

    /// Follows the directive `replicaof` at the start, before anything is loaded.
    pub(crate) fn begin_in_configured_role(&self) {
        if self.group.is_some() {
            self.replication.link.set_primary(Some(Primary::nowhere()));
            self.apply_role();
        }
        // In active mode it is a peer.
        if let Some(address) = self.config.replicaof().filter(|_| self.active.is_none()) {
            let MasterAddress { host, port } = (*address).clone();
            self.replication.link.set_primary(Some(Primary { host, port }));
            self.apply_role();
        }
    }

    /// Goes on in the history that a dump file was saved in, at its offset: replicas of a primary
    /// that has restarted, and primaries of a replica that has, need no full sync.
    pub(crate) fn resume_history(&self, world: &World<'_>, note: &ReplicationNote) {
        let journal = &self.keyspace.journal;
        let is_replica = self.replication.link.is_replica();
        {
            let mut state = self.replication.state.lock();
            let (id, end) = (String::from_utf8_lossy(&note.id).into_owned(), journal.end());
            if is_replica {
                state.history.adopt(id, note.offset, end);
            } else {
                state.history.resume(id, note.offset, end);
            }
            state.last_replica_ms = braid_base::clock::unix_ms();
        }
        self.replication.link.db.store(u64::from(note.db), Relaxed);
        self.keep_backlog(world);
    }

    /// Has replicas remove keys that were past their expiry when the dataset was loaded. The world
    /// is stopped.
    pub(crate) fn journal_lost_keys(&self, context: &mut Context, keys: &[(u32, Box<[u8]>)]) {
        let keyspace = &self.keyspace;
        let name = keyspace.settings.removal(Removal::Expired);
        for (db, key) in keys {
            keyspace.journal.append_request(context.slot, &mut context.journal, *db, &[name, key]);
        }
    }

    /// Begins the backlog, if there is none yet.
    pub(super) fn keep_backlog(&self, _world: &World<'_>) {
        let journal = &self.keyspace.journal;
        if journal.backlog().is_none() {
            journal.begin_backlog(self.config.repl_backlog_size());
        }
        self.set_journal_use(FOR_REPLICAS, true);
    }
}
