// SPDX-License-Identifier: BSD-3-Clause
//! Adding, removing and moving members.

use braid_executor::{Call, limits};
use braid_keyspace::object::ObjectType;
use braid_keyspace::{Event, Type};
use braid_spec::{CommandError, CommandResult};
use braid_values::set::Set;

use crate::collection::purge;

pub(super) fn sadd(call: &mut Call) -> CommandResult {
    let (key, now, limits) = (call.args[1], call.now(), limits::set_limits(call.engine));
    let members = &call.args[2..];
    let set = call.keyspace.write_or_create(key, || Set::for_member(members[0], members.len(), &limits))?;
    let expired = purge(set, now);
    if members.len() > 1 {
        set.expect(members.len(), &limits);
    }
    let mut added = 0;
    for member in members {
        added += u64::from(set.add(member, now, &limits));
    }
    call.keyspace.finish_change_expiring(Event::set("sadd"), key, added, expired, false);
    if added == 0 {
        call.keyspace.journal_addition();
    }
    call.reply.integer(added as i64);
    Ok(())
}

pub(super) fn srem(call: &mut Call) -> CommandResult {
    let (key, now) = (call.args[1], call.now());
    let mut removed = 0;
    if let Some(set) = call.keyspace.write_as::<Set>(key)? {
        let expired = purge(set, now);
        for member in &call.args[2..] {
            removed += u64::from(set.remove(member, now));
            if set.is_empty() {
                break;
            }
        }
        let empty = set.is_empty();
        call.keyspace.finish_change_expiring(Event::set("srem"), key, removed, expired, empty);
    }
    call.reply.integer(removed as i64);
    Ok(())
}

pub(super) fn smove(call: &mut Call) -> CommandResult {
    let (source, destination, member) = (call.args[1], call.args[2], call.args[3]);
    let (now, limits) = (call.now(), limits::set_limits(call.engine));
    let type_of = |key: &[u8]| Type::of(call.keyspace, key);
    match (type_of(source), type_of(destination)) {
        (None, _) => {
            call.reply.integer(0);
            return Ok(());
        }
        (Some(Set::TYPE), None | Some(Set::TYPE)) => {}
        _ => return Err(CommandError::WrongType),
    }
    let Some(set) = call.keyspace.write_as::<Set>(source)? else { return Err(CommandError::WrongType) };
    if source == destination {
        call.reply.integer(i64::from(set.contains(member, now)));
        return Ok(());
    }
    let expired = purge(set, now);
    let expiry = set.expiry(member, now);
    let removed = set.remove(member, now);
    let empty = set.is_empty();
    call.reply.integer(i64::from(removed));
    call.keyspace.finish_change_expiring(Event::set("srem"), source, u64::from(removed), expired, empty);
    if !removed {
        return Ok(());
    }
    let set = call.keyspace.write_or_create(destination, || Set::for_member(member, 1, &limits))?;
    let expired = purge(set, now);
    let added = set.add(member, now, &limits);
    // The member keeps its expiry, like a renamed key.
    let expiry = expiry.flatten().filter(|_| added);
    if expiry.is_some() {
        set.set_expiry(member, expiry, now);
    }
    call.keyspace.finish_change_expiring(Event::set("sadd"), destination, u64::from(added), expired, false);
    if expiry.is_some() {
        call.keyspace.note_member_expiry(destination);
    }
    Ok(())
}
