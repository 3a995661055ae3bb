// SPDX-License-Identifier: BSD-3-Clause
//! The clients that a thread holds, by place.

use crate::client::Client;

/// The clients of one thread; places are reused.
#[derive(Default)]
pub struct Clients {
    places: Vec<Option<Box<Client>>>,
    free: Vec<u32>,
    /// Freed in this turn of the loop: reused only afterwards, since events for them may be pending.
    leaving: Vec<u32>,
}

impl Clients {
    /// Adds a client and returns its place.
    pub fn add(&mut self, client: Box<Client>) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(client);
                place
            }
            None => {
                self.places.push(Some(client));
                (self.places.len() - 1) as u32
            }
        }
    }

    /// Takes a client out.
    pub fn remove(&mut self, place: u32) -> Option<Box<Client>> {
        let client = self.places.get_mut(place as usize)?.take();
        if client.is_some() {
            self.leaving.push(place);
        }
        client
    }

    /// Takes a client out for a while; its place stays taken.
    pub fn lend(&mut self, place: u32) -> Option<Box<Client>> {
        self.places.get_mut(place as usize)?.take()
    }

    /// True unless the client of a place is lent, or there is none.
    pub fn is_here(&self, place: u32) -> bool {
        self.places.get(place as usize).is_some_and(Option::is_some)
    }

    /// The place that the next client gets.
    pub fn next_place(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.places.len() as u32)
    }

    /// Puts a client back that was lent.
    pub fn give_back(&mut self, place: u32, client: Box<Client>) {
        self.places[place as usize] = Some(client);
    }

    /// Makes the places of removed clients available again.
    pub fn settle(&mut self) {
        self.free.append(&mut self.leaving);
    }

    /// A client by place.
    #[inline]
    pub fn get(&mut self, place: u32) -> Option<&mut Client> {
        self.places.get_mut(place as usize)?.as_deref_mut()
    }

    /// Places in use, from `start` on, at most `count`; and where to go on.
    pub fn some_from(&self, start: usize, count: usize) -> (Vec<u32>, usize) {
        let start = if start >= self.places.len() { 0 } else { start };
        let end = (start + count).min(self.places.len());
        let used =
            (start..end).filter(|&place| self.places[place].is_some()).map(|place| place as u32).collect();
        (used, end)
    }

    /// All places in use.
    pub fn all(&self) -> Vec<u32> {
        self.some_from(0, self.places.len()).0
    }

    /// True while a client's turn in a batch has not ended.
    pub fn is_in_batch(&mut self, place: u32) -> bool {
        self.get(place).is_some_and(|client| client.in_batch)
    }

    /// True without any client.
    pub fn is_empty(&self) -> bool {
        self.places.len() == self.free.len() + self.leaving.len()
    }

    /// Number of places, used or not.
    pub fn places(&self) -> usize {
        self.places.len()
    }
}
