// SPDX-License-Identifier: BSD-3-Clause
//! Active-active replication as shown by INFO.

use std::sync::atomic::Ordering::Relaxed;

use braid_active::Region;
use braid_active::change::Kind;
use braid_base::clock::unix_ms;
use braid_executor::engine::Engine;

use crate::state::{self, Active};

/// Status of a peer.
pub struct PeerReport {
    pub host: String,
    pub port: u16,
    pub is_up: bool,
    pub region: Option<u8>,
    /// Time from the last unit's creation in its region to its application here, in ms.
    pub lag_ms: u64,
    /// The peer's lag behind this server, in ms and bytes; `None` if it does not pull from here.
    pub behind: Option<(u64, u64)>,
    pub units: u64,
    pub bytes: u64,
    pub error: String,
    /// One of the two servers refuses the effects of this region.
    pub refused: Option<u8>,
    /// It is another kind of server.
    pub is_foreign: bool,
}

impl PeerReport {
    /// Host and port as written in the configuration.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

/// Status of this server's replication.
pub struct ActiveReport {
    pub region: u8,
    pub identity: String,
    pub members: Vec<u8>,
    pub own: u64,
    pub merged: u64,
    pub known: u64,
    pub sent: u64,
    pub sent_bytes: u64,
    /// How many of the sent units were read from disk.
    pub sent_from_disk: u64,
    pub copies_sent: u64,
    pub copies_merged: u64,
    pub copy_left_percent: u64,
    /// Units for which values were sent instead of changes.
    pub results: u64,
    pub type_conflicts: u64,
    /// Values that lost to concurrent ones since startup, by type name.
    pub conflicts: Vec<(&'static str, u64)>,
    /// How often writes had to wait for peers.
    pub throttled: u64,
    pub tombstones: u64,
    /// Keys with evicted content that has not been rewritten.
    pub evicted: u64,
    /// Short strings that are in memory once, in the keyspace.
    pub shared: u64,
    pub backlog_bytes: usize,
    pub backlog_disk_bytes: u64,
    /// The applied vector.
    pub applied: String,
    pub log_bytes: u64,
    /// Bytes of units that wait to be written to the log.
    pub log_unwritten_bytes: u64,
    /// How far this server's changes are stamped ahead of its own clock, in ms.
    pub clock_ahead_ms: u64,
    /// Everything that keeps changes from going round; empty if there is no problem.
    pub last_error: String,
    /// The files can be written.
    pub files_ok: bool,
    /// How many other servers refuse this server's changes or number.
    pub refused_by: usize,
    /// Such a server is in contact, and none that takes its changes.
    pub is_isolated: bool,
    pub peers: Vec<PeerReport>,
}

/// What is wrong, in one line.
fn last_error(active: &Active, me: u8, links: &[PeerReport], (ahead_ms, ahead_ms_max): (u64, u64)) -> String {
    let (mut all, mut reasons) = (Vec::new(), Vec::new());
    let of_files = active.last_error.lock().clone();
    all.extend(Some(of_files).filter(|text| !text.is_empty()));
    for (by, refused) in active.refusals.lock().all() {
        reasons.push(refused.reason.clone());
        let whose = match refused.about {
            Some(region) if region != me => format!("changes of region {region}"),
            _ => "this server's changes".to_owned(),
        };
        all.push(format!("region {by} refuses {whose}: {}", refused.reason));
    }
    // The peer may have said the same in reply to the link's introduction.
    let is_new = |link: &&PeerReport| !reasons.iter().any(|reason| link.error.ends_with(reason));
    let refused = links.iter().filter(|link| link.refused.is_some()).filter(is_new);
    all.extend(refused.map(|link| format!("peer {}: {}", link.address(), link.error)));
    if ahead_ms > ahead_ms_max {
        all.push(format!(
            "this server's changes are stamped {ahead_ms} ms ahead of its clock: peers that allow less refuse \
             them until then"
        ));
    }
    all.join("; ")
}

/// The report; `None` if the server is not in active mode.
pub fn active_report(engine: &Engine) -> Option<ActiveReport> {
    let active = state::of(engine)?;
    let (figures, me) = (&active.figures, active.me.lock().clone());
    let (backlog_bytes, backlog_disk_bytes, applied) = {
        let outbox = active.outbox.lock();
        (outbox.backlog.bytes(), outbox.disk.bytes(), super::codec::vector_text(&outbox.applied))
    };
    let peers = active.peers.lock().clone();
    let now_ms = unix_ms();
    let peers = peers.iter().map(|peer| {
        let status = peer.status.lock().clone();
        let region = status.region.and_then(Region::new);
        let behind = region.and_then(|region| active.outbox.lock().behind(region, now_ms));
        PeerReport {
            behind: behind.map(|behind| (behind.ms, behind.bytes)),
            host: peer.host.clone(),
            port: peer.port,
            is_up: peer.is_up.load(Relaxed),
            region: status.region,
            lag_ms: peer.lag_ms.load(Relaxed),
            units: peer.units.load(Relaxed),
            bytes: peer.bytes.load(Relaxed),
            error: status.error,
            refused: status.refused.and_then(|refused| refused.about),
            is_foreign: status.is_foreign,
        }
    });
    let peers: Vec<PeerReport> = peers.collect();
    let clock_ahead_ms = figures.clock_ahead_ms.load(Relaxed);
    let ahead = (clock_ahead_ms, engine.config.active_clock_ahead_max_ms());
    let links_refused = peers.iter().filter(|peer| peer.refused == Some(me.region)).count();
    let (told, (refuse, take)) = {
        let refusals = active.refusals.lock();
        (refusals.count(me.region), refusals.in_contact(me.region, now_ms))
    };
    Some(ActiveReport {
        region: me.region,
        identity: me.identity,
        members: me.members.keys().copied().collect(),
        own: figures.own.load(Relaxed),
        merged: figures.merged.load(Relaxed),
        known: figures.known.load(Relaxed),
        sent: figures.sent.load(Relaxed),
        sent_bytes: figures.sent_bytes.load(Relaxed),
        sent_from_disk: figures.sent_from_disk.load(Relaxed),
        copies_sent: figures.copies_sent.load(Relaxed),
        copies_merged: figures.copies_merged.load(Relaxed),
        copy_left_percent: figures.copy_left_percent.load(Relaxed),
        results: figures.results.load(Relaxed),
        type_conflicts: figures.type_conflicts.load(Relaxed),
        conflicts: Kind::ALL
            .into_iter()
            .map(|kind| (kind.name(), figures.conflicts[kind as usize].load(Relaxed)))
            .collect(),
        throttled: figures.throttled.load(Relaxed),
        tombstones: figures.tombstones.load(Relaxed),
        evicted: figures.evicted.load(Relaxed),
        shared: figures.shared.load(Relaxed),
        backlog_bytes,
        backlog_disk_bytes,
        applied,
        log_bytes: figures.log_bytes.load(Relaxed),
        log_unwritten_bytes: figures.log_unwritten_bytes.load(Relaxed),
        clock_ahead_ms,
        last_error: last_error(active, me.region, &peers, ahead),
        files_ok: active.last_error.lock().is_empty(),
        refused_by: told.max(links_refused),
        is_isolated: refuse + links_refused > 0 && take == 0,
        peers,
    })
}
