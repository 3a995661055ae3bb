// SPDX-License-Identifier: BSD-3-Clause
//! Strings are in memory once: the shadow holds the keyspace's own allocations.
//!
//! A string reaches the shadow as bytes, from the journal or from a peer. When the world is next
//! stopped the shadow takes over the keyspace's allocation if both hold the same bytes. Shared
//! bytes never change: the keyspace copies them before it writes.
//!
//! The keys of strings that are too long for the shadow's blocks are noted as they are written.
//! Shorter ones are worth sharing only once they have not been written for a while; searches
//! find them.

use std::time::{Duration, Instant};

use braid_active::Name;
use braid_active::cold::ColdSearch;
use braid_active::effect::Unit;
use braid_base::clock::unix_ms;
use braid_keyspace::Txn;
use braid_keyspace::entry::ValueRef;

use super::{BUSY_FOR, Thread};
use crate::keys::with_entry;
use crate::thread::merge;

/// How long the world stays stopped for sharing, checked after each key.
const SHARE: Duration = Duration::from_millis(1);
/// Maximum number of stops in one go: of an idle server, and of one that takes writes.
const STOPS: usize = 20;
const STOPS_WHILE_BUSY: usize = 2;
/// Short strings are shared when they have not been written for this long.
const COLD_AFTER_MS: u64 = 2000;
/// Interval between two searches for short strings. It doubles after each search that finds none,
/// or of whose strings at most half are shared when the next one is due: some cannot be, and
/// others are written again.
const SEARCH: Duration = Duration::from_secs(1);
const SEARCH_MAX: Duration = Duration::from_secs(64);

/// Strings that the shadow may hold in allocations of its own.
#[derive(Default)]
pub(super) struct Unshared {
    /// Their keys.
    keys: Vec<(u32, Name)>,
    /// The search for short strings in progress.
    search: Option<ColdSearch>,
    last: Option<Search>,
}

/// The last search for short strings that began.
struct Search {
    begin: Instant,
    /// The interval until the next one.
    rest: Duration,
    /// The number of changes of the shadow when it began; `None` if it left strings that had been
    /// written too recently.
    changes: Option<u64>,
    /// The number of shared strings when it began.
    shared: usize,
    /// The number of strings that it has found.
    found: usize,
}

impl Search {
    /// The interval after this search, now that `shared` strings are shared.
    fn next_rest(&self, shared: usize) -> Duration {
        let gained = shared.saturating_sub(self.shared);
        if 2 * gained <= self.found { (2 * self.rest).min(SEARCH_MAX) } else { SEARCH }
    }
}

impl Thread<'_> {
    /// Notes the strings too long for a block that a unit has written to the shadow.
    pub(super) fn note_long(&mut self, unit: &Unit) {
        let long = unit.long_strings();
        self.unshared.keys.extend(long.map(|(database, name)| (database, Name::clone(name))));
    }

    /// Notes all strings of the shadow that are too long for a block.
    pub(super) fn note_all_long(&mut self) {
        let long = self.replica.long_strings();
        self.unshared.keys.extend(long.map(|(database, name)| (database, Name::from(name))));
    }

    /// Stops the world to share strings; not while changes are held back, which may be for long.
    pub(super) fn share(&mut self) {
        let is_busy = self.last_active.elapsed() < BUSY_FOR;
        for _ in 0..if is_busy { STOPS_WHILE_BUSY } else { STOPS } {
            if merge::holds_active_back(self.engine, self.throttled_until_ms > 0) {
                return;
            }
            if self.unshared.keys.is_empty() {
                self.search_cold();
            }
            if self.unshared.keys.is_empty() {
                return;
            }
            self.read_dirty_keys();
        }
    }

    /// Continues the search for short strings, or begins one in time.
    fn search_cold(&mut self) {
        let Unshared { keys, search, last } = &mut self.unshared;
        if search.is_none() {
            let (changes, shared) = (self.replica.changes(), self.replica.held());
            let mut rest = SEARCH;
            if let Some(last) = last {
                rest = last.next_rest(shared);
                if last.begin.elapsed() < rest || last.changes == Some(changes) {
                    return;
                }
            }
            *last = Some(Search { begin: Instant::now(), rest, changes: Some(changes), shared, found: 0 });
        }
        let (current, last) = (search.get_or_insert_default(), last.as_mut());
        let before_ms = (unix_ms() as u64).saturating_sub(COLD_AFTER_MS);
        *keys = self.replica.cold_strings(current, before_ms);
        if let Some(last) = last {
            last.found += keys.len();
            if current.has_left {
                last.changes = None;
            }
        }
        if current.is_done {
            *search = None;
        }
    }

    /// Shares as many of the noted strings as fit in [`SHARE`].
    pub(super) fn share_in(&mut self, txn: &mut Txn<'_>) {
        let start = Instant::now();
        while start.elapsed() < SHARE
            && let Some((database, name)) = self.unshared.keys.pop()
        {
            if database >= txn.keyspace().databases() {
                continue;
            }
            with_entry(txn, database, &name, |txn, entry| match entry.value() {
                ValueRef::Blob(text) => self.replica.share(database, &name, text),
                _ => {
                    if let Some(string) = txn.hold(&name) {
                        self.replica.hold(database, string);
                    }
                }
            });
        }
        if self.unshared.keys.is_empty() {
            self.unshared.keys = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_in_vain_become_rare() {
        let mut search =
            Search { begin: Instant::now(), rest: SEARCH, changes: None, shared: 50, found: 100 };
        for rests in [2, 4, 8] {
            assert_eq!(search.next_rest(100), rests * SEARCH);
            search.rest = search.next_rest(100);
        }
        assert_eq!(search.next_rest(101), SEARCH);
        assert_eq!(search.next_rest(0), 16 * SEARCH);
        search.rest = SEARCH_MAX;
        assert_eq!(search.next_rest(0), SEARCH_MAX);
        (search.rest, search.found) = (SEARCH, 0);
        assert_eq!(search.next_rest(50), 2 * SEARCH);
    }
}
