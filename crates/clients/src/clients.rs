// SPDX-License-Identifier: BSD-3-Clause
//! All clients, the channels to their loops, and the states that hold many of them.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

use crate::busy::Busy;
use crate::mailboxes::Mailboxes;
use crate::pause::Pause;
use crate::registry::Registry;

/// Connected clients as all threads see them.
pub struct Clients {
    pub registry: Arc<Registry>,
    /// Mailboxes of the event loops.
    pub mailboxes: Arc<Mailboxes>,
    pub pause: Pause,
    /// Scripts that have been running for long.
    pub busy: Busy,
    /// Memory held by clients in bytes, updated by the loops.
    pub bytes: Arc<AtomicI64>,
}

impl Clients {
    /// No clients, and mailboxes for up to `threads` loops.
    pub fn new(threads: usize) -> Clients {
        Clients {
            registry: Arc::default(),
            mailboxes: Arc::new(Mailboxes::new(threads)),
            pause: Pause::default(),
            busy: Busy::default(),
            bytes: Arc::default(),
        }
    }
}
