// SPDX-License-Identifier: BSD-3-Clause
//! The main thread's loop, where clients of the other loops come to have their requests executed.
//!
//! Guests get places of the loop's own station, so that one batch holds the requests of many clients, what their keys touch is fetched
//! together, and scripts and the turns that a loop takes meanwhile need nothing special. Nothing is received from a guest and nothing
//! sent to it here.

use std::sync::Arc;

use super::{Roads, ToMain};
use crate::event_loop::EventLoop;
use crate::models::Model;

/// The model of the main thread's loop: its guests.
pub struct Guests<Q> {
    roads: Arc<Roads<Q>>,
    /// Places of those who are here.
    places: Vec<u32>,
    /// Loops whose bells are due, since clients of theirs have been sent back.
    bells: Vec<bool>,
}

impl<Q: ToMain> Guests<Q> {
    /// A loop without guests.
    pub fn new(roads: Arc<Roads<Q>>) -> Guests<Q> {
        Guests { bells: Vec::new(), roads, places: Vec::new() }
    }
}

impl<Q: ToMain> Model for Guests<Q> {
    fn execute_and_write(event_loop: &mut EventLoop<Self>) {
        event_loop.execute();
        send_home(event_loop);
        // To clients of its own, if it has any: guests are sent their replies at home.
        event_loop.write_replies();
    }

    fn take_arrivals(event_loop: &mut EventLoop<Self>) {
        take_in(event_loop);
    }

    fn has_arrivals(event_loop: &EventLoop<Self>) -> bool {
        event_loop.model.roads.to_main.count() > 0
    }
}

/// Takes in the guests that have arrived, their requests into the loop's batch. Those who come later have to wait for the next turn, so that the
/// loop's other business is not kept waiting.
fn take_in<Q: ToMain>(event_loop: &mut EventLoop<Guests<Q>>) {
    let roads = Arc::clone(&event_loop.model.roads);
    for _ in 0..roads.to_main.count() {
        let Some(mut client) = roads.to_main.pop() else { break };
        let Some(mut trip) = client.trip.take() else { continue };
        let station = &mut event_loop.station;
        let place = station.clients.next_place();
        station.batch.append(&mut trip.batch, place);
        client.trip = Some(trip);
        station.clients.add(client);
        event_loop.model.places.push(place);
        if event_loop.station.is_full() {
            Guests::execute_and_write(event_loop);
        }
    }
    roads.tell_of_room(&event_loop.engine);
}

/// Sends the guests home whose requests have been executed.
fn send_home<Q: ToMain>(event_loop: &mut EventLoop<Guests<Q>>) {
    let mut places = std::mem::take(&mut event_loop.model.places);
    places.retain(|&place| {
        // One whose script is running is lent to it.
        let is_busy = event_loop.station.clients.get(place).is_none_or(|client| client.in_batch);
        if !is_busy {
            depart(event_loop, place);
        }
        is_busy
    });
    let guests = &mut event_loop.model;
    // None can have come in meanwhile.
    guests.places = places;
    for (slot, bell) in guests.bells.iter_mut().enumerate() {
        if std::mem::take(bell) {
            event_loop.engine.mailboxes[slot].ring();
        }
    }
}

fn depart<Q: ToMain>(event_loop: &mut EventLoop<Guests<Q>>, place: u32) {
    let station = &mut event_loop.station;
    let Some(client) = station.clients.remove(place) else { return };
    // Lists that are gone through by place skip those who have left; what outlasts the turn must not name the place any more.
    if let Some(blocked) = &client.session.blocked {
        station.deadlines.remove(&(blocked.deadline_ms, place));
    }
    if client.postponed {
        station.postponed.retain(|&postponed| postponed != place);
    }
    let Some(home) = client.trip.as_ref().map(|trip| trip.home) else { return };
    let guests = &mut event_loop.model;
    guests.roads.ways[home].back.push(client);
    if guests.bells.len() <= home {
        guests.bells.resize(home + 1, false);
    }
    guests.bells[home] = true;
}
