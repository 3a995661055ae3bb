// SPDX-License-Identifier: BSD-3-Clause
//! The end of a failover, completed or not.

use braid_base::gate::World;
use braid_clients::pause::Purpose;
use braid_executor::Engine;
use braid_executor::world;
use braid_replication::failover::FailoverPhase;

use crate::role;

/// Records that the replica has taken over.
pub fn note_failover_done(engine: &Engine) {
    if engine.replication.failover.end() != FailoverPhase::None {
        log::info!("Failover complete.");
        engine.clients.pause.end(&engine.attention, &engine.clients.mailboxes, Purpose::Failover);
    }
}

/// Aborts the failover, if there is one: this server remains the primary. The calling thread
/// is outside of the gate.
pub fn end_failover(engine: &Engine, why: &str) {
    let world = world::stop(engine);
    end_failover_in(engine, &world, why);
}

/// As [`end_failover`]; false if there was none.
pub fn end_failover_in(engine: &Engine, world: &World<'_>, why: &str) -> bool {
    let phase = engine.replication.failover.end();
    if phase == FailoverPhase::None {
        return false;
    }
    log::info!("Aborting a failover: {why}");
    if phase == FailoverPhase::InProgress && engine.group.is_none() {
        role::become_primary(engine, world);
    }
    engine.clients.pause.end(&engine.attention, &engine.clients.mailboxes, Purpose::Failover);
    true
}
