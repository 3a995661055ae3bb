// SPDX-License-Identifier: BSD-3-Clause
//! Pub/sub hub: subscriptions, and the delivery of messages.
//!
//! One table per process ([`Hub`]) maps each channel and pattern to its subscribers, grouped by
//! the event loop that owns them. PUBLISH looks up the channel, encodes the message once, and
//! puts one push per loop with subscribers into that loop's queue (`queue.rs`); the loop writes
//! it into its clients' replies. Nothing else is shared, and no publisher waits for a slow
//! client.
//!
//! Order: the channel's lock is held while a message is queued, so all subscribers of a channel
//! see its messages in the same order, and the messages of one publisher in publishing order.
//! SUBSCRIBE updates the table before it replies, so the client gets all messages published
//! afterwards.
//!
//! Must never take a shard lock or write a reply while holding a lock of this module.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use braid_base::blob::Blob;
use braid_base::sharing::{Line, note};
use braid_base::slots::Slots;
use braid_base::{Padded, glob};
use braid_resp::reply::ReplyBuffer;
use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use smallvec::SmallVec;

use braid_clients::attention::{Attention, MONITORS};
use braid_clients::{ClientRecord, Mailboxes, THREADS_MAX, client_flags};

use crate::frame::Frame;
use crate::listener::{Listener, SubscriptionKind};
use crate::payload::Payload;
use crate::queue::{Listeners, Push, Queue};

/// Number of channel locks.
const TABLES: usize = 64;

type Names<T> = HashMap<Box<[u8]>, T, foldhash::fast::RandomState>;

/// Subscribers of a channel or pattern, by owning loop.
#[derive(Default)]
struct Audience {
    loops: SmallVec<[(usize, Listeners); 2]>,
}

impl Audience {
    fn add(&mut self, owner: usize, client: u64) {
        let at = match self.loops.iter().position(|(known, _)| *known == owner) {
            Some(at) => at,
            None => {
                self.loops.push((owner, Listeners::default()));
                self.loops.len() - 1
            }
        };
        self.loops[at].1.add(client);
    }

    /// True if the client was the last one.
    fn remove(&mut self, client: u64) -> bool {
        for (_, listeners) in &mut self.loops {
            listeners.remove(client);
        }
        self.loops.retain(|(_, listeners)| listeners.len() > 0);
        self.loops.is_empty()
    }

    /// Moves a client to another loop.
    fn relocate(&mut self, client: u64, to: usize) {
        if self.contains(client) {
            self.remove(client);
            self.add(to, client);
        }
    }

    fn len(&self) -> usize {
        self.loops.iter().map(|(_, listeners)| listeners.len()).sum()
    }

    fn contains(&self, client: u64) -> bool {
        self.loops.iter().any(|(_, listeners)| listeners.contains(client))
    }
}

/// Channels with their subscribers.
type Table = Box<[Padded<Mutex<Names<Audience>>>]>;

/// Subscriptions, and the queues of pushes. One per server.
pub struct Hub {
    hasher: foldhash::fast::RandomState,
    channels: Table,
    shard_channels: Table,
    patterns: RwLock<Names<Audience>>,
    /// Number of names in the tables; PUBLISH skips the lookup if it is 0.
    channel_count: AtomicUsize,
    pattern_count: AtomicUsize,
    shard_channel_count: AtomicUsize,
    /// Clients in MONITOR mode.
    monitors: Mutex<Audience>,
    /// Event classes published to channels.
    pub event_channels: AtomicU32,
    /// One per event loop.
    queues: Slots<Padded<Queue>>,
    mailboxes: Arc<Mailboxes>,
}

impl Hub {
    /// A hub for the loops with these mailboxes. Call [`Hub::make_room_for_loops`] before use.
    pub fn new(mailboxes: &Arc<Mailboxes>) -> Hub {
        let table = || (0..TABLES).map(|_| Padded::default()).collect();
        Hub {
            hasher: foldhash::fast::RandomState::default(),
            channels: table(),
            shard_channels: table(),
            patterns: RwLock::default(),
            channel_count: AtomicUsize::new(0),
            pattern_count: AtomicUsize::new(0),
            shard_channel_count: AtomicUsize::new(0),
            monitors: Mutex::default(),
            event_channels: AtomicU32::new(0),
            queues: Slots::new(THREADS_MAX),
            mailboxes: Arc::clone(mailboxes),
        }
    }

    /// Allocates queues for `loops` loops.
    pub fn make_room_for_loops(&self, loops: usize) {
        self.queues.grow(loops, |_| Padded::default());
    }

    fn part<'t>(&self, table: &'t Table, name: &[u8]) -> &'t Mutex<Names<Audience>> {
        &table[self.hasher.hash_one(name) as usize % TABLES]
    }

    fn count_of(&self, kind: SubscriptionKind) -> &AtomicUsize {
        match kind {
            SubscriptionKind::Channel => &self.channel_count,
            SubscriptionKind::Pattern => &self.pattern_count,
            SubscriptionKind::ShardChannel => &self.shard_channel_count,
        }
    }

    /// Calls `work` with the table that holds a name.
    fn with_names<R>(
        &self,
        kind: SubscriptionKind,
        name: &[u8],
        work: impl FnOnce(&mut Names<Audience>) -> R,
    ) -> R {
        match kind {
            SubscriptionKind::Channel => work(&mut self.part(&self.channels, name).lock()),
            SubscriptionKind::ShardChannel => work(&mut self.part(&self.shard_channels, name).lock()),
            SubscriptionKind::Pattern => work(&mut self.patterns.write()),
        }
    }

    /// Number of channels, patterns or shard channels with subscribers.
    pub fn name_count(&self, kind: SubscriptionKind) -> usize {
        self.count_of(kind).load(Ordering::Relaxed)
    }

    /// Number of subscribers of a channel, excluding patterns.
    pub fn listener_count(&self, kind: SubscriptionKind, name: &[u8]) -> usize {
        self.with_names(kind, name, |names| names.get(name).map_or(0, Audience::len))
    }

    /// Channels with subscribers whose names match a pattern, if one is given.
    pub fn channel_names(&self, kind: SubscriptionKind, pattern: Option<&[u8]>) -> Vec<Box<[u8]>> {
        let table =
            if kind == SubscriptionKind::ShardChannel { &self.shard_channels } else { &self.channels };
        let wanted = |name: &[u8]| pattern.is_none_or(|pattern| glob::matches(pattern, name, false));
        let mut found = Vec::new();
        for part in table {
            found.extend(part.lock().keys().filter(|name| wanted(name)).cloned());
        }
        found
    }

    /// Clients subscribed to shard channels for which `is_wanted` is true, each once.
    pub fn shard_subscribers(&self, is_wanted: impl Fn(&[u8]) -> bool) -> Vec<u64> {
        let mut found = Vec::new();
        for part in &self.shard_channels {
            let names = part.lock();
            let audiences = names.iter().filter(|(name, _)| is_wanted(name)).map(|(_, audience)| audience);
            let listeners = audiences.flat_map(|audience| audience.loops.iter());
            found.extend(listeners.flat_map(|(_, listeners)| listeners.ids().iter().copied()));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// True if a client is subscribed to a channel or pattern (`true`) that is not `allowed`. Scans
    /// all names, so use it rarely.
    pub fn listens_to_other(&self, client: u64, allowed: impl Fn(&[u8], bool) -> bool) -> bool {
        let other = |names: &Names<Audience>, is_pattern: bool| {
            names.iter().any(|(name, audience)| audience.contains(client) && !allowed(name, is_pattern))
        };
        // Each lock is released before the next is taken.
        let hears_other = other(&self.patterns.read(), true);
        hears_other || self.channels.iter().chain(&self.shard_channels).any(|part| other(&part.lock(), false))
    }

    /// Subscribes a client. Returns its number of subscriptions, as reported to the client.
    pub fn subscribe(&self, listener: &mut Listener, kind: SubscriptionKind, name: &[u8]) -> usize {
        let subscriptions = listener.subscriptions.get_or_insert_default();
        if subscriptions.names(kind).insert(name.into()) {
            let record = &listener.record;
            let owner = record.io_thread.load(Ordering::Relaxed) as usize;
            self.with_names(kind, name, |names| {
                let audience = names.entry(name.into()).or_insert_with(|| {
                    self.count_of(kind).fetch_add(1, Ordering::Release);
                    Audience::default()
                });
                audience.add(owner, record.id);
            });
        }
        let count = subscriptions.count(kind);
        listener.note_subscriptions();
        count
    }

    /// Ends a client's subscription. Returns the number left, as reported to the client.
    pub fn unsubscribe(&self, listener: &mut Listener, kind: SubscriptionKind, name: &[u8]) -> usize {
        let Some(subscriptions) = &mut listener.subscriptions else { return 0 };
        if subscriptions.names(kind).remove(name) {
            self.forget(kind, name, listener.record.id);
        }
        let count = subscriptions.count(kind);
        listener.note_subscriptions();
        count
    }

    fn forget(&self, kind: SubscriptionKind, name: &[u8], client: u64) {
        self.with_names(kind, name, |names| {
            if names.get_mut(name).is_some_and(|audience| audience.remove(client)) {
                names.remove(name);
                self.count_of(kind).fetch_sub(1, Ordering::Relaxed);
            }
        });
    }

    /// A client's subscriptions of one kind.
    pub fn names_of(&self, listener: &mut Listener, kind: SubscriptionKind) -> Vec<Box<[u8]>> {
        listener.subscriptions.as_mut().map_or_else(Vec::new, |all| all.names(kind).iter().cloned().collect())
    }

    /// Ends all of a client's subscriptions and drops undelivered messages.
    pub fn leave(&self, listener: &mut Listener) {
        let Some(mut subscriptions) = listener.subscriptions.take() else { return };
        for kind in [SubscriptionKind::Channel, SubscriptionKind::Pattern, SubscriptionKind::ShardChannel] {
            for name in std::mem::take(subscriptions.names(kind)) {
                self.forget(kind, &name, listener.record.id);
            }
        }
        listener.note_subscriptions();
        self.skip(listener);
    }

    /// Publishes a message to a channel. `from` is the slot of the calling thread; `blob` holds
    /// the message's bytes if they have their own allocation. Returns the number of receivers (a
    /// client that also matches by a pattern gets the message twice and counts twice).
    #[inline]
    pub fn publish(&self, from: usize, channel: &[u8], message: &[u8], blob: Option<&Blob>) -> usize {
        let nobody = self.channel_count.load(Ordering::Acquire) == 0
            && self.pattern_count.load(Ordering::Acquire) == 0;
        if nobody { 0 } else { self.publish_to(from, channel, message, blob) }
    }

    fn publish_to(&self, from: usize, channel: &[u8], message: &[u8], blob: Option<&Blob>) -> usize {
        note(Line::Channels, 1, 2);
        // Held to the end, so that all subscribers see the same order.
        let names = self.part(&self.channels, channel).lock();
        let mut receivers = 0;
        if let Some(audience) = names.get(channel) {
            receivers += self.send(from, audience, || Frame::new(&[b"message", channel], message, blob));
        }
        if self.pattern_count.load(Ordering::Acquire) > 0 {
            note(Line::Channels, 1, 2);
            for (pattern, audience) in &*self.patterns.read() {
                if glob::matches(pattern, channel, false) {
                    let frame = || Frame::new(&[b"pmessage", pattern, channel], message, blob);
                    receivers += self.send(from, audience, frame);
                }
            }
        }
        receivers
    }

    /// As [`Hub::publish`], for shard channels; patterns do not apply.
    pub fn publish_shard(&self, from: usize, channel: &[u8], message: &[u8], blob: Option<&Blob>) -> usize {
        if self.shard_channel_count.load(Ordering::Acquire) == 0 {
            return 0;
        }
        note(Line::Channels, 1, 2);
        let names = self.part(&self.shard_channels, channel).lock();
        let Some(audience) = names.get(channel) else { return 0 };
        self.send(from, audience, || Frame::new(&[b"smessage", channel], message, blob))
    }

    /// True if any message could have a receiver.
    #[inline]
    pub fn has_listeners(&self) -> bool {
        self.channel_count.load(Ordering::Acquire) > 0 || self.pattern_count.load(Ordering::Acquire) > 0
    }

    fn send(&self, from: usize, audience: &Audience, frame: impl FnOnce() -> Frame) -> usize {
        let Some(((last, others), rest)) = audience.loops.split_last() else { return 0 };
        let payload = Arc::new(Payload::Message(frame()));
        for (owner, listeners) in rest {
            self.push(from, *owner, listeners.clone(), Arc::clone(&payload));
        }
        // Usually the only one, so an unshared payload is moved rather than cloned.
        self.push(from, *last, others.clone(), payload);
        audience.len()
    }

    /// Adds a MONITOR client. The attention word changes under the same lock, so that it never
    /// misses a client.
    pub fn add_monitor(&self, record: &ClientRecord, attention: &Attention) {
        let owner = record.io_thread.load(Ordering::Relaxed) as usize;
        let mut monitors = self.monitors.lock();
        monitors.add(owner, record.id);
        attention.set(MONITORS, true);
    }

    /// Removes a MONITOR client.
    pub fn remove_monitor(&self, client: u64, attention: &Attention) {
        let mut monitors = self.monitors.lock();
        if monitors.remove(client) {
            attention.set(MONITORS, false);
        }
    }

    /// Sends a payload to all MONITOR clients.
    pub fn tell_monitors(&self, from: usize, payload: &Arc<Payload>) {
        for (owner, listeners) in &self.monitors.lock().loops {
            self.push(from, *owner, listeners.clone(), Arc::clone(payload));
        }
    }

    /// Moves a client's deliveries to another loop. Messages queued at its current loop are older
    /// and must be delivered there before the client moves.
    pub fn relocate(&self, listener: &mut Listener, to: usize) {
        let Listener { record, subscriptions, .. } = listener;
        // Set first, so that early messages wait at the new loop.
        record.set_owner(to);
        if record.has(client_flags::MONITOR) {
            self.monitors.lock().relocate(record.id, to);
        }
        let Some(subscriptions) = subscriptions else { return };
        // All tables are locked together: otherwise, of two messages sent in succession on two
        // channels, the first could go to the new queue and the second to the old one. Locked in
        // the publishers' order: channels, then patterns.
        let mut channels: Vec<_> = self.channels.iter().map(|part| part.lock()).collect();
        let mut shard_channels: Vec<_> = self.shard_channels.iter().map(|part| part.lock()).collect();
        let mut patterns = self.patterns.write();
        let part = |name: &[u8]| self.hasher.hash_one(name) as usize % TABLES;
        for kind in [SubscriptionKind::Channel, SubscriptionKind::ShardChannel, SubscriptionKind::Pattern] {
            for name in &*subscriptions.names(kind) {
                let names = match kind {
                    SubscriptionKind::Channel => &mut *channels[part(name)],
                    SubscriptionKind::ShardChannel => &mut *shard_channels[part(name)],
                    SubscriptionKind::Pattern => &mut *patterns,
                };
                if let Some(audience) = names.get_mut(name) {
                    audience.relocate(record.id, to);
                }
            }
        }
    }

    /// Queues a push for clients of a loop. A loop checks its queue after its own commands, so only
    /// other loops are woken.
    pub fn push(&self, from: usize, owner: usize, to: Listeners, payload: Arc<Payload>) {
        // The queue's lock and its length.
        note(Line::Mailbox, 1, 2);
        self.queues[owner].push(to, payload);
        if owner != from {
            self.mailboxes[owner].ring();
        }
    }

    /// True if pushes are pending for clients of a loop.
    #[inline]
    pub fn has_pushes(&self, owner: usize) -> bool {
        self.queues[owner].has_some()
    }

    /// Wakes the loops that have pushes. For threads without a loop, which pass another thread's
    /// slot as `from`.
    pub fn wake_loops(&self) {
        for (owner, queue) in self.queues.iter().enumerate() {
            if queue.has_some() {
                self.mailboxes[owner].ring();
            }
        }
    }

    /// Memory of all pushes that are queued or being delivered.
    pub fn queued_bytes(&self) -> usize {
        self.queues.iter().map(|queue| queue.memory_bytes()).sum()
    }

    /// A loop has delivered pushes of this memory, which it took before.
    pub fn delivered(&self, owner: usize, bytes: usize) {
        self.queues[owner].delivered(bytes);
    }

    /// Takes the pushes of a loop, in order, and appends them to `out`.
    pub fn take_pushes(&self, owner: usize, out: &mut Vec<Push>) {
        self.queues[owner].take(out);
    }

    /// As [`Hub::take_pushes`], without those for clients for which `is_away` is true.
    pub fn take_pushes_here(&self, owner: usize, out: &mut Vec<Push>, is_away: impl Fn(u64) -> bool) {
        self.queues[owner].take_for_local_clients(out, is_away);
    }

    /// Puts undelivered pushes back at the front.
    pub fn put_back(&self, owner: usize, pushes: &mut Vec<Push>) {
        self.queues[owner].put_back(pushes);
    }

    /// Writes a client's queued pushes into its reply before its loop gets to them, so that they
    /// precede later output.
    pub fn claim(&self, listener: &mut Listener, reply: &mut ReplyBuffer) {
        let owner = listener.record.io_thread.load(Ordering::Relaxed) as usize;
        let queue = &self.queues[owner];
        if !queue.has_some() {
            return;
        }
        let (own, end) = queue.find(listener.id(), listener.pushes_seen);
        listener.pushes_seen = end;
        for payload in own {
            payload.write(listener, reply);
        }
    }

    /// Drops a client's queued pushes.
    pub fn skip(&self, listener: &mut Listener) {
        let owner = listener.record.io_thread.load(Ordering::Relaxed) as usize;
        listener.pushes_seen = self.queues[owner].end();
    }
}

#[cfg(test)]
mod tests;
