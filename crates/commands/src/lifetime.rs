// SPDX-License-Identifier: BSD-3-Clause
//! Options that say how long something lives: EX, PX, EXAT, PXAT, PERSIST and KEEPTTL, of keys and of hash
//! fields.

use braid_base::number;
use braid_engine::Call;
use braid_spec::CommandError;

/// How a time is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unit {
    Seconds,
    Milliseconds,
    UnixSeconds,
    UnixMilliseconds,
}

impl Unit {
    /// The unit that an option's word names.
    fn named(word: &[u8]) -> Option<Unit> {
        let units = [
            ("EX", Unit::Seconds),
            ("PX", Unit::Milliseconds),
            ("EXAT", Unit::UnixSeconds),
            ("PXAT", Unit::UnixMilliseconds),
        ];
        units.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes())).map(|(_, unit)| *unit)
    }

    /// A time from an argument, in ms since the Unix epoch. What is less than `least`, and what does not fit,
    /// is refused.
    pub fn deadline(self, call: &Call, text: &[u8], least: i64) -> Result<i64, CommandError> {
        let given = number::parse_i64(text).ok_or(CommandError::NotAnInteger)?;
        let scale = if matches!(self, Unit::Seconds | Unit::UnixSeconds) { 1000 } else { 1 };
        let origin = if matches!(self, Unit::Seconds | Unit::Milliseconds) { call.clock_ms() } else { 0 };
        given
            .checked_mul(scale)
            .and_then(|time| time.checked_add(origin))
            .filter(|_| given >= least)
            .ok_or_else(|| call.invalid_expire())
    }
}

/// What is to become of an expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Lifetime<'a> {
    #[default]
    Unsaid,
    Keep,
    Persist,
    Until(Unit, &'a [u8]),
}

impl<'a> Lifetime<'a> {
    /// Takes an option; false if it contradicts one before it. The same may be said twice; of two times in
    /// one unit the last counts.
    pub fn say(&mut self, wanted: Lifetime<'a>) -> bool {
        let agrees = match (*self, wanted) {
            (Lifetime::Unsaid, _) => true,
            (Lifetime::Until(before, _), Lifetime::Until(unit, _)) => before == unit,
            (before, wanted) => before == wanted,
        };
        *self = wanted;
        agrees
    }

    /// Takes an option that names a time, with the argument behind it; false if it is none, or contradicts
    /// one before it.
    pub fn say_time(&mut self, word: &[u8], text: Option<&'a [u8]>) -> bool {
        match (Unit::named(word), text) {
            (Some(unit), Some(text)) => self.say(Lifetime::Until(unit, text)),
            _ => false,
        }
    }
}

/// The nearest number of seconds.
pub fn to_seconds(ms: i64) -> i64 {
    ms.saturating_add(500) / 1000
}
