// SPDX-License-Identifier: BSD-3-Clause
//! Migration of clients: how models move a client between the thread that polls it (its *origin*)
//! and the *main* thread, which executes what the origin does not.
//!
//! A client migrates as a whole, in its box, with its parsed input
//! ([`crate::batch::ParsedInput`]): only the thread that holds it may touch it, so nothing is
//! locked. Its place at the origin stays reserved ([`origin`]): nothing more is read from the
//! client, and messages for it (a kill, the reply to a served wait) are kept there. At the main
//! thread the client is a visitor ([`visitors`]), with a place among the clients there while its
//! requests are executed. The queues in between ([`Routes`]) share the notifier of a loop's
//! mailbox.

pub mod origin;
pub mod visitors;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use braid_base::slots::Slots;
use braid_executor::Engine;
use braid_executor::engine::THREADS_MAX;
use crossbeam_queue::{ArrayQueue, SegQueue};
use origin::Origin;
use visitors::Visitors;

use super::Starting;
use crate::client::Client;
use crate::event_loop::Model;
use crate::pool::Starter;

/// Slot of the main thread's loop.
pub const MAIN: usize = 0;

/// A queue of clients in transit to the main thread.
pub trait MainQueue: Send + Sync {
    /// Appends a client.
    ///
    /// # Errors
    /// The client, if the queue is full.
    fn push(&self, client: Box<Client>) -> Result<(), Box<Client>>;
    /// Takes out the client that has waited longest.
    fn pop(&self) -> Option<Box<Client>>;
    /// Number of clients in the queue.
    fn count(&self) -> usize;
}

impl MainQueue for SegQueue<Box<Client>> {
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

/// Bounded and lock-free.
impl MainQueue for ArrayQueue<Box<Client>> {
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

/// The queues between the main thread and the other loops.
pub struct Routes {
    to_main: Box<dyn MainQueue>,
    /// By loop.
    loops: Slots<Route>,
}

/// The way back to a loop.
#[derive(Default)]
struct Route {
    /// Clients returning from the main thread.
    back: SegQueue<Box<Client>>,
    /// The loop found the queue to the main thread full, and must be woken when there is room.
    wants_room: AtomicBool,
}

impl Routes {
    /// Routes between the main thread and the other loops; `loops` counts all of them.
    pub fn new(loops: usize, to_main: impl MainQueue + 'static) -> Arc<Routes> {
        let to_main = Box::new(to_main);
        let routes = Arc::new(Routes { to_main, loops: Slots::new(THREADS_MAX) });
        routes.make_room(loops);
        routes
    }

    /// Makes room for more loops.
    pub fn make_room(&self, loops: usize) {
        self.loops.grow(loops, |_| Route::default());
    }

    /// Sends a client to the main thread if there is room. Otherwise returns the client, and the
    /// loop's notifier is rung once there is room.
    fn send(&self, origin: usize, client: Box<Client>) -> Result<(), Box<Client>> {
        self.to_main.push(client).or_else(|client| {
            self.loops[origin].wants_room.store(true, Ordering::Relaxed);
            // Either this attempt finds room made in the meantime, or the thread that makes room
            // sees the request.
            fence(Ordering::SeqCst);
            self.to_main.push(client)
        })
    }

    /// Wakes the loops that wait for room.
    fn notify_room(&self, engine: &Engine) {
        fence(Ordering::SeqCst);
        for (slot, Route { wants_room: wants, .. }) in self.loops.iter().enumerate() {
            if wants.load(Ordering::Relaxed) && wants.swap(false, Ordering::Relaxed) {
                engine.clients.mailboxes[slot].ring();
            }
        }
    }
}

/// Starts a main thread that executes for visitors, and loops of model `io` that own the clients.
pub(super) fn starter<M: Model + 'static>(
    starting: Starting,
    to_main: impl MainQueue + 'static,
    io: fn(Origin) -> M,
) -> Starter {
    let routes = Routes::new(starting.engine.clients.mailboxes.thread_count(), to_main);
    Box::new(move |slot| {
        routes.make_room(slot + 1);
        let routes = Arc::clone(&routes);
        match slot {
            MAIN => starting.event_loop(slot, || Visitors::new(routes)),
            _ => starting.event_loop(slot, move || io(Origin::new(routes))),
        }
    })
}

#[cfg(test)]
mod tests;
