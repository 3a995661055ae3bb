// SPDX-License-Identifier: BSD-3-Clause
//! HIMPORT, as Redis 8.10 documents it: hashes of equal fields, whose names a client sends once.
//!
//! A field set belongs to the connection. The hashes are hashes as others: an encoding that keeps
//! the names once for all of them, as Redis has, is not here (docs/design/036-names-of-fields.md).
//! Files and replicas get HSET, after DEL of a hash that is replaced.

use std::collections::HashSet;

use braid_executor::session::FieldSet;
use braid_executor::{Call, Row, limits};
use braid_keyspace::object::Object;
use braid_keyspace::{Event, Expiry};
use braid_spec::{CommandError, CommandResult, Flags, Group, KeyFlags, KeySpec};
use braid_values::hash::{self, Hash};

/// Bytes of the names in all field sets of a connection.
const NAMES_MAX: usize = 1 << 20;

/// The row of HIMPORT.
pub const IMPORT: Row = Row::container("himport", Group::Hash, SUBCOMMANDS).docs(
    "8.10.0",
    "Groups commands that create hashes of equal fields.",
    "Depends on subcommand.",
);

const SUBCOMMANDS: &[Row] = &[
    Row::new("discard", Group::Hash, discard)
        .exactly(3)
        .docs(
            "8.10.0",
            "Forgets a field set of the connection.",
            "O(N) where N is the number of session-local fieldsets.",
        )
        .syntax("fieldset-name:string")
        .tips(&["request_policy:all_shards"]),
    Row::new("discardall", Group::Hash, discard_all)
        .exactly(2)
        .docs(
            "8.10.0",
            "Forgets all field sets of the connection.",
            "O(N) where N is the number of session-local fieldsets.",
        )
        .tips(&["request_policy:all_shards"]),
    Row::new("prepare", Group::Hash, prepare)
        .at_least(4)
        .flags(Flags::DENYOOM)
        .docs(
            "8.10.0",
            "Gives the connection a field set: names of fields, for HIMPORT SET.",
            "O(N*log(N)) where N is the number of fields.",
        )
        .syntax("fieldset-name:string field:string...")
        .tips(&["request_policy:all_shards"]),
    Row::new("set", Group::Hash, set)
        .at_least(5)
        .flags(Flags::WRITE.and(Flags::DENYOOM))
        .keys(&[KeySpec::at(2, KeyFlags::OW.and(KeyFlags::UPDATE))])
        .docs(
            "8.10.0",
            "Creates a hash from a field set and values in its order.",
            "O(N) where N is the number of fields in the fieldset.",
        )
        .syntax("key:key#0 fieldset-name:string value:string..."),
];

fn prepare(call: &mut Call) -> CommandResult {
    let (name, fields) = (call.args[2], &call.args[3..]);
    let mut seen = HashSet::with_capacity(fields.len());
    if !fields.iter().all(|field| seen.insert(*field)) {
        return Err(CommandError::text("ERR duplicate field name in fieldset"));
    }
    let sets = &mut call.session.field_sets;
    let others = sets.iter().filter(|set| *set.name != *name).map(FieldSet::bytes);
    let new = FieldSet { name: name.into(), fields: fields.iter().map(|&field| field.into()).collect() };
    if others.sum::<usize>() + new.bytes() > NAMES_MAX {
        let text = format!("ERR fieldsets of a connection are limited to {NAMES_MAX} bytes");
        return Err(CommandError::text(text));
    }
    sets.retain(|set| *set.name != *name);
    sets.push(new);
    call.reply.ok();
    Ok(())
}

fn set(call: &mut Call) -> CommandResult {
    let (key, name, values) = (call.args[2], call.args[3], &call.args[4..]);
    let (now, limits) = (call.now(), limits::hash_limits(call.engine));
    let sets = &call.session.field_sets;
    let set = sets.iter().find(|set| *set.name == *name);
    let fields = &set.ok_or(CommandError::text("ERR no such fieldset"))?.fields;
    if fields.len() != values.len() {
        return Err(CommandError::text("ERR value count does not match the fieldset's field count"));
    }
    let replaces = call.keyspace.peek_as::<Hash>(key)?.is_some();
    let pairs: Vec<&[u8]> =
        fields.iter().map(|field| &**field).zip(values.iter().copied()).flat_map(<[_; 2]>::from).collect();
    let mut hash = Hash::new();
    hash.expect(pairs.iter().copied(), &limits);
    for pair in pairs.chunks_exact(2) {
        hash.set(pair[0], pair[1], hash::Expiry::Clear, now, &limits);
    }
    call.keyspace.set_object(Event::hash("hset"), key, Object::new(hash), Expiry::Clear);
    call.keyspace.notify_members(Event::hash("hset"), key, pairs.chunks_exact(2).map(|pair| pair[0]));
    if replaces {
        call.keyspace.journal_as(&[b"DEL", key]);
    }
    let mut request: Vec<&[u8]> = vec![b"HSET", key];
    request.extend(pairs);
    call.keyspace.journal_as(&request);
    call.keyspace.journal_protection(key);
    call.reply.ok();
    Ok(())
}

fn discard(call: &mut Call) -> CommandResult {
    let name = call.args[2];
    let sets = &mut call.session.field_sets;
    let before = sets.len();
    sets.retain(|set| *set.name != *name);
    call.reply.integer((before - sets.len()) as i64);
    Ok(())
}

fn discard_all(call: &mut Call) -> CommandResult {
    let sets = std::mem::take(&mut call.session.field_sets);
    call.reply.integer(sets.len() as i64);
    Ok(())
}
