// SPDX-License-Identifier: BSD-3-Clause
//! Clients on their way: how the models move them between the thread that polls a client (its *home*) and the *main* thread, which
//! executes what home does not.
//!
//! A client travels as a whole, in its box, with its parsed requests ([`Trip`]). So whoever has it may touch it, and nothing is locked.
//! At home its place stays reserved ([`origin`]): nothing more is read from it, and what others want of it (a message, a kill, the reply of who
//! served it) waits for it there. At the main thread it is a guest ([`visitors`]): it gets a place among the clients there for as long as its
//! requests are executed. Roads end in the mailbox of a loop: a queue beside its mail, and the same bell.

pub mod origin;
pub mod visitors;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use braid_base::slots::Slots;
use braid_engine::Engine;
use braid_engine::engine::THREADS_MAX;
use crossbeam_queue::{ArrayQueue, SegQueue};

use crate::batch::Batch;
use crate::client::Client;

/// What a client carries on its way.
#[derive(Default)]
pub struct Trip {
    /// Its requests. Their bytes are in the client's own buffer.
    pub batch: Batch,
    /// The loop that polls it, and its place there.
    pub home: usize,
    pub place: u32,
    /// How often its home had been told that postponed requests may go on, when it left.
    pub resumes: u64,
}

/// A queue that leads to the main thread.
pub trait ToMain: Send + Sync {
    /// Puts a client in; it comes back if there is no room.
    fn push(&self, client: Box<Client>) -> Result<(), Box<Client>>;
    /// Takes the client out that has been in it for longest.
    fn pop(&self) -> Option<Box<Client>>;
    /// Clients in it.
    fn count(&self) -> usize;
}

impl ToMain for SegQueue<Box<Client>> {
    fn push(&self, client: Box<Client>) -> Result<(), Box<Client>> {
        SegQueue::push(self, client);
        Ok(())
    }

    fn pop(&self) -> Option<Box<Client>> {
        SegQueue::pop(self)
    }

    fn count(&self) -> usize {
        SegQueue::len(self)
    }
}

/// Bounded, and without a lock.
impl ToMain for ArrayQueue<Box<Client>> {
    fn push(&self, client: Box<Client>) -> Result<(), Box<Client>> {
        ArrayQueue::push(self, client)
    }

    fn pop(&self) -> Option<Box<Client>> {
        ArrayQueue::pop(self)
    }

    fn count(&self) -> usize {
        ArrayQueue::len(self)
    }
}

/// All roads of a server. The main thread's loop is the first one.
pub struct Roads<Q> {
    to_main: Q,
    /// To each loop.
    ways: Slots<Way>,
}

/// What there is for each loop.
#[derive(Default)]
struct Way {
    /// Back from the main thread.
    back: SegQueue<Box<Client>>,
    /// The loop has found no room on the road to the main thread, and wants to be told when there is some.
    wants_room: AtomicBool,
}

/// The main thread's loop.
pub const MAIN: usize = 0;

impl<Q: ToMain> Roads<Q> {
    /// Roads between the main thread and the other ones of so many loops.
    pub fn new(loops: usize, to_main: Q) -> Arc<Roads<Q>> {
        let roads = Arc::new(Roads { to_main, ways: Slots::new(THREADS_MAX) });
        roads.make_room(loops);
        roads
    }

    /// Builds roads for more loops.
    pub fn make_room(&self, loops: usize) {
        self.ways.grow(loops, |_| Way::default());
    }

    /// Sends a client off, if there is room. If there is none, the loop's bell is rung once there is.
    fn send(&self, home: usize, client: Box<Client>) -> Result<(), Box<Client>> {
        self.to_main.push(client).or_else(|client| {
            self.ways[home].wants_room.store(true, Ordering::Relaxed);
            // Either this attempt finds the room that was made meanwhile, or whoever makes room sees the wish.
            fence(Ordering::SeqCst);
            self.to_main.push(client)
        })
    }

    /// Tells those who want room that there is some.
    fn tell_of_room(&self, engine: &Engine) {
        fence(Ordering::SeqCst);
        for (slot, Way { wants_room: wants, .. }) in self.ways.iter().enumerate() {
            if wants.load(Ordering::Relaxed) && wants.swap(false, Ordering::Relaxed) {
                engine.mailboxes[slot].ring();
            }
        }
    }
}

#[cfg(test)]
mod tests;
