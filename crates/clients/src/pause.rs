// SPDX-License-Identifier: BSD-3-Clause
//! Pausing of commands, or of writes only, until a deadline: CLIENT PAUSE, shutdown and failover
//! while replicas catch up, and throttling of writers.

use braid_base::clock::unix_ms;
use parking_lot::Mutex;

use crate::attention::{Attention, PAUSED};
use crate::mailboxes::Mailboxes;
use crate::record::Message;

/// The commands to pause.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PauseMode {
    Write,
    /// Commands that read or write the dataset.
    Data,
    All,
}

/// The purpose of a pause; pauses of different purposes are independent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// CLIENT PAUSE.
    Client,
    /// Shutdown.
    Shutdown,
    /// FAILOVER.
    Failover,
    /// A replica that cannot keep up.
    Throttle,
    /// A peer of active-active replication that cannot keep up, or its local thread.
    Peers,
    /// A full copy from a peer is being merged.
    Copy,
}

/// Active pauses, by purpose.
#[derive(Default)]
pub struct Pause(Mutex<[Option<(PauseMode, i64)>; 6]>);

impl Pause {
    /// Pauses until `until_ms`. An active pause is never weakened or shortened.
    fn start(&self, purpose: Purpose, mode: PauseMode, until_ms: i64, now_ms: i64) {
        let pause = &mut self.0.lock()[purpose as usize];
        *pause = match pause.filter(|(_, until)| *until > now_ms) {
            Some((old_mode, old_until)) => Some((old_mode.max(mode), old_until.max(until_ms))),
            None => Some((mode, until_ms)),
        };
    }

    fn stop(&self, purpose: Purpose) {
        self.0.lock()[purpose as usize] = None;
    }

    /// Removes pauses that have ended at `now_ms`. True if there were any.
    fn forget_ended(&self, now_ms: i64) -> bool {
        let mut pauses = self.0.lock();
        let mut ended = false;
        for pause in pauses.iter_mut() {
            ended |= pause.take_if(|(_, until)| *until <= now_ms).is_some();
        }
        ended
    }

    /// The strongest pause at `now_ms`, and its end.
    pub fn current(&self, now_ms: i64) -> Option<(PauseMode, i64)> {
        self.0.lock().iter().flatten().filter(|(_, until)| *until > now_ms).max().copied()
    }
    /// Starts a pause. An active pause is never weakened or shortened.
    pub fn begin(
        &self,
        attention: &Attention,
        purpose: Purpose,
        mode: PauseMode,
        until_ms: i64,
        now_ms: i64,
    ) {
        self.start(purpose, mode, until_ms, now_ms);
        attention.set(PAUSED, true);
    }

    /// Ends a pause. Paused commands resume, unless another pause applies.
    pub fn end(&self, attention: &Attention, mailboxes: &Mailboxes, purpose: Purpose) {
        self.stop(purpose);
        self.follow(attention, mailboxes, unix_ms());
    }

    /// Ends pauses whose deadline has passed.
    pub fn end_in_time(&self, attention: &Attention, mailboxes: &Mailboxes, now_ms: i64) {
        if attention.get() & PAUSED != 0 && self.forget_ended(now_ms) {
            self.follow(attention, mailboxes, now_ms);
        }
    }

    /// Updates the attention word and notifies the loops.
    fn follow(&self, attention: &Attention, mailboxes: &Mailboxes, now_ms: i64) {
        // In this order, so that a pause that starts in between keeps its bit.
        attention.set(PAUSED, false);
        if self.current(now_ms).is_some() {
            attention.set(PAUSED, true);
        }
        mailboxes.tell_all(|| Message::Resume);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_is_in_force_until_it_ends() {
        let pause = Pause::default();
        assert_eq!(pause.current(0), None);
        pause.start(Purpose::Shutdown, PauseMode::Write, i64::MAX, 10);
        pause.start(Purpose::Client, PauseMode::All, 50, 10);
        pause.start(Purpose::Client, PauseMode::Write, 40, 10);
        assert_eq!(pause.current(49), Some((PauseMode::All, 50)));
        assert_eq!(pause.current(50), Some((PauseMode::Write, i64::MAX)));
        assert!(!pause.forget_ended(49) && pause.forget_ended(50) && !pause.forget_ended(50));
        assert_eq!(pause.current(50), Some((PauseMode::Write, i64::MAX)));
        pause.start(Purpose::Client, PauseMode::Write, 70, 60);
        assert_eq!(pause.current(60), Some((PauseMode::Write, i64::MAX)));
        pause.stop(Purpose::Shutdown);
        assert_eq!(pause.current(60), Some((PauseMode::Write, 70)));
        pause.stop(Purpose::Client);
        assert_eq!(pause.current(60), None);
    }
}
