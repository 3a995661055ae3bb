// SPDX-License-Identifier: BSD-3-Clause
//! CLUSTER KEYSLOT, COUNTKEYSINSLOT, GETKEYSINSLOT and SLOT-STATS. Each slot has tables of its own
//! (`braid_keyspace`), so none of them looks at keys of other slots.

use braid_base::crc::{HASH_SLOTS, key_hash_slot};
use braid_engine::Call;
use braid_keyspace::scan;
use braid_spec::{CommandError, CommandResult};

use super::node_of;

pub(super) fn key_slot(call: &mut Call) -> CommandResult {
    node_of(call)?;
    call.reply.integer(i64::from(key_hash_slot(call.args[2])));
    Ok(())
}

fn as_slot(number: i64) -> Option<u16> {
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
    scan::visit_slot(&call.engine.keyspace, slot, call.keyspace.db(), most, |entry| {
        reply.bulk(entry.key());
        count += 1;
    });
    reply.end_array(header, count);
    Ok(())
}

/// Which slots SLOT-STATS is to tell of, and in which order.
#[derive(Debug, PartialEq, Eq)]
enum Filter {
    Range(u16, u16),
    ByKeyCount { limit: usize, ascending: bool },
}

impl Filter {
    fn parse(call: &Call) -> Result<Filter, CommandError> {
        if call.arg_is(2, "slotsrange") && call.args.len() == 5 {
            let slot = |index: usize| {
                let slot = call.integer_arg(index).ok().and_then(as_slot);
                slot.ok_or(CommandError::text("ERR Invalid or out of range slot"))
            };
            let (start, end) = (slot(3)?, slot(4)?);
            if start > end {
                return Err(CommandError::text(format!(
                    "ERR Start slot number {start} is greater than end slot number {end}"
                )));
            }
            return Ok(Filter::Range(start, end));
        }
        if !call.arg_is(2, "orderby") {
            return Err(call.unknown_subcommand());
        }
        if !call.arg_is(3, "key-count") {
            return Err(CommandError::text("ERR Unrecognized sort metric for ORDERBY."));
        }
        let (mut limit, mut ascending, mut index) = (None, None, 4);
        while index < call.args.len() {
            let repeated = if call.arg_is(index, "limit") && index + 1 < call.args.len() {
                index += 1;
                let most = i64::from(HASH_SLOTS);
                let given = call.integer_arg(index).ok().filter(|given| (1..=most).contains(given));
                let given = given.ok_or(CommandError::text(
                    "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).",
                ))?;
                limit.replace(given as usize).is_some()
            } else if call.arg_is(index, "asc") || call.arg_is(index, "desc") {
                ascending.replace(call.arg_is(index, "asc")).is_some()
            } else {
                return Err(CommandError::Syntax);
            };
            if repeated {
                return Err(CommandError::text("ERR Multiple filters of the same type are disallowed."));
            }
            index += 1;
        }
        let (limit, ascending) = (limit.unwrap_or(usize::from(HASH_SLOTS)), ascending.unwrap_or(false));
        Ok(Filter::ByKeyCount { limit, ascending })
    }
}

/// The number of keys is all that is counted for each slot (`cluster-slot-stats-enabled` has no
/// effect), over all databases.
pub(super) fn slot_stats(call: &mut Call) -> CommandResult {
    node_of(call)?;
    let keyspace = &call.engine.keyspace;
    let keys = |slot: u16| (0..keyspace.databases()).map(|db| keyspace.slot_len(slot, db)).sum::<usize>();
    let slots: Vec<(u16, usize)> = match Filter::parse(call)? {
        Filter::Range(start, end) => (start..=end).map(|slot| (slot, keys(slot))).collect(),
        Filter::ByKeyCount { limit, ascending } => {
            let mut slots: Vec<_> = (0..HASH_SLOTS).map(|slot| (slot, keys(slot))).collect();
            // Of equal counts the lower slot comes first.
            if ascending {
                slots.sort_by_key(|&(_, keys)| keys);
            } else {
                slots.sort_by_key(|&(_, keys)| std::cmp::Reverse(keys));
            }
            slots.truncate(limit);
            slots
        }
    };
    call.reply.array(slots.len());
    for (slot, keys) in slots {
        call.reply.array(2);
        call.reply.integer(i64::from(slot));
        call.reply.map(1);
        call.reply.bulk(b"key-count");
        call.reply.integer(keys as i64);
    }
    Ok(())
}
