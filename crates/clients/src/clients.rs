// SPDX-License-Identifier: BSD-3-Clause
//! All clients, the mailboxes of their loops, and the states that hold back many clients.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use crate::busy::Busy;
use crate::mailboxes::Mailboxes;
use crate::pause::Pause;
use crate::registry::Registry;

/// Connected clients as seen by all threads.
pub struct Clients {
    pub registry: Arc<Registry>,
    /// Mailboxes of the event loops.
    pub mailboxes: Arc<Mailboxes>,
    pub pause: Pause,
    /// Long-running scripts.
    pub busy: Busy,
    /// Memory held by clients in bytes, updated by the loops.
    pub bytes: Arc<AtomicI64>,
    /// The part of it that is unread messages, updated by the loops.
    pub push_bytes: AtomicI64,
}

impl Clients {
    /// No clients yet; mailboxes for up to `threads` loops.
    pub fn new(threads: usize) -> Clients {
        Clients {
            registry: Arc::default(),
            mailboxes: Arc::new(Mailboxes::new(threads)),
            pause: Pause::default(),
            busy: Busy::default(),
            bytes: Arc::default(),
            push_bytes: AtomicI64::new(0),
        }
    }
}
