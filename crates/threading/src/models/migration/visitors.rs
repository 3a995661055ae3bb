// SPDX-License-Identifier: BSD-3-Clause
//! The main thread's loop: clients of the other loops migrate to it to have their requests
//! executed.
//!
//! Visitors get places in the loop's own client set. Therefore one batch holds the requests of many
//! clients, the memory behind their keys is prefetched together, and scripts and the turns during
//! them need no special handling. Nothing is received from a visitor here, and nothing is sent to
//! it.

use std::cell::RefCell;
use std::sync::Arc;

use braid_executor::Engine;

use super::Routes;
use crate::client_set::ClientSet;
use crate::event_loop::{EventLoop, Model};

/// The model of the main thread's loop.
pub struct Visitors {
    routes: Arc<Routes>,
    /// Places of the visitors that are here.
    places: RefCell<Vec<u32>>,
    /// By loop: clients were sent back to the loop, and its notifier must still be rung.
    rings_due: RefCell<Vec<bool>>,
}

impl Model for Visitors {
    fn execute_and_write(&self, event_loop: &mut EventLoop) {
        event_loop.execute();
        self.send_back_executed(&mut event_loop.clients, &event_loop.engine);
        // For clients of the loop's own, if any: visitors get their replies at their origin.
        event_loop.write_replies();
    }

    fn take_arrivals(&self, event_loop: &mut EventLoop) {
        self.take_in(event_loop);
    }

    fn has_arrivals(&self) -> bool {
        self.routes.to_main.count() > 0
    }
}

impl Visitors {
    /// A loop without visitors.
    pub fn new(routes: Arc<Routes>) -> Visitors {
        Visitors { rings_due: RefCell::default(), routes, places: RefCell::default() }
    }

    /// Takes in the visitors that have arrived so far, and their requests into the loop's batch.
    /// Later visitors wait for the next turn, so they do not delay the loop's other work.
    fn take_in(&self, event_loop: &mut EventLoop) {
        for _ in 0..self.routes.to_main.count() {
            let Some(mut client) = self.routes.to_main.pop() else { break };
            let Some(mut input) = client.input.parsed.take() else { continue };
            let clients = &mut event_loop.clients;
            let place = clients.slab.next_place();
            clients.batch.append(&mut input.batch, place);
            client.input.parsed = Some(input);
            clients.slab.add(client);
            self.places.borrow_mut().push(place);
            if event_loop.clients.is_full() {
                self.execute_and_write(event_loop);
            }
        }
        self.routes.notify_room(&event_loop.engine);
    }

    /// Sends back the visitors whose requests have been executed.
    fn send_back_executed(&self, clients: &mut ClientSet, engine: &Engine) {
        let mut rings_due = self.rings_due.borrow_mut();
        self.places.borrow_mut().retain(|&place| {
            // A client whose script is running has been taken out of the slab.
            let is_busy = clients.slab.get(place).is_none_or(|client| client.listed.in_batch);
            if !is_busy && let Some(origin) = self.send_back(clients, place) {
                if rings_due.len() <= origin {
                    rings_due.resize(origin + 1, false);
                }
                rings_due[origin] = true;
            }
            is_busy
        });
        for (slot, is_due) in rings_due.iter_mut().enumerate() {
            if std::mem::take(is_due) {
                engine.clients.mailboxes[slot].ring();
            }
        }
    }

    /// Sends a visitor back to its origin, which is returned.
    fn send_back(&self, clients: &mut ClientSet, place: u32) -> Option<usize> {
        let client = clients.slab.remove(place)?;
        // Lists that are processed within the turn skip empty places; lists that outlast the turn
        // must not keep this place.
        if let Some(blocked) = &client.session.blocked {
            clients.deadlines.remove(&(blocked.deadline_ms, place));
        }
        if let Some(until) = client.session.delayed_until_ms() {
            clients.deadlines.remove(&(until, place));
            clients.delayed.retain(|&delayed| delayed != place);
        }
        if client.postponed {
            clients.postponed.retain(|&postponed| postponed != place);
        }
        let origin = client.input.parsed.as_ref().map(|input| input.origin)?;
        self.routes.loops[origin].back.push(client);
        Some(origin)
    }
}
