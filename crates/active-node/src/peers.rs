// SPDX-License-Identifier: BSD-3-Clause
//! The peers that this server pulls from: `active-peers`, and REPLICAOF in active mode.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

use braid_executor::engine::Engine;
use braid_executor::journal_uses::{self, FOR_ACTIVE};
use parking_lot::Mutex;

use super::link;
use super::state::{PeerLink, parse_peers};
use crate::state;

/// Starts reading the journal for active-active replication, from the first change on.
/// Nothing has been loaded yet, and no loop runs.
pub fn begin_active(engine: &Engine) {
    let Some(active) = state::of(engine) else { return };
    engine.keyspace.settings.tells_losses.store(true, Relaxed);
    journal_uses::set_journal_use(engine, FOR_ACTIVE, true);
    *active.reader.lock() = Some(engine.keyspace.journal.reader());
}

/// The configured peers: `active-peers`, and the configuration file's `replicaof`.
fn wanted_peers(engine: &Engine) -> Vec<(String, u16)> {
    // The directive was validated when it was set.
    let mut peers = parse_peers(&engine.config.active_peers()).unwrap_or_default();
    if let Some(address) = engine.config.replicaof() {
        let address = (address.host.clone(), address.port);
        if !peers.contains(&address) {
            peers.push(address);
        }
    }
    peers
}

/// Starts links to new peers and ends links to removed ones.
///
/// # Errors
/// If a peer's address is invalid, or the thread of a link cannot be started.
pub fn apply_peers(engine: &Engine) -> Result<(), String> {
    parse_peers(&engine.config.active_peers())?;
    let Some(active) = state::of(engine) else { return Ok(()) };
    if !active.is_ready.load(Relaxed) {
        return Ok(());
    }
    let wanted = wanted_peers(engine);
    let mut peers = active.peers.lock();
    peers.retain(|peer| {
        let stays = wanted.iter().any(|(host, port)| peer.host == *host && peer.port == *port);
        peer.is_wanted.store(stays, Relaxed);
        stays
    });
    for (host, port) in wanted {
        if peers.iter().any(|peer| peer.host == host && peer.port == port) {
            continue;
        }
        let peer = Arc::new(PeerLink {
            host,
            port,
            is_wanted: AtomicBool::new(true),
            is_up: AtomicBool::new(false),
            lag_ms: AtomicU64::new(0),
            units: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            status: Mutex::default(),
        });
        link::start(engine, &peer).map_err(|error| format!("cannot start the thread of a peer: {error}"))?;
        peers.push(peer);
    }
    Ok(())
}

/// REPLICAOF in active mode: adds a peer with `multi-master`, otherwise replaces all peers.
///
/// # Errors
/// If the address is invalid, or the thread of its link cannot be started.
pub fn add_active_peer(engine: &Engine, host: &str, port: u16) -> Result<(), String> {
    let mut text = match engine.config.multi_master() {
        true => engine.config.active_peers().to_string(),
        false => String::new(),
    };
    if engine.config.multi_master() && wanted_peers(engine).contains(&(host.to_owned(), port)) {
        return Ok(());
    }
    if !text.is_empty() {
        text.push(',');
    }
    text.push_str(&format!("{host}:{port}"));
    if !engine.config.multi_master() {
        engine.config.assign("replicaof", &["no", "one"])?;
    }
    set_active_peers(engine, &text)
}

/// REPLICAOF NO ONE in active mode: removes all peers.
///
/// # Errors
/// If the directives cannot be set.
pub fn remove_active_peers(engine: &Engine) -> Result<(), String> {
    engine.config.assign("replicaof", &["no", "one"])?;
    set_active_peers(engine, "")
}

fn set_active_peers(engine: &Engine, text: &str) -> Result<(), String> {
    parse_peers(text)?;
    engine.config.assign("active-peers", &[text])?;
    apply_peers(engine)
}
