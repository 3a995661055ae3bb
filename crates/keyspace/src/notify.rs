// SPDX-License-Identifier: BSD-3-Clause
//! Passes keyspace events ([`crate::events`]) to the observer, under the key's lock.
//!
//! HOT PATH: while no class is wanted, an event costs one load and one test.

use std::sync::atomic::Ordering::Relaxed;

use crate::events::Event;
use crate::keyspace::Keyspace;
use crate::txn::Txn;
use crate::value_type::Type;

impl Keyspace {
    /// True if events of any of these classes are wanted.
    #[inline(always)]
    pub fn wants(&self, classes: u32) -> bool {
        self.settings.events.load(Relaxed) & classes != 0
    }

    /// Reports an event outside of a transaction. Keys of hidden slots have none: they are another
    /// server's.
    #[cold]
    pub fn tell_event(&self, slot: usize, db: u32, event: Event, key: &[u8], old: Option<&[u8]>) {
        let is_hidden = || self.hides_any() && self.is_hidden(self.shard_of(self.hash(key)));
        if let Some(observer) = self.observer.get().filter(|_| !is_hidden()) {
            observer.event(slot, db, event, key, old);
        }
    }
}

impl Txn<'_> {
    /// Reports an event of a key of the current database, if its class is wanted.
    #[inline(always)]
    pub fn notify(&self, event: Event, key: &[u8]) {
        if self.keyspace().wants(event.class) {
            self.keyspace().tell_event(self.context.slot, self.db(), event, key, None);
        }
    }

    /// As [`Txn::notify`], for a key of another database.
    pub fn notify_in(&self, db: u32, event: Event, key: &[u8]) {
        if self.keyspace().wants(event.class) {
            self.keyspace().tell_event(self.context.slot, db, event, key, None);
        }
    }

    /// Reports the expiry of members of a collection of this type.
    pub(crate) fn notify_members_expired(&self, kind: Type, key: &[u8]) {
        if let Some(words) = kind.descriptor().and_then(|descriptor| descriptor.members.as_ref()) {
            self.notify(words.expired, key);
        }
    }
}
