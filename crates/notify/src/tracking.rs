// SPDX-License-Identifier: BSD-3-Clause
//! Client-side caching: invalidation of keys that clients have read.
//!
//! A tracking client is recorded with each key that it reads, in the key's shard, under the lock of
//! the read (`keyspace/watch.rs`). A thread that changes the key removes the record under the
//! exclusive lock, and the dispatcher notifies the client before that lock is released. Therefore
//! no invalidation is missed, and it follows the reply that it invalidates. With BCAST, a client is
//! notified of all changed keys with its prefixes, whether or not it has read them.
//!
//! Invalidations are pushes (`hub.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use braid_keyspace::{Context, Keyspace, Txn};
use braid_resp::request;
use parking_lot::RwLock;

use braid_clients::{ClientRecord, Registry, client_flags};
use braid_spec::{Command, Flags, keys};

use crate::hub::Hub;
use crate::listener::{Listener, Tracking};
use crate::payload::{Invalidation, Payload};
use crate::queue::Listeners;

/// State of key tracking. One per server.
pub struct Trackers {
    hub: Arc<Hub>,
    registry: Arc<Registry>,
    clients: AtomicUsize,
    /// Number of tracked keys, and of the client records kept with them.
    keys: AtomicUsize,
    items: AtomicUsize,
    /// Clients by prefix.
    prefixes: RwLock<BTreeMap<Box<[u8]>, Vec<u64>>>,
}

impl Trackers {
    /// Creates the state. Invalidations are sent through `hub`.
    pub fn new(hub: Arc<Hub>, registry: Arc<Registry>) -> Trackers {
        Trackers {
            hub,
            registry,
            clients: AtomicUsize::new(0),
            keys: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
            prefixes: RwLock::default(),
        }
    }

    /// Number of tracking clients.
    pub fn clients(&self) -> usize {
        self.clients.load(Relaxed)
    }

    /// Number of tracked keys.
    pub fn keys(&self) -> usize {
        self.keys.load(Relaxed)
    }

    /// Number of clients recorded with keys.
    pub fn items(&self) -> usize {
        self.items.load(Relaxed)
    }

    /// Number of BCAST prefixes.
    pub fn prefixes(&self) -> usize {
        self.prefixes.read().len()
    }

    /// Starts or changes a client's tracking. Prefixes are added to existing ones.
    pub fn start(&self, keyspace: &Keyspace, listener: &mut Listener, tracking: Tracking) {
        let mut prefixes = match listener.tracking.take() {
            Some(old) => old.prefixes,
            None => {
                self.clients.fetch_add(1, Relaxed);
                Vec::new()
            }
        };
        let id = listener.id();
        if tracking.bcast {
            let new = if tracking.prefixes.is_empty() { vec![Box::default()] } else { tracking.prefixes };
            let mut table = self.prefixes.write();
            if table.is_empty() {
                keyspace.set_broadcast(true);
            }
            for prefix in new {
                if !prefixes.contains(&prefix) {
                    table.entry(prefix.clone()).or_default().push(id);
                    prefixes.push(prefix);
                }
            }
            prefixes.sort();
        }
        let record = &listener.record;
        record.redirect.store(i64::try_from(tracking.redirect).unwrap_or(i64::MAX), Relaxed);
        record.set_flag(client_flags::TRACKING_BROKEN, false);
        record.set_flag(client_flags::TRACKING_BCAST, tracking.bcast);
        record.set_flag(client_flags::TRACKING_NOLOOP, tracking.noloop);
        record.set_flag(client_flags::TRACKING, true);
        listener.tracking = Some(Box::new(Tracking { prefixes, ..tracking }));
    }

    /// Stops a client's tracking. Its records disappear when the keys change.
    pub fn stop(&self, keyspace: &Keyspace, listener: &mut Listener) {
        let Some(tracking) = listener.tracking.take() else { return };
        self.clients.fetch_sub(1, Relaxed);
        if !tracking.prefixes.is_empty() {
            let id = listener.id();
            let mut table = self.prefixes.write();
            for prefix in &tracking.prefixes {
                if let Some(clients) = table.get_mut(prefix) {
                    clients.retain(|&client| client != id);
                    if clients.is_empty() {
                        table.remove(prefix);
                    }
                }
            }
            if table.is_empty() {
                keyspace.set_broadcast(false);
            }
        }
        let flags = client_flags::TRACKING
            | client_flags::TRACKING_BCAST
            | client_flags::TRACKING_NOLOOP
            | client_flags::TRACKING_BROKEN;
        listener.record.set_flag(flags, false);
        listener.record.redirect.store(-1, Relaxed);
    }

    /// Records the keys that a client's command has read, under the locks of the read. `most_keys`
    /// limits the number of tracked keys.
    #[cold]
    pub fn remember(
        &self,
        listener: &Listener,
        txn: &Txn<'_>,
        command: &Command,
        args: &[&[u8]],
        most_keys: usize,
    ) {
        let Some(tracking) = &listener.tracking else { return };
        let flags = command.spec.flags;
        if tracking.bcast || !flags.has(Flags::READONLY) || flags.has(Flags::PUBSUB) || command.runs_scripts {
            return;
        }
        if (tracking.optin && !tracking.caching) || (tracking.optout && tracking.caching) {
            return;
        }
        for at in keys::find(command.spec, args).into_iter().flatten() {
            let (new_key, new_item) = txn.track(args[at.index], listener.id());
            self.keys.fetch_add(usize::from(new_key), Relaxed);
            self.items.fetch_add(usize::from(new_item), Relaxed);
        }
        self.enforce_limit(txn.keyspace(), most_keys, txn.context.slot);
    }

    /// Limits the number of tracked keys to `most` (`tracking-table-max-keys`; 0 means unlimited)
    /// by invalidating some.
    pub fn enforce_limit(&self, keyspace: &Keyspace, most: usize, slot: usize) {
        while most > 0 && self.keys() > most {
            let Some((key, clients)) = keyspace.take_tracked() else { return };
            self.forget(slot, &key, &clients, None);
        }
    }

    /// Notifies the clients recorded with a key that was removed from the table.
    fn forget(&self, slot: usize, key: &[u8], clients: &[u64], changed_by: Option<u64>) {
        self.keys.fetch_sub(1, Relaxed);
        self.items.fetch_sub(clients.len(), Relaxed);
        let keys = encode(std::iter::once(key));
        for &client in clients {
            self.tell(slot, client, Some(&keys), changed_by, false);
        }
    }

    /// Sends invalidations for keys changed since the last call. `changed_by` is the client that
    /// changed them, if any.
    pub fn flush_invalidations(&self, context: &mut Context, changed_by: Option<u64>) {
        let slot = context.slot;
        for (key, clients) in std::mem::take(context.invalidated.get_mut()) {
            self.forget(slot, &key, &clients, changed_by);
        }
        let mut changed = std::mem::take(context.broadcast.get_mut());
        if changed.is_empty() {
            return;
        }
        changed.sort_unstable();
        changed.dedup();
        for (prefix, clients) in &*self.prefixes.read() {
            let of_prefix: Vec<&[u8]> =
                changed.iter().map(|key| &**key).filter(|key| key.starts_with(prefix)).collect();
            if of_prefix.is_empty() {
                continue;
            }
            let keys = encode(of_prefix.into_iter());
            for &client in clients {
                self.tell(slot, client, Some(&keys), changed_by, true);
            }
        }
    }

    /// Invalidates all keys of all tracking clients, after a flush.
    pub fn flushed(&self, keyspace: &Keyspace, slot: usize) {
        if self.clients() > 0 {
            for record in self.registry.all() {
                if record.has(client_flags::TRACKING) {
                    self.send(slot, &record, None);
                }
            }
        }
        // Clients that have stopped tracking may still be recorded.
        let (keys, items) = keyspace.forget_tracked();
        self.keys.fetch_sub(keys, Relaxed);
        self.items.fetch_sub(items, Relaxed);
    }

    /// Notifies the owner of an invalidation that its redirection target is gone.
    pub fn undeliverable(&self, invalidation: &Invalidation, slot: usize) {
        if invalidation.redirected
            && let Some(owner) = self.registry.get(invalidation.owner)
        {
            self.tell_broken(slot, &owner);
        }
    }

    fn tell(&self, slot: usize, client: u64, keys: Option<&Arc<[u8]>>, changed_by: Option<u64>, bcast: bool) {
        let Some(record) = self.registry.get(client) else { return };
        let tracks = record.has(client_flags::TRACKING) && record.has(client_flags::TRACKING_BCAST) == bcast;
        let own = record.has(client_flags::TRACKING_NOLOOP) && changed_by == Some(client);
        if tracks && !own {
            self.send(slot, &record, keys);
        }
    }

    fn send(&self, slot: usize, owner: &ClientRecord, keys: Option<&Arc<[u8]>>) {
        let redirect = u64::try_from(owner.redirect.load(Relaxed)).unwrap_or(0);
        let invalidation = Invalidation { owner: owner.id, redirected: redirect != 0, keys: keys.cloned() };
        let payload = Arc::new(Payload::Invalidation(invalidation));
        if redirect == 0 {
            self.push(slot, owner, payload);
            return;
        }
        match self.registry.get(redirect) {
            Some(target) => self.push(slot, &target, payload),
            None => self.tell_broken(slot, owner),
        }
    }

    fn tell_broken(&self, slot: usize, owner: &ClientRecord) {
        owner.set_flag(client_flags::TRACKING_BROKEN, true);
        self.push(slot, owner, Arc::new(Payload::RedirectBroken(owner.redirect.load(Relaxed))));
    }

    fn push(&self, slot: usize, to: &ClientRecord, payload: Arc<Payload>) {
        to.with_owner(|owner| self.hub.push(slot, owner, Listeners::one(to.id), payload));
    }
}

fn encode<'k>(keys: impl ExactSizeIterator<Item = &'k [u8]>) -> Arc<[u8]> {
    let mut text = Vec::new();
    request::push_count(&mut text, keys.len());
    keys.for_each(|key| request::push_bulk(&mut text, key));
    text.into()
}
