// SPDX-License-Identifier: BSD-3-Clause
//! What others have left for a loop: connections, replies of those who served its clients, and what it is told to do.

use std::sync::Arc;

use braid_clients::record::Accepted;
use braid_clients::{Message, client_flags};
use braid_engine::Session;
use braid_engine::blocking::Ending;
use braid_net::poller::Interest;
use braid_net::stream::Stream;

use crate::client::Client;
use crate::event_loop::EventLoop;
use crate::models::Model;

impl<M: Model> EventLoop<M> {
    /// Takes what others have left for this loop; `rung` if its bell has been rung.
    pub(crate) fn read_mail(&mut self, rung: bool) {
        let mailbox = Arc::clone(&self.engine.mailboxes[self.slot]);
        if rung {
            // Before anything is taken: who comes later rings again.
            mailbox.acknowledge();
        }
        M::take_arrivals(self);
        self.take_handed_over();
        while let Some(message) = mailbox.take() {
            let message = match message.client() {
                Some(id) if !self.by_id.contains_key(&id) => self.forward(id, message),
                Some(id) => M::defer(self, id, message),
                None => Some(message),
            };
            if let Some(message) = message {
                self.follow(message);
            }
        }
    }

    /// Does what a message says.
    pub(crate) fn follow(&mut self, message: Message) {
        match message {
            Message::Accepted(accepted) => self.adopt(accepted),
            Message::Feed(id) => self.begin_feed(id),
            Message::Kill(id) => {
                if let Some(&place) = self.by_id.get(&id)
                    && let Some(client) = self.station.clients.get(place)
                {
                    client.broken = true;
                    self.station.to_drop.push(place);
                }
            }
            Message::Unblock { id, error } => {
                if let Some(&place) = self.by_id.get(&id) {
                    let ending = if error { Ending::Error } else { Ending::Timeout };
                    self.give_up_waiting(&[place], ending);
                }
            }
            Message::Served { id, reply, written_to } => {
                self.settling.note_changes();
                self.hand_over(id, reply, written_to);
            }
            Message::Resume => {
                self.resumes += 1;
                self.resume_postponed();
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
        let session = Session::new(record, &self.engine);
        let place = self.station.clients.add(Box::new(Client::new(socket, session)));
        let Some(client) = self.station.clients.get(place) else { return };
        client.publish_sizes(&self.station.client_bytes);
        if client.session.record.has(client_flags::CLOSE_NOW) {
            // Killed before it got here.
            client.broken = true;
            self.station.to_drop.push(place);
        } else if let Some(error) = failed {
            log::warn!("Error accepting a client connection: {error}");
            client.broken = true;
            self.station.to_drop.push(place);
        } else if let Err(error) = self.poller.add(&client.socket, u64::from(place), Interest::Read) {
            log::warn!("Error registering fd event for the new client: {error}");
            client.broken = true;
            self.station.to_drop.push(place);
        }
        self.by_id.insert(id, place);
        self.stats().clients.add(1);
    }

    /// Looks again at clients whose requests were held back.
    pub(crate) fn resume_postponed(&mut self) {
        for place in std::mem::take(&mut self.station.postponed) {
            // A place may stand there twice when its first client has left: only who waits is resumed.
            let Some(client) = self.station.clients.get(place) else { continue };
            if !std::mem::take(&mut client.postponed) {
                continue;
            }
            client.session.record.set_flag(client_flags::BLOCKED | client_flags::POSTPONED, false);
            if !client.in_resume_list {
                client.in_resume_list = true;
                self.station.to_resume.push(place);
            }
        }
    }

    /// Gives a client that waited the reply of whoever served it.
    fn hand_over(&mut self, id: u64, served: Vec<u8>, written_to: u64) {
        let Some(&place) = self.by_id.get(&id) else { return };
        let Some(client) = self.station.clients.get(place) else { return };
        let Some(blocked) = client.session.blocked.take() else { return };
        let Client { session, reply, .. } = client;
        blocked.answer(&self.engine, self.slot, session, reply, served);
        client.session.has_written = true;
        client.session.written_to = client.session.written_to.max(written_to);
        self.station.deadlines.remove(&(blocked.deadline_ms, place));
        self.go_on(place);
    }
}
