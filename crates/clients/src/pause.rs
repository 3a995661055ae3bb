// SPDX-License-Identifier: BSD-3-Clause
//! Holding back commands, or only writes, until a time: CLIENT PAUSE, and the server's end or a
//! failover while replicas catch up.

use braid_base::clock::unix_ms;
use parking_lot::Mutex;

use crate::attention::{Attention, PAUSED};
use crate::mailboxes::Mailboxes;
use crate::record::Message;

/// Which commands are held back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PauseMode {
    Write,
    All,
}

/// What for: each is begun and ended by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A client wants it.
    Client,
    /// The server is about to end.
    Shutdown,
    /// A replica is to take this primary's place.
    Failover,
}

/// The pauses in force, by purpose.
#[derive(Default)]
pub struct Pause(Mutex<[Option<(PauseMode, i64)>; 3]>);

impl Pause {
    /// Pauses until `until_ms`. A pause in force is never made weaker or shorter.
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

    /// Forgets pauses whose time is over at `now_ms`. True if there was one.
    fn forget_ended(&self, now_ms: i64) -> bool {
        let mut pauses = self.0.lock();
        let mut ended = false;
        for pause in pauses.iter_mut() {
            ended |= pause.take_if(|(_, until)| *until <= now_ms).is_some();
        }
        ended
    }

    /// What is in force at `now_ms`: the strongest, and when that ends.
    pub fn current(&self, now_ms: i64) -> Option<(PauseMode, i64)> {
        self.0.lock().iter().flatten().filter(|(_, until)| *until > now_ms).max().copied()
    }
    /// Begins a pause. One in force is never made weaker or shorter.
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

    /// Ends a pause: what it held back goes on, unless another pause holds it.
    pub fn end(&self, attention: &Attention, mailboxes: &Mailboxes, purpose: Purpose) {
        self.stop(purpose);
        self.follow(attention, mailboxes, unix_ms());
    }

    /// Ends the pauses whose time is over.
    pub fn end_in_time(&self, attention: &Attention, mailboxes: &Mailboxes, now_ms: i64) {
        if attention.get() & PAUSED != 0 && self.forget_ended(now_ms) {
            self.follow(attention, mailboxes, now_ms);
        }
    }

    /// Has the attention word and the loops follow the pauses in force.
    fn follow(&self, attention: &Attention, mailboxes: &Mailboxes, now_ms: i64) {
        // In this order: a pause that begins meanwhile is not left in force with its bit cleared.
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
