// SPDX-License-Identifier: BSD-3-Clause
//! What an interrupted MIGRATE has left at its target.
//!
//! MIGRATE restores keys there, and then deletes them here. If the target's answer is lost, or this
//! server is replaced before its successor has the deletion, the keys are on both nodes. The owner
//! of the slot goes on with its own copies, so the others must go before anybody is sent to them.
//! While a slot is migrating, its owner deletes there what it has itself: after a MIGRATE that
//! failed, and when it takes the lead.
//!
//! The keys are claimed as by a MIGRATE, which therefore does not move them meanwhile, and are only
//! deleted there once the in-sync members have them here. Clients are sent there for a key (ASK)
//! only when the members have its deletion, so with synchronous writes the owner's copy is never
//! the older one.

use std::sync::Arc;
use std::time::Duration;

use braid_base::clock::unix_ms;
use braid_clients::attention::LOADING;
use braid_config::SyncLevel;
use braid_executor::cluster_map::ClusterMap;
use braid_executor::engine::Engine;
use braid_executor::world;
use braid_group::cluster::SlotSet;
use braid_keyspace::{Entry, scan};
use braid_net::target::Connection;
use braid_replica::sync_writes;

use crate::group::{self, changes, open_slots};

/// Keys that are claimed together.
const CHUNK: usize = 200;

/// The slots that are to be searched.
#[derive(Default)]
pub(crate) struct Doubts {
    /// All that are migrating: this server has just taken the lead.
    all: bool,
    slots: SlotSet,
}

/// Notes that this server leads from now on.
pub(super) fn note_takeover(engine: &Engine) {
    if let Some(group) = group::of(engine).filter(|_| engine.cluster_map().is_some()) {
        group.doubts.lock().all = true;
    }
}

/// Notes that a MIGRATE of keys of a slot failed, with keys that the target may have.
pub(crate) fn note_interrupted(engine: &Engine, slot: u16) {
    if let Some(group) = group::of(engine).filter(|_| engine.cluster_map().is_some()) {
        group.doubts.lock().slots.insert(slot);
    }
}

/// Starts the search, if there is anything to search. What fails is tried again.
pub(super) fn search_leftovers(engine: &Engine) {
    if !doubtful_slots(engine).is_empty() {
        let what = "search for keys that are at their slots' targets as well";
        open_slots::run_on_a_thread(engine, |moves| &moves.searches, what, search_once);
    }
}

fn search_once(engine: &Engine) {
    for (slot, target) in doubtful_slots(engine) {
        // Before the search: a MIGRATE may fail during it.
        if let Some(group) = group::of(engine) {
            group.doubts.lock().slots.remove(slot);
        }
        match delete_there(engine, slot, &target) {
            Ok(0) => {}
            Ok(deleted) => log::warn!(
                "{deleted} keys of slot {slot} were at its target as well, after an interrupted MIGRATE: \
                 deleted there"
            ),
            Err(why) => {
                log::debug!("Keys of slot {slot} may be at its target as well: {why}");
                note_interrupted(engine, slot);
                return;
            }
        }
    }
}

/// The slots to be searched, and the node that each migrates to.
fn doubtful_slots(engine: &Engine) -> Vec<(u16, Arc<str>)> {
    let (Some(group), Some(map)) = (group::of(engine), engine.cluster_map()) else { return Vec::new() };
    if !ClusterMap::is_led(map) || engine.attention.get() & LOADING != 0 {
        return Vec::new();
    }
    let view = map.view();
    let Some(own) = view.own_slots().filter(|_| view.leads) else { return Vec::new() };
    let migrating = own.migrating.iter().filter(|(slot, _)| view.owns(**slot));
    let mut doubts = group.doubts.lock();
    let all = std::mem::take(&mut doubts.all);
    doubts.slots =
        migrating.clone().map(|(slot, _)| *slot).filter(|slot| all || doubts.slots.contains(*slot)).collect();
    let doubtful = migrating.filter(|(slot, _)| doubts.slots.contains(**slot));
    doubtful.map(|(slot, target)| (*slot, Arc::clone(target))).collect()
}

/// Deletes at the slot's target the keys that are here. Returns the number of those that were
/// there.
fn delete_there(engine: &Engine, slot: u16, target: &Arc<str>) -> Result<usize, String> {
    let mut connection = None;
    let deleted = delete_all_there(engine, slot, target, &mut connection);
    // A deletion that arrived after the key has moved would lose it.
    if let Some(connection) = connection.filter(|_| deleted.is_err()) {
        connection.abort();
    }
    deleted
}

fn delete_all_there(
    engine: &Engine,
    slot: u16,
    target: &Arc<str>,
    connection: &mut Option<Connection>,
) -> Result<usize, String> {
    let mut deleted = 0;
    for db in 0..engine.keyspace.databases() {
        let mut keys: Vec<Box<[u8]>> = Vec::new();
        let all = engine.keyspace.slot_len(slot, db);
        scan::visit_slot(&engine.keyspace, slot, db, all, |entry: Entry<'_>| keys.push(entry.key().into()));
        if keys.is_empty() {
            continue;
        }
        let end = engine.replication.in_sync.without_asides(engine.keyspace.journal.end());
        let patience = Duration::from_millis(u64::from(engine.config.lease_time_ms()));
        sync_writes::wait_for_members(engine, patience);
        if !engine.replication.in_sync.covers(SyncLevel::Memory, end) {
            return Err("the members of this shard do not have them yet".into());
        }
        for keys in keys.chunks(CHUNK) {
            if connection.is_none() {
                *connection = Some(open(engine, target)?);
            }
            if let Some(connection) = connection {
                deleted += delete_keys_there(engine, connection, db, keys)?;
            }
        }
    }
    Ok(deleted)
}

/// A connection to the present primary of the target's shard.
fn open(engine: &Engine, target: &Arc<str>) -> Result<Connection, String> {
    let view = engine.cluster_view().ok_or("this server is in no cluster")?;
    let primary = view.map.primary_for(target);
    let node = view.map.node(&primary).ok_or("the target is unknown")?;
    changes::open_node(engine, node.host(), node.port_for(engine.config.tls_cluster()))
}

fn delete_keys_there(
    engine: &Engine,
    connection: &mut Connection,
    db: u32,
    keys: &[Box<[u8]>],
) -> Result<usize, String> {
    let _claims = engine.migrations.claim(db, keys, &engine.attention, &engine.clients.mailboxes);
    world::wait_for_commands(engine);
    // A MIGRATE may have moved some before they were claimed.
    let (reader, now) = (engine.keyspace.reader(), unix_ms());
    let here: Vec<&Box<[u8]>> =
        keys.iter().filter(|key| reader.look_at(db, key, now, |entry| entry.is_some())).collect();
    let broken = |broken| changes::broken_text(engine, broken);
    let number = db.to_string();
    connection.request(&[b"SELECT", number.as_bytes()]).map_err(broken)?;
    for key in &here {
        connection.request(&[b"ASKING".as_slice()]).map_err(broken)?;
        connection.request(&[b"UNLINK", &***key]).map_err(broken)?;
    }
    connection.flush().map_err(broken)?;
    let (mut deleted, mut refused) = (0, None);
    for _ in 0..1 + 2 * here.len() {
        let line = connection.line().map_err(broken)?;
        deleted += usize::from(line == b":1");
        if line.starts_with(b"-") {
            refused.get_or_insert_with(|| String::from_utf8_lossy(&line).into_owned());
        }
    }
    refused.map_or(Ok(deleted), Err)
}
