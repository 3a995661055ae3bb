// SPDX-License-Identifier: BSD-3-Clause
//! Pacing: when the kernel may briefly hold back the end of a loop's stream to its replicas.
//!
//! A packet costs the primary far more than its bytes, and if the replica is on the same machine,
//! waking it costs as much again. Therefore under a high rate of changes the kernel coalesces the
//! output of several turns. The kernel has the bytes before clients have their replies, and sends
//! them even if this process dies.
//!
//! Nothing is held back while the stream is slow. An acknowledgement request to the replicas is
//! sent at once, together with everything before it.

/// How long bytes are held back while the loop is busy.
const HOLD_NANOS: u64 = 500_000;
/// The same for an idle loop, in milliseconds: the shortest time a loop can sleep.
const HOLD_MS: i64 = 1;
/// The minimum interval over which the speed of the stream is measured.
const PERIOD_NANOS: u64 = 1_000_000;
/// A stream at or below this rate is sent at once. A client that waits for the reply to each
/// small change cannot exceed it.
const FAST_BYTES_PER_MS: u64 = 6144;
/// How long after an acknowledgement request more are expected (WAIT, synchronous writes).
const ASKED_NANOS: u64 = 1_000_000_000;
/// During that time bytes are held back for at most this long.
const ASKED_HOLD_NANOS: u64 = 100_000;

/// The pacing of a loop's stream.
#[derive(Default)]
pub(super) struct Pacing {
    /// The start of the measuring period, and the stream's offset at that time.
    since: u64,
    from: u64,
    is_fast: bool,
    /// When the kernel began to hold bytes back.
    held_since: Option<u64>,
    /// How long it may hold them.
    hold: u64,
    /// Nothing before this offset is held back.
    pushed: u64,
    /// The offset of the last acknowledgement request, and when it was first seen.
    asked_at: u64,
    asked: u64,
}

/// The inputs of a pacing decision.
#[derive(Clone, Copy)]
pub(super) struct Circumstances {
    /// Nanoseconds on any monotonic clock.
    pub now: u64,
    /// The offset up to which the journal may be sent.
    pub end: u64,
    /// The end offset of the last acknowledgement request.
    pub asked_at: u64,
}

impl Pacing {
    /// Whether the kernel may hold back the bytes that it gets now. If not, everything held back
    /// so far must also be sent.
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

    /// Records whether bytes are held back under these circumstances.
    pub(super) fn note(&mut self, holds: bool, circumstances: Circumstances) {
        self.held_since = holds.then(|| self.held_since.unwrap_or(circumstances.now));
        if !holds {
            self.pushed = circumstances.end;
        }
    }

    /// Whether bytes are held back that must be sent now.
    pub(super) fn must_push(&self, now: u64, asked_at: u64) -> bool {
        self.is_asked(asked_at) || self.held_since.is_some_and(|since| now - since >= self.hold)
    }

    /// Whether bytes are held back and an acknowledgement request is among them or follows them.
    pub(super) fn is_asked(&self, asked_at: u64) -> bool {
        self.is_holding() && asked_at > self.pushed
    }

    /// How many milliseconds the loop may sleep, if bytes are held back.
    pub(super) fn patience_ms(&self) -> Option<i64> {
        self.is_holding().then_some(if self.hold < HOLD_NANOS { 0 } else { HOLD_MS })
    }

    /// Whether bytes are held back.
    pub(super) fn is_holding(&self) -> bool {
        self.held_since.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Microseconds of a turn, and the bytes of changes per turn that make a stream just fast
    /// enough.
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

        /// Runs turns with `bytes` of changes each. Returns whether the last turn's bytes were
        /// held back.
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
        // After a turn that sends, all turns that begin within the hold time hold.
        let held: Vec<_> = (0..12).map(|_| rig.turns(1, FAST)).collect();
        assert_eq!(held, [[true; 5].as_slice(), &[false], &[true; 5], &[false]].concat());
        assert!(rig.turns(1, FAST) && !rig.must_push());
        rig.pass(499);
        assert!(!rig.must_push());
        rig.pass(1);
        assert!(rig.must_push(), "held bytes must be pushed even without changes");
        assert!(!rig.turns(1, 0));
    }

    #[test]
    fn slow_stream_is_sent_immediately() {
        let mut rig = Rig::busy();
        rig.turns(20, FAST - 2);
        assert!(!(0..1000).any(|_| rig.turns(1, FAST - 2)));
        // One large change does not make the stream fast, and neither do many after a pause.
        rig.pass(1_000_000);
        assert!(!rig.turns(1, FAST * 1000));
        assert!((0..30).any(|_| rig.turns(1, FAST)), "some turns are held after many changes");
    }

    #[test]
    fn acknowledgement_request_is_sent_immediately() {
        let mut rig = Rig::busy();
        rig.turns(20, 2 * FAST);
        while !rig.turns(1, 2 * FAST) {}
        assert_eq!(rig.pacing.patience_ms(), Some(1));
        // Held back before it is known as a request, as can happen between two threads.
        rig.circumstances.asked_at = rig.circumstances.end;
        assert!(rig.must_push());
        assert!(!rig.turns(1, 0) && !rig.must_push());
        // Known before it may be sent, and while nothing is held back.
        rig.circumstances.asked_at = rig.circumstances.end + 2 * FAST + 1;
        assert!(!rig.turns(1, 2 * FAST) && !rig.turns(1, 2 * FAST));
        // For a second after the request, bytes are held back for a tenth of the time, and the
        // loop does not sleep.
        for _ in 0..4_000 {
            assert!(rig.turns(1, 2 * FAST) && rig.pacing.patience_ms() == Some(0));
            assert!(!rig.turns(1, 2 * FAST) && rig.pacing.patience_ms().is_none());
        }
        rig.turns(2_000, 2 * FAST);
        while rig.turns(1, 2 * FAST) {}
        assert!((0..5).all(|_| rig.turns(1, 2 * FAST)));
        // The initial state, before any acknowledgement request.
        rig.circumstances.asked_at = 0;
        rig.pacing = Pacing::default();
        rig.turns(20, 2 * FAST);
        while rig.turns(1, 2 * FAST) {}
        assert!((0..5).all(|_| rig.turns(1, 2 * FAST)));
    }
}
