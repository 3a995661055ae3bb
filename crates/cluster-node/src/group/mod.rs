// SPDX-License-Identifier: BSD-3-Clause
//! This server's part in a group (`group-name`): threads that talk to etcd, and one that carries
//! out the orders of the state machine ([`braid_group::Member`]).
//!
//! The thread `group` runs the state machine. It receives etcd's answers as messages ([`store`]),
//! reads the server's state, and carries out the orders ([`duty`]): roles, the members that replies
//! wait for, and until when the server may serve. No request of a client waits for etcd.
//!
//! A node of a cluster (`cluster-name`) does the same for its shard, once it has one, and
//! publishes the cluster's map ([`braid_executor::cluster_map`]).
//!
//! Without `group-name` and `cluster-name` none of this runs.

pub mod author;
pub mod changes;
mod clock;
mod divergence;
mod duty;
pub mod figures;
pub mod foreign_keys;
mod leaderless;
pub mod leftovers;
mod messages;
mod mirror;
pub mod node;
mod open_slots;
mod own_node;
mod part;
pub mod previous_process;
mod replica_migration;
pub mod report;
mod settings;
mod shard_channels;
pub mod shared;
mod shared_state;
pub mod slot_batch;
mod store;
pub mod thread;
mod transactions;
pub mod view;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use braid_executor::cluster_map::ClusterMap;
use braid_executor::engine::Engine;
use braid_executor::services::{self, Membership};
use braid_group::record::Keys;
use braid_group::{CleanShutdown, MemberId, Timing, Transaction};
use braid_replication::Replica;
use messages::{EtcdEvent, EtcdRequests};
use parking_lot::{Condvar, Mutex};
use settings::Settings;
use shared_state::SharedState;
use view::View;

/// Stands for the shard of a server that is in none of its cluster's shards.
const NO_SHARD: &str = "-";

/// The group of this server.
pub struct Group {
    pub settings: Settings,
    pub(crate) timing: Timing,
    /// Keys of this server's shard. The server may move to another shard of its cluster.
    keys: Mutex<Arc<Keys>>,
    /// The group as others see it.
    pub view: Mutex<View>,
    etcd_events: Mutex<Vec<EtcdEvent>>,
    has_etcd_events: Condvar,
    /// Orders for etcd's threads.
    etcd_requests: Mutex<EtcdRequests>,
    has_etcd_requests: Condvar,
    /// Acknowledging, and the order to stop it, exclude each other.
    acknowledging: Mutex<Acknowledging>,
    /// When bytes of the stream last arrived, nanoseconds of CLOCK_BOOTTIME.
    received: AtomicU64,
    /// The dataset is complete: no full sync has begun without completing.
    is_whole: AtomicBool,
    /// Set if a former process shut down cleanly and its files are as it left them; until it is
    /// decided which member this process is.
    clean_shutdown: Mutex<Option<CleanShutdown>>,
    /// The epoch of the link's connection.
    link_epoch: AtomicU64,
    /// Progress of leaving the group.
    leaving: Mutex<Leaving>,
    has_left: Condvar,
    /// The member that is to take over by FAILOVER.
    handover: Mutex<Option<MemberId>>,
    /// FAILOVER TAKEOVER was requested.
    takes_over: AtomicBool,
    /// An operator wants this server to take the primary's place although it is configured to
    /// stay a replica; until the primary changes.
    is_wanted: AtomicBool,
    /// There is no primary, and no server may lead by itself.
    is_leaderless: AtomicBool,
    /// Slots of which an interrupted MIGRATE may have left keys at its target.
    doubts: Mutex<leftovers::Doubts>,
    /// Records that apply to the whole cluster.
    shared: SharedState,
}

/// Whether this server acknowledges the primary's stream.
struct Acknowledging {
    is_refused: bool,
    /// When the newest acknowledged bytes arrived, nanoseconds of CLOCK_BOOTTIME; if none, when
    /// the server started. A probe that it has answered was sent before that.
    last: u64,
}

/// Progress of a server that leaves the group, because it shuts down.
#[derive(Default)]
struct Leaving {
    /// The lease must end: nothing is served any more.
    is_asked: bool,
    /// The lease has ended, or cannot be ended.
    is_done: bool,
}

impl Group {
    /// Sends a message to the group's thread.
    fn tell(&self, event: EtcdEvent) {
        self.etcd_events.lock().push(event);
        self.has_etcd_events.notify_one();
    }

    /// The keys of this server's shard.
    pub(crate) fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.lock())
    }

    fn set_refused(&self, refused: bool) {
        self.acknowledging.lock().is_refused = refused;
    }

    /// Makes this server take the primary's place if it may, even if it is configured to stay a
    /// replica. The primary's lease has no holder.
    pub fn ask_candidacy(&self) {
        self.is_wanted.store(true, Relaxed);
        self.wake();
    }

    /// True once etcd has answered, so that this server knows the group's records.
    fn has_records(&self) -> bool {
        self.view.lock().records.revision > 0
    }
}

impl Membership for Group {
    fn ask_takeover(&self) -> Result<(), &'static str> {
        let view = self.view.lock();
        match () {
            () if view.is_primary => return Err("this server is already the primary"),
            () if view.epoch == 0 || !view.etcd_error.is_empty() => return Err("etcd is unreachable"),
            () if view.records.holder.is_some() => return Err("the primary is alive: use FAILOVER"),
            () => {}
        }
        drop(view);
        self.takes_over.store(true, Relaxed);
        self.wake();
        Ok(())
    }

    fn wake(&self) {
        // With the lock, or a thread that is about to wait would miss it.
        let _events = self.etcd_events.lock();
        self.has_etcd_events.notify_one();
    }

    fn note_received(&self) {
        self.received.store(braid_base::clock::boot_nanos(), Relaxed);
    }

    fn acknowledge(&self, send: &mut dyn FnMut()) {
        let mut acknowledging = self.acknowledging.lock();
        if acknowledging.is_refused {
            return;
        }
        acknowledging.last = acknowledging.last.max(self.received.load(Relaxed));
        // Even a failed send may arrive.
        send();
    }

    fn set_whole(&self, is_whole: bool) {
        self.is_whole.store(is_whole, Relaxed);
    }

    fn may_succeed(&self, replica: &Replica) -> bool {
        let member = replica.options.member.as_ref();
        member.is_some_and(|(id, _)| self.view.lock().in_sync.contains(id))
    }

    fn may_choose(&self, replica: &Replica) -> bool {
        let member = replica.options.member.as_ref();
        let view = self.view.lock();
        member.is_some_and(|(id, _)| view.records.nodes.get(&id.node).is_none_or(|node| node.priority > 0))
    }

    fn ask_handover(&self, to: MemberId) {
        *self.handover.lock() = Some(to);
        self.wake();
    }

    fn is_leaderless(&self) -> bool {
        self.is_leaderless.load(Relaxed)
    }

    fn lease_nanos(&self) -> u64 {
        self.timing.lease
    }

    fn introduction(&self) -> (String, String, u64) {
        let MemberId { node, run } = &self.view.lock().id;
        (node.to_string(), run.to_string(), self.link_epoch.load(Relaxed))
    }

    fn distrust_files(&self) {
        *self.clean_shutdown.lock() = None;
    }

    fn has_all_members(&self, map: Option<&ClusterMap>, replicas: &[Arc<Replica>]) -> bool {
        report::has_all_members(self, map, replicas)
    }
}

/// The group of this server, if it is in one.
pub fn of(engine: &Engine) -> Option<&Group> {
    services::state_of(&**engine.group.as_ref()?)
}

/// The same, to keep.
fn shared_of(engine: &Engine) -> Option<Arc<Group>> {
    services::shared_state_of(engine.group.clone()?)
}

/// Describes a transaction for the log.
pub(crate) fn describe(transaction: &Transaction) -> String {
    match &transaction.shard {
        None => "to bind the primary's lease".into(),
        Some(shard) => format!(
            "of epoch {}, primary {}, in sync {}",
            shard.epoch,
            shard.primary.node,
            view::names(&shard.in_sync)
        ),
    }
}

/// Creates the group if the configuration names one.
///
/// # Errors
/// What is invalid in the configuration.
pub fn of_config(config: &braid_config::Config, run: &str) -> Result<Option<Arc<dyn Membership>>, String> {
    let Some(settings) = Settings::of_config(config)? else { return Ok(None) };
    let id = MemberId::new(&settings.node, run);
    let now = braid_base::clock::boot_nanos();
    Ok(Some(Arc::new(Group {
        timing: Timing::new(settings.lease_ms * 1_000_000),
        keys: Mutex::new(Arc::new(match settings.is_cluster {
            // The records tell which shard it is in.
            true => Keys::of_shard(&settings.name, NO_SHARD),
            false => Keys::new(&settings.name),
        })),
        view: Mutex::new(View::new(&settings, &id)),
        settings,
        etcd_events: Mutex::default(),
        has_etcd_events: Condvar::new(),
        etcd_requests: Mutex::default(),
        has_etcd_requests: Condvar::new(),
        acknowledging: Mutex::new(Acknowledging { is_refused: false, last: now }),
        received: AtomicU64::new(0),
        is_whole: AtomicBool::new(true),
        clean_shutdown: Mutex::default(),
        link_epoch: AtomicU64::new(0),
        leaving: Mutex::default(),
        has_left: Condvar::new(),
        handover: Mutex::new(None),
        takes_over: AtomicBool::new(false),
        is_wanted: AtomicBool::new(false),
        is_leaderless: AtomicBool::new(false),
        doubts: Mutex::default(),
        shared: SharedState::default(),
    })))
}
