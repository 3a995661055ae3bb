// SPDX-License-Identifier: BSD-3-Clause
//! Lazy freeing: a background thread drops values that would take too long to drop on a request's
//! path.
//!
//! All values sent here are already unreachable; the thread only frees memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use braid_base::relocation::flush_cache;
use parking_lot::Mutex;

use crate::entry::Entry;

/// Memory to free.
pub enum Garbage {
    /// The address of an unreachable entry.
    Entry(u64),
    /// This many objects in parts: each step of the iterator drops one part and returns that
    /// part's number of objects.
    Parts(usize, Box<dyn Iterator<Item = usize> + Send>),
    /// Called once all memory sent before it is freed.
    Call(Box<dyn FnOnce() + Send>),
    /// Any other value, counted as this many objects.
    Other(Box<dyn Send>, usize),
}

/// The queue to the background thread.
pub struct LazyFree {
    sender: Mutex<Sender<Garbage>>,
    pending: AtomicUsize,
    freed: AtomicUsize,
}

impl LazyFree {
    /// Starts the background thread; it ends when the queue is dropped.
    pub fn start() -> Arc<LazyFree> {
        let (sender, receiver) = channel();
        let queue = Arc::new(LazyFree {
            sender: Mutex::new(sender),
            pending: AtomicUsize::new(0),
            freed: AtomicUsize::new(0),
        });
        let weak = Arc::downgrade(&queue);
        std::thread::Builder::new()
            .name("bio_lazy_free".into())
            .spawn(move || run(&receiver, &weak))
            .expect("a thread can be started at start-up");
        queue
    }

    /// Hands `garbage` over.
    pub fn send(&self, garbage: Garbage) {
        self.announce(objects(&garbage));
        self.send_announced(garbage);
    }

    /// Counts objects as pending (INFO) before they are handed over, which happens once no reader
    /// can see them any more.
    pub(crate) fn announce(&self, objects: usize) {
        self.pending.fetch_add(objects, Ordering::Relaxed);
    }

    /// Hands over garbage that was announced.
    pub(crate) fn send_announced(&self, garbage: Garbage) {
        // The receiver only ends with the queue itself.
        let _ = self.sender.lock().send(garbage);
    }

    /// Objects not yet dropped (INFO `lazyfree_pending_objects`).
    pub fn pending(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    /// Objects dropped so far (INFO `lazyfreed_objects`).
    pub fn freed(&self) -> usize {
        self.freed.load(Ordering::Relaxed)
    }

    /// Sets the count of dropped objects to zero (CONFIG RESETSTAT).
    pub fn reset_freed(&self) {
        self.freed.store(0, Ordering::Relaxed);
    }
}

fn objects(garbage: &Garbage) -> usize {
    match garbage {
        Garbage::Entry(_) => 1,
        Garbage::Call(_) => 0,
        Garbage::Parts(count, _) | Garbage::Other(_, count) => *count,
    }
}

/// The next garbage; waits for it. This thread allocates nothing, so the freed blocks in its cache,
/// each of which may keep a slab alive, would stay there.
fn next(receiver: &Receiver<Garbage>) -> Option<Garbage> {
    receiver.try_recv().ok().or_else(|| {
        flush_cache();
        receiver.recv().ok()
    })
}

fn run(receiver: &Receiver<Garbage>, queue: &std::sync::Weak<LazyFree>) {
    while let Some(garbage) = next(receiver) {
        match garbage {
            Garbage::Entry(address) => {
                // SAFETY: sent once, when it was unreachable.
                unsafe { Entry::from_address(address).release() };
                done(queue, 1);
            }
            // Part by part, so that the pending count falls as memory does.
            Garbage::Parts(_, parts) => parts.for_each(|count| done(queue, count)),
            Garbage::Call(call) => call(),
            Garbage::Other(garbage, count) => {
                drop(garbage);
                done(queue, count);
            }
        }
    }
}

fn done(queue: &std::sync::Weak<LazyFree>, count: usize) {
    if let Some(queue) = queue.upgrade() {
        queue.pending.fetch_sub(count, Ordering::Relaxed);
        queue.freed.fetch_add(count, Ordering::Relaxed);
    }
}
