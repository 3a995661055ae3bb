// SPDX-License-Identifier: BSD-3-Clause
//! A thread's counters during a pass: replies, their latencies, errors.
//!
//! HOT PATH: no allocation except for errors.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use braid_base::clock::Ticks;

use crate::reply_scanner::{Class, Sink};
use crate::tally::KindTally;

/// A thread's running counters, on a cache line of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Live {
    pub replies: AtomicU64,
    pub errors: AtomicU64,
    /// Sum of all latencies.
    pub latency_nanos: AtomicU64,
}

/// A thread's counts in a pass.
pub(crate) struct Recorder<'a> {
    pub(crate) kinds: Vec<KindTally>,
    pub(crate) error_codes: BTreeMap<String, (u64, String)>,
    pub(crate) pushes: u64,
    pub(crate) received_bytes: u64,
    /// Time of the last reply.
    pub(crate) last: Option<Ticks>,
    pub(crate) live: Option<&'a Live>,
    pub(crate) errors: u64,
    pub(crate) latency_sum: u64,
}

/// Maximum number of error codes counted separately; the rest share one name.
const ERROR_CODES_MAX: usize = 64;

impl<'a> Recorder<'a> {
    pub(crate) fn new(kinds: usize, live: Option<&'a Live>) -> Recorder<'a> {
        Recorder {
            kinds: (0..kinds).map(|_| KindTally::default()).collect(),
            error_codes: BTreeMap::new(),
            pushes: 0,
            received_bytes: 0,
            last: None,
            live,
            errors: 0,
            latency_sum: 0,
        }
    }

    #[cold]
    fn error(&mut self, text: &[u8]) {
        self.errors += 1;
        let text = String::from_utf8_lossy(text).into_owned();
        let mut code = text.split(' ').next().unwrap_or_default().to_owned();
        if self.error_codes.len() >= ERROR_CODES_MAX && !self.error_codes.contains_key(&code) {
            code = "(others)".into();
        }
        self.error_codes.entry(code).or_insert((0, text)).0 += 1;
    }

    /// Publishes the thread's counters and records the time of the last reply.
    #[inline]
    pub(crate) fn flush_live(&mut self, replies: usize, now: Ticks) {
        if replies > 0 {
            self.last = Some(now);
        }
        if let Some(live) = self.live {
            // Only this thread writes these: a store is enough.
            live.replies.store(live.replies.load(Relaxed) + replies as u64, Relaxed);
            live.errors.store(self.errors, Relaxed);
            live.latency_nanos.store(self.latency_sum, Relaxed);
        }
    }
}

/// A sink that counts replies.
pub(crate) trait Counting: Sink {
    /// Skips the next request: it was redirected and will be sent again.
    fn skip(&mut self);
}

/// Replies in one received piece, all with the same latency (closed loop).
pub(crate) struct Replies<'a, 'b> {
    pub(crate) recorder: &'a mut Recorder<'b>,
    pub(crate) kinds: &'a mut VecDeque<u8>,
    pub(crate) latency: u64,
    pub(crate) count: usize,
}

impl Counting for Replies<'_, '_> {
    fn skip(&mut self) {
        if self.recorder.kinds.len() > 1 {
            self.kinds.pop_front();
        }
    }
}

impl Replies<'_, '_> {
    /// Records the counts; returns the number of replies.
    #[inline]
    pub(crate) fn finish(self, now: Ticks) -> usize {
        if let [only] = self.recorder.kinds.as_mut_slice()
            && self.count > 0
        {
            only.latency.saturating_record_n(self.latency, self.count as u64);
            only.replies += self.count as u64;
        }
        self.recorder.latency_sum += self.latency * self.count as u64;
        self.recorder.flush_live(self.count, now);
        self.count
    }
}

impl Sink for Replies<'_, '_> {
    #[inline]
    fn replies(&mut self, class: Class, count: usize) {
        self.count += count;
        match self.recorder.kinds.as_mut_slice() {
            // Recorded together at the end.
            [only] => only.count_class(class, count as u64),
            several => {
                for _ in 0..count {
                    let kind = self.kinds.pop_front().unwrap_or(0);
                    if let Some(kind) = several.get_mut(usize::from(kind)) {
                        kind.count_class(class, 1);
                        kind.replies += 1;
                        kind.latency.saturating_record(self.latency);
                    }
                }
            }
        }
    }

    fn error(&mut self, text: &[u8]) {
        self.recorder.error(text);
    }

    fn push(&mut self) {
        self.recorder.pushes += 1;
    }
}

/// Replies of an open loop: each has its own due time.
pub(crate) struct DueReplies<'a, 'b> {
    pub(crate) now: u64,
    pub(crate) recorder: &'a mut Recorder<'b>,
    pub(crate) kinds: &'a mut VecDeque<u8>,
    pub(crate) due: &'a mut VecDeque<u64>,
    pub(crate) count: usize,
}

impl Counting for DueReplies<'_, '_> {
    fn skip(&mut self) {
        self.due.pop_front();
        if self.recorder.kinds.len() > 1 {
            self.kinds.pop_front();
        }
    }
}

impl Sink for DueReplies<'_, '_> {
    fn replies(&mut self, class: Class, count: usize) {
        self.count += count;
        let several = self.recorder.kinds.len() > 1;
        for _ in 0..count {
            let Some(due) = self.due.pop_front() else { return };
            let latency = self.now.saturating_sub(due);
            let kind = if several { self.kinds.pop_front().unwrap_or(0) } else { 0 };
            if let Some(kind) = self.recorder.kinds.get_mut(usize::from(kind)) {
                kind.count_class(class, 1);
                kind.replies += 1;
                kind.latency.saturating_record(latency);
            }
            self.recorder.latency_sum += latency;
        }
    }

    fn error(&mut self, text: &[u8]) {
        self.recorder.error(text);
    }

    fn push(&mut self) {
        self.recorder.pushes += 1;
    }
}
