// SPDX-License-Identifier: BSD-3-Clause
//! Keys of slots that this server does not own: hidden, and deleted.

use std::sync::Arc;
use std::time::Duration;

use braid_base::clock::unix_ms;
use braid_executor::cluster_map::{ClusterMap, ClusterView};
use braid_executor::engine::Engine;
use braid_executor::world;
use braid_executor::{threads, world_change};
use braid_group::cluster::{ShardSlots, SlotSet};
use braid_keyspace::{Entry, scan};
use braid_replica::{dataset, sync_writes};

use crate::group::changes;
use crate::migrate;

/// Maximum number of keys deleted per stop of the world.
const CHUNK: usize = 500;
/// How long to wait for the in-sync members to acknowledge them before more are deleted.
const MEMBERS_PATIENCE: Duration = Duration::from_millis(50);

/// Hides slots that are being moved here, and slots that have keys here but no longer belong
/// to this server. A replica hides all slots of other shards.
pub(crate) fn refresh_hidden_slots(engine: &Engine) {
    // No other thread may finish this later by an older map.
    let _hiding = engine.slot_moves.hiding.lock();
    if let Some(hidden) = engine.cluster_view().and_then(|view| foreign_to_replica(&view)) {
        return engine.keyspace.hide_slots(hidden.iter());
    }
    let mut hidden = foreign_slots(engine);
    let owned = engine.cluster_view().map_or_else(SlotSet::default, |view| view.owned());
    engine.slot_moves.imports().iter().for_each(|import| hidden.add(&import.slots.without(&owned)));
    engine.keyspace.hide_slots(hidden.iter());
}

/// Starts deleting keys whose slots belong to other shards. Keys of slots that were lost just
/// now have been taken over. Others may belong to a move to this server that the source is
/// about to commit: they are deleted once that is impossible.
pub(crate) fn drop_foreign_keys(engine: &Engine, lost: &SlotSet) {
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
    let run = move |engine: &Arc<Engine>| {
        let (mut foreign, mut is_certain) = (foreign, is_certain);
        loop {
            if !foreign.is_empty() && (is_certain || changes::raise_epoch(engine)) {
                let map = engine.cluster_map();
                let is_foreign = |map: &ClusterMap, slot| is_foreign(engine, &map.view(), slot);
                delete_slots(engine, &foreign, |slot| map.is_some_and(|map| is_foreign(map, slot)));
                refresh_hidden_slots(engine);
            }
            if !engine.slot_moves.drops.goes_on() {
                return;
            }
            (foreign, is_certain) = (foreign_slots(engine), false);
        }
    };
    if let Err(error) = threads::spawn(engine, "slots", run) {
        engine.slot_moves.drops.stop();
        log::warn!("Cannot delete keys of other nodes' slots: {error}");
    }
}

/// Slots that have keys here but belong to other shards, and are not being moved here.
pub(crate) fn foreign_slots(engine: &Engine) -> SlotSet {
    let Some(map) = engine.cluster_map() else {
        return SlotSet::default();
    };
    let view = map.view();
    if !view.leads {
        return SlotSet::default();
    }
    let mut foreign = view.map.covered().without(&view.owned());
    // Hardly any of the others' slots has keys here.
    foreign.retain(|slot| has_keys(engine, slot) && is_foreign(engine, &view, slot));
    foreign
}

fn has_keys(engine: &Engine, slot: u16) -> bool {
    (0..engine.keyspace.databases()).any(|db| engine.keyspace.slot_len(slot, db) > 0)
}

pub(crate) fn is_foreign(engine: &Engine, view: &ClusterView, slot: u16) -> bool {
    let may_come = |slots: &ShardSlots| slots.importing.contains_key(&slot) || slots.left.contains(slot);
    let is_coming = || view.own_slots().is_some_and(may_come);
    view.leads
        && view.map.owner(slot).is_some()
        && !view.owns(slot)
        && has_keys(engine, slot)
        && !is_coming()
        && !engine.slot_moves.is_coming(slot)
}

/// Removes all keys: they belong to a primary that this server has left.
pub fn remove_all_keys(engine: &Engine) {
    let world = world::stop(engine);
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

/// The slots of other shards, if this server is a replica: its primary fills and empties slots
/// whenever it likes, and the map that explains it may come later. Slots that are moved key by key
/// show at the replica as at the primary.
pub(super) fn foreign_to_replica(view: &ClusterView) -> Option<SlotSet> {
    let own = view.own_slots().filter(|_| !view.leads)?;
    let mut foreign = view.map.covered().without(&view.owned());
    for &importing in own.importing.keys() {
        foreign.remove(importing);
    }
    Some(foreign)
}
