// SPDX-License-Identifier: BSD-3-Clause
//! The `handoff` model, that of Redis 8: I/O threads poll their own clients, receive, parse and send; the main thread executes.
//!
//! A client that has sent requests goes to the main thread with them and comes back with the replies, each way through a queue with an event
//! notifier. The main thread takes many clients at once, so what their keys touch is still fetched together. It accepts connections and has
//! no clients of its own. What a client is to be sent unasked (messages, invalidations, the reply that it waited for) goes to the mailbox
//! of its home, and is added to its replies when it is there: no lock is needed for that.

use std::ops::Range;

use braid_clients::Message;
use crossbeam_queue::SegQueue;

use super::{Model, Starting};
use crate::client::Client;
use crate::event_loop::EventLoop;
use crate::pool::Starter;
use crate::travel::MAIN;
use crate::travel::home::{self, HasHome, Home};

type Road = SegQueue<Box<Client>>;

/// A thread that polls, receives, parses and sends.
struct Io {
    home: Home<Road>,
}

impl HasHome for Io {
    type Road = Road;

    fn home(&mut self) -> &mut Home<Road> {
        &mut self.home
    }
}

impl Model for Io {
    const CLIENTS_TRAVEL: bool = true;

    fn read(event_loop: &mut EventLoop<Self>, place: u32) {
        if event_loop.model.home.is_away(place) {
            event_loop.model.home.mute(&event_loop.poller, place);
        } else {
            event_loop.read_here(place);
            see_off(event_loop, place);
        }
    }

    fn resume(event_loop: &mut EventLoop<Self>, place: u32) {
        event_loop.resume_here(place);
        see_off(event_loop, place);
    }

    fn execute_and_write(event_loop: &mut EventLoop<Self>) {
        home::ring(event_loop);
        event_loop.write_replies();
    }

    fn take_arrivals(event_loop: &mut EventLoop<Self>) {
        home::take_in(event_loop);
    }

    fn defer(event_loop: &mut EventLoop<Self>, id: u64, message: Message) -> Option<Message> {
        home::defer(event_loop, id, message)
    }
}

/// Sends a client to the main thread if something was parsed that can be executed.
fn see_off(event_loop: &mut EventLoop<Io>, place: u32) {
    if event_loop.station.batch.requests.is_empty() {
        // Less than a request, or what is none: that can be dealt with here.
        event_loop.execute();
    } else {
        // Before the replies to what it has sent later.
        event_loop.deliver();
        event_loop.station.pack(place);
        event_loop.station.lend_reply_buffer(place);
        home::depart(event_loop, place);
    }
}

/// The loops that are given clients: all but the main thread's. Alone, that has them itself.
pub(super) fn serving(threads: usize) -> Range<usize> {
    if threads == 1 { MAIN..MAIN + 1 } else { MAIN + 1..threads }
}

/// Starts the main thread and the I/O threads.
pub(super) fn starter(starting: Starting) -> Starter {
    starting.travelling(Road::new(), |home| Io { home })
}
