// SPDX-License-Identifier: BSD-3-Clause
//! The peers that this server pulls from: `active-peers`, and REPLICAOF in active mode.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::Mutex;

use super::link;
use super::state::{PeerLink, parse_peers};
use crate::engine::Engine;
use crate::replication::FOR_ACTIVE;

impl Engine {
    /// The region number used in stream IDs, in active mode.
    #[inline]
    pub fn active_region(&self) -> Option<u8> {
        self.active.as_ref().map(|active| active.me.lock().region)
    }

    /// True while a peer's full copy is being merged. The copy was computed for the current
    /// replicas.
    pub fn merges_copy(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.merges_copy.load(SeqCst))
    }

    /// Starts reading the journal for active-active replication, from the first change on.
    /// Nothing has been loaded yet, and no loop runs.
    pub(crate) fn begin_active(&self) {
        let Some(active) = &self.active else { return };
        self.keyspace.settings.tells_losses.store(true, Relaxed);
        self.set_journal_use(FOR_ACTIVE, true);
        *active.reader.lock() = Some(self.keyspace.journal.reader());
    }

    /// The configured peers: `active-peers`, and the configuration file's `replicaof`.
    fn wanted_peers(&self) -> Vec<(String, u16)> {
        // The directive was validated when it was set.
        let mut peers = parse_peers(&self.config.active_peers()).unwrap_or_default();
        if let Some(address) = self.config.replicaof() {
            let address = (address.host.clone(), address.port);
            if !peers.contains(&address) {
                peers.push(address);
            }
        }
        peers
    }

    /// Starts links to new peers and ends links to removed ones.
    pub(crate) fn apply_peers(&self) -> Result<(), String> {
        parse_peers(&self.config.active_peers())?;
        let Some(active) = &self.active else { return Ok(()) };
        if !active.is_ready.load(Relaxed) {
            return Ok(());
        }
        let wanted = self.wanted_peers();
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
                told: Mutex::default(),
            });
            link::start(self, &peer)
                .map_err(|error| format!("cannot start the thread of a peer: {error}"))?;
            peers.push(peer);
        }
        Ok(())
    }

    /// REPLICAOF in active mode: adds a peer with `multi-master`, otherwise replaces all peers.
    pub fn add_active_peer(&self, host: &str, port: u16) -> Result<(), String> {
        let mut text = match self.config.multi_master() {
            true => self.config.active_peers().to_string(),
            false => String::new(),
        };
        if self.config.multi_master() && self.wanted_peers().contains(&(host.to_owned(), port)) {
            return Ok(());
        }
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&format!("{host}:{port}"));
        if !self.config.multi_master() {
            self.config.assign("replicaof", &["no", "one"])?;
        }
        self.set_active_peers(&text)
    }

    /// REPLICAOF NO ONE in active mode: removes all peers.
    pub fn remove_active_peers(&self) -> Result<(), String> {
        self.config.assign("replicaof", &["no", "one"])?;
        self.set_active_peers("")
    }

    fn set_active_peers(&self, text: &str) -> Result<(), String> {
        parse_peers(text)?;
        self.config.assign("active-peers", &[text])?;
        self.apply_peers()
    }
}
