// SPDX-License-Identifier: BSD-3-Clause
//! Closing connections: releases everything that other parts of the server hold for a client.

use std::sync::Arc;

use braid_base::clock;
use braid_executor::{dispatch, memory};
use braid_replica::replicas;
use braid_resp::reply::ReplyBuffer;

use super::EventLoop;

impl EventLoop {
    /// Closes the marked clients that have nothing left to send.
    pub(super) fn drop_finished(&mut self) {
        while let Some(place) = self.clients.to_drop.pop() {
            if self.clients.slab.get(place).is_some_and(|client| client.is_finished()) {
                self.drop_client(place);
            }
        }
    }

    /// Closes a client, or lets its connection go elsewhere. A client that watches keys or waits
    /// for them stays until a long script has ended.
    pub(super) fn drop_client(&mut self, place: u32) {
        let Some(client) = self.clients.slab.get(place) else { return };
        let needs_keys = !client.session.transaction.watched.is_empty() || client.session.blocked.is_some();
        if needs_keys && !self.enter() {
            self.after_script.drops.push(place);
            return;
        }
        let Some(mut client) = self.clients.slab.remove(place) else { return };
        // epoll drops a closed descriptor by itself, but not one that was duplicated.
        let _ = self.poller.remove(&client.socket);
        let engine = Arc::clone(&self.engine);
        if !client.session.transaction.watched.is_empty() {
            dispatch::unwatch_all(&engine, &mut self.worker.context, &mut client.session);
        }
        client.session.unsubscribe_all(&engine.hub);
        client.session.stop_monitor(&engine.hub, &engine.attention);
        client.session.stop_tracking(&engine.trackers, &engine.keyspace);
        if client.session.replication.replica.is_some() {
            self.replicas.remove(place);
            replicas::detach_replica(&engine, &mut client.session, clock::unix_ms());
        }
        if let Some(blocked) = client.session.blocked.take() {
            // A thread that is serving the client leaves the queues as well; doing it twice is
            // safe.
            blocked.claim();
            blocked.leave(&engine, &mut self.worker);
            self.clients.deadlines.remove(&(blocked.deadline_ms, place));
        }
        if needs_keys {
            engine.keyspace.gate.leave(self.slot);
        }
        if let Some(until) = client.session.delayed_until_ms() {
            self.clients.deadlines.remove(&(until, place));
        }
        client.uncount(&self.clients.client_bytes);
        let id = client.session.id();
        self.by_id.remove(&id);
        engine.clients.registry.remove(id);
        self.loads.release(self.slot);
        let stats = self.stats();
        // Minus one, in wrapping arithmetic.
        stats.clients.add(u64::MAX);
        // Until here their memory does not count, so no key is evicted for messages about to go.
        client.reply = ReplyBuffer::default();
        if client.counted_push_bytes() > 0 {
            client.count_pushes(&engine.clients.push_bytes);
            memory::note_uncounted_bytes(&engine);
        }
        if let Some(departure) = client.session.departure.take().filter(|_| !client.is_broken()) {
            departure(client.socket);
        }
    }
}
