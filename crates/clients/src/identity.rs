// SPDX-License-Identifier: BSD-3-Clause
//! User identity, as stored in a client's record, with counters of denials.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::budget::Budget;

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
}

/// The immutable part of a user. A user that is deleted and created again gets a new identity.
#[derive(Debug)]
pub struct Identity {
    pub number: u64,
    pub name: Box<[u8]>,
    /// Denied requests and log-ins by [`Reason`]. Stored with the user, so their number is bounded.
    denied: [AtomicU64; Reason::ALL.len()],
    pub budgets: Budgets,
    /// Requests refused for these.
    pub limited: AtomicU64,
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
            limited: AtomicU64::new(0),
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

    /// Resets the counters.
    pub fn reset_denied(&self) {
        self.denied.iter().chain([&self.limited]).for_each(|count| count.store(0, Relaxed));
    }
}
