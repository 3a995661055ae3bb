// SPDX-License-Identifier: BSD-3-Clause
//! The main thread's loop: clients of the other loops migrate to it to have their requests
//! executed.
//!
//! Visitors get places in the loop's own client set. Therefore one batch holds the requests of many
//! clients, the memory behind their keys is prefetched together, and scripts and the turns during
//! them need no special handling. Nothing is received from a visitor here, and nothing is sent to
//! it.

use std::sync::Arc;

use super::{MainQueue, Routes};
use crate::event_loop::{EventLoop, Model};

/// The model of the main thread's loop.
pub struct Visitors<Q> {
    routes: Arc<Routes<Q>>,
    /// Places of the visitors that are here.
    places: Vec<u32>,
    /// By loop: clients were sent back to the loop, and its notifier must still be rung.
    rings_due: Vec<bool>,
}

impl<Q: MainQueue> Visitors<Q> {
    /// A loop without visitors.
    pub fn new(routes: Arc<Routes<Q>>) -> Visitors<Q> {
        Visitors { rings_due: Vec::new(), routes, places: Vec::new() }
    }
}

impl<Q: MainQueue> Model for Visitors<Q> {
    fn execute_and_write(event_loop: &mut EventLoop<Self>) {
        event_loop.execute();
        send_back_executed(event_loop);
        // For clients of the loop's own, if any: visitors get their replies at their origin.
        event_loop.write_replies();
    }

    fn take_arrivals(event_loop: &mut EventLoop<Self>) {
        take_in(event_loop);
    }

    fn has_arrivals(event_loop: &EventLoop<Self>) -> bool {
        event_loop.model.routes.to_main.count() > 0
    }
}

/// Takes in the visitors that have arrived so far, and their requests into the loop's batch.
/// Later visitors wait for the next turn, so they do not delay the loop's other work.
fn take_in<Q: MainQueue>(event_loop: &mut EventLoop<Visitors<Q>>) {
    let routes = Arc::clone(&event_loop.model.routes);
    for _ in 0..routes.to_main.count() {
        let Some(mut client) = routes.to_main.pop() else { break };
        let Some(mut input) = client.input.parsed.take() else { continue };
        let clients = &mut event_loop.clients;
        let place = clients.slab.next_place();
        clients.batch.append(&mut input.batch, place);
        client.input.parsed = Some(input);
        clients.slab.add(client);
        event_loop.model.places.push(place);
        if event_loop.clients.is_full() {
            Visitors::execute_and_write(event_loop);
        }
    }
    routes.notify_room(&event_loop.engine);
}

/// Sends back the visitors whose requests have been executed.
fn send_back_executed<Q: MainQueue>(event_loop: &mut EventLoop<Visitors<Q>>) {
    let mut places = std::mem::take(&mut event_loop.model.places);
    places.retain(|&place| {
        // A client whose script is running has been taken out of the slab.
        let is_busy = event_loop.clients.slab.get(place).is_none_or(|client| client.listed.in_batch);
        if !is_busy {
            send_back(event_loop, place);
        }
        is_busy
    });
    let visitors = &mut event_loop.model;
    // No visitor has been taken in meanwhile.
    visitors.places = places;
    for (slot, is_due) in visitors.rings_due.iter_mut().enumerate() {
        if std::mem::take(is_due) {
            event_loop.engine.clients.mailboxes[slot].ring();
        }
    }
}

fn send_back<Q: MainQueue>(event_loop: &mut EventLoop<Visitors<Q>>, place: u32) {
    let clients = &mut event_loop.clients;
    let Some(client) = clients.slab.remove(place) else { return };
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
    let Some(origin) = client.input.parsed.as_ref().map(|input| input.origin) else { return };
    let visitors = &mut event_loop.model;
    visitors.routes.loops[origin].back.push(client);
    if visitors.rings_due.len() <= origin {
        visitors.rings_due.resize(origin + 1, false);
    }
    visitors.rings_due[origin] = true;
}
