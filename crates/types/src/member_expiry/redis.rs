// SPDX-License-Identifier: BSD-3-Clause
//! Hash commands with field times as Redis 8 reads them, on a server that reports such a version
//! (`redis-version`): each option once, its order of checks, its words for errors.
//!
//! Only what clients send is read this way. The journal of another server may have options that
//! only Valkey knows, and it must be repeated whatever version this server reports.

use std::borrow::Cow;

use braid_base::number;
use braid_executor::{Call, limits};
use braid_spec::{CommandError, CommandResult};

use super::Members;
use crate::lifetime::{Condition, Lifetime, Unit};

const MISPLACED: CommandError =
    fixed("ERR Mandatory argument FIELDS is missing or not at the right position");
const MISMATCH: CommandError = fixed("ERR The `numfields` parameter must match the number of arguments");
const NOT_POSITIVE: CommandError = fixed("ERR Number of fields must be a positive integer");

const fn fixed(text: &'static str) -> CommandError {
    CommandError::Text(Cow::Borrowed(text))
}

/// True if the command is one of Redis 8, and is to be read as there.
pub(crate) fn follows<T: Members>(call: &Call) -> bool {
    T::IN_REDIS && call.engine.process.follows_redis_8() && !call.replays()
}

/// The last time in ms since the Unix epoch (in the year 4199) that Redis accepts for a field.
pub(crate) const TIME_MAX: i64 = (1 << 46) - 1;

/// Parses the time of a member. Times of hash fields that Redis refuses are refused if the server
/// reports its version, or writes files for it: it could not repeat the change.
pub(crate) fn member_deadline<T: Members>(
    call: &Call,
    unit: Unit,
    text: &[u8],
    least: i64,
) -> Result<i64, CommandError> {
    if follows::<T>(call) && number::parse_i64(text).is_some_and(|time| time < 0) {
        return Err(fixed("ERR invalid expire time, must be >= 0"));
    }
    let at = unit.deadline(call, text, least)?;
    let refused = T::IN_REDIS && at > TIME_MAX && !call.replays() && limits::serves_redis_8(call.engine);
    if refused { Err(call.invalid_expire()) } else { Ok(at) }
}

/// The fields from argument `at` on: FIELDS, their number, and the fields.
pub(crate) fn fields<'a>(
    args: &'a [&'a [u8]],
    at: usize,
    not_positive: CommandError,
) -> Result<&'a [&'a [u8]], CommandError> {
    let [word, count, fields @ ..] = &args[at..] else { return Err(MISPLACED) };
    if !word.eq_ignore_ascii_case(b"FIELDS") {
        return Err(MISPLACED);
    }
    let count = number::parse_i64(count).filter(|count| *count > 0).ok_or(not_positive)?;
    if usize::try_from(count) == Ok(fields.len()) { Ok(fields) } else { Err(MISMATCH) }
}

/// The fields of a command whose word FIELDS is always argument 2.
pub(crate) fn fixed_fields<'a>(args: &'a [&'a [u8]]) -> Result<&'a [&'a [u8]], CommandError> {
    fields(args, 2, NOT_POSITIVE)
}

/// What HEXPIRE and its relatives are to do.
pub(crate) struct Expire<'a> {
    pub at: i64,
    pub condition: Condition,
    pub members: &'a [&'a [u8]],
}

impl<'a> Expire<'a> {
    pub(crate) fn parse<T: Members>(call: &Call<'a, '_>, unit: Unit) -> Result<Expire<'a>, CommandError> {
        let args = call.args;
        let at = member_deadline::<T>(call, unit, args[2], 0)?;
        let option = &args[3..4];
        let (condition, from) = match Condition::parse(option) {
            Ok(condition) => (condition, 4),
            Err(_) => (Condition::default(), 3),
        };
        let refused = fixed("ERR Parameter `numFields` should be greater than 0");
        Ok(Expire { at, condition, members: fields(args, from, refused)? })
    }
}

/// A time that an option states: its words must not be more than once.
fn stated_time<T: Members>(
    call: &Call,
    word: &[u8],
    text: Option<&&[u8]>,
) -> Option<Result<i64, CommandError>> {
    let unit = Unit::named(word)?;
    let text = text.ok_or(CommandError::Syntax);
    Some(text.and_then(|text| member_deadline::<T>(call, unit, text, 0)))
}

/// What HGETEX is to do.
pub(crate) struct Get<'a> {
    pub at: Option<i64>,
    pub persists: bool,
    pub fields: &'a [&'a [u8]],
}

impl<'a> Get<'a> {
    pub(crate) fn parse<T: Members>(call: &Call<'a, '_>) -> Result<Get<'a>, CommandError> {
        let args = call.args;
        let at = stated_time::<T>(call, args[2], args.get(3)).transpose()?;
        let persists = call.arg_is(2, "PERSIST");
        let from = 2 + usize::from(persists) + 2 * usize::from(at.is_some());
        Ok(Get { at, persists, fields: fields(args, from, NOT_POSITIVE)? })
    }
}

/// What HSETEX is to do.
#[derive(Default)]
pub(crate) struct Set<'a> {
    pub at: Option<i64>,
    pub keeps: bool,
    /// Whether the fields must exist, or must not.
    pub present: Option<bool>,
    pub pairs: &'a [&'a [u8]],
}

impl<'a> Set<'a> {
    pub(crate) fn parse<T: Members>(call: &Call<'a, '_>) -> Result<Set<'a>, CommandError> {
        let mut set = Set::default();
        let mut rest = call.args.get(2..).unwrap_or_default();
        while let [word, after @ ..] = rest {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            let is_timed = set.at.is_some() || set.keeps;
            rest = after;
            if is("FIELDS") {
                set.pairs = pairs(call, after)?;
                return Ok(set);
            } else if is("FNX") || is("FXX") {
                if set.present.is_some() {
                    return Err(fixed("ERR Only one of FXX or FNX arguments can be specified"));
                }
                set.present = Some(is("FXX"));
            } else if is_timed && (is("KEEPTTL") || Unit::named(word).is_some()) {
                return Err(fixed(
                    "ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified",
                ));
            } else if is("KEEPTTL") {
                set.keeps = true;
            } else if let Some(at) = stated_time::<T>(call, word, after.first()) {
                set.at = Some(at?);
                rest = &after[1..];
            } else {
                return Err(CommandError::quoting("ERR unknown argument: ", word, ""));
            }
        }
        Err(call.wrong_arity())
    }

    /// The time as an option, for the code that both readings share.
    pub(crate) fn lifetime(&self) -> Lifetime<'a> {
        if self.keeps { Lifetime::Keep } else { Lifetime::Unsaid }
    }
}

/// The number of fields, fields and values after FIELDS.
fn pairs<'a>(call: &Call, after: &'a [&'a [u8]]) -> Result<&'a [&'a [u8]], CommandError> {
    let [count, pairs @ ..] = after else { return Err(call.wrong_arity()) };
    if pairs.len() < 2 {
        return Err(call.wrong_arity());
    }
    let count = number::parse_i64(count).filter(|count| (1..=i64::from(i32::MAX)).contains(count));
    let count = count.ok_or(fixed("ERR invalid number of fields"))?;
    if usize::try_from(count).is_ok_and(|count| count * 2 == pairs.len()) {
        Ok(pairs)
    } else {
        Err(call.wrong_arity())
    }
}

/// Checks the type of a key before anything else, as Redis does for commands that change a hash.
pub(crate) fn check_type<T: Members>(call: &mut Call) -> CommandResult {
    let key = call.args[1];
    call.keyspace.write_as::<T>(key)?;
    Ok(())
}
