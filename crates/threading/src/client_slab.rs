// SPDX-License-Identifier: BSD-3-Clause
//! Client slab: the clients of one thread by *place*, an index that stays valid while the client is
//! in the slab.

use crate::client::Client;

/// Clients by place; places are reused.
#[derive(Default)]
pub struct ClientSlab {
    places: Vec<Option<Box<Client>>>,
    free: Vec<u32>,
    /// Places freed in this turn of the loop; they are reused only afterwards, since the poller
    /// may have reported events for them.
    pending: Vec<u32>,
}

impl ClientSlab {
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

    /// Removes a client; its place becomes free.
    pub fn remove(&mut self, place: u32) -> Option<Box<Client>> {
        let client = self.places.get_mut(place as usize)?.take();
        if client.is_some() {
            self.pending.push(place);
        }
        client
    }

    /// Takes a client out temporarily; its place stays reserved.
    pub fn take_out(&mut self, place: u32) -> Option<Box<Client>> {
        self.places.get_mut(place as usize)?.take()
    }

    /// True if the client of a place is in the slab; false while it is taken out.
    pub fn is_present(&self, place: u32) -> bool {
        self.places.get(place as usize).is_some_and(Option::is_some)
    }

    /// The place of the next added client.
    pub fn next_place(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.places.len() as u32)
    }

    /// Puts back a client that was taken out.
    pub fn put_back(&mut self, place: u32, client: Box<Client>) {
        self.places[place as usize] = Some(client);
    }

    /// Makes the places of removed clients available.
    pub fn recycle(&mut self) {
        self.free.append(&mut self.pending);
    }

    /// The client at a place.
    #[inline]
    pub fn get(&mut self, place: u32) -> Option<&mut Client> {
        self.places.get_mut(place as usize)?.as_deref_mut()
    }

    /// Places in use among the `count` places from `start` on, and the index to continue from.
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
        self.get(place).is_some_and(|client| client.listed.in_batch)
    }

    /// True if there are no clients.
    pub fn is_empty(&self) -> bool {
        self.places.len() == self.free.len() + self.pending.len()
    }

    /// Number of places, used or not.
    pub fn places(&self) -> usize {
        self.places.len()
    }
}
