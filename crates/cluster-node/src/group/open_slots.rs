// SPDX-License-Identifier: BSD-3-Clause
//! Slots that this server's shard has left while keys of them may be here
//! (`braid_group::cluster::slot_changes`): they get no new keys, so its primary counts the keys,
//! and closes a slot without keys or opens one with keys again. Only the process that leads the
//! shard may count: another one may not have the data.

use std::sync::Arc;

use braid_clients::attention::LOADING;
use braid_executor::cluster_map::ClusterMap;
use braid_executor::engine::Engine;
use braid_executor::state::slot_moves::{OneThread, SlotMoves};
use braid_executor::threads;
use braid_group::cluster::SlotSet;

use crate::group::{author, changes, slot_batch};

/// Starts counting keys, if there is anything to count.
pub(super) fn count_left_slots(engine: &Engine) {
    if left_slots(engine).is_some() {
        let what = "count the keys of slots that have left";
        run_on_a_thread(engine, |moves| &moves.counts, what, count_once);
    }
}

/// Starts work on open slots, unless it is under way: then it is done once more.
pub(super) fn run_on_a_thread(
    engine: &Engine,
    state: fn(&SlotMoves) -> &OneThread,
    what: &str,
    work: fn(&Engine),
) {
    if !state(&engine.slot_moves).ask() {
        return;
    }
    let run = move |engine: &Arc<Engine>| {
        loop {
            work(engine);
            if !state(&engine.slot_moves).goes_on() {
                return;
            }
        }
    };
    if let Err(error) = threads::spawn(engine, "slots", run) {
        state(&engine.slot_moves).stop();
        log::warn!("Cannot {what}: {error}");
    }
}

/// If it fails, the group's thread soon asks again.
fn count_once(engine: &Engine) {
    let (Some((empty, full)), Some(me)) = (left_slots(engine), author::as_author(engine)) else { return };
    match changes::change_cluster(engine, &me, |operator| Ok(operator.finish_left_slots(&empty, &full))) {
        Ok(true) if !full.is_empty() => log::warn!(
            "Keys of slots {full}, which belong to other nodes, are only here: the slots stay open \
             until the keys have moved (redis-cli --cluster fix)"
        ),
        Ok(_) => {}
        Err(error) => log::warn!("Cannot close slots that have left: {error}"),
    }
}

/// The slots whose marks can end: those without keys, and those with keys whose owner they are
/// to go to.
fn left_slots(engine: &Engine) -> Option<(SlotSet, SlotSet)> {
    let map = engine.cluster_map().filter(|map| ClusterMap::is_led(map))?;
    let view = map.view();
    let own = view.own_slots().filter(|own| view.leads && !own.left.is_empty())?;
    if engine.attention.get() & LOADING != 0 {
        return None;
    }
    let shard = view.shard.as_ref()?;
    let (mut empty, mut full) = (SlotSet::default(), SlotSet::default());
    for slot in own.left.iter().filter(|&slot| view.map.owner(slot) != Some(shard)) {
        match slot_batch::has_keys_in(engine, slot) {
            false => drop(empty.insert(slot)),
            true if view.map.owner(slot).is_some() => drop(full.insert(slot)),
            true => {}
        }
    }
    (!empty.is_empty() || !full.is_empty()).then_some((empty, full))
}
