// SPDX-License-Identifier: BSD-3-Clause
//! Synchronous writes: replies that wait until every in-sync member of the group has acknowledged
//! the data they may reveal, and the fence: whether this server may currently serve.
//!
//! The group decides which members are in the set, and until when this server may serve
//! ([`braid_replication::in_sync`]). The loops hold the replies
//! (`threading/event_loop/durable_replies.rs`); this file decides when they are released, and
//! asks the replicas, so that acknowledgements come soon.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use braid_base::clock::boot_nanos;
use braid_clients::attention::{FENCED, FEW_IN_SYNC, FORMER_PRIMARY};
use braid_config::{AppendFsync, Config, SyncLevel};
use braid_durable::append_only;
use braid_executor::engine::Engine;
use braid_executor::state::sync_writes::{
    LastWrite, MemberWait, NOT_KNOWN, Revealed, WAITS_FOR_MEMBERS, WaitOutcome,
};
use braid_executor::tell_replicas;
use braid_executor::world;
use braid_group::MemberId;
use braid_keyspace::Context;
use braid_replication::{Replica, Stage};

/// Interval of checking whether the members have acknowledged.
const LOOK: Duration = Duration::from_micros(200);

/// Error sent instead of all replies of a batch whose outcome is unknown.
pub const UNCERTAIN: &str =
    "UNCERTAIN The outcome is unknown: not every in-sync replica has acknowledged in time.";

/// Error of a server outside of any group.
pub const NO_GROUP: &str = "ERR Synchronous writes need a group: this server is not in one";

const NANOS_PER_MS: u64 = 1_000_000;

/// True if this server is in a group.
pub fn has_group(engine: &Engine) -> bool {
    engine.group.is_some() || engine.sync_writes.is_debugged.load(Relaxed)
}

/// For tests: DEBUG IN-SYNC stands in for a group.
pub fn debug_sync_writes(engine: &Engine) {
    engine.sync_writes.is_debugged.store(true, Relaxed);
    apply_sync_writes(engine);
}

/// Records that a client has requested durable replies.
pub fn note_durable_client(engine: &Engine) {
    engine.sync_writes.has_durable.store(true, Relaxed);
    apply_sync_writes(engine);
}

/// Disconnects clients that connected while this server was the primary, once they have had
/// time to learn of the change. Called by the group's thread from time to time.
pub fn disconnect_demoted_clients(engine: &Engine) {
    if engine.attention.get() & FORMER_PRIMARY == 0 || !engine.sync_writes.demoted.must_go() {
        return;
    }
    let all = engine.clients.registry.all();
    let demoted: Vec<_> = all.iter().filter(|record| engine.sync_writes.came_to_primary(record)).collect();
    for record in &demoted {
        engine.clients.registry.disconnect(record);
    }
    if demoted.is_empty() {
        engine.attention.set(FORMER_PRIMARY, false);
    }
}

/// Applies the settings, the set and the right to serve, and makes loops check again.
pub fn apply_sync_writes(engine: &Engine) {
    let (config, sync, set) = (&engine.config, &engine.sync_writes, &engine.replication.in_sync);
    let has_group = has_group(engine);
    let is_default = has_group && config.sync_writes();
    sync.is_default.store(is_default, Relaxed);
    // Also while no member is required, or this server is no longer primary: replies to earlier
    // commands must be distinguished from later ones.
    let any_waits = has_group && (is_default || sync.has_durable.load(Relaxed));
    sync.set_reason(WAITS_FOR_MEMBERS, any_waits);
    set.set_minimum(config.min_sync_replicas() as usize, engine.keyspace.journal.end());
    note_small_set(engine, any_waits && set.is_small());
    engine.sync_writes.ring_holders(&engine.clients.mailboxes, None);
}

/// Refuses synchronous writes while the in-sync set is too small, or ends that.
fn note_small_set(engine: &Engine, is_small: bool) {
    let mut last_write = engine.sync_writes.last_write.lock();
    if !is_small {
        engine.attention.set(FEW_IN_SYNC, false);
        *last_write = LastWrite::Ahead { epoch: None };
    } else if *last_write == (LastWrite::Ahead { epoch: None }) {
        engine.attention.set(FEW_IN_SYNC, true);
        // Until then a thread may still be executing a write that it found permitted.
        *last_write = LastWrite::Ahead { epoch: Some(engine.keyspace.gate.epoch() + 2) };
    }
}

/// While the in-sync set is too small: the offset in the journal beyond which no client has
/// written; `u64::MAX` if that is not known yet. What follows it are keys that have expired or
/// been evicted, which no replica needs to have.
fn last_write_in_small_set(engine: &Engine) -> u64 {
    let mut last_write = engine.sync_writes.last_write.lock();
    match *last_write {
        LastWrite::Before(offset) => offset,
        LastWrite::Ahead { epoch } => {
            if epoch.is_none_or(|epoch| engine.keyspace.gate.try_advance() < epoch) {
                return u64::MAX;
            }
            let offset = engine.replication.in_sync.without_asides(engine.keyspace.journal.end());
            *last_write = LastWrite::Before(offset);
            offset
        }
    }
}

/// Checks that the settings of synchronous writes are consistent and can be applied.
///
/// # Errors
/// What the settings need: a group, the append-only file, or its syncs.
pub fn check_sync_writes(engine: &Engine, config: &Config) -> Result<(), String> {
    if config.sync_writes() && !has_group(engine) {
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
pub fn sync_level(engine: &Engine) -> SyncLevel {
    if engine.replication.in_sync.needs_disk() { SyncLevel::Disk } else { engine.config.sync_level() }
}

/// [`FENCED`] if this server may not serve now, else 0. Called for each batch, after its
/// requests have been received; costs one load without a group.
#[inline]
pub fn fence(engine: &Engine) -> u64 {
    let set = &engine.replication.in_sync;
    if !set.is_fenced() || set.may_serve(boot_nanos()) { 0 } else { FENCED }
}

/// Required members for which a reply has been waiting for longer than `sync-timeout`, at `now`
/// (nanoseconds of CLOCK_BOOTTIME).
pub fn slow_members(engine: &Engine, now: u64) -> Vec<MemberId> {
    let timeout = u64::from(engine.config.sync_timeout_ms()) * NANOS_PER_MS;
    engine.replication.in_sync.slow_members(sync_level(engine), now, timeout)
}

/// Handles a replica's acknowledgement of a journal offset: if the replica is a member of the
/// group, replies may be released, and the replicas asked for more.
pub(crate) fn note_member(
    engine: &Engine,
    replica: &Arc<Replica>,
    offset: u64,
    on_disk: Option<u64>,
    context: &mut Context,
) {
    let Some((member, epoch)) = &replica.options.member else { return };
    // An offset beyond the journal's end, or acknowledged before the full sync has been sent,
    // does not belong to this history.
    if replica.stage() != Stage::Online || offset > engine.keyspace.journal.end() {
        return;
    }
    let on_disk = on_disk.map(|on_disk| on_disk.min(offset));
    if engine.replication.in_sync.note(member, *epoch, offset, on_disk) {
        // The caller's loop checks before it sleeps.
        engine.sync_writes.ring_holders(&engine.clients.mailboxes, Some(context.slot));
    }
    if !context.outside && must_ask_members(engine) {
        ask_members(engine, context);
    }
}

/// True if the caller must ask the replicas ([`ask_members`]): a reply waits for more
/// than has been asked for.
pub fn must_ask_members(engine: &Engine) -> bool {
    engine.replication.in_sync.must_ask(sync_level(engine), boot_nanos())
}

/// Asks the replicas, if [`must_ask_members`] requires it. Inside of the gate.
pub fn ask_members(engine: &Engine, context: &mut Context) {
    if !tell_replicas::append_question(engine, context) {
        engine.replication.in_sync.not_asked();
    }
}

/// Waits, for at most `patience`, until the in-sync members have all changes made so far. For
/// a thread that changes many keys in the background: its lead over the members adds to the
/// wait of clients' replies. Outside of the gate.
pub fn wait_for_members(engine: &Engine, patience: Duration) {
    let (set, began) = (&engine.replication.in_sync, Instant::now());
    let offset = set.without_asides(engine.keyspace.journal.end());
    set.want(offset);
    while !set.covers(SyncLevel::Memory, offset) && began.elapsed() < patience {
        if must_ask_members(engine) {
            let mut worker = engine.worker(0);
            let _world = world::stop(engine);
            ask_members(engine, &mut worker.context);
        }
        std::thread::sleep(LOOK);
    }
}

/// What a reply to the commands executed so far may reveal. `for_members`: the client waits
/// for members.
pub fn revealed(engine: &Engine, for_members: bool, losses: u64) -> Revealed {
    let (offset, set) = (engine.keyspace.journal.end(), &engine.replication.in_sync);
    let members = for_members.then(|| {
        let offset = set.without_asides(offset);
        let written = if set.is_small() { offset.min(last_write_in_small_set(engine)) } else { offset };
        MemberWait { offset, written, since: boot_nanos(), losses }
    });
    Revealed { offset, members }
}

/// What held replies reveal, now that it is known.
pub fn revealed_by_now(engine: &Engine, before: &Revealed) -> Revealed {
    let Some(wait) = before.members else { return *before };
    let now = revealed(engine, true, wait.losses);
    let members = now.members.map(|members| MemberWait { since: wait.since, ..members });
    Revealed { members, ..now }
}

/// Whether replies that reveal this may be sent, or why not; `None` if they must wait.
pub fn outcome_of(engine: &Engine, revealed: &Revealed) -> Option<WaitOutcome> {
    match (append_only::progress_on_disk(engine, revealed.offset), revealed.members) {
        (Some(false), _) => Some(WaitOutcome::DiskFailed),
        (Some(true), None) => Some(WaitOutcome::Durable),
        (None, None) => None,
        (on_disk, Some(wait)) => member_outcome(engine, revealed, wait, on_disk.is_some()),
    }
}

fn member_outcome(
    engine: &Engine,
    revealed: &Revealed,
    wait: MemberWait,
    on_disk: bool,
) -> Option<WaitOutcome> {
    let (set, level) = (&engine.replication.in_sync, sync_level(engine));
    // Checked first: without a set nothing is left to wait for.
    if set.losses() != wait.losses {
        return Some(WaitOutcome::Uncertain);
    }
    let is_written = on_disk && (level == SyncLevel::Memory || is_in_own_file(engine, revealed.offset));
    // The members that are left may be too few, and may even be none.
    let is_acknowledged = is_written && set.covers(level, wait.offset) && set.confirms(level, wait.written);
    if is_acknowledged && !set.is_fenced() {
        return Some(WaitOutcome::Durable);
    }
    let now = boot_nanos();
    if is_acknowledged && set.may_serve(now) && set.losses() == wait.losses {
        return Some(WaitOutcome::Durable);
    }
    let waited = now.saturating_sub(wait.since);
    let timeout = u64::from(engine.config.sync_timeout_ms()) * NANOS_PER_MS;
    if waited > timeout && wait.offset != NOT_KNOWN && !set.covers(level, wait.offset) {
        set.note_late(wait.offset, wait.since);
    }
    (waited > give_up_ms(engine) * NANOS_PER_MS).then_some(WaitOutcome::Uncertain)
}

/// Milliseconds after which the outcome of a waiting reply is given up: by then a slow member
/// has had the time to leave the set.
fn give_up_ms(engine: &Engine) -> u64 {
    u64::from(engine.config.sync_timeout_ms()) + u64::from(engine.config.lease_time_ms())
}

fn is_in_own_file(engine: &Engine, offset: u64) -> bool {
    // A server that is not the primary of a group waits for no member.
    engine.replication.in_sync.size() == 0 || engine.append_only.synced() >= offset
}

/// Rings a loop's bell once when [`outcome_of`] may have changed, and requests what
/// is missing. Earlier changes are not reported.
pub fn ask_for_progress(engine: &Engine, slot: usize, revealed: &Revealed) {
    let is_disk = sync_level(engine) == SyncLevel::Disk;
    if let Some(wait) = revealed.members {
        let mut loops = engine.sync_writes.loops.lock();
        if !loops.contains(&slot) {
            loops.push(slot);
        }
        drop(loops);
        if wait.offset != NOT_KNOWN {
            engine.replication.in_sync.want(wait.offset);
        }
    }
    if revealed.members.is_none() || is_disk || engine.sync_writes.waits_for_disk() {
        append_only::ask_for_disk(engine, slot, revealed.offset);
    }
}

/// Milliseconds after which a held reply is checked again without any news.
pub fn hold_patience_ms(engine: &Engine, wait: &MemberWait) -> i64 {
    if sync_level(engine) == SyncLevel::Disk {
        // Replicas do not report when they have synced: they are asked repeatedly.
        return 1;
    }
    let waited = boot_nanos().saturating_sub(wait.since) / NANOS_PER_MS;
    let timeout = u64::from(engine.config.sync_timeout_ms());
    let next = if waited <= timeout { timeout } else { give_up_ms(engine) };
    // A question may be lost with its connection.
    i64::try_from(next.saturating_sub(waited)).unwrap_or(i64::MAX).clamp(0, 100) + 1
}
