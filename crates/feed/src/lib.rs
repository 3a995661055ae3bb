// SPDX-License-Identifier: BSD-3-Clause
//! Change feeds: the journal as read-only streams, each of the changes of the keys that match a
//! pattern (docs/design/028-change-feed.md).
//!
//! Flow: a client names a feed and the ID of the last entry that it has seen. [`Reading`] finds the
//! unit of that ID in the journal, reads on from there, and passes on what [`change`] makes of the
//! requests. Writers do nothing for it.
//!
//! This crate knows the journal's bytes and the specifications of commands. It never looks at keys
//! or values in the keyspace: two servers with the same bytes must find the same entries. It knows
//! neither sessions nor replies.
#![forbid(unsafe_code)]

pub mod change;
mod definition;
mod id;
mod positions;
mod reading;
mod scan;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use braid_journal::Boundary;
use parking_lot::{Mutex, RwLock};
use positions::Positions;

pub use braid_replication::link::LinkError;
pub use change::{Change, Content, Event};
pub use definition::{Feed, Figures, WORDS, parse};
pub use id::EntryId;
pub use positions::ReadPoint;
pub use reading::{Ended, Entry, FieldValue, Gap, Mark, Missed, Reading, Source};

/// The feeds of a server.
#[derive(Default)]
pub struct Feeds {
    any: AtomicBool,
    /// A bit for the hash of each name: most keys have another.
    names: AtomicU64,
    list: RwLock<Vec<Arc<Feed>>>,
    next_number: AtomicU64,
    positions: Mutex<Positions>,
}

impl Feeds {
    /// True if there are feeds.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// The feed with this name.
    #[inline]
    pub fn get(&self, name: &[u8]) -> Option<Arc<Feed>> {
        if self.is_any() { self.find(name) } else { None }
    }

    #[cold]
    fn find(&self, name: &[u8]) -> Option<Arc<Feed>> {
        self.list.read().iter().find(|feed| *feed.name == *name).cloned()
    }

    /// All feeds, in the order of the configuration.
    pub fn list(&self) -> Vec<Arc<Feed>> {
        self.list.read().clone()
    }

    /// False if a key with this hash is certainly not a feed.
    #[inline]
    pub fn may_have(&self, hash: u64) -> bool {
        self.names.load(Relaxed) & bit_of(hash) != 0
    }

    /// Where a reader continues that asks for this, if it is known.
    pub fn place_of(&self, asked: &ReadPoint) -> Option<Boundary> {
        self.positions.lock().get(asked)
    }

    /// Notes where a reader continues that asks for this.
    pub fn note_place(&self, asked: ReadPoint, place: Boundary) {
        self.positions.lock().note(asked, place);
    }

    /// Replaces the feeds. Those that stay as they are keep their readers' places. `hash`: that of
    /// keys.
    pub fn set(&self, feeds: Vec<Feed>, hash: impl Fn(&[u8]) -> u64) {
        let mut list = self.list.write();
        let kept = |feed: &Feed| {
            let same = |old: &&Arc<Feed>| Feed::clone(old).numbered(0) == *feed;
            list.iter().find(same).map(Arc::clone)
        };
        let new = |feed: Feed| Arc::new(feed.numbered(self.next_number.fetch_add(1, Relaxed) + 1));
        let feeds: Vec<Arc<Feed>> =
            feeds.into_iter().map(|feed| kept(&feed).unwrap_or_else(|| new(feed))).collect();
        self.names.store(feeds.iter().fold(0, |bits, feed| bits | bit_of(hash(&feed.name))), Relaxed);
        self.any.store(!feeds.is_empty(), Relaxed);
        *list = feeds;
    }
}

fn bit_of(hash: u64) -> u64 {
    1 << (hash & 63)
}
