// SPDX-License-Identifier: BSD-3-Clause
//! The target's side of a move of slots: what CLUSTER SYNCSLOTS does.
//!
//! The source is a client whose connection may reach the slots that come ([`ImportSeat`]). It sends
//! keys by RESTORE, and what has changed since by APPLY: that runs as a primary's stream does on a
//! replica, without a look at the time, and goes to this server's own replicas and files as it
//! came.
//!
//! When the connection ends before the slots are here, the keys are deleted, but only after the
//! cluster's epoch has been raised: then the source's transaction cannot come any more.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use braid_base::clock::unix_ms;
use braid_group::cluster::SlotSet;
use braid_keyspace::txn::NOTHING_EXPIRED;
use braid_replication::link::units::Units;
use braid_spec::CommandError;

use super::state::{ImportSeat, Move, MoveState};
use crate::cluster_map::ClusterView;
use crate::dispatch::replay::{Replay, Source};
use crate::engine::Engine;

/// How long the target waits for the change of the map.
const FOLLOW: Duration = Duration::from_secs(2);

fn refused(why: impl Into<String>) -> CommandError {
    CommandError::text(format!("ERR {}", why.into()))
}

/// The source may begin anew, if it still leads.
fn not_now(why: impl Into<String>) -> CommandError {
    CommandError::text(format!("TRYAGAIN {}", why.into()))
}

impl Engine {
    /// ESTABLISH: slots come here from a node.
    ///
    /// # Errors
    /// If this server cannot take the slots, or not yet.
    pub fn begin_import(
        &self,
        name: &str,
        source: Arc<str>,
        slots: SlotSet,
    ) -> Result<Arc<ImportSeat>, CommandError> {
        let view = self.cluster_view().ok_or_else(|| not_now("this server is in no cluster"))?;
        check_import(&view, &source, &slots).map_err(not_now)?;
        let order = view.map.orders().find(|(_, other, _)| ***other == *name);
        let created_ms = order.map_or_else(unix_ms, |(_, _, order)| order.created_ms);
        // Its source was another one, or has lost its connection without this server's knowledge.
        let is_before = |one: &Arc<Move>| one.name == name;
        if let Some(before) = self.slot_moves.imports().into_iter().find(is_before) {
            self.end_import_early(before, "another source has taken it up");
            return Err(not_now("its former source is given up"));
        }
        let new = Move::new(name, false, slots, source, Arc::clone(&view.id), created_ms);
        let job = self
            .slot_moves
            .add(new, self.config.cluster_slot_migration_log_max_len() as usize)
            .map_err(|slot| not_now(format!("slot {slot} is on its way already")))?;
        let engine = self.this.clone();
        let give_up = move |job: Arc<Move>| {
            if let Some(engine) = engine.upgrade() {
                engine.end_import_early(job, "the connection to the source was lost");
            }
        };
        let seat = Arc::new(ImportSeat::new(Arc::clone(&job), give_up));
        log::info!("Slots {} come from node {}: move {}", job.slots, job.source, job.name);
        Ok(seat)
    }

    /// Makes room for the slots: keys that they have here are nobody's. Blocks.
    ///
    /// # Errors
    /// If they cannot come any more.
    pub fn prepare_import(&self, seat: &ImportSeat) -> Result<(), CommandError> {
        let job = &seat.job;
        self.refresh_hidden_slots();
        // Of an earlier move that has failed.
        self.delete_slots(&job.slots, |_| !job.is_over());
        // The map may have changed before the move was known here.
        let view = self.cluster_view().ok_or_else(|| refused("this server is in no cluster"))?;
        check_import(&view, &job.source, &job.slots).map_err(not_now)
    }

    /// APPLY: units of the source's journal. Blocks.
    ///
    /// # Errors
    /// If they cannot be run here as they were there: then the move has failed.
    pub fn apply_import(&self, seat: &ImportSeat, bytes: &[u8]) -> Result<(), CommandError> {
        if !seat.job.is_wanted() {
            return Err(not_now("the move is over"));
        }
        let mut units = Units::default();
        units.parse(bytes).map_err(|error| refused(error.to_string()))?;
        if units.requests().last().is_none_or(|request| request.bytes.end != bytes.len()) {
            return Err(refused("the changes are not whole"));
        }
        // It begins with a SELECT.
        let mut replay = Replay::new(self, Source::Primary);
        let world = self.world_for_changes()?;
        // It may have ended before the world stood still.
        if !seat.job.is_wanted() {
            return Err(not_now("the move is over"));
        }
        let mut worker = self.worker(0);
        self.change_in_world(world, &mut worker, 0, NOTHING_EXPIRED, |txn| {
            // What runs here is not journalled command by command, but as it came.
            let journals = self.keyspace.settings.journals.swap(0, Relaxed);
            for request in units.requests() {
                let args: Vec<&[u8]> = units.args(request, bytes).collect();
                if !args.is_empty() {
                    replay.run_streamed(self, txn, &args);
                }
            }
            self.keyspace.settings.journals.store(journals, Relaxed);
            if journals != 0 {
                let (journal, context) = (&self.keyspace.journal, &mut *txn.context);
                journal.append_received(context.slot, &mut context.journal, bytes, false);
                journal.forget_database();
            }
        });
        seat.job.note(|progress| progress.answered_ms = unix_ms());
        match replay.refused == 0 {
            true => Ok(()),
            false => Err(refused("a change could not be repeated here")),
        }
    }

    /// READY: everything is here. The slots may become this server's from now on.
    ///
    /// # Errors
    /// If the move is over.
    pub fn ready_import(&self, seat: &ImportSeat) -> Result<(), CommandError> {
        let leads = self.cluster_view().is_some_and(|view| view.leads);
        if !seat.job.is_wanted() || !leads {
            return Err(not_now("the move is over"));
        }
        seat.job.enter(MoveState::Paused);
        Ok(())
    }

    /// DONE: the slots are this server's. Blocks until it goes by that.
    ///
    /// # Errors
    /// If it does not within seconds.
    pub fn end_import(&self, seat: &ImportSeat) -> Result<(), CommandError> {
        let map = self.cluster.as_ref().and_then(|node| node.map.as_ref());
        self.read_records();
        let is_here = map.is_some_and(|map| map.wait_until(|view| owns_all(view, &seat.job.slots), FOLLOW));
        is_here.then_some(()).ok_or_else(|| refused("this node has not seen the change yet"))
    }

    /// Moves whose slots are here are done. Called whenever the map has changed, before it is gone
    /// by.
    pub(crate) fn settle_imports(&self, view: &ClusterView) {
        for job in self.slot_moves.imports() {
            if view.leads && owns_all(view, &job.slots) {
                job.succeed();
                log::info!("Move {} is done", job.name);
            } else if is_ordered(view, &job.name) {
                job.was_ordered.store(true, Relaxed);
            } else if job.was_ordered.load(Relaxed) {
                // Its source may hang, and not end the connection.
                self.end_import_early(job, "it was cancelled, or the source has given it up");
            }
        }
    }

    /// The source's connection has ended, or is to count no more.
    fn end_import_early(&self, job: Arc<Move>, why: &'static str) {
        if job.is_ending.swap(true, Relaxed) {
            return;
        }
        let (engine, name) = (self.this.clone(), job.name.clone());
        let run = move || {
            if let Some(engine) = engine.upgrade() {
                engine.give_up_import(&job, why);
            }
        };
        if let Err(error) = std::thread::Builder::new().name("slot-move".into()).spawn(run) {
            log::warn!("Move {name}: its keys are not deleted: {error}");
        }
    }

    fn give_up_import(&self, job: &Move, why: &str) {
        // What came by the connection and was let in has ended; nothing more is.
        drop(self.keyspace.gate.close(None));
        if !self.raise_epoch() {
            return;
        }
        if job.is_over() {
            return;
        }
        log::warn!("Move {} has failed: {why}. Its keys are deleted", job.name);
        // While it is not over, nobody else deletes them, and nobody sees them.
        self.delete_slots(&job.slots, |_| !job.is_over());
        match self.cluster_view().is_some_and(|view| is_ordered(&view, &job.name)) {
            true => job.interrupt(why),
            false => job.fail(why),
        }
        self.refresh_hidden_slots();
    }
}

/// Whether slots may come from a node.
fn check_import(view: &ClusterView, source: &str, slots: &SlotSet) -> Result<(), String> {
    if !view.leads {
        return Err("slots can go to primaries only".into());
    }
    let from = view.map.node(source).map(|node| &node.known.shard);
    if let Some(slot) = slots.iter().find(|&slot| from.is_none() || view.map.owner(slot) != from) {
        return Err(format!("slot {slot} is not the source's"));
    }
    let leads = view.map.node(source).is_some_and(|node| view.map.is_primary(node));
    if leads { Ok(()) } else { Err("slots can come from primaries only".into()) }
}

fn is_ordered(view: &ClusterView, name: &str) -> bool {
    view.map.orders().any(|(_, other, _)| **other == *name)
}

fn owns_all(view: &ClusterView, slots: &SlotSet) -> bool {
    view.leads && slots.iter().all(|slot| view.owns(slot))
}
