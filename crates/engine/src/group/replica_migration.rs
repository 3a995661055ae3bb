// SPDX-License-Identifier: BSD-3-Clause
//! Replica migration at this node: has it leave its shard for one that has lost its replicas, when
//! the map has asked for that for a while ([`braid_group::cluster::replica_migration`]).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use braid_group::cluster::Change;
use braid_group::cluster::replica_migration::goal;

use crate::engine::Engine;

/// How long a shard has no replica before another one's goes there, ns: its own may come back. As
/// in Redis.
const DELAY: u64 = 5_000_000_000;
/// Between two looks at the map, ns.
const EVERY: u64 = 500_000_000;

/// What the node knows from one look to the next.
#[derive(Default)]
pub(super) struct ReplicaMigration {
    looked: u64,
    /// The primary to go to, and since when.
    goal: Option<(Arc<str>, u64)>,
    /// It is on its way.
    goes: Arc<AtomicBool>,
}

impl ReplicaMigration {
    /// Looks at the map, and goes if it is time. `now`: ns on a clock that only grows.
    pub(super) fn tend(&mut self, engine: &Arc<Engine>, now: u64) {
        if now < self.looked + EVERY || self.goes.load(SeqCst) {
            return;
        }
        self.looked = now;
        let is_same = |found: &Arc<str>| self.goal.as_ref().is_some_and(|(known, _)| known == found);
        match engine.migration_goal() {
            Some(found) if is_same(&found) => {}
            found => self.goal = found.map(|found| (found, now)),
        }
        if let Some((goal, _)) = self.goal.take_if(|(_, since)| now - *since >= DELAY) {
            self.go(engine, goal);
        }
    }

    fn go(&self, engine: &Arc<Engine>, to: Arc<str>) {
        let (engine, goes) = (Arc::clone(engine), Arc::clone(&self.goes));
        self.goes.store(true, SeqCst);
        let work = move || {
            engine.migrate_replica(&to);
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

    /// The primary that this node should replicate instead of its own.
    fn migration_goal(&self) -> Option<Arc<str>> {
        let is_whole = self.group.as_ref().is_some_and(|group| group.is_whole.load(Relaxed));
        if !self.config.cluster_allow_replica_migration() || !is_whole {
            return None;
        }
        let view = self.cluster_view()?;
        goal(&view.map, &view.id, self.kept_replicas()).map(|primary| Arc::clone(&primary.known.id))
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
}
