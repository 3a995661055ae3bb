// SPDX-License-Identifier: BSD-3-Clause
//! Passes keyspace events ([`crate::events`]) to the observer, under the key's lock.
//!
//! HOT PATH: while no class is wanted, an event costs one load and one test.

use std::sync::atomic::Ordering::Relaxed;

use smallvec::SmallVec;

use crate::events::{Event, class};
use crate::keyspace::Keyspace;
use crate::object::ExpiredMembers;
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
    /// True if events of the members of hashes are wanted.
    #[inline]
    pub fn wants_members(&self) -> bool {
        self.keyspace().wants(class::MEMBERS)
    }

    /// Reports an event of members of a collection, if it is a hash: events of other collections
    /// name only the key. In addition to the event of the key.
    #[inline]
    pub fn notify_members<'m>(&self, event: Event, key: &[u8], members: impl IntoIterator<Item = &'m [u8]>) {
        if self.wants_members() && event.class == class::HASH {
            let members: SmallVec<[&[u8]; 8]> = members.into_iter().collect();
            self.tell_members(event, key, &members);
        }
    }

    #[cold]
    fn tell_members(&self, event: Event, key: &[u8], members: &[&[u8]]) {
        let keyspace = self.keyspace();
        let is_hidden = || keyspace.hides_any() && keyspace.is_hidden(keyspace.shard_of(keyspace.hash(key)));
        if let Some(observer) = keyspace.observer.get().filter(|_| !members.is_empty() && !is_hidden()) {
            observer.members(self.context.slot, self.db(), event, key, members);
        }
    }

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
    pub(crate) fn notify_members_expired(&self, kind: Type, key: &[u8], gone: &ExpiredMembers) {
        if let Some(words) = kind.descriptor().and_then(|descriptor| descriptor.members.as_ref()) {
            self.notify(words.expired, key);
            self.notify_members(words.expired, key, gone.iter().map(|member| &**member));
        }
    }
}
