//! Holding back commands, or only writes, until a time: CLIENT PAUSE, and the server's end while replicas catch up.

use parking_lot::Mutex;

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
    pub fn start(&self, purpose: Purpose, mode: PauseMode, until_ms: i64, now_ms: i64) {
        let pause = &mut self.0.lock()[purpose as usize];
        *pause = match pause.filter(|(_, until)| *until > now_ms) {
            Some((old_mode, old_until)) => Some((old_mode.max(mode), old_until.max(until_ms))),
            None => Some((mode, until_ms)),
        };
    }

    /// Ends a pause.
    pub fn end(&self, purpose: Purpose) {
        self.0.lock()[purpose as usize] = None;
    }

    /// What is in force at `now_ms`: the strongest, and when that ends.
    pub fn current(&self, now_ms: i64) -> Option<(PauseMode, i64)> {
        self.0.lock().iter().flatten().filter(|(_, until)| *until > now_ms).max().copied()
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
        pause.start(Purpose::Client, PauseMode::Write, 70, 60);
        assert_eq!(pause.current(60), Some((PauseMode::Write, i64::MAX)));
        pause.end(Purpose::Shutdown);
        assert_eq!(pause.current(60), Some((PauseMode::Write, 70)));
        pause.end(Purpose::Client);
        assert_eq!(pause.current(60), None);
    }
}
