// SPDX-License-Identifier: BSD-3-Clause
//! The state of replication, both sides. One per server.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};

use braid_persistence::SnapshotProgress;
use parking_lot::Mutex;

use crate::failover::Failover;
use crate::history::History;
use crate::in_sync::InSync;
use crate::link::Link;
use crate::replicas::full_sync::FullSync;
use crate::replicas::lag::StreamTimes;
use crate::replicas::replica::{Replica, Stage};
use crate::replicas::stream_position::StreamPosition;

/// The state of replication. One per server.
pub struct Replication {
    /// The link to a primary.
    pub link: Link,
    pub failover: Failover,
    /// The members of a group whose acknowledgements replies wait for.
    pub in_sync: InSync,
    pub state: Mutex<State>,
    /// A full sync is being made.
    pub full_sync_active: AtomicBool,
    pub progress: SnapshotProgress,
    /// Keys in the full sync that is being made.
    pub full_sync_keys: AtomicU64,
    /// Replicas that keep up (`min-replicas-max-lag`).
    pub good: AtomicUsize,
    /// Full syncs and streams from the backlog that were begun, and requests for the latter that
    /// were refused.
    pub full: AtomicU64,
    pub partial: AtomicU64,
    pub partial_refused: AtomicU64,
    /// Writes wait for a replica that cannot keep up, and how often that has begun.
    pub throttles: AtomicBool,
    pub throttled: AtomicU64,
    /// Bytes sent to replicas.
    pub sent_bytes: AtomicU64,
    /// The log's end behind the last question how far replicas have got.
    pub asked_at: AtomicU64,
    /// They must be asked again.
    pub asks_soon: AtomicBool,
    /// Servers other than Braid replicate this one, or have. Only where it is active-active.
    pub has_other_replicas: AtomicBool,
    /// Who reads the journal, as bits. While this server is a replica its own commands are not
    /// journalled, though the journal is read.
    pub journal_uses: AtomicU8,
    /// Loops whose bells to ring when something is journalled.
    pub loops: Mutex<Vec<usize>>,
}

/// A stream that the journal keeps for a replica whose full sync is on a second connection.
pub struct Reserved {
    /// The second connection's client.
    pub client: u64,
    pub position: StreamPosition,
    /// Until when the stream is kept after that client has gone, ms since the Unix epoch.
    pub until_ms: Option<i64>,
}

pub struct State {
    pub history: History,
    pub replicas: Vec<Arc<Replica>>,
    /// Streams behind full syncs on second connections that have not been asked for yet.
    pub reserved: Vec<Reserved>,
    /// The last full sync, for as long as it is being made.
    pub full_sync: Option<Arc<FullSync>>,
    pub stream_times: StreamTimes,
    /// When there was a replica last, ms since the Unix epoch.
    pub last_replica_ms: i64,
    /// When replicas were last shown that the link is alive, ms since the Unix epoch.
    pub last_ping_ms: i64,
    pub next_look_ms: i64,
    /// Earliest start of the next full sync: the last attempt has failed.
    pub not_before_ms: i64,
}

impl Default for Replication {
    fn default() -> Replication {
        Replication {
            link: Link::default(),
            failover: Failover::default(),
            in_sync: InSync::default(),
            state: Mutex::new(State {
                history: History::default(),
                replicas: Vec::new(),
                reserved: Vec::new(),
                full_sync: None,
                stream_times: StreamTimes::default(),
                last_replica_ms: 0,
                last_ping_ms: 0,
                next_look_ms: 0,
                not_before_ms: 0,
            }),
            full_sync_active: AtomicBool::new(false),
            progress: SnapshotProgress::default(),
            full_sync_keys: AtomicU64::new(0),
            good: AtomicUsize::new(0),
            full: AtomicU64::new(0),
            partial: AtomicU64::new(0),
            partial_refused: AtomicU64::new(0),
            throttles: AtomicBool::new(false),
            throttled: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            asks_soon: AtomicBool::new(false),
            has_other_replicas: AtomicBool::new(false),
            asked_at: AtomicU64::new(0),
            journal_uses: AtomicU8::new(0),
            loops: Mutex::default(),
        }
    }
}

impl Replication {
    /// The history that the dataset belongs to.
    pub fn history(&self) -> History {
        self.state.lock().history.clone()
    }

    /// Counts anew (CONFIG RESETSTAT).
    pub fn reset_statistics(&self) {
        [&self.full, &self.partial, &self.partial_refused, &self.sent_bytes, &self.link.received_bytes]
            .into_iter()
            .for_each(|counter| counter.store(0, Relaxed));
    }

    /// All replicas, in the order in which they were attached.
    pub fn replicas(&self) -> Vec<Arc<Replica>> {
        self.state.lock().replicas.clone()
    }

    /// Replicas that have everything up to an offset of the journal.
    pub fn have(&self, offset: u64) -> i64 {
        self.count(|replica| replica.has(offset))
    }

    /// Replicas that have everything up to an offset of the journal in an append-only file on disk.
    pub fn have_on_disk(&self, offset: u64) -> i64 {
        self.count(|replica| replica.stage() == Stage::Online && replica.on_disk.load(Relaxed) >= offset)
    }

    fn count(&self, test: impl Fn(&Replica) -> bool) -> i64 {
        let state = self.state.lock();
        let count = state.replicas.iter().filter(|replica| test(replica)).count();
        i64::try_from(count).unwrap_or(i64::MAX)
    }
}
