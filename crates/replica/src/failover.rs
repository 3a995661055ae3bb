// SPDX-License-Identifier: BSD-3-Clause
//! FAILOVER: a replica takes this primary's place without data loss.
//!
//! Writes are held back until a replica has everything; then this server becomes its replica, and
//! asks it by `PSYNC ... FAILOVER` to take over. When it has, the held writes continue, and are
//! refused as on any replica.
//!
//! Source: Redis documentation, "FAILOVER".

use std::sync::Arc;
use std::time::Duration;

use braid_base::clock::{boot_nanos, unix_ms};
use braid_base::gate::World;
use braid_clients::pause::{PauseMode, Purpose};
use braid_executor::engine::Engine;
use braid_executor::services::Membership;
use braid_executor::world;
use braid_executor::{tell_replicas, threads};
use braid_replication::failover::{FailoverPhase, FailoverRequest};
use braid_replication::link::Primary;
use braid_replication::{Replica, Stage};

use crate::{become_replica, end_failover};

/// Interval of checking whether a replica has caught up.
const LOOK: Duration = Duration::from_millis(1);
/// Interval of asking replicas for their offsets, in ms.
const ASK_MS: i64 = 10;
/// How long replicas that were in sync have to acknowledge the last changes, in ms.
const SOON_MS: i64 = 500;
/// How many lease times etcd has to confirm a change of the primary.
const HANDOVER_LEASES: u64 = 2;

/// Begins a failover on a thread of its own.
///
/// # Errors
/// Why it cannot begin: another one is in progress, or the thread cannot be started.
pub fn begin_failover(
    engine: &Engine,
    world: &World<'_>,
    request: FailoverRequest,
) -> Result<(), &'static str> {
    let failover = &engine.replication.failover;
    let number = failover.begin().ok_or("ERR FAILOVER already in progress.")?;
    match &request.target {
        Some(target) => log::info!("FAILOVER requested to {target}."),
        None => log::info!("FAILOVER requested."),
    }
    engine.clients.pause.begin(&engine.attention, Purpose::Failover, pauses(engine), i64::MAX, unix_ms());
    let run = move |engine: &Arc<Engine>| wait_and_fail_over(engine, number, &request);
    let thread = threads::spawn(engine, "failover", run);
    if thread.is_err() {
        end_failover::end_failover_in(engine, world, "cannot start a thread");
        return Err("ERR FAILOVER could not start a thread");
    }
    Ok(())
}

fn wait_and_fail_over(engine: &Engine, number: u64, request: &FailoverRequest) {
    let failover = &engine.replication.failover;
    let until_ms =
        if request.timeout_ms > 0 { unix_ms().saturating_add(request.timeout_ms) } else { i64::MAX };
    // Commands that ran before writes were held back are in the journal once the epoch has
    // changed twice.
    let gate = &engine.keyspace.gate;
    let begin = gate.epoch();
    while gate.try_advance() < begin + 2 && failover.waits(number) && unix_ms() < until_ms {
        failover.rest(number, LOOK);
    }
    let mut ask_at_ms = 0;
    loop {
        if !failover.waits(number) {
            return;
        }
        let target = failover_target(engine, request);
        if let Some(target) = target.filter(|target| target.has(engine.keyspace.journal.end())) {
            let address = Primary { host: target.ip(), port: target.options.port };
            log::info!("Failover target {address} is synced, failing over.");
            return fail_over(engine, number, address, Some(&target));
        }
        let now_ms = unix_ms();
        if now_ms >= until_ms {
            match &request.target {
                Some(target) if request.force => {
                    log::info!("Failover to {target} time out exceeded, failing over.");
                    return fail_over(engine, number, target.clone(), None);
                }
                _ => return end_failover::end_failover(engine, "Replica never caught up before timeout"),
            }
        }
        if now_ms >= ask_at_ms {
            ask_at_ms = now_ms + ASK_MS;
            let mut worker = engine.worker(0);
            let _world = world::stop(engine);
            tell_replicas::ask_replicas(engine, &mut worker.context);
        }
        failover.rest(number, LOOK);
    }
}

/// Lets a replica that has everything take over before this server shuts down. Returns when
/// it has taken over, when there is none, or at `until_ms` (ms since the Unix epoch) at the
/// latest. The calling thread is outside of the gate.
pub fn fail_over_before_exit(engine: &Engine, until_ms: i64, goes_on: impl Fn() -> bool) {
    let failover = &engine.replication.failover;
    let Some(number) = failover.begin() else {
        log::warn!("No failover before the shutdown: one is already in progress.");
        return;
    };
    log::info!("FAILOVER requested by the shutdown.");
    engine.clients.pause.begin(&engine.attention, Purpose::Failover, pauses(engine), i64::MAX, unix_ms());
    let is_in_time = || unix_ms() < until_ms && goes_on();
    // As in `wait_and_fail_over`.
    let gate = &engine.keyspace.gate;
    let begin = gate.epoch();
    while gate.try_advance() < begin + 2 && failover.waits(number) && is_in_time() {
        failover.rest(number, LOOK);
    }
    let target = || {
        let end = engine.keyspace.journal.end();
        failover_target(engine, &FailoverRequest::default()).filter(|target| target.has(end))
    };
    // Replicas have had their time to catch up: this is for the last changes, such as a
    // heartbeat.
    let soon_ms = unix_ms().saturating_add(SOON_MS);
    let mut found = target();
    while found.is_none() && failover.waits(number) && unix_ms() < soon_ms && is_in_time() {
        let mut worker = engine.worker(0);
        let world = world::stop(engine);
        tell_replicas::ask_replicas(engine, &mut worker.context);
        drop(world);
        std::thread::sleep(LOOK * 10);
        found = target();
    }
    let Some(target) = found else {
        return end_failover::end_failover(engine, "no replica has caught up");
    };
    let address = Primary { host: target.ip(), port: target.options.port };
    log::info!("Failover target {address} is synced, failing over.");
    fail_over(engine, number, address, Some(&target));
    while failover.phase() == FailoverPhase::InProgress && is_in_time() {
        std::thread::sleep(LOOK);
    }
    end_failover::end_failover(engine, "the replica did not take over in time");
    // A group's new primary may not know yet that it is one, and this server's clients go there
    // next.
    while engine.group.is_some() && waits_for_new_primary(engine) && is_in_time() {
        std::thread::sleep(LOOK);
    }
}

/// True if this server is a replica whose primary has not agreed to send its stream: it may
/// not know yet that it is the primary.
pub fn waits_for_new_primary(engine: &Engine) -> bool {
    let link = &engine.replication.link;
    link.is_replica() && !link.is_accepted()
}

/// The replica that should take over, if it is online.
fn failover_target(engine: &Engine, request: &FailoverRequest) -> Option<Arc<Replica>> {
    let mut replicas = engine.replication.replicas();
    replicas.retain(|replica| {
        let is_online = replica.stage() == Stage::Online && !replica.options.rdb_only;
        is_online && engine.group.as_ref().is_none_or(|group| group.may_succeed(replica))
    });
    match &request.target {
        Some(target) => replicas.into_iter().find(|replica| is_at(replica, target)),
        None => {
            let end = engine.keyspace.journal.end();
            let may = |replica: &Replica| engine.group.as_ref().is_none_or(|group| group.may_choose(replica));
            replicas.into_iter().find(|replica| may(replica) && replica.has(end))
        }
    }
}

/// The replica at an address, in any stage.
pub fn replica_at(engine: &Engine, address: &Primary) -> Option<Arc<Replica>> {
    engine.replication.replicas().into_iter().find(|replica| is_at(replica, address))
}

/// In a group nothing is served while the primary changes, so reads wait, too.
fn pauses(engine: &Engine) -> PauseMode {
    if engine.group.is_some() { PauseMode::Data } else { PauseMode::Write }
}

fn fail_over(engine: &Engine, number: u64, target: Primary, replica: Option<&Replica>) {
    if let Some(group) = &engine.group {
        return fail_over_in_group(engine, &**group, number, replica);
    }
    let world = world::stop(engine);
    if engine.replication.failover.proceed(number) {
        become_replica::become_replica(engine, &world, target);
    }
}

/// Makes the group change its primary, and waits for that.
fn fail_over_in_group(engine: &Engine, group: &dyn Membership, number: u64, replica: Option<&Replica>) {
    let Some((to, _)) = replica.and_then(|replica| replica.options.member.as_ref()) else {
        return end_failover::end_failover(engine, "the replica is not a member of the group");
    };
    let failover = &engine.replication.failover;
    if !failover.proceed(number) {
        return;
    }
    group.ask_handover(to.clone());
    let until = boot_nanos() + HANDOVER_LEASES * group.lease_nanos();
    while !engine.replication.link.is_replica() && boot_nanos() < until {
        std::thread::sleep(LOOK);
    }
    if engine.replication.link.is_replica() {
        end_failover::note_failover_done(engine);
    } else {
        end_failover::end_failover(engine, "etcd did not confirm it in time");
    }
}

fn is_at(replica: &Replica, address: &Primary) -> bool {
    replica.options.port == address.port && replica.ip() == address.host
}
