// SPDX-License-Identifier: BSD-3-Clause
//! This server as a node of a cluster: joins and leaves the shard that the records assign to it,
//! and publishes the map.

use std::sync::Arc;

use braid_base::clock::boot_nanos;
use braid_durable::saving;
use braid_executor::blocking;
use braid_executor::cluster_map::{ClusterMap, ClusterView};
use braid_executor::engine::Engine;
use braid_executor::world;
use braid_group::MemberId;
use braid_group::cluster::{Map, SlotSet};
use braid_group::record::Keys;
use braid_replica::role;

use super::part::Part;
use super::previous_process::PreviousProcess;
use super::replica_migration::ReplicaMigration;
use super::shard_channels::leave_shard_channels;
use super::view::View;
use super::{Group, NO_SHARD};
use crate::forwarding;
use crate::group::{self, foreign_keys, leftovers, open_slots};
use crate::slot_moves::{hold, import};

/// Interval between two looks at slots that the shard has left, ns.
const EVERY: u64 = 500_000_000;

/// A cluster node, in a shard or not.
pub(super) struct Node<'e> {
    engine: &'e Arc<Engine>,
    cluster: &'e ClusterMap,
    /// The member to which this server's files belong, until it has been in a shard.
    previous: PreviousProcess,
    /// The node has been in a shard.
    was_member: bool,
    /// A map has been seen.
    has_map: bool,
    /// The records are older than the map that this node uses.
    is_behind: bool,
    /// The log has reported that the cluster knows this node by another name.
    is_misnamed: bool,
    migration: ReplicaMigration,
    /// When the slots that the shard has left were last looked at, ns.
    counted_at: u64,
}

impl<'e> Node<'e> {
    pub fn of(engine: &'e Arc<Engine>, previous: PreviousProcess) -> Option<Node<'e>> {
        let cluster = engine.cluster_map()?;
        Some(Node {
            engine,
            cluster,
            previous,
            was_member: false,
            has_map: false,
            is_behind: false,
            is_misnamed: false,
            migration: ReplicaMigration::default(),
            counted_at: 0,
        })
    }

    /// Performs work that is due. `now`: ns on a monotonic clock.
    pub fn on_tick(&mut self, now: u64) {
        self.migration.on_tick(self.engine, now);
        if now >= self.counted_at + EVERY {
            self.counted_at = now;
            open_slots::count_left_slots(self.engine);
            leftovers::search_leftovers(self.engine);
        }
    }

    /// Applies a newer map.
    pub fn follow_map(&mut self, group: &'e Group, map: Arc<Map>, part: &mut Option<Part<'e>>) {
        let known = self.cluster.view().map.epoch;
        let is_older = map.epoch < known;
        if std::mem::replace(&mut self.is_behind, is_older) != is_older {
            match is_older {
                true => log::warn!(
                    "etcd's records of the cluster (epoch {}) are older than this node's state (epoch \
                     {known}): etcd lost data or was restored from a backup. The node keeps its state \
                     until a restart, then follows the records",
                    map.epoch
                ),
                false => log::info!("etcd's records of the cluster agree with this node's state again"),
            }
        }
        if is_older {
            return;
        }
        let view = ClusterView::new(map, self.cluster.id());
        let mut wanted = view.shard.clone();
        if let Some(own) = view.own().filter(|own| *own.name != *group.settings.node) {
            wanted = None;
            if !std::mem::replace(&mut self.is_misnamed, true) {
                log::warn!(
                    "The cluster knows this node as {}: set node-name to that, or reset the node",
                    own.name
                );
            }
        }
        let current = group.keys().shard_id().clone();
        let is_other = wanted.as_deref().unwrap_or(NO_SHARD) != &*current;
        if is_other {
            self.change_shard(group, wanted.as_ref(), part);
        }
        if is_other || !self.has_map {
            match &wanted {
                Some(shard) => {
                    log::info!("This node is in the cluster {}, shard {shard}", group.settings.name)
                }
                None => log::info!("This node is not in any shard of the cluster {}", group.settings.name),
            }
            // At startup it may have been a replica, and continues where it was.
            if wanted.is_none() || self.was_member {
                self.stand_alone();
            }
        }
        self.was_member |= wanted.is_some();
        self.has_map = true;
        publish_map(self.engine, view);
        // Before this server joins a shard and may load a full sync.
        saving::stop_expecting_map(self.engine);
    }

    fn change_shard(&mut self, group: &'e Group, shard: Option<&Arc<str>>, part: &mut Option<Part<'e>>) {
        *part = None;
        note_lead(self.engine, false);
        let keys = Keys::of_shard(&group.settings.name, shard.map_or(NO_SHARD, |shard| shard));
        *group.keys.lock() = Arc::new(keys);
        {
            let mut requests = group.etcd_requests.lock();
            (requests.transaction, requests.offer) = (None, None);
            requests.reads = true;
        }
        group.has_etcd_requests.notify_one();
        {
            let mut view = group.view.lock();
            // This process's data as a member of another shard proves nothing in this one.
            let id = match self.was_member {
                true => MemberId::new(&view.id.node, &braid_replication::random_id()),
                false => view.id.clone(),
            };
            let (records, mut runs) = (Arc::clone(&view.records), std::mem::take(&mut view.runs));
            runs.push(Arc::clone(&view.id.run));
            *view = View { records, runs, ..View::new(&group.settings, &id) };
        }
        let now = boot_nanos();
        *part = shard.map(|shard| {
            // The shard's founder need not wait for others.
            let is_founder = *shard == self.cluster.id();
            let started = if is_founder { now.saturating_sub(group.timing.lease) } else { now };
            Part::new(self.engine, group, std::mem::take(&mut self.previous), started)
        });
    }

    /// Makes this server a primary that serves no slots.
    fn stand_alone(&self) {
        let engine = self.engine;
        let world = world::stop(engine);
        role::become_primary(engine, &world);
        engine.replication.in_sync.clear();
        engine.replication.in_sync.set_serve_until(u64::MAX);
    }
}

/// True if this server's shard gives up more slots of which keys may be left.
fn leaves_more(before: &ClusterView, now: &ClusterView) -> bool {
    let Some(slots) = now.own_slots().filter(|slots| now.leads && !slots.left.is_empty()) else {
        return false;
    };
    let known = before.own_slots().filter(|_| before.leads);
    slots.left.iter().any(|slot| known.is_none_or(|known| !known.left.contains(slot)))
}

/// Records whether this process leads its shard.
pub(super) fn note_lead(engine: &Engine, leads: bool) {
    if let Some(map) = engine.cluster_map() {
        map.set_led(leads, engine.config.cluster_require_full_coverage());
    }
}

/// Applies a newer map of the cluster.
fn publish_map(engine: &Engine, view: ClusterView) {
    let Some(cluster) = engine.cluster_map() else { return };
    let before = cluster.view();
    let is_same = before.map.epoch == view.map.epoch && before.leads == view.leads;
    let (owned_before, owned) = (before.owned(), view.owned());
    // Slots of replicas have subscribers, too.
    let gone = owned_before.without(&owned);
    let lost = match (before.leads, view.leads) {
        (true, true) => gone.clone(),
        (true, false) => owned_before.clone(),
        (false, _) => SlotSet::default(),
    };
    import::complete_imports(engine, &view);
    // Commands admitted by the older map finish first.
    let stops_world = !lost.is_empty() || leaves_more(&before, &view);
    let world = stops_world.then(|| world::stop(engine));
    let leads = view.leads;
    if let Some(group) = group::of(engine).filter(|_| leads != before.leads) {
        // Until this server, and the new primary if it is another, have taken their roles.
        hold::hold_all_until_decided(engine, group.timing.lease);
    }
    forwarding::of(engine).inspect(|forwarding| forwarding.follow(&view, engine.config.tls_cluster()));
    // The cluster serves all slots or none.
    let goes_down =
        engine.config.cluster_require_full_coverage() && before.map.is_complete() && !view.map.is_complete();
    let mut changed = owned.without(&owned_before);
    changed.add(&gone);
    if !changed.is_empty() {
        engine.telemetry.slot_stats.reset(|slot| changed.contains(slot));
    }
    publish_seen(engine, cluster, view);
    drop(world);
    if leads && !lost.is_empty() {
        blocking::redirect_waiters(engine, &lost);
    } else if goes_down {
        blocking::redirect_waiters(engine, &SlotSet::all());
    }
    if !gone.is_empty() {
        leave_shard_channels(&engine.hub, &engine.clients.registry, &gone);
    }
    if leads && !is_same {
        foreign_keys::refresh_hidden_slots(engine);
        foreign_keys::drop_foreign_keys(engine, &lost);
    }
    open_slots::count_left_slots(engine);
}

/// Publishes a view. Walks must see its slots as soon as they are served.
fn publish_seen(engine: &Engine, cluster: &ClusterMap, view: ClusterView) {
    let _hiding = engine.slot_moves.hiding.lock();
    let keyspace = &engine.keyspace;
    match foreign_keys::foreign_to_replica(&view) {
        Some(hidden) => keyspace.hide_slots(hidden.iter()),
        None => {
            // A node without a shard shows what it has.
            let others = view.shard.as_ref().filter(|_| keyspace.hides_any());
            let others = others.map_or_else(SlotSet::default, |_| SlotSet::all().without(&view.owned()));
            keyspace.hide_slots(others.iter().filter(|&slot| keyspace.is_hidden(u32::from(slot))));
        }
    }
    cluster.publish(view, engine.config.cluster_require_full_coverage());
}
