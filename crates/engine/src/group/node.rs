// SPDX-License-Identifier: BSD-3-Clause
//! This server as a node of a cluster: joins and leaves the shard that the records assign to it,
//! and publishes the map.

use std::sync::Arc;
use std::time::Duration;

use braid_base::clock::{boot_nanos, unix_ms};
use braid_base::crc::HASH_SLOTS;
use braid_group::MemberId;
use braid_group::cluster::{Map, ShardSlots, SlotSet};
use braid_group::record::Keys;
use braid_keyspace::{Entry, scan};

use super::former::Former;
use super::part::Part;
use super::replica_migration::ReplicaMigration;
use super::{Group, NO_SHARD, view::View};
use crate::blocking;
use crate::cluster_map::{ClusterMap, ClusterView};
use crate::engine::Engine;
use crate::group::changes;
use crate::group::open_slots;
use crate::migrate;
use crate::replication::dataset;
use crate::replication::role;
use crate::saving;
use crate::shard_channels;
use crate::shard_channels::leave_shard_channels;
use crate::slot_moves::hold;
use crate::slot_moves::import;
use crate::sync_writes;
use crate::world_change;

/// Interval between two looks at slots that the shard has left, ns.
const EVERY: u64 = 500_000_000;
/// Maximum number of keys deleted per stop of the world.
const CHUNK: usize = 500;
/// How long to wait for the in-sync members to acknowledge them before more are deleted.
const MEMBERS_PATIENCE: Duration = Duration::from_millis(50);

/// A cluster node, in a shard or not.
pub(super) struct Node<'e> {
    engine: &'e Arc<Engine>,
    cluster: &'e ClusterMap,
    /// The member to which this server's files belong, until it has been in a shard.
    former: Former,
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
    settled: u64,
}

impl<'e> Node<'e> {
    pub fn of(engine: &'e Arc<Engine>, former: Former) -> Option<Node<'e>> {
        let cluster = shard_channels::cluster_map(engine)?;
        Some(Node {
            engine,
            cluster,
            former,
            was_member: false,
            has_map: false,
            is_behind: false,
            is_misnamed: false,
            migration: ReplicaMigration::default(),
            settled: 0,
        })
    }

    /// Performs work that is due. `now`: ns on a monotonic clock.
    pub fn tend(&mut self, now: u64) {
        self.migration.tend(self.engine, now);
        if now >= self.settled + EVERY {
            self.settled = now;
            open_slots::settle_left_slots(self.engine);
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
            let mut wishes = group.wishes.lock();
            (wishes.transaction, wishes.offer) = (None, None);
            wishes.reads = true;
        }
        group.has_wishes.notify_one();
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
            Part::new(self.engine, group, std::mem::take(&mut self.former), started)
        });
    }

    /// Makes this server a primary that serves no slots.
    fn stand_alone(&self) {
        let engine = self.engine;
        let world = engine.keyspace.gate.close(None);
        role::become_primary(engine, &world);
        engine.replication.in_sync.clear();
        engine.replication.in_sync.set_serve_until(u64::MAX);
    }
}

/// The slots of other shards, if this server is a replica: its primary fills and empties slots
/// whenever it likes, and the map that explains it may come later. Slots that are moved key by key
/// show at the replica as at the primary.
fn foreign_to_replica(view: &ClusterView) -> Option<SlotSet> {
    let own = view.own_slots().filter(|_| !view.leads)?;
    let is_foreign = |slot: &u16| {
        view.map.owner(*slot).is_some() && !view.owns(*slot) && !own.importing.contains_key(slot)
    };
    Some((0..HASH_SLOTS).filter(is_foreign).collect())
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
    if let Some(map) = shard_channels::cluster_map(engine) {
        map.set_led(leads, engine.config.cluster_require_full_coverage());
    }
}

/// Applies a newer map of the cluster.
fn publish_map(engine: &Engine, view: ClusterView) {
    let Some(cluster) = shard_channels::cluster_map(engine) else { return };
    let before = cluster.view();
    let is_same = before.map.epoch == view.map.epoch && before.leads == view.leads;
    let loses = |slot: u16| before.leads && before.owns(slot) && !(view.leads && view.owns(slot));
    let lost: SlotSet = (0..HASH_SLOTS).filter(|&slot| loses(slot)).collect();
    // Slots of replicas have subscribers, too.
    let gone: SlotSet = (0..HASH_SLOTS).filter(|&slot| before.owns(slot) && !view.owns(slot)).collect();
    import::settle_imports(engine, &view);
    // Commands admitted by the older map finish first.
    let stops_world = !lost.is_empty() || leaves_more(&before, &view);
    let world = stops_world.then(|| engine.keyspace.gate.close(None));
    let leads = view.leads;
    if let Some(group) = engine.group.as_ref().filter(|_| leads != before.leads) {
        // Until this server, and the new primary if it is another, have taken their roles.
        hold::hold_until_settled(engine, group.timing.lease);
    }
    shard_channels::forwarding(engine)
        .inspect(|forwarding| forwarding.follow(&view, engine.config.tls_cluster()));
    // The cluster serves all slots or none.
    let goes_down =
        engine.config.cluster_require_full_coverage() && before.map.is_complete() && !view.map.is_complete();
    engine.telemetry.slot_stats.reset(|slot| before.owns(slot) != view.owns(slot));
    publish_seen(engine, cluster, view);
    drop(world);
    if leads && !lost.is_empty() {
        blocking::redirect_waiters(engine, &lost);
    } else if goes_down {
        blocking::redirect_waiters(engine, &(0..HASH_SLOTS).collect());
    }
    if !gone.is_empty() {
        leave_shard_channels(&engine.hub, &engine.clients.registry, &gone);
    }
    if leads && !is_same {
        refresh_hidden_slots(engine);
        drop_foreign_keys(engine, &lost);
    }
    open_slots::settle_left_slots(engine);
}

/// Publishes a view. Walks must see its slots as soon as they are served.
fn publish_seen(engine: &Engine, cluster: &ClusterMap, view: ClusterView) {
    let _hiding = engine.slot_moves.hiding.lock();
    let keyspace = &engine.keyspace;
    match foreign_to_replica(&view) {
        Some(hidden) => keyspace.hide_slots(hidden.iter()),
        None => {
            let is_hidden = |slot: &u16| keyspace.is_hidden(u32::from(*slot));
            // A node without a shard shows what it has.
            let stays = |slot: &u16| is_hidden(slot) && view.shard.is_some() && !view.owns(*slot);
            keyspace.hide_slots((0..HASH_SLOTS).filter(stays));
        }
    }
    cluster.publish(view, engine.config.cluster_require_full_coverage());
}

/// Hides slots that are being moved here, and slots that have keys here but no longer belong
/// to this server. A replica hides all slots of other shards.
pub(crate) fn refresh_hidden_slots(engine: &Engine) {
    // No other thread may finish this later by an older map.
    let _hiding = engine.slot_moves.hiding.lock();
    if let Some(hidden) = shard_channels::cluster_view(engine).and_then(|view| foreign_to_replica(&view)) {
        return engine.keyspace.hide_slots(hidden.iter());
    }
    let mut hidden = foreign_slots(engine);
    let owns = |slot: u16| shard_channels::cluster_view(engine).is_some_and(|view| view.owns(slot));
    for slot in (0..HASH_SLOTS).filter(|&slot| engine.slot_moves.is_coming(slot)) {
        if !owns(slot) {
            hidden.insert(slot);
        }
    }
    engine.keyspace.hide_slots(hidden.iter());
}

/// Starts deleting keys whose slots belong to other shards. Keys of slots that were lost just
/// now have been taken over. Others may belong to a move to this server that the source is
/// about to commit: they are deleted once that is impossible.
fn drop_foreign_keys(engine: &Engine, lost: &SlotSet) {
    let foreign = foreign_slots(engine);
    if foreign.is_empty() {
        return;
    }
    let is_certain = foreign.iter().all(|slot| lost.contains(slot));
    // One thread at a time: it raises the epoch itself, which leads to another call of this.
    if !engine.slot_moves.drops.ask() {
        return;
    }
    log::warn!("{} slots with keys here now belong to other nodes: deleting these keys", foreign.len());
    let weak = engine.this.clone();
    let run = move || {
        let Some(engine) = weak.upgrade() else { return };
        let (mut foreign, mut is_certain) = (foreign, is_certain);
        loop {
            if !foreign.is_empty() && (is_certain || changes::raise_epoch(&engine)) {
                let map = shard_channels::cluster_map(&engine);
                let is_foreign = |map: &ClusterMap, slot| is_foreign(&engine, &map.view(), slot);
                delete_slots(&engine, &foreign, |slot| map.is_some_and(|map| is_foreign(map, slot)));
                refresh_hidden_slots(&engine);
            }
            if !engine.slot_moves.drops.goes_on() {
                return;
            }
            (foreign, is_certain) = (foreign_slots(&engine), false);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("slots".into()).spawn(run) {
        engine.slot_moves.drops.stop();
        log::warn!("Cannot delete keys of other nodes' slots: {error}");
    }
}

/// Slots that have keys here but belong to other shards, and are not being moved here.
pub(super) fn foreign_slots(engine: &Engine) -> SlotSet {
    let Some(map) = shard_channels::cluster_map(engine) else {
        return SlotSet::default();
    };
    let view = map.view();
    (0..HASH_SLOTS).filter(|&slot| is_foreign(engine, &view, slot)).collect()
}

fn is_foreign(engine: &Engine, view: &ClusterView, slot: u16) -> bool {
    let may_come = |slots: &ShardSlots| slots.importing.contains_key(&slot) || slots.left.contains(slot);
    let is_coming = || view.own_slots().is_some_and(may_come);
    view.leads
        && view.map.owner(slot).is_some()
        && !view.owns(slot)
        && (0..engine.keyspace.databases()).any(|db| engine.keyspace.slot_len(slot, db) > 0)
        && !is_coming()
        && !engine.slot_moves.is_coming(slot)
}

/// Removes all keys: they belong to a primary that this server has left.
pub fn remove_all_keys(engine: &Engine) {
    let world = engine.keyspace.gate.close(None);
    let mut worker = engine.worker(0);
    world_change::change_in_world(engine, world, &mut worker, 0, unix_ms(), |txn| {
        dataset::remove_dataset(engine, txn, |keyspace, world| keyspace.flush(world, None));
        txn.journal_too(&[b"FLUSHALL"]);
        txn.journal_now();
    });
}

/// Deletes all keys of slots, as long as the slots remain `is_wanted`. Keys of several slots
/// are deleted together, since each deletion stops the world.
pub(crate) fn delete_slots(engine: &Engine, slots: &SlotSet, is_wanted: impl Fn(u16) -> bool) {
    for db in 0..engine.keyspace.databases() {
        let mut left: Vec<u16> =
            slots.iter().filter(|&slot| engine.keyspace.slot_len(slot, db) > 0).collect();
        left.reverse();
        loop {
            let mut keys: Vec<(u16, Box<[u8]>)> = Vec::new();
            while let Some(&slot) = left.last()
                && keys.len() < CHUNK
            {
                let (before, most) = (keys.len(), CHUNK - keys.len());
                let add = |entry: Entry<'_>| keys.push((slot, entry.key().into()));
                scan::visit_slot(&engine.keyspace, slot, db, most, add);
                if keys.len() - before < most {
                    left.pop();
                }
            }
            if keys.is_empty() {
                break;
            }
            if let Err(why) = migrate::delete_keys(engine, db, keys, &is_wanted) {
                log::warn!("Cannot delete keys of other nodes' slots: {why}");
                return;
            }
            sync_writes::wait_for_members(engine, MEMBERS_PATIENCE);
            // The slot may have come back meanwhile.
            left.pop_if(|slot| !is_wanted(*slot));
        }
    }
}
