// SPDX-License-Identifier: BSD-3-Clause
//! Becoming the replica of another server: the role changes, and the link starts.

use braid_base::gate::World;
use braid_clients::attention::FORMER_PRIMARY;
use braid_executor::Engine;
use braid_replication::failover::FailoverPhase;
use braid_replication::link::Primary;

use crate::{end_failover, link, role, sync_writes};

/// Becomes the replica of `primary`, or of another primary than before (REPLICAOF). This
/// server's history is kept: if the primary knows it, the stream continues from there.
pub fn become_replica(engine: &Engine, world: &World<'_>, primary: Primary) {
    let link = &engine.replication.link;
    let was_primary = !link.is_replica();
    // A failover would hold back clients and the new primary's stream forever.
    match engine.replication.failover.phase() {
        FailoverPhase::WaitingForSync if was_primary => {
            end_failover::end_failover_in(engine, world, "another server has become the primary");
        }
        // A group's handover waits for this: it is complete when the role changes.
        FailoverPhase::InProgress if was_primary && sync_writes::has_group(engine) => {
            end_failover::note_failover_done(engine)
        }
        _ => {}
    }
    role::note_in_config(engine, &[&primary.host, &primary.port.to_string()]);
    // Replicas stay attached: if the stream continues they need not know.
    link.set_primary(Some(primary));
    if was_primary {
        if sync_writes::has_group(engine) {
            engine.replication.in_sync.clear();
        }
        // A cluster node redirects its clients to the new primary, and continues to do so.
        if sync_writes::has_group(engine) && engine.cluster.is_none() {
            engine.sync_writes.demoted.begin(engine.clients.registry.last_id());
            engine.attention.set(FORMER_PRIMARY, true);
        }
        role::unblock_all(engine);
    }
    role::apply_role(engine);
    link::start_link(engine);
}
