// SPDX-License-Identifier: BSD-3-Clause
//! Replica migration at this node: has it leave its shard for one that has lost its replicas, when
//! the map has asked for that for a while, or its shard join the one that has taken its last slot
//! ([`braid_group::cluster::replica_migration`]).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use braid_group::cluster::replica_migration::{goal, taker};
use braid_group::cluster::{Change, MapNode};

use crate::engine::Engine;

/// How long a shard has no replica before another one's goes there, ns: its own may come back. As
/// in Redis.
const DELAY: u64 = 5_000_000_000;
/// Between two looks at the map, ns.
const EVERY: u64 = 500_000_000;

/// Where this node is to go.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Goal {
    /// To a primary that has lost its replicas.
    Orphaned(Arc<str>),
    /// To the primary that has taken the last slot of this one's shard, with all its nodes.
    Taker(Arc<str>),
}

/// What the node knows from one look to the next.
#[derive(Default)]
pub(super) struct ReplicaMigration {
    looked: u64,
    /// Where to go, and since when.
    goal: Option<(Goal, u64)>,
    /// It is on its way.
    goes: Arc<AtomicBool>,
    /// The log has told that keys keep it from going.
    is_kept: bool,
}

impl ReplicaMigration {
    /// Looks at the map, and goes if it is time. `now`: ns on a clock that only grows.
    pub(super) fn tend(&mut self, engine: &Arc<Engine>, now: u64) {
        if now < self.looked + EVERY || self.goes.load(SeqCst) {
            return;
        }
        self.looked = now;
        let is_same = |found: &Goal| self.goal.as_ref().is_some_and(|(known, _)| known == found);
        match engine.migration_goal() {
            Some(found) if is_same(&found) => {}
            found => (self.goal, self.is_kept) = (found.map(|found| (found, now)), false),
        }
        let Some((goal, since)) = &self.goal else { return };
        let is_late = now - *since >= DELAY;
        let may_go = match goal {
            Goal::Orphaned(_) => is_late,
            // Clients have their replies by then.
            Goal::Taker(_) => now - *since >= EVERY && engine.has_given_all(),
        };
        if may_go {
            let goal = goal.clone();
            // If it comes to nothing it is tried again after a while.
            (self.goal, self.looked) = (None, now + DELAY);
            self.go(engine, goal);
        } else if is_late && !self.is_kept && !engine.has_no_keys() && engine.foreign_slots().is_empty() {
            log::warn!(
                "This primary has lost its last slot, and stays one: it has keys of slots that are nobody's"
            );
            self.is_kept = true;
        }
    }

    fn go(&self, engine: &Arc<Engine>, to: Goal) {
        let (engine, goes) = (Arc::clone(engine), Arc::clone(&self.goes));
        self.goes.store(true, SeqCst);
        let work = move || {
            match to {
                Goal::Orphaned(to) => engine.migrate_replica(&to),
                Goal::Taker(to) => engine.join_taker(&to),
            }
            goes.store(false, SeqCst);
        };
        if let Err(error) = std::thread::Builder::new().name("replica-migration".into()).spawn(work) {
            log::warn!("Can't start the thread of a replica's migration: {error}");
            self.goes.store(false, SeqCst);
        }
    }
}

impl Engine {
    /// Replicas that stay with a primary.
    fn kept_replicas(&self) -> usize {
        let config = &self.config;
        config.cluster_migration_barrier().max(config.min_sync_replicas()) as usize
    }

    fn migration_goal(&self) -> Option<Goal> {
        let is_whole = self.group.as_ref().is_some_and(|group| group.is_whole.load(Relaxed));
        if !self.config.cluster_allow_replica_migration() || !is_whole {
            return None;
        }
        let view = self.cluster_view()?;
        let id = |primary: &MapNode| Arc::clone(&primary.known.id);
        match view.leads {
            true => taker(&view.map, &view.id).map(|primary| Goal::Taker(id(primary))),
            false => {
                goal(&view.map, &view.id, self.kept_replicas()).map(|primary| Goal::Orphaned(id(primary)))
            }
        }
    }

    /// Nothing is left to do here for slots that have gone: no move is under way, keys are deleted,
    /// and no reply waits for a replica.
    fn has_given_all(&self) -> bool {
        let set = &self.replication.in_sync;
        let end = set.without_question(self.keyspace.journal.end());
        self.has_no_keys()
            && self.slot_moves.all().iter().all(|one| one.is_over())
            && set.covers(self.sync_level(), end)
    }

    fn migrate_replica(&self, to: &Arc<str>) {
        let Some(me) = self.as_author() else { return };
        let kept = self.kept_replicas();
        let changed = self.change_cluster(&me, |operator| {
            match goal(operator.map, &me.node.id, kept).filter(|primary| primary.known.id == *to) {
                Some(_) => operator.replicate(to, false),
                // Another one was sooner, or a replica has come back.
                None => Ok(Change::default()),
            }
        });
        match changed {
            Ok(true) => log::info!("Migrating to orphaned master {to}"),
            Ok(false) => {}
            Err(error) => log::warn!("Cannot migrate to orphaned master {to}: {error}"),
        }
    }

    fn join_taker(&self, to: &Arc<str>) {
        let Some(me) = self.as_author() else { return };
        let changed = self.change_cluster(&me, |operator| match self.has_no_keys() {
            true => operator.join_taker(),
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
}
