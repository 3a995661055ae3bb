// SPDX-License-Identifier: BSD-3-Clause
//! Stopping the world: no other thread executes a command until the returned [`World`] is dropped.
//! Services and loops stop it here and nowhere else; commands say so in their rows
//! (`Scope::World`), for which the dispatcher does it (`locks.rs`).
//!
//! A thread that has a slot and may be inside of the gate passes its slot, or it would wait for
//! itself.

use braid_base::gate::World;

use crate::engine::Engine;

/// Stops the world for a thread that is outside of the gate. Waits for all batches to end.
pub fn stop(engine: &Engine) -> World<'_> {
    stop_from(engine, None)
}

/// Stops the world for a thread that owns `slot`, inside or outside of the gate.
pub fn stop_from(engine: &Engine, slot: Option<usize>) -> World<'_> {
    engine.keyspace.gate.stop_world(slot)
}

/// Stops the world for the thread that owns `slot`, unless a script has stopped it for long: the
/// thread is then outside of the gate.
pub fn stop_unless_busy(engine: &Engine, slot: usize) -> Option<World<'_>> {
    engine.keyspace.gate.stop_world_unless_busy(slot)
}

/// Waits until all commands that had begun before have ended. The calling thread is outside of the
/// gate.
pub fn wait_for_commands(engine: &Engine) {
    drop(stop(engine));
}
