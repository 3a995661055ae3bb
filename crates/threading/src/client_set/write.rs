// SPDX-License-Identifier: BSD-3-Clause
//! Step three: sends replies and pushes.
//!
//! HOT PATH: one send per client and turn; a contiguous reply is not copied.

use braid_clients::client_flags;
use braid_clients::record::{UNCOUNTED_REPLY, counted_reply_bytes};
use braid_executor::Engine;
use braid_notify::payload::Payload;
use braid_notify::queue::Push;
use braid_telemetry::stats::ThreadStats;

use super::{ClientSet, Relaxed, Settings, WOULD_BLOCK, add, track_for_cron};
use crate::client::Client;

/// Pending replies of at least this many bytes are sent before the client's next request is
/// executed, unless they are limited: reusing cached memory is cheaper than growing a buffer.
const SEND_EARLY: usize = 64 * 1024;
/// Maximum number of counted reply bytes for a client that has not logged in. Such a client gets
/// only errors, and must not fill memory with errors that it does not read.
const STRANGER_REPLY_MAX: u64 = 1024;

/// Growth of a reply buffer by messages that is counted in advance.
const GROWTH_MIN: usize = 16 * 1024;

/// The outcome of a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    Done,
    /// The client is away, or another reply must come first.
    Later,
    /// The client is being closed.
    Gone,
}

impl ClientSet {
    /// Schedules the replies added for a client.
    #[inline]
    pub(crate) fn replied(&mut self, engine: &Engine, slot: usize, place: u32, now_ms: i64) {
        let Some(client) = self.slab.get(place) else { return };
        let waiting = client.reply.len();
        // A visitor's replies are sent at its origin. If a limit is set, all replies to input
        // received together count together, as in Redis: a client that exceeds the limit gets
        // none of them.
        let limit = self.settings.output_limit;
        let early = waiting >= SEND_EARLY
            && !client.wants_write
            && !client.session.reply.close_after
            && client.input.parsed.is_none()
            && limit.hard_bytes == 0
            && limit.soft_bytes == 0;
        if !client.listed.to_write && (!client.reply.is_empty() || client.session.reply.close_after) {
            client.listed.to_write = true;
            self.to_write.push(place);
        }
        if waiting > UNCOUNTED_REPLY {
            let dropped = self.check_output_limit(engine, place, now_ms);
            // Not if the replies must first be durable.
            if early && !dropped && engine.sync_writes.reasons() == 0 {
                self.send_early(&engine.telemetry.threads[slot], place);
            }
        }
    }

    /// Adds a push to a client's replies.
    pub fn push(&mut self, engine: &Engine, slot: usize, place: u32, push: &Push, now_ms: i64) -> Pushed {
        let Some(client) = self.slab.get(place) else { return Pushed::Later };
        // A killed client hears nothing after the reply to the command that killed it.
        let is_killed = client.session.record.has(client_flags::CLOSE_NOW);
        if client.is_broken() || client.session.reply.close_after || is_killed {
            return Pushed::Gone;
        }
        if client.session.blocked.as_ref().is_some_and(|blocked| blocked.is_over()) {
            // The reply from the thread that serves the client comes first.
            return Pushed::Later;
        }
        if client.hold.for_members {
            // A push would be sent with the held replies, and may reveal more than they do.
            return Pushed::Later;
        }
        let Client { session, reply, .. } = client;
        if push.number < session.listener.pushes_seen {
            return Pushed::Done;
        }
        if reply.is_empty()
            && let Some(spare) = self.pool.take()
        {
            reply.reuse(spare);
        }
        let before = reply.len();
        // The memory counts as that of messages before it is allocated, and until what it replaces
        // is freed: otherwise another thread would evict keys in its favour in between.
        let growth = reply.growth(push.payload.copied_len());
        let all = &engine.clients.push_bytes;
        if growth >= GROWTH_MIN {
            all.fetch_add(growth as i64, Relaxed);
        }
        push.payload.write(&session.listener, reply);
        client.output.push_bytes += client.reply.len() - before;
        if growth >= GROWTH_MIN {
            client.count_pushes(all);
            all.fetch_sub(growth as i64, Relaxed);
        }
        client.hold.has_messages |= matches!(*push.payload, Payload::Message(_));
        self.replied(engine, slot, place, now_ms);
        Pushed::Done
    }

    /// Sends as much of a client's replies as its socket takes.
    pub fn write(&mut self, stats: &ThreadStats, place: u32) {
        let Some(client) = self.slab.get(place) else { return };
        client.listed.to_write = false;
        if client.is_broken() {
            return;
        }
        send(client, stats);
        self.written(place);
    }

    /// Follows up after a client's replies have been sent.
    #[inline]
    pub fn written(&mut self, place: u32) {
        let Some(client) = self.slab.get(place) else { return };
        if client.reply.is_empty() {
            self.pool.give(client.reply.take_spare(), self.settings.pool_max());
        }
        if client.is_finished() {
            self.to_drop.push(place);
        } else if client.listed.tracked || client.holds_memory() || client.counted_push_bytes() > 0 {
            // The cron stops counting messages that have been sent.
            client.publish_sizes(&self.client_bytes);
            track_for_cron(client, &mut self.tracked, place);
        }
    }

    /// Sends a client's pending replies in the middle of a batch; the client stays on the write
    /// list for the rest.
    #[cold]
    fn send_early(&mut self, stats: &ThreadStats, place: u32) {
        let Some(client) = self.slab.get(place) else { return };
        send(client, stats);
        if client.is_broken() {
            self.to_drop.push(place);
        }
    }

    /// Marks a client for closing if its pending replies exceed its limit. Returns true if they
    /// do.
    ///
    /// As in Redis, bytes beyond the first [`UNCOUNTED_REPLY`] count, whether or not the client
    /// would read them.
    pub fn check_output_limit(&mut self, engine: &Engine, place: u32, now_ms: i64) -> bool {
        let Settings { output_limit, listener_limit, monitor_bytes_max, tracking_bytes_max, .. } =
            self.settings;
        let Some(client) = self.slab.get(place).filter(|client| !client.is_broken()) else { return false };
        client.count_pushes(&engine.clients.push_bytes);
        let limit =
            if client.session.listener.subscriptions.is_some() { listener_limit } else { output_limit };
        let bytes = counted_reply_bytes(client.reply.len()) as u64;
        let is_stranger = bytes > STRANGER_REPLY_MAX && client.session.must_log_in();
        // One long line is not its reader's fault: a monitor counts as deaf only if its socket
        // did not take all of the earlier output.
        let is_deaf_monitor = monitor_bytes_max > 0
            && bytes > monitor_bytes_max
            && client.wants_write
            && client.session.record.has(client_flags::MONITOR);
        // Without subscriptions all messages to other clients are invalidations.
        let is_deaf_tracker = tracking_bytes_max > 0
            && client.output.push_bytes as u64 > tracking_bytes_max
            && client.wants_write
            && client.session.listener.subscriptions.is_none()
            && !client.session.record.has(client_flags::MONITOR);
        let is_deaf = is_deaf_monitor || is_deaf_tracker;
        if limit.hard_bytes == 0 && limit.soft_bytes == 0 && !is_stranger && !is_deaf {
            return false;
        }
        let hard = is_stranger || is_deaf || (limit.hard_bytes > 0 && bytes > limit.hard_bytes);
        let soft = if limit.soft_bytes > 0 && bytes > limit.soft_bytes {
            let since = *client.output.over_soft_limit_since.get_or_insert(now_ms);
            now_ms - since > i64::from(limit.soft_seconds) * 1000
        } else {
            client.output.over_soft_limit_since = None;
            false
        };
        if hard || soft {
            let record = &client.session.record;
            log::warn!(
                "Client id={} addr={} scheduled to be closed ASAP for overcoming of output buffer limits{}.",
                record.id,
                record.address,
                match (is_deaf_monitor, is_deaf_tracker) {
                    (true, _) => " (monitor-output-limit)",
                    (_, true) => " (tracking-output-limit)",
                    _ => "",
                }
            );
            let thread = record.io_thread.load(Relaxed) as usize;
            engine.telemetry.threads[thread].output_limit_disconnections.add(1);
            client.break_off();
            client.uncount(&self.client_bytes);
            self.to_drop.push(place);
        }
        hard || soft
    }
}

/// Sends as much of a client's replies as its socket takes and a turn allows.
pub fn send(client: &mut Client, stats: &ThreadStats) {
    let (mut sent, pending) = (0, client.reply.len());
    while !client.reply.is_empty() {
        let result = match client.reply.as_contiguous() {
            Some(bytes) => client.socket.send(bytes),
            None => {
                let mut slices = Vec::new();
                client.reply.io_slices(&mut slices, 64);
                client.socket.send_slices(&slices)
            }
        };
        match result {
            Ok(count) => {
                client.reply.consume(count);
                sent += count;
                if sent >= 1 << 20 {
                    // Enough for one turn: other clients are waiting.
                    break;
                }
            }
            Err(WOULD_BLOCK) => break,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => {
                client.break_off();
                break;
            }
        }
    }
    client.note_sent(pending);
    if client.socket.has_unsent()
        && let Err(error) = client.socket.flush()
        && error != WOULD_BLOCK
    {
        client.break_off();
    }
    if sent > 0 {
        add(&client.session.record.net_out, sent as u64);
        stats.writes.add(1);
        stats.net_out.add(sent as u64);
    }
}
