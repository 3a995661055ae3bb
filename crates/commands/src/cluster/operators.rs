// SPDX-License-Identifier: BSD-3-Clause
//! Commands of operators that change a cluster. This server is a cluster by itself and keeps all
//! slots, so nothing but its epoch can change: a request gets the error that a stock server gives to
//! a node that owns everything, or, where a stock server would give slots away or join others, one
//! that says that this is not possible here.

use braid_base::crc::HASH_SLOTS;
use braid_engine::Call;
use braid_engine::cluster_node::Bump;
use braid_spec::{CommandError, CommandResult};

use super::node_of;

/// The error for what would need other nodes, or slots that are nobody's.
fn alone(call: &Call) -> CommandError {
    let name = call.command.full_name.replace('|', " ").to_ascii_uppercase();
    CommandError::text(format!(
        "ERR {name} is not possible: this server is a cluster by itself and owns all slots"
    ))
}

fn unknown_node(id: &[u8]) -> CommandError {
    CommandError::quoting("ERR Unknown node ", id, "")
}

fn not_written(error: std::io::Error) -> CommandError {
    CommandError::text(format!("ERR error saving the cluster node config: {error}"))
}

/// An argument as a slot.
fn slot_arg(call: &Call, index: usize) -> Result<u16, CommandError> {
    let slot = call.integer_arg(index).ok().and_then(|slot| u16::try_from(slot).ok());
    slot.filter(|&slot| slot < HASH_SLOTS).ok_or(CommandError::text("ERR Invalid or out of range slot"))
}

/// All arguments as slots.
fn slot_args(call: &Call) -> Result<Vec<u16>, CommandError> {
    (2..call.args.len()).map(|index| slot_arg(call, index)).collect()
}

/// All arguments as ranges of slots, first and last.
fn range_args(call: &Call) -> Result<Vec<(u16, u16)>, CommandError> {
    if !call.args.len().is_multiple_of(2) {
        return Err(call.wrong_arity());
    }
    let range = |index: usize| {
        let (start, end) = (slot_arg(call, index)?, slot_arg(call, index + 1)?);
        if start > end {
            return Err(CommandError::text(format!(
                "ERR start slot number {start} is greater than end slot number {end}"
            )));
        }
        Ok((start, end))
    };
    (2..call.args.len()).step_by(2).map(range).collect()
}

fn busy_slot(slot: u16) -> CommandError {
    CommandError::text(format!("ERR Slot {slot} is already busy"))
}

pub(super) fn add_slots(call: &mut Call) -> CommandResult {
    node_of(call)?;
    // Redis looks at one slot after the other, and the first is busy.
    let slot = slot_arg(call, 2)?;
    Err(busy_slot(slot))
}

pub(super) fn add_slots_range(call: &mut Call) -> CommandResult {
    node_of(call)?;
    let ranges = range_args(call)?;
    Err(ranges.first().map_or_else(|| call.wrong_arity(), |&(start, _)| busy_slot(start)))
}

pub(super) fn delete_slots(call: &mut Call) -> CommandResult {
    node_of(call)?;
    let mut slots = slot_args(call)?;
    slots.sort_unstable();
    if let Some(pair) = slots.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(CommandError::text(format!("ERR Slot {} specified multiple times", pair[0])));
    }
    Err(alone(call))
}

pub(super) fn delete_slots_range(call: &mut Call) -> CommandResult {
    node_of(call)?;
    range_args(call)?;
    Err(alone(call))
}

pub(super) fn flush_slots(call: &mut Call) -> CommandResult {
    node_of(call)?;
    Err(alone(call))
}

pub(super) fn meet(call: &mut Call) -> CommandResult {
    node_of(call)?;
    if call.args.len() > 5 {
        return Err(call.unknown_subcommand());
    }
    if call.integer_arg(3).is_err() {
        return Err(CommandError::quoting("ERR Invalid base port specified: ", call.args[3], ""));
    }
    Err(alone(call))
}

pub(super) fn forget(call: &mut Call) -> CommandResult {
    let id = call.args[2];
    if id == node_of(call)?.id.as_bytes() {
        return Err(CommandError::text("ERR I tried hard but I can't forget myself..."));
    }
    Err(unknown_node(id))
}

pub(super) fn replicate(call: &mut Call) -> CommandResult {
    let id = call.args[2];
    if id == node_of(call)?.id.as_bytes() {
        return Err(CommandError::text("ERR Can't replicate myself"));
    }
    Err(unknown_node(id))
}

pub(super) fn fail_over(call: &mut Call) -> CommandResult {
    node_of(call)?;
    if call.args.len() > 3 {
        return Err(call.unknown_subcommand());
    }
    if call.args.len() == 3 && !call.arg_is(2, "force") && !call.arg_is(2, "takeover") {
        return Err(CommandError::Syntax);
    }
    Err(CommandError::text("ERR You should send CLUSTER FAILOVER to a replica"))
}

pub(super) fn reset(call: &mut Call) -> CommandResult {
    node_of(call)?;
    if call.args.len() > 3 {
        return Err(call.unknown_subcommand());
    }
    if call.args.len() == 3 && !call.arg_is(2, "hard") && !call.arg_is(2, "soft") {
        return Err(CommandError::Syntax);
    }
    Err(alone(call))
}

pub(super) fn save_config(call: &mut Call) -> CommandResult {
    node_of(call)?.save(&call.engine.config).map_err(not_written)?;
    call.reply.ok();
    Ok(())
}

pub(super) fn set_config_epoch(call: &mut Call) -> CommandResult {
    let node = node_of(call)?;
    let epoch = call.integer_arg(2)?;
    let Ok(epoch) = u64::try_from(epoch) else {
        return Err(CommandError::text(format!("ERR Invalid config epoch specified: {epoch}")));
    };
    if !node.set_epoch(&call.engine.config, epoch).map_err(not_written)? {
        return Err(CommandError::text("ERR Node config epoch is already non-zero"));
    }
    call.reply.ok();
    Ok(())
}

pub(super) fn bump_epoch(call: &mut Call) -> CommandResult {
    let bump = node_of(call)?.bump_epoch(&call.engine.config).map_err(not_written)?;
    match bump {
        Bump::Raised(epoch) => call.reply.simple(&format!("BUMPED {epoch}")),
        Bump::Still(epoch) => call.reply.simple(&format!("STILL {epoch}")),
    }
    Ok(())
}

pub(super) fn set_slot(call: &mut Call) -> CommandResult {
    let node = node_of(call)?;
    let slot = slot_arg(call, 2)?;
    let id = call.args.get(4).copied();
    let is_own = id == Some(node.id.as_bytes());
    match (id, call.args.len()) {
        // The slot is where it is to be, and on its way nowhere.
        (None, 4) if call.arg_is(3, "stable") => {}
        (Some(_), 5) if call.arg_is(3, "node") && is_own => {}
        (Some(id), 5) if call.arg_is(3, "node") => return Err(unknown_node(id)),
        (Some(_), 5) if call.arg_is(3, "migrating") && is_own => return Err(alone(call)),
        (Some(id), 5) if call.arg_is(3, "migrating") => {
            return Err(CommandError::quoting("ERR I don't know about node ", id, ""));
        }
        (Some(_), 5) if call.arg_is(3, "importing") => {
            return Err(CommandError::text(format!("ERR I'm already the owner of hash slot {slot}")));
        }
        _ => {
            return Err(CommandError::text(
                "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP",
            ));
        }
    }
    call.reply.ok();
    Ok(())
}
