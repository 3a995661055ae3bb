// SPDX-License-Identifier: BSD-3-Clause
//! Replica migration at this node: it leaves its shard for one that has lost its replicas, once
//! the map has called for that for a while; or its shard joins the one that has taken its last
//! slot ([`braid_group::cluster::replica_migration`]).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use braid_executor::engine::Engine;
use braid_group::cluster::replica_migration::{goal, successor};
use braid_group::cluster::{Change, MapNode};
use braid_replica::sync_writes;

use crate::group::{self, author, changes, foreign_keys};

/// How long a shard must lack a replica before another shard's replica migrates to it, ns: its
/// own may come back. As in Redis.
const DELAY: u64 = 5_000_000_000;
/// Interval between two checks of the map, ns.
const EVERY: u64 = 500_000_000;

/// The target of this node's migration.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Goal {
    /// To a primary that has lost its replicas.
    Orphaned(Arc<str>),
    /// To the primary that has taken the last slot of this node's shard, with all nodes of the
    /// shard.
    Successor(Arc<str>),
    /// Nowhere: this primary has no slots, and marks of slots of which it may have keys.
    Stays,
}

/// State between two checks.
#[derive(Default)]
pub(super) struct ReplicaMigration {
    looked: u64,
    /// The target, and since when.
    goal: Option<(Goal, u64)>,
    /// The migration is in progress.
    goes: Arc<AtomicBool>,
    /// The log has reported that remaining keys prevent the migration.
    is_kept: bool,
}

impl ReplicaMigration {
    /// Checks the map, and migrates if it is time. `now`: ns on a monotonic clock.
    pub(super) fn on_tick(&mut self, engine: &Arc<Engine>, now: u64) {
        if now < self.looked + EVERY || self.goes.load(SeqCst) {
            return;
        }
        self.looked = now;
        let is_same = |found: &Goal| self.goal.as_ref().is_some_and(|(known, _)| known == found);
        match migration_goal(engine) {
            Some(found) if is_same(&found) => {}
            found => (self.goal, self.is_kept) = (found.map(|found| (found, now)), false),
        }
        let Some((goal, since)) = &self.goal else { return };
        let is_late = now - *since >= DELAY;
        let may_go = match goal {
            Goal::Orphaned(_) => is_late,
            // Clients have their replies by then.
            Goal::Successor(_) => now - *since >= EVERY && has_given_all(engine),
            Goal::Stays => false,
        };
        if may_go {
            let goal = goal.clone();
            // If it fails it is retried after a while.
            (self.goal, self.looked) = (None, now + DELAY);
            self.go(engine, goal);
        } else if is_late
            && !self.is_kept
            && !engine.keyspace.is_empty()
            && foreign_keys::foreign_slots(engine).is_empty()
        {
            log::warn!(
                "This primary has lost its last slot, but stays a primary: it has keys of unassigned slots, or of \
                 slots that are open: redis-cli --cluster fix moves these"
            );
            self.is_kept = true;
        }
    }

    fn go(&self, engine: &Arc<Engine>, to: Goal) {
        let (engine, goes) = (Arc::clone(engine), Arc::clone(&self.goes));
        self.goes.store(true, SeqCst);
        let work = move || {
            match to {
                Goal::Orphaned(to) => migrate_replica(&engine, &to),
                Goal::Successor(to) => join_successor(&engine, &to),
                Goal::Stays => {}
            }
            goes.store(false, SeqCst);
        };
        if let Err(error) = std::thread::Builder::new().name("replica-migration".into()).spawn(work) {
            log::warn!("Cannot start the thread that migrates a replica: {error}");
            self.goes.store(false, SeqCst);
        }
    }
}

/// Number of replicas that stay with a primary.
fn kept_replicas(engine: &Engine) -> usize {
    let config = &engine.config;
    config.cluster_migration_barrier().max(config.min_sync_replicas()) as usize
}

fn migration_goal(engine: &Engine) -> Option<Goal> {
    let is_whole = group::of(engine).is_some_and(|group| group.is_whole.load(Relaxed));
    if !engine.config.cluster_allow_replica_migration() || !is_whole {
        return None;
    }
    let view = engine.cluster_view()?;
    let id = |primary: &MapNode| Arc::clone(&primary.known.id);
    let has_marks = || view.own_slots().is_some_and(|own| own.slots.is_empty() && !own.left.is_empty());
    match view.leads {
        true if has_marks() => Some(Goal::Stays),
        true => successor(&view.map, &view.id).map(|primary| Goal::Successor(id(primary))),
        false => goal(&view.map, &view.id, kept_replicas(engine)).map(|primary| Goal::Orphaned(id(primary))),
    }
}

/// True if nothing remains to be done here for slots that have left: no move is under way,
/// their keys are deleted, and no reply waits for a replica.
fn has_given_all(engine: &Engine) -> bool {
    let set = &engine.replication.in_sync;
    let end = set.without_asides(engine.keyspace.journal.end());
    engine.keyspace.is_empty()
        && engine.slot_moves.all().iter().all(|one| one.is_over())
        && set.covers(sync_writes::sync_level(engine), end)
}

fn migrate_replica(engine: &Engine, to: &Arc<str>) {
    let Some(me) = author::as_author(engine) else { return };
    let kept = kept_replicas(engine);
    let changed = changes::change_cluster(engine, &me, |operator| {
        match goal(operator.map, &me.node.id, kept).filter(|primary| primary.known.id == *to) {
            Some(_) => operator.replicate(to, false),
            // Another replica was faster, or one has come back.
            None => Ok(Change::default()),
        }
    });
    match changed {
        Ok(true) => log::info!("Migrating to orphaned master {to}"),
        Ok(false) => {}
        Err(error) => log::warn!("Cannot migrate to orphaned master {to}: {error}"),
    }
}

fn join_successor(engine: &Engine, to: &Arc<str>) {
    let Some(me) = author::as_author(engine) else { return };
    let changed = changes::change_cluster(engine, &me, |operator| match engine.keyspace.is_empty() {
        true => operator.join_successor(),
        // Slots have come and gone meanwhile.
        false => Ok(Change::default()),
    });
    match changed {
        Ok(true) => log::warn!(
            "Configuration change detected. Reconfiguring myself as a replica of {to}: it has taken the last slot"
        ),
        Ok(false) => {}
        Err(error) => {
            log::warn!("Cannot become a replica of {to}, which has taken the last slot: {error}")
        }
    }
}
