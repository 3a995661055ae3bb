// SPDX-License-Identifier: BSD-3-Clause
//! This server's part in a group (`group-name`): threads that talk to etcd, and one that carries
//! out the orders of the state machine ([`braid_group::Member`]).
//!
//! The thread `group` runs the state machine. It receives etcd's answers as messages ([`store`]),
//! reads the server's state ([`Engine::local`]), and carries out the orders ([`duty`]): roles, the
//! members that replies wait for, and until when the server may serve. No request of a client waits
//! for etcd.
//!
//! A node of a cluster (`cluster-name`) does the same for the shard that it is in, once it is in
//! one, and publishes the cluster's map ([`crate::cluster_map`]).
//!
//! Without `group-name` and `cluster-name` none of this runs.

pub mod changes;
mod clock;
mod divergence;
mod duty;
mod former;
mod messages;
mod mirror;
mod node;
mod part;
mod replica_migration;
pub mod report;
mod settings;
pub mod shared;
mod shared_state;
mod store;
mod thread;
pub mod view;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use braid_group::record::Keys;
use braid_group::{Ended, MemberId, Timing, Transaction};
use braid_replication::Replica;
use parking_lot::{Condvar, Mutex};

use messages::{News, Wishes};
use settings::Settings;
use shared_state::SharedState;
use view::View;

/// The shard of a server that is in none of its cluster's.
const NO_SHARD: &str = "-";

/// The group that this server is in.
pub struct Group {
    pub settings: Settings,
    pub(crate) timing: Timing,
    /// Keys of the shard that this server is in. It may go to another one of its cluster.
    keys: Mutex<Arc<Keys>>,
    /// What others see of it.
    pub view: Mutex<View>,
    news: Mutex<Vec<News>>,
    has_news: Condvar,
    /// Orders for etcd's threads.
    wishes: Mutex<Wishes>,
    has_wishes: Condvar,
    /// Acknowledging and the order to stop it exclude each other.
    acknowledging: Mutex<Acknowledging>,
    /// When bytes of the stream last came, nanoseconds of CLOCK_BOOTTIME.
    received: AtomicU64,
    /// The dataset is complete: no full sync has begun that has not ended well.
    is_whole: AtomicBool,
    /// A former process ended in good order, and its files are as it left them. Until it is decided
    /// which member this process is.
    ended: Mutex<Option<Ended>>,
    /// The epoch that the link's connection is under.
    link_epoch: AtomicU64,
    /// How far this server is in leaving the group.
    leaving: Mutex<Leaving>,
    has_left: Condvar,
    /// The member that FAILOVER wants to take over.
    handover: Mutex<Option<MemberId>>,
    /// FAILOVER TAKEOVER was asked for.
    takes_over: AtomicBool,
    /// An operator wants this server to take the primary's place though it is to stay a replica,
    /// until the primary changes.
    is_wanted: AtomicBool,
    /// What holds for the whole cluster.
    shared: SharedState,
}

/// Whether this server acknowledges what a primary sends.
struct Acknowledging {
    is_refused: bool,
    /// When the newest bytes came that it has acknowledged, nanoseconds of CLOCK_BOOTTIME; when it
    /// started, if none. A probe that it has answered was sent before.
    last: u64,
}

/// How far a server is in leaving the group: it ends.
#[derive(Default)]
struct Leaving {
    /// The lease is to end: nothing is served any more.
    is_asked: bool,
    /// It has ended, or cannot be.
    is_done: bool,
}

impl Group {
    /// Tells the group's thread.
    fn tell(&self, news: News) {
        self.news.lock().push(news);
        self.has_news.notify_one();
    }

    /// Notes that bytes of the stream have come.
    pub(crate) fn note_received(&self) {
        self.received.store(braid_base::clock::boot_nanos(), Relaxed);
    }

    /// Acknowledges what has come, unless that is refused. An order to refuse waits meanwhile.
    pub(crate) fn acknowledge<E>(&self, send: impl FnOnce() -> Result<(), E>, refused: E) -> Result<(), E> {
        let mut acknowledging = self.acknowledging.lock();
        if acknowledging.is_refused {
            return Err(refused);
        }
        acknowledging.last = acknowledging.last.max(self.received.load(Relaxed));
        // If it fails it may arrive nevertheless.
        send()
    }

    /// The keys of the shard that this server is in.
    pub(crate) fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.lock())
    }

    fn set_refused(&self, refused: bool) {
        self.acknowledging.lock().is_refused = refused;
    }

    /// A full sync replaces the dataset, or has done so.
    pub(crate) fn set_whole(&self, is_whole: bool) {
        self.is_whole.store(is_whole, Relaxed);
    }

    /// Whether a replica may be handed the primary's place.
    pub(crate) fn may_succeed(&self, replica: &Replica) -> bool {
        let member = replica.options.member.as_ref();
        member.is_some_and(|(id, _)| self.view.lock().in_sync.contains(id))
    }

    /// Whether a replica may be chosen for that: one that is never to take over by itself is not.
    pub(crate) fn may_choose(&self, replica: &Replica) -> bool {
        let member = replica.options.member.as_ref();
        let view = self.view.lock();
        member.is_some_and(|(id, _)| view.records.nodes.get(&id.node).is_none_or(|node| node.priority > 0))
    }

    /// Has the group's thread hand over to a member, which has everything.
    pub(crate) fn ask_handover(&self, to: MemberId) {
        *self.handover.lock() = Some(to);
        self.has_news.notify_one();
    }

    /// Has this server take the primary's place without having been in sync, by an operator's word.
    ///
    /// # Errors
    /// If a primary holds its lease, or this server is not in touch with etcd.
    pub fn ask_takeover(&self) -> Result<(), &'static str> {
        let view = self.view.lock();
        match () {
            () if view.is_primary => return Err("this server is the primary already"),
            () if view.epoch == 0 || !view.etcd_error.is_empty() => return Err("etcd cannot be reached"),
            () if view.records.holder.is_some() => return Err("the primary is alive: use FAILOVER"),
            () => {}
        }
        drop(view);
        self.takes_over.store(true, Relaxed);
        self.has_news.notify_one();
        Ok(())
    }

    /// Has this server take the primary's place if it may, also where it is to stay a replica.
    /// Nobody holds the primary's lease.
    pub fn ask_candidacy(&self) {
        self.is_wanted.store(true, Relaxed);
        self.has_news.notify_one();
    }

    pub(crate) fn lease_nanos(&self) -> u64 {
        self.timing.lease
    }

    /// What the link says to a primary about this server: its node, its run and the epoch.
    pub(crate) fn introduction(&self) -> (String, String, u64) {
        let MemberId { node, run } = &self.view.lock().id;
        (node.to_string(), run.to_string(), self.link_epoch.load(Relaxed))
    }
}

/// Puts a transaction into words for etcd.
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

/// The group of a server that is to be in one.
pub(crate) fn of_config(config: &braid_config::Config, run: &str) -> Result<Option<Arc<Group>>, String> {
    let Some(settings) = Settings::of_config(config)? else { return Ok(None) };
    let id = MemberId::new(&settings.node, run);
    let now = braid_base::clock::boot_nanos();
    Ok(Some(Arc::new(Group {
        timing: Timing::new(settings.lease_ms * 1_000_000),
        keys: Mutex::new(Arc::new(match settings.is_cluster {
            // Its records tell which it is.
            true => Keys::of_shard(&settings.name, NO_SHARD),
            false => Keys::new(&settings.name),
        })),
        view: Mutex::new(View::new(&settings, &id)),
        settings,
        news: Mutex::default(),
        has_news: Condvar::new(),
        wishes: Mutex::default(),
        has_wishes: Condvar::new(),
        acknowledging: Mutex::new(Acknowledging { is_refused: false, last: now }),
        received: AtomicU64::new(0),
        is_whole: AtomicBool::new(true),
        ended: Mutex::default(),
        link_epoch: AtomicU64::new(0),
        leaving: Mutex::default(),
        has_left: Condvar::new(),
        handover: Mutex::new(None),
        takes_over: AtomicBool::new(false),
        is_wanted: AtomicBool::new(false),
        shared: SharedState::default(),
    })))
}
