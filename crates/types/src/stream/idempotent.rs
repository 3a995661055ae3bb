// SPDX-License-Identifier: BSD-3-Clause
//! Entries that producers name themselves, so that sending one again does not add it again: the
//! options IDMP and IDMPAUTO of XADD, XCFGSET and XIDMPRECORD.
//!
//! The journal describes such an entry by XADD with its ID, as any other, and its name by an XACK
//! that does nothing on stock servers ([`Journalled`]): a request that one of them does not know
//! would make it discard the whole transaction.

use braid_base::number;
use braid_executor::Call;
use braid_spec::{CommandError, CommandResult};
use braid_values::stream::idempotency::name_of;
use braid_values::stream::rewrite::Journalled;
use braid_values::stream::{Idempotency, Stream, StreamId};
use smallvec::SmallVec;

use super::strict_id;

/// The name of an entry, as in XADD's options.
#[derive(Clone, Copy)]
pub(super) struct Name<'a> {
    producer: &'a [u8],
    /// `None`: IDMPAUTO.
    id: Option<&'a [u8]>,
}

impl<'a> Name<'a> {
    /// Parses an option and its values; returns the number of values as well.
    pub(super) fn parse(args: &[&'a [u8]]) -> Option<(Name<'a>, usize)> {
        match args {
            [option, producer, id, ..] if option.eq_ignore_ascii_case(b"IDMP") => {
                Some((Name { producer, id: Some(id) }, 2))
            }
            [option, producer, ..] if option.eq_ignore_ascii_case(b"IDMPAUTO") => {
                Some((Name { producer, id: None }, 1))
            }
            _ => None,
        }
    }

    /// The name with its ID, given the entry's fields.
    pub(super) fn resolve(self, pairs: &[(&[u8], &[u8])]) -> Result<FullName<'a>, CommandError> {
        let id = match self.id {
            Some(id) => SmallVec::from_slice(id),
            None => SmallVec::from_slice(&name_of(pairs)),
        };
        let name = FullName { producer: self.producer, id };
        name.check()?;
        Ok(name)
    }
}

/// The name of an entry.
pub(super) struct FullName<'a> {
    producer: &'a [u8],
    id: SmallVec<[u8; 32]>,
}

impl FullName<'_> {
    fn check(&self) -> CommandResult {
        if self.producer.is_empty() || self.id.is_empty() {
            return Err(CommandError::text("ERR the producer ID and the idempotent ID can't be empty"));
        }
        Ok(())
    }

    /// The entry that the stream has under this name. It is counted as a duplicate.
    pub(super) fn find(&self, stream: &mut Stream, now_ms: u64) -> Option<StreamId> {
        let idempotency = stream.idempotency_mut()?;
        let id = idempotency.find(self.producer, &self.id, now_ms)?;
        idempotency.note_duplicate();
        Some(id)
    }

    /// Records the entry.
    pub(super) fn record(&self, stream: &mut Stream, defaults: Bounds, id: StreamId, now_ms: u64) {
        let new = || Idempotency::new(defaults.duration_s, defaults.names_max);
        stream.idempotency_or(new).record(self.producer, &self.id, id, now_ms);
    }

    pub(super) fn journal(&self, call: &mut Call, id: StreamId) {
        let request = Journalled::Name { producer: self.producer, name: &self.id };
        let words = request.words(call.args[1], id);
        call.keyspace.journal_as(&words.each_ref().map(|word| &word[..]));
    }
}

/// The bounds of streams that have none of their own.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    duration_s: u32,
    names_max: u32,
}

impl Bounds {
    pub(super) fn of(call: &Call) -> Bounds {
        let config = &call.engine.config;
        Bounds { duration_s: config.stream_idmp_duration(), names_max: config.stream_idmp_maxsize() }
    }
}

/// Peers merge entries, but know nothing of names.
pub(super) fn check_mode(call: &Call) -> CommandResult {
    match call.engine.active {
        Some(_) => Err(CommandError::text("ERR idempotent producers are unavailable with active-replica")),
        None => Ok(()),
    }
}

/// Reads an XACK of the journal that stands for a name or for bounds. False if it is none.
pub(super) fn replay(call: &mut Call) -> Result<bool, CommandError> {
    let args = call.args;
    let (now, bounds) = (call.clock_ms().max(0) as u64, Bounds::of(call));
    let Some(request) = Journalled::parse(args[2]) else { return Ok(false) };
    let id = strict_id(args[3], 0)?;
    let Some(stream) = call.keyspace.write_as::<Stream>(args[1])? else { return Ok(false) };
    if stream.groups().get(args[2]).is_some() {
        return Ok(false);
    }
    let new = || Idempotency::new(bounds.duration_s, bounds.names_max);
    let all = stream.idempotency_or(new);
    match request {
        Journalled::Name { producer, name } => all.record(producer, name, id, now),
        Journalled::Bounds { duration_s, names_max } => all.configure(duration_s, names_max),
        Journalled::Totals { added, duplicates } => all.set_totals(added, duplicates),
    }
    call.keyspace.count_changes(1);
    call.reply.integer(0);
    Ok(true)
}

pub fn xcfgset(call: &mut Call) -> CommandResult {
    let args = call.args;
    let (mut duration, mut most) = (None, None);
    let mut rest = &args[2..];
    while let [option, value, after @ ..] = rest {
        let bounded = |max: u32, error: &'static str| {
            let value = number::parse_i64(value).ok_or(CommandError::NotAnInteger)?;
            let value = u32::try_from(value).ok().filter(|value| (1..=max).contains(value));
            value.ok_or(CommandError::text(error))
        };
        if option.eq_ignore_ascii_case(b"IDMP-DURATION") {
            duration = Some(bounded(Idempotency::DURATION_MAX_S, "ERR invalid duration")?);
        } else if option.eq_ignore_ascii_case(b"IDMP-MAXSIZE") {
            most = Some(bounded(Idempotency::NAMES_MAX, "ERR invalid maxsize")?);
        } else {
            return Err(CommandError::Syntax);
        }
        rest = after;
    }
    if !rest.is_empty() || (duration.is_none() && most.is_none()) {
        return Err(CommandError::Syntax);
    }
    check_mode(call)?;
    let defaults = Bounds::of(call);
    let Some(stream) = call.keyspace.write_as::<Stream>(args[1])? else {
        return Err(CommandError::NoSuchKey);
    };
    let new = || Idempotency::new(defaults.duration_s, defaults.names_max);
    let idempotency = stream.idempotency_or(new);
    let duration = duration.unwrap_or(idempotency.duration_s());
    let most = most.unwrap_or(idempotency.names_max());
    idempotency.configure(duration, most);
    call.keyspace.count_changes(1);
    let words = Journalled::Bounds { duration_s: duration, names_max: most }.words(args[1], StreamId::LEAST);
    call.keyspace.journal_as(&words.each_ref().map(|word| &word[..]));
    call.reply.ok();
    Ok(())
}

pub fn xidmprecord(call: &mut Call) -> CommandResult {
    let args = call.args;
    let name = FullName { producer: args[2], id: SmallVec::from_slice(args[3]) };
    name.check()?;
    let id = strict_id(args[4], 0)?;
    check_mode(call)?;
    let (now, defaults) = (call.clock_ms().max(0) as u64, Bounds::of(call));
    let Some(stream) = call.keyspace.write_as::<Stream>(args[1])? else {
        return Err(CommandError::NoSuchKey);
    };
    let known = stream.idempotency().and_then(|all| all.find(name.producer, &name.id, now));
    match known {
        Some(known) if known == id => {
            call.reply.ok();
            return Ok(());
        }
        Some(_) => {
            return Err(CommandError::text("ERR the idempotent ID belongs to another entry already"));
        }
        None => {}
    }
    if !stream.log().contains(id) {
        return Err(CommandError::text("ERR no such entry in the stream"));
    }
    name.record(stream, defaults, id, now);
    call.keyspace.count_changes(1);
    name.journal(call, id);
    call.reply.ok();
    Ok(())
}
