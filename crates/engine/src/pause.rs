// SPDX-License-Identifier: BSD-3-Clause
//! Holding back commands, or only writes, until a time: CLIENT PAUSE, and the server's end while replicas catch up.

use braid_base::clock::unix_ms;
use parking_lot::Mutex;

use crate::engine::Engine;
use braid_clients::Message;
use braid_clients::attention::PAUSED;

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
}

/// The pauses in force, by purpose.
#[derive(Default)]
pub struct Pause(Mutex<[Option<(PauseMode, i64)>; 2]>);

impl Pause {
    /// Pauses until `until_ms`. A pause in force is never made weaker or shorter.
    fn start(&self, purpose: Purpose, mode: PauseMode, until_ms: i64, now_ms: i64) {
        let pause = &mut self.0.lock()[purpose as usize];
        *pause = match pause.filter(|(_, until)| *until > now_ms) {
            Some((old_mode, old_until)) => Some((old_mode.max(mode), old_until.max(until_ms))),
            None => Some((mode, until_ms)),
        };
    }

    /// Ends a pause.
    fn end(&self, purpose: Purpose) {
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
}

impl Engine {
    /// Begins a pause. One in force is never made weaker or shorter.
    pub fn begin_pause(&self, purpose: Purpose, mode: PauseMode, until_ms: i64, now_ms: i64) {
        self.pause.start(purpose, mode, until_ms, now_ms);
        self.attention.set(PAUSED, true);
    }

    /// Ends a pause: what it held back goes on, unless another one holds it.
    pub fn end_pause(&self, purpose: Purpose) {
        self.pause.end(purpose);
        self.look_at_pauses_again(unix_ms());
    }

    /// The same for pauses whose time is over.
    pub fn end_pauses_in_time(&self, now_ms: i64) {
        if self.attention.get() & PAUSED != 0 && self.pause.forget_ended(now_ms) {
            self.look_at_pauses_again(now_ms);
        }
    }

    fn look_at_pauses_again(&self, now_ms: i64) {
        // In this order: a pause that begins meanwhile is not left in force with its bit cleared.
        self.attention.set(PAUSED, false);
        if self.pause.current(now_ms).is_some() {
            self.attention.set(PAUSED, true);
        }
        self.tell_loops(|| Message::Resume);
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
        pause.end(Purpose::Shutdown);
        assert_eq!(pause.current(60), Some((PauseMode::Write, 70)));
        pause.end(Purpose::Client);
        assert_eq!(pause.current(60), None);
    }
}
