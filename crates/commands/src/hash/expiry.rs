//! The expiry of single fields: HEXPIRE and its relatives, with the replies of Valkey 9.
//!
//! Redis 8 knows the same commands and replies alike, but words its refusals differently and takes one
//! condition only.

use crate::expire::Condition;
use braid_base::number;
use braid_containers::hash::Hash;
use braid_engine::{Call, CommandError, CommandResult};

use super::purge;

/// The refusal of a number of fields that is not theirs.
pub(super) const NUMFIELDS: &str =
    "ERR numfields should be greater than 0 and match the provided number of fields";

/// What a field's reply says.
const NO_FIELD: i64 = -2;
const NO_EXPIRY: i64 = -1;
const NOT_SET: i64 = 0;
const SET: i64 = 1;
const DELETED: i64 = 2;

/// The arguments of a command with options in front of FIELDS.
pub(super) struct Arguments<'a> {
    pub options: &'a [&'a [u8]],
    /// FIELDS' argument: how many fields there should be.
    pub count: Option<&'a [u8]>,
    /// What stands behind that number.
    pub fields: &'a [&'a [u8]],
}

impl<'a> Arguments<'a> {
    /// Finds FIELDS, from argument `from` on.
    pub fn parse(args: &'a [&'a [u8]], from: usize) -> Result<Arguments<'a>, CommandError> {
        let at = args[from..].iter().position(|arg| arg.eq_ignore_ascii_case(b"fields"));
        let at = from + at.ok_or(CommandError::text(NUMFIELDS))?;
        let fields = args.get(at + 2..).unwrap_or_default();
        Ok(Arguments { options: &args[from..at], count: args.get(at + 1).copied(), fields })
    }

    /// Checks that there are as many fields, of `width` arguments each, as there should be.
    pub fn check_count(&self, width: usize) -> CommandResult {
        let count = self.count.ok_or(CommandError::text(NUMFIELDS))?;
        check_count(count, self.fields.len(), width, CommandError::text(NUMFIELDS))
    }
}

/// Checks a number of fields against the arguments that hold them.
fn check_count(count: &[u8], given: usize, width: usize, refusal: CommandError) -> CommandResult {
    let count = number::parse_i64(count).ok_or(CommandError::NotAnInteger)?;
    let matches = usize::try_from(count).ok().and_then(|count| count.checked_mul(width)) == Some(given);
    if count > 0 && matches { Ok(()) } else { Err(refusal) }
}

/// The fields of a command whose FIELDS has its place at argument 2.
pub(super) fn fixed_fields<'a>(
    call: &Call<'a, '_>,
    refusal: CommandError,
) -> Result<&'a [&'a [u8]], CommandError> {
    if !call.arg_is(2, "fields") {
        return Err(CommandError::Syntax);
    }
    check_count(call.args[3], call.args.len() - 4, 1, refusal)?;
    Ok(&call.args[4..])
}

/// A time from an argument, counted in `unit_ms` from `base`, in ms since the Unix epoch.
pub(super) fn deadline(call: &Call, text: &[u8], base: i64, unit_ms: i64) -> Result<i64, CommandError> {
    let given = number::parse_i64(text).ok_or(CommandError::NotAnInteger)?;
    given
        .checked_mul(unit_ms)
        .and_then(|time| time.checked_add(base))
        .filter(|_| given >= 0)
        .ok_or_else(|| call.invalid_expire())
}

pub(super) fn hexpire(call: &mut Call) -> CommandResult {
    let now = call.now();
    set_expiry(call, now, 1000)
}

pub(super) fn hpexpire(call: &mut Call) -> CommandResult {
    let now = call.now();
    set_expiry(call, now, 1)
}

pub(super) fn hexpireat(call: &mut Call) -> CommandResult {
    set_expiry(call, 0, 1000)
}

pub(super) fn hpexpireat(call: &mut Call) -> CommandResult {
    set_expiry(call, 0, 1)
}

fn set_expiry(call: &mut Call, base: i64, unit_ms: i64) -> CommandResult {
    let (key, now) = (call.args[1], call.now());
    let arguments = Arguments::parse(call.args, 3)?;
    let condition = Condition::parse(arguments.options)?;
    arguments.check_count(1)?;
    condition.check()?;
    let at = deadline(call, call.args[2], base, unit_ms)?;
    call.reply.array(arguments.fields.len());
    let Some(hash) = call.keyspace.write_as::<Hash>(key)? else {
        arguments.fields.iter().for_each(|_| call.reply.integer(NO_FIELD));
        return Ok(());
    };
    let expired = purge(hash, now);
    let mut changes = 0;
    for field in arguments.fields {
        let outcome = match hash.expiry(field, now) {
            None => NO_FIELD,
            Some(present) if !condition.allows(present, at) => NOT_SET,
            Some(_) if at <= now => {
                hash.remove(field, now);
                DELETED
            }
            Some(_) => {
                hash.set_expiry(field, Some(at), now);
                SET
            }
        };
        changes += u64::from(outcome == SET || outcome == DELETED);
        call.reply.integer(outcome);
    }
    let empty = hash.is_empty();
    if changes > 0 || expired > 0 {
        call.keyspace.settle(key, changes, empty);
    }
    Ok(())
}

pub(super) fn hpersist(call: &mut Call) -> CommandResult {
    let (key, now) = (call.args[1], call.now());
    let fields = fixed_fields(call, CommandError::text(NUMFIELDS))?;
    call.reply.array(fields.len());
    let Some(hash) = call.keyspace.write_as::<Hash>(key)? else {
        fields.iter().for_each(|_| call.reply.integer(NO_FIELD));
        return Ok(());
    };
    let expired = purge(hash, now);
    let mut changes = 0;
    for field in fields {
        let outcome = match hash.expiry(field, now) {
            None => NO_FIELD,
            Some(None) => NO_EXPIRY,
            Some(Some(_)) => {
                hash.set_expiry(field, None, now);
                changes += 1;
                SET
            }
        };
        call.reply.integer(outcome);
    }
    let empty = hash.is_empty();
    if changes > 0 || expired > 0 {
        call.keyspace.settle(key, changes, empty);
    }
    Ok(())
}

/// The nearest number of seconds.
fn to_seconds(ms: i64) -> i64 {
    ms.saturating_add(500) / 1000
}

pub(super) fn httl(call: &mut Call) -> CommandResult {
    let now = call.now();
    reply_expiry(call, |at| to_seconds(at.saturating_sub(now).max(0)))
}

pub(super) fn hpttl(call: &mut Call) -> CommandResult {
    let now = call.now();
    reply_expiry(call, |at| at.saturating_sub(now).max(0))
}

pub(super) fn hexpiretime(call: &mut Call) -> CommandResult {
    reply_expiry(call, to_seconds)
}

pub(super) fn hpexpiretime(call: &mut Call) -> CommandResult {
    reply_expiry(call, |at| at)
}

/// Replies with what `express` makes of each field's expiry.
fn reply_expiry(call: &mut Call, express: impl Fn(i64) -> i64) -> CommandResult {
    let now = call.now();
    let fields = fixed_fields(call, CommandError::Syntax)?;
    let hash = call.keyspace.read_as::<Hash>(call.args[1])?;
    call.reply.array(fields.len());
    for field in fields {
        let number = match hash.and_then(|hash| hash.expiry(field, now)) {
            None => NO_FIELD,
            Some(None) => NO_EXPIRY,
            Some(Some(at)) => express(at),
        };
        call.reply.integer(number);
    }
    Ok(())
}
