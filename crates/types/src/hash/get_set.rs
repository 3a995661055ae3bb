// SPDX-License-Identifier: BSD-3-Clause
//! Reading and setting fields together with their expiry: HGETEX, HSETEX, HGETDEL, as in Valkey 9,
//! or as in Redis 8 if the server reports its version (`crate::member_expiry::redis`).

use braid_executor::{Call, limits};
use braid_keyspace::Event;
use braid_keyspace::events::{DEL, NEW};
use braid_spec::{CommandError, CommandResult};
use braid_values::hash::{Expiry, Hash};

use super::reply_field;
use crate::collection::purge;
use crate::lifetime::Lifetime;
use crate::member_expiry::{Arguments, Members, fixed_members, journal_members, redis};

/// A condition on the existence of a key or field.
#[derive(Clone, Copy, Default, PartialEq)]
enum Presence {
    #[default]
    Any,
    Absent,
    Present,
}

impl Presence {
    fn allows(self, there: bool) -> bool {
        match self {
            Presence::Any => true,
            Presence::Absent => !there,
            Presence::Present => there,
        }
    }

    /// Applies an option; false if it contradicts an earlier one.
    fn set(&mut self, wanted: Presence) -> bool {
        let agrees = *self == Presence::Any || *self == wanted;
        *self = wanted;
        agrees
    }
}

/// The options; they may be repeated, but must not contradict each other.
#[derive(Default)]
struct Options<'a> {
    lifetime: Lifetime<'a>,
    key: Presence,
    fields: Presence,
}

impl<'a> Options<'a> {
    /// Parses HSETEX options (`sets`) or HGETEX options.
    fn parse(options: &[&'a [u8]], sets: bool) -> Result<Options<'a>, CommandError> {
        let mut parsed = Options::default();
        let mut rest = options;
        while let [word, after @ ..] = rest {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            rest = after;
            let agrees = if sets && is("nx") {
                parsed.key.set(Presence::Absent)
            } else if sets && is("xx") {
                parsed.key.set(Presence::Present)
            } else if sets && is("fnx") {
                parsed.fields.set(Presence::Absent)
            } else if sets && is("fxx") {
                parsed.fields.set(Presence::Present)
            } else if sets && is("keepttl") {
                parsed.lifetime.say(Lifetime::Keep)
            } else if !sets && is("persist") {
                parsed.lifetime.say(Lifetime::Persist)
            } else {
                rest = after.get(1..).unwrap_or_default();
                parsed.lifetime.say_time(word, after.first().copied())
            };
            if !agrees {
                return Err(CommandError::Syntax);
            }
        }
        Ok(parsed)
    }

    /// The given time, if any, in ms since the Unix epoch.
    fn deadline(&self, call: &Call) -> Result<Option<i64>, CommandError> {
        let Lifetime::Until(unit, text) = self.lifetime else { return Ok(None) };
        redis::member_deadline::<Hash>(call, unit, text, 0).map(Some)
    }
}

pub(super) fn hgetex(call: &mut Call) -> CommandResult {
    let (key, now) = (call.args[1], call.now());
    let redis::Get { at, persists, fields } = if redis::follows::<Hash>(call) {
        redis::check_type::<Hash>(call)?;
        redis::Get::parse::<Hash>(call)?
    } else {
        let arguments = Arguments::parse::<Hash>(call.args, 2)?;
        let options = Options::parse(arguments.options, false)?;
        arguments.check_count::<Hash>(1)?;
        call.keyspace.write_as::<Hash>(key)?;
        let persists = options.lifetime == Lifetime::Persist;
        redis::Get { at: options.deadline(call)?, persists, fields: arguments.members }
    };
    call.reply.array(fields.len());
    let Some(hash) = call.keyspace.write_as::<Hash>(key)? else {
        fields.iter().for_each(|_| call.reply.null());
        return Ok(());
    };
    let expired = purge(hash, now);
    let mut changed: Vec<&[u8]> = Vec::new();
    for field in fields {
        reply_field(call.reply, Some(hash), field, now);
        let Some(present) = hash.expiry(field, now) else { continue };
        match at {
            Some(at) if at <= now => {
                hash.remove(field, now);
                changed.push(field);
            }
            Some(at) => {
                hash.set_expiry(field, Some(at), now);
                changed.push(field);
            }
            None if persists && present.is_some() => {
                hash.set_expiry(field, None, now);
                changed.push(field);
            }
            None => {}
        }
    }
    let (empty, changes) = (hash.is_empty(), changed.len() as u64);
    let event = Event::hash(match at {
        Some(at) if at <= now => "hdel",
        Some(_) => "hexpire",
        None => "hpersist",
    });
    call.keyspace.finish_change_expiring(event, key, changes, expired, empty);
    call.keyspace.notify_members(event, key, changed);
    if changes > 0 {
        journal_members::<Hash>(call.keyspace, key, at, fields);
    }
    if at.is_some() {
        call.keyspace.note_member_expiry(key);
    }
    Ok(())
}

pub(super) fn hsetex(call: &mut Call) -> CommandResult {
    let (key, now, limits) = (call.args[1], call.now(), limits::hash_limits(call.engine));
    let (options, members, stated) = if redis::follows::<Hash>(call) {
        let set = redis::Set::parse::<Hash>(call)?;
        let fields = match set.present {
            None => Presence::Any,
            Some(true) => Presence::Present,
            Some(false) => Presence::Absent,
        };
        (Options { lifetime: set.lifetime(), key: Presence::Any, fields }, set.pairs, set.at)
    } else {
        let arguments = Arguments::parse::<Hash>(call.args, 2)?;
        let options = Options::parse(arguments.options, true)?;
        arguments.check_count::<Hash>(2)?;
        (options, arguments.members, None)
    };
    let there = call.keyspace.write_as::<Hash>(key)?.is_some();
    // As in Valkey, the time is checked after the key's condition and before the fields'.
    if !options.key.allows(there) {
        call.reply.integer(0);
        return Ok(());
    }
    let at = if stated.is_some() { stated } else { options.deadline(call)? };
    let pairs = || members.chunks_exact(2);
    let allowed = {
        let hash = call.keyspace.write_as::<Hash>(key)?;
        let has = |field: &[u8]| hash.as_ref().is_some_and(|hash| hash.contains(field, now));
        pairs().all(|pair| options.fields.allows(has(pair[0])))
    };
    call.reply.integer(i64::from(allowed));
    if !allowed {
        return Ok(());
    }
    if at.is_some_and(|at| at <= now) {
        // Already expired when set: the effect is the removal of the existing fields. Clients are
        // notified of both, and every field counts as changed, as in Redis.
        let (hdel, changes) = (Event::hash("hdel"), pairs().count() as u64);
        match call.keyspace.write_as::<Hash>(key)? {
            Some(hash) => {
                let expired = purge(hash, now);
                for pair in pairs() {
                    hash.remove(pair[0], now);
                }
                let empty = hash.is_empty();
                call.keyspace.notify(Event::hash("hset"), key);
                call.keyspace.finish_change_expiring(hdel, key, changes, expired, empty);
            }
            None => {
                call.keyspace.notify(NEW, key);
                call.keyspace.notify(Event::hash("hset"), key);
                call.keyspace.changed(hdel, key);
                call.keyspace.count_changes(changes - 1);
                call.keyspace.notify(DEL, key);
            }
        }
        let fields = pairs().map(|pair| pair[0]);
        call.keyspace.notify_members(Event::hash("hset"), key, fields.clone());
        call.keyspace.notify_members(hdel, key, fields.clone());
        call.keyspace.journal_as(&[b"HDEL", key].into_iter().chain(fields).collect::<Vec<_>>());
        return Ok(());
    }
    let expiry = match (options.lifetime, at) {
        (_, Some(at)) => Expiry::At(at),
        (Lifetime::Keep, None) => Expiry::Keep,
        _ => Expiry::Clear,
    };
    let hash = call.keyspace.write_or_create(key, Hash::new)?;
    let expired = purge(hash, now);
    hash.expect(members.iter().copied(), &limits);
    for pair in pairs() {
        hash.set(pair[0], pair[1], expiry, now, &limits);
    }
    let count = members.len() as u64 / 2;
    call.keyspace.finish_change_expiring(Event::hash("hset"), key, count, expired, false);
    call.keyspace.notify_members(Event::hash("hset"), key, pairs().map(|pair| pair[0]));
    journal_set(call, key, expiry, members);
    if at.is_some() {
        call.keyspace.notify(Event::hash("hexpire"), key);
        call.keyspace.notify_members(Event::hash("hexpire"), key, pairs().map(|pair| pair[0]));
        call.keyspace.note_member_expiry(key);
    }
    Ok(())
}

/// Journals fields set under a condition or with a relative time, without the condition and with
/// an absolute time. A server that cannot repeat the time must not lose the values: one that Redis
/// refuses is journalled apart from them.
fn journal_set(call: &mut Call, key: &[u8], expiry: Expiry, pairs: &[&[u8]]) {
    let late = match expiry {
        Expiry::At(at) if at > redis::TIME_MAX => Some(at),
        _ => None,
    };
    if late.is_some() || expiry == Expiry::Clear {
        call.keyspace.journal_as(&[&[&b"HSET"[..], key], pairs].concat());
        if late.is_some() {
            let fields: Vec<&[u8]> = pairs.chunks_exact(2).map(|pair| pair[0]).collect();
            journal_members::<Hash>(call.keyspace, key, late, &fields);
        }
        return;
    }
    let mut args: Vec<&[u8]> = vec![b"HSETEX", key];
    let mut buffer = itoa::Buffer::new();
    match expiry {
        Expiry::At(at) => args.extend([&b"PXAT"[..], buffer.format(at).as_bytes()]),
        _ => args.push(b"KEEPTTL"),
    }
    let mut buffer = itoa::Buffer::new();
    args.extend([&b"FIELDS"[..], buffer.format(pairs.len() / 2).as_bytes()]);
    args.extend(pairs);
    call.keyspace.journal_as(&args);
}

pub(super) fn hgetdel(call: &mut Call) -> CommandResult {
    let (key, now) = (call.args[1], call.now());
    if redis::follows::<Hash>(call) {
        redis::check_type::<Hash>(call)?;
    }
    let fields = fixed_members::<Hash>(call, CommandError::text(Hash::COUNT_REFUSED))?;
    call.reply.array(fields.len());
    let Some(hash) = call.keyspace.write_as::<Hash>(key)? else {
        fields.iter().for_each(|_| call.reply.null());
        return Ok(());
    };
    let expired = purge(hash, now);
    let mut request: Vec<&[u8]> = vec![b"HDEL", key];
    for field in fields {
        reply_field(call.reply, Some(hash), field, now);
        if hash.remove(field, now) {
            request.push(field);
        }
    }
    let (empty, removed) = (hash.is_empty(), request.len() as u64 - 2);
    call.keyspace.finish_change_expiring(Event::hash("hdel"), key, removed, expired, empty);
    call.keyspace.notify_members(Event::hash("hdel"), key, request[2..].iter().copied());
    // Servers that lack the command repeat the removal.
    if removed > 0 {
        call.keyspace.journal_as(&request);
    }
    Ok(())
}
