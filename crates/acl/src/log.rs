// SPDX-License-Identifier: BSD-3-Clause
//! ACL LOG: denied requests and log-ins. Similar events within a minute form one entry.

use std::collections::VecDeque;

pub use braid_clients::Reason;
use parking_lot::Mutex;

use crate::denied::Denied;

/// Origin of a denied command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    TopLevel,
    Transaction,
    Script,
}

impl Origin {
    /// Name in ACL LOG.
    pub const fn name(self) -> &'static str {
        match self {
            Origin::TopLevel => "toplevel",
            Origin::Transaction => "multi",
            Origin::Script => "lua",
        }
    }
}

impl From<Denied> for Reason {
    fn from(denied: Denied) -> Reason {
        match denied {
            Denied::Database(_) => Reason::Database,
            Denied::Command => Reason::Command,
            Denied::Key(_) => Reason::Key,
            Denied::Channel(_) => Reason::Channel,
        }
    }
}

/// A denial.
#[derive(Clone, Debug)]
pub struct Event {
    pub reason: Reason,
    pub origin: Origin,
    /// The command, key, channel or database.
    pub object: Vec<u8>,
    pub user: Vec<u8>,
    /// Description of the client, as in CLIENT LIST.
    pub client: Vec<u8>,
}

/// Similar events.
#[derive(Clone, Debug)]
pub struct Entry {
    pub id: u64,
    pub count: u64,
    /// Times of the first and the last event, ms since the Unix epoch.
    pub created_ms: i64,
    pub updated_ms: i64,
    /// The last event.
    pub event: Event,
}

/// The log; newest first.
#[derive(Default)]
pub struct AclLog {
    inner: Mutex<(u64, VecDeque<Entry>)>,
}

/// Events further apart than this become separate entries, in ms.
const GROUPING_MS: i64 = 60_000;
/// Number of newest entries searched for a similar one.
const LOOK_BACK: usize = 10;

impl AclLog {
    /// Adds an event and drops the oldest entries beyond `len_max`.
    pub fn push(&self, event: Event, now_ms: i64, len_max: usize) {
        let mut inner = self.inner.lock();
        let alike = |entry: &Entry| {
            let other = &entry.event;
            other.reason == event.reason
                && other.origin == event.origin
                && other.object == event.object
                && other.user == event.user
                && now_ms.abs_diff(entry.updated_ms) <= GROUPING_MS as u64
        };
        let known = inner.1.iter().take(LOOK_BACK).position(alike).and_then(|at| inner.1.remove(at));
        let entry = match known {
            Some(entry) => Entry { count: entry.count + 1, updated_ms: now_ms, event, ..entry },
            None => {
                let id = inner.0;
                inner.0 += 1;
                Entry { id, count: 1, created_ms: now_ms, updated_ms: now_ms, event }
            }
        };
        inner.1.push_front(entry);
        inner.1.truncate(len_max);
    }

    /// The newest `count` entries.
    pub fn latest(&self, count: usize) -> Vec<Entry> {
        self.inner.lock().1.iter().take(count).cloned().collect()
    }

    /// Drops all entries; ids continue.
    pub fn clear(&self) {
        self.inner.lock().1.clear();
    }
}
