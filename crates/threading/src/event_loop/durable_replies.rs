// SPDX-License-Identifier: BSD-3-Clause
//! Durable replies: replies wait until the changes that they reveal are on disk (`appendfsync
//! always`), or until all in-sync members of the group have acknowledged them (`sync-writes`,
//! CLIENT DURABLE).
//!
//! A reply waits for everything that was changed so far, by any client: no client reads what could
//! still be lost. A loop holds replies back and serves others meanwhile; its notifier is rung by the
//! thread that writes the file, or by the one that receives acknowledgements. So one fsync, or one
//! question to the replicas, covers everything that all threads executed during the one before. A
//! client whose replies are held executes nothing more, and gets no pushes, until they are sent.
//! Members need not acknowledge replies that reveal no data: a replica's handshake is among these.
//!
//! In models where clients migrate or helpers send replies, the loop itself waits for the disk,
//! between executing and sending. For members all models hold replies, at the loop that owns the
//! client: the loop that waits may be the one that has to receive the acknowledgement.

use std::collections::VecDeque;

use braid_base::clock::{self, Ticks};
use braid_engine::sync_writes::UNCERTAIN;
use braid_engine::sync_writes::state::{Revealed, Settled, WAITS_FOR_DISK, WAITS_FOR_MEMBERS};
use braid_net::poller::Interest;

use super::{EventLoop, Model};

/// A client whose replies are held.
struct HeldClient {
    place: u32,
    /// By then the place may belong to another client.
    id: u64,
    /// The replies confirm changes of its own.
    has_written: bool,
    /// A part of an earlier reply has been sent: an error cannot follow it.
    is_cut: bool,
}

/// Clients whose replies wait for the same.
struct Group {
    revealed: Revealed,
    /// The gate's epoch from which on it is known what they reveal: a message may be here before
    /// the change that it tells of is in the journal.
    epoch: Option<u64>,
    clients: Vec<HeldClient>,
}

/// What held replies wait for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Disk,
    Members,
    /// Members, with messages among the replies.
    MembersAfterMessages,
}

impl Wait {
    const ALL: [Wait; 3] = [Wait::Disk, Wait::Members, Wait::MembersAfterMessages];
}

/// The held replies of a loop.
#[derive(Default)]
pub struct ReplyHold {
    /// Something was executed since replies were last sent: not checked against the disk, or the
    /// members.
    unsynced: bool,
    unacknowledged: bool,
    /// How often this server had stopped being primary before that.
    losses: u64,
    /// By what they wait for; each in the order of offsets.
    groups: [VecDeque<Group>; 3],
}

impl ReplyHold {
    /// Requests are about to be executed.
    #[inline]
    pub fn begin(&mut self, losses: u64) {
        if !self.unacknowledged {
            self.losses = losses;
        }
    }

    /// How often this server had stopped being primary before what is pending was executed.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    /// Notes that replies may reveal changes.
    #[inline]
    pub fn note_changes(&mut self) {
        self.unsynced = true;
        self.unacknowledged = true;
    }

    /// Notes that replies for members may reveal changes that were made elsewhere.
    pub fn note_unacknowledged(&mut self, losses: u64) {
        self.begin(losses);
        self.unacknowledged = true;
    }

    /// Whether replies are held back.
    #[inline]
    pub fn holds_any(&self) -> bool {
        self.groups.iter().any(|groups| !groups.is_empty())
    }

    fn queue(&mut self, wait: Wait) -> &mut VecDeque<Group> {
        &mut self.groups[wait as usize]
    }
}

impl<M: Model> EventLoop<M> {
    /// Makes sure that pending replies reveal only what is durable: waits for it, or holds the
    /// replies back.
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

    /// As [`EventLoop::ensure_durable`] for the disk alone, where the loop waits: before clients go
    /// to other threads.
    #[inline]
    pub(super) fn ensure_on_disk(&mut self) {
        if !M::HOLDS_REPLIES && std::mem::take(&mut self.reply_hold.unsynced) {
            let waits = self.engine.sync_writes.reasons() & WAITS_FOR_DISK != 0;
            waits.then(|| self.wait_for_disk());
        }
    }

    #[cold]
    fn ensure(&mut self, for_disk: bool, for_members: bool) {
        if for_disk && !M::HOLDS_REPLIES {
            self.wait_for_disk();
        }
        if for_members {
            self.hold_replies(Wait::Members);
            self.hold_replies(Wait::MembersAfterMessages);
        }
        if for_disk && M::HOLDS_REPLIES {
            self.hold_replies(Wait::Disk);
        }
    }

    #[cold]
    fn wait_for_disk(&mut self) {
        let start = Ticks::now();
        let is_written = self.engine.settle_changes();
        self.note_wait(Ticks::now().nanos_since(start));
        let settled = if is_written { Settled::Yes } else { Settled::DiskFailed };
        for at in 0..self.clients.to_write.len() {
            self.report_outcome(self.clients.to_write[at], settled, false);
        }
    }

    /// Holds replies back that may not be sent yet: of the clients that wait for members, or of all.
    fn hold_replies(&mut self, wait: Wait) {
        let for_members = wait != Wait::Disk;
        let has_messages = wait == Wait::MembersAfterMessages;
        let losses = self.engine.replication.in_sync.losses();
        let mut revealed = self.engine.revealed(for_members, losses);
        let epoch = has_messages.then(|| self.engine.keyspace.gate.epoch() + 2);
        if epoch.is_some() {
            revealed = revealed.not_known_yet();
        }
        let outcome = self.engine.outcome_of(&revealed);
        let mut list = std::mem::take(&mut self.clients.to_write);
        let mut clients = Vec::new();
        list.retain(|&place| {
            let Some(client) = self.clients.slab.get(place) else { return false };
            if for_members {
                let reveals = if has_messages { &mut client.has_messages } else { &mut client.reveals };
                if !std::mem::take(reveals) || !self.engine.waits_for_members(&client.session) {
                    return true;
                }
                if !has_messages && client.has_messages {
                    // It goes with those.
                    return true;
                }
            }
            let since = self.reply_hold.losses.min(client.losses.take().unwrap_or(u64::MAX));
            let settled = if for_members && since != losses { Some(Settled::Uncertain) } else { outcome };
            if let Some(settled) = settled {
                let is_cut = client.wants_write;
                self.report_outcome(place, settled, is_cut);
                return true;
            }
            let is_cut = client.wants_write;
            if client.wants_write {
                // The poller would report it in every turn.
                client.wants_write = false;
                client.broken |=
                    self.poller.modify(&client.socket, u64::from(place), Interest::Read).is_err();
            }
            if client.broken {
                client.in_write_list = false;
                self.clients.to_drop.push(place);
                return false;
            }
            client.is_reply_held = true;
            client.waits_for_members = for_members;
            let has_written = std::mem::take(&mut client.session.has_written);
            clients.push(HeldClient { place, id: client.session.id(), has_written, is_cut });
            false
        });
        self.clients.to_write = list;
        if clients.is_empty() {
            return;
        }
        self.reply_hold.queue(wait).push_back(Group { revealed, epoch, clients });
        if for_members {
            self.ask_for_progress(&revealed);
            // What is acknowledged has to be sent first.
            self.feed_replicas_before_replies();
        } else {
            self.ask_for_progress(&revealed);
        }
    }

    /// Has the loop's bell rung when the outcome may have changed, and asks the replicas.
    fn ask_for_progress(&mut self, revealed: &Revealed) {
        self.engine.ask_for_progress(self.slot, revealed);
        if revealed.members.is_some() {
            self.ask_members();
        }
    }

    /// Asks the replicas how far they have got if replies wait for more than has been asked for.
    fn ask_members(&mut self) {
        if !self.engine.must_ask_members() {
            return;
        }
        if self.enter() {
            self.engine.ask_members(&mut self.worker.context);
            self.engine.keyspace.gate.leave(self.slot);
        } else {
            self.engine.replication.in_sync.not_asked();
        }
    }

    /// Whether held replies can be sent. To be checked before the loop sleeps: the notifier does
    /// not report what happened before it was asked for.
    #[inline]
    pub(crate) fn can_release(&self) -> bool {
        let mut fronts = self.reply_hold.groups.iter().filter_map(VecDeque::front);
        fronts.any(|group| self.is_known(group) || self.engine.outcome_of(&group.revealed).is_some())
    }

    /// Whether it is known by now what replies with messages reveal.
    fn is_known(&self, group: &Group) -> bool {
        group.epoch.is_some_and(|epoch| self.engine.keyspace.gate.try_advance() >= epoch)
    }

    /// Milliseconds until held replies are to be looked at though nobody has rung.
    pub(super) fn hold_patience_ms(&self) -> Option<i64> {
        let patience = |group: &Group| {
            let wait = group.revealed.members?;
            // Nothing tells of the gate's epochs.
            Some(if group.epoch.is_some() { 1 } else { self.engine.hold_patience_ms(&wait) })
        };
        self.reply_hold.groups.iter().filter_map(VecDeque::front).filter_map(patience).min()
    }

    /// Sends the held replies that are durable by now.
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
                let revealed = self.engine.revealed_by_now(&group.revealed);
                if let Some(group) = self.reply_hold.queue(wait).front_mut() {
                    (group.revealed, group.epoch) = (revealed, None);
                }
                continue;
            }
            let Some(settled) = self.engine.outcome_of(&group.revealed) else {
                // The notifier rings once per request.
                let revealed = group.revealed;
                return self.ask_for_progress(&revealed);
            };
            let Some(group) = self.reply_hold.queue(wait).pop_front() else { return };
            // They are sent what is on disk, which may have become more just now.
            self.feed_replicas_before_replies();
            group.clients.into_iter().for_each(|held| self.release(held, settled));
        }
    }

    fn release(&mut self, held: HeldClient, settled: Settled) {
        let HeldClient { place, id, has_written, is_cut } = held;
        let Some(client) = self.clients.slab.get(place).filter(|client| client.session.id() == id) else {
            return;
        };
        client.is_reply_held = false;
        client.waits_for_members = false;
        if client.has_deferred_input() && !client.in_resume_list {
            client.in_resume_list = true;
            self.clients.to_resume.push(place);
        }
        if settled == Settled::Yes && client.session.has_written {
            client.reveals = true;
            // It waited for a key and was served in the meantime: that change has to be durable as
            // well.
            self.reply_hold.note_changes();
            return self.clients.to_write.push(place);
        }
        client.session.has_written |= has_written;
        self.report_outcome(place, settled, is_cut);
        self.clients.write(&self.engine.threads[self.slot], place);
        self.update_interest(place, clock::unix_ms());
    }

    /// Waits for the disk and sends all held replies; the loop is about to end.
    pub(crate) fn release_all(&mut self) {
        if self.reply_hold.holds_any() {
            self.engine.settle_changes();
            self.release_replies();
            let held = std::mem::take(&mut self.reply_hold.groups);
            for group in held.into_iter().flatten() {
                // Nobody will hear of an acknowledgement any more.
                group.clients.into_iter().for_each(|held| self.release(held, Settled::Uncertain));
            }
            self.write_replies();
        }
    }

    /// Replaces the replies of a client by an error if their outcome is uncertain: if the disk has
    /// failed, those that confirm changes; if members have not acknowledged, all. `is_cut`: a part
    /// of them has been sent, so that the error would be taken for the rest.
    fn report_outcome(&mut self, place: u32, settled: Settled, is_cut: bool) {
        let Some(client) = self.clients.slab.get(place) else { return };
        let has_written = std::mem::take(&mut client.session.has_written);
        if settled == Settled::Yes || (settled == Settled::DiskFailed && !has_written) {
            return;
        }
        client.reply.clear();
        client.session.close_after_reply = true;
        if is_cut {
            client.broken = true;
            self.clients.to_drop.push(place);
        } else if settled == Settled::DiskFailed {
            client.reply.error_bytes(&self.engine.append_only.refusal().line());
        } else {
            client.reply.error(UNCERTAIN);
        }
    }
}
