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
use braid_replication::failover::{FailoverPhase, FailoverRequest};
use braid_replication::link::Primary;
use braid_replication::{Replica, Stage};

use crate::engine::Engine;
use crate::group::Group;

/// Interval of checking whether a replica has caught up.
const LOOK: Duration = Duration::from_millis(1);
/// Interval of asking replicas for their offsets, in ms.
const ASK_MS: i64 = 10;
/// How long replicas that were in sync have to acknowledge the last changes, in ms.
const SOON_MS: i64 = 500;
/// How many lease times etcd has to confirm a change of the primary.
const HANDOVER_LEASES: u64 = 2;

impl Engine {
    /// Begins a failover on a thread of its own. An error says why it cannot begin.
    pub fn begin_failover(&self, world: &World<'_>, request: FailoverRequest) -> Result<(), &'static str> {
        let failover = &self.replication.failover;
        let number = failover.begin().ok_or("ERR FAILOVER already in progress.")?;
        match &request.target {
            Some(target) => log::info!("FAILOVER requested to {target}."),
            None => log::info!("FAILOVER requested."),
        }
        self.clients.pause.begin(&self.attention, Purpose::Failover, self.pauses(), i64::MAX, unix_ms());
        let engine = self.this.clone();
        let thread = std::thread::Builder::new().name("failover".into()).spawn(move || {
            if let Some(engine) = engine.upgrade() {
                engine.wait_and_fail_over(number, &request);
            }
        });
        if thread.is_err() {
            self.end_failover_in(world, "cannot start a thread");
            return Err("ERR FAILOVER could not start a thread");
        }
        Ok(())
    }

    fn wait_and_fail_over(&self, number: u64, request: &FailoverRequest) {
        let failover = &self.replication.failover;
        let until_ms =
            if request.timeout_ms > 0 { unix_ms().saturating_add(request.timeout_ms) } else { i64::MAX };
        // Commands that ran before writes were held back are in the journal once the epoch has
        // changed twice.
        let gate = &self.keyspace.gate;
        let begin = gate.epoch();
        while gate.try_advance() < begin + 2 && failover.waits(number) && unix_ms() < until_ms {
            failover.rest(number, LOOK);
        }
        let mut ask_at_ms = 0;
        loop {
            if !failover.waits(number) {
                return;
            }
            let target = self.failover_target(request);
            if let Some(target) = target.filter(|target| target.has(self.keyspace.journal.end())) {
                let address = Primary { host: target.ip(), port: target.options.port };
                log::info!("Failover target {address} is synced, failing over.");
                return self.fail_over(number, address, Some(&target));
            }
            let now_ms = unix_ms();
            if now_ms >= until_ms {
                match &request.target {
                    Some(target) if request.force => {
                        log::info!("Failover to {target} time out exceeded, failing over.");
                        return self.fail_over(number, target.clone(), None);
                    }
                    _ => return self.end_failover("Replica never caught up before timeout"),
                }
            }
            if now_ms >= ask_at_ms {
                ask_at_ms = now_ms + ASK_MS;
                let mut worker = self.worker(0);
                let _world = gate.close(None);
                self.ask_replicas(&mut worker.context);
            }
            failover.rest(number, LOOK);
        }
    }

    /// Lets a replica that has everything take over before this server shuts down. Returns when
    /// it has taken over, when there is none, or at `until_ms` (ms since the Unix epoch) at the
    /// latest. The calling thread is outside of the gate.
    pub(crate) fn fail_over_before_exit(&self, until_ms: i64, goes_on: impl Fn() -> bool) {
        let failover = &self.replication.failover;
        let Some(number) = failover.begin() else {
            log::warn!("No failover before the shutdown: one is already in progress.");
            return;
        };
        log::info!("FAILOVER requested by the shutdown.");
        self.clients.pause.begin(&self.attention, Purpose::Failover, self.pauses(), i64::MAX, unix_ms());
        let is_in_time = || unix_ms() < until_ms && goes_on();
        // As in `wait_and_fail_over`.
        let gate = &self.keyspace.gate;
        let begin = gate.epoch();
        while gate.try_advance() < begin + 2 && failover.waits(number) && is_in_time() {
            failover.rest(number, LOOK);
        }
        let target = || {
            let end = self.keyspace.journal.end();
            self.failover_target(&FailoverRequest::default()).filter(|target| target.has(end))
        };
        // Replicas have had their time to catch up: this is for the last changes, such as a
        // heartbeat.
        let soon_ms = unix_ms().saturating_add(SOON_MS);
        let mut found = target();
        while found.is_none() && failover.waits(number) && unix_ms() < soon_ms && is_in_time() {
            let mut worker = self.worker(0);
            let world = gate.close(None);
            self.ask_replicas(&mut worker.context);
            drop(world);
            std::thread::sleep(LOOK * 10);
            found = target();
        }
        let Some(target) = found else {
            return self.end_failover("no replica has caught up");
        };
        let address = Primary { host: target.ip(), port: target.options.port };
        log::info!("Failover target {address} is synced, failing over.");
        self.fail_over(number, address, Some(&target));
        while failover.phase() == FailoverPhase::InProgress && is_in_time() {
            std::thread::sleep(LOOK);
        }
        self.end_failover("the replica did not take over in time");
        // A group's new primary may not know yet that it is one, and this server's clients go there
        // next.
        while self.group.is_some() && self.waits_for_new_primary() && is_in_time() {
            std::thread::sleep(LOOK);
        }
    }

    /// True if this server is a replica whose primary has not agreed to send its stream: it may
    /// not know yet that it is the primary.
    pub(crate) fn waits_for_new_primary(&self) -> bool {
        let link = &self.replication.link;
        link.is_replica() && !link.is_accepted()
    }

    /// The replica that should take over, if it is online.
    fn failover_target(&self, request: &FailoverRequest) -> Option<Arc<Replica>> {
        let mut replicas = self.replication.replicas();
        replicas.retain(|replica| {
            let is_online = replica.stage() == Stage::Online && !replica.options.rdb_only;
            is_online && self.group.as_ref().is_none_or(|group| group.may_succeed(replica))
        });
        match &request.target {
            Some(target) => replicas.into_iter().find(|replica| is_at(replica, target)),
            None => {
                let end = self.keyspace.journal.end();
                let may =
                    |replica: &Replica| self.group.as_ref().is_none_or(|group| group.may_choose(replica));
                replicas.into_iter().find(|replica| may(replica) && replica.has(end))
            }
        }
    }

    /// The replica at an address, in any stage.
    pub fn replica_at(&self, address: &Primary) -> Option<Arc<Replica>> {
        self.replication.replicas().into_iter().find(|replica| is_at(replica, address))
    }

    /// In a group nothing is served while the primary changes, so reads wait, too.
    fn pauses(&self) -> PauseMode {
        if self.group.is_some() { PauseMode::Data } else { PauseMode::Write }
    }

    fn fail_over(&self, number: u64, target: Primary, replica: Option<&Replica>) {
        if let Some(group) = &self.group {
            return self.fail_over_in_group(group, number, replica);
        }
        let world = self.keyspace.gate.close(None);
        if self.replication.failover.proceed(number) {
            self.become_replica(&world, target);
        }
    }

    /// Makes the group change its primary, and waits for that.
    fn fail_over_in_group(&self, group: &Group, number: u64, replica: Option<&Replica>) {
        let Some((to, _)) = replica.and_then(|replica| replica.options.member.as_ref()) else {
            return self.end_failover("the replica is not a member of the group");
        };
        let failover = &self.replication.failover;
        if !failover.proceed(number) {
            return;
        }
        group.ask_handover(to.clone());
        let until = boot_nanos() + HANDOVER_LEASES * group.lease_nanos();
        while !self.replication.link.is_replica() && boot_nanos() < until {
            std::thread::sleep(LOOK);
        }
        if self.replication.link.is_replica() {
            self.note_failover_done();
        } else {
            self.end_failover("etcd did not confirm it in time");
        }
    }

    /// Records that the replica has taken over.
    pub(super) fn note_failover_done(&self) {
        if self.replication.failover.end() != FailoverPhase::None {
            log::info!("Failover complete.");
            self.clients.pause.end(&self.attention, &self.clients.mailboxes, Purpose::Failover);
        }
    }

    /// Aborts the failover, if there is one: this server remains the primary. The calling thread
    /// is outside of the gate.
    pub fn end_failover(&self, why: &str) {
        let world = self.keyspace.gate.close(None);
        self.end_failover_in(&world, why);
    }

    /// As [`Engine::end_failover`]; false if there was none.
    pub fn end_failover_in(&self, world: &World<'_>, why: &str) -> bool {
        let phase = self.replication.failover.end();
        if phase == FailoverPhase::None {
            return false;
        }
        log::info!("Aborting a failover: {why}");
        if phase == FailoverPhase::InProgress && self.group.is_none() {
            self.become_primary(world);
        }
        self.clients.pause.end(&self.attention, &self.clients.mailboxes, Purpose::Failover);
        true
    }
}

fn is_at(replica: &Replica, address: &Primary) -> bool {
    replica.options.port == address.port && replica.ip() == address.host
}
