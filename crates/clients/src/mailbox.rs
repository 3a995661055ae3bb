// SPDX-License-Identifier: BSD-3-Clause
//! Mailbox: messages from other threads about the clients of a loop.
//!
//! A connection belongs to one event loop, and only that loop touches it. Other threads post a
//! message and ring the event notifier that the loop polls. The ring is skipped while the loop is
//! known to be awake with mail pending.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use braid_base::sharing::{Line, note};
use crossbeam_queue::SegQueue;
use rustix::event::{EventfdFlags, eventfd};

/// A queue of messages with an event notifier.
pub struct Mailbox<M> {
    queue: SegQueue<M>,
    notifier: OwnedFd,
    rung: AtomicBool,
}

impl<M> Mailbox<M> {
    /// An empty mailbox.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn new() -> std::io::Result<Mailbox<M>> {
        let notifier = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Mailbox { queue: SegQueue::new(), notifier, rung: AtomicBool::new(false) })
    }

    /// Posts a message and wakes the owner.
    pub fn send(&self, message: M) {
        // The queue's tail, a place in it, and what says that the place is filled.
        note(Line::Mailbox, 2, 2);
        self.queue.push(message);
        self.ring();
    }

    /// Wakes the owner.
    pub fn ring(&self) {
        note(Line::Mailbox, 1, 1);
        if !self.rung.swap(true, Ordering::AcqRel) {
            // The write fails only if the counter is full; then the owner is already awake.
            let _ = rustix::io::write(&self.notifier, &1u64.to_ne_bytes());
        }
    }

    /// Must be called by the owner when the notifier is readable, before it takes messages.
    pub fn acknowledge(&self) {
        let _ = rustix::io::read(&self.notifier, &mut [0; 8]);
        // A swap rather than a store: it synchronizes with senders that found the bell already
        // rung, and is not reordered with the following take.
        self.rung.swap(false, Ordering::AcqRel);
    }

    /// The next message.
    pub fn take(&self) -> Option<M> {
        self.queue.pop()
    }

    /// The notifier, to be polled for reading.
    pub fn notifier(&self) -> BorrowedFd<'_> {
        self.notifier.as_fd()
    }
}
