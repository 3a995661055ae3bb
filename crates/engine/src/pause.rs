//! CLIENT PAUSE: holding back commands, or only writes, until a time.

use parking_lot::Mutex;

/// Which commands are held back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PauseMode {
    Write,
    All,
}

/// The pause in force.
#[derive(Default)]
pub struct Pause(Mutex<Option<(PauseMode, i64)>>);

impl Pause {
    /// Pauses until `until_ms`. A pause in force is never made weaker or shorter.
    pub fn start(&self, mode: PauseMode, until_ms: i64, now_ms: i64) {
        let mut pause = self.0.lock();
        *pause = match pause.filter(|(_, until)| *until > now_ms) {
            Some((old_mode, old_until)) => Some((old_mode.max(mode), old_until.max(until_ms))),
            None => Some((mode, until_ms)),
        };
    }

    /// Ends the pause.
    pub fn end(&self) {
        *self.0.lock() = None;
    }

    /// The pause in force at `now_ms`, with its end.
    pub fn current(&self, now_ms: i64) -> Option<(PauseMode, i64)> {
        self.0.lock().filter(|(_, until)| *until > now_ms)
    }
}
