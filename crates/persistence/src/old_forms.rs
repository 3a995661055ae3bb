// SPDX-License-Identifier: BSD-3-Clause
//! Old forms of entries on their way to the file of the running snapshot: writers hand them over
//! before they change an entry, and `snapshot.rs` writes them.
//!
//! Their memory is bounded: above the limit [`OldForms::is_full`] is true, and a thread about to
//! write waits in [`OldForms::wait_for_room`], without holding any lock.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;

use braid_containers::cow;
use braid_keyspace::Entry;
use braid_keyspace::cow_entry::CowEntry;
use braid_keyspace::snapshot::Keeper;
use braid_keyspace::table::Table;
use braid_rdb::Traits;
use parking_lot::{Condvar, Mutex};

use crate::form::Form;

/// A key with its value, encoded as in the file.
pub(crate) struct Record {
    /// The database.
    pub origin: u32,
    pub bytes: Vec<u8>,
}

#[derive(Default)]
struct Queue {
    records: Vec<Record>,
    shared: Vec<(u32, CowEntry)>,
    tables: Vec<(u32, Vec<Table>)>,
}

/// Old forms of entries on their way to the file of the snapshot in progress.
pub struct OldForms {
    queue: Mutex<Queue>,
    /// Number of shared large collections and strings not yet written.
    shared: AtomicUsize,
    bytes: AtomicUsize,
    /// Bytes kept for the current snapshot, or for the last one.
    kept_bytes: AtomicUsize,
    limit: AtomicUsize,
    /// The form of the running snapshot.
    form: Mutex<Form>,
    room: Condvar,
    /// Called with true when writers should start waiting, with false when they may continue.
    on_full: Box<dyn Fn(bool) + Send + Sync>,
    /// The snapshot has failed: no further old forms are kept.
    void: AtomicBool,
    keys: AtomicU64,
    /// Members whose expiry the file's form cannot store.
    times_left_out: AtomicU64,
}

impl OldForms {
    /// An empty store; `on_full` is called when it becomes full and when it no longer is. Calls
    /// may repeat.
    pub fn new(on_full: Box<dyn Fn(bool) + Send + Sync>) -> OldForms {
        OldForms {
            queue: Mutex::default(),
            shared: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            kept_bytes: AtomicUsize::new(0),
            limit: AtomicUsize::new(0),
            form: Mutex::default(),
            room: Condvar::new(),
            on_full,
            void: AtomicBool::new(false),
            keys: AtomicU64::new(0),
            times_left_out: AtomicU64::new(0),
        }
    }

    /// Resets the store for a snapshot in this form, with a limit in bytes.
    pub(crate) fn begin(&self, limit: usize, form: Form) {
        self.limit.store(limit, Relaxed);
        *self.form.lock() = form;
        self.times_left_out.store(0, Relaxed);
        self.void.store(false, Relaxed);
        self.keys.store(0, Relaxed);
        self.kept_bytes.store(0, Relaxed);
    }

    /// True if threads about to write should wait.
    pub fn is_full(&self) -> bool {
        self.bytes() > self.limit.load(Relaxed)
    }

    /// True if memory use is high enough that the snapshot's writer should not pause.
    pub fn is_filling(&self) -> bool {
        self.bytes() > self.limit.load(Relaxed) / 4
    }

    /// Bytes of all old forms since the cut, written or not.
    pub fn kept_bytes(&self) -> usize {
        self.kept_bytes.load(Relaxed)
    }

    /// Bytes waiting to be written, and bytes copied by changes of shared collections.
    pub fn bytes(&self) -> usize {
        let copied = if self.shared.load(Relaxed) > 0 { cow::copied_bytes() } else { 0 };
        self.bytes.load(Relaxed) + copied
    }

    /// Makes writers wait if copies of shared blocks exceed the memory bound, which copying itself
    /// does not check.
    pub(crate) fn watch_copies(&self) {
        if self.shared.load(Relaxed) > 0 && self.is_full() {
            (self.on_full)(true);
        }
    }

    /// Waits for room, but at most a tenth of a second: a hanging disk must not make the server
    /// hang. The caller must hold no lock and be outside the gate.
    pub fn wait_for_room(&self) {
        let mut queue = self.queue.lock();
        if self.is_full() {
            self.room.wait_for(&mut queue, Duration::from_millis(100));
        } else {
            (self.on_full)(false);
        }
    }

    /// Counts bytes handed over.
    fn count(&self, bytes: usize) {
        let limit = self.limit.load(Relaxed);
        self.kept_bytes.fetch_add(bytes, Relaxed);
        let before = self.bytes.fetch_add(bytes, Relaxed);
        if before <= limit && before + bytes > limit {
            (self.on_full)(true);
        }
    }

    fn tell_of_room(&self) {
        if !self.is_full() {
            (self.on_full)(false);
            self.room.notify_all();
        }
    }

    /// The snapshot has failed: stops keeping old forms.
    pub(crate) fn give_up(&self) {
        self.void.store(true, Relaxed);
    }

    /// Swaps the waiting records with `empty`; false, without a swap, if there are none. Call
    /// [`OldForms::records_written`] afterwards to make room.
    pub(crate) fn take_records(&self, empty: &mut Vec<Record>) -> bool {
        if self.bytes.load(Relaxed) == 0 {
            return false;
        }
        std::mem::swap(empty, &mut self.queue.lock().records);
        true
    }

    /// Frees the room of this many written bytes.
    pub(crate) fn records_written(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
        self.tell_of_room();
    }

    /// Takes the shared entries waiting to be written, with their databases. Each goes to
    /// [`OldForms::shared_written`] afterwards.
    pub(crate) fn take_shared(&self) -> Vec<(u32, CowEntry)> {
        if self.shared.load(Relaxed) == 0 {
            return Vec::new();
        }
        std::mem::take(&mut self.queue.lock().shared)
    }

    /// Releases a shared entry that has been written.
    pub(crate) fn shared_written(&self, entry: CowEntry) {
        self.bytes.fetch_sub(entry.kept_bytes(), Relaxed);
        drop(entry);
        if self.shared.fetch_sub(1, Relaxed) == 1 {
            self.kept_bytes.fetch_add(cow::copied_bytes(), Relaxed);
            cow::forget_copies();
        }
        self.tell_of_room();
    }

    /// Takes the tables of emptied databases that are waiting to be written.
    pub(crate) fn take_tables(&self) -> Vec<(u32, Vec<Table>)> {
        std::mem::take(&mut self.queue.lock().tables)
    }

    /// Keys handed over since the cut.
    pub(crate) fn keys(&self) -> u64 {
        self.keys.load(Relaxed)
    }

    /// Number of members whose expiry the file's form cannot store.
    pub(crate) fn times_left_out(&self) -> u64 {
        self.times_left_out.load(Relaxed)
    }
}

impl Keeper for OldForms {
    fn keep(&self, origin: u32, entry: Entry<'_>, traits: Traits) {
        if self.void.load(Relaxed) {
            return;
        }
        let form = *self.form.lock();
        self.times_left_out.fetch_add(form.times_left_out(entry), Relaxed);
        let bytes = form.encode(entry, traits);
        self.keys.fetch_add(1, Relaxed);
        // Count first: another thread may take the record and subtract its bytes.
        self.count(bytes.len());
        self.queue.lock().records.push(Record { origin, bytes });
    }

    fn keep_shared(&self, origin: u32, entry: CowEntry) {
        if !self.void.load(Relaxed) {
            let bytes = entry.kept_bytes();
            self.keys.fetch_add(1, Relaxed);
            self.shared.fetch_add(1, Relaxed);
            // Count first: another thread may take the entry and subtract its bytes.
            self.count(bytes);
            self.queue.lock().shared.push((origin, entry));
        }
    }

    fn take(&self, origin: u32, tables: Vec<Table>) {
        self.queue.lock().tables.push((origin, tables));
    }
}
