// SPDX-License-Identifier: BSD-3-Clause
//! The keyspace itself: shards with their locks and tables, and operations on all of them.

use std::collections::HashSet;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};
use std::sync::{Arc, OnceLock};

use braid_base::Padded;
use braid_base::gate::{Gate, World};
use braid_base::hash::KeyHasher;
use braid_base::lock::ShardLock;
use braid_base::prefetch::{CACHE_LINE, prefetch};
use braid_base::slots::Slots;
use braid_journal::Journal;

use crate::catalogue::Catalogue;
use crate::counters::Counters;
use crate::defrag::pass::Defrag;
use crate::documents::{Documents, INDEXED_DB};
use crate::due::DueTimes;
use crate::entry::Entry;
use crate::events::Observer;
use crate::eviction::Policy;
use crate::hidden_slots::HiddenSlots;
use crate::key_hash::{begin_with_slot, spread};
use crate::lazy_free::{Garbage, LazyFree};
use crate::limbo;
use crate::snapshot::Snapshots;
use crate::table::Table;
use crate::waiters::{AwaitedKeys, WaitQueues};
use crate::watch::{Readers, Watchers};

/// One lock and the data under it: the same slice of the hash range in all databases.
///
/// What a change of a key of database 0 touches comes first and fills one cache line: the lock, the
/// table, and the count of watchers. In cluster mode the shards are too many for the processor's
/// inner caches, so each further line would cost a miss per command, and larger shards more page
/// table entries. Each shard has a pair of lines, since processors fetch them in pairs.
#[repr(C, align(128))]
pub struct Shard {
    /// Guards all fields below.
    pub lock: ShardLock,
    first: Table,
    /// Watched keys.
    pub watchers: Watchers,
    /// Set once a database other than 0 has had a key here. Most servers use database 0 only, so
    /// walks of all tables can skip the others.
    others_used: AtomicBool,
    others: Box<[Table]>,
    /// Tables of a dataset being built (`staging.rs`).
    pub(crate) staged: OnceLock<Box<[Table]>>,
}

// The model checker's locks are larger.
const _: () = assert!(cfg!(feature = "model") || size_of::<Shard>() == 2 * CACHE_LINE);
const _: () = assert!(cfg!(feature = "model") || std::mem::offset_of!(Shard, watchers) < CACHE_LINE);

impl Shard {
    /// The shard's table of a database.
    #[inline]
    pub fn table(&self, db: u32) -> &Table {
        if db == 0 {
            return &self.first;
        }
        match self.others.get(db as usize - 1) {
            Some(table) => table,
            None => self.staged_table(db),
        }
    }

    #[cold]
    fn staged_table(&self, db: u32) -> &Table {
        let staged = self.staged.get().expect("only a staged database has a number this high");
        &staged[db as usize - 1 - self.others.len()]
    }

    /// The tables that have ever held a key, with their database numbers.
    pub(crate) fn used_tables(&self) -> impl Iterator<Item = (u32, &Table)> {
        let others: &[Table] = if self.others_used.load(Relaxed) { &self.others } else { &[] };
        (0..).zip(std::iter::once(&self.first).chain(others))
    }

    /// Records that a key is being added to a database; the caller holds the shard exclusively.
    #[inline]
    pub(crate) fn note_use(&self, db: u32) {
        if db != 0 && !self.others_used.load(Relaxed) {
            self.others_used.store(true, Relaxed);
        }
    }
}

/// Settings read by look-ups and eviction; CONFIG SET may change them at any time.
#[derive(Default)]
pub struct Settings {
    policy: AtomicU8,
    /// Logarithm factor of the LFU counter.
    pub lfu_log_factor: AtomicU32,
    /// Minutes after which the LFU counter halves.
    pub lfu_decay_minutes: AtomicU32,
    /// Keys sampled per eviction.
    pub eviction_samples: AtomicU32,
    /// Wanted classes of events (`events.rs`); 0 unless some consumer would receive them.
    pub events: AtomicU32,
    /// Events of expired and evicted keys carry the lost value.
    pub events_with_values: AtomicU8,
    /// Nonzero while some client tracks all changed keys (broadcasting mode).
    pub broadcasts: AtomicU8,
    /// Nonzero while changes are told to an index (`indexing.rs`).
    pub(crate) indexed: AtomicU8,
    /// Nonzero once a value may refer to other keys (`links.rs`).
    pub(crate) linked: AtomicU8,
    /// Nonzero while changes are journalled. Changed only with the world stopped.
    pub journals: AtomicU8,
    /// The journal's readers need more detail: they distinguish keys and members lost by expiry or
    /// eviction from removed ones ([`crate::journal::loss_of`]), sums from increments, and a
    /// collection's changed elements from the unchanged ones ([`crate::Txn::journals_for_peers`]),
    /// and they need additions of existing elements ([`crate::Txn::journal_addition`]).
    pub tells_losses: AtomicBool,
    /// The journal's readers distinguish keys lost by expiry or eviction from removed ones, and
    /// need no more detail than that (change feeds).
    pub spells_losses: AtomicBool,
    /// Removals without a client's request that are journalled as UNLINK: one bit per [`Removal`].
    pub unlinks: AtomicU8,
    /// Set by DEBUG SET-ACTIVE-EXPIRE 0.
    pub active_expire_off: AtomicU8,
    /// Expired keys stay until the next write to them; readers do not see them.
    pub keeps_expired: AtomicBool,
    /// Set on a writable replica: keys to which its clients give an expiry are recorded, and
    /// expire even if other keys do not ([`Keyspace::expire_own`]).
    pub notes_own_expiring: AtomicBool,
}

/// Reasons for removing a key without a client's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Removal {
    Expired = 1,
    Evicted = 2,
    /// A side effect of another command.
    Server = 4,
}

impl Settings {
    /// The eviction policy.
    #[inline]
    pub fn policy(&self) -> Policy {
        Policy::from_number(self.policy.load(Relaxed))
    }

    /// The command that journals the loss of a key, spelled as a loss if readers need that.
    pub fn removal(&self, why: Removal) -> &'static [u8] {
        let unlinks = self.unlinks.load(Relaxed) & why as u8 != 0;
        let spells = self.tells_losses.load(Relaxed) || self.spells_losses.load(Relaxed);
        match (why, unlinks) {
            (Removal::Expired, false) if spells => b"dEL",
            (Removal::Expired, true) if spells => b"uNLINK",
            (Removal::Evicted, false) if spells => b"DEl",
            (Removal::Evicted, true) if spells => b"UNLINk",
            (_, false) => b"DEL",
            (_, true) => b"UNLINK",
        }
    }

    /// Changes the eviction policy.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.store(policy as u8, Relaxed);
    }
}

/// All keys of all databases.
pub struct Keyspace {
    shards: Box<[Shard]>,
    shard_bits: u32,
    databases: u32,
    hasher: KeyHasher,
    /// See `by_slot.rs`.
    pub(crate) is_by_slot: bool,
    /// See `by_slot.rs`.
    pub(crate) hidden: HiddenSlots,
    /// Hidden slots that were shown while they had the keys that they still have.
    pub(crate) gone: HiddenSlots,
    /// See `due.rs`.
    pub(crate) due: DueTimes,
    /// The gate of all executing threads.
    pub gate: Arc<Gate>,
    /// The background thread that frees large values.
    pub lazy_free: Arc<LazyFree>,
    /// Upper limit of the number of executing threads.
    threads_max: usize,
    /// Counters of each executing thread.
    pub counters: Slots<Arc<Padded<Counters>>>,
    /// See [`Settings`].
    pub settings: Settings,
    /// Receives events; set once.
    pub observer: OnceLock<Arc<dyn Observer>>,
    /// Receives changes of values; set once.
    pub documents: OnceLock<Arc<dyn Documents>>,
    /// Learns of catalogued values; set once.
    pub catalogue: OnceLock<Arc<dyn Catalogue>>,
    /// The queues of waiting clients; set once.
    awaited: OnceLock<Arc<dyn AwaitedKeys>>,
    /// The order of all changes, while it has readers (see [`Settings::journals`]).
    pub journal: Journal,
    /// Seconds since the Unix epoch, for the access clocks in entries.
    clock: Padded<AtomicU32>,
    /// Keys of a replica to which its clients have given an expiry (see
    /// [`Settings::notes_own_expiring`]).
    pub(crate) own_expiring: parking_lot::Mutex<HashSet<(u32, Box<[u8]>)>>,
    /// Value of the change counter at the last save, for save points and INFO. Set by the saving
    /// code.
    pub dirty_baseline: AtomicU64,
    /// Incremented by each eviction and expiry pass, so that each pass starts at another place.
    pub(crate) sweep: AtomicU64,
    /// See `snapshot.rs`.
    pub(crate) snapshots: Padded<Snapshots>,
    /// See `defrag.rs`.
    pub defrag: Padded<Defrag>,
    /// Each is locked by a [`Reader`](crate::reader::Reader).
    pub(crate) readers: [parking_lot::Mutex<()>; READERS_MAX],
}

/// The most [readers](crate::reader::Reader) at a time.
pub const READERS_MAX: usize = 8;

/// Tables removed from the keyspace by [`Keyspace::flush`]. Freed when dropped.
#[derive(Default)]
pub struct Flushed {
    /// Number of keys, including those handed over to a snapshot in progress.
    pub keys: usize,
    pub(crate) tables: Vec<Table>,
}

impl Flushed {
    /// Up to this many keys are freed immediately.
    const FEW: usize = 64;

    /// True if freeing takes long: many keys, or a large value.
    pub fn is_large(&self) -> bool {
        if self.tables.iter().map(Table::len).sum::<usize>() > Flushed::FEW {
            return true;
        }
        let mut heavy = false;
        for table in &self.tables {
            // SAFETY: the tables are unreachable for other threads.
            unsafe { table.for_each(|entry| heavy |= limbo::is_heavy(entry)) };
        }
        heavy
    }

    /// Frees the tables on the lazy-free thread, which then calls `freed`.
    pub fn free_in_background(self, queue: &LazyFree, freed: Option<Box<dyn FnOnce() + Send>>) {
        queue.send(self.tables.into());
        if let Some(freed) = freed {
            queue.send(Garbage::Call(freed));
        }
    }
}

/// Shape of a keyspace.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Number of shards: a power of two, up to 65536.
    pub shards: usize,
    /// Number of databases.
    pub databases: u32,
    /// Number of threads that execute commands.
    pub threads: usize,
    /// Upper limit of the number of threads ([`Keyspace::make_room_for_threads`]).
    pub threads_max: usize,
}

impl Keyspace {
    /// An empty keyspace.
    pub fn new(shape: Shape, hasher: KeyHasher) -> Keyspace {
        assert!(
            shape.shards.is_power_of_two()
                && shape.shards <= 65536
                && shape.databases > 0
                && (1..=shape.threads_max).contains(&shape.threads)
        );
        let shard = |_| Shard {
            lock: ShardLock::default(),
            first: Table::default(),
            watchers: Watchers::default(),
            others_used: AtomicBool::new(false),
            others: (1..shape.databases).map(|_| Table::default()).collect(),
            staged: OnceLock::new(),
        };
        let keyspace = Keyspace {
            shards: (0..shape.shards).map(shard).collect(),
            shard_bits: shape.shards.ilog2(),
            databases: shape.databases,
            hasher,
            is_by_slot: false,
            hidden: HiddenSlots::default(),
            gone: HiddenSlots::default(),
            due: DueTimes::new(shape.shards.ilog2()),
            gate: Arc::new(Gate::with_room(shape.threads, shape.threads_max, 1 + READERS_MAX)),
            lazy_free: LazyFree::start(),
            threads_max: shape.threads_max,
            counters: Slots::new(shape.threads_max),
            settings: Settings::default(),
            observer: OnceLock::new(),
            documents: OnceLock::new(),
            catalogue: OnceLock::new(),
            awaited: OnceLock::new(),
            journal: Journal::new(shape.threads_max),
            clock: Padded::new(AtomicU32::new(0)),
            dirty_baseline: AtomicU64::new(0),
            sweep: AtomicU64::new(0),
            snapshots: Padded::default(),
            defrag: Padded::default(),
            readers: Default::default(),
            own_expiring: parking_lot::Mutex::default(),
        };
        keyspace.make_room_for_threads(shape.threads);
        keyspace.settings.lfu_log_factor.store(10, Relaxed);
        keyspace.settings.lfu_decay_minutes.store(1, Relaxed);
        keyspace.settings.eviction_samples.store(5, Relaxed);
        keyspace.tick(braid_base::clock::unix_ms());
        keyspace
    }

    /// Makes room for this many executing threads. They may start once the gate has room for them
    /// too.
    pub fn make_room_for_threads(&self, threads: usize) {
        self.counters.grow(threads, |_| Arc::default());
        self.journal.make_room_for_threads(threads);
    }

    /// The gate slot of a snapshot's walker, after those of the executing threads.
    pub(crate) fn walker_slot(&self) -> usize {
        self.threads_max
    }

    /// The gate slot of a [`Reader`](crate::reader::Reader), after the walker's.
    pub(crate) fn reader_slot(&self, reader: usize) -> usize {
        self.threads_max + 1 + reader
    }

    /// Number of databases.
    pub fn databases(&self) -> u32 {
        self.databases
    }

    /// Number of shards.
    pub fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Bits of the hash that choose the shard.
    #[inline]
    pub fn shard_bits(&self) -> u32 {
        self.shard_bits
    }

    /// A shard by number.
    #[inline]
    pub fn shard(&self, index: u32) -> &Shard {
        &self.shards[index as usize]
    }

    /// The shard of a hash.
    #[inline]
    pub fn shard_of(&self, hash: u64) -> u32 {
        // Two shifts, since a shift by 64 bits (a single shard) is undefined.
        (hash >> 1 >> (63 - self.shard_bits)) as u32
    }

    /// The hash of a key name.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        let hash = self.hasher.hash(key);
        if self.is_by_slot { begin_with_slot(hash, key) } else { spread(hash) }
    }

    /// The hash of a random key, from uniform bits.
    #[inline]
    pub(crate) fn random_hash(&self, random: u64) -> u64 {
        if self.is_by_slot { random } else { spread(random) }
    }

    /// The LRU clock recorded by reads: seconds, 24 bits.
    #[inline]
    pub(crate) fn clock(&self) -> u32 {
        self.clock.load(Relaxed) & 0x00ff_ffff
    }

    /// The LFU clock: minutes, 16 bits. Computed from all bits of the seconds, so that it does not
    /// jump when the LRU clock wraps.
    #[inline]
    pub(crate) fn minutes(&self) -> u32 {
        (self.clock.load(Relaxed) / 60) & 0xffff
    }

    /// Sets the access clock to `now_ms`; called a few times a second.
    pub fn tick(&self, now_ms: i64) {
        self.clock.store((now_ms / 1000) as u32, Relaxed);
    }

    /// Prefetches the lock and the table of a key's hash.
    #[inline]
    pub fn prefetch_shard(&self, hash: u64) {
        prefetch(self.shard(self.shard_of(hash)));
    }

    /// Prefetches the bucket of a key's hash.
    #[inline]
    pub fn prefetch_bucket(&self, db: u32, hash: u64) {
        let table = self.shard(self.shard_of(hash)).table(db);
        // SAFETY: called by executing threads inside the gate.
        unsafe { table.prefetch_bucket(hash, self.shard_bits) };
    }

    /// Prefetches the entry of a key's hash.
    #[inline]
    pub fn prefetch_entry(&self, db: u32, hash: u64) {
        let table = self.shard(self.shard_of(hash)).table(db);
        // SAFETY: called by executing threads inside the gate.
        unsafe { table.prefetch_entry(hash, self.shard_bits) };
    }

    /// All shards.
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// Numbers of keys, and of keys with an expiry, in a database; exact only while no thread
    /// writes.
    pub fn len(&self, db: u32) -> (usize, usize) {
        self.shards.iter().fold((0, 0), |(keys, expires), shard| {
            let table = shard.table(db);
            (keys + table.len(), expires + table.expires())
        })
    }

    /// Removes all keys of one database, or of all. The caller frees the result, which does not
    /// need a stopped world.
    pub fn flush(&self, world: &World<'_>, db: Option<u32>) -> Flushed {
        let mut count = 0;
        let mut removed = Vec::new();
        for db in db.map_or(0..self.databases, |db| db..db + 1) {
            let mut tables = Vec::new();
            for shard in &self.shards {
                let table = shard.table(db);
                if !shard.watchers.is_empty() {
                    // SAFETY: the world is stopped.
                    unsafe {
                        shard.watchers.touch_where(|watched_db, key| {
                            watched_db == db && table.find(self.hash(key), self.shard_bits, key).is_some()
                        });
                    }
                }
                if table.is_empty() {
                    continue;
                }
                let empty = Table::default();
                // SAFETY: the world is stopped.
                unsafe { table.swap(&empty) };
                count += empty.len();
                tables.push(empty);
            }
            removed.append(&mut self.snapshots.hand_over(world, db, tables));
        }
        if let Some(documents) = self.documents.get().filter(|_| db.is_none_or(|db| db == INDEXED_DB)) {
            documents.emptied();
        }
        self.tell_replaced(db);
        Flushed { keys: count, tables: removed }
    }

    /// Calls `visit` for each entry of a database, including expired ones, until it returns false.
    pub fn visit(&self, world: &World<'_>, db: u32, mut visit: impl FnMut(Entry<'_>) -> bool) {
        let _ = world;
        let mut goes_on = true;
        for shard in &self.shards {
            // SAFETY: the world is stopped.
            unsafe { shard.table(db).for_each(|entry| goes_on = goes_on && visit(entry)) };
            if !goes_on {
                return;
            }
        }
    }

    /// Starts or stops recording all changed keys for tracking clients (broadcasting mode).
    pub fn set_broadcast(&self, on: bool) {
        self.settings.broadcasts.store(on.into(), SeqCst);
        self.shards.iter().for_each(|shard| shard.watchers.set_broadcast(on));
    }

    /// Removes and returns one tracked key with the clients that have read it.
    pub fn take_tracked(&self) -> Option<(Box<[u8]>, Readers)> {
        let start = fastrand::usize(..self.shards.len());
        let order = (start..self.shards.len()).chain(0..start);
        let mut shards = order.map(|index| &self.shards[index]);
        shards.find_map(
            |shard| if shard.watchers.is_empty() { None } else { shard.watchers.take_some_readers() },
        )
    }

    /// Forgets all clients' reads of keys; returns the numbers of keys and of records.
    pub fn forget_tracked(&self) -> (usize, usize) {
        let counts = self.shards.iter().filter(|shard| !shard.watchers.is_empty());
        counts
            .map(|shard| shard.watchers.forget_readers())
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Exchanges two databases (see [`Txn::swap_databases`](crate::Txn::swap_databases), which
    /// removes expired watched keys first).
    pub(crate) fn swap_tables(&self, world: &World<'_>, one: u32, other: u32) {
        self.snapshots.exchange(world, one, other);
        for shard in &self.shards {
            let (mine, theirs) = (shard.table(one), shard.table(other));
            if !shard.watchers.is_empty() {
                let changed = |db: u32, key: &[u8]| {
                    let hash = self.hash(key);
                    // SAFETY: the world is stopped.
                    let has = |table: &Table| unsafe { table.find(hash, self.shard_bits, key).is_some() };
                    (db == one || db == other) && (has(mine) || has(theirs))
                };
                // SAFETY: the world is stopped.
                unsafe { shard.watchers.touch_where(changed) };
            }
            shard.note_use(one.max(other));
            // SAFETY: the world is stopped.
            unsafe { mine.swap(theirs) };
        }
        if let Some(documents) = self.documents.get().filter(|_| [one, other].contains(&INDEXED_DB)) {
            documents.replaced(false);
        }
        self.tell_replaced(Some(one));
        self.tell_replaced(Some(other));
    }

    /// Number of keys with waiters, and of keys with waiters that heed a loss.
    pub fn awaited_keys(&self) -> (usize, usize) {
        self.awaited().map_or((0, 0), |queues| queues.key_counts())
    }

    /// Makes the queues of waiting clients, whose requests are of type `R`. Call it once.
    ///
    /// # Panics
    /// If the keyspace has queues already.
    pub fn wait_queues<R: Send + Sync + 'static>(&self) -> Arc<WaitQueues<R>> {
        let queues = Arc::new(WaitQueues::new(self.shards.len()));
        let known: Arc<dyn AwaitedKeys> = Arc::clone(&queues) as _;
        assert!(self.awaited.set(known).is_ok(), "a keyspace has one set of queues");
        queues
    }

    /// The keys that have waiters.
    #[inline]
    pub(crate) fn awaited(&self) -> Option<&dyn AwaitedKeys> {
        self.awaited.get().map(|queues| &**queues)
    }

    /// Number of watched keys; a key with several watchers counts once.
    pub fn watched_keys(&self) -> usize {
        let some = self.shards.iter().filter(|shard| !shard.watchers.is_empty());
        some.map(|shard| {
            shard.lock.lock_shared();
            // SAFETY: the shard is held.
            let count = unsafe { shard.watchers.key_count() };
            shard.lock.unlock_shared();
            count
        })
        .sum()
    }

    /// Sums one counter over all threads.
    pub fn total(&self, counter: impl Fn(&Counters) -> u64) -> u64 {
        self.counters.iter().map(|counters| counter(counters)).sum()
    }

    /// Changes since the last save.
    pub fn unsaved_changes(&self) -> u64 {
        self.total(|counters| counters.dirty.get()).wrapping_sub(self.dirty_baseline.load(Relaxed))
    }

    /// Resets the count of changes: the dataset equals the dump file.
    pub fn forget_changes(&self) {
        self.dirty_baseline.store(self.total(|counters| counters.dirty.get()), Relaxed);
    }

    /// Number of collections in a database whose members have, or recently had, an expiry,
    /// excluding hidden slots.
    pub fn expiring_collections(&self, db: u32) -> usize {
        let some = self.visible_shards().filter(|shard| shard.table(db).next_member_expiry().is_some());
        some.map(|shard| {
            shard.lock.lock_shared();
            // SAFETY: the shard is held.
            let count = unsafe { shard.table(db).expiring_collections() };
            shard.lock.unlock_shared();
            count
        })
        .sum()
    }

    /// True if any database may have collections whose members expire.
    pub fn has_expiring_members(&self) -> bool {
        (0..self.databases())
            .any(|db| self.shards.iter().any(|shard| shard.table(db).next_member_expiry().is_some()))
    }

    /// True if no database has keys, those in hidden slots included.
    pub fn is_empty(&self) -> bool {
        (0..self.databases()).all(|db| self.len(db).0 == 0)
    }

    /// Bytes of segments and directories of a database.
    pub fn structure_bytes(&self, db: u32) -> usize {
        let bytes_of = |shard: &Shard| {
            shard.lock.lock_shared();
            let bytes = shard.table(db).structure_bytes();
            shard.lock.unlock_shared();
            bytes
        };
        self.shards.iter().map(bytes_of).sum()
    }
}
