// SPDX-License-Identifier: BSD-3-Clause
//! Replication state of both sides.

use std::collections::HashMap;
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
use crate::replicas::stream_output::SharedStreams;
use crate::replicas::stream_position::StreamPosition;

/// Replication state. One per server.
pub struct Replication {
    /// The link to a primary.
    pub link: Link,
    pub failover: Failover,
    /// The members of a group whose acknowledgements replies wait for.
    pub in_sync: InSync,
    pub state: Mutex<State>,
    /// A full sync is being written.
    pub full_sync_active: AtomicBool,
    pub progress: SnapshotProgress,
    /// Number of keys in the full sync being written.
    pub full_sync_keys: AtomicU64,
    /// Number of replicas that keep up (`min-replicas-max-lag`).
    pub good: AtomicUsize,
    /// Full syncs started, partial resyncs started, and partial resyncs refused.
    pub full: AtomicU64,
    pub partial: AtomicU64,
    pub partial_refused: AtomicU64,
    /// Whether writes wait for a replica that cannot keep up, and how often such a wait has
    /// begun.
    pub throttles: AtomicBool,
    pub throttled: AtomicU64,
    /// Bytes sent to replicas.
    pub sent_bytes: AtomicU64,
    /// The journal's end after the last request for acknowledgements.
    pub asked_at: AtomicU64,
    /// Replicas must be asked again.
    pub asks_soon: AtomicBool,
    /// Servers other than Braid replicate this server, or once did. Only set in active-active
    /// replication.
    pub has_other_replicas: AtomicBool,
    /// Readers of the journal, as bits. A replica does not journal its own commands, although its
    /// journal is read.
    pub journal_uses: AtomicU8,
    /// Loops whose bells are rung when the journal grows.
    pub loops: Mutex<Vec<usize>>,
    /// Streams of replicas that any thread may send.
    pub streams: SharedStreams,
}

/// A stream that the journal keeps for a replica whose full sync is on a second connection.
pub struct Reserved {
    /// The second connection's client.
    pub client: u64,
    pub position: StreamPosition,
    /// Until when the stream is kept after that client is gone, ms since the Unix epoch.
    pub until_ms: Option<i64>,
}

pub struct State {
    pub history: History,
    pub replicas: Vec<Arc<Replica>>,
    /// Streams after full syncs on second connections, not yet requested.
    pub reserved: Vec<Reserved>,
    /// The latest full sync, while it is being written.
    pub full_sync: Option<Arc<FullSync>>,
    pub stream_times: StreamTimes,
    /// For replicas that were sent full syncs and went without acknowledging them: their names,
    /// and how often in a row.
    pub unconfirmed: HashMap<String, u32>,
    /// When a replica was last attached, ms since the Unix epoch.
    pub last_replica_ms: i64,
    /// When replicas were last sent a sign of life, ms since the Unix epoch.
    pub last_ping_ms: i64,
    pub next_look_ms: i64,
    /// Earliest start of the next full sync, set after a failed attempt.
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
                unconfirmed: HashMap::new(),
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
            streams: SharedStreams::default(),
        }
    }
}

impl Replication {
    /// The history of the dataset.
    pub fn history(&self) -> History {
        self.state.lock().history.clone()
    }

    /// Resets the counters (CONFIG RESETSTAT).
    pub fn reset_statistics(&self) {
        [&self.full, &self.partial, &self.partial_refused, &self.sent_bytes, &self.link.received_bytes]
            .into_iter()
            .for_each(|counter| counter.store(0, Relaxed));
    }

    /// All replicas, in the order in which they were attached.
    pub fn replicas(&self) -> Vec<Arc<Replica>> {
        self.state.lock().replicas.clone()
    }

    /// Number of replicas that have received the journal up to `offset`.
    pub fn have(&self, offset: u64) -> i64 {
        self.count(|replica| replica.has(offset))
    }

    /// Number of replicas that have the journal up to `offset` in an append-only file on disk.
    pub fn have_on_disk(&self, offset: u64) -> i64 {
        self.count(|replica| replica.stage() == Stage::Online && replica.on_disk.load(Relaxed) >= offset)
    }

    fn count(&self, test: impl Fn(&Replica) -> bool) -> i64 {
        let state = self.state.lock();
        let count = state.replicas.iter().filter(|replica| test(replica)).count();
        i64::try_from(count).unwrap_or(i64::MAX)
    }
}
