// SPDX-License-Identifier: BSD-3-Clause
//! Long strings are in memory once: the shadow holds them in the keyspace's own allocations.
//!
//! A long string reaches the shadow as bytes, from the journal or from a peer. Its key is noted,
//! and when the world is next stopped the shadow takes over the keyspace's allocation if both
//! hold the same bytes. Shared bytes never change: the keyspace copies them before it writes.

use std::time::{Duration, Instant};

use braid_active::Name;
use braid_active::effect::Unit;
use braid_keyspace::Txn;
use braid_keyspace::entry::{EMBEDDED_MAX, ValueRef};

use super::Thread;
use crate::active::keys::with_entry;

/// How long the world stays stopped for sharing, checked after each key.
const SHARE: Duration = Duration::from_millis(1);
/// Maximum number of stops in one go.
const STOPS: usize = 10;

impl Thread<'_> {
    /// Notes the long strings that a unit has written to the shadow.
    pub(super) fn note_long(&mut self, unit: &Unit) {
        let long = unit.long_strings(EMBEDDED_MAX);
        self.unshared.extend(long.map(|(database, name)| (database, Name::clone(name))));
    }

    /// Notes all long strings of the shadow.
    pub(super) fn note_all_long(&mut self) {
        let long = self.replica.long_strings(EMBEDDED_MAX);
        self.unshared.extend(long.map(|(database, name)| (database, Name::from(name))));
    }

    /// Stops the world to share noted strings; not while changes are held back, which may be for
    /// long.
    pub(super) fn share(&mut self) {
        for _ in 0..STOPS {
            let is_held = self.engine.holds_active_back(self.throttled_until_ms > 0);
            if self.unshared.is_empty() || is_held {
                return;
            }
            self.settle();
        }
    }

    /// Shares as many noted strings as fit in [`SHARE`].
    pub(super) fn share_in(&mut self, txn: &mut Txn<'_>) {
        let start = Instant::now();
        while start.elapsed() < SHARE
            && let Some((database, name)) = self.unshared.pop()
        {
            if database >= txn.keyspace().databases() {
                continue;
            }
            with_entry(txn, database, &name, |entry| {
                if let ValueRef::Blob(text) = entry.value() {
                    self.replica.share(database, &name, text);
                }
            });
        }
        if self.unshared.is_empty() {
            self.unshared = Vec::new();
        }
    }
}
