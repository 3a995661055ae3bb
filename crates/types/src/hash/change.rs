// SPDX-License-Identifier: BSD-3-Clause
//! Setting and removing fields of hashes.

use braid_base::long_double::LongDouble;
use braid_base::number;
use braid_executor::{Call, limits};
use braid_keyspace::Event;
use braid_spec::{CommandError, CommandResult};
use braid_values::hash::{Expiry, Hash};

use crate::collection::purge;

pub(super) fn hset(call: &mut Call) -> CommandResult {
    let created = set_pairs(call)?;
    call.reply.integer(created);
    Ok(())
}

pub(super) fn hmset(call: &mut Call) -> CommandResult {
    set_pairs(call)?;
    call.reply.ok();
    Ok(())
}

/// Sets the fields from argument 2 on and clears their expiry; returns the number of new ones.
fn set_pairs(call: &mut Call) -> Result<i64, CommandError> {
    if !call.args.len().is_multiple_of(2) {
        return Err(call.wrong_arity());
    }
    let (key, now, limits) = (call.args[1], call.now(), limits::hash_limits(call.engine));
    let pairs = &call.args[2..];
    let hash = call.keyspace.write_or_create(key, Hash::new)?;
    purge(hash, now);
    if pairs.len() > 2 {
        hash.expect(pairs.iter().copied(), &limits);
    }
    let mut created = 0;
    for pair in pairs.chunks_exact(2) {
        created += i64::from(hash.set(pair[0], pair[1], Expiry::Clear, now, &limits));
    }
    call.keyspace.finish_change(Event::hash("hset"), key, pairs.len() as u64 / 2, false);
    call.keyspace.notify_members(Event::hash("hset"), key, pairs.chunks_exact(2).map(|pair| pair[0]));
    Ok(created)
}

pub(super) fn hsetnx(call: &mut Call) -> CommandResult {
    let (key, now, limits) = (call.args[1], call.now(), limits::hash_limits(call.engine));
    let hash = call.keyspace.write_or_create(key, Hash::new)?;
    let expired = purge(hash, now);
    let absent = !hash.contains(call.args[2], now);
    if absent {
        hash.set(call.args[2], call.args[3], Expiry::Clear, now, &limits);
    }
    call.keyspace.finish_change_expiring(Event::hash("hset"), key, u64::from(absent), expired, false);
    call.keyspace.notify_members(Event::hash("hset"), key, absent.then_some(call.args[2]));
    call.reply.integer(i64::from(absent));
    Ok(())
}

pub(super) fn hdel(call: &mut Call) -> CommandResult {
    let (key, now, wanted) = (call.args[1], call.now(), call.keyspace.wants_members());
    let mut removed = 0;
    let mut gone: Vec<&[u8]> = Vec::new();
    if let Some(hash) = call.keyspace.write_as::<Hash>(key)? {
        let expired = purge(hash, now);
        for field in &call.args[2..] {
            if hash.remove(field, now) {
                removed += 1;
                if wanted {
                    gone.push(field);
                }
            }
            if hash.is_empty() {
                break;
            }
        }
        let empty = hash.is_empty();
        call.keyspace.finish_change_expiring(Event::hash("hdel"), key, removed, expired, empty);
        call.keyspace.notify_members(Event::hash("hdel"), key, gone);
    }
    call.reply.integer(removed as i64);
    Ok(())
}

pub(super) fn hincrby(call: &mut Call) -> CommandResult {
    let (key, field, now, limits) =
        (call.args[1], call.args[2], call.now(), limits::hash_limits(call.engine));
    let increment = call.integer_arg(3)?;
    let hash = call.keyspace.write_or_create(key, Hash::new)?;
    let expired = purge(hash, now);
    let sum = match hash.get(field, now) {
        None => Ok(increment),
        Some(value) => match value.as_i64() {
            None => Err("ERR hash value is not an integer"),
            Some(number) => number.checked_add(increment).ok_or("ERR increment or decrement would overflow"),
        },
    };
    if let Ok(sum) = sum {
        hash.set(field, itoa::Buffer::new().format(sum).as_bytes(), Expiry::Keep, now, &limits);
    }
    call.keyspace.finish_change_expiring(Event::hash("hincrby"), key, u64::from(sum.is_ok()), expired, false);
    call.keyspace.notify_members(Event::hash("hincrby"), key, sum.is_ok().then_some(field));
    let sum = sum.map_err(CommandError::text)?;
    call.reply.integer(sum);
    Ok(())
}

pub(super) fn hincrbyfloat(call: &mut Call) -> CommandResult {
    let (key, field, now, limits) =
        (call.args[1], call.args[2], call.now(), limits::hash_limits(call.engine));
    let increment = LongDouble::parse(call.args[3]).ok_or(CommandError::NotAFloat)?;
    if !increment.is_finite() {
        return Err(CommandError::text("ERR value is NaN or Infinity"));
    }
    let hash = call.keyspace.write_or_create(key, Hash::new)?;
    let expired = purge(hash, now);
    let old = match hash.get(field, now) {
        None => Ok(LongDouble::from_i64(0)),
        Some(value) => {
            LongDouble::parse(value.text(&mut itoa::Buffer::new())).ok_or("ERR hash value is not a float")
        }
    };
    let sum = old.map(|old| old.add(increment)).and_then(|sum| {
        if sum.is_finite() { Ok(sum) } else { Err("ERR increment would produce NaN or Infinity") }
    });
    let mut text = Vec::with_capacity(number::INTEGER_LEN_MAX * 2);
    let mut expires = false;
    if let Ok(sum) = sum {
        sum.write_human(&mut text);
        hash.set(field, &text, Expiry::Keep, now, &limits);
        expires = hash.expiry(field, now).flatten().is_some();
    }
    call.keyspace.finish_change_expiring(
        Event::hash("hincrbyfloat"),
        key,
        u64::from(sum.is_ok()),
        expired,
        false,
    );
    call.keyspace.notify_members(Event::hash("hincrbyfloat"), key, sum.is_ok().then_some(field));
    sum.map_err(CommandError::text)?;
    // Other servers may round differently, so the sum is journalled.
    match expires {
        _ if call.keyspace.journals_for_peers() => {}
        true => call.keyspace.journal_as(&[b"HSETEX", key, b"KEEPTTL", b"FIELDS", b"1", field, &text]),
        false => call.keyspace.journal_as(&[b"HSET", key, field, &text]),
    }
    call.reply.bulk(&text);
    Ok(())
}
