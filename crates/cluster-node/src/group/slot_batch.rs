// SPDX-License-Identifier: BSD-3-Clause
//! Changes of slots (ADDSLOTS, DELSLOTS, SETSLOT ...), one or all those of a transaction, which are
//! one change of the cluster. They block: loops must never make them themselves.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use braid_executor::cluster_map::ClusterMap;
use braid_executor::engine::Engine;
use braid_executor::engine::call::Call;
use braid_executor::services::ClusterService;
use braid_executor::transaction::SlotBatch;
use braid_group::cluster::changes::LocalIdentity;
use braid_group::cluster::slot_changes::{Done, SlotChange, SlotRequest};
use braid_group::cluster::{Change, MapNode, Refusal, SlotSet};

use super::changes::ChangeError;
use crate::group::{self, changes};
use crate::identity::ClusterNode;

/// Makes changes of slots, as one change of the cluster. Returns the outcome of each once keys
/// that may be left elsewhere have been counted there, if that takes no longer than a lease.
///
/// # Errors
/// Nothing was changed, or the outcome is uncertain.
pub fn change_slots(
    engine: &Engine,
    me: &LocalIdentity,
    mut requests: Vec<SlotRequest>,
) -> Result<Vec<Result<Done, Refusal>>, ChangeError> {
    let Some(map) = engine.cluster_map() else { return Ok(Vec::new()) };
    requests.iter_mut().for_each(|request| note_keys(engine, map, request));
    let before = map.slot_memory();
    let result = RefCell::new((before.clone(), Vec::new()));
    let changed = changes::change_cluster(engine, me, |operator| {
        let mut memory = before.clone();
        let (change, outcomes) = operator.run(&requests, &mut memory);
        let refusal = outcomes.iter().all(Result::is_err).then(|| outcomes.first().cloned()).flatten();
        result.replace((memory, outcomes));
        match refusal {
            Some(Err(refusal)) => Err(refusal),
            _ => Ok::<Change, Refusal>(change),
        }
    });
    let (memory, outcomes) = result.into_inner();
    match changed {
        Ok(_) => {}
        // Each has its own refusal.
        Err(ChangeError::Refused(_)) => return Ok(outcomes),
        Err(error) => return Err(error),
    }
    map.keep_slot_memory(&before, &memory);
    let slots: SlotSet = requests.iter().flat_map(slots_of).collect();
    let patience = Duration::from_millis(u64::from(engine.config.lease_time_ms()));
    map.wait_until(|view| !view.map.is_settling(&slots), patience);
    Ok(outcomes)
}

/// Notes for SETSLOT NODE which keys of the slot the nodes have that this concerns.
fn note_keys(engine: &Engine, map: &ClusterMap, request: &mut SlotRequest) {
    let SlotRequest::Set { slot, wanted: SlotChange::Node(to), has_keys, emptied } = request else {
        return;
    };
    let (slot, view) = (*slot, map.view());
    let Some(owner) = view.map.owner(slot) else { return };
    let is_migrating = view.map.slots_of(owner).is_some_and(|slots| slots.migrating.contains_key(&slot));
    let is_empty = if view.owns(slot) {
        *has_keys = has_keys_in(engine, slot);
        !*has_keys
    } else {
        let asks = is_migrating && *to == *view.id;
        asks && view.map.primary(owner).is_some_and(|source| is_emptied(engine, source, slot))
    };
    *emptied = (is_migrating && is_empty).then(|| Arc::clone(owner));
}

/// True if a node says that it has no keys in a slot.
fn is_emptied(engine: &Engine, source: &MapNode, slot: u16) -> bool {
    let port = source.port_for(engine.config.tls_cluster());
    let slot = slot.to_string();
    let count =
        changes::ask_node(engine, source.host(), port, &[b"CLUSTER", b"COUNTKEYSINSLOT", slot.as_bytes()]);
    count.is_ok_and(|count| count == "0")
}

/// True if a slot has keys here.
pub(super) fn has_keys_in(engine: &Engine, slot: u16) -> bool {
    (0..engine.keyspace.databases()).any(|db| engine.keyspace.slot_len(slot, db) > 0)
}

fn slots_of(request: &SlotRequest) -> Vec<u16> {
    match request {
        SlotRequest::Add(slots) | SlotRequest::Delete(slots) => slots.clone(),
        SlotRequest::Set { slot, .. } => vec![*slot],
        SlotRequest::Flush | SlotRequest::BumpEpoch => Vec::new(),
    }
}

/// The reply to a request that was carried out.
pub fn reply_to(request: &SlotRequest, done: Done) -> String {
    match (request, done.is_changed) {
        (SlotRequest::BumpEpoch, true) => format!("BUMPED {}", done.config_epoch),
        (SlotRequest::BumpEpoch, false) => format!("STILL {}", done.config_epoch),
        _ => "OK".to_owned(),
    }
}

/// Carries out what a transaction has gathered, and replies to EXEC.
pub(crate) fn answer_slot_batch(call: &mut Call<'_, '_>, batch: SlotBatch) {
    let engine = call.engine;
    let map = engine.cluster_map().filter(|_| call.may_leave(false));
    let (Some(map), Some(group)) = (map, group::of(engine)) else {
        call.reply.error("ERR cannot change the cluster's slots now");
        return;
    };
    let me = group.as_newcomer(&engine.config, &map.id(), &call.session.record.local_address);
    let left = call.work_in_background(move |engine, answer| {
        let SlotBatch { requests, replies } = batch;
        let outcomes = match requests.is_empty() {
            true => Ok(Vec::new()),
            false => change_slots(engine, &me, requests.clone()),
        };
        let mut outcomes = outcomes.map(|all| all.into_iter().zip(&requests));
        let mut reply = answer.buffer();
        reply.array(replies.len());
        for known in replies {
            if let Some(bytes) = known {
                reply.raw(&bytes);
                continue;
            }
            match outcomes.as_mut().map(Iterator::next) {
                Ok(Some((Ok(done), request))) => reply.simple(&reply_to(request, done)),
                Ok(Some((Err(refusal), _))) => reply.error(&refusal.to_string()),
                Err(error) => reply.error(&error.to_string()),
                Ok(None) => reply.error("ERR nothing was changed"),
            }
        }
        answer.give(reply);
    });
    if let Err(error) = left {
        call.reply.error_bytes(&error.line());
    }
}

impl ClusterService for ClusterNode {
    fn answer_slot_batch(&self, call: &mut Call<'_, '_>, batch: SlotBatch) {
        answer_slot_batch(call, batch);
    }
}
