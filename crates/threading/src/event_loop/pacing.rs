// SPDX-License-Identifier: BSD-3-Clause
//! Pacing: when the kernel may keep back the end of a loop's stream to its replicas for a moment.
//!
//! A packet costs the primary far more than the bytes in it, and if the replica is on the same
//! machine, waking it costs as much again. So while many changes are made, the kernel collects
//! those of several turns. It has the bytes before clients have their replies, and sends them even
//! if this process dies.
//!
//! Nothing is kept back while the stream is slow. A question how far replicas are is sent at once,
//! with all that is before it.

/// How long bytes are kept back while the loop is busy.
const HOLD_NANOS: u64 = 500_000;
/// The same, in milliseconds, for a loop that has nothing to do: as short as a loop can sleep.
const HOLD_MS: i64 = 1;
/// The speed of the stream is measured over no shorter times.
const PERIOD_NANOS: u64 = 1_000_000;
/// A stream that is not faster goes out at once. A client that waits for the reply to each small
/// change cannot make more.
const FAST_BYTES_PER_MS: u64 = 6144;
/// After a question to the replicas more are likely for so long: WAIT, synchronous writes.
const ASKED_NANOS: u64 = 1_000_000_000;
/// Meanwhile bytes are kept back for no longer than this.
const ASKED_HOLD_NANOS: u64 = 100_000;

/// The pacing of a loop's stream.
#[derive(Default)]
pub(super) struct Pacing {
    /// When the period began, and where the stream was then.
    since: u64,
    from: u64,
    is_fast: bool,
    /// Since when the kernel keeps bytes back.
    held_since: Option<u64>,
    /// For how long it may.
    hold: u64,
    /// Nothing before this is kept back.
    pushed: u64,
    /// The last question to the replicas, and when it was first seen.
    asked_at: u64,
    asked: u64,
}

/// The circumstances that pacing depends on.
#[derive(Clone, Copy)]
pub(super) struct Circumstances {
    /// Nanoseconds on any clock that only grows.
    pub now: u64,
    /// How far the journal may be sent.
    pub end: u64,
    /// The end of the last question to the replicas.
    pub asked_at: u64,
}

impl Pacing {
    /// Whether the kernel may keep back what it gets now. If not, it must keep nothing back any
    /// longer.
    pub(super) fn may_hold(&mut self, circumstances: Circumstances) -> bool {
        let Circumstances { now, end, asked_at } = circumstances;
        let must_push = asked_at > self.pushed || self.must_push(now, asked_at);
        if asked_at != self.asked_at {
            (self.asked_at, self.asked) = (asked_at, now);
        }
        let is_asked = asked_at != 0 && now - self.asked < ASKED_NANOS;
        self.hold = if is_asked { ASKED_HOLD_NANOS } else { HOLD_NANOS };
        let nanos = now - self.since;
        if nanos >= PERIOD_NANOS {
            let bytes = end.saturating_sub(self.from);
            self.is_fast = bytes.saturating_mul(1_000_000) / nanos > FAST_BYTES_PER_MS;
            (self.since, self.from) = (now, end);
        }
        self.is_fast && !must_push
    }

    /// Records whether bytes are kept back in these circumstances.
    pub(super) fn note(&mut self, holds: bool, circumstances: Circumstances) {
        self.held_since = holds.then(|| self.held_since.unwrap_or(circumstances.now));
        if !holds {
            self.pushed = circumstances.end;
        }
    }

    /// Whether bytes are kept back that must be sent now.
    pub(super) fn must_push(&self, now: u64, asked_at: u64) -> bool {
        self.is_asked(asked_at) || self.held_since.is_some_and(|since| now - since >= self.hold)
    }

    /// Whether bytes are kept back, and a question to the replicas is among them or follows.
    pub(super) fn is_asked(&self, asked_at: u64) -> bool {
        self.is_holding() && asked_at > self.pushed
    }

    /// For how many milliseconds the loop may sleep, if bytes are kept back.
    pub(super) fn patience_ms(&self) -> Option<i64> {
        self.is_holding().then_some(if self.hold < HOLD_NANOS { 0 } else { HOLD_MS })
    }

    /// Whether bytes are kept back.
    pub(super) fn is_holding(&self) -> bool {
        self.held_since.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Microseconds of a turn, and the bytes of changes in it that make a stream just fast enough.
    const TURN: u64 = 100;
    const FAST: u64 = FAST_BYTES_PER_MS / 10 + 1;

    struct Rig {
        pacing: Pacing,
        circumstances: Circumstances,
    }

    impl Rig {
        /// A loop whose stream is fast.
        fn busy() -> Rig {
            let circumstances = Circumstances { now: 1 << 40, end: 1 << 30, asked_at: 7 };
            let mut rig = Rig { pacing: Pacing::default(), circumstances };
            rig.turns(20_000, FAST);
            rig
        }

        /// Makes turns with so many bytes of changes each: whether those of the last were kept
        /// back.
        fn turns(&mut self, count: usize, bytes: u64) -> bool {
            for _ in 0..count {
                self.pass(TURN);
                self.circumstances.end += bytes;
                let holds = self.pacing.may_hold(self.circumstances);
                self.pacing.note(holds, self.circumstances);
            }
            self.pacing.is_holding()
        }

        fn pass(&mut self, micros: u64) {
            self.circumstances.now += micros * 1000;
        }

        fn must_push(&self) -> bool {
            self.pacing.must_push(self.circumstances.now, self.circumstances.asked_at)
        }
    }

    #[test]
    fn a_fast_stream_is_kept_back_for_half_a_millisecond() {
        let mut rig = Rig::busy();
        while rig.turns(1, FAST) {}
        // Of the turns behind one that sends, as many hold as begin within the time.
        let held: Vec<_> = (0..12).map(|_| rig.turns(1, FAST)).collect();
        assert_eq!(held, [[true; 5].as_slice(), &[false], &[true; 5], &[false]].concat());
        assert!(rig.turns(1, FAST) && !rig.must_push());
        rig.pass(499);
        assert!(!rig.must_push());
        rig.pass(1);
        assert!(rig.must_push(), "though nothing is changed");
        assert!(!rig.turns(1, 0));
    }

    #[test]
    fn a_slow_stream_goes_out_at_once() {
        let mut rig = Rig::busy();
        rig.turns(20, FAST - 2);
        assert!(!(0..1000).any(|_| rig.turns(1, FAST - 2)));
        // One large change does not make it fast, and neither do many after a rest.
        rig.pass(1_000_000);
        assert!(!rig.turns(1, FAST * 1000));
        assert!((0..30).any(|_| rig.turns(1, FAST)), "but some are held once many were made");
    }

    #[test]
    fn a_question_to_the_replicas_is_sent_at_once() {
        let mut rig = Rig::busy();
        rig.turns(20, 2 * FAST);
        while !rig.turns(1, 2 * FAST) {}
        assert_eq!(rig.pacing.patience_ms(), Some(1));
        // Kept back before it is known as a question, as between two threads.
        rig.circumstances.asked_at = rig.circumstances.end;
        assert!(rig.must_push());
        assert!(!rig.turns(1, 0) && !rig.must_push());
        // Known before it may be sent, and while nothing is kept back.
        rig.circumstances.asked_at = rig.circumstances.end + 2 * FAST + 1;
        assert!(!rig.turns(1, 2 * FAST) && !rig.turns(1, 2 * FAST));
        // For a second after it bytes are kept back for a tenth of the time, and the loop does not
        // sleep.
        for _ in 0..4_000 {
            assert!(rig.turns(1, 2 * FAST) && rig.pacing.patience_ms() == Some(0));
            assert!(!rig.turns(1, 2 * FAST) && rig.pacing.patience_ms().is_none());
        }
        rig.turns(2_000, 2 * FAST);
        while rig.turns(1, 2 * FAST) {}
        assert!((0..5).all(|_| rig.turns(1, 2 * FAST)));
        // As of the start, when nobody has asked yet.
        rig.circumstances.asked_at = 0;
        rig.pacing = Pacing::default();
        rig.turns(20, 2 * FAST);
        while rig.turns(1, 2 * FAST) {}
        assert!((0..5).all(|_| rig.turns(1, 2 * FAST)));
    }
}
