// SPDX-License-Identifier: BSD-3-Clause
//! Listener: the part of a session that receives pushes, with subscriptions, key tracking, and
//! the position in the loop's queue.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_clients::{ClientRecord, client_flags};
use hashbrown::HashSet;

/// Kind of a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubscriptionKind {
    Channel,
    Pattern,
    /// A channel of one hash slot (SSUBSCRIBE).
    ShardChannel,
}

type NameSet = HashSet<Box<[u8]>, foldhash::fast::RandomState>;

/// A client's subscriptions.
#[derive(Default)]
pub struct Subscriptions {
    channels: NameSet,
    patterns: NameSet,
    shard_channels: NameSet,
}

impl Subscriptions {
    pub(crate) fn names(&mut self, kind: SubscriptionKind) -> &mut NameSet {
        match kind {
            SubscriptionKind::Channel => &mut self.channels,
            SubscriptionKind::Pattern => &mut self.patterns,
            SubscriptionKind::ShardChannel => &mut self.shard_channels,
        }
    }

    /// Number of subscriptions as reported to the client: channels and patterns count together.
    pub fn count(&self, kind: SubscriptionKind) -> usize {
        match kind {
            SubscriptionKind::Channel | SubscriptionKind::Pattern => {
                self.channels.len() + self.patterns.len()
            }
            SubscriptionKind::ShardChannel => self.shard_channels.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.patterns.is_empty() && self.shard_channels.is_empty()
    }
}

/// Tracking options of a client.
#[derive(Default)]
pub struct Tracking {
    /// Target of invalidations; 0 means the client itself.
    pub redirect: u64,
    pub bcast: bool,
    pub optin: bool,
    pub optout: bool,
    pub noloop: bool,
    /// CLIENT CACHING was called for the next command.
    pub caching: bool,
    /// Prefixes of BCAST, sorted.
    pub prefixes: Vec<Box<[u8]>>,
}

/// The receiver of a client's pushes.
pub struct Listener {
    pub record: Arc<ClientRecord>,
    /// `None` if there are no subscriptions.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// `None` if the client does not track keys.
    pub tracking: Option<Box<Tracking>>,
    /// Pushes below this number in the loop's queue have been delivered.
    pub pushes_seen: u64,
}

impl Listener {
    /// A listener without subscriptions.
    pub fn new(record: Arc<ClientRecord>) -> Listener {
        Listener { record, subscriptions: None, tracking: None, pushes_seen: 0 }
    }

    /// The client's ID.
    pub fn id(&self) -> u64 {
        self.record.id
    }

    /// Resets the position, because another loop numbers the client's pushes from now on.
    pub fn change_queue(&mut self) {
        self.pushes_seen = 0;
    }

    /// Updates the subscription counts of the record.
    pub(crate) fn note_subscriptions(&mut self) {
        if self.subscriptions.as_ref().is_some_and(|all| all.is_empty()) {
            self.subscriptions = None;
        }
        let count = |names: fn(&Subscriptions) -> &NameSet| {
            self.subscriptions.as_ref().map_or(0, |all| u32::try_from(names(all).len()).unwrap_or(u32::MAX))
        };
        let record = &self.record;
        record.channels.store(count(|all| &all.channels), Relaxed);
        record.patterns.store(count(|all| &all.patterns), Relaxed);
        record.shard_channels.store(count(|all| &all.shard_channels), Relaxed);
        record.set_flag(client_flags::PUBSUB, self.subscriptions.is_some());
    }
}
