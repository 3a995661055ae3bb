// SPDX-License-Identifier: BSD-3-Clause
//! User identity, as stored in a client's record, with counters of denials.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};

use braid_base::budget::Budget;
use parking_lot::Mutex;

/// The user of unauthenticated connections.
pub const DEFAULT_USER: &[u8] = b"default";

/// Kind of denial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    Command,
    Key,
    Channel,
    Database,
    Authentication,
    /// The certificate of a TLS client names no user.
    Certificate,
}

impl Reason {
    /// All kinds, by number.
    pub const ALL: [Reason; 6] = [
        Reason::Command,
        Reason::Key,
        Reason::Channel,
        Reason::Database,
        Reason::Authentication,
        Reason::Certificate,
    ];

    /// Name in ACL LOG.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Database => "database",
            Reason::Authentication => "auth",
            Reason::Certificate => "tls-cert",
        }
    }
}

/// What all clients of a user have used of its limits, if it has any.
#[derive(Default, Debug)]
pub struct Budgets {
    pub commands: Budget,
    pub input: Budget,
    pub output: Budget,
    /// Processor time, in ns.
    pub time: Budget,
}

/// The immutable part of a user. A user that is deleted and created again gets a new identity.
#[derive(Debug)]
pub struct Identity {
    pub number: u64,
    pub name: Box<[u8]>,
    /// Denied requests and log-ins by [`Reason`]. Stored with the user, so their number is bounded.
    denied: [AtomicU64; Reason::ALL.len()],
    pub budgets: Budgets,
    pub memory: Memory,
    /// Requests and connections refused for limits.
    pub limited: AtomicU64,
    /// Requests that waited instead.
    pub delayed: AtomicU64,
    /// Nanoseconds that background threads have worked for the user's clients and that its budget
    /// has not been charged with, if it has a limit of time.
    worked: AtomicU64,
    counts_work: AtomicBool,
    /// Connections logged in as this user.
    connections: AtomicU64,
}

/// The memory of a user's keys, as of a moment.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    pub bytes: u64,
    /// [`Memory::added`] of that moment.
    pub added: u64,
}

/// How often memory is measured at most, ms.
const INTERVAL_MS: i64 = 1000;

/// What is known of the memory of a user's keys. It is measured only if the user has a limit.
#[derive(Default, Debug)]
pub struct Memory {
    measured: Mutex<Option<Measured>>,
    /// Bytes of the user's requests that may have taken memory.
    added: AtomicU64,
    is_busy: AtomicBool,
    /// When it may be measured again, ms since the Unix epoch.
    due_ms: AtomicI64,
}

impl Memory {
    /// Adds a request that may take memory.
    pub fn add(&self, bytes: u64) {
        self.added.fetch_add(bytes, Relaxed);
    }

    /// What has been added so far.
    pub fn added(&self) -> u64 {
        self.added.load(Relaxed)
    }

    /// The keys' memory, if what has been added since it was measured became memory.
    pub fn used(&self) -> u64 {
        let Measured { bytes, added } = self.measured.lock().unwrap_or(Measured { bytes: 0, added: 0 });
        bytes.saturating_add(self.added().saturating_sub(added))
    }

    /// The keys' memory when it was last measured.
    pub fn measured(&self) -> Option<u64> {
        self.measured.lock().map(|measured| measured.bytes)
    }

    /// Whether the caller is to measure it now; [`Memory::end`] or [`Memory::abandon`] must follow.
    pub fn begin(&self, now_ms: i64) -> bool {
        now_ms >= self.due_ms.load(Relaxed) && !self.is_busy.swap(true, Acquire)
    }

    pub fn end(&self, measured: Measured, now_ms: i64) {
        *self.measured.lock() = Some(measured);
        self.due_ms.store(now_ms + INTERVAL_MS, Relaxed);
        self.abandon();
    }

    pub fn abandon(&self) {
        self.is_busy.store(false, Release);
    }
}

/// A connection that is logged in as a user, as long as this exists.
#[derive(Debug)]
pub struct Presence(Arc<Identity>);

impl Presence {
    pub fn of(user: &Arc<Identity>) -> Presence {
        user.connections.fetch_add(1, Relaxed);
        Presence(Arc::clone(user))
    }

    pub fn user(&self) -> &Identity {
        &self.0
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Identity) -> bool {
        self.number == other.number && self.name == other.name
    }
}

impl Eq for Identity {}

impl Identity {
    /// A new identity with zeroed counters.
    pub fn new(number: u64, name: &[u8]) -> Identity {
        Identity {
            number,
            name: name.into(),
            denied: Default::default(),
            budgets: Budgets::default(),
            memory: Memory::default(),
            limited: AtomicU64::new(0),
            delayed: AtomicU64::new(0),
            worked: AtomicU64::new(0),
            counts_work: AtomicBool::new(false),
            connections: AtomicU64::new(0),
        }
    }

    /// Counts a denial.
    pub fn count_denied(&self, reason: Reason) {
        self.denied[reason as usize].fetch_add(1, Relaxed);
    }

    /// Denials for a reason since the user was created or CONFIG RESETSTAT was called.
    pub fn denied(&self, reason: Reason) -> u64 {
        self.denied[reason as usize].load(Relaxed)
    }

    /// Begins or ends to count the work of background threads.
    pub fn count_work(&self, counts: bool) {
        self.counts_work.store(counts, Relaxed);
        if !counts {
            self.worked.store(0, Relaxed);
        }
    }

    /// Notes that a background thread has worked for one of the user's clients.
    pub fn note_work(&self, nanos: u64) {
        if self.counts_work.load(Relaxed) {
            self.worked.fetch_add(nanos, Relaxed);
        }
    }

    /// Takes what background threads have worked since the last call.
    pub fn take_work(&self) -> u64 {
        if self.worked.load(Relaxed) == 0 { 0 } else { self.worked.swap(0, Relaxed) }
    }

    /// Connections that are logged in as this user.
    pub fn connections(&self) -> u64 {
        self.connections.load(Relaxed)
    }

    /// Resets the counters.
    pub fn reset_denied(&self) {
        self.denied.iter().chain([&self.limited, &self.delayed]).for_each(|count| count.store(0, Relaxed));
    }
}
