// SPDX-License-Identifier: BSD-3-Clause
//! Replication links as INFO, the metrics and the page report them: lag, and progress of full
//! syncs.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::unix_ms;
use braid_executor::engine::Engine;
use braid_replication::link::{Phase, Primary};
use braid_replication::{Replica, Stage};

/// A replica of this server.
pub struct ReplicaReport {
    pub replica: Arc<Replica>,
    /// The stream offset that it last acknowledged.
    pub offset: u64,
    /// Unacknowledged bytes of the stream.
    pub lag_bytes: u64,
    /// Upper bound of the age of the oldest of these bytes, in ms: replicas acknowledge once a
    /// second.
    pub lag_ms: i64,
    /// Set while it gets a full sync.
    pub full_sync: Option<SendProgress>,
}

/// Progress of a full sync to a replica.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct SendProgress {
    pub sent_bytes: u64,
    /// Its length, if known.
    pub total_bytes: Option<u64>,
    /// Fraction of the work that is done, from 0 to 1. Writing a file is half of it.
    pub done: f64,
}

/// The link to this server's primary.
pub struct LinkReport {
    pub primary: Primary,
    pub phase: Phase,
    /// Time since data was last received, if the link is up.
    pub last_io_ms: Option<i64>,
    /// Time since the link was lost, if it is down and has been up.
    pub down_ms: Option<i64>,
    /// Received bytes of the stream that have not been applied.
    pub unapplied_bytes: u64,
    /// Set while a full sync is received or loaded.
    pub full_sync: Option<ReceiveProgress>,
}

/// Progress of a full sync from the primary.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct ReceiveProgress {
    pub read_bytes: u64,
    /// Its length, if stated by the primary.
    pub total_bytes: Option<u64>,
    /// Fraction loaded, from 0 to 1, while a full sync of known length is loaded.
    pub loaded: Option<f64>,
    /// Time since data was last received.
    pub last_io_ms: i64,
}

/// All replicas, in the order in which they were attached.
pub fn replica_reports(engine: &Engine) -> Vec<ReplicaReport> {
    let state = engine.replication.state.lock();
    // After the lock is taken: no replica has acknowledged more by then.
    let (now_ms, end) = (unix_ms(), engine.keyspace.journal.end());
    let report = |replica: &Arc<Replica>| {
        let acknowledged = replica.acknowledged.load(Relaxed);
        let follows = !replica.options.rdb_only && replica.stage() != Stage::Waits;
        let (lag_bytes, lag_ms) = match follows {
            true => (end.saturating_sub(acknowledged), state.stream_times.lag_ms(acknowledged, end, now_ms)),
            false => (0, 0),
        };
        ReplicaReport {
            offset: state.history.offset(acknowledged),
            lag_bytes,
            lag_ms,
            full_sync: send_progress(engine, replica),
            replica: Arc::clone(replica),
        }
    };
    state.replicas.iter().map(report).collect()
}

fn send_progress(engine: &Engine, replica: &Replica) -> Option<SendProgress> {
    let full_sync = replica.full_sync()?;
    let (sent_bytes, written) = full_sync.sent_of(replica.record.id)?;
    let share = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    let is_made = full_sync.is_complete();
    let keys = engine.replication.full_sync_keys.load(Relaxed);
    let made = if is_made { 1.0 } else { share(engine.replication.progress.keys.load(Relaxed), keys) };
    let sent = share(sent_bytes, written);
    let done = match full_sync.file() {
        // The file is written first, and then sent.
        Some(_) => (made + if is_made { sent } else { 0.0 }) / 2.0,
        None => made * sent,
    };
    Some(SendProgress { sent_bytes, total_bytes: is_made.then_some(written), done: done.clamp(0.0, 1.0) })
}

/// The link to the primary, if this server is a replica.
pub fn link_report(engine: &Engine) -> Option<LinkReport> {
    let link = &engine.replication.link;
    let primary = link.primary()?;
    let (now_ms, phase) = (unix_ms(), link.phase());
    let is_up = phase == Phase::Connected;
    let since = |at_ms: i64| (now_ms - at_ms).max(0);
    let full_sync = (phase == Phase::Sync).then(|| {
        let progress = &engine.persistence.progress;
        let knows_length = progress.total_bytes.load(Relaxed) > 0;
        let is_loading = progress.active.load(Relaxed) && knows_length;
        ReceiveProgress {
            read_bytes: link.full_sync.read.load(Relaxed),
            total_bytes: u64::try_from(link.full_sync.total.load(Relaxed)).ok(),
            loaded: is_loading.then(|| (progress.percent() / 100.0).clamp(0.0, 1.0)),
            last_io_ms: since(link.last_io_ms()),
        }
    });
    Some(LinkReport {
        primary,
        phase,
        last_io_ms: is_up.then(|| since(link.last_io_ms())),
        down_ms: link.down_since_ms().filter(|_| !is_up).map(since),
        unapplied_bytes: link.unapplied.load(Relaxed),
        full_sync,
    })
}
