// SPDX-License-Identifier: BSD-3-Clause
//! XNACK: pending entries that a consumer gives back, for any consumer to claim at once.
//!
//! The journal describes a released entry as a claim by a consumer without a name, delivered at
//! time 0: stock servers then have such a consumer, and Braid reads it as a release.

use braid_base::number;
use braid_executor::Call;
use braid_keyspace::Event;
use braid_spec::{CommandError, CommandResult};
use braid_values::stream::rewrite::released_words;
use braid_values::stream::{Stream, StreamId};
use smallvec::SmallVec;

use super::references::split_ids;
use super::strict_id;

/// No event: documentation names none.
const UNTOLD: Event = Event { class: 0, name: "" };

/// The number of deliveries of an entry that cannot be processed.
const FATAL: u64 = i64::MAX as u64;

/// What becomes of an entry's number of deliveries.
#[derive(Clone, Copy)]
enum Mode {
    /// SILENT: this delivery does not count.
    Uncount,
    /// FAIL: it stays.
    Keep,
    /// FATAL: the greatest number.
    Greatest,
}

struct Options<'a> {
    mode: Mode,
    ids: &'a [&'a [u8]],
    /// RETRYCOUNT: the number, whatever the mode.
    count: Option<u64>,
    /// FORCE: entries that are not pending become so.
    force: bool,
}

impl<'a> Options<'a> {
    fn parse(args: &'a [&'a [u8]]) -> Result<Options<'a>, CommandError> {
        let [mode, rest @ ..] = args else { return Err(CommandError::Syntax) };
        let mode = match mode.to_ascii_uppercase().as_slice() {
            b"SILENT" => Mode::Uncount,
            b"FAIL" => Mode::Keep,
            b"FATAL" => Mode::Greatest,
            _ => return Err(CommandError::Syntax),
        };
        let (mut ids, mut count, mut force) = (None, None, false);
        let mut rest = rest;
        while let [option, after @ ..] = rest {
            let is = |word: &str| option.eq_ignore_ascii_case(word.as_bytes());
            rest = match after {
                _ if is("FORCE") => {
                    force = true;
                    after
                }
                [value, after @ ..] if is("RETRYCOUNT") => {
                    let value = number::parse_i64(value).and_then(|value| u64::try_from(value).ok());
                    count = Some(value.ok_or(CommandError::NotAnInteger)?);
                    after
                }
                [_, ..] if is("IDS") && ids.is_none() => {
                    let (given, after) = split_ids(after)?;
                    ids = Some(given);
                    after
                }
                _ => return Err(CommandError::Syntax),
            };
        }
        Ok(Options { mode, ids: ids.ok_or(CommandError::Syntax)?, count, force })
    }

    /// The new number of deliveries of an entry that had `before`; `None`: it was not pending.
    fn count(&self, before: Option<u64>) -> u64 {
        match (self.count, self.mode, before) {
            (Some(count), ..) => count,
            (None, Mode::Greatest, _) => FATAL,
            (None, Mode::Uncount, Some(before)) => before.saturating_sub(1),
            (None, Mode::Keep, Some(before)) => before,
            (None, _, None) => 0,
        }
    }
}

pub fn xnack(call: &mut Call) -> CommandResult {
    let (key, name) = (call.args[1], call.args[2]);
    call.keyspace.read_as::<Stream>(key)?;
    let options = Options::parse(&call.args[3..])?;
    let ids: Result<SmallVec<[StreamId; 8]>, _> = options.ids.iter().map(|id| strict_id(id, 0)).collect();
    let ids = ids?;
    let mut released: Vec<(StreamId, u64)> = Vec::new();
    if let Some(stream) = call.keyspace.write_as::<Stream>(key)? {
        let (log, groups) = stream.split_mut();
        if let Some(group) = groups.get_mut(name) {
            for id in ids {
                let before = group.pending(id).map(|pending| pending.delivery_count);
                // There is nothing left to deliver of an entry that was deleted.
                if (before.is_none() && !options.force) || !log.contains(id) {
                    continue;
                }
                let count = options.count(before);
                group.release(id, count);
                released.push((id, count));
            }
        }
    }
    if !released.is_empty() {
        tell(call, key, name, &released);
    }
    call.reply.integer(released.len() as i64);
    Ok(())
}

/// Journals released entries, and wakes readers that wait for idle ones.
pub(super) fn tell(call: &mut Call, key: &[u8], group: &[u8], released: &[(StreamId, u64)]) {
    call.keyspace.changed_for_waiters(UNTOLD, key);
    if !call.keyspace.journals() {
        return;
    }
    for (id, count) in released {
        let words = released_words(key, group, *id, *count);
        call.keyspace.journal_as(&words.iter().map(|word| &word[..]).collect::<Vec<_>>());
    }
}
