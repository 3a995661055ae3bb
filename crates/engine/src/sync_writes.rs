// SPDX-License-Identifier: BSD-3-Clause
//! Synchronous writes: replies that wait until every in-sync member of the group has acknowledged
//! the data they may reveal, and the fence: whether this server may currently serve.
//!
//! The group decides which members are in the set, and until when this server may serve
//! ([`braid_replication::in_sync`]). The loops hold the replies
//! (`threading/event_loop/durable_replies.rs`); this file decides when they are released, and
//! asks the replicas, so that acknowledgements come soon.

pub mod state;

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use braid_base::clock::boot_nanos;
use braid_clients::attention::{FENCED, FEW_IN_SYNC, FORMER_PRIMARY};
use braid_config::{AppendFsync, Config, SyncLevel};
use braid_group::MemberId;
use braid_keyspace::Context;
use braid_replication::in_sync::QUESTION_LEN;
use braid_replication::{Replica, Stage};

use crate::engine::Engine;
use crate::replication::FOR_REPLICAS;
use state::{LastWrite, MemberWait, NOT_KNOWN, Revealed, Settled, WAITS_FOR_MEMBERS};

/// Interval of checking whether the members have acknowledged.
const LOOK: Duration = Duration::from_micros(200);

/// Error sent instead of all replies of a batch whose outcome is unknown.
pub const UNCERTAIN: &str =
    "UNCERTAIN The outcome is unknown: not every in-sync replica has acknowledged in time.";

/// Error of a server outside of any group.
pub const NO_GROUP: &str = "ERR Synchronous writes need a group: this server is not in one";

const NANOS_PER_MS: u64 = 1_000_000;

impl Engine {
    /// True if this server is in a group.
    pub fn has_group(&self) -> bool {
        self.group.is_some() || self.sync_writes.is_debugged.load(Relaxed)
    }

    /// For tests: DEBUG IN-SYNC stands in for a group.
    pub fn debug_sync_writes(&self) {
        self.sync_writes.is_debugged.store(true, Relaxed);
        self.apply_sync_writes();
    }

    /// Records that a client has requested durable replies.
    pub fn note_durable_client(&self) {
        self.sync_writes.has_durable.store(true, Relaxed);
        self.apply_sync_writes();
    }

    /// Disconnects clients that connected while this server was the primary, once they have had
    /// time to learn of the change. Called by the group's thread from time to time.
    pub(crate) fn tend_former_clients(&self) {
        if self.attention.get() & FORMER_PRIMARY == 0 || !self.sync_writes.former.must_go() {
            return;
        }
        let all = self.clients.registry.all();
        let former: Vec<_> = all.iter().filter(|record| self.sync_writes.came_to_primary(record)).collect();
        for record in &former {
            self.clients.registry.disconnect(record);
        }
        if former.is_empty() {
            self.attention.set(FORMER_PRIMARY, false);
        }
    }

    /// Applies the settings, the set and the right to serve, and makes loops check again.
    pub(crate) fn apply_sync_writes(&self) {
        let (config, sync, set) = (&self.config, &self.sync_writes, &self.replication.in_sync);
        let has_group = self.has_group();
        let is_default = has_group && config.sync_writes();
        sync.is_default.store(is_default, Relaxed);
        // Also while no member is required, or this server is no longer primary: replies to earlier
        // commands must be distinguished from later ones.
        let any_waits = has_group && (is_default || sync.has_durable.load(Relaxed));
        sync.set_reason(WAITS_FOR_MEMBERS, any_waits);
        set.set_minimum(config.min_sync_replicas() as usize, self.keyspace.journal.end());
        self.note_small_set(any_waits && set.is_small());
        self.sync_writes.ring_holders(&self.clients.mailboxes, None);
    }

    /// Refuses synchronous writes while the in-sync set is too small, or ends that.
    fn note_small_set(&self, is_small: bool) {
        let mut last_write = self.sync_writes.last_write.lock();
        if !is_small {
            self.attention.set(FEW_IN_SYNC, false);
            *last_write = LastWrite::Ahead { epoch: None };
        } else if *last_write == (LastWrite::Ahead { epoch: None }) {
            self.attention.set(FEW_IN_SYNC, true);
            // Until then a thread may still be executing a write that it found permitted.
            *last_write = LastWrite::Ahead { epoch: Some(self.keyspace.gate.epoch() + 2) };
        }
    }

    /// A client writes although the in-sync set is too small: it does not wait, or its command has
    /// waited since before. Called before the write is executed, or before its reply is sent.
    #[cold]
    pub fn note_write_in_small_set(&self) {
        let mut last_write = self.sync_writes.last_write.lock();
        if *last_write != (LastWrite::Ahead { epoch: None }) {
            *last_write = LastWrite::Ahead { epoch: Some(self.keyspace.gate.epoch() + 2) };
        }
    }

    /// While the in-sync set is too small: the offset in the journal beyond which no client has
    /// written; `u64::MAX` if that is not known yet. What follows it are keys that have expired or
    /// been evicted, which no replica needs to have.
    fn last_write_in_small_set(&self) -> u64 {
        let mut last_write = self.sync_writes.last_write.lock();
        match *last_write {
            LastWrite::Before(offset) => offset,
            LastWrite::Ahead { epoch } => {
                if epoch.is_none_or(|epoch| self.keyspace.gate.try_advance() < epoch) {
                    return u64::MAX;
                }
                let offset = self.replication.in_sync.without_asides(self.keyspace.journal.end());
                *last_write = LastWrite::Before(offset);
                offset
            }
        }
    }

    /// Checks that the settings of synchronous writes are consistent and can be applied.
    pub(crate) fn check_sync_writes(&self, config: &Config) -> Result<(), String> {
        if config.sync_writes() && !self.has_group() {
            return Err("sync-writes needs a group: this server is not in one".into());
        }
        if config.sync_level() == SyncLevel::Disk && !config.appendonly() {
            return Err("sync-level disk needs appendonly yes".into());
        }
        if config.sync_level() == SyncLevel::Disk && config.appendfsync() == AppendFsync::No {
            return Err("sync-level disk needs appendfsync always or everysec".into());
        }
        Ok(())
    }

    /// What replies wait for: the configured level, but in a group memory is enough only if the
    /// record says so.
    pub(crate) fn sync_level(&self) -> SyncLevel {
        if self.replication.in_sync.needs_disk() { SyncLevel::Disk } else { self.config.sync_level() }
    }

    /// [`FENCED`] if this server may not serve now, else 0. Called for each batch, after its
    /// requests have been received; costs one load without a group.
    #[inline]
    pub fn fence(&self) -> u64 {
        let set = &self.replication.in_sync;
        if !set.is_fenced() || set.may_serve(boot_nanos()) { 0 } else { FENCED }
    }

    /// Required members for which a reply has been waiting for longer than `sync-timeout`, at `now`
    /// (nanoseconds of CLOCK_BOOTTIME).
    pub fn slow_members(&self, now: u64) -> Vec<MemberId> {
        let timeout = u64::from(self.config.sync_timeout_ms()) * NANOS_PER_MS;
        self.replication.in_sync.slow_members(self.sync_level(), now, timeout)
    }

    /// Handles a replica's acknowledgement of a journal offset: if the replica is a member of the
    /// group, replies may be released, and the replicas asked for more.
    pub(crate) fn note_member(
        &self,
        replica: &Arc<Replica>,
        offset: u64,
        on_disk: Option<u64>,
        context: &mut Context,
    ) {
        let Some((member, epoch)) = &replica.options.member else { return };
        // An offset beyond the journal's end, or acknowledged before the full sync has been sent,
        // does not belong to this history.
        if replica.stage() != Stage::Online || offset > self.keyspace.journal.end() {
            return;
        }
        let on_disk = on_disk.map(|on_disk| on_disk.min(offset));
        if self.replication.in_sync.note(member, *epoch, offset, on_disk) {
            // The caller's loop checks before it sleeps.
            self.sync_writes.ring_holders(&self.clients.mailboxes, Some(context.slot));
        }
        if !context.outside && self.must_ask_members() {
            self.ask_members(context);
        }
    }

    /// True if the caller must ask the replicas ([`Engine::ask_members`]): a reply waits for more
    /// than has been asked for.
    pub fn must_ask_members(&self) -> bool {
        self.replication.in_sync.must_ask(self.sync_level(), boot_nanos())
    }

    /// Asks the replicas, if [`Engine::must_ask_members`] requires it. Inside of the gate.
    pub fn ask_members(&self, context: &mut Context) {
        if !self.append_question(context) {
            self.replication.in_sync.not_asked();
        }
    }

    /// Asks the replicas, and records when. False if there are none to ask. Inside of the gate.
    pub fn append_question(&self, context: &mut Context) -> bool {
        if !self.journals_for(FOR_REPLICAS) {
            return false;
        }
        let (journal, nanos) = (&self.keyspace.journal, boot_nanos());
        let question: &[&[u8]] = &[b"REPLCONF", b"GETACK", b"*"];
        let range = journal.append_aside(context.slot, &mut context.journal, question);
        debug_assert_eq!(range.end - range.start, QUESTION_LEN);
        self.replication.in_sync.asked(range.end, nanos);
        // Before checking which loops are asleep: a sleeping loop must not delay the question.
        self.replication.asked_at.store(range.end, SeqCst);
        self.tell_news(context);
        true
    }

    /// Waits, for at most `patience`, until the in-sync members have all changes made so far. For
    /// a thread that changes many keys in the background: its lead over the members adds to the
    /// wait of clients' replies. Outside of the gate.
    pub(crate) fn wait_for_members(&self, patience: Duration) {
        let (set, began) = (&self.replication.in_sync, Instant::now());
        let offset = set.without_asides(self.keyspace.journal.end());
        set.want(offset);
        while !set.covers(SyncLevel::Memory, offset) && began.elapsed() < patience {
            if self.must_ask_members() {
                let mut worker = self.worker(0);
                let _world = self.keyspace.gate.close(None);
                self.ask_members(&mut worker.context);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// What a reply to the commands executed so far may reveal. `for_members`: the client waits
    /// for members.
    pub fn revealed(&self, for_members: bool, losses: u64) -> Revealed {
        let (offset, set) = (self.keyspace.journal.end(), &self.replication.in_sync);
        let members = for_members.then(|| {
            let offset = set.without_asides(offset);
            let written = if set.is_small() { offset.min(self.last_write_in_small_set()) } else { offset };
            MemberWait { offset, written, since: boot_nanos(), losses }
        });
        Revealed { offset, members }
    }

    /// What held replies reveal, now that it is known.
    pub fn revealed_by_now(&self, before: &Revealed) -> Revealed {
        let Some(wait) = before.members else { return *before };
        let now = self.revealed(true, wait.losses);
        let members = now.members.map(|members| MemberWait { since: wait.since, ..members });
        Revealed { members, ..now }
    }

    /// Whether replies that reveal this may be sent, or why not; `None` if they must wait.
    pub fn outcome_of(&self, revealed: &Revealed) -> Option<Settled> {
        match (self.progress_on_disk(revealed.offset), revealed.members) {
            (Some(false), _) => Some(Settled::DiskFailed),
            (Some(true), None) => Some(Settled::Yes),
            (None, None) => None,
            (on_disk, Some(wait)) => self.member_outcome(revealed, wait, on_disk.is_some()),
        }
    }

    fn member_outcome(&self, revealed: &Revealed, wait: MemberWait, on_disk: bool) -> Option<Settled> {
        let (set, level) = (&self.replication.in_sync, self.sync_level());
        // Checked first: without a set nothing is left to wait for.
        if set.losses() != wait.losses {
            return Some(Settled::Uncertain);
        }
        let is_written = on_disk && (level == SyncLevel::Memory || self.is_in_own_file(revealed.offset));
        // The members that are left may be too few, and may even be none.
        let is_acknowledged =
            is_written && set.covers(level, wait.offset) && set.confirms(level, wait.written);
        if is_acknowledged && !set.is_fenced() {
            return Some(Settled::Yes);
        }
        let now = boot_nanos();
        if is_acknowledged && set.may_serve(now) && set.losses() == wait.losses {
            return Some(Settled::Yes);
        }
        let waited = now.saturating_sub(wait.since);
        let timeout = u64::from(self.config.sync_timeout_ms()) * NANOS_PER_MS;
        if waited > timeout && wait.offset != NOT_KNOWN && !set.covers(level, wait.offset) {
            set.note_late(wait.offset, wait.since);
        }
        (waited > self.give_up_ms() * NANOS_PER_MS).then_some(Settled::Uncertain)
    }

    /// Milliseconds after which the outcome of a waiting reply is given up: by then a slow member
    /// has had the time to leave the set.
    fn give_up_ms(&self) -> u64 {
        u64::from(self.config.sync_timeout_ms()) + u64::from(self.config.lease_time_ms())
    }

    fn is_in_own_file(&self, offset: u64) -> bool {
        // A server that is not the primary of a group waits for no member.
        self.replication.in_sync.size() == 0 || self.append_only.synced() >= offset
    }

    /// Rings a loop's bell once when [`Engine::outcome_of`] may have changed, and requests what
    /// is missing. Earlier changes are not reported.
    pub fn ask_for_progress(&self, slot: usize, revealed: &Revealed) {
        let is_disk = self.sync_level() == SyncLevel::Disk;
        if let Some(wait) = revealed.members {
            let mut loops = self.sync_writes.loops.lock();
            if !loops.contains(&slot) {
                loops.push(slot);
            }
            drop(loops);
            if wait.offset != NOT_KNOWN {
                self.replication.in_sync.want(wait.offset);
            }
        }
        if revealed.members.is_none() || is_disk || self.sync_writes.waits_for_disk() {
            self.ask_for_disk(slot, revealed.offset);
        }
    }

    /// Milliseconds after which a held reply is checked again without any news.
    pub fn hold_patience_ms(&self, wait: &MemberWait) -> i64 {
        if self.sync_level() == SyncLevel::Disk {
            // Replicas do not report when they have synced: they are asked repeatedly.
            return 1;
        }
        let waited = boot_nanos().saturating_sub(wait.since) / NANOS_PER_MS;
        let timeout = u64::from(self.config.sync_timeout_ms());
        let next = if waited <= timeout { timeout } else { self.give_up_ms() };
        // A question may be lost with its connection.
        i64::try_from(next.saturating_sub(waited)).unwrap_or(i64::MAX).clamp(0, 100) + 1
    }
}
