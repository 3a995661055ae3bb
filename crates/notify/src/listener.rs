// SPDX-License-Identifier: BSD-3-Clause
//! A client as a listener: what it subscribes to, how it tracks keys, and which pushes have reached
//! it. A part of its session.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_clients::{ClientRecord, client_flags};
use hashbrown::HashSet;

/// Kind of a subscription.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubscriptionKind {
    Channel,
    Pattern,
    /// A channel that lives where its hash slot does (SSUBSCRIBE).
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

    /// How many there are, as clients are told when one of a kind changes: patterns and channels
    /// count together.
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

/// How a client tracks.
#[derive(Default)]
pub struct Tracking {
    /// Invalidations go to this client; 0 = to itself.
    pub redirect: u64,
    pub bcast: bool,
    pub optin: bool,
    pub optout: bool,
    pub noloop: bool,
    /// CLIENT CACHING was called: the next command is an exception.
    pub caching: bool,
    /// What BCAST is restricted to, in order.
    pub prefixes: Vec<Box<[u8]>>,
}

/// The part of a session that decides what its client is sent without asking.
pub struct Listener {
    pub record: Arc<ClientRecord>,
    /// Nothing while it subscribes to nothing.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// How it tracks the keys that it reads, if it does.
    pub tracking: Option<Box<Tracking>>,
    /// Pushes in its loop's queue below this number have reached it.
    pub pushes_seen: u64,
}

impl Listener {
    /// The listener of a client that listens to nothing.
    pub fn new(record: Arc<ClientRecord>) -> Listener {
        Listener { record, subscriptions: None, tracking: None, pushes_seen: 0 }
    }

    /// The client's id.
    pub fn id(&self) -> u64 {
        self.record.id
    }

    /// Its pushes are numbered by another loop from now on.
    pub fn change_queue(&mut self) {
        self.pushes_seen = 0;
    }

    /// Tells the shared record of the subscriptions.
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
