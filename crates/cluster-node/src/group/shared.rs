// SPDX-License-Identifier: BSD-3-Clause
//! Settings, roles, users and functions that apply to the whole cluster
//! ([`braid_group::cluster::shared`]), as this node applies them: at startup before it serves any
//! request, and whenever a record changes.
//!
//! A record is applied once. A later change made at this node alone stays until the record
//! changes or the node restarts. Functions are part of the dataset, so only a primary loads them,
//! and a new primary loads them again.
//!
//! A record that cannot be applied is reported in the log and in INFO, and does not block others.

use std::sync::Arc;
use std::time::{Duration, Instant};

use braid_acl::DEFAULT_USER;
use braid_base::clock::unix_ms;
use braid_config::Origin;
use braid_executor::dispatch::replay::{Replay, Source};
use braid_executor::engine::{Engine, access};
use braid_executor::world;
use braid_executor::world_change;
use braid_group::cluster::shared::{self, SharedKind, SharedValue};
use braid_group::record::Versioned;

use super::Group;
use super::changes::ChangeError;
use super::shared_state::{Done, Name};
use crate::group::{self, changes, transactions};

/// How long a primary may take to notice that it has become one.
const LOOK: Duration = Duration::from_millis(500);

/// A record as operators see it.
pub struct SharedReport {
    pub kind: SharedKind,
    pub name: Arc<str>,
    pub value: SharedValue,
    pub revision: u64,
    /// Why this node does not apply it; empty if it does.
    pub error: String,
}

/// Applies new and changed records of the whole cluster.
pub(super) fn apply_shared(engine: &Engine, group: &Group) {
    let (leads, epoch) = {
        let view = group.view.lock();
        (view.is_primary, view.epoch)
    };
    let (records, revision) = group.shared.records.lock().clone();
    let mut done = group.shared.done.lock();
    done.0.retain(|name, _| records.contains_key(name));
    // A role is deleted after the users who held it have let go of it.
    let is_last = |(name, record): &(&Name, &Versioned<SharedValue>)| {
        name.0 == SharedKind::Role && record.value.is_none()
    };
    let first = records.iter().filter(|record| !is_last(record));
    for (name, record) in first.chain(records.iter().filter(is_last)) {
        let (kind, text) = (name.0, &*name.1);
        if kind == SharedKind::Library && !leads {
            done.0.remove(name);
            continue;
        }
        let is_done = |known: &Done| {
            known.revision == record.revision && (kind != SharedKind::Library || known.epoch == epoch)
        };
        if done.0.get(name).is_some_and(is_done) {
            continue;
        }
        let error = apply_one(engine, kind, text, record.value.as_deref()).err();
        match &error {
            None => log::info!("The {} {text} now follows the cluster's record", kind.name()),
            Some(why) => {
                log::warn!("The cluster's record of the {} {text} cannot be applied: {why}", kind.name());
            }
        }
        done.0.insert(name.clone(), Done { revision: record.revision, epoch, error });
    }
    done.1 = revision;
    group.shared.has_done.notify_all();
}

fn apply_one(engine: &Engine, kind: SharedKind, name: &str, value: Option<&str>) -> Result<(), String> {
    match (kind, value) {
        (SharedKind::Setting, Some(value)) => {
            engine.config.set_from(Origin::Local, &[(name, value)]).map(drop)
        }
        (SharedKind::Setting, None) => Ok(()),
        (SharedKind::Role, Some(rules)) => {
            let rules: Vec<&[u8]> = rules.split_ascii_whitespace().map(str::as_bytes).collect();
            let set = engine.acl.replace_role(access::acl_server(engine), name.as_bytes(), &rules);
            set.map_err(|error| String::from_utf8_lossy(&error.line()).into_owned())
        }
        (SharedKind::Role, None) => match engine.acl.delete_roles(&[name.as_bytes()]) {
            Ok(_) => Ok(()),
            Err(error) => Err(String::from_utf8_lossy(&error.line()).into_owned()),
        },
        (SharedKind::User, Some(rules)) => {
            let rules: Vec<&[u8]> = std::iter::once(&b"reset"[..])
                .chain(rules.split_ascii_whitespace().map(str::as_bytes))
                .collect();
            let set = engine.acl.set_user(access::acl_server(engine), name.as_bytes(), &rules);
            set.map_err(|error| String::from_utf8_lossy(&error.line()).into_owned())
        }
        (SharedKind::User, None) if name.as_bytes() == DEFAULT_USER => Ok(()),
        (SharedKind::User, None) => {
            // The deletion was not requested by a client of this server.
            engine.acl.delete_users(access::acl_server(engine), &[name.as_bytes()], u64::MAX);
            Ok(())
        }
        (SharedKind::Library, value) => apply_library(engine, name, value),
    }
}

/// Loads or deletes a library as a client would: replicas and files receive it as well.
fn apply_library(engine: &Engine, name: &str, code: Option<&str>) -> Result<(), String> {
    let libraries = engine.scripts.cache.libraries();
    let known = libraries.all().find(|library| library.name == name);
    let request: Vec<&[u8]> = match (known, code) {
        (None, None) => return Ok(()),
        (Some(known), Some(code)) if *known.code == *code.as_bytes() => return Ok(()),
        (_, Some(code)) => vec![b"FUNCTION", b"LOAD", b"REPLACE", code.as_bytes()],
        (Some(_), None) => vec![b"FUNCTION", b"DELETE", name.as_bytes()],
    };
    let world = world::stop(engine);
    let mut worker = engine.worker(0);
    world_change::change_in_world(engine, world, &mut worker, 0, unix_ms(), |txn| {
        let mut replay = Replay::new(engine, Source::File);
        replay.run(engine, txn, &request).map_err(|error| error.to_string())?;
        if replay.refused > 0 {
            return Err("the library cannot be loaded or deleted here".to_owned());
        }
        txn.journal_too(&request);
        txn.journal_now();
        Ok(())
    })
}

/// Applies records until the server ends.
pub(super) fn run(engine: &Engine, group: &Group) {
    while !engine.shutdown.is_requested() {
        let state = &group.shared;
        let known = state.done.lock().1;
        {
            let mut records = state.records.lock();
            if records.1 == known || records.1 == 0 {
                state.has_records.wait_for(&mut records, LOOK);
            }
        }
        if state.records.lock().1 > 0 {
            apply_shared(engine, group);
        }
    }
}

/// Writes values (`None`: deleted) for the whole cluster, and waits until this node applies
/// them. Blocks.
///
/// # Errors
/// A failure of etcd, or a value that cannot be applied here.
pub fn share_with_cluster(
    engine: &Engine,
    values: &[(SharedKind, String, Option<String>)],
) -> Result<(), ChangeError> {
    let group = group_of_cluster(engine)?;
    let revision = commit_shared(engine, group, &shared::put(&group.keys(), values))?;
    let state = &group.shared;
    let deadline = Instant::now() + group.settings.etcd_patience() * 4;
    let mut done = state.done.lock();
    while done.1 < revision {
        if state.has_done.wait_until(&mut done, deadline).timed_out() && done.1 < revision {
            return Err(ChangeError::Unseen);
        }
    }
    let error = |(kind, name, _): &(SharedKind, String, Option<String>)| {
        done.0.get(&(*kind, Arc::from(name.as_str())))?.error.clone()
    };
    match values.iter().find_map(error) {
        Some(error) => Err(ChangeError::NotHere(error)),
        None => Ok(()),
    }
}

/// Removes a record: nodes keep the applied value. False if there is no such record.
///
/// # Errors
/// A failure of etcd.
pub fn forget_shared(engine: &Engine, kind: SharedKind, name: &str) -> Result<bool, ChangeError> {
    let group = group_of_cluster(engine)?;
    let is_known = group.shared.records.lock().0.contains_key(&(kind, Arc::from(name)));
    if is_known {
        commit_shared(engine, group, &shared::forget(&group.keys(), kind, name))?;
    }
    Ok(is_known)
}

/// All records that apply to the whole cluster.
pub fn shared_reports(engine: &Engine) -> Vec<SharedReport> {
    let Some(group) = group::of(engine) else { return Vec::new() };
    let done = group.shared.done.lock();
    let (records, _) = group.shared.records.lock().clone();
    let report = |(name, record): (&Name, &Versioned<SharedValue>)| SharedReport {
        kind: name.0,
        name: Arc::clone(&name.1),
        value: record.value.clone(),
        revision: record.revision,
        error: done.0.get(name).and_then(|done| done.error.clone()).unwrap_or_default(),
    };
    records.iter().map(report).collect()
}

/// The number of records of the whole cluster, and the errors in applying them here; `None`
/// without a cluster of several nodes.
pub fn shared_figures(engine: &Engine) -> Option<(usize, Vec<String>)> {
    Some(group_of_cluster(engine).ok()?.shared.figures())
}

fn group_of_cluster(engine: &Engine) -> Result<&Group, ChangeError> {
    group::of(engine)
        .filter(|group| group.settings.is_cluster)
        .ok_or_else(|| ChangeError::Store("this server is not in a cluster of several nodes".into()))
}

fn commit_shared(
    engine: &Engine,
    group: &Group,
    change: &braid_group::cluster::Change,
) -> Result<u64, ChangeError> {
    let outcome = transactions::commit(&group.settings.etcd, change);
    let revision = outcome.map_err(|error| ChangeError::Store(error.to_string()))?;
    changes::read_records(engine);
    revision.ok_or(ChangeError::Busy)
}
