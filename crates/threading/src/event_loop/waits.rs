// SPDX-License-Identifier: BSD-3-Clause
//! The end of a client's wait: timeouts, CLIENT UNBLOCK, and resuming the client.
//!
//! Ending a wait removes the client from key queues, which needs the gate. If a long script has
//! stopped the world, that work is put aside ([`AfterScript`]) and done in a later turn.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock;
use braid_executor::blocking::WaitEnd;

use super::EventLoop;

/// Work that needs keys and was deferred because a script had stopped the world.
///
/// It refers to clients by place, so no client may leave the loop until it is empty.
#[derive(Default)]
pub(super) struct AfterScript {
    ends: Vec<(Vec<u32>, WaitEnd)>,
    pub(super) drops: Vec<u32>,
}

impl AfterScript {
    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.drops.is_empty()
    }
}

impl EventLoop {
    /// Does the work that was deferred because of a script.
    pub(super) fn do_after_script(&mut self) {
        if self.after_script.is_empty() {
            return;
        }
        let AfterScript { ends, drops } = std::mem::take(&mut self.after_script);
        for (places, end) in ends {
            self.give_up_waiting(&places, end);
        }
        for place in drops {
            self.drop_client(place);
        }
    }

    /// Ends the waits that have timed out.
    pub(super) fn end_waits(&mut self, now: i64) {
        let mut over = Vec::new();
        while let Some(&(deadline, place)) = self.clients.deadlines.first()
            && deadline <= now
        {
            self.clients.deadlines.pop_first();
            let Some(client) = self.clients.slab.get(place) else { continue };
            if client.is_delayed() {
                self.resume_one(place);
                continue;
            }
            // If the claim fails, another thread is serving the client and the reply is in
            // flight.
            if client.session.blocked.as_ref().is_some_and(|blocked| blocked.claim()) {
                over.push(place);
            }
        }
        if !over.is_empty() {
            self.give_up_waiting(&over, WaitEnd::Timeout);
            self.execute_and_write();
        }
    }

    /// Answers clients whose waits were claimed before they were served.
    pub(super) fn give_up_waiting(&mut self, places: &[u32], end: WaitEnd) {
        if !self.enter() {
            self.after_script.ends.push((places.to_vec(), end));
            return;
        }
        let engine = Arc::clone(&self.engine);
        for &place in places {
            let Some(client) = self.clients.slab.get(place) else { continue };
            let Some(blocked) = client.session.blocked.take() else { continue };
            blocked.leave(&engine, &mut self.worker);
            if blocked.runs_again(end) {
                self.run_blocked_again(place, &blocked);
                continue;
            }
            blocked.give_up(&engine, &self.worker, &client.session, &mut client.reply, end);
            if end == WaitEnd::RoleChange {
                client.session.close();
            }
            self.clients.deadlines.remove(&(blocked.deadline_ms, place));
            self.resume_after_wait(place);
        }
        engine.keyspace.gate.leave(self.slot);
    }

    /// Resumes a client whose wait is over: sends the reply and schedules its deferred input.
    pub(super) fn resume_after_wait(&mut self, place: u32) {
        let Some(client) = self.clients.slab.get(place) else { return };
        client.session.record.last_active_ms.store(clock::unix_ms(), Relaxed);
        if !client.listed.to_write && !client.reply.is_empty() {
            client.listed.to_write = true;
            self.clients.to_write.push(place);
        }
        if !client.listed.to_resume {
            client.listed.to_resume = true;
            self.clients.to_resume.push(place);
        }
    }
}
