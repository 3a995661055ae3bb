// SPDX-License-Identifier: BSD-3-Clause
//! Holds back commands that reach slots being handed over (`dispatch/checks.rs`): some slots to
//! another shard, or all of this server's shard to another primary. Slows down writes that are too
//! fast for a move.

use std::sync::atomic::Ordering::SeqCst;

use braid_base::clock::boot_nanos;
use braid_clients::Message;
use braid_clients::attention::HELD_SLOTS;
use braid_executor::engine::Engine;
use braid_executor::state::slot_moves::Move;
use braid_executor::state::slowed_slots::Reach;
use braid_executor::world;
use braid_group::cluster::SlotSet;

/// Commands that reach these slots wait while this exists.
pub(super) struct Hold<'e> {
    engine: &'e Engine,
    slots: &'e SlotSet,
}

impl<'e> Hold<'e> {
    /// All commands admitted before have ended when this returns.
    pub(super) fn new(engine: &'e Engine, slots: &'e SlotSet) -> Hold<'e> {
        {
            // Under the lock: another hold that ends must not clear the attention bit.
            let _readers = engine.slot_moves.readers.lock();
            engine.slot_moves.set_held(slots, true);
            engine.attention.set(HELD_SLOTS, true);
        }
        world::wait_for_commands(engine);
        Hold { engine, slots }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let moves = &self.engine.slot_moves;
        {
            let _readers = moves.readers.lock();
            moves.set_held(self.slots, false);
            self.engine.attention.set(HELD_SLOTS, moves.holds_any());
        }
        self.engine.clients.mailboxes.tell_all(|| Message::Resume);
    }
}

/// Makes these writes, and no others, wait for a move.
pub(super) fn slow_writes(engine: &Engine, job: &Move, reach: Reach) {
    let slots = || match reach {
        Reach::All => engine.cluster_view().map_or_else(SlotSet::default, |view| view.owned()),
        Reach::Moving | Reach::Nothing => job.slots.clone(),
    };
    set_slowed(engine, &job.name, reach, slots);
}

/// No writes wait for a move any longer.
pub(super) fn let_writes_go(engine: &Engine, name: &str) {
    set_slowed(engine, name, Reach::Nothing, SlotSet::default);
}

fn set_slowed(engine: &Engine, name: &str, reach: Reach, slots: impl FnOnce() -> SlotSet) {
    let moves = &engine.slot_moves;
    let before = {
        // As for a hold: one that ends must not clear the attention bit.
        let _readers = moves.readers.lock();
        let before = moves.slowed.set(name, reach, slots);
        if before != reach {
            engine.attention.set(HELD_SLOTS, moves.holds_any());
        }
        before
    };
    if reach < before {
        engine.clients.mailboxes.tell_all(|| Message::Resume);
    }
}

/// Makes commands for keys wait while the map and this server's role briefly disagree: a
/// client would be refused, or redirected back and forth. At most for `nanos` nanoseconds.
pub(crate) fn hold_all_until_decided(engine: &Engine, nanos: u64) {
    let moves = &engine.slot_moves;
    let _readers = moves.readers.lock();
    moves.holds_all_until.store(boot_nanos() + nanos, SeqCst);
    engine.attention.set(HELD_SLOTS, true);
}

/// Ends [`hold_all_until_decided`] once they agree, or if that takes too long.
pub(crate) fn release_expired_hold(engine: &Engine, is_decided: impl FnOnce() -> bool) {
    let moves = &engine.slot_moves;
    let until = moves.holds_all_until.load(SeqCst);
    if until == 0 || boot_nanos() < until && !is_decided() {
        return;
    }
    {
        let _readers = moves.readers.lock();
        moves.holds_all_until.store(0, SeqCst);
        engine.attention.set(HELD_SLOTS, moves.holds_any());
    }
    engine.clients.mailboxes.tell_all(|| Message::Resume);
}
