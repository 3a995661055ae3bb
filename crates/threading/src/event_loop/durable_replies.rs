// SPDX-License-Identifier: BSD-3-Clause
//! Durable replies: replies wait until the changes that they reveal are on disk (`appendfsync
//! always`), or acknowledged by all in-sync members of the group (`sync-writes`, CLIENT DURABLE).
//!
//! A reply waits for all changes so far, by any client, so no client reads data that could still be
//! lost. A loop holds replies back and serves other clients meanwhile; its notifier is rung by the
//! thread that writes the file, or by the thread that receives acknowledgements. Therefore one
//! fsync, or one acknowledgement request to the replicas, covers everything that all threads
//! executed during the previous one. A client whose replies are held executes nothing more, and
//! gets no pushes, until they are sent. Replies that reveal no data, such as those of a replica's
//! handshake, need no acknowledgement.
//!
//! In models where clients migrate or helpers send replies, the loop itself waits for the disk,
//! between executing and sending. For members, all models hold replies, at the loop that owns the
//! client: a waiting loop might be the one that must receive the acknowledgement.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::{self, Ticks};
use braid_durable::append_only;
use braid_executor::state::sync_writes::{Revealed, WAITS_FOR_DISK, WAITS_FOR_MEMBERS, WaitOutcome};
use braid_replica::sync_writes::{self, UNCERTAIN};

use super::EventLoop;

/// A client whose replies are held.
struct HeldClient {
    place: u32,
    /// Detects that the place has been given to another client.
    id: u64,
    /// The replies confirm changes made by this client.
    has_written: bool,
    /// Part of an earlier reply has been sent, so an error cannot follow it.
    is_cut: bool,
}

/// Clients whose replies wait for the same condition.
struct Group {
    revealed: Revealed,
    /// The gate epoch from which on the journal contains the changes that the replies reveal: a
    /// message may arrive before the change that it reports is in the journal.
    epoch: Option<u64>,
    clients: Vec<HeldClient>,
}

/// The condition that held replies wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Disk,
    Members,
    /// Members; the replies contain published messages.
    MembersAfterMessages,
}

impl Wait {
    const ALL: [Wait; 3] = [Wait::Disk, Wait::Members, Wait::MembersAfterMessages];
}

/// The held replies of a loop.
#[derive(Default)]
pub struct ReplyHold {
    /// Commands have been executed since replies were last sent, and not yet checked against the
    /// disk or the members.
    unsynced: bool,
    unacknowledged: bool,
    /// The number of times that this server had lost the primary role before those commands ran.
    losses: u64,
    /// Groups by condition; each list is ordered by offset.
    groups: [VecDeque<Group>; 3],
}

impl ReplyHold {
    /// Must be called before requests are executed.
    #[inline]
    pub fn begin(&mut self, losses: u64) {
        if !self.unacknowledged {
            self.losses = losses;
        }
    }

    /// The number of times that this server had lost the primary role before the pending requests
    /// ran.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// Records that replies may reveal changes.
    #[inline]
    pub fn note_changes(&mut self) {
        self.unsynced = true;
        self.unacknowledged = true;
    }

    /// Records that replies for members may reveal changes made by other threads.
    pub fn note_unacknowledged(&mut self, losses: u64) {
        self.begin(losses);
        self.unacknowledged = true;
    }

    /// True if replies are held back.
    #[inline]
    pub fn holds_any(&self) -> bool {
        self.groups.iter().any(|groups| !groups.is_empty())
    }

    fn queue(&mut self, wait: Wait) -> &mut VecDeque<Group> {
        &mut self.groups[wait as usize]
    }
}

impl EventLoop {
    /// Ensures that pending replies reveal only durable changes: waits, or holds the replies
    /// back.
    #[inline]
    pub(crate) fn ensure_durable(&mut self) {
        let unsynced = std::mem::take(&mut self.reply_hold.unsynced);
        let unacknowledged = std::mem::take(&mut self.reply_hold.unacknowledged);
        if unsynced || unacknowledged {
            let reasons = self.engine.sync_writes.reasons();
            if reasons != 0 {
                let for_disk = unsynced && reasons & WAITS_FOR_DISK != 0;
                let for_members = unacknowledged && reasons & WAITS_FOR_MEMBERS != 0;
                self.ensure(for_disk, for_members);
            }
        }
    }

    /// As [`EventLoop::ensure_durable`], for the disk only, and always by waiting: called before
    /// clients go to other threads.
    #[inline]
    pub(super) fn ensure_on_disk(&mut self) {
        if !self.properties.holds_replies && std::mem::take(&mut self.reply_hold.unsynced) {
            let waits = self.engine.sync_writes.reasons() & WAITS_FOR_DISK != 0;
            waits.then(|| self.wait_for_disk());
        }
    }

    #[cold]
    fn ensure(&mut self, for_disk: bool, for_members: bool) {
        if for_disk && !self.properties.holds_replies {
            self.wait_for_disk();
        }
        if for_members {
            self.hold_replies(Wait::Members);
            self.hold_replies(Wait::MembersAfterMessages);
        }
        if for_disk && self.properties.holds_replies {
            self.hold_replies(Wait::Disk);
        }
    }

    #[cold]
    fn wait_for_disk(&mut self) {
        let start = Ticks::now();
        let is_written = append_only::wait_until_durable(&self.engine);
        self.note_wait(Ticks::now().nanos_since(start));
        let outcome = if is_written { WaitOutcome::Durable } else { WaitOutcome::DiskFailed };
        for at in 0..self.clients.to_write.len() {
            self.report_outcome(self.clients.to_write[at], outcome, false);
        }
    }

    /// Holds back the replies that may not be sent yet: those of the clients that wait for
    /// members, or all.
    fn hold_replies(&mut self, wait: Wait) {
        let for_members = wait != Wait::Disk;
        let has_messages = wait == Wait::MembersAfterMessages;
        let losses = self.engine.replication.in_sync.losses();
        if for_members && self.engine.replication.in_sync.is_small() && self.has_written() {
            // Clients that waited for a key, for example, were not refused.
            self.engine.sync_writes.note_write_in_small_set(&self.engine.keyspace.gate);
        }
        let mut revealed = sync_writes::revealed(&self.engine, for_members, losses);
        let epoch = has_messages.then(|| self.engine.keyspace.gate.epoch() + 2);
        if epoch.is_some() {
            revealed = revealed.not_known_yet();
        }
        let outcome = sync_writes::outcome_of(&self.engine, &revealed);
        let mut list = std::mem::take(&mut self.clients.to_write);
        let mut clients = Vec::new();
        list.retain(|&place| {
            let Some(client) = self.clients.slab.get(place) else { return false };
            if for_members {
                let reveals =
                    if has_messages { &mut client.hold.has_messages } else { &mut client.hold.reveals };
                if !std::mem::take(reveals)
                    || !self.engine.sync_writes.holds_for(client.session.options.durable)
                {
                    return true;
                }
                if !has_messages && client.hold.has_messages {
                    // This client is sent with the replies that were held before.
                    return true;
                }
            }
            let since = self.reply_hold.losses.min(client.hold.losses.take().unwrap_or(u64::MAX));
            let outcome = if for_members && since != losses { Some(WaitOutcome::Uncertain) } else { outcome };
            if let Some(outcome) = outcome {
                let is_cut = client.wants_write;
                self.report_outcome(place, outcome, is_cut);
                return true;
            }
            let is_cut = client.wants_write;
            if client.wants_write {
                // Otherwise the poller would report the client in every turn.
                client.wants_write = false;
                if self.poller.modify(&client.socket, u64::from(place), client.interest()).is_err() {
                    client.break_off();
                }
            }
            if client.is_broken() {
                client.listed.to_write = false;
                self.clients.to_drop.push(place);
                return false;
            }
            client.hold.is_on = true;
            client.hold.for_members = for_members;
            let has_written = std::mem::take(&mut client.session.reply.has_written);
            clients.push(HeldClient { place, id: client.session.id(), has_written, is_cut });
            false
        });
        self.clients.to_write = list;
        if clients.is_empty() {
            return;
        }
        let waiting = clients.len() as u64;
        self.reply_hold.queue(wait).push_back(Group { revealed, epoch, clients });
        if for_members {
            self.engine.sync_writes.counts.waiting.fetch_add(waiting, Relaxed);
            self.ask_for_progress(&revealed);
            // The data must be sent to the replicas before they can acknowledge it.
            self.feed_replicas_before_replies();
        } else {
            self.ask_for_progress(&revealed);
        }
    }

    /// True if one of the pending replies confirms a change.
    #[cold]
    fn has_written(&mut self) -> bool {
        let clients = &mut self.clients;
        let mut places = clients.to_write.iter();
        places.any(|&place| clients.slab.get(place).is_some_and(|client| client.session.reply.has_written))
    }

    /// Arms the loop's notifier for a change of the outcome, and asks the replicas.
    fn ask_for_progress(&mut self, revealed: &Revealed) {
        sync_writes::ask_for_progress(&self.engine, self.slot, revealed);
        if revealed.members.is_some() {
            self.ask_members();
        }
    }

    /// Asks the replicas for acknowledgements, if replies wait for more than was requested.
    fn ask_members(&mut self) {
        if !sync_writes::must_ask_members(&self.engine) {
            return;
        }
        if self.enter() {
            sync_writes::ask_members(&self.engine, &mut self.worker.context);
            self.engine.keyspace.gate.leave(self.slot);
        } else {
            self.engine.replication.in_sync.not_asked();
        }
    }

    /// True if held replies can be sent. Must be checked before the loop sleeps: the notifier
    /// does not report events from before it was armed.
    #[inline]
    pub(crate) fn can_release(&self) -> bool {
        let mut fronts = self.reply_hold.groups.iter().filter_map(VecDeque::front);
        fronts.any(|group| {
            self.is_known(group) || sync_writes::outcome_of(&self.engine, &group.revealed).is_some()
        })
    }

    /// True once the journal contains the changes that replies with messages reveal.
    fn is_known(&self, group: &Group) -> bool {
        group.epoch.is_some_and(|epoch| self.engine.keyspace.gate.try_advance() >= epoch)
    }

    /// Milliseconds until held replies must be checked even if the notifier has not rung.
    pub(super) fn hold_patience_ms(&self) -> Option<i64> {
        let patience = |group: &Group| {
            let wait = group.revealed.members?;
            // The notifier does not report gate epochs.
            Some(if group.epoch.is_some() { 1 } else { sync_writes::hold_patience_ms(&self.engine, &wait) })
        };
        self.reply_hold.groups.iter().filter_map(VecDeque::front).filter_map(patience).min()
    }

    /// Sends the held replies that are now durable.
    #[inline]
    pub(crate) fn release_replies(&mut self) {
        if self.reply_hold.holds_any() {
            Wait::ALL.into_iter().for_each(|wait| self.release_durable(wait));
        }
    }

    #[cold]
    fn release_durable(&mut self, wait: Wait) {
        while let Some(group) = self.reply_hold.groups[wait as usize].front() {
            if self.is_known(group) {
                let revealed = sync_writes::revealed_by_now(&self.engine, &group.revealed);
                if let Some(group) = self.reply_hold.queue(wait).front_mut() {
                    (group.revealed, group.epoch) = (revealed, None);
                }
                continue;
            }
            let Some(outcome) = sync_writes::outcome_of(&self.engine, &group.revealed) else {
                // The notifier rings only once each time it is armed.
                let revealed = group.revealed;
                return self.ask_for_progress(&revealed);
            };
            let Some(group) = self.reply_hold.queue(wait).pop_front() else { return };
            // Replicas get only changes that are on disk, and more may have reached it just now.
            self.feed_replicas_before_replies();
            self.release_group(group, outcome);
        }
    }

    fn release_group(&mut self, group: Group, outcome: WaitOutcome) {
        if group.revealed.members.is_some() {
            let (counts, ended) = (&self.engine.sync_writes.counts, group.clients.len() as u64);
            counts.waiting.fetch_sub(ended, Relaxed);
            if outcome == WaitOutcome::Durable {
                counts.acknowledged.fetch_add(ended, Relaxed);
            }
        }
        group.clients.into_iter().for_each(|held| self.release(held, outcome));
    }

    fn release(&mut self, held: HeldClient, outcome: WaitOutcome) {
        let HeldClient { place, id, has_written, is_cut } = held;
        let Some(client) = self.clients.slab.get(place).filter(|client| client.session.id() == id) else {
            return;
        };
        client.hold.is_on = false;
        client.hold.for_members = false;
        if client.has_deferred_input() && !client.listed.to_resume {
            client.listed.to_resume = true;
            self.clients.to_resume.push(place);
        }
        if outcome == WaitOutcome::Durable && client.session.reply.has_written {
            client.hold.reveals = true;
            // The client waited for a key and was served meanwhile: that change must be durable
            // as well.
            self.reply_hold.note_changes();
            return self.clients.to_write.push(place);
        }
        client.session.reply.has_written |= has_written;
        self.report_outcome(place, outcome, is_cut);
        self.clients.write(&self.engine.telemetry.threads[self.slot], place);
        self.update_interest(place, clock::unix_ms());
    }

    /// Waits for the disk and sends all held replies, since the loop is about to end.
    pub(crate) fn release_all(&mut self) {
        if self.reply_hold.holds_any() {
            append_only::wait_until_durable(&self.engine);
            self.release_replies();
            let held = std::mem::take(&mut self.reply_hold.groups);
            for group in held.into_iter().flatten() {
                // The loop will receive no more acknowledgements.
                self.release_group(group, WaitOutcome::Uncertain);
            }
            self.write_replies();
        }
    }

    /// Replaces a client's replies by an error if their outcome is uncertain: replies that
    /// confirm changes if the disk has failed, all replies if members have not acknowledged.
    /// `is_cut`: part of the replies has been sent, so the error would be read as their
    /// continuation.
    fn report_outcome(&mut self, place: u32, outcome: WaitOutcome, is_cut: bool) {
        let Some(client) = self.clients.slab.get(place) else { return };
        let has_written = std::mem::take(&mut client.session.reply.has_written);
        if outcome == WaitOutcome::Durable || (outcome == WaitOutcome::DiskFailed && !has_written) {
            return;
        }
        if outcome == WaitOutcome::Uncertain {
            self.engine.sync_writes.counts.uncertain.fetch_add(1, Relaxed);
        }
        client.reply.clear();
        client.close_after_reply();
        if is_cut {
            client.break_off();
            self.clients.to_drop.push(place);
        } else if outcome == WaitOutcome::DiskFailed {
            client.reply.error_bytes(&self.engine.append_only.refusal().line());
        } else {
            client.reply.error(UNCERTAIN);
        }
    }
}
