// SPDX-License-Identifier: BSD-3-Clause
//! CL.THROTTLE: a rate limit in one command, with the arguments and reply of redis-cell.
//!
//! The generic cell rate algorithm needs one time for each key: the one at which all that has been
//! taken will be restored. It is stored as a string, in nanoseconds since the Unix epoch, and the
//! key expires then. So any server reads it, and a limit that is not in use takes no memory.

use std::borrow::Cow;

use braid_base::number;
use braid_executor::Call;
use braid_keyspace::{Event, Expiry, Value, journal_as};
use braid_spec::{CommandError, CommandResult};

const NS_PER_MS: i128 = 1_000_000;
const NS_PER_S: i128 = 1_000_000_000;

const OUT_OF_RANGE: CommandError =
    CommandError::Text(Cow::Borrowed("ERR value is out of range, must be positive"));

/// What a limit allows. Times are in nanoseconds.
struct Limit {
    /// The most that can be taken at once.
    most: i128,
    /// In which one is restored.
    interval: i128,
}

/// The outcome of taking something at some time.
#[derive(Debug, PartialEq)]
struct Taken {
    allowed: bool,
    /// What could be taken now.
    remaining: i128,
    /// How long to wait until the same can be taken, if it could not, and ever can.
    retry_after: Option<i128>,
    /// When everything will be restored, from now.
    reset_after: i128,
}

impl Limit {
    /// Takes a quantity at the time `now`, when everything would be restored at `restored`.
    fn take(&self, restored: i128, now: i128, quantity: i128) -> Taken {
        let tolerance = self.interval.saturating_mul(self.most);
        let increment = self.interval.saturating_mul(quantity);
        let taken = (restored - now).max(0);
        let after = taken.saturating_add(increment);
        let allowed = after <= tolerance;
        let reset_after = if allowed { after } else { taken };
        Taken {
            allowed,
            remaining: (tolerance - reset_after).max(0) / self.interval,
            retry_after: (!allowed && increment <= tolerance).then(|| after - tolerance),
            reset_after,
        }
    }
}

pub(super) fn throttle(call: &mut Call) -> CommandResult {
    if call.args.len() > 6 {
        return Err(call.wrong_arity());
    }
    let key = call.args[1];
    let burst = call.integer_arg(2)?;
    let (count, period) = (call.integer_arg(3)?, call.integer_arg(4)?);
    let quantity = if call.args.len() == 6 { call.integer_arg(5)? } else { 1 };
    if burst < 0 || count < 1 || period < 1 || quantity < 0 {
        return Err(OUT_OF_RANGE);
    }
    let interval = i128::from(period) * NS_PER_S / i128::from(count);
    let limit = Limit { most: i128::from(burst) + 1, interval: interval.max(1) };
    let now = i128::from(call.keyspace.now()) * NS_PER_MS;
    let restored = match call.keyspace.string_for_change(key)? {
        None => None,
        Some(value) => {
            let number = number::parse_i64(value.bytes(&mut [0; 20]));
            Some(number.ok_or(CommandError::NotAnInteger)?)
        }
    };
    let taken = limit.take(restored.map_or(now, i128::from), now, i128::from(quantity));
    if taken.allowed && quantity > 0 {
        let restored = i64::try_from(now.saturating_add(taken.reset_after))
            .map_err(|_| CommandError::InvalidExpire("cl.throttle".into()))?;
        let at = whole_up(i128::from(restored), NS_PER_MS);
        call.keyspace.set_as(Event::string("set"), key, Value::Integer(restored), Expiry::At(at));
        journal_as!(call.keyspace, b"SET", key, restored, b"PXAT", at);
    }
    call.reply.array(5);
    call.reply.integer(i64::from(!taken.allowed));
    for number in [limit.most, taken.remaining] {
        call.reply.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }
    call.reply.integer(taken.retry_after.map_or(-1, |wait| whole_up(wait, NS_PER_S)));
    call.reply.integer(whole_up(taken.reset_after, NS_PER_S));
    Ok(())
}

/// A time in larger units, rounded up: whoever waits that long has waited long enough.
fn whole_up(ns: i128, unit: i128) -> i64 {
    i64::try_from(ns / unit + i128::from(ns % unit > 0)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three at once, and one more every 10 ns.
    const LIMIT: Limit = Limit { most: 3, interval: 10 };

    fn allowed(remaining: i128, reset_after: i128) -> Taken {
        Taken { allowed: true, remaining, retry_after: None, reset_after }
    }

    #[test]
    fn a_burst_then_the_rate() {
        assert_eq!(LIMIT.take(100, 100, 1), allowed(2, 10));
        assert_eq!(LIMIT.take(110, 100, 2), allowed(0, 30));
        let refused = Taken { allowed: false, remaining: 0, retry_after: Some(10), reset_after: 30 };
        assert_eq!(LIMIT.take(130, 100, 1), refused);
        assert_eq!(LIMIT.take(130, 110, 1), allowed(0, 30));
        assert_eq!(LIMIT.take(130, 109, 1).retry_after, Some(1));
    }

    #[test]
    fn what_is_never_allowed_has_no_time_to_retry() {
        let refused = Taken { allowed: false, remaining: 3, retry_after: None, reset_after: 0 };
        assert_eq!(LIMIT.take(100, 100, 4), refused);
        assert_eq!(LIMIT.take(0, 100, 4), refused);
    }

    #[test]
    fn nothing_taken_shows_what_there_is() {
        assert_eq!(LIMIT.take(125, 100, 0), allowed(0, 25));
        assert_eq!(LIMIT.take(115, 100, 0), allowed(1, 15));
    }

    /// Extreme arguments do not overflow.
    #[test]
    fn extremes() {
        let most = i128::from(i64::MAX);
        let limit = Limit { most, interval: most * NS_PER_S };
        assert!(limit.take(0, 0, 1).allowed);
        assert_eq!(limit.take(most, 0, most).reset_after, i128::MAX);
        assert!(!LIMIT.take(most, i128::from(i64::MIN), most).allowed);
    }
}
