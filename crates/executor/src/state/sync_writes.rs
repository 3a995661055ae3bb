// SPDX-License-Identifier: BSD-3-Clause
//! State of synchronous writes.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};

use braid_base::clock::boot_nanos;
use braid_base::gate::Gate;
use braid_clients::{ClientRecord, Mailboxes, client_flags};
use parking_lot::Mutex;

/// Replies wait for the disk (`appendfsync always`).
pub const WAITS_FOR_DISK: u8 = 1;
/// Replies to some clients may wait for the members of the group's in-sync set.
pub const WAITS_FOR_MEMBERS: u8 = 2;

/// How long clients of a former primary have to learn of the change by themselves.
const DEMOTED_CLIENTS_NANOS: u64 = 1_000_000_000;

/// An offset beyond everything that is acknowledged.
pub const NOT_KNOWN: u64 = u64::MAX - 1;

/// The conditions that replies wait for, and the loops that hold replies.
pub struct SyncWrites {
    /// Reasons to hold replies back, as bits.
    reasons: AtomicU8,
    /// DEBUG IN-SYNC stands in for a group.
    pub is_debugged: AtomicBool,
    /// A client has sent CLIENT DURABLE ON.
    pub has_durable: AtomicBool,
    /// Directive `sync-writes`, in a group.
    pub is_default: AtomicBool,
    /// Clients that connected while this server was the primary of its group.
    pub demoted: DemotedClients,
    /// Loops to ring when members have acknowledged more, or the right to serve has changed.
    pub loops: Mutex<Vec<usize>>,
    pub counts: Counts,
    /// While the in-sync set is too small: where the last write of a client is.
    pub last_write: Mutex<LastWrite>,
}

/// Where in the journal the last write of a client is, while the in-sync set is too small for
/// synchronous writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LastWrite {
    /// It may be yet to come until the gate reaches this epoch; `None`: the set is large enough.
    Ahead { epoch: Option<u64> },
    /// Before this offset.
    Before(u64),
}

/// Counters for INFO and the metrics. Only waiting replies and refused requests touch them.
#[derive(Default)]
pub struct Counts {
    /// Clients whose replies wait for the in-sync set now.
    pub waiting: AtomicU64,
    /// Waits that ended with the acknowledgement of the whole set.
    pub acknowledged: AtomicU64,
    /// Replies that were replaced by UNCERTAIN, or cut off.
    pub uncertain: AtomicU64,
    /// Writes refused because the in-sync set was too small.
    pub refused: AtomicU64,
    /// Commands refused because this server could not prove that it was the primary.
    pub fenced: AtomicU64,
}

impl Default for SyncWrites {
    fn default() -> SyncWrites {
        SyncWrites {
            reasons: AtomicU8::new(0),
            is_debugged: AtomicBool::new(false),
            has_durable: AtomicBool::new(false),
            is_default: AtomicBool::new(false),
            demoted: DemotedClients::default(),
            loops: Mutex::default(),
            counts: Counts::default(),
            last_write: Mutex::new(LastWrite::Ahead { epoch: None }),
        }
    }
}

impl SyncWrites {
    /// Called before a write that does not wait for the set, which is too small, or its reply.
    pub fn note_write_in_small_set(&self, gate: &Gate) {
        let mut last_write = self.last_write.lock();
        if *last_write != (LastWrite::Ahead { epoch: None }) {
            *last_write = LastWrite::Ahead { epoch: Some(gate.epoch() + 2) };
        }
    }

    /// The reasons to hold replies back, as bits; one load per batch.
    #[inline]
    pub fn reasons(&self) -> u8 {
        self.reasons.load(Relaxed)
    }

    /// True if replies wait until changes are on disk.
    #[inline]
    pub fn waits_for_disk(&self) -> bool {
        self.reasons() & WAITS_FOR_DISK != 0
    }

    /// True if replies to some clients may wait for the in-sync set.
    #[inline]
    pub fn waits_for_members(&self) -> bool {
        self.reasons() & WAITS_FOR_MEMBERS != 0
    }

    /// Sets or clears a reason.
    pub fn set_reason(&self, reason: u8, on: bool) {
        if on {
            self.reasons.fetch_or(reason, Relaxed);
        } else {
            self.reasons.fetch_and(!reason, Relaxed);
        }
    }

    /// True if a client's replies wait for the in-sync members. `durable`: its CLIENT DURABLE
    /// setting.
    #[inline]
    pub fn holds_for(&self, durable: Option<bool>) -> bool {
        durable.unwrap_or_else(|| self.is_default())
    }

    /// True if a client connected while this server was the primary of its group, which it no
    /// longer is.
    pub fn came_to_primary(&self, record: &ClientRecord) -> bool {
        self.demoted.has(record.id) && !record.has(client_flags::REPLICA)
    }

    /// Rings the loops that hold replies for members, except the caller's own.
    pub fn ring_holders(&self, mailboxes: &Mailboxes, own: Option<usize>) {
        let loops = std::mem::take(&mut *self.loops.lock());
        for slot in loops.into_iter().filter(|&slot| own != Some(slot)) {
            mailboxes[slot].ring();
        }
    }

    /// True if replies wait for members unless their client says otherwise.
    #[inline]
    pub fn is_default(&self) -> bool {
        self.is_default.load(Relaxed)
    }
}

/// Clients that connected to a primary that is now a replica. For a while they are told so when
/// they ask for data; then they are disconnected.
#[derive(Default)]
pub struct DemotedClients {
    /// The highest of their IDs.
    last: AtomicU64,
    /// When the primary became a replica, nanoseconds of CLOCK_BOOTTIME.
    since: AtomicU64,
}

impl DemotedClients {
    pub fn begin(&self, last: u64) {
        self.since.store(boot_nanos(), Relaxed);
        self.last.store(last, Relaxed);
    }

    pub fn has(&self, id: u64) -> bool {
        id <= self.last.load(Relaxed)
    }

    /// True if their time is over.
    pub fn must_go(&self) -> bool {
        boot_nanos().saturating_sub(self.since.load(Relaxed)) > DEMOTED_CLIENTS_NANOS
    }
}

/// What a held reply may reveal.
#[derive(Clone, Copy, Debug)]
pub struct Revealed {
    /// The journal up to this offset.
    pub offset: u64,
    /// Set if members must acknowledge it, too.
    pub members: Option<MemberWait>,
}

impl Revealed {
    /// Marks the revealed data as not known yet: no acknowledgement is enough.
    pub fn not_known_yet(mut self) -> Revealed {
        if let Some(members) = &mut self.members {
            (members.offset, members.written) = (NOT_KNOWN, NOT_KNOWN);
        }
        self
    }
}

/// A wait for members.
#[derive(Clone, Copy, Debug)]
pub struct MemberWait {
    /// Where the last change ends: a question to replicas may follow it.
    pub offset: u64,
    /// Where the last change ends that `min-sync-replicas` replicas must have: not later than
    /// `offset`.
    pub written: u64,
    /// Start of the wait, nanoseconds of CLOCK_BOOTTIME.
    pub since: u64,
    /// [`braid_replication::InSync::losses`] when the requests were executed.
    pub losses: u64,
}

/// The outcome of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitOutcome {
    /// All that the reply reveals is on the disks and members that it must be on.
    Durable,
    /// The append-only file cannot be written: the outcome of changes is uncertain.
    DiskFailed,
    /// Not every member has acknowledged in time, or this server is no longer primary: the outcome
    /// of everything is uncertain.
    Uncertain,
}
