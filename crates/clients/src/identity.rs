// SPDX-License-Identifier: BSD-3-Clause
//! The identity of a user: what a client's record keeps of it, and what was refused to it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The user of connections that have not logged in.
pub const DEFAULT_USER: &[u8] = b"default";

/// What kind of thing was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    Command,
    Key,
    Channel,
    Authentication,
}

impl Reason {
    /// All of them, in the order of their numbers.
    pub const ALL: [Reason; 4] = [Reason::Command, Reason::Key, Reason::Channel, Reason::Authentication];

    /// As ACL LOG has it.
    pub const fn name(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Authentication => "auth",
        }
    }
}

/// What never changes of a user. A user that is deleted and created again is another one.
#[derive(Debug)]
pub struct Identity {
    pub number: u64,
    pub name: Box<[u8]>,
    /// Requests and logins that were refused, by [`Reason`]. They go with the user, so there are
    /// never more of them than users.
    denied: [AtomicU64; Reason::ALL.len()],
}

impl PartialEq for Identity {
    fn eq(&self, other: &Identity) -> bool {
        self.number == other.number && self.name == other.name
    }
}

impl Eq for Identity {}

impl Identity {
    /// A new identity, with its counters at zero.
    pub fn new(number: u64, name: &[u8]) -> Identity {
        Identity { number, name: name.into(), denied: Default::default() }
    }

    /// Counts a refusal.
    pub fn count_denied(&self, reason: Reason) {
        self.denied[reason as usize].fetch_add(1, Relaxed);
    }

    /// Refusals for a reason since the user was created or CONFIG RESETSTAT.
    pub fn denied(&self, reason: Reason) -> u64 {
        self.denied[reason as usize].load(Relaxed)
    }

    /// Sets the counters to zero.
    pub fn reset_denied(&self) {
        self.denied.iter().for_each(|count| count.store(0, Relaxed));
    }
}
