// SPDX-License-Identifier: BSD-3-Clause
//! Cluster mode: the keys of a request must be of one slot. Clients rely on the error, since on a
//! cluster of several nodes those keys need not be on one of them.

use braid_base::crc::key_hash_slot;
use braid_keyspace::{KeyRef, Keyspace};
use braid_spec::{Command, CommandError, keys};

use super::is_exec;
use crate::engine::Engine;
use crate::session::Session;

/// The error for keys of several slots; Redis's text.
const CROSS_SLOT: &str = "CROSSSLOT Keys in request don't hash to the same slot";

/// The slot of keys that were looked at so far.
#[derive(Default)]
pub struct OneSlot(Option<u16>);

impl OneSlot {
    /// Adds a key or shard channel. False if its slot is another.
    pub fn accepts(&mut self, key: &[u8]) -> bool {
        let slot = key_hash_slot(key);
        *self.0.get_or_insert(slot) == slot
    }

    /// Adds all keys and shard channels of a request. False if a slot is another.
    pub fn accepts_all(&mut self, command: &Command, args: &[&[u8]]) -> bool {
        let found = keys::find_slotted(command.spec, args).unwrap_or_default();
        found.into_iter().all(|at| self.accepts(args[at.index]))
    }
}

/// Whether a lock set is of one slot, by the hashes that it has.
#[inline]
pub(super) fn are_of_one(keyspace: &Keyspace, keys: &[KeyRef<'_>]) -> bool {
    let slot = |key: &KeyRef<'_>| keyspace.slot_of(key.hash);
    keys.windows(2).all(|pair| slot(&pair[0]) == slot(&pair[1]))
}

/// Refuses a request whose keys are of several slots. Of EXEC, its commands together count.
#[cold]
pub(super) fn check(
    engine: &Engine,
    session: &Session,
    command: &Command,
    args: &[&[u8]],
) -> Result<(), CommandError> {
    let mut slot = OneSlot::default();
    let is_one = match &session.queue {
        // A broken transaction is refused for that.
        Some(queue) if is_exec(command) => {
            queue.broken
                || queue
                    .commands
                    .iter()
                    .all(|queued| slot.accepts_all(engine.commands.get(queued.command), &queued.args()))
        }
        _ => slot.accepts_all(command, args),
    };
    if is_one { Ok(()) } else { Err(CommandError::text(CROSS_SLOT)) }
}
