// SPDX-License-Identifier: BSD-3-Clause
//! The origin of migrating clients: a loop that sends them to the main thread and takes them
//! back.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;

use braid_clients::Message;
use braid_executor::Engine;
use braid_net::poller::Poller;

use super::{MAIN, Routes};
use crate::client::Client;
use crate::event_loop::EventLoop;

/// State of a loop's absent clients.
pub struct Origin {
    routes: Arc<Routes>,
    /// By place.
    away: RefCell<Vec<Absence>>,
    /// Clients that found the queue to the main thread full, in order of arrival.
    waiting: RefCell<VecDeque<Box<Client>>>,
    /// Clients have been sent since the main thread's notifier was last rung.
    is_ring_due: Cell<bool>,
}

/// A place, and whether its client is away.
#[derive(Default)]
struct Absence {
    is_away: bool,
    /// The client's socket, which stays open while the client is away.
    descriptor: RawFd,
    /// The socket became ready meanwhile and is not polled until the client is back.
    is_muted: bool,
    /// Messages kept for the client's return.
    mail: Vec<Message>,
}

impl Origin {
    /// The state of a loop without absent clients.
    pub fn new(routes: Arc<Routes>) -> Origin {
        Origin { routes, away: RefCell::default(), waiting: RefCell::default(), is_ring_due: Cell::default() }
    }

    /// True while the client of a place is away.
    #[inline]
    pub fn is_away(&self, place: u32) -> bool {
        self.away.borrow().get(place as usize).is_some_and(|absence| absence.is_away)
    }

    /// Stops polling the socket of an absent client: epoll would report it in every turn, and the
    /// loop cannot act on it.
    #[cold]
    pub fn mute(&self, poller: &Poller, place: u32) {
        let mut away = self.away.borrow_mut();
        let Some(absence) = away.get_mut(place as usize).filter(|absence| absence.is_away) else {
            return;
        };
        // SAFETY: the socket belongs to the client. While away, the client is in a queue or with
        // the main thread, which closes no sockets; only this loop does, once the client is back
        // and so marked.
        absence.is_muted = unsafe { poller.remove_by_number(absence.descriptor) }.is_ok();
    }

    /// Sends the clients that found no room earlier.
    fn send_waiting(&self, slot: usize) {
        let mut waiting = self.waiting.borrow_mut();
        while let Some(client) = waiting.pop_front() {
            if let Err(client) = self.routes.send(slot, client) {
                waiting.push_front(client);
                return;
            }
            self.is_ring_due.set(true);
        }
    }

    /// Sends a client with its parsed input to the main thread, which notices after
    /// [`Origin::ring_main`].
    pub fn send_to_main(&self, event_loop: &mut EventLoop, place: u32) {
        let Some(mut client) = event_loop.clients.slab.take_out(place) else { return };
        let Some(input) = &mut client.input.parsed else {
            return event_loop.clients.slab.put_back(place, client);
        };
        (input.origin, input.place, input.resumes) = (event_loop.slot, place, event_loop.resumes);
        let now = event_loop.engine.replication.in_sync.losses();
        // Replies of the batch that the client leaves go with it.
        let before = if client.reply.is_empty() { now } else { event_loop.reply_hold.losses() };
        client.hold.losses = Some(now.min(before));
        let stats = event_loop.stats();
        stats.sent_away.add(1);
        stats.requests_sent_away.add(input.batch.requests.len() as u64);
        // This loop's lists may contain the client; they skip absent clients. On its return, the
        // client is put on the lists where it then belongs.
        (client.listed.to_write, client.listed.to_resume, client.listed.tracked) = (false, false, false);
        let descriptor = client.session.record.descriptor;
        self.note_absence(place, descriptor);
        self.waiting.borrow_mut().push_back(client);
        self.send_waiting(event_loop.slot);
        if !self.waiting.borrow().is_empty() {
            event_loop.stats().ring_full.add(1);
        }
    }

    fn note_absence(&self, place: u32, descriptor: RawFd) {
        let mut away = self.away.borrow_mut();
        if away.len() <= place as usize {
            away.resize_with(place as usize + 1, Absence::default);
        }
        let absence = &mut away[place as usize];
        (absence.is_away, absence.is_muted, absence.descriptor) = (true, false, descriptor);
    }

    /// Rings the main thread's notifier if clients have been sent.
    pub fn ring_main(&self, engine: &Engine) {
        if self.is_ring_due.take() {
            engine.clients.mailboxes[MAIN].ring();
        }
    }

    /// Takes back returned clients, and sends the clients that found no room earlier.
    pub fn take_back(&self, event_loop: &mut EventLoop) {
        while let Some(client) = self.routes.loops[event_loop.slot].back.pop() {
            self.restore(event_loop, client);
        }
        self.send_waiting(event_loop.slot);
        self.ring_main(&event_loop.engine);
    }

    /// Keeps a message for an absent client. Returns the message if the client is here.
    pub fn defer_message(&self, event_loop: &EventLoop, id: u64, message: Message) -> Option<Message> {
        match event_loop.by_id.get(&id).copied() {
            Some(place) if self.is_away(place) => {
                self.away.borrow_mut()[place as usize].mail.push(message);
                None
            }
            _ => Some(message),
        }
    }

    /// Ends a client's absence. Returns whether its socket was muted, and the messages kept for it.
    fn end_absence(&self, place: u32) -> (bool, Vec<Message>) {
        let absence = &mut self.away.borrow_mut()[place as usize];
        absence.is_away = false;
        (std::mem::take(&mut absence.is_muted), std::mem::take(&mut absence.mail))
    }

    /// Puts a client back into its place, and handles the messages kept for it.
    fn restore(&self, event_loop: &mut EventLoop, mut client: Box<Client>) {
        let Some(input) = client.input.parsed.take() else { return };
        let place = input.place;
        let (was_muted, mail) = self.end_absence(place);
        if was_muted && event_loop.poller.add(&client.socket, u64::from(place), client.interest()).is_err() {
            client.break_off();
        }
        let clients = &mut event_loop.clients;
        if client.is_finished() {
            clients.to_drop.push(place);
        }
        if client.listed.to_resume {
            clients.to_resume.push(place);
        }
        if client.listed.tracked {
            clients.tracked.push(place);
        }
        client.listed.to_write = client.has_unsent() || client.session.reply.close_after;
        if client.listed.to_write {
            clients.to_write.push(place);
            let losses = event_loop.engine.replication.in_sync.losses();
            event_loop.reply_hold.note_unacknowledged(losses);
        }
        if let Some(blocked) = client.session.blocked.as_ref().filter(|blocked| blocked.deadline_ms > 0) {
            clients.deadlines.insert((blocked.deadline_ms, place));
        }
        let is_postponed = client.postponed && !client.is_delayed();
        if let Some(until) = client.session.delayed_until_ms() {
            clients.deadlines.insert((until, place));
            clients.delayed.push(place);
        }
        clients.slab.put_back(place, client);
        if is_postponed {
            clients.postponed.push(place);
            if input.resumes != event_loop.resumes {
                // The client missed a `Message::Resume`.
                event_loop.resume_postponed();
            }
        }
        event_loop.clients.recycle_input(input);
        for message in mail {
            event_loop.handle(message);
        }
    }
}
