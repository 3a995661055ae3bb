// SPDX-License-Identifier: BSD-3-Clause
//! Durable replies: with `appendfsync always`, replies wait until the changes that they reveal are
//! on disk.
//!
//! A reply waits for everything that was changed so far, by any client: no client reads what could
//! still be lost. A loop that sends its clients' replies itself holds them back and serves others
//! meanwhile; the thread that writes the file rings its notifier. So one fsync covers everything
//! that all threads executed during the one before. A client whose replies are held executes
//! nothing more until they are sent.
//!
//! In models where clients migrate or helpers send replies, the loop itself waits, between
//! executing and sending.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::{self, Ticks};
use braid_net::poller::Interest;

use super::{EventLoop, Model};

/// A client whose replies are held.
struct HeldClient {
    place: u32,
    /// By then the place may belong to another client.
    id: u64,
    /// The replies confirm changes of its own.
    has_written: bool,
}

/// Clients whose replies wait for the same offset.
struct Group {
    /// Journal offset up to which the file has to be on disk.
    offset: u64,
    clients: Vec<HeldClient>,
}

/// The held replies of a loop.
#[derive(Default)]
pub struct ReplyHold {
    /// Something was executed since replies were last sent.
    unsynced: bool,
    /// Ordered by offset.
    groups: VecDeque<Group>,
}

impl ReplyHold {
    /// Notes that replies may reveal changes.
    #[inline]
    pub fn note_changes(&mut self) {
        self.unsynced = true;
    }

    /// Whether replies are held back.
    #[inline]
    pub fn holds_any(&self) -> bool {
        !self.groups.is_empty()
    }
}

impl<M: Model> EventLoop<M> {
    /// Makes sure that pending replies reveal only what is on disk: waits for it, or holds the
    /// replies back.
    #[inline]
    pub(crate) fn ensure_durable(&mut self) {
        if std::mem::take(&mut self.reply_hold.unsynced) && self.engine.append_only.waits.load(Relaxed) {
            if M::HOLDS_REPLIES {
                self.hold_replies();
            } else {
                self.wait_for_disk();
            }
        }
    }

    #[cold]
    fn wait_for_disk(&mut self) {
        let start = Ticks::now();
        let settled = self.engine.settle_changes();
        self.note_wait(Ticks::now().nanos_since(start));
        for at in 0..self.clients.to_write.len() {
            self.report_outcome(self.clients.to_write[at], settled);
        }
    }

    #[cold]
    fn hold_replies(&mut self) {
        let offset = self.engine.keyspace.journal.end();
        let mut list = std::mem::take(&mut self.clients.to_write);
        if let Some(settled) = self.engine.progress_on_disk(offset) {
            list.iter().for_each(|&place| self.report_outcome(place, settled));
            self.clients.to_write = list;
            return;
        }
        let mut clients = Vec::with_capacity(list.len());
        for place in list.drain(..) {
            let Some(client) = self.clients.slab.get(place) else { continue };
            if client.wants_write {
                // The poller would report it in every turn.
                client.wants_write = false;
                client.broken |=
                    self.poller.modify(&client.socket, u64::from(place), Interest::Read).is_err();
            }
            if client.broken {
                client.in_write_list = false;
                self.clients.to_drop.push(place);
                continue;
            }
            client.awaits_disk = true;
            let has_written = std::mem::take(&mut client.session.has_written);
            clients.push(HeldClient { place, id: client.session.id(), has_written });
        }
        self.clients.to_write = list;
        self.reply_hold.groups.push_back(Group { offset, clients });
        self.engine.ask_for_disk(self.slot, offset);
    }

    /// Whether held replies can be sent. To be checked before the loop sleeps: the notifier does
    /// not report what happened before it was asked for.
    #[inline]
    pub(crate) fn can_release(&self) -> bool {
        let first = self.reply_hold.groups.front();
        first.is_some_and(|group| self.engine.progress_on_disk(group.offset).is_some())
    }

    /// Sends the held replies that are durable by now.
    #[inline]
    pub(crate) fn release_replies(&mut self) {
        if self.reply_hold.holds_any() {
            self.release_durable();
        }
    }

    #[cold]
    fn release_durable(&mut self) {
        while let Some(group) = self.reply_hold.groups.front() {
            let Some(settled) = self.engine.progress_on_disk(group.offset) else {
                // The notifier rings once per request.
                return self.engine.ask_for_disk(self.slot, group.offset);
            };
            let Some(group) = self.reply_hold.groups.pop_front() else { return };
            // They are sent what is on disk, which may have become more just now.
            self.feed_replicas_before_replies();
            group.clients.into_iter().for_each(|held| self.release(held, settled));
        }
    }

    fn release(&mut self, held: HeldClient, settled: bool) {
        let HeldClient { place, id, has_written } = held;
        let Some(client) = self.clients.slab.get(place).filter(|client| client.session.id() == id) else {
            return;
        };
        client.awaits_disk = false;
        if client.has_deferred_input() && !client.in_resume_list {
            client.in_resume_list = true;
            self.clients.to_resume.push(place);
        }
        if settled && client.session.has_written {
            // It waited for a key and was served in the meantime: that change has to be on disk as
            // well.
            self.reply_hold.note_changes();
            return self.clients.to_write.push(place);
        }
        client.session.has_written |= has_written;
        self.report_outcome(place, settled);
        self.clients.write(&self.engine.threads[self.slot], place);
        self.update_interest(place, clock::unix_ms());
    }

    /// Waits for the disk and sends all held replies; the loop is about to end.
    pub(crate) fn release_all(&mut self) {
        if self.reply_hold.holds_any() {
            self.engine.settle_changes();
            self.release_replies();
            self.write_replies();
        }
    }

    /// Replaces the replies of a client that has changed something by an error if the disk failed:
    /// its changes can be neither confirmed nor denied.
    fn report_outcome(&mut self, place: u32, settled: bool) {
        if let Some(client) = self.clients.slab.get(place)
            && std::mem::take(&mut client.session.has_written)
            && !settled
        {
            client.reply.clear();
            client.reply.error_bytes(&self.engine.append_only.refusal().line());
            client.session.close_after_reply = true;
        }
    }
}
