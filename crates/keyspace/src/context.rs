// SPDX-License-Identifier: BSD-3-Clause
//! An executing thread's own state: its gate slot, limbo, counters and random number generator.

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

/// A key found past its expiry.
pub struct Stale {
    pub db: u32,
    pub key: Box<[u8]>,
    /// The keymiss event of the read that found it, not sent yet: it follows the expired event.
    pub missed: bool,
}

/// One executing thread's access to a keyspace.
pub struct Context {
    /// The thread's slot in the gate.
    pub slot: usize,
    /// Unlinked memory waiting to be freed.
    pub limbo: Limbo,
    /// The thread's counters, which other threads read for INFO.
    pub counters: Arc<Padded<Counters>>,
    /// Set when `stale` or `ready` is not empty or the command has begun to wait, so that one test
    /// after each body suffices.
    pub follow_up: Cell<bool>,
    /// Keys that a read under a shared lock found past their expiry; removed when the lock is
    /// released.
    pub stale: RefCell<Vec<Stale>>,
    /// Changed keys with waiters, in the order of the changes.
    pub ready: RefCell<Vec<(u32, Box<[u8]>)>>,
    /// Changed keys that tracking clients have read, with the ids of these clients.
    pub invalidated: RefCell<Vec<(Box<[u8]>, Readers)>>,
    /// All changed keys, while some client tracks in broadcasting mode.
    pub broadcast: RefCell<Vec<Box<[u8]>>>,
    /// Changed keys to bring to the index.
    pub to_index: RefCell<Vec<Box<[u8]>>>,
    /// Changes of the current command, for the journal.
    pub journal: Writer,
    /// True while a script has disabled journalling of its changes (`redis.set_repl`).
    pub unjournalled: bool,
    /// Arguments of the current command that are journalled in another spelling, by index.
    pub respelled: Vec<(usize, Vec<u8>)>,
    /// The thread had to leave the gate in the middle of a batch and has not come in again: it
    /// must not touch any key.
    pub outside: bool,
    /// While the thread was outside, a condition under which the current command was admitted has
    /// changed. The command has done nothing yet and must be checked again.
    pub outdated: bool,
    /// Keys sampled for eviction.
    pub eviction: Pool,
    /// Commands until the next sampled one, including that one; 0 while sampling is off.
    pub until_sample: u32,
    /// Random numbers for sampling; never for values that must not be guessable.
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
            to_index: RefCell::default(),
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
    /// Stops the world for a command. `None` if another thread keeps it stopped for long; this
    /// thread is then outside the gate.
    pub fn stop_world(&self, context: &mut Context) -> Option<World<'_>> {
        let world = self.gate.stop_world_unless_busy(context.slot);
        context.outside = world.is_none();
        world
    }

    /// Enters the gate again after the thread had to leave it. False if it cannot enter yet.
    pub fn reenter_gate(&self, context: &mut Context) -> bool {
        if context.outside {
            context.outside = self.gate.enter_unless_busy(context.slot) == Entered::Busy;
        }
        !context.outside
    }
}
