// SPDX-License-Identifier: BSD-3-Clause
//! State of synchronous writes.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};

use parking_lot::Mutex;

/// Replies wait for the disk (`appendfsync always`).
pub const WAITS_FOR_DISK: u8 = 1;
/// Replies to some clients may wait for the members of the group's in-sync set.
pub const WAITS_FOR_MEMBERS: u8 = 2;

/// The lease time until the group says another one, in milliseconds.
const LEASE_MS: u64 = 2000;

/// What replies wait for, and which loops hold some.
pub struct SyncWrites {
    /// Reasons to hold replies back, as bits.
    reasons: AtomicU8,
    /// This server is in a group.
    pub(super) in_group: AtomicBool,
    /// A client has said CLIENT DURABLE ON.
    pub(super) has_durable: AtomicBool,
    /// Directive `sync-writes`, in a group.
    pub(super) is_default: AtomicBool,
    /// Milliseconds that a reply waits beyond `sync-timeout` before its outcome is given up.
    pub lease_ms: AtomicU64,
    /// Loops to ring when members have acknowledged more, or the right to serve has changed.
    pub(super) loops: Mutex<Vec<usize>>,
}

impl Default for SyncWrites {
    fn default() -> SyncWrites {
        SyncWrites {
            reasons: AtomicU8::new(0),
            in_group: AtomicBool::new(false),
            has_durable: AtomicBool::new(false),
            is_default: AtomicBool::new(false),
            lease_ms: AtomicU64::new(LEASE_MS),
            loops: Mutex::default(),
        }
    }
}

impl SyncWrites {
    /// The reasons to hold replies back, as bits; one look for each batch.
    #[inline]
    pub fn reasons(&self) -> u8 {
        self.reasons.load(Relaxed)
    }

    /// Sets or clears a reason.
    pub fn set_reason(&self, reason: u8, on: bool) {
        if on {
            self.reasons.fetch_or(reason, Relaxed);
        } else {
            self.reasons.fetch_and(!reason, Relaxed);
        }
    }

    /// Whether replies wait for members if their client has not said otherwise.
    #[inline]
    pub fn is_default(&self) -> bool {
        self.is_default.load(Relaxed)
    }
}

/// What a held reply may reveal.
#[derive(Clone, Copy, Debug)]
pub struct Revealed {
    /// The journal up to this offset.
    pub offset: u64,
    /// Set if members have to acknowledge it, too.
    pub members: Option<MemberWait>,
}

/// A wait for members.
#[derive(Clone, Copy, Debug)]
pub struct MemberWait {
    /// Where the last change ends: a question to replicas may stand behind it.
    pub offset: u64,
    /// Since when it waits, nanoseconds of CLOCK_BOOTTIME.
    pub since: u64,
    /// [`braid_replication::InSync::losses`] when the requests were executed.
    pub losses: u64,
}

/// How a wait has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settled {
    Yes,
    /// The append-only file cannot be written: the outcome of changes is uncertain.
    DiskFailed,
    /// Not every member has acknowledged in time, or this server is no longer primary: the outcome
    /// of everything is uncertain.
    Uncertain,
}
