// SPDX-License-Identifier: BSD-3-Clause
//! Client-side caching: telling clients which of the keys that they have read are no longer as they were.
//!
//! A client that tracks is noted beside each key that it reads, in the key's shard, while the lock is held under which it read
//! (`keyspace/watch.rs`). Whoever changes the key takes the note away, under the exclusive lock, and the dispatcher tells the client
//! before that lock is released: so an invalidation cannot be missed, and it comes behind the reply that it makes stale. With
//! BCAST a client is told of all keys that begin with its prefixes, whether it has read them or not.
//!
//! Invalidations travel as pushes (`pubsub`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use braid_keyspace::{Context, Txn};
use braid_resp::reply::{Protocol, ReplyBuffer};
use parking_lot::RwLock;

use crate::engine::Engine;
use crate::session::Session;
use braid_clients::{ClientRecord, client_flags};
use braid_notify::frame::put_bulk;
use braid_notify::queue::{Listeners, Payload};
use braid_spec::Command;
use braid_spec::Flags;
use braid_spec::keys;

/// The channel that RESP2 clients get invalidations of others on.
const CHANNEL: &[u8] = b"__redis__:invalidate";

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

/// What is one per server.
#[derive(Default)]
pub struct Trackers {
    clients: AtomicUsize,
    /// Keys beside which clients are noted, and the notes.
    keys: AtomicUsize,
    items: AtomicUsize,
    /// Clients by prefix.
    prefixes: RwLock<BTreeMap<Box<[u8]>, Vec<u64>>>,
}

impl Trackers {
    /// Clients that track.
    pub fn clients(&self) -> usize {
        self.clients.load(Relaxed)
    }

    /// Keys beside which clients are noted.
    pub fn keys(&self) -> usize {
        self.keys.load(Relaxed)
    }

    /// Clients noted beside keys, in all.
    pub fn items(&self) -> usize {
        self.items.load(Relaxed)
    }

    /// Prefixes that clients are told of.
    pub fn prefixes(&self) -> usize {
        self.prefixes.read().len()
    }
}

/// Keys that a client shall forget.
#[derive(Debug)]
pub struct Invalidation {
    /// The client that tracks.
    owner: u64,
    /// It is told to another one.
    redirected: bool,
    /// The encoded array of keys; nothing: all of them.
    keys: Option<Arc<[u8]>>,
}

impl Invalidation {
    /// Adds it to what a client is sent, if there is a form that the client understands.
    pub(crate) fn write(&self, session: &Session, reply: &mut ReplyBuffer) {
        match reply.protocol {
            Protocol::Resp3 => {
                reply.push(2);
                reply.bulk(b"invalidate");
            }
            Protocol::Resp2 if self.redirected && session.subscriptions.is_some() => {
                reply.push(3);
                reply.bulk(b"message");
                reply.bulk(CHANNEL);
            }
            Protocol::Resp2 => return,
        }
        match &self.keys {
            Some(keys) => reply.raw(keys),
            None => reply.null(),
        }
    }

    /// The client that it was to be told to is gone: its owner has to know.
    pub fn undeliverable(&self, engine: &Engine, slot: usize) {
        if self.redirected
            && let Some(owner) = engine.clients.get(self.owner)
        {
            tell_broken(engine, slot, &owner);
        }
    }
}

/// Lets a client track, as it says, or changes how.
pub fn start(engine: &Engine, session: &mut Session, tracking: Tracking) {
    let trackers = &engine.trackers;
    let mut prefixes = match session.tracking.take() {
        Some(old) => old.prefixes,
        None => {
            trackers.clients.fetch_add(1, Relaxed);
            Vec::new()
        }
    };
    let id = session.id();
    if tracking.bcast {
        let new = if tracking.prefixes.is_empty() { vec![Box::default()] } else { tracking.prefixes };
        let mut table = trackers.prefixes.write();
        if table.is_empty() {
            engine.keyspace.set_broadcast(true);
        }
        for prefix in new {
            if !prefixes.contains(&prefix) {
                table.entry(prefix.clone()).or_default().push(id);
                prefixes.push(prefix);
            }
        }
        prefixes.sort();
    }
    let record = &session.record;
    record.redirect.store(i64::try_from(tracking.redirect).unwrap_or(i64::MAX), Relaxed);
    record.set_flag(client_flags::TRACKING_BROKEN, false);
    record.set_flag(client_flags::TRACKING_BCAST, tracking.bcast);
    record.set_flag(client_flags::TRACKING_NOLOOP, tracking.noloop);
    record.set_flag(client_flags::TRACKING, true);
    session.tracking = Some(Box::new(Tracking { prefixes, ..tracking }));
    session.settle_attention();
}

/// Ends a client's tracking. The notes beside keys go when these change.
pub fn stop(engine: &Engine, session: &mut Session) {
    let Some(tracking) = session.tracking.take() else { return };
    let trackers = &engine.trackers;
    trackers.clients.fetch_sub(1, Relaxed);
    if !tracking.prefixes.is_empty() {
        let id = session.id();
        let mut table = trackers.prefixes.write();
        for prefix in &tracking.prefixes {
            if let Some(clients) = table.get_mut(prefix) {
                clients.retain(|&client| client != id);
                if clients.is_empty() {
                    table.remove(prefix);
                }
            }
        }
        if table.is_empty() {
            engine.keyspace.set_broadcast(false);
        }
    }
    let flags = client_flags::TRACKING
        | client_flags::TRACKING_BCAST
        | client_flags::TRACKING_NOLOOP
        | client_flags::TRACKING_BROKEN;
    session.record.set_flag(flags, false);
    session.record.redirect.store(-1, Relaxed);
    session.settle_attention();
}

/// Notes that a client has read what a command names, under the locks under which it did.
#[cold]
pub(crate) fn remember(engine: &Engine, session: &Session, txn: &Txn<'_>, command: &Command, args: &[&[u8]]) {
    let Some(tracking) = &session.tracking else { return };
    let flags = command.spec.flags;
    if tracking.bcast || !flags.has(Flags::READONLY) || flags.has(Flags::PUBSUB) || command.runs_scripts {
        return;
    }
    if (tracking.optin && !tracking.caching) || (tracking.optout && tracking.caching) {
        return;
    }
    let trackers = &engine.trackers;
    for at in keys::find(command.spec, args).into_iter().flatten() {
        let (new_key, new_item) = txn.track(args[at.index], session.id());
        trackers.keys.fetch_add(usize::from(new_key), Relaxed);
        trackers.items.fetch_add(usize::from(new_item), Relaxed);
    }
    enforce_limit(engine, txn.context.slot);
}

/// Keeps the number of noted keys within `tracking-table-max-keys`: the clients are told that keys changed.
pub fn enforce_limit(engine: &Engine, slot: usize) {
    let most = engine.config.tracking_table_max_keys();
    let trackers = &engine.trackers;
    while most > 0 && trackers.keys() > most {
        let Some((key, clients)) = engine.keyspace.take_tracked() else { return };
        forget(engine, slot, &key, &clients, None);
    }
}

/// Tells the clients that were noted beside a key, which is taken from the table.
fn forget(engine: &Engine, slot: usize, key: &[u8], clients: &[u64], changed_by: Option<u64>) {
    let trackers = &engine.trackers;
    trackers.keys.fetch_sub(1, Relaxed);
    trackers.items.fetch_sub(clients.len(), Relaxed);
    let keys = encode(std::iter::once(key));
    for &client in clients {
        tell(engine, slot, client, Some(&keys), changed_by, false);
    }
}

fn encode<'k>(keys: impl ExactSizeIterator<Item = &'k [u8]>) -> Arc<[u8]> {
    let mut text = format!("*{}\r\n", keys.len()).into_bytes();
    keys.for_each(|key| put_bulk(&mut text, key));
    text.into()
}

/// Tells of the keys that were changed since the last time, by the client of this id if by any.
pub(crate) fn settle(engine: &Engine, context: &mut Context, changed_by: Option<u64>) {
    let slot = context.slot;
    for (key, clients) in std::mem::take(context.invalidated.get_mut()) {
        forget(engine, slot, &key, &clients, changed_by);
    }
    let mut changed = std::mem::take(context.broadcast.get_mut());
    if changed.is_empty() {
        return;
    }
    changed.sort_unstable();
    changed.dedup();
    for (prefix, clients) in &*engine.trackers.prefixes.read() {
        let of_prefix: Vec<&[u8]> =
            changed.iter().map(|key| &**key).filter(|key| key.starts_with(prefix)).collect();
        if of_prefix.is_empty() {
            continue;
        }
        let keys = encode(of_prefix.into_iter());
        for &client in clients {
            tell(engine, slot, client, Some(&keys), changed_by, true);
        }
    }
}

/// Tells all clients that track to forget everything: a database was emptied.
pub fn flushed(engine: &Engine, slot: usize) {
    if engine.trackers.clients() > 0 {
        for record in engine.clients.all() {
            if record.has(client_flags::TRACKING) {
                send(engine, slot, &record, None);
            }
        }
    }
    // Those who have stopped tracking are noted still.
    let (keys, items) = engine.keyspace.forget_tracked();
    engine.trackers.keys.fetch_sub(keys, Relaxed);
    engine.trackers.items.fetch_sub(items, Relaxed);
}

fn tell(
    engine: &Engine,
    slot: usize,
    client: u64,
    keys: Option<&Arc<[u8]>>,
    changed_by: Option<u64>,
    bcast: bool,
) {
    let Some(record) = engine.clients.get(client) else { return };
    let tracks = record.has(client_flags::TRACKING) && record.has(client_flags::TRACKING_BCAST) == bcast;
    let own = record.has(client_flags::TRACKING_NOLOOP) && changed_by == Some(client);
    if tracks && !own {
        send(engine, slot, &record, keys);
    }
}

fn send(engine: &Engine, slot: usize, owner: &ClientRecord, keys: Option<&Arc<[u8]>>) {
    let redirect = u64::try_from(owner.redirect.load(Relaxed)).unwrap_or(0);
    let invalidation = Invalidation { owner: owner.id, redirected: redirect != 0, keys: keys.cloned() };
    let payload = Arc::new(Payload::Invalidation(invalidation));
    if redirect == 0 {
        push(engine, slot, owner, payload);
        return;
    }
    match engine.clients.get(redirect) {
        Some(target) => push(engine, slot, &target, payload),
        None => tell_broken(engine, slot, owner),
    }
}

fn tell_broken(engine: &Engine, slot: usize, owner: &ClientRecord) {
    owner.set_flag(client_flags::TRACKING_BROKEN, true);
    push(engine, slot, owner, Arc::new(Payload::RedirectBroken(owner.redirect.load(Relaxed))));
}

fn push(engine: &Engine, slot: usize, to: &ClientRecord, payload: Arc<Payload>) {
    to.with_owner(|owner| engine.hub.push(slot, owner, Listeners::one(to.id), payload));
}
