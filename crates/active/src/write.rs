// SPDX-License-Identifier: BSD-3-Clause
//! Plain writes: units of a single write of a short string, a field or a member, without a time,
//! or of a single increment of a string. Most units are plain writes, so they have a fast path
//! without allocation, from the journal to the bytes of a unit, and from these to a request for
//! the keyspace.
//!
//! The fast path has the same result as the general one. It handles strings that do not exist or
//! are a plain string that the write has seen; elements of a collection that exists, if they do not
//! exist or have a plain value that the write has seen; and increments of numbers that have been
//! incremented before. Every other case takes the general path, as does everything that needs a
//! closer look (new collections, values hidden behind others, evicted keys, keys whose time has
//! come, strings that are a HyperLogLog).

use crate::cell::At;
use crate::change::RequestWrite;
use crate::difference::Difference;
use crate::effect::Head;
use crate::hidden::is_of_clients;
use crate::keys::Hashed;
use crate::replica::{Applied, Refusal, Replica};
use crate::stamp::Stamp;
use crate::vector::{Run, Seen};
use crate::wire;

pub use crate::effect::Write;

impl Write {
    /// The plain write that a unit consists of, if it is one and its key is not a library.
    pub fn read(unit: &[u8]) -> Option<Write> {
        wire::read_write(unit).filter(|write| is_of_clients(write.database))
    }
}

impl Replica {
    /// Executes a client's [plain write](crate::translate::plain_write) and appends the unit for
    /// the other regions to `unit`. Returns its stamp, and its run up to and including it. `None`
    /// if the fast path does not apply; nothing has changed then.
    pub fn write(
        &mut self,
        now_ms: u64,
        key: Hashed<'_>,
        written: RequestWrite<'_>,
        unit: &mut Vec<u8>,
    ) -> Option<(Stamp, Run)> {
        let rules = self.settings.rules;
        if self.needs_ceiling(now_ms) || self.ended.of(key.database, key.name).is_some() {
            return None;
        }
        let stamp = self.clock.clone().tick(now_ms, 1, &rules);
        let place = (self.region(), self.run, stamp);
        let written = written.with_sum(|by| self.state.keys.sum(key, place, by))?;
        let own = Run { start: self.run, last: stamp.before() };
        let lost = std::cell::Cell::new(0);
        // What a client's write has seen, unless a copy is being merged.
        let others = match &self.merging {
            Some(merging) => merging.seen_of(key, &self.state.vector),
            None => &self.state.vector,
        };
        let at = At { stamp, seen: Seen { others, own }, rules: &rules, lost: &lost };
        if !self.state.keys.write(&at, key, written) {
            return None;
        }
        self.clock.tick(now_ms, 1, &rules);
        let seen = others;
        let previous = seen.run(self.run).map_or(self.run, |run| run.last);
        let head = Head { first: stamp, last: stamp, previous, starts_run: previous == self.run, seen };
        wire::write_write(&head, self.run, key, written, unit);
        let run = Run { start: self.run, last: stamp };
        self.note_own(run);
        Some((stamp, run))
    }
}

/// [`crate::difference::apply_with_difference`] for a plain write. `None` if the fast path does
/// not apply: nothing has changed then, and the whole unit must be applied.
///
/// # Errors
/// As [`Replica::apply`].
pub fn write_with_difference<'u>(
    replica: &mut Replica,
    now_ms: u64,
    (write, unit): (&Write, &'u [u8]),
    hash: u64,
    difference: &mut Difference<'u>,
) -> Result<Option<Applied>, Refusal> {
    let (database, name) = (write.database, write.name(unit));
    let written = write.written(unit);
    if replica.ended.of(database, name).is_some() || difference.touches(database, name, written.element()) {
        return Ok(None);
    }
    let run = match replica.admit(now_ms, &write.head())? {
        Ok(run) => run,
        Err(applied) => return Ok(Some(applied)),
    };
    let (rules, lost) = (replica.settings.rules, std::cell::Cell::new(0));
    let own = Run { start: run.start, last: write.first.before() };
    let seen = Seen { others: &write.seen, own };
    let at = At { stamp: write.first, seen, rules: &rules, lost: &lost };
    if !replica.state.keys.write(&at, Hashed { database, hash, name }, written) {
        return Ok(None);
    }
    replica.note_applied(Run { start: run.start, last: write.first });
    difference.note_write(database, name, written);
    Ok(Some(Applied::Now))
}
