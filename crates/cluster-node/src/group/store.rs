// SPDX-License-Identifier: BSD-3-Clause
//! The threads that talk to etcd: one keeps the lease alive, one reads and changes records, one
//! watches. A call that hangs delays its own thread alone.
//!
//! The records are read once ([`Mirror`]); the watch reports later changes. They are read again
//! when the watch has begun anew, after this server's own changes, and when its shard's record
//! shows that the watch has missed something.
//!
//! The threads end with the server. They report to the group's thread by [`EtcdEvent`], and receive
//! its orders as [`EtcdRequests`].

use std::sync::Arc;
use std::time::Duration;

use braid_base::clock::boot_nanos;
use braid_etcd::{Client, Error, LeaseId, Operation};
use braid_executor::engine::Engine;
use braid_executor::threads;
use braid_group::Transaction;
use braid_group::cluster::Map;
use braid_group::cluster::changes::Operator;
use braid_group::member::Outcome;
use braid_group::record::{Expected, HolderChange, Keys};

use super::Group;
use super::clock::ClockWatch;
use super::messages::{EtcdEvent, EtcdRequests};
use super::mirror::Mirror;
use crate::group::{author, shared, transactions};

/// The date of an answer counts as current if the answer took at most this many nanoseconds.
const QUICK: u64 = 1_000_000_000;

/// The body of a thread; runs until the server ends.
type Run = fn(&Engine, &Group, &Client);

/// Starts etcd's threads.
pub(super) fn start_store(engine: &Engine, group: &Arc<Group>) -> std::io::Result<()> {
    let runs: [(&str, Run); 3] =
        [("etcd-lease", keep_lease), ("etcd-records", keep_records), ("etcd-watch", watch)];
    for (name, run) in runs {
        let (group, client) = (Arc::clone(group), group.settings.etcd.clone());
        threads::spawn(engine, name, move |engine| run(engine, &group, &client))?;
    }
    Ok(())
}

/// Obtains a lease and keeps it alive.
fn keep_lease(_: &Engine, group: &Group, client: &Client) {
    let pause = Duration::from_millis(group.settings.lease_ms / 8);
    let (mut lease, mut clock) = (None, ClockWatch::default());
    let mut was_idle = false;
    while !group.leaving.lock().is_asked {
        let sent = boot_nanos();
        let outcome = match lease {
            None => client.grant(group.settings.lease_seconds()).map(|LeaseId(id)| Some(id)),
            Some(id) => client.keep_alive(LeaseId(id)).map(|left| left.map(|_| id)),
        };
        let received = boot_nanos();
        match outcome {
            Ok(Some(id)) => {
                lease = Some(id);
                // After a slow answer, or in a process that was stopped, the date says nothing.
                if received - sent < QUICK {
                    clock.note(client.seconds_ahead());
                }
                let is_idle = client.has_idle_user();
                if std::mem::replace(&mut was_idle, is_idle) != is_idle {
                    match is_idle {
                        true => {
                            log::warn!("etcd's authentication is off: etcd-user is not used until it is on")
                        }
                        false => log::info!("etcd's authentication is on: this server has logged in"),
                    }
                }
                group.tell(EtcdEvent::Lease { id, sent, received });
            }
            Ok(None) => {
                lease = None;
                group.tell(EtcdEvent::LeaseLost);
                // Request another one immediately.
                continue;
            }
            Err(error) => group.tell(EtcdEvent::Error(error.to_string())),
        }
        let mut leaving = group.leaving.lock();
        group.has_left.wait_while_for(&mut leaving, |leaving| !leaving.is_asked, pause);
    }
    if let Some(id) = lease
        && let Err(error) = client.revoke(LeaseId(id))
    {
        log::warn!("Cannot revoke the lease in etcd: {error}");
    }
    group.leaving.lock().is_done = true;
    group.has_left.notify_all();
}

/// Reads the records, and changes them as ordered.
fn keep_records(engine: &Engine, group: &Group, client: &Client) {
    let pause = Duration::from_millis(group.settings.lease_ms / 4);
    let (mut was_strange, mut mirror) = (String::new(), Mirror::default());
    // Number of idle turns that relied on the watch alone, and whether the records must be read.
    let (mut looks, mut must_read) = (0, true);
    let mut is_unsaid = false;
    while !engine.shutdown.is_requested() {
        let requests = {
            let mut requests = group.etcd_requests.lock();
            if !requests.has_some() {
                group.has_etcd_requests.wait_for(&mut requests, pause);
            }
            requests.take()
        };
        let is_idle = !requests.has_some();
        must_read |= requests.reads || requests.transaction.is_some() || !requests.is_watched;
        if let Some((keys, transaction)) = requests.transaction {
            let outcome = transact(&keys, client, &transaction);
            group.tell(EtcdEvent::Transacted(keys, transaction, outcome));
        }
        let (name, keys) = (&group.settings.node, group.keys());
        let put = |key: String, value: String, lease| {
            client.put(key.as_bytes(), value.as_bytes(), Some(LeaseId(lease)))
        };
        let node = requests.node.map(|(node, lease)| put(keys.node(name), node.to_json(), lease));
        let offer = requests.offer.map(|(keys, offer, lease)| put(keys.offer(name), offer.to_json(), lease));
        for outcome in [node, offer].into_iter().flatten() {
            // It is retried immediately, and logged once.
            if let Err(error) = &outcome
                && !is_unsaid
            {
                log::warn!("Cannot publish this server's address in etcd: {error}");
            }
            is_unsaid = outcome.is_err();
        }
        let mut has_changed = mirror.apply(&requests.events);
        if is_idle && !must_read {
            looks += 1;
            // Once per lease time.
            if looks % 4 == 0 {
                match mirror.is_current(&keys, client) {
                    Ok(is_current) => must_read = !is_current,
                    Err(error) => {
                        group.tell(EtcdEvent::Error(error));
                        continue;
                    }
                }
                group.tell(EtcdEvent::Error(String::new()));
            }
        }
        if must_read {
            match Mirror::read(&keys, client) {
                Ok(read) => (mirror, must_read, has_changed) = (read, false, true),
                Err(error) => {
                    group.tell(EtcdEvent::Error(error));
                    // A thread that requests a read meanwhile has heard from etcd.
                    let mut requests = group.etcd_requests.lock();
                    group.has_etcd_requests.wait_while_for(
                        &mut requests,
                        |requests| !requests.reads,
                        pause / 4,
                    );
                    continue;
                }
            }
        }
        if has_changed && let Some(map) = tell_records(engine, group, &keys, &mirror, &mut was_strange) {
            // The change may have been refused, or its outcome is unknown.
            must_read |= raise_epoch(engine, client, &keys, &map);
        }
    }
}

/// Raises the epoch of this server's shard if this server has become the primary. False if there
/// is nothing to do.
fn raise_epoch(engine: &Engine, client: &Client, keys: &Keys, map: &Map) -> bool {
    // Records older than those known to this node are left unchanged.
    let is_older = engine.cluster_view().is_none_or(|view| map.epoch < view.map.epoch);
    let Some(me) = author::as_author(engine).filter(|_| !is_older) else { return false };
    let change = Operator { map, keys, me: &me }.take_lead();
    if change.writes.is_empty() {
        return false;
    }
    // If etcd cannot be used, other calls log that.
    let outcome = transactions::commit(client, &change);
    log::debug!("Raising the epoch of this node's shard, which it leads: {outcome:?}");
    true
}

/// Passes the records to the group's thread, and applies those that hold for the whole cluster.
/// Returns the map of the cluster, if there is one.
fn tell_records(
    engine: &Engine,
    group: &Group,
    keys: &Arc<Keys>,
    mirror: &Mirror,
    was_strange: &mut String,
) -> Option<Arc<Map>> {
    let (snapshot, map) = match mirror.parts(group, keys) {
        Ok((snapshot, map, strange)) => {
            if strange != *was_strange {
                log::warn!("etcd has invalid records of the group: {strange}");
                *was_strange = strange;
            }
            (snapshot, map.map(Arc::new))
        }
        Err(error) => {
            group.tell(EtcdEvent::Error(error));
            return None;
        }
    };
    if group.settings.is_cluster {
        let (records, revision) = mirror.shared(keys);
        // Before this node serves anything by the map.
        if group.shared.note(records, revision) {
            shared::apply_shared(engine, group);
        }
    }
    group.tell(EtcdEvent::Records(Arc::clone(keys), Arc::new(snapshot), map.clone()));
    group.tell(EtcdEvent::Error(String::new()));
    map
}

/// Sends a transaction.
fn transact(keys: &Keys, client: &Client, transaction: &Transaction) -> Outcome {
    let mut compares = Vec::from_iter(transactions::compare(keys.shard(), transaction.expected));
    if transaction.needs_no_holder {
        compares.extend(transactions::compare(keys.holder(), Expected::Absent));
    }
    let mut operations = Vec::new();
    if let Some(shard) = &transaction.shard {
        operations.push(Operation::Put {
            key: keys.shard().into(),
            value: shard.to_json().into(),
            lease: None,
        });
    }
    match &transaction.holder {
        HolderChange::Keep => {}
        HolderChange::Take(holder) => operations.push(Operation::Put {
            key: keys.holder().into(),
            value: holder.to_json().into(),
            lease: Some(LeaseId(holder.lease)),
        }),
        HolderChange::Release => operations.push(Operation::Delete { key: keys.holder().into() }),
    }
    let sent = braid_etcd::Transaction { compares, then: operations, otherwise: Vec::new() };
    match client.transaction(&sent) {
        Ok(outcome) if outcome.succeeded => Outcome::Committed(outcome.revision.unsigned_abs()),
        Ok(_) => Outcome::Refused,
        Err(error) => {
            log::warn!("Transaction {}: {error}", super::describe(transaction));
            match error {
                Error::Unreachable(_) => Outcome::NotSent,
                // The lease may have ended meanwhile, for example.
                Error::Refused(_) | Error::LeaseGone | Error::Compacted { .. } => Outcome::Refused,
                Error::Unknown(_) | Error::Invalid(_) => Outcome::Unknown,
            }
        }
    }
}

/// Watches the records and passes on their changes.
fn watch(engine: &Engine, group: &Group, client: &Client) {
    let pause = Duration::from_secs(1);
    let tell = |note: &dyn Fn(&mut EtcdRequests)| {
        note(&mut group.etcd_requests.lock());
        group.has_etcd_requests.notify_one();
    };
    while !engine.shutdown.is_requested() {
        let ended = client.watch_prefix(group.keys().prefix().as_bytes(), 0, pause).and_then(|mut watch| {
            // Changes from before the watch began must be read.
            tell(&|requests| {
                (requests.events, requests.reads, requests.is_watched) = (Vec::new(), true, true)
            });
            while !engine.shutdown.is_requested() {
                if let Some(batch) = watch.wait()?.filter(|batch| !batch.events.is_empty()) {
                    tell(&|requests| requests.events.extend_from_slice(&batch.events));
                }
            }
            Ok(())
        });
        tell(&|requests| requests.is_watched = false);
        if ended.is_err() {
            std::thread::sleep(pause / 4);
        }
    }
}
