// SPDX-License-Identifier: BSD-3-Clause
//! INCREX: an increment with bounds and an expiry, in one step, as for rate limits.
//!
//! The journal describes it with requests that every server knows: the value as SET with the
//! time, or, between peers whose increments add up, the amount that was added and the time.

use std::cmp::Ordering;

use braid_base::long_double::LongDouble;
use braid_base::number;
use braid_executor::Call;
use braid_keyspace::txn::StringRef;
use braid_keyspace::{Event, Expiry, Value, journal_as};
use braid_spec::{CommandError, CommandResult};

use crate::lifetime::{Lifetime, expire_at};

const NOT_FINITE: &str = "ERR increment would produce NaN or Infinity";
const OVERFLOW: &str = "ERR increment or decrement would overflow";
const BOUNDS: &str = "ERR LBOUND can't be greater than UBOUND";

/// The increment as given; 1 if none is.
#[derive(Clone, Copy, Default)]
enum By<'a> {
    #[default]
    One,
    Integer(&'a [u8]),
    Float(&'a [u8]),
}

#[derive(Default)]
struct Options<'a> {
    by: By<'a>,
    lower: Option<&'a [u8]>,
    upper: Option<&'a [u8]>,
    /// A sum out of bounds becomes the bound; otherwise nothing changes.
    saturate: bool,
    lifetime: Lifetime<'a>,
    /// ENX: an expiry that the key has stays.
    only_without_expiry: bool,
    /// NX (false) or XX (true), options of Valkey's: whether the key must exist.
    exists: Option<bool>,
}

impl<'a> Options<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Options<'a>, CommandError> {
        let mut options = Options::default();
        let mut rest = args.iter().copied();
        while let Some(word) = rest.next() {
            let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
            if is("SATURATE") {
                options.saturate = true;
            } else if is("ENX") {
                options.only_without_expiry = true;
            } else if (is("NX") || is("XX")) && options.exists.is_none_or(|exists| exists == is("XX")) {
                options.exists = Some(is("XX"));
            } else if is("PERSIST") && options.lifetime.say(Lifetime::Persist) {
            } else {
                let value = rest.next().ok_or(CommandError::Syntax)?;
                match () {
                    () if is("BYINT") && matches!(options.by, By::One) => options.by = By::Integer(value),
                    () if is("BYFLOAT") && matches!(options.by, By::One) => options.by = By::Float(value),
                    () if is("LBOUND") && options.lower.is_none() => options.lower = Some(value),
                    () if is("UBOUND") && options.upper.is_none() => options.upper = Some(value),
                    () if options.lifetime.say_time(word, Some(value)) => {}
                    () => return Err(CommandError::Syntax),
                }
            }
        }
        if options.only_without_expiry && !matches!(options.lifetime, Lifetime::Until(..)) {
            return Err(CommandError::Syntax);
        }
        Ok(options)
    }

    /// The expiry of the value, and whether an expiry that the key has is removed.
    fn expiry(&self, call: &Call) -> Result<Expiry, CommandError> {
        Ok(match self.lifetime {
            Lifetime::Until(unit, text) => {
                let at = unit.deadline(call, text, 1)?;
                let keeps = self.only_without_expiry && has_expiry(call);
                if keeps { Expiry::Keep } else { Expiry::At(at) }
            }
            Lifetime::Persist if has_expiry(call) => Expiry::Clear,
            _ => Expiry::Keep,
        })
    }
}

fn has_expiry(call: &Call) -> bool {
    call.keyspace.peek(call.args[1]).is_some_and(|entry| entry.has_expiry())
}

/// A change that has been decided on.
struct Change<'a> {
    event: Event,
    value: Value<'a>,
    /// The value as text.
    text: &'a [u8],
    /// The command that adds `amount` to a value, for peers.
    command: &'a [u8],
    amount: &'a [u8],
    expiry: Expiry,
}

impl Change<'_> {
    fn apply(self, call: &mut Call) {
        let key = call.args[1];
        let is_past = |at: &i64| *at <= call.now() && !call.engine.config.import_mode();
        if let Expiry::At(at) = self.expiry
            && is_past(&at)
        {
            call.keyspace.update(self.event, key, self.value, Expiry::Keep);
            // Deletes the key, and journals that only.
            return expire_at(call, key, at);
        }
        call.keyspace.update(self.event, key, self.value, self.expiry);
        if call.keyspace.journals_for_peers() {
            call.keyspace.journal_as(&[self.command, key, self.amount]);
            match self.expiry {
                Expiry::At(at) => journal_as!(call.keyspace, b"PEXPIREAT", key, at),
                Expiry::Clear => call.keyspace.journal_as(&[b"PERSIST", key]),
                Expiry::Keep => {}
            }
            return;
        }
        match self.expiry {
            Expiry::At(at) => journal_as!(call.keyspace, b"SET", key, self.text, b"PXAT", at),
            Expiry::Clear => call.keyspace.journal_as(&[b"SET", key, self.text]),
            Expiry::Keep => call.keyspace.journal_as(&[b"SET", key, self.text, b"KEEPTTL"]),
        }
    }
}

pub(super) fn increx(call: &mut Call) -> CommandResult {
    let options = Options::parse(&call.args[2..])?;
    let expiry = options.expiry(call)?;
    if let Some(exists) = options.exists
        && call.keyspace.look_at(call.args[1]).is_some() != exists
    {
        call.reply.null();
        return Ok(());
    }
    match options.by {
        By::One => add_integer(call, &options, 1, expiry),
        By::Integer(text) => {
            let by = number::parse_i64(text).ok_or(CommandError::NotAnInteger)?;
            add_integer(call, &options, by, expiry)
        }
        By::Float(text) => add_float(call, &options, text, expiry),
    }
}

fn add_integer(call: &mut Call, options: &Options, by: i64, expiry: Expiry) -> CommandResult {
    let bound = |text: Option<&[u8]>, missing: i64| match text {
        None => Ok(missing),
        Some(text) => number::parse_i64(text).ok_or(CommandError::NotAnInteger),
    };
    let (lower, upper) = (bound(options.lower, i64::MIN)?, bound(options.upper, i64::MAX)?);
    if lower > upper {
        return Err(CommandError::text(BOUNDS));
    }
    let value = match call.keyspace.string_for_change(call.args[1])? {
        None => Some(0),
        Some(StringRef::Integer(number)) => Some(number),
        Some(text) => number::parse_i64(text.bytes(&mut [0; 20])),
    };
    let value = value.ok_or(CommandError::NotAnInteger)?;
    let exact = i128::from(value) + i128::from(by);
    let sum = exact.clamp(i128::from(lower), i128::from(upper)) as i64;
    call.reply.array(2);
    if i128::from(sum) != exact && !options.saturate {
        call.reply.integer(value);
        call.reply.integer(0);
        return Ok(());
    }
    let amount = sum.checked_sub(value).ok_or(CommandError::text(OVERFLOW))?;
    let (mut text, mut added) = (itoa::Buffer::new(), itoa::Buffer::new());
    let change = Change {
        event: Event::string("incrby"),
        value: Value::Integer(sum),
        text: text.format(sum).as_bytes(),
        command: b"INCRBY",
        amount: added.format(amount).as_bytes(),
        expiry,
    };
    change.apply(call);
    call.reply.integer(sum);
    call.reply.integer(amount);
    Ok(())
}

fn parse(text: &[u8]) -> Result<LongDouble, CommandError> {
    LongDouble::parse(text).ok_or(CommandError::NotAFloat)
}

fn add_float(call: &mut Call, options: &Options, by: &[u8], expiry: Expiry) -> CommandResult {
    let bound = |text: Option<&[u8]>, missing| text.map_or(Ok(missing), parse);
    let increment = parse(by)?;
    let (lower, upper) = (bound(options.lower, LongDouble::MIN)?, bound(options.upper, LongDouble::MAX)?);
    if lower.compare(upper) == Some(Ordering::Greater) {
        return Err(CommandError::text(BOUNDS));
    }
    let value = match call.keyspace.string_for_change(call.args[1])? {
        None => LongDouble::ZERO,
        Some(StringRef::Integer(number)) => LongDouble::from_i64(number),
        Some(text) => parse(text.bytes(&mut [0; 20]))?,
    };
    if !value.is_finite() || !increment.is_finite() {
        return Err(CommandError::text(NOT_FINITE));
    }
    let mut sum = value.add(increment);
    let bound = match (sum.compare(lower), sum.compare(upper)) {
        (Some(Ordering::Less), _) => Some(lower),
        (_, Some(Ordering::Greater)) => Some(upper),
        _ => None,
    };
    let text = |number: LongDouble| {
        let mut text = Vec::with_capacity(number::INTEGER_LEN_MAX * 2);
        number.write_human(&mut text);
        text
    };
    let mut amount = by.to_vec();
    let mut shown = text(increment);
    if let Some(bound) = bound {
        if !options.saturate {
            call.reply.array(2);
            call.reply.double_text(&text(value));
            call.reply.double_text(b"0");
            return Ok(());
        }
        sum = bound;
        let added = sum.add(value.negated());
        if !added.is_finite() {
            return Err(CommandError::text(NOT_FINITE));
        }
        shown = text(added);
        amount.clone_from(&shown);
    }
    if !sum.is_finite() {
        // Beyond a bound that is infinite itself.
        return Err(CommandError::text(NOT_FINITE));
    }
    let sum = text(sum);
    let change = Change {
        event: Event::string("incrbyfloat"),
        value: Value::plain(&sum, false),
        text: &sum,
        command: b"INCRBYFLOAT",
        amount: &amount,
        expiry,
    };
    change.apply(call);
    call.reply.array(2);
    call.reply.double_text(&sum);
    call.reply.double_text(&shown);
    Ok(())
}
