// SPDX-License-Identifier: BSD-3-Clause
//! XGROUP and XACK.

use braid_base::number;
use braid_executor::Call;
use braid_keyspace::Event;
use braid_spec::{CommandError, CommandResult};
use braid_values::stream::{Group, Stream, StreamId};
use smallvec::SmallVec;

use super::{any_id, idempotent, no_group_in, strict_id};

/// The error of subcommands for a missing key.
const NO_KEY: &str = "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may \
 want to use the \
                      MKSTREAM option to create an empty stream automatically.";

/// Parses the options of CREATE and SETID: MKSTREAM, and ENTRIESREAD if given.
fn options(call: &Call, creates: bool) -> Result<(bool, Option<u64>), CommandError> {
    let (mut makes_stream, mut entries_read) = (false, None);
    let mut rest = &call.args[5..];
    while let [option, after @ ..] = rest {
        rest = match after {
            _ if creates && option.eq_ignore_ascii_case(b"MKSTREAM") => {
                makes_stream = true;
                after
            }
            [count, after @ ..] if option.eq_ignore_ascii_case(b"ENTRIESREAD") => {
                let count = number::parse_i64(count).ok_or(CommandError::NotAnInteger)?;
                if count < -1 {
                    return Err(CommandError::text("ERR value for ENTRIESREAD must be positive or -1"));
                }
                entries_read = u64::try_from(count).ok();
                after
            }
            _ => return Err(call.unknown_subcommand()),
        };
    }
    Ok((makes_stream, entries_read))
}

pub fn create(call: &mut Call) -> CommandResult {
    let args = call.args;
    let (key, name) = (args[2], args[3]);
    let (makes_stream, entries_read) = options(call, true)?;
    let last = call.keyspace.write_as::<Stream>(key)?.map(|stream| stream.log().last_id());
    if last.is_none() && !makes_stream {
        return Err(CommandError::text(NO_KEY));
    }
    if args.len() > 8 {
        return Err(call.unknown_subcommand());
    }
    let id = match args[4] {
        b"$" => last.unwrap_or(StreamId::MIN),
        id => strict_id(id, 0)?,
    };
    let stream = call.keyspace.write_or_create(key, Stream::new)?;
    let (_, groups) = stream.split_mut();
    if !groups.create(name, Group::new(id, entries_read)) {
        return Err(CommandError::text("BUSYGROUP Consumer Group name already exists"));
    }
    if last.is_none() {
        call.keyspace.changed(Event::stream("xgroup-create"), key);
    } else {
        call.keyspace.notify(Event::stream("xgroup-create"), key);
        call.keyspace.count_changes(1);
    }
    call.reply.ok();
    Ok(())
}

/// The group named in a subcommand's arguments, for changing.
fn group_mut<'c>(call: &'c mut Call) -> Result<&'c mut Group, CommandError> {
    let (key, name) = (call.args[2], call.args[3]);
    let Some(stream) = call.keyspace.write_as::<Stream>(key)? else {
        return Err(CommandError::text(NO_KEY));
    };
    let (_, groups) = stream.split_mut();
    groups.get_mut(name).ok_or_else(|| no_group_in(key, name))
}

pub fn set_id(call: &mut Call) -> CommandResult {
    let args = call.args;
    let (_, entries_read) = options(call, false)?;
    let stream = call.keyspace.peek_as::<Stream>(args[2])?;
    let last = stream.map_or(StreamId::MIN, |stream| stream.log().last_id());
    group_mut(call)?;
    if args.len() > 7 {
        return Err(call.unknown_subcommand());
    }
    let id = match args[4] {
        b"$" => last,
        id => any_id(id, 0)?,
    };
    let group = group_mut(call)?;
    (group.last_id, group.entries_read) = (id, entries_read);
    call.keyspace.notify(Event::stream("xgroup-setid"), args[2]);
    // As on stock servers, waiting clients are not served, even if there are entries after the new
    // position.
    call.keyspace.count_changes(1);
    call.reply.ok();
    Ok(())
}

pub fn destroy(call: &mut Call) -> CommandResult {
    let args = call.args;
    let Some(stream) = call.keyspace.write_as::<Stream>(args[2])? else {
        return Err(CommandError::text(NO_KEY));
    };
    let removed = stream.split_mut().1.remove(args[3]).is_some();
    if removed {
        call.keyspace.changed_for_waiters(Event::stream("xgroup-destroy"), args[2]);
    }
    call.reply.integer(i64::from(removed));
    Ok(())
}

pub fn create_consumer(call: &mut Call) -> CommandResult {
    let (args, now) = (call.args, call.clock_ms());
    let created = group_mut(call)?.create_consumer(args[4], now).is_some();
    if created {
        call.keyspace.notify(super::CONSUMER_CREATED, args[2]);
        call.keyspace.count_changes(1);
    }
    call.reply.integer(i64::from(created));
    Ok(())
}

pub fn delete_consumer(call: &mut Call) -> CommandResult {
    let args = call.args;
    let pending = group_mut(call)?.delete_consumer(args[4]);
    if pending.is_some() {
        call.keyspace.notify(Event::stream("xgroup-delconsumer"), args[2]);
        call.keyspace.count_changes(1);
    }
    call.reply.integer(pending.unwrap_or(0) as i64);
    Ok(())
}

pub fn help(call: &mut Call) -> CommandResult {
    call.help(&[
        "CREATE <key> <groupname> <id|$> [option]",
        "    Create a new consumer group. Options are:",
        "    * MKSTREAM",
        "      Create the empty stream if it does not exist.",
        "    * ENTRIESREAD entries_read",
        "      Set the group's entries_read counter (internal use).",
        "CREATECONSUMER <key> <groupname> <consumer>",
        "    Create a new consumer in the specified group.",
        "DELCONSUMER <key> <groupname> <consumer>",
        "    Remove the specified consumer.",
        "DESTROY <key> <groupname>",
        "    Remove the specified group.",
        "SETID <key> <groupname> <id|$> [ENTRIESREAD entries_read]",
        "    Set the current group ID and entries_read counter.",
    ])
}

pub fn xack(call: &mut Call) -> CommandResult {
    let args = call.args;
    if call.session.execution.is_replay && idempotent::replay(call)? {
        return Ok(());
    }
    let mut acknowledged = 0;
    if let Some(stream) = super::stream_to_change(call.keyspace, args[1])?
        && let Some(group) = stream.split_mut().1.get_mut(args[2])
    {
        // Parses all IDs before acknowledging any entry.
        let ids: Result<SmallVec<[StreamId; 8]>, _> = args[3..].iter().map(|id| strict_id(id, 0)).collect();
        acknowledged = ids?.into_iter().filter(|id| group.acknowledge(*id).is_some()).count();
    }
    if acknowledged > 0 {
        call.keyspace.count_changes(1);
    }
    call.reply.integer(acknowledged as i64);
    Ok(())
}
