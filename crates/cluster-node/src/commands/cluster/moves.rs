// SPDX-License-Identifier: BSD-3-Clause
//! Atomic slot migration: Valkey's MIGRATESLOTS, GETSLOTMIGRATIONS and CANCELSLOTMIGRATIONS,
//! Redis's MIGRATION, and SYNCSLOTS, the protocol between nodes (`crate::slot_moves`).
//!
//! Sources: the commands' pages in the documentation of Valkey and Redis; error texts follow
//! Valkey 9.

use std::sync::Arc;

use braid_base::number::{parse_i64, parse_u64};
use braid_executor::state::slot_moves::{Move, MoveState};
use braid_executor::{Call, Engine};
use braid_group::cluster::{MapNode, SlotSet};
use braid_spec::{CommandError, CommandResult};

use super::operators::{
    alone, count_in_background, id_arg, in_background, map_of, range_args_from, slot_arg,
};
use crate::group::changes;
use crate::slot_moves::{import, orders};

fn error(text: impl Into<String>) -> CommandError {
    CommandError::text(format!("ERR {}", text.into()))
}

/// True if the argument at an index is this token.
fn is_token(call: &Call, index: usize, token: &str) -> bool {
    index < call.args.len() && call.arg_is(index, token)
}

/// Requested moves: slots and their target node.
type Wanted = Vec<(SlotSet, Arc<str>)>;

pub(super) fn migrate_slots(call: &mut Call) -> CommandResult {
    let map = map_of(call)?.ok_or_else(|| alone(call))?;
    let wanted = parse_moves(call)?;
    check_moves(call.engine, &wanted)?;
    in_background(call, map, move |task| task.order(wanted).map(|_| "OK".to_owned()))
}

/// Parses `SLOTSRANGE start end [start end ...] NODE id`, once or more.
fn parse_moves(call: &Call) -> Result<Wanted, CommandError> {
    let (mut wanted, mut all) = (Vec::new(), SlotSet::default());
    let mut index = 2;
    while index < call.args.len() {
        if !is_token(call, index, "slotsrange") {
            return Err(CommandError::Syntax);
        }
        index += 1;
        let mut ranges: Vec<(u16, u16)> = Vec::new();
        while index + 1 < call.args.len() && parse_i64(call.args[index]).is_some() {
            let (start, end) = (slot_arg(call, index)?, slot_arg(call, index + 1)?);
            if start > end {
                return Err(error(format!(
                    "Start slot number {start} is greater than end slot number {end}."
                )));
            }
            if let Some((first, last)) = ranges.iter().find(|(first, last)| start <= *last && end >= *first) {
                return Err(error(format!(
                    "Slot range {start}-{end} overlaps with previous range {first}-{last}."
                )));
            }
            ranges.push((start, end));
            index += 2;
        }
        if !is_token(call, index, "node") || index + 1 >= call.args.len() {
            let is_empty = ranges.is_empty() && index < call.args.len();
            return Err(if is_empty { error("No slot ranges specified") } else { CommandError::Syntax });
        }
        let slots: SlotSet = ranges.into_iter().flat_map(|(start, end)| start..=end).collect();
        if slots.iter().any(|slot| !all.insert(slot)) {
            return Err(error("Slot ranges in migrations overlap"));
        }
        wanted.push((slots, Arc::from(id_arg(call, index + 1))));
        index += 2;
    }
    Ok(wanted)
}

fn check_moves(engine: &Engine, wanted: &Wanted) -> Result<(), CommandError> {
    let view = engine.cluster_view().unwrap_or_default();
    for (slots, target) in wanted {
        if !view.leads || slots.iter().any(|slot| !view.owns(slot)) {
            return Err(error("Slots are not served by this node."));
        }
        if target.len() != view.id.len() {
            return Err(error(format!("Invalid node name: {target}")));
        }
        let node = view.map.node(target);
        let node = node.ok_or_else(|| error(format!("Unknown node name: {target}")))?;
        if Some(&node.known.shard) == view.shard.as_ref() {
            return Err(error("Target node can not be this node."));
        }
        if !view.map.is_primary(node) {
            return Err(error("Target node is not a primary."));
        }
    }
    Ok(())
}

pub(super) fn get_slot_migrations(call: &mut Call) -> CommandResult {
    map_of(call)?;
    let moves = orders::all_moves(call.engine);
    call.reply.array(moves.len());
    for one in moves {
        reply_as_valkey(call, &one);
    }
    Ok(())
}

/// Formats ranges with first and last slot, even for a single slot.
fn ranges(slots: &SlotSet) -> String {
    let ranges = slots.ranges();
    ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect::<Vec<_>>().join(" ")
}

fn reply_as_valkey(call: &mut Call, one: &Move) {
    let progress = one.progress();
    let reply = &mut call.reply;
    reply.map(12);
    let mut text = |name: &str, text: &str| {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    };
    text("name", &one.name);
    text("operation", if one.is_export { "EXPORT" } else { "IMPORT" });
    text("slot_ranges", &ranges(&one.slots));
    text("target_node", &one.target);
    text("source_node", &one.source);
    let mut number = |name: &str, number: i64| {
        reply.bulk(name.as_bytes());
        reply.integer(number);
    };
    number("create_time", one.created_ms / 1000);
    number("last_update_time", progress.updated_ms / 1000);
    number("last_ack_time", progress.answered_ms / 1000);
    let mut text = |name: &str, text: &str| {
        reply.bulk(name.as_bytes());
        reply.bulk(text.as_bytes());
    };
    text("state", progress.state.name());
    text("message", &progress.message);
    reply.bulk(b"cow_size");
    reply.integer(0);
    reply.bulk(b"remaining_repl_size");
    reply.integer(i64::try_from(progress.behind).unwrap_or(i64::MAX));
}

pub(super) fn cancel_slot_migrations(call: &mut Call) -> CommandResult {
    let map = map_of(call)?.ok_or_else(|| error("No migrations ongoing"))?;
    in_background(call, map, |task| match task.cancel(false, None)? {
        0 => Err(error("No migrations ongoing")),
        _ => Ok("OK".into()),
    })
}

pub(super) fn migration(call: &mut Call) -> CommandResult {
    let map = map_of(call)?;
    if call.arg_is(2, "import") {
        let ranges = range_args_from(call, 3)?;
        let Some(map) = map else { return Err(alone(call)) };
        let slots: SlotSet = ranges.into_iter().flat_map(|(start, end)| start..=end).collect();
        let source = source_of(call.engine, &slots)?;
        let at = (source.host().to_owned(), source.port_for(call.engine.config.tls_cluster()));
        let own = map.id();
        return in_background(call, map, move |task| {
            let slots = slots.to_string();
            let request = [&b"CLUSTER"[..], b"SYNCSLOTS", b"EXPORT", slots.as_bytes(), own.as_bytes()];
            changes::ask_node(task.engine, &at.0, at.1, &request).map_err(|why| {
                error(format!(
                    "the slots' owner refuses to send them: {}",
                    why.to_string().trim_start_matches("ERR ")
                ))
            })
        });
    }
    let is_cancel = call.arg_is(2, "cancel");
    if !is_cancel && !call.arg_is(2, "status") {
        return Err(CommandError::Syntax);
    }
    let name = match call.args.len() {
        4 if call.arg_is(3, "all") => None,
        5 if call.arg_is(3, "id") => Some(id_arg(call, 4)),
        _ => return Err(CommandError::Syntax),
    };
    if is_cancel {
        let Some(map) = map else {
            call.reply.integer(0);
            return Ok(());
        };
        return count_in_background(call, map, move |task| task.cancel(true, name.as_deref()));
    }
    let is_meant = |one: &Move| name.as_ref().is_none_or(|name| *name == one.name);
    let moves: Vec<Arc<Move>> =
        orders::all_moves(call.engine).into_iter().filter(|one| is_meant(one)).collect();
    call.reply.array(moves.len());
    for one in moves {
        reply_as_redis(call, &one);
    }
    Ok(())
}

/// The node that owns all of these slots.
fn source_of(engine: &Engine, slots: &SlotSet) -> Result<MapNode, CommandError> {
    let view = engine.cluster_view().unwrap_or_default();
    if !view.leads {
        return Err(error("only a primary can import slots"));
    }
    let mut owners = slots.iter().map(|slot| (slot, view.map.owner(slot)));
    let owner = owners.next().and_then(|(_, owner)| owner);
    let owner = owner.ok_or_else(|| error("a slot has no owner"))?;
    if let Some((slot, _)) = owners.find(|(_, other)| *other != Some(owner)) {
        return Err(error(format!(
            "slot {slot} belongs to another node: import slots from one node at a time"
        )));
    }
    if Some(owner) == view.shard.as_ref() {
        return Err(error("the slots already belong to this node"));
    }
    let primary = view.map.primary(owner).filter(|node| node.server.is_some());
    primary.cloned().ok_or_else(|| error("the slots' owner is down"))
}

fn reply_as_redis(call: &mut Call, one: &Move) {
    let progress = one.progress();
    let state = match progress.state {
        MoveState::Success => "completed",
        MoveState::Failed => "failed",
        MoveState::Cancelled => "canceled",
        _ => "in_progress",
    };
    let end_ms = if progress.state.is_over() { progress.updated_ms } else { 0 };
    let texts = [
        ("id", one.name.clone()),
        ("slots", ranges(&one.slots)),
        ("source", one.source.to_string()),
        ("dest", one.target.to_string()),
        ("operation", if one.is_export { "migrate" } else { "import" }.to_owned()),
        ("state", state.to_owned()),
        ("last_error", progress.message.clone()),
    ];
    let numbers = [
        ("retries", i64::try_from(one.retries).unwrap_or(i64::MAX)),
        ("create_time", one.created_ms),
        ("start_time", one.created_ms),
        ("end_time", end_ms),
        ("write_pause_ms", i64::try_from(progress.pause_ms).unwrap_or(i64::MAX)),
    ];
    call.reply.map(texts.len() + numbers.len());
    for (name, text) in texts {
        call.reply.bulk(name.as_bytes());
        call.reply.bulk(text.as_bytes());
    }
    for (name, number) in numbers {
        call.reply.bulk(name.as_bytes());
        call.reply.integer(number);
    }
}

/// Handles the messages of other nodes about a move.
pub(super) fn sync_slots(call: &mut Call) -> CommandResult {
    let map = map_of(call)?.ok_or_else(|| alone(call))?;
    match call.args.len() {
        6 if call.arg_is(2, "establish") => {
            let slots = slots_arg(call, 5)?;
            let import =
                import::begin_import(call.engine, &id_arg(call, 3), Arc::from(id_arg(call, 4)), slots)?;
            call.session.cluster.import = Some(Arc::clone(&import));
            in_background(call, map, move |task| {
                import::prepare_import(task.engine, &import).map(|()| "OK".into())
            })
        }
        5 if call.arg_is(2, "resume") => {
            let import = import::resume_import(call.engine, &id_arg(call, 3), &id_arg(call, 4))?;
            call.session.cluster.import = Some(Arc::clone(&import));
            count_in_background(call, map, move |task| {
                import::resume_from(task.engine, &import).map(|number| number as usize)
            })
        }
        5 if call.arg_is(2, "apply") => {
            let import = call.session.cluster.import.clone().ok_or_else(no_move)?;
            let number = parse_u64(call.args[3]).ok_or(CommandError::NotAnInteger)?;
            if call.args[4].is_empty() {
                import::note_import(&import, number)?;
                call.reply.ok();
                return Ok(());
            }
            let bytes = call.args[4].to_vec();
            quietly(call, move |engine| import::apply_import(engine, &import, number, &bytes))
        }
        3 if call.arg_is(2, "ready") => {
            let import = call.session.cluster.import.as_ref().ok_or_else(no_move)?;
            import::ready_import(call.engine, import)?;
            call.reply.ok();
            Ok(())
        }
        3 if call.arg_is(2, "done") => {
            let import = call.session.cluster.import.clone().ok_or_else(no_move)?;
            quietly(call, move |engine| import::end_import(engine, &import))
        }
        5 if call.arg_is(2, "export") => {
            let wanted = vec![(slots_arg(call, 3)?, Arc::from(id_arg(call, 4)))];
            check_moves(call.engine, &wanted)?;
            in_background(call, map, move |task| {
                let names = task.order(wanted)?;
                Ok(names.first().map_or_else(String::new, |name| name.to_string()))
            })
        }
        _ => Err(CommandError::Syntax),
    }
}

fn no_move() -> CommandError {
    error("this connection is not importing slots")
}

fn slots_arg(call: &Call, index: usize) -> Result<SlotSet, CommandError> {
    let slots = id_arg(call, index).parse::<SlotSet>().map_err(|bad| error(bad.to_string()))?;
    if slots.is_empty() { Err(error("no slots are given")) } else { Ok(slots) }
}

/// Runs work in the background that replies OK, without a log message.
fn quietly(
    call: &mut Call,
    work: impl FnOnce(&Engine) -> Result<(), CommandError> + Send + 'static,
) -> CommandResult {
    if !call.may_leave(false) {
        return Err(error("CLUSTER SYNCSLOTS is not allowed in a transaction or script"));
    }
    call.work_in_background(move |engine, answer| match work(engine) {
        Ok(()) => answer.give_ok(),
        Err(error) => answer.give_error(&error),
    })
}
