// SPDX-License-Identifier: BSD-3-Clause
//! Expiry options of commands for keys and for members of collections: EX, PX, EXAT, PXAT,
//! PERSIST, KEEPTTL, and the conditions NX, XX, GT and LT.

use braid_base::number;
use braid_executor::Call;
use braid_keyspace::journal_as;
use braid_keyspace::keyspace::Removal;
use braid_spec::{CommandError, CommandResult};

/// The unit of a time, and whether it is relative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unit {
    Seconds,
    Milliseconds,
    UnixSeconds,
    UnixMilliseconds,
}

impl Unit {
    /// The unit named by an option.
    pub(crate) fn named(word: &[u8]) -> Option<Unit> {
        let units = [
            ("EX", Unit::Seconds),
            ("PX", Unit::Milliseconds),
            ("EXAT", Unit::UnixSeconds),
            ("PXAT", Unit::UnixMilliseconds),
        ];
        units.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes())).map(|(_, unit)| *unit)
    }

    /// Parses a time into ms since the Unix epoch.
    ///
    /// # Errors
    /// If the text is not an integer, the time is less than `least`, or it overflows.
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

/// The expiry change requested by the options.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Lifetime<'a> {
    #[default]
    Unsaid,
    Keep,
    Persist,
    Until(Unit, &'a [u8]),
}

impl<'a> Lifetime<'a> {
    /// Applies an option; false if it contradicts an earlier one. Options may be repeated; of two
    /// times in the same unit the last one counts.
    pub fn say(&mut self, wanted: Lifetime<'a>) -> bool {
        let agrees = match (*self, wanted) {
            (Lifetime::Unsaid, _) => true,
            (Lifetime::Until(before, _), Lifetime::Until(unit, _)) => before == unit,
            (before, wanted) => before == wanted,
        };
        *self = wanted;
        agrees
    }

    /// Applies an option whose time is the next argument; false if `word` is not such an option or
    /// contradicts an earlier one.
    pub fn say_time(&mut self, word: &[u8], text: Option<&'a [u8]>) -> bool {
        match (Unit::named(word), text) {
            (Some(unit), Some(text)) => self.say(Lifetime::Until(unit, text)),
            _ => false,
        }
    }
}

/// The condition for setting a new expiry, given the current one.
#[derive(Default)]
pub struct Condition {
    none_yet: bool,
    some_yet: bool,
    later: bool,
    earlier: bool,
}

impl Condition {
    /// Parses the options; contradictions are refused by [`Condition::check`].
    ///
    /// # Errors
    /// If an option is unknown.
    pub fn parse(options: &[&[u8]]) -> Result<Condition, CommandError> {
        let mut condition = Condition::default();
        for option in options {
            let flag = match option.to_ascii_lowercase().as_slice() {
                b"nx" => &mut condition.none_yet,
                b"xx" => &mut condition.some_yet,
                b"gt" => &mut condition.later,
                b"lt" => &mut condition.earlier,
                _ => return Err(CommandError::quoting("ERR Unsupported option ", option, "")),
            };
            *flag = true;
        }
        Ok(condition)
    }

    /// Refuses mutually exclusive options.
    ///
    /// # Errors
    /// If options exclude each other.
    pub fn check(&self) -> CommandResult {
        if self.none_yet && (self.some_yet || self.later || self.earlier) {
            return Err(CommandError::text(
                "ERR NX and XX, GT or LT options at the same time are not compatible",
            ));
        }
        if self.later && self.earlier {
            return Err(CommandError::text("ERR GT and LT options at the same time are not compatible"));
        }
        Ok(())
    }

    /// True if `new` may replace `present`. No expiry counts as infinitely far in the future.
    pub fn allows(&self, present: Option<i64>, new: i64) -> bool {
        match present {
            None => !self.some_yet && !self.later,
            Some(present) => {
                !self.none_yet && (!self.later || new > present) && (!self.earlier || new < present)
            }
        }
    }
}

/// Sets the expiry of an existing key, or deletes the key if the time is past.
pub fn expire_at(call: &mut Call, key: &[u8], at: i64) {
    // During an import even a past time keeps the key, as in Valkey.
    if at <= call.now() && !call.engine.config.import_mode() {
        call.keyspace.delete(key);
        call.keyspace.journal_removal(key, Removal::Expired);
    } else {
        call.keyspace.set_expiry(key, Some(at));
        journal_as!(call.keyspace, b"PEXPIREAT", key, at);
    }
}

/// Rounds to the nearest second.
pub fn to_seconds(ms: i64) -> i64 {
    ms.saturating_add(500) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        /// The options' documentation, taken literally.
        #[test]
        fn expiry_conditions_match_their_documentation(
            present in proptest::option::of(-3i64..3), new in -3i64..3,
            xx: bool, gt: bool, lt: bool, nx: bool,
        ) {
            let condition = Condition { none_yet: nx, some_yet: xx, later: gt, earlier: lt };
            let infinite = present.unwrap_or(i64::MAX);
            let expected = (!nx || present.is_none())
                && (!xx || present.is_some())
                && (!gt || new > infinite)
                && (!lt || new < infinite);
            prop_assert_eq!(condition.allows(present, new), expected);
        }
    }
}
