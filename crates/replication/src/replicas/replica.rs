// SPDX-License-Identifier: BSD-3-Clause
//! One replica: its options, its acknowledged offset, and the orders for its loop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64};

use braid_base::clock::unix_ms;
use parking_lot::Mutex;

use super::full_sync::FullSync;
use super::options::ReplicaOptions;
use super::stream_position::StreamPosition;
use crate::blocks;
use braid_clients::{Address, ClientRecord};

/// A replica's stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Stage {
    /// The cut of its full sync is still to come.
    Waits,
    /// Its full sync is being written or sent.
    Copying,
    /// It receives changes, or will once it has acknowledged its full sync.
    Online,
    Gone,
}

/// An instruction to the replica's loop.
pub enum Order {
    /// Send a line, then a full sync, then the changes from there on, if the replica wants any.
    FullSync { head: String, full_sync: Arc<FullSync>, position: Option<StreamPosition> },
    /// Send a line, then the changes from there on.
    Stream { head: String, position: StreamPosition },
}

/// A client that is attached as a replica.
pub struct Replica {
    pub record: Arc<ClientRecord>,
    pub options: ReplicaOptions,
    /// It was sent the offset at which its changes start.
    pub is_told: bool,
    pub since_ms: i64,
    stage: AtomicU8,
    /// Journal offsets up to which it has received everything, and has it on disk.
    pub acknowledged: AtomicU64,
    pub on_disk: AtomicU64,
    /// It has acknowledged an offset, so it has loaded its full sync.
    pub has_acknowledged: AtomicBool,
    /// When it last acknowledged, ms since the Unix epoch.
    pub acknowledged_ms: AtomicI64,
    /// It was sent its full sync up to the mark: nothing may follow before it answers.
    pub awaits_acknowledgement: AtomicBool,
    /// It was sent a full sync to be acknowledged, and has not done so: it may not have been able
    /// to read it.
    pub unconfirmed: AtomicBool,
    orders: Mutex<Vec<Order>>,
    /// The full sync it is receiving.
    full_sync: Mutex<Option<Arc<FullSync>>>,
}

impl Replica {
    pub fn new(record: Arc<ClientRecord>, options: ReplicaOptions, is_told: bool, now_ms: i64) -> Replica {
        Replica {
            record,
            options,
            is_told,
            since_ms: now_ms,
            stage: AtomicU8::new(Stage::Waits as u8),
            acknowledged: AtomicU64::new(0),
            on_disk: AtomicU64::new(0),
            has_acknowledged: AtomicBool::new(false),
            acknowledged_ms: AtomicI64::new(now_ms),
            awaits_acknowledgement: AtomicBool::new(false),
            unconfirmed: AtomicBool::new(false),
            orders: Mutex::default(),
            full_sync: Mutex::default(),
        }
    }

    /// The current stage.
    pub fn stage(&self) -> Stage {
        match self.stage.load(Relaxed) {
            0 => Stage::Waits,
            1 => Stage::Copying,
            2 => Stage::Online,
            _ => Stage::Gone,
        }
    }

    /// Whether it receives changes and has acknowledged the journal up to `offset`.
    pub fn has(&self, offset: u64) -> bool {
        self.stage() == Stage::Online && self.acknowledged.load(Relaxed) >= offset
    }

    pub fn set_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, Relaxed);
    }

    /// A full sync for it begins.
    pub fn begin_full_sync(&self, full_sync: Arc<FullSync>) {
        *self.full_sync.lock() = Some(full_sync);
        self.set_stage(Stage::Copying);
    }

    /// The full sync it is receiving.
    pub fn full_sync(&self) -> Option<Arc<FullSync>> {
        self.full_sync.lock().clone()
    }

    /// Its full sync has been sent. `marked`: up to the mark that ends it, which the replica must
    /// answer.
    pub fn full_sync_sent(&self, marked: bool) {
        self.awaits_acknowledgement.store(marked, Relaxed);
        *self.full_sync.lock() = None;
        // One that takes no changes on this connection acknowledges nothing here.
        self.unconfirmed.store(!self.options.rdb_only && !self.options.rdb_channel, Relaxed);
        self.acknowledged_ms.store(unix_ms(), Relaxed);
        self.set_stage(Stage::Online);
    }

    /// Whether it is sent blocks after the reply to PSYNC. A replica that expects a bare
    /// `+CONTINUE` would not see the word.
    pub fn is_compressed(&self) -> bool {
        self.options.compressed && self.options.psync2 && self.is_told
    }

    /// The suffix of the reply to PSYNC.
    pub fn compression_word(&self) -> String {
        if self.is_compressed() { format!(" {}", blocks::WORD) } else { String::new() }
    }

    /// Queues an order for its loop. The caller must wake the loop.
    pub fn order(&self, order: Order) {
        self.orders.lock().push(order);
    }

    /// Takes the queued orders.
    pub fn orders(&self) -> Vec<Order> {
        std::mem::take(&mut self.orders.lock())
    }

    /// Seconds since it was last heard from.
    pub fn lag_seconds(&self, now_ms: i64) -> i64 {
        (now_ms / 1000 - self.heard_ms() / 1000).max(0)
    }

    /// When it was last heard from, ms since the Unix epoch. While it loads a full sync it sends
    /// empty lines, which count.
    pub fn heard_ms(&self) -> i64 {
        self.acknowledged_ms.load(Relaxed).max(self.record.last_active_ms.load(Relaxed))
    }

    /// The IP address at which it can be reached.
    pub fn ip(&self) -> String {
        if !self.options.ip.is_empty() {
            return self.options.ip.clone();
        }
        match &self.record.address {
            Address::Tcp(SocketAddr::V4(address)) => address.ip().to_string(),
            Address::Tcp(SocketAddr::V6(address)) => address.ip().to_canonical().to_string(),
            Address::Unix(path) => path.to_string(),
            Address::Unknown => "?".into(),
        }
    }

    /// Its name in log messages.
    pub fn name(&self) -> String {
        match self.options.port {
            0 => format!("client id #{}", self.record.id),
            port => format!("{}:{port}", self.ip()),
        }
    }

    /// The stage's name in INFO. As in Redis, a full sync that is streamed while it is written
    /// still counts as a save that the replica waits for.
    pub fn stage_name(&self) -> &'static str {
        // Without a full sync here, the replica got it on a second connection.
        let is_made = || {
            let full_sync = self.full_sync();
            full_sync.is_none_or(|full_sync| full_sync.file().is_some() && full_sync.is_complete())
        };
        match self.stage() {
            Stage::Copying if is_made() => "send_bulk",
            Stage::Waits | Stage::Copying => "wait_bgsave",
            Stage::Online | Stage::Gone => "online",
        }
    }
}
