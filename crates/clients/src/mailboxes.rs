// SPDX-License-Identifier: BSD-3-Clause
//! Mailboxes of all executing threads.

use std::ops::Index;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use braid_base::slots::Slots;

use crate::THREADS_MAX;
use crate::mailbox::Mailbox;
use crate::record::Message;

/// Mailboxes of all executing threads, by slot.
pub struct Mailboxes {
    slots: Slots<Arc<Mailbox<Message>>>,
    /// Number of running threads, which use the slots below it. Mailboxes of stopped threads
    /// stay.
    threads: AtomicUsize,
}

impl Mailboxes {
    /// For `threads` threads; [`Mailboxes::make_room`] allocates the mailboxes.
    pub fn new(threads: usize) -> Mailboxes {
        Mailboxes { slots: Slots::new(THREADS_MAX), threads: AtomicUsize::new(threads) }
    }

    /// Allocates mailboxes for `threads` threads.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn make_room(&self, threads: usize) -> std::io::Result<()> {
        self.slots.try_grow(threads, |_| Mailbox::new().map(Arc::new))
    }

    /// Number of executing threads.
    pub fn thread_count(&self) -> usize {
        self.threads.load(Ordering::SeqCst)
    }

    /// Sets the number of executing threads.
    pub fn set_thread_count(&self, threads: usize) {
        self.threads.store(threads, Ordering::SeqCst);
    }

    /// All mailboxes, including those of stopped threads.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Mailbox<Message>>> {
        self.slots.iter()
    }

    /// Posts a message to each running thread.
    pub fn tell_all(&self, message: impl Fn() -> Message) {
        self.iter().take(self.thread_count()).for_each(|mailbox| mailbox.send(message()));
    }
}

impl Index<usize> for Mailboxes {
    type Output = Arc<Mailbox<Message>>;

    fn index(&self, slot: usize) -> &Arc<Mailbox<Message>> {
        &self.slots[slot]
    }
}
