// SPDX-License-Identifier: BSD-3-Clause
//! The group's thread: feeds events to the state machine, and carries out its orders.

use std::sync::Arc;
use std::time::Duration;

use braid_base::clock::boot_nanos;
use braid_durable::saving;
use braid_executor::engine::Engine;
use braid_executor::threads;
use braid_group::member::Outcome;
use braid_group::{Duty, Member, Node, Transaction};
use braid_replica::{failover, sync_writes};

use super::messages::{EtcdEvent, EtcdRequests};
use super::part::Part;
use super::previous_process::{self, PreviousProcess};
use super::{Group, duty, node, shared};
use crate::group::{self, own_node, store};
use crate::slot_moves::{hold, import, orders};

/// Minimum number of steps per lease time.
const STEPS: u64 = 16;

/// Joins the group, if one is configured. The dataset has been loaded.
///
/// # Errors
/// If a thread cannot be started.
pub fn start_group(engine: &Engine) -> std::io::Result<()> {
    let Some(group) = group::shared_of(engine) else { return Ok(()) };
    let patience = Duration::from_millis(group.settings.lease_ms);
    log::info!("This server is {} in the group {}", group.settings.node, group.settings.name);
    previous_process::consume_clean_shutdown(engine);
    store::start_store(engine, &group)?;
    if group.settings.is_cluster {
        let group = Arc::clone(&group);
        threads::spawn(engine, "settings", move |engine| shared::run(engine, &group))?;
    }
    threads::spawn(engine, "group", move |engine| run(engine, &group))?;
    if let Some(map) = engine.cluster_map() {
        // Without etcd the server continues as well as it can.
        map.wait_until(|view| view.map.revision > 0, patience);
        saving::stop_expecting_map(engine);
    }
    Ok(())
}

/// Leaves the group cleanly, so that others need not wait for the lease to end. The loops
/// have ended, so nothing is served any more. Waits for etcd at most for the time of one
/// answer.
pub fn leave_group(engine: &Engine) {
    let Some(group) = group::of(engine) else { return };
    let patience = group.settings.etcd_patience();
    let mut leaving = group.leaving.lock();
    leaving.is_asked = true;
    group.has_left.notify_all();
    group.has_left.wait_while_for(&mut leaving, |leaving| !leaving.is_done, patience);
}

fn run(engine: &Arc<Engine>, group: &Arc<Group>) {
    let step = Duration::from_millis((group.settings.lease_ms / STEPS).max(1));
    let previous = PreviousProcess {
        run: previous_process::read(&group.settings.node),
        clean_shutdown: group.clean_shutdown.lock().clone(),
    };
    let mut last_error = duty::LastError::default();
    let mut part =
        (!group.settings.is_cluster).then(|| Part::new(engine, group, previous.clone(), boot_nanos()));
    let mut cluster = node::Node::of(engine, previous);
    let (mut lease, mut taken) = (None, None);
    while !engine.shutdown.is_requested() {
        let events = {
            let mut events = group.etcd_events.lock();
            if events.is_empty() {
                group.has_etcd_events.wait_for(&mut events, step);
            }
            std::mem::take(&mut *events)
        };
        let now = boot_nanos();
        for one in events {
            match one {
                EtcdEvent::Records(keys, records, map) => {
                    if let (Some(node), Some(map)) = (&mut cluster, map) {
                        node.follow_map(group, map, &mut part);
                    }
                    let mut view = group.view.lock();
                    (view.records, view.etcd_answered) = (Arc::clone(&records), now);
                    drop(view);
                    let Some(Part { member, .. }) = part.as_mut().filter(|_| keys == group.keys()) else {
                        continue;
                    };
                    // Records that etcd had are missing: its data has been replaced.
                    if member.snapshot().is_some_and(|known| known.revision > records.revision) {
                        note_regress(member, &records);
                    }
                    member.observe(records, now);
                }
                EtcdEvent::Lease { id, sent, received } => {
                    lease = Some(id);
                    if let Some(Part { member, .. }) = &mut part {
                        member.lease_lives(id, sent, received);
                    }
                    let mut view = group.view.lock();
                    (view.lease_until, view.etcd_answered) = (group.timing.lease_right(sent), received);
                }
                EtcdEvent::LeaseLost => {
                    lease = None;
                    if let Some(Part { member, .. }) = &mut part {
                        member.lease_lost();
                    }
                    let mut view = group.view.lock();
                    (view.lease_until, view.etcd_answered) = (0, now);
                }
                EtcdEvent::Transacted(keys, transaction, outcome) => {
                    note_outcome(engine, group, &transaction, &outcome);
                    if let Some(Part { member, .. }) = part.as_mut().filter(|_| keys == group.keys()) {
                        member.on_outcome(&transaction, outcome, now);
                    }
                }
                EtcdEvent::Error(error) => last_error.note(group, error),
            }
        }
        say_where(engine, group, lease, &mut taken);
        release_expired_hold(engine, group);
        cluster.iter_mut().for_each(|node| node.on_tick(now));
        let goes_on = !engine.shutdown.is_imminent();
        let Some(Part { member, duties }) = part.as_mut().filter(|_| goes_on) else { continue };
        duties.hand_over(member);
        duties.take_over(member);
        let orders = member.step(boot_nanos(), &duties.local(member));
        note_name(group, member);
        duties.carry_out(&orders, member);
        follow_duty(engine, group, &orders.duty);
        let Some(lease) = lease else { continue };
        let mut requests = group.etcd_requests.lock();
        let EtcdRequests { transaction, offer, .. } = &mut *requests;
        let mut has_some = false;
        if let Some(ordered) = orders.transaction {
            has_some |= transaction.replace((group.keys(), ordered)).is_none();
        }
        if let Some(ordered) = orders.offer {
            let records = member.snapshot();
            let is_known =
                records.is_some_and(|records| records.offers.get(&*group.settings.node) == Some(&ordered));
            if !is_known {
                *offer = Some((group.keys(), ordered, lease));
                has_some = true;
            }
        }
        drop(requests);
        if has_some {
            group.has_etcd_requests.notify_one();
        }
    }
}

/// Records which member this process is, once that is decided.
fn note_name(group: &Group, member: &Member) {
    let Some(name) = member.name() else { return };
    let mut view = group.view.lock();
    if view.id != *name {
        let before = std::mem::replace(&mut view.id, name.clone());
        view.runs.push(before.run);
        log::info!("This process continues as member {name}, whose files it has loaded");
    }
    view.has_id = true;
    drop(view);
    // From now on it shuts down under its own name.
    *group.clean_shutdown.lock() = None;
}

/// Records the outcome of a transaction. If it has made another node of a cluster the primary,
/// commands wait until the map says so, too.
fn note_outcome(engine: &Engine, group: &Group, transaction: &Transaction, outcome: &Outcome) {
    log::debug!("Transaction {}: {outcome:?}", super::describe(transaction));
    let hands_over = {
        let view = group.view.lock();
        let is_other = transaction.shard.as_ref().is_some_and(|shard| shard.primary != view.id);
        view.is_primary && is_other && matches!(outcome, Outcome::Committed(_))
    };
    if hands_over && group.settings.is_cluster {
        hold::hold_all_until_decided(engine, group.timing.lease);
    }
}

/// Performs work that depends on this server's role in its shard, once it has one.
fn follow_duty(engine: &Engine, group: &Group, duty: &Duty) {
    node::note_lead(engine, matches!(duty, Duty::Lead { .. }));
    release_expired_hold(engine, group);
    orders::check_orders(engine);
    import::end_lost_imports(engine);
    sync_writes::disconnect_demoted_clients(engine);
}

/// Resumes commands once the cluster's map and this server's role agree again. If another server
/// has become the primary, it must know that: otherwise it would send redirected clients back.
fn release_expired_hold(engine: &Engine, group: &Group) {
    hold::release_expired_hold(engine, || {
        let leads = engine.cluster_view().is_some_and(|view| view.leads);
        let is_primary = group.view.lock().is_primary;
        leads == is_primary
            && match leads {
                true => engine.replication.in_sync.may_serve(boot_nanos()),
                false => !failover::waits_for_new_primary(engine),
            }
    });
}

/// Handles records with a smaller revision than known: they are late, or come from another etcd.
fn note_regress(member: &mut Member, records: &braid_group::Snapshot) {
    let epoch = |records: &braid_group::Snapshot| {
        records.shard.as_ref().map(|shard| (shard.value.epoch, shard.revision))
    };
    let known = member.snapshot().and_then(|known| epoch(known));
    if known != epoch(records) {
        log::warn!("etcd's data has gone back: it was restored from a backup, or lost");
    }
    member.forget_records();
}

/// Keeps this server's record in etcd current. `taken`: the run of another server with the same
/// name that has been reported in the log.
fn say_where(engine: &Engine, group: &Group, lease: Option<i64>, taken: &mut Option<Arc<str>>) {
    let view = group.view.lock();
    let (name, records, is_known) = (view.id.clone(), Arc::clone(&view.records), view.has_id);
    let runs = view.runs.clone();
    drop(view);
    let Some(lease) = lease.filter(|_| is_known && records.revision > 0) else { return };
    let node = own_node::own_node(engine, &name.run);
    match records.nodes.get(&name.node) {
        Some(known) if is_same(known, &node) => {}
        // The record of its former process disappears with that process's lease; another server's
        // stays.
        Some(known) if known.run != node.run && !runs.contains(&known.run) => {
            let place = |node: &Node| (node.host.clone(), node.port, node.tls_port);
            let is_other = place(known) != place(&node);
            if is_other && taken.replace(Arc::clone(&known.run)).as_ref() != Some(&known.run) {
                let Node { host, port, .. } = known;
                log::warn!(
                    "Another server has the name {}: {host}:{port}. Give each server its own node-name",
                    name.node
                );
            }
        }
        _ => {
            let mut requests = group.etcd_requests.lock();
            if requests.node.is_none() {
                requests.node = Some((node, lease));
                drop(requests);
                group.has_etcd_requests.notify_one();
            }
        }
    }
}

/// True if a record matches this server. A cluster node may not know its own address.
fn is_same(known: &Node, own: &Node) -> bool {
    let host = if own.host.is_empty() { &own.host } else { &known.host };
    Node { host: host.clone(), ..known.clone() } == *own
}
