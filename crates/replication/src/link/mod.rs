// SPDX-License-Identifier: BSD-3-Clause
//! The replica's side: the link to a primary.
//!
//! [`handshake`] introduces this server and requests the stream, [`payload`] frames a full sync,
//! [`units`] divides the stream into units. [`Link`] is the state that other threads see and
//! control: the wanted primary, the phase of the connection, the time of the last received bytes.
//! The thread that runs the link belongs to the engine (`replica/link.rs`).
//!
//! Roles change only while the world is stopped, so a thread that has stopped the world and finds
//! its [`Link::is_current`] true may apply the changes it has received.

pub mod handshake;
pub mod payload;
pub mod peer;
#[cfg(test)]
mod testing;
pub mod units;

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64};
use std::time::Duration;

use braid_base::clock::unix_ms;
use braid_net::outgoing::Hangup;
use parking_lot::{Condvar, Mutex};

use crate::blocks::BadBlock;

/// The address of a primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Primary {
    pub host: String,
    pub port: u16,
}

impl Primary {
    /// For a replica without a known primary: it connects to nothing.
    pub fn nowhere() -> Primary {
        Primary { host: String::new(), port: 0 }
    }
}

impl std::fmt::Display for Primary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// The phase of the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Phase {
    /// Disconnected; a connection attempt follows soon.
    Connect,
    Connecting,
    Handshake,
    /// A full sync is being received or loaded.
    Sync,
    Connected,
}

impl Phase {
    /// The name that ROLE shows.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Connect => "connect",
            Phase::Connecting => "connecting",
            Phase::Handshake => "handshake",
            Phase::Sync => "sync",
            Phase::Connected => "connected",
        }
    }
}

/// The wanted state of the link.
#[derive(Default)]
struct Target {
    primary: Option<Primary>,
    /// Counts changes of `primary`.
    generation: u64,
    /// The current connection.
    hangup: Option<Hangup>,
}

/// The state of the link. Any thread may read it.
#[derive(Default)]
pub struct Link {
    target: Mutex<Target>,
    changed: Condvar,
    generation: AtomicU64,
    is_replica: AtomicBool,
    phase: AtomicU8,
    /// When bytes were last received, ms since the Unix epoch.
    last_io_ms: AtomicI64,
    /// When the link left [`Phase::Connected`], ms since the Unix epoch; 0 if it has not been
    /// connected since this server became a replica.
    down_since_ms: AtomicI64,
    /// The engine's link thread is running.
    pub has_thread: AtomicBool,
    /// The last attempt was redirected to another replica for a full sync.
    pub tried_sibling: AtomicBool,
    /// Bytes of the stream that are received but not applied.
    pub unapplied: AtomicU64,
    /// Bytes received from primaries.
    pub received_bytes: AtomicU64,
    /// The database selected in the stream.
    pub db: AtomicU64,
    pub full_sync: Transfer,
}

/// Progress of a full sync.
#[derive(Default)]
pub struct Transfer {
    /// Bytes received.
    pub read: AtomicU64,
    /// Total bytes, if the primary has announced them; -1 otherwise.
    pub total: AtomicI64,
}

impl Link {
    /// Whether this server is a replica.
    #[inline]
    pub fn is_replica(&self) -> bool {
        self.is_replica.load(Relaxed)
    }

    /// The primary, if this server is a replica.
    pub fn primary(&self) -> Option<Primary> {
        self.target.lock().primary.clone()
    }

    /// Changes the role and ends the connection to the old primary. The caller has stopped the
    /// world.
    pub fn set_primary(&self, primary: Option<Primary>) {
        let mut target = self.target.lock();
        self.is_replica.store(primary.is_some(), Relaxed);
        let was_up = self.phase.swap(Phase::Connect as u8, Relaxed) == Phase::Connected as u8;
        if primary.is_none() {
            self.down_since_ms.store(0, Relaxed);
        } else if was_up {
            self.down_since_ms.store(unix_ms(), Relaxed);
        }
        target.primary = primary;
        target.generation += 1;
        self.generation.store(target.generation, Relaxed);
        if let Some(hangup) = target.hangup.take() {
            hangup.hang_up();
        }
        self.changed.notify_all();
    }

    /// Whether `generation` is current: the role has not changed since a thread read it.
    pub fn is_current(&self, generation: u64) -> bool {
        self.generation.load(Relaxed) == generation
    }

    /// Waits for a primary; returns it with the generation. `None` as soon as `is_over` holds.
    pub fn next_target(&self, is_over: impl Fn() -> bool) -> Option<(Primary, u64)> {
        let mut target = self.target.lock();
        loop {
            if is_over() {
                return None;
            }
            if let Some(primary) = target.primary.as_ref().filter(|primary| **primary != Primary::nowhere()) {
                return Some((primary.clone(), target.generation));
            }
            self.changed.wait_for(&mut target, Duration::from_secs(1));
        }
    }

    /// Waits for `duration`, or until the target changes.
    pub fn rest(&self, generation: u64, duration: Duration) {
        let mut target = self.target.lock();
        if target.generation == generation {
            self.changed.wait_for(&mut target, duration);
        }
    }

    /// Registers the connection, so that it can be closed. False if it is no longer wanted.
    pub fn set_hangup(&self, generation: u64, hangup: Hangup) -> bool {
        let mut target = self.target.lock();
        let is_current = target.generation == generation;
        if is_current {
            target.hangup = Some(hangup);
        }
        is_current
    }

    /// The phase of the link.
    pub fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            0 => Phase::Connect,
            1 => Phase::Connecting,
            2 => Phase::Handshake,
            3 => Phase::Sync,
            _ => Phase::Connected,
        }
    }

    /// Sets the phase, unless the target has changed since `generation`.
    pub fn set_phase(&self, generation: u64, phase: Phase) {
        let target = self.target.lock();
        if target.generation != generation {
            return;
        }
        let before = self.phase.swap(phase as u8, Relaxed);
        if before == Phase::Connected as u8 && phase != Phase::Connected {
            self.down_since_ms.store(unix_ms(), Relaxed);
        }
    }

    /// Whether changes of the primary are being received.
    pub fn is_up(&self) -> bool {
        self.phase() == Phase::Connected
    }

    /// Whether the primary has agreed to send its stream.
    pub fn is_accepted(&self) -> bool {
        matches!(self.phase(), Phase::Sync | Phase::Connected)
    }

    /// Counts received bytes.
    pub fn note_io(&self, bytes: usize) {
        self.received_bytes.fetch_add(bytes as u64, Relaxed);
        self.last_io_ms.store(unix_ms(), Relaxed);
    }

    /// When bytes were last received, ms since the Unix epoch.
    pub fn last_io_ms(&self) -> i64 {
        self.last_io_ms.load(Relaxed)
    }

    /// When the link was lost, ms since the Unix epoch; `None` if it was never up.
    pub fn down_since_ms(&self) -> Option<i64> {
        Some(self.down_since_ms.load(Relaxed)).filter(|since| *since != 0)
    }
}

/// Why a link ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The primary was silent for `repl-timeout`.
    #[error(
        "Timeout {0}... If the problem persists try to set the 'repl-timeout' parameter to a larger value."
    )]
    Timeout(&'static str),
    #[error("{0}")]
    Refused(String),
    /// The full sync has values that this server does not support, as the next one will.
    #[error("Failed trying to load the MASTER synchronization DB")]
    Unsupported,
    /// The stream is malformed and must not be resumed.
    #[error("Protocol error in the stream of the primary: {0}")]
    Protocol(String),
    /// Roles have changed, or the server is shutting down.
    #[error("the link is no longer needed")]
    CalledOff,
}

impl From<BadBlock> for LinkError {
    fn from(bad: BadBlock) -> LinkError {
        LinkError::Protocol(bad.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn role_change_invalidates_the_current_link() {
        let link = Link::default();
        assert!(!link.is_replica() && link.primary().is_none());
        assert!(link.next_target(|| true).is_none());
        let primary = Primary { host: "h".into(), port: 7 };
        link.set_primary(Some(primary.clone()));
        let (target, generation) = link.next_target(|| false).expect("a primary is set");
        assert!(target == primary && link.is_current(generation) && link.is_replica());
        link.set_phase(generation, Phase::Connected);
        assert!(link.is_up());
        assert_eq!(link.down_since_ms(), None, "the link was never lost");
        let other = Primary { host: "h".into(), port: 8 };
        link.set_primary(Some(other.clone()));
        assert!(!link.is_current(generation) && !link.is_up(), "the primary has changed");
        let since = link.down_since_ms();
        assert!(since.is_some(), "the link was up before");
        link.set_phase(generation, Phase::Connected);
        assert!(!link.is_up(), "an older generation cannot change the phase");
        assert_eq!(link.next_target(|| false).expect("a primary is set").0, other);
        link.set_primary(Some(primary));
        assert_eq!(link.down_since_ms(), since, "the link has not been up since");
        link.set_primary(None);
        assert!(!link.is_replica() && !link.is_up());
        assert_eq!(link.down_since_ms(), None);
    }
}
