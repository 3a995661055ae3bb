// SPDX-License-Identifier: BSD-3-Clause
//! A loop whose clients travel: seeing them off, and taking them in again.

use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::sync::Arc;

use braid_clients::Message;
use braid_net::poller::{Interest, Poller};

use super::{MAIN, Roads, ToMain};
use crate::client::Client;
use crate::event_loop::EventLoop;
use crate::models::Model;

/// A model of loops whose clients travel.
pub trait HasHome: Model {
    /// The road that they take.
    type Road: ToMain;

    /// What the loop knows of those who are away.
    fn home(&mut self) -> &mut Home<Self::Road>;
}

/// What a loop knows of its clients that are away.
pub struct Home<Q> {
    roads: Arc<Roads<Q>>,
    /// By place.
    away: Vec<Absence>,
    /// Clients that found no room on the road, in the order in which they came.
    queue: VecDeque<Box<Client>>,
    /// Some have left since the main thread's bell was rung.
    is_bell_due: bool,
}

/// A place and whether its client is away.
#[derive(Default)]
struct Absence {
    is_away: bool,
    /// The client's socket, which is open for as long as it is away.
    descriptor: RawFd,
    /// The socket had something to say meanwhile, and is not polled until the client is back.
    is_muted: bool,
    /// For the client when it is back.
    mail: Vec<Message>,
}

impl<Q: ToMain> Home<Q> {
    /// A loop with nobody away.
    pub fn new(roads: Arc<Roads<Q>>) -> Home<Q> {
        Home { roads, away: Vec::new(), queue: VecDeque::new(), is_bell_due: false }
    }

    /// True while the client of a place is away.
    #[inline]
    pub fn is_away(&self, place: u32) -> bool {
        self.away.get(place as usize).is_some_and(|absence| absence.is_away)
    }

    /// Stops polling the socket of a client that is away: it would be reported again and again, and nothing can be done about it.
    #[cold]
    pub fn mute(&mut self, poller: &Poller, place: u32) {
        let Some(absence) = self.away.get_mut(place as usize).filter(|absence| absence.is_away) else {
            return;
        };
        // SAFETY: the socket belongs to the client. Away, it is on a road or with the main thread, which closes no socket; nobody but this
        // loop does that, when the client is back and has been marked so.
        absence.is_muted = unsafe { poller.remove_by_number(absence.descriptor) }.is_ok();
    }

    /// Sends off those who found no room before.
    fn send_queue(&mut self, slot: usize) {
        while let Some(client) = self.queue.pop_front() {
            if let Err(client) = self.roads.send(slot, client) {
                self.queue.push_front(client);
                return;
            }
            self.is_bell_due = true;
        }
    }
}

/// Sends a client with its packed requests to the main thread. The main thread is told when [`ring`] is called.
pub fn depart<M: HasHome>(event_loop: &mut EventLoop<M>, place: u32) {
    let Some(mut client) = event_loop.station.clients.lend(place) else { return };
    let Some(trip) = &mut client.trip else {
        return event_loop.station.clients.give_back(place, client);
    };
    (trip.home, trip.place, trip.resumes) = (event_loop.slot, place, event_loop.resumes);
    let stats = event_loop.stats();
    stats.sent_away.add(1);
    stats.requests_sent_away.add(trip.batch.requests.len() as u64);
    // It is on lists of this loop perhaps; they are gone through without it. When it is back it is put where it belongs then.
    (client.in_write_list, client.in_resume_list, client.lingers) = (false, false, false);
    let descriptor = client.session.record.descriptor;
    let home = event_loop.model.home();
    if home.away.len() <= place as usize {
        home.away.resize_with(place as usize + 1, Absence::default);
    }
    let absence = &mut home.away[place as usize];
    (absence.is_away, absence.is_muted, absence.descriptor) = (true, false, descriptor);
    home.queue.push_back(client);
    home.send_queue(event_loop.slot);
    if !event_loop.model.home().queue.is_empty() {
        event_loop.stats().ring_full.add(1);
    }
}

/// Tells the main thread of those who have left.
pub fn ring<M: HasHome>(event_loop: &mut EventLoop<M>) {
    if std::mem::take(&mut event_loop.model.home().is_bell_due) {
        event_loop.engine.mailboxes[MAIN].ring();
    }
}

/// Takes in the clients that have come back, and sends off those who found no room before.
pub fn take_in<M: HasHome>(event_loop: &mut EventLoop<M>) {
    let roads = Arc::clone(&event_loop.model.home().roads);
    while let Some(client) = roads.ways[event_loop.slot].back.pop() {
        come_back(event_loop, client);
    }
    let slot = event_loop.slot;
    event_loop.model.home().send_queue(slot);
    ring(event_loop);
}

/// Keeps a message for a client that is away.
pub fn defer<M: HasHome>(event_loop: &mut EventLoop<M>, id: u64, message: Message) -> Option<Message> {
    let place = event_loop.by_id.get(&id).copied();
    let home = event_loop.model.home();
    match place {
        Some(place) if home.is_away(place) => {
            home.away[place as usize].mail.push(message);
            None
        }
        _ => Some(message),
    }
}

/// Puts a client back to its place, and does what has waited for it.
fn come_back<M: HasHome>(event_loop: &mut EventLoop<M>, mut client: Box<Client>) {
    let Some(trip) = client.trip.take() else { return };
    let place = trip.place;
    let absence = &mut event_loop.model.home().away[place as usize];
    absence.is_away = false;
    let was_muted = std::mem::take(&mut absence.is_muted);
    let mail = std::mem::take(&mut absence.mail);
    if was_muted {
        let interest = if client.wants_write { Interest::ReadWrite } else { Interest::Read };
        if event_loop.poller.add(&client.socket, u64::from(place), interest).is_err() {
            client.broken = true;
        }
    }
    let station = &mut event_loop.station;
    if client.is_finished() {
        station.to_drop.push(place);
    }
    if client.in_resume_list {
        station.to_resume.push(place);
    }
    if client.lingers {
        station.lingering.push(place);
    }
    client.in_write_list = client.has_unsent() || client.session.close_after_reply;
    if client.in_write_list {
        station.to_write.push(place);
    }
    if let Some(blocked) = client.session.blocked.as_ref().filter(|blocked| blocked.deadline_ms > 0) {
        station.deadlines.insert((blocked.deadline_ms, place));
    }
    let is_postponed = client.postponed;
    station.clients.give_back(place, client);
    if is_postponed {
        station.postponed.push(place);
        if trip.resumes != event_loop.resumes {
            // It could not hear the call to go on.
            event_loop.resume_postponed();
        }
    }
    event_loop.station.keep_trip(trip);
    for message in mail {
        event_loop.follow(message);
    }
}
