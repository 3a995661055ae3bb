// SPDX-License-Identifier: BSD-3-Clause
//! Publish and subscribe: who listens to what, and how messages reach them.
//!
//! One table for the whole process ([`Hub`]) tells for each channel and pattern which clients
//! listen, by the event loop that owns them. PUBLISH looks its channel up, encodes the message
//! once, and leaves one push per loop with listeners in that loop's queue (`queue.rs`); the loop
//! writes it into its clients' replies. Nothing else is shared, and nobody waits for a slow client.
//!
//! Order: a channel's lock is held while a message is put into the queues, so all listeners of a
//! channel see its messages in the same order, and those of one publisher in the order in which it
//! published them. A SUBSCRIBE is in the table before it is answered, so it gets whatever is
//! published afterwards.
//!
//! What must never happen: a shard lock is taken, or a reply is written, while a lock of this module is held.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use braid_base::blob::Blob;
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

/// Locks that channels are spread over.
const TABLES: usize = 64;

type Names<T> = HashMap<Box<[u8]>, T, foldhash::fast::RandomState>;

/// The clients that listen to one channel or pattern, by the loop that owns them.
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

    /// True if nobody is left.
    fn remove(&mut self, client: u64) -> bool {
        for (_, listeners) in &mut self.loops {
            listeners.remove(client);
        }
        self.loops.retain(|(_, listeners)| listeners.len() > 0);
        self.loops.is_empty()
    }

    /// Has a client's part go to another loop.
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

/// Channels with their listeners.
type Table = Box<[Padded<Mutex<Names<Audience>>>]>;

/// Who listens to what, and the queues that messages travel in. One per server.
pub struct Hub {
    hasher: foldhash::fast::RandomState,
    channels: Table,
    shard_channels: Table,
    patterns: RwLock<Names<Audience>>,
    /// Numbers of names in the tables: PUBLISH looks no further where there is none.
    channel_count: AtomicUsize,
    pattern_count: AtomicUsize,
    shard_channel_count: AtomicUsize,
    /// Clients that are told of every command.
    monitors: Mutex<Audience>,
    /// The kinds of channels that keyspace events are published on.
    pub event_channels: AtomicU32,
    /// One per event loop.
    queues: Slots<Padded<Queue>>,
    mailboxes: Arc<Mailboxes>,
}

impl Hub {
    /// A hub for the loops with these mailboxes. Room is to be made for them ([`Hub::make_room_for_loops`]).
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

    /// Provides for so many loops.
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

    /// Works on the table that a name belongs to.
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

    /// How many channels, patterns or shard channels somebody listens to.
    pub fn name_count(&self, kind: SubscriptionKind) -> usize {
        self.count_of(kind).load(Ordering::Relaxed)
    }

    /// How many clients listen to a channel (not by a pattern).
    pub fn listener_count(&self, kind: SubscriptionKind, name: &[u8]) -> usize {
        self.with_names(kind, name, |names| names.get(name).map_or(0, Audience::len))
    }

    /// The channels that somebody listens to and whose names match a pattern, if one is given.
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

    /// Whether a client listens to a channel or a pattern (then with `true`) that is not `allowed`.
    /// Looks at all names: for rare occasions.
    pub fn listens_to_other(&self, client: u64, allowed: impl Fn(&[u8], bool) -> bool) -> bool {
        let other = |names: &Names<Audience>, is_pattern: bool| {
            names.iter().any(|(name, audience)| audience.contains(client) && !allowed(name, is_pattern))
        };
        // No lock is held while the next one is waited for.
        let hears_other = other(&self.patterns.read(), true);
        hears_other || self.channels.iter().chain(&self.shard_channels).any(|part| other(&part.lock(), false))
    }

    /// Lets a client listen. Returns how many subscriptions it has then, as it is told.
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

    /// Stops a client's listening to something. Returns how many subscriptions it has left, as it is told.
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

    /// What a client listens to of one kind.
    pub fn names_of(&self, listener: &mut Listener, kind: SubscriptionKind) -> Vec<Box<[u8]>> {
        listener.subscriptions.as_mut().map_or_else(Vec::new, |all| all.names(kind).iter().cloned().collect())
    }

    /// Stops all of a client's listening. What was published before and has not reached it is dropped.
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

    /// Sends a message to all who listen to a channel. `from` is the slot of the calling thread;
    /// `blob` holds the message's bytes if they came in an allocation of their own. Returns how
    /// many clients get it (one that listens by a pattern too counts twice, as it gets it twice).
    #[inline]
    pub fn publish(&self, from: usize, channel: &[u8], message: &[u8], blob: Option<&Blob>) -> usize {
        let nobody = self.channel_count.load(Ordering::Acquire) == 0
            && self.pattern_count.load(Ordering::Acquire) == 0;
        if nobody { 0 } else { self.publish_to(from, channel, message, blob) }
    }

    fn publish_to(&self, from: usize, channel: &[u8], message: &[u8], blob: Option<&Blob>) -> usize {
        // Held to the end, so that all listeners get the channel's messages in one order.
        let names = self.part(&self.channels, channel).lock();
        let mut receivers = 0;
        if let Some(audience) = names.get(channel) {
            receivers += self.send(from, audience, || Frame::new(&[b"message", channel], message, blob));
        }
        if self.pattern_count.load(Ordering::Acquire) > 0 {
            for (pattern, audience) in &*self.patterns.read() {
                if glob::matches(pattern, channel, false) {
                    let frame = || Frame::new(&[b"pmessage", pattern, channel], message, blob);
                    receivers += self.send(from, audience, frame);
                }
            }
        }
        receivers
    }

    /// As [`Hub::publish`], for shard channels, which no pattern matches.
    pub fn publish_shard(&self, from: usize, channel: &[u8], message: &[u8], blob: Option<&Blob>) -> usize {
        if self.shard_channel_count.load(Ordering::Acquire) == 0 {
            return 0;
        }
        let names = self.part(&self.shard_channels, channel).lock();
        let Some(audience) = names.get(channel) else { return 0 };
        self.send(from, audience, || Frame::new(&[b"smessage", channel], message, blob))
    }

    /// True if a message on some channel could reach anybody.
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
        // Mostly the only one: what is shared by nobody else need not be counted twice.
        self.push(from, *last, others.clone(), payload);
        audience.len()
    }

    /// Adds one who monitors. The attention word follows under the same lock, so that it never says
    /// less than there is.
    pub fn add_monitor(&self, record: &ClientRecord, attention: &Attention) {
        let owner = record.io_thread.load(Ordering::Relaxed) as usize;
        let mut monitors = self.monitors.lock();
        monitors.add(owner, record.id);
        attention.set(MONITORS, true);
    }

    /// Takes one away.
    pub fn remove_monitor(&self, client: u64, attention: &Attention) {
        let mut monitors = self.monitors.lock();
        if monitors.remove(client) {
            attention.set(MONITORS, false);
        }
    }

    /// Sends the same to all who monitor.
    pub fn tell_monitors(&self, from: usize, payload: &Arc<Payload>) {
        for (owner, listeners) in &self.monitors.lock().loops {
            self.push(from, *owner, listeners.clone(), Arc::clone(payload));
        }
    }

    /// Has everything that is sent to a client go to another loop from now on. What waits in the
    /// queue of its present one came before that, and is to be handed out by that loop, before the
    /// client goes over.
    pub fn relocate(&self, listener: &mut Listener, to: usize) {
        let Listener { record, subscriptions, .. } = listener;
        // First of all, so that what comes to the new loop early waits there.
        record.set_owner(to);
        if record.has(client_flags::MONITOR) {
            self.monitors.lock().relocate(record.id, to);
        }
        let Some(subscriptions) = subscriptions else { return };
        // All tables at once: otherwise of two messages, sent one after the other on two channels,
        // the first could go to the new queue and the second one to the old. In the order in which
        // publishers take them: channels, then patterns.
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

    /// Leaves something for clients of a loop. A loop looks into its queue after what it has
    /// executed itself: only others have to be woken.
    pub fn push(&self, from: usize, owner: usize, to: Listeners, payload: Arc<Payload>) {
        self.queues[owner].push(to, payload);
        if owner != from {
            self.mailboxes[owner].ring();
        }
    }

    /// True if something waits for clients of a loop.
    #[inline]
    pub fn has_pushes(&self, owner: usize) -> bool {
        self.queues[owner].has_some()
    }

    /// Takes what waits for clients of a loop, in order, behind what is in `out`.
    pub fn take_pushes(&self, owner: usize, out: &mut Vec<Push>) {
        self.queues[owner].take(out);
    }

    /// As [`Hub::take_pushes`], without what is for clients that `is_away` names.
    pub fn take_pushes_here(&self, owner: usize, out: &mut Vec<Push>, is_away: impl Fn(u64) -> bool) {
        self.queues[owner].take_for_those_here(out, is_away);
    }

    /// Puts what could not be handed out yet back in front.
    pub fn put_back(&self, owner: usize, pushes: &mut Vec<Push>) {
        self.queues[owner].put_back(pushes);
    }

    /// Writes what waits for a client into its reply, before its loop gets to it: what follows
    /// there comes later.
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

    /// Has a client miss what waits for it.
    pub fn skip(&self, listener: &mut Listener) {
        let owner = listener.record.io_thread.load(Ordering::Relaxed) as usize;
        listener.pushes_seen = self.queues[owner].end();
    }
}

#[cfg(test)]
mod tests;
