// SPDX-License-Identifier: BSD-3-Clause
//! The composition root: state shared by all executing threads.

pub mod access;
pub mod call;
pub mod request;
pub mod row;
pub use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize};
use std::sync::{Arc, Weak};

use braid_acl::Acl;
use braid_base::hash::KeyHasher;
use braid_clients::Clients;
use braid_clients::attention::{APPEND_ONLY_FAILED, Attention, OTHER_NODES, SNAPSHOT_FULL};
use braid_config::Config;
use braid_feed::Feeds;
use braid_keyspace::events::Observer;
use braid_keyspace::keyspace::Shape;
use braid_keyspace::{Context, Keyspace};
use braid_notify::Hub;
use braid_notify::tracking::Trackers;
use braid_persistence::aof::{HistoryPosition, PlaceOf};
use braid_replication::Replication;
use braid_scripting::Scripts;
use braid_telemetry::Telemetry;
use row::Rows;

use crate::background::threads::Background;
use crate::blocking::state::WaitQueues;
use crate::cluster_map::{ClusterMap, ClusterView};
use crate::durability::state::Durability;
use crate::memory::state::Memory;
use crate::services::{ActiveLog, ClusterMode, Membership, Services};
use crate::state::append_only::AppendOnly;
use crate::state::background_save::BackgroundSave;
use crate::state::feed_waiters::FeedWaiters;
use crate::state::migrations::Migrations;
use crate::state::shutdown::Shutdown;
use crate::state::slot_moves::SlotMoves;
use crate::state::sync_writes::SyncWrites;
use crate::worker::Worker;
use braid_process::Process;

pub use braid_clients::THREADS_MAX;
pub use braid_process::Start;

/// State of the server; one instance per process.
pub struct Engine {
    pub keyspace: Keyspace,
    /// The keyspace's queues of clients that wait for keys (`blocking.rs`).
    pub(crate) wait_queues: Arc<WaitQueues>,
    pub config: Arc<Config>,
    pub commands: Rows,
    pub clients: Clients,
    pub attention: Attention,
    /// Pub/sub and all other pushes.
    pub hub: Arc<Hub>,
    /// Client-side caching: clients that track keys.
    pub trackers: Trackers,
    /// Users and permissions.
    pub acl: Acl,
    pub telemetry: Telemetry,
    pub process: Process,
    pub memory: Memory,
    pub shutdown: Shutdown,
    pub scripts: Scripts,
    /// Saving and loading.
    pub persistence: braid_persistence::State,
    /// State of BGSAVE.
    pub background_save: BackgroundSave,
    /// The append-only file.
    pub append_only: AppendOnly,
    /// Threads for long commands.
    pub background: Background,
    /// Keys being moved to other servers.
    pub migrations: Arc<Migrations>,
    /// Slots being moved between nodes.
    pub slot_moves: SlotMoves,
    /// Clients waiting for acknowledgements (WAIT, WAITAOF).
    pub durability: Durability,
    /// Replies waiting for the members of a group.
    pub sync_writes: SyncWrites,
    /// Replicas, and the link to a primary.
    pub replication: Replication,
    /// Change feeds, and the clients that wait for their entries.
    pub feeds: Feeds,
    pub(crate) feed_waiters: FeedWaiters,
    /// The group of this server (`group-name`).
    pub group: Option<Arc<dyn Membership>>,
    /// This server as a cluster node (`cluster-enabled`).
    pub cluster: Option<ClusterMode>,
    /// Active-active replication (`active-replica`).
    pub active: Option<Arc<dyn ActiveLog>>,
    /// DEBUG settings.
    pub debug: DebugSettings,
    /// Self reference for threads that the engine starts.
    this: Weak<Engine>,
}

/// Switches of DEBUG.
#[derive(Default)]
pub struct DebugSettings {
    /// Scripts may call commands with `noscript` (DEBUG SET-DISABLE-DENY-SCRIPTS).
    pub scripts_call_all: AtomicBool,
    /// The cron of each loop is paused (DEBUG PAUSE-CRON).
    pub cron_paused: AtomicBool,
    /// Fixed peak-reset interval of reply buffers (DEBUG REPLYBUFFER).
    pub reply_buffer_peak_reset_ms: AtomicI64,
    /// RESTORE accepts wrong checksums (DEBUG SET-SKIP-CHECKSUM-VALIDATION).
    pub skip_checksums: AtomicBool,
    /// Reply buffers are not resized (DEBUG REPLYBUFFER RESIZING 0).
    pub reply_buffer_fixed: AtomicBool,
    /// Size in bytes from which a list element has a node of its own; 0 = default (DEBUG
    /// QUICKLIST-PACKED-THRESHOLD).
    pub list_packed_threshold: AtomicUsize,
}

impl Engine {
    /// Creates an engine with the given commands, configuration and services. Nothing follows
    /// settings yet: `braid_node::start` does the rest. `on_synced` is called when more of the
    /// append-only file is on disk.
    ///
    /// # Errors
    /// The process is out of file descriptors.
    pub fn new(
        config: Arc<Config>,
        mut commands: Rows,
        process: Process,
        services: Services,
        on_synced: fn(&Engine),
    ) -> std::io::Result<Arc<Engine>> {
        let threads = config.io_threads();
        let Services { group, cluster, active } = services;
        let keyspace = keyspace_of(&config, &mut commands, cluster.is_some());
        let wait_queues = keyspace.wait_queues();
        let acl = Acl::new(&config, &commands);
        let clients = Clients::new(threads);
        let hub = Arc::new(Hub::new(&clients.mailboxes));
        let engine = Arc::new_cyclic(|this: &Weak<Engine>| Engine {
            keyspace,
            wait_queues,
            telemetry: Telemetry::new(&config),
            trackers: Trackers::new(Arc::clone(&hub), Arc::clone(&clients.registry)),
            hub,
            clients,
            commands,
            attention: Attention::default(),
            acl,
            process,
            memory: Memory::new(),
            shutdown: Shutdown::default(),
            scripts: Scripts::new(THREADS_MAX),
            persistence: braid_persistence::State::default(),
            background_save: BackgroundSave::new(on_full(this.clone())),
            append_only: AppendOnly::new(
                on_append_failure(this.clone()),
                on_append_sync(this.clone(), on_synced),
                place_of(this.clone()),
            ),
            background: Background::default(),
            migrations: Arc::default(),
            slot_moves: SlotMoves::default(),
            durability: Durability::default(),
            sync_writes: SyncWrites::default(),
            replication: Replication::default(),
            feeds: Feeds::default(),
            feed_waiters: FeedWaiters::default(),
            group,
            cluster,
            active,
            debug: DebugSettings::default(),
            this: this.clone(),
            config,
        });
        engine.make_room_for_threads(threads)?;
        engine.persistence.last_save_s.store(engine.process.started_at, Relaxed);
        let has_map = engine.cluster.as_ref().is_some_and(|cluster| cluster.map.is_some());
        engine.attention.set(OTHER_NODES, has_map);
        // Set only here.
        let _ = engine.keyspace.observer.set(Arc::clone(&engine.hub) as Arc<dyn Observer>);
        Ok(engine)
    }

    /// Allocates the state of `threads` threads.
    ///
    /// # Errors
    /// If the process is out of file descriptors.
    pub fn make_room_for_threads(&self, threads: usize) -> std::io::Result<()> {
        self.clients.mailboxes.make_room(threads)?;
        self.hub.make_room_for_loops(threads);
        self.telemetry.make_room_for_threads(threads, self.commands.all().len());
        self.keyspace.make_room_for_threads(threads);
        Ok(())
    }

    /// Sets the number of threads: before new ones start, and after old ones have ended. There must
    /// be room for them. Must not be called by one of them.
    pub fn set_thread_count(&self, threads: usize) {
        self.keyspace.gate.set_threads(threads);
        self.clients.mailboxes.set_thread_count(threads);
    }

    /// The map of the cluster; `None` unless it has several nodes.
    #[inline]
    pub fn cluster_map(&self) -> Option<&ClusterMap> {
        self.cluster.as_ref()?.map.as_ref()
    }

    /// The cluster as this server knows it; `None` unless it has several nodes.
    pub fn cluster_view(&self) -> Option<Arc<ClusterView>> {
        Some(self.cluster_map()?.view())
    }

    /// A reference to the engine for a thread that services start: it does not keep the engine.
    pub fn weak(&self) -> Weak<Engine> {
        self.this.clone()
    }

    /// The engine, for a thread that uses it on its own. `None` while it is being dropped.
    pub fn shared(&self) -> Option<Arc<Engine>> {
        self.this.upgrade()
    }

    /// The worker of the thread with slot `slot`; each slot has one thread.
    pub fn worker(&self, slot: usize) -> Worker {
        Worker::new(Context::new(&self.keyspace, slot), Arc::clone(&self.telemetry.hot_keys))
    }
}

/// The keyspace that the configuration asks for; in cluster mode it is cut by slots.
fn keyspace_of(config: &Config, commands: &mut Rows, is_cluster: bool) -> Keyspace {
    let (shards, databases, threads) = (config.shards(), config.databases(), config.io_threads());
    let shape = Shape { shards, databases, threads, threads_max: THREADS_MAX };
    let hasher = match config.hash_seed() {
        seed if seed.is_empty() => KeyHasher::random(),
        seed => KeyHasher::with_seed(seed.as_bytes()),
    };
    if is_cluster {
        commands.table.check_slots();
        Keyspace::by_slot(Shape { databases: config.cluster_databases(), ..shape }, hasher)
    } else {
        Keyspace::new(shape, hasher)
    }
}

/// Called when the old forms of a snapshot exceed their memory limit (true), or no longer do
/// (false).
fn on_full(engine: Weak<Engine>) -> Box<dyn Fn(bool) + Send + Sync> {
    Box::new(move |full| {
        if let Some(engine) = engine.upgrade() {
            engine.attention.set(SNAPSHOT_FULL, full);
        }
    })
}

/// Called when writing the append-only file fails (true), or works again (false).
fn on_append_failure(engine: Weak<Engine>) -> Box<dyn Fn(bool) + Send + Sync> {
    Box::new(move |failed| {
        if let Some(engine) = engine.upgrade() {
            // A file that is off does not refuse writes.
            engine.attention.set(APPEND_ONLY_FAILED, failed && engine.append_only.on.load(Relaxed));
            engine.append_only.ring_loops(&engine.clients.mailboxes);
        }
    })
}

/// The place in the replication history of a journal offset of a dataset.
fn place_of(engine: Weak<Engine>) -> PlaceOf {
    Box::new(move |dataset, offset| {
        let engine = engine.upgrade()?;
        let state = engine.replication.state.lock();
        let (id, offset) = state.history.place(dataset, offset)?;
        Some(HistoryPosition { id: id.as_bytes().try_into().ok()?, offset })
    })
}

/// Called when more of the append-only file is on disk.
fn on_append_sync(engine: Weak<Engine>, on_synced: fn(&Engine)) -> Box<dyn Fn() + Send + Sync> {
    Box::new(move || {
        if let Some(engine) = engine.upgrade() {
            on_synced(&engine);
        }
    })
}
