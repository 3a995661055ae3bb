// SPDX-License-Identifier: BSD-3-Clause
//! What an executing thread brings along: its gate slot, its limbo, its counters and its source of
//! randomness.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use braid_base::Padded;
use braid_base::gate::{Entered, World};
use braid_journal::Writer;

use crate::counters::Counters;
use crate::eviction::Pool;
use crate::keyspace::Keyspace;
use crate::limbo::Limbo;
use crate::watch::Readers;

/// One executing thread's access to a keyspace.
pub struct Context {
    /// The thread's slot in the gate.
    pub slot: usize,
    /// Unlinked memory that waits to be freed.
    pub limbo: Limbo,
    /// The thread's counters, shared with whoever sums them.
    pub counters: Arc<Padded<Counters>>,
    /// There is something in `stale` or `ready`, or the command has begun to wait: one look after
    /// each body tells.
    pub follow_up: Cell<bool>,
    /// Keys that a read under a shared lock found past their expiry; removed when the lock is released.
    pub stale: RefCell<Vec<(u32, Box<[u8]>)>>,
    /// Keys that were changed and that clients wait for, in the order of the changes.
    pub ready: RefCell<Vec<(u32, Box<[u8]>)>>,
    /// Keys that were changed and that clients have read, with these clients.
    pub invalidated: RefCell<Vec<(Box<[u8]>, Readers)>>,
    /// Keys that were changed, while somebody wants to know of all.
    pub broadcast: RefCell<Vec<Box<[u8]>>>,
    /// What the present command has changed, for the journal.
    pub journal: Writer,
    /// A script has said that what it changes is not to be journalled.
    pub unjournalled: bool,
    /// Arguments of the present command, by their index, that the journal is to have in another spelling.
    pub respelled: Vec<(usize, Vec<u8>)>,
    /// The thread had to step outside of the gate in the middle of a batch, and has not come in
    /// again: no key may be touched.
    pub outside: bool,
    /// What let the present command run has changed while the thread was outside: the command has
    /// done nothing, and is to be checked again.
    pub outdated: bool,
    /// Keys sampled for eviction.
    pub eviction: Pool,
    /// Commands up to the next one that is looked at closer, that included; 0 while none is.
    pub until_sample: u32,
    /// Randomness for sampling; never for anything that must not be guessed.
    pub random: fastrand::Rng,
}

impl Context {
    /// The context of the thread that owns gate slot `slot`.
    pub fn new(keyspace: &Keyspace, slot: usize) -> Context {
        Context {
            slot,
            limbo: Limbo::new(Arc::clone(&keyspace.gate), Arc::clone(&keyspace.lazy_free)),
            counters: Arc::clone(&keyspace.counters[slot]),
            follow_up: Cell::new(false),
            stale: RefCell::default(),
            ready: RefCell::default(),
            invalidated: RefCell::default(),
            broadcast: RefCell::default(),
            journal: Writer::default(),
            unjournalled: false,
            respelled: Vec::new(),
            outside: false,
            outdated: false,
            eviction: Pool::default(),
            until_sample: 0,
            random: fastrand::Rng::new(),
        }
    }
}

impl Keyspace {
    /// Stops the world for a command. Nothing if somebody else has stopped it for long; the thread
    /// is outside of the gate then.
    pub fn stop_world(&self, context: &mut Context) -> Option<World<'_>> {
        let world = self.gate.close_unless_busy(context.slot);
        context.outside = world.is_none();
        world
    }

    /// Comes back inside after the thread had to step outside. False if it cannot yet.
    pub fn come_in(&self, context: &mut Context) -> bool {
        if context.outside {
            context.outside = self.gate.enter_unless_busy(context.slot) == Entered::Busy;
        }
        !context.outside
    }
}
