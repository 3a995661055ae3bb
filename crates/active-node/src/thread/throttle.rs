// SPDX-License-Identifier: BSD-3-Clause
//! Throttles writers for peers that cannot keep up (`active-lag-max`), and for this thread
//! itself.
//!
//! Local writes are first read from the journal by this thread, then written to the log, then
//! pulled and applied by peers. Each may be slower than the clients, and the lag would then grow
//! as long as they write. So writes pause while the lag of a peer exceeds the limit, if the peer is
//! present and has kept up before, and resume at half the limit. A peer that is away or returning
//! is not waited for. Without any link, what is unread is limited all the same, in time and in
//! memory: a crash would lose it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::unix_ms;
use braid_clients::pause::{PauseMode, Purpose};

use super::{BEHIND_MAX, Thread};

/// Maximum age of changes that this thread has not read, in ms. With the interval of syncs it
/// bounds what a power failure takes.
const UNREAD_MAX_MS: u64 = 250;
/// Longest pause of writers, unless it is renewed.
const THROTTLE_MS: i64 = 1000;
/// Maximum number of recorded journal ends.
const MARKS_MAX: usize = 4096;

/// Journal ends with the times at which they were seen, to tell how late the journal is read.
#[derive(Default)]
pub(super) struct Marks(VecDeque<(u64, i64)>);

impl Marks {
    fn note(&mut self, end: u64, now_ms: i64) {
        let is_new = self.0.back().is_none_or(|&(before, at_ms)| end > before && now_ms > at_ms);
        if is_new && self.0.len() < MARKS_MAX {
            self.0.push_back((end, now_ms));
        }
    }

    /// Minimum age, in ms, of the next unread change.
    fn lag_ms(&mut self, read: u64, now_ms: i64) -> u64 {
        while self.0.front().is_some_and(|&(end, _)| end <= read) {
            self.0.pop_front();
        }
        self.0.front().map_or(0, |&(_, at_ms)| now_ms.saturating_sub(at_ms).max(0) as u64)
    }
}

impl Thread<'_> {
    /// Starts, renews or ends the pause of writers.
    pub(super) fn throttle(&mut self) {
        let now_ms = unix_ms();
        let (end, read) = (self.engine.keyspace.journal.end(), self.reader.position());
        self.marks.note(end, now_ms);
        let unread_ms = self.marks.lag_ms(read, now_ms);
        let was_throttling = self.throttled_until_ms > 0;
        let part = if was_throttling { 2 } else { 1 };
        let bound_ms = self.engine.config.active_lag_max_ms();
        let of_peers = || self.active.outbox.lock().lag_ms(bound_ms, now_ms);
        let (log_ms, log_bytes) = self.disk.behind(now_ms);
        let lag_ms = match bound_ms {
            0 => None,
            // Peers' units wait for the unread part of the journal, too.
            _ => of_peers().map(|lag_ms| lag_ms + unread_ms).or(self.active.has_link().then_some(unread_ms)),
        };
        // What is not in the log is not sent.
        let is_behind = lag_ms.is_some_and(|lag_ms| lag_ms.max(log_ms) > bound_ms / part);
        let is_late = unread_ms > UNREAD_MAX_MS / part;
        if is_behind || is_late || end.saturating_sub(read) + log_bytes > BEHIND_MAX / part {
            self.begin_throttle(lag_ms, now_ms);
        } else if was_throttling {
            self.throttled_until_ms = 0;
            let engine = self.engine;
            engine.clients.pause.end(&engine.attention, &engine.clients.mailboxes, Purpose::Peers);
        }
    }

    fn begin_throttle(&mut self, lag_ms: Option<u64>, now_ms: i64) {
        if now_ms < self.throttled_until_ms - THROTTLE_MS / 2 {
            return;
        }
        if self.throttled_until_ms == 0 && self.active.figures.throttled.fetch_add(1, Relaxed) == 0 {
            // Logged once: under load it comes and goes.
            match lag_ms {
                Some(lag_ms) => {
                    log::warn!("Active-active: writes wait for a peer that is {lag_ms} ms behind")
                }
                None => log::warn!("Active-active: writes wait until the journal has been read"),
            }
        }
        self.throttled_until_ms = now_ms + THROTTLE_MS;
        let engine = self.engine;
        let until_ms = self.throttled_until_ms;
        engine.clients.pause.begin(&engine.attention, Purpose::Peers, PauseMode::Write, until_ms, now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_late_the_journal_is_read() {
        let mut marks = Marks::default();
        assert_eq!(marks.lag_ms(0, 100), 0);
        marks.note(10, 100);
        marks.note(20, 100);
        marks.note(30, 105);
        assert_eq!(marks.lag_ms(0, 107), 7);
        assert_eq!(marks.lag_ms(10, 107), 2);
        assert_eq!(marks.lag_ms(30, 107), 0);
        marks.note(30, 110);
        assert_eq!(marks.lag_ms(30, 120), 0);
    }
}
