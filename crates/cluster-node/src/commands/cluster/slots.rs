// SPDX-License-Identifier: BSD-3-Clause
//! CLUSTER KEYSLOT, COUNTKEYSINSLOT and GETKEYSINSLOT. Each slot has its own tables
//! (`braid_keyspace`), so none of these commands visits keys of other slots.

use braid_base::crc::{HASH_SLOTS, key_hash_slot};
use braid_executor::Call;
use braid_keyspace::scan;
use braid_spec::{CommandError, CommandResult};

use super::node_of;

pub(super) fn key_slot(call: &mut Call) -> CommandResult {
    node_of(call)?;
    call.reply.integer(i64::from(key_hash_slot(call.args[2])));
    Ok(())
}

pub(super) fn as_slot(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|&slot| slot < HASH_SLOTS)
}

pub(super) fn count_keys(call: &mut Call) -> CommandResult {
    node_of(call)?;
    let slot = as_slot(call.integer_arg(2)?).ok_or(CommandError::text("ERR Invalid slot"))?;
    let keyspace = &call.engine.keyspace;
    let is_hidden = keyspace.is_hidden(u32::from(slot));
    let count = if is_hidden { 0 } else { keyspace.slot_len(slot, call.keyspace.db()) };
    call.reply.integer(count as i64);
    Ok(())
}

pub(super) fn get_keys(call: &mut Call) -> CommandResult {
    node_of(call)?;
    let (slot, most) = (call.integer_arg(2)?, call.integer_arg(3)?);
    let (Some(slot), Ok(most)) = (as_slot(slot), usize::try_from(most)) else {
        return Err(CommandError::text("ERR Invalid slot or number of keys"));
    };
    debug_assert!(call.keyspace.may_walk());
    let (reply, mut count) = (&mut *call.reply, 0);
    let header = reply.begin_array();
    let keyspace = &call.engine.keyspace;
    let most = if keyspace.is_hidden(u32::from(slot)) { 0 } else { most };
    scan::visit_slot(keyspace, slot, call.keyspace.db(), most, |entry| {
        reply.bulk(entry.key());
        count += 1;
    });
    reply.end_array(header, count);
    Ok(())
}
