// SPDX-License-Identifier: BSD-3-Clause
//! Replies that wait until what they tell is on disk (`appendfsync always`).
//!
//! Everything that was changed so far has to be in the append-only file, whoever changed it: nobody reads what could still be lost. A loop that sends the
//! replies to its own clients holds them back and serves others meanwhile; the thread that writes the file rings its bell. So one fsync is for
//! whatever was executed during the one before, on all threads. A client whose replies wait executes nothing more until they are sent.
//!
//! Where clients travel, and where helpers send replies, the loop itself waits, between executing and sending.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::{self, Ticks};
use braid_net::poller::Interest;

use crate::event_loop::EventLoop;
use crate::models::Model;

/// A client whose replies wait.
struct Held {
    place: u32,
    /// The place may belong to somebody else by then.
    id: u64,
    /// The replies tell of changes of its own.
    has_written: bool,
}

/// Clients whose replies may be sent together.
struct Group {
    /// The offset of the journal up to which the file has to be on disk.
    offset: u64,
    clients: Vec<Held>,
}

/// What of a loop's replies waits.
#[derive(Default)]
pub struct Settling {
    /// Something was executed since replies were sent.
    unsettled: bool,
    /// In the order of their offsets.
    groups: VecDeque<Group>,
}

impl Settling {
    /// Notes that replies may tell of changes.
    #[inline]
    pub fn note_changes(&mut self) {
        self.unsettled = true;
    }

    /// Whether replies are held back.
    #[inline]
    pub fn holds_any(&self) -> bool {
        !self.groups.is_empty()
    }
}

impl<M: Model> EventLoop<M> {
    /// Sees to it that what replies tell is on disk, if it has to be before they are sent: waits, or takes them off the list of what is to be sent.
    #[inline]
    pub(crate) fn settle_changes(&mut self) {
        if std::mem::take(&mut self.settling.unsettled) && self.engine.append_only.waits.load(Relaxed) {
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
        self.waited(Ticks::now().nanos_since(start));
        for at in 0..self.station.to_write.len() {
            self.tell_outcome(self.station.to_write[at], settled);
        }
    }

    #[cold]
    fn hold_replies(&mut self) {
        let offset = self.engine.keyspace.journal.end();
        let mut list = std::mem::take(&mut self.station.to_write);
        if let Some(settled) = self.engine.progress_on_disk(offset) {
            list.iter().for_each(|&place| self.tell_outcome(place, settled));
            self.station.to_write = list;
            return;
        }
        let mut clients = Vec::with_capacity(list.len());
        for place in list.drain(..) {
            let Some(client) = self.station.clients.get(place) else { continue };
            if client.wants_write {
                // The poller would tell again and again.
                client.wants_write = false;
                client.broken |=
                    self.poller.modify(&client.socket, u64::from(place), Interest::Read).is_err();
            }
            if client.broken {
                client.in_write_list = false;
                self.station.to_drop.push(place);
                continue;
            }
            client.awaits_disk = true;
            let has_written = std::mem::take(&mut client.session.has_written);
            clients.push(Held { place, id: client.session.id(), has_written });
        }
        self.station.to_write = list;
        self.settling.groups.push_back(Group { offset, clients });
        self.engine.ask_for_disk(self.slot, offset);
    }

    /// Whether replies can be sent that were held back. To be looked at before the loop sleeps: the bell does not tell what has happened before it
    /// was asked for.
    #[inline]
    pub(crate) fn can_release(&self) -> bool {
        let first = self.settling.groups.front();
        first.is_some_and(|group| self.engine.progress_on_disk(group.offset).is_some())
    }

    /// Sends the replies that need not wait any longer.
    #[inline]
    pub(crate) fn release_replies(&mut self) {
        if self.settling.holds_any() {
            self.release_settled();
        }
    }

    #[cold]
    fn release_settled(&mut self) {
        while let Some(group) = self.settling.groups.front() {
            let Some(settled) = self.engine.progress_on_disk(group.offset) else {
                // The bell rings once for each time that it was asked for.
                return self.engine.ask_for_disk(self.slot, group.offset);
            };
            let Some(group) = self.settling.groups.pop_front() else { return };
            group.clients.into_iter().for_each(|held| self.release(held, settled));
        }
    }

    fn release(&mut self, held: Held, settled: bool) {
        let Held { place, id, has_written } = held;
        let Some(client) = self.station.clients.get(place).filter(|client| client.session.id() == id) else {
            return;
        };
        client.awaits_disk = false;
        if client.has_kept() && !client.in_resume_list {
            client.in_resume_list = true;
            self.station.to_resume.push(place);
        }
        if settled && client.session.has_written {
            // It waited for a key and was served meanwhile: that has to be on disk as well.
            self.settling.note_changes();
            return self.station.to_write.push(place);
        }
        client.session.has_written |= has_written;
        self.tell_outcome(place, settled);
        self.station.write(&self.engine.threads[self.slot], place);
        self.update_interest(place, clock::unix_ms());
    }

    /// Waits for the disk, and sends what waited for it: the loop ends.
    pub(crate) fn release_all(&mut self) {
        if self.settling.holds_any() {
            self.engine.settle_changes();
            self.release_replies();
            self.write_replies();
        }
    }

    /// Tells a client that has changed something if it is not certain that it will be on disk: it must be told neither.
    fn tell_outcome(&mut self, place: u32, settled: bool) {
        if let Some(client) = self.station.clients.get(place)
            && std::mem::take(&mut client.session.has_written)
            && !settled
        {
            client.reply.clear();
            client.reply.error_bytes(&self.engine.append_only.refusal().line());
            client.session.close_after_reply = true;
        }
    }
}
