// SPDX-License-Identifier: BSD-3-Clause
//! The map of a cluster of several nodes (`cluster-name`), as read by the data path and the
//! CLUSTER commands. The group's thread publishes it when records in etcd have changed.
//!
//! Reads take no lock. A slot is taken from this server with the world stopped, so no command
//! admitted by the earlier map runs afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use braid_base::clock::unix_ms;
use braid_base::crc::HASH_SLOTS;
use braid_group::cluster::slot_changes::SlotMemory;
use braid_group::cluster::{Health, Map, MapNode, ShardSlots, SlotSet};
use parking_lot::{Condvar, Mutex};

/// How long a node that has left is remembered, and what DELSLOTS was told of other nodes' slots.
const MEMORY: Duration = Duration::from_secs(60);

/// The cluster and this server's place in it.
#[derive(Clone, Debug, Default)]
pub struct ClusterView {
    pub map: Arc<Map>,
    /// This node's id.
    pub id: Arc<str>,
    /// The node's shard; `None` if the cluster does not know this node.
    pub shard: Option<Arc<str>>,
    /// According to the records, this node is the shard's primary.
    pub leads: bool,
}

impl ClusterView {
    pub fn new(map: Arc<Map>, id: Arc<str>) -> ClusterView {
        let own = map.node(&id);
        let shard = own.map(|own| Arc::clone(&own.known.shard));
        let leads = own.is_some_and(|own| map.is_primary(own));
        ClusterView { map, id, shard, leads }
    }

    /// This server's node, if the cluster knows it.
    pub fn own(&self) -> Option<&MapNode> {
        self.map.node(&self.id)
    }

    /// The slots of this server's shard.
    pub fn own_slots(&self) -> Option<&ShardSlots> {
        self.map.slots_of(self.shard.as_ref()?)
    }

    /// True if this server is its shard's primary and the shard has slots.
    pub fn leads_slots(&self) -> bool {
        self.leads && self.own_slots().is_some_and(|slots| !slots.slots.is_empty())
    }

    /// True if a slot belongs to this server's shard.
    pub fn owns(&self, slot: u16) -> bool {
        self.shard.is_some() && self.map.owner(slot) == self.shard.as_ref()
    }

    /// All slots that belong to this server's shard.
    pub fn owned(&self) -> SlotSet {
        self.shard.as_ref().map_or_else(SlotSet::default, |shard| self.map.owned_by(shard))
    }

    /// Slots that this server serves to all clients without further checks.
    fn plain_slots(&self) -> SlotSet {
        if !self.leads {
            return SlotSet::default();
        }
        let mut plain = self.owned();
        for &moving in self.own_slots().iter().flat_map(|slots| slots.migrating.keys()) {
            plain.remove(moving);
        }
        plain
    }
}

/// [`SlotMemory`], with the time of each entry.
#[derive(Default)]
struct DeletedSlots {
    deleted: BTreeMap<u16, Instant>,
    unassigned: BTreeMap<u16, Instant>,
}

/// The current map, shared by all threads.
pub struct ClusterMap {
    /// This node's id. Locked while a view is published.
    id: Mutex<Arc<str>>,
    view: ArcSwap<ClusterView>,
    /// One bit per slot: set if it is served without reading the map.
    plain: Vec<AtomicU64>,
    /// This process leads its shard. It is not enough that the records name its node the shard's
    /// primary: a restarted process may not lead again.
    is_led: AtomicBool,
    /// The revision of the current map.
    revision: Mutex<u64>,
    /// Ids of failed nodes, and when each failure was seen, in ms since the Unix epoch.
    lost: Mutex<BTreeMap<Arc<str>, i64>>,
    /// Ids of nodes that this server has seen leave the cluster, and when.
    forgotten: Mutex<Vec<(Arc<str>, Instant)>>,
    deleted: Mutex<DeletedSlots>,
    has_changed: Condvar,
    /// Clients still wait for the first map.
    is_awaited: Mutex<bool>,
}

impl ClusterMap {
    /// The map before anything is known: no slot is served.
    pub fn new(id: Arc<str>) -> ClusterMap {
        ClusterMap {
            id: Mutex::new(Arc::clone(&id)),
            view: ArcSwap::from_pointee(ClusterView { id, ..ClusterView::default() }),
            plain: (0..HASH_SLOTS / 64).map(|_| AtomicU64::new(0)).collect(),
            is_led: AtomicBool::new(false),
            revision: Mutex::new(0),
            lost: Mutex::default(),
            forgotten: Mutex::default(),
            deleted: Mutex::default(),
            has_changed: Condvar::new(),
            is_awaited: Mutex::new(true),
        }
    }

    /// True while clients wait for the first map.
    pub fn is_awaited(&self) -> bool {
        *self.is_awaited.lock()
    }

    /// Calls `end` if clients were waiting for the first map.
    pub fn stop_waiting(&self, end: impl FnOnce()) {
        let mut is_awaited = self.is_awaited.lock();
        if std::mem::take(&mut *is_awaited) {
            end();
        }
    }

    /// This node's id.
    pub fn id(&self) -> Arc<str> {
        Arc::clone(&self.id.lock())
    }

    /// The current view.
    pub fn view(&self) -> Arc<ClusterView> {
        self.view.load_full()
    }

    /// True if a slot is served here without further checks.
    #[inline]
    pub fn serves(&self, slot: u16) -> bool {
        let word = self.plain.get(usize::from(slot / 64));
        word.is_some_and(|word| word.load(Relaxed) >> (slot % 64) & 1 == 1)
    }

    /// When a node that is not alive was seen to fail, in ms since the Unix epoch; 0 if this
    /// server has seen no failure.
    pub fn lost_since(&self, id: &str) -> i64 {
        self.lost.lock().get(id).copied().unwrap_or(0)
    }

    /// True if a node has left the cluster recently: tools ask each node to forget it.
    pub fn was_forgotten(&self, id: &str) -> bool {
        let mut forgotten = self.forgotten.lock();
        forgotten.retain(|(_, since)| since.elapsed() < MEMORY);
        self.view().map.node(id).is_none() && forgotten.iter().any(|(known, _)| **known == *id)
    }

    /// Where a stock node's table of slots would now differ from the map.
    pub fn slot_memory(&self) -> SlotMemory {
        let mut known = self.deleted.lock();
        let DeletedSlots { deleted, unassigned } = &mut *known;
        let slots = |known: &mut BTreeMap<u16, Instant>| {
            known.retain(|_, since| since.elapsed() < MEMORY);
            known.keys().copied().collect()
        };
        SlotMemory { deleted: slots(deleted), unassigned: slots(unassigned) }
    }

    /// Applies what requests have changed in [`ClusterMap::slot_memory`].
    pub fn keep_slot_memory(&self, before: &SlotMemory, after: &SlotMemory) {
        let mut known = self.deleted.lock();
        let DeletedSlots { deleted, unassigned } = &mut *known;
        deleted.retain(|&slot, _| !before.deleted.contains(slot) || after.deleted.contains(slot));
        unassigned.retain(|&slot, _| !before.unassigned.contains(slot) || after.unassigned.contains(slot));
        for slot in after.deleted.iter().filter(|&slot| !before.deleted.contains(slot)) {
            deleted.insert(slot, Instant::now());
            unassigned.remove(&slot);
        }
    }

    fn note_owners(&self, before: &Map, now: &Map) {
        if before.epoch == now.epoch {
            return;
        }
        let mut known = self.deleted.lock();
        let DeletedSlots { deleted, unassigned } = &mut *known;
        let stays = |slot: u16| now.owner(slot).is_none() || now.owner(slot) == before.owner(slot);
        deleted.retain(|&slot, _| stays(slot));
        unassigned.retain(|&slot, _| stays(slot));
        for slot in before.covered().without(now.covered()).iter() {
            if !deleted.contains_key(&slot) {
                unassigned.insert(slot, Instant::now());
            }
        }
    }

    /// Replaces the view. `require_all`: the cluster serves all slots or none.
    pub fn publish(&self, view: ClusterView, require_all: bool) {
        let id = self.id.lock();
        // The id may have been renewed since the view was created.
        let view = if view.id == *id { view } else { ClusterView::new(view.map, Arc::clone(&id)) };
        self.set_plain(&view, require_all);
        let revision = view.map.revision;
        let gone =
            self.view.load().map.nodes.keys().filter(|id| view.map.node(id).is_none()).cloned().collect();
        let gone: Vec<Arc<str>> = gone;
        self.note_lost(&view.map);
        self.note_owners(&self.view.load().map, &view.map);
        self.forgotten.lock().extend(gone.into_iter().map(|id| (id, Instant::now())));
        self.view.store(Arc::new(view));
        *self.revision.lock() = revision;
        self.has_changed.notify_all();
    }

    fn set_plain(&self, view: &ClusterView, require_all: bool) {
        let plain = match self.is_led() && (!require_all || view.map.is_complete()) {
            true => view.plain_slots(),
            false => SlotSet::default(),
        };
        for (word, &bits) in self.plain.iter().zip(plain.words()) {
            word.store(bits, Relaxed);
        }
    }

    /// Whether this process leads its shard.
    pub fn is_led(&self) -> bool {
        self.is_led.load(Relaxed)
    }

    /// Applies a change of `cluster-require-full-coverage`.
    pub fn set_coverage(&self, require_all: bool) {
        let _id = self.id.lock();
        self.set_plain(&self.view.load(), require_all);
    }

    /// Sets whether this process leads its shard.
    pub fn set_led(&self, is_led: bool, require_all: bool) {
        if self.is_led() != is_led {
            let _id = self.id.lock();
            self.is_led.store(is_led, Relaxed);
            self.set_plain(&self.view.load(), require_all);
        }
    }

    /// Records nodes that have failed since the current view, and drops those that are back.
    fn note_lost(&self, map: &Map) {
        let before = self.view.load();
        let has_failed =
            |map: &Map, id: &str| map.node(id).is_some_and(|node| node.health() == Health::Failed);
        let was_alive = |id: &str| before.map.node(id).is_some_and(|node| node.health() != Health::Failed);
        let mut lost = self.lost.lock();
        lost.retain(|id, _| has_failed(map, id));
        let now_lost = map.nodes.keys().filter(|id| has_failed(map, id) && was_alive(id));
        lost.extend(now_lost.map(|id| (Arc::clone(id), unix_ms())));
    }

    /// From now on this server is another node, in no shard.
    pub fn renew(&self, id: Arc<str>) {
        let mut own = self.id.lock();
        *own = Arc::clone(&id);
        self.plain.iter().for_each(|word| word.store(0, Relaxed));
        self.view.store(Arc::new(ClusterView::new(Arc::clone(&self.view().map), id)));
    }

    /// Waits until the view satisfies `is_there`. False if it does not within `patience`.
    pub fn wait_until(&self, is_there: impl Fn(&ClusterView) -> bool, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut revision = self.revision.lock();
        while !is_there(&self.view()) {
            if self.has_changed.wait_until(&mut revision, deadline).timed_out() {
                return is_there(&self.view());
            }
        }
        true
    }

    /// Waits until the map has reached a revision. False if it has not within `patience`.
    pub fn wait_for(&self, revision: u64, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut known = self.revision.lock();
        while *known < revision {
            if self.has_changed.wait_until(&mut known, deadline).timed_out() {
                return *known >= revision;
            }
        }
        true
    }
}
