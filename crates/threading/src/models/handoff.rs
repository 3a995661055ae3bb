// SPDX-License-Identifier: BSD-3-Clause
//! The `handoff` model, as in Redis 8: I/O threads poll their own clients, receive, parse and
//! send; the main thread executes.
//!
//! A client with parsed requests migrates to the main thread and returns with the replies, each
//! way through a queue with a notifier. The main thread takes in many clients at a time, so the
//! memory behind their keys is still prefetched together. It accepts connections and has no
//! clients of its own. Unsolicited output (messages, invalidations, the reply to a served wait)
//! goes to the mailbox of the client's origin, which adds it to the replies: no lock is needed.

use std::ops::Range;

use braid_clients::Message;
use crossbeam_queue::SegQueue;

use super::{Row, Starting};
use crate::event_loop::{EventLoop, Model, Properties};
use crate::models::migration::origin::Origin;
use crate::models::migration::{self, MAIN};
use crate::pool::Starter;

/// The main thread and the I/O threads.
pub(super) const ROW: Row = Row { serving, ..Row::new(starter) };

/// A thread that polls, receives, parses and sends.
struct Io {
    origin: Origin,
}

impl Model for Io {
    fn properties(&self) -> Properties {
        Properties { clients_migrate: true, ..Properties::default() }
    }

    fn read(&self, event_loop: &mut EventLoop, place: u32) {
        if self.origin.is_away(place) {
            self.origin.mute(&event_loop.poller, place);
        } else {
            event_loop.read_here(place);
            self.send_if_parsed(event_loop, place);
        }
    }

    fn resume(&self, event_loop: &mut EventLoop, place: u32) {
        event_loop.resume_here(place);
        self.send_if_parsed(event_loop, place);
    }

    fn execute_and_write(&self, event_loop: &mut EventLoop) {
        self.origin.ring_main(&event_loop.engine);
        event_loop.write_replies();
    }

    fn take_arrivals(&self, event_loop: &mut EventLoop) {
        self.origin.take_back(event_loop);
    }

    fn defer_message(&self, event_loop: &mut EventLoop, id: u64, message: Message) -> Option<Message> {
        self.origin.defer_message(event_loop, id, message)
    }
}

impl Io {
    /// Sends a client to the main thread if at least one request was parsed.
    fn send_if_parsed(&self, event_loop: &mut EventLoop, place: u32) {
        if event_loop.clients.batch.requests.is_empty() {
            // An incomplete request or a protocol error needs no execution, so the turn ends here.
            event_loop.execute();
        } else {
            // Pushes go before the replies to requests that were sent later.
            event_loop.deliver();
            event_loop.clients.pack(place);
            event_loop.clients.lend_reply_buffer(place);
            self.origin.send_to_main(event_loop, place);
        }
    }
}

/// All loops serve clients except the main thread's, unless it is the only one.
fn serving(threads: usize) -> Range<usize> {
    if threads == 1 { MAIN..MAIN + 1 } else { MAIN + 1..threads }
}

fn starter(starting: Starting) -> Starter {
    migration::starter(starting, SegQueue::new(), |origin| Io { origin })
}
