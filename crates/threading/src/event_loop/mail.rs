// SPDX-License-Identifier: BSD-3-Clause
//! A loop's mail: messages from other threads (new connections, replies from threads that served
//! its clients, orders) and clients handed over by other loops.

use std::sync::Arc;

use braid_clients::record::Accepted;
use braid_clients::{Message, client_flags};
use braid_executor::blocking::{Blocked, WaitEnd};
use braid_executor::{Session, tell_replicas};
use braid_net::poller::Interest;
use braid_net::stream::Stream;

use super::EventLoop;
use super::shard_channels::end_foreign_subscriptions;
use crate::client::Client;

impl EventLoop {
    /// Handles everything that other threads have left for this loop. `rung` is true if the
    /// loop's notifier was rung.
    pub(crate) fn read_mail(&mut self, rung: bool) {
        let mailbox = Arc::clone(&self.engine.clients.mailboxes[self.slot]);
        if rung {
            // Acknowledged before any message is taken: later senders ring again.
            mailbox.acknowledge();
        }
        self.model().take_arrivals(self);
        self.take_handed_over();
        while let Some(message) = mailbox.take() {
            let message = match message.client() {
                Some(id) if !self.by_id.contains_key(&id) => self.forward(id, message),
                Some(id) => self.model().defer_message(self, id, message),
                None => Some(message),
            };
            if let Some(message) = message {
                self.handle(message);
            }
        }
    }

    /// Handles a message.
    pub(crate) fn handle(&mut self, message: Message) {
        match message {
            Message::Accepted(accepted) => self.adopt(accepted),
            Message::Feed(id) => self.begin_replica_output(id),
            Message::Kill(id) => {
                if let Some(&place) = self.by_id.get(&id)
                    && let Some(client) = self.clients.slab.get(place)
                {
                    client.break_off();
                    self.clients.to_drop.push(place);
                }
            }
            Message::Unblock { id, how } => {
                if let Some(&place) = self.by_id.get(&id) {
                    self.give_up_waiting(&[place], how.into());
                }
            }
            Message::Served { id, reply, written_to } => {
                self.reply_hold.begin(self.engine.replication.in_sync.losses());
                self.reply_hold.note_changes();
                self.answer_served(id, reply, written_to);
            }
            Message::RunAgain(id) => self.run_again(id),
            Message::LeaveSlots(id) => self.leave_slots(id),
            Message::Resume => {
                self.resumes += 1;
                self.resume_postponed();
            }
            Message::AskReplicas => {
                if self.enter() {
                    tell_replicas::append_question(&self.engine, &mut self.worker.context);
                    self.engine.keyspace.gate.leave(self.slot);
                }
            }
            Message::Reconfigure => {
                self.config_version = u64::MAX;
                self.resume_accepting();
            }
            Message::Stop => self.stopping = true,
        }
    }

    fn adopt(&mut self, accepted: Accepted) {
        let Accepted { socket, is_tls, record } = accepted;
        let id = record.id;
        let (tls, failed) = match is_tls.then(|| self.listeners.handshake()) {
            None => (None, None),
            Some(Ok(tls)) => (Some(tls), None),
            Some(Err(error)) => (None, Some(error)),
        };
        let socket = Stream::new(socket, tls);
        let session = Session::new(record, &self.engine.attention, &self.engine.acl);
        let place = self.clients.slab.add(Box::new(Client::new(socket, session)));
        let Some(client) = self.clients.slab.get(place) else { return };
        client.publish_sizes(&self.clients.client_bytes);
        if client.session.record.has(client_flags::CLOSE_NOW) {
            // Killed before it arrived on this loop.
            client.break_off();
            self.clients.to_drop.push(place);
        } else if let Some(error) = failed {
            log::warn!("Error accepting a client connection: {error}");
            client.break_off();
            self.clients.to_drop.push(place);
        } else if let Err(refusal) = client.session.check_as_new() {
            if !is_tls {
                // The connection is closed whether or not the client gets this.
                let _ = client.socket.send(&[b"-", &refusal.line()[..], b"\r\n"].concat());
            }
            client.break_off();
            self.clients.to_drop.push(place);
        } else if let Err(error) = self.poller.add(&client.socket, u64::from(place), Interest::Read) {
            log::warn!("Error registering fd event for the new client: {error}");
            client.break_off();
            self.clients.to_drop.push(place);
        }
        self.by_id.insert(id, place);
        self.stats().clients.add(1);
    }

    /// Resumes the clients whose requests were postponed.
    pub(crate) fn resume_postponed(&mut self) {
        for place in std::mem::take(&mut self.clients.postponed) {
            self.resume_one(place);
        }
    }

    /// Resumes a client if its request was postponed: a place may be listed twice after its first
    /// client has left.
    pub(crate) fn resume_one(&mut self, place: u32) {
        let Some(client) = self.clients.slab.get(place) else { return };
        if !client.postponed {
            return;
        }
        let was_delayed = client.is_delayed();
        client.postponed = false;
        client.session.record.set_flag(client_flags::BLOCKED | client_flags::POSTPONED, false);
        if !client.listed.to_resume {
            client.listed.to_resume = true;
            self.clients.to_resume.push(place);
        }
        if was_delayed {
            self.poll_again(place);
        }
    }

    /// Tells the poller what a client's state asks for.
    pub(crate) fn poll_again(&mut self, place: u32) {
        let Some(client) = self.clients.slab.get(place).filter(|client| !client.is_broken()) else { return };
        if self.poller.modify(&client.socket, u64::from(place), client.interest()).is_err() {
            client.break_off();
            self.clients.to_drop.push(place);
        }
    }

    /// Stops to receive from the clients that have just begun to wait for a limit of their user.
    pub(crate) fn rest_delayed(&mut self) {
        for place in std::mem::take(&mut self.clients.delayed) {
            let is_delayed = self.clients.slab.get(place).is_some_and(|client| client.is_delayed());
            if is_delayed {
                self.poll_again(place);
            }
        }
    }

    /// Gives a waiting client the reply from the thread that served it.
    fn answer_served(&mut self, id: u64, served: Vec<u8>, written_to: u64) {
        let Some(&place) = self.by_id.get(&id) else { return };
        let Some(client) = self.clients.slab.get(place) else { return };
        let Some(blocked) = client.session.blocked.take() else { return };
        let Client { session, reply, .. } = client;
        blocked.answer(&self.engine, self.slot, session, reply, served);
        client.session.reply.has_written = true;
        client.hold.reveals |= blocked.reveals_data(&self.engine);
        client.session.written_to = client.session.written_to.max(written_to);
        self.clients.deadlines.remove(&(blocked.deadline_ms, place));
        self.resume_after_wait(place);
    }

    /// Runs a client's waiting command again.
    fn run_again(&mut self, id: u64) {
        let Some(&place) = self.by_id.get(&id) else { return };
        let Some(client) = self.clients.slab.get(place) else { return };
        if client.session.blocked.as_ref().is_some_and(|blocked| blocked.continues()) {
            return self.give_up_waiting(&[place], WaitEnd::WokenUp);
        }
        let Some(blocked) = client.session.blocked.take() else { return };
        if let Some(precomputed) = blocked.take_precomputed() {
            client.session.set_precomputed(precomputed);
        }
        self.run_blocked_again(place, &blocked);
    }

    /// Puts the request of a client whose wait is over in front of its unread input.
    pub(super) fn run_blocked_again(&mut self, place: u32, blocked: &Blocked) {
        self.clients.deadlines.remove(&(blocked.deadline_ms, place));
        let Some(client) = self.clients.slab.get(place) else { return };
        blocked.continue_in(&mut client.session);
        let mut requests = blocked.request();
        requests.append(&mut client.input.query);
        client.input.query = requests;
        // The command is counted once it has run.
        client.commands = client.commands.saturating_sub(1);
        self.resume_after_wait(place);
    }

    /// Ends a client's subscriptions to shard channels that other nodes serve.
    fn leave_slots(&mut self, id: u64) {
        let Some(&place) = self.by_id.get(&id) else { return };
        let Some(client) = self.clients.slab.get(place) else { return };
        if let Some(view) = self.engine.cluster_view() {
            let (session, reply) = (&mut client.session, &mut client.reply);
            end_foreign_subscriptions(&view, &self.engine.hub, session, reply);
        }
        if !client.listed.to_write && !client.reply.is_empty() {
            client.listed.to_write = true;
            self.clients.to_write.push(place);
        }
    }
}
