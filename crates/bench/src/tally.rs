// SPDX-License-Identifier: BSD-3-Clause
//! The tally of a pass: latencies, replies, errors, bytes and processor time, per thread or in
//! total.

use std::collections::BTreeMap;
use std::time::Duration;

use braid_base::clock::Ticks;

use crate::reply_scanner::Class;

/// Latencies in nanoseconds.
pub type Histogram = hdrhistogram::Histogram<u64>;

/// A histogram from 1 ns to 100 s with three significant digits (an error of 0.1 %).
pub fn new_histogram() -> Histogram {
    Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("valid bounds")
}

/// One kind of request.
#[derive(Clone, Debug)]
pub struct KindTally {
    pub latency: Histogram,
    pub replies: u64,
    /// Null replies.
    pub misses: u64,
    pub errors: u64,
}

impl Default for KindTally {
    fn default() -> KindTally {
        KindTally { latency: new_histogram(), replies: 0, misses: 0, errors: 0 }
    }
}

impl KindTally {
    #[inline]
    pub(crate) fn count_class(&mut self, class: Class, count: u64) {
        match class {
            Class::Value => {}
            Class::Nil => self.misses += count,
            Class::Error => self.errors += count,
        }
    }

    fn add(&mut self, other: &KindTally) {
        self.latency.add(&other.latency).expect("same bounds");
        self.replies += other.replies;
        self.misses += other.misses;
        self.errors += other.errors;
    }
}

/// Counts of one pass.
#[derive(Clone, Debug)]
pub struct Tally {
    pub kinds: Vec<KindTally>,
    /// Error codes (first words) with their count and one full text.
    pub error_codes: BTreeMap<String, (u64, String)>,
    /// Push messages received.
    pub pushes: u64,
    pub received_bytes: u64,
    pub sent_bytes: u64,
    /// Time of the first request and of the last reply.
    pub begun: Ticks,
    pub ended: Ticks,
    /// Processor time of the generator's threads.
    pub processor: Duration,
    /// Number of waits for events.
    pub waits: u64,
    /// Open loop: requests that were due but could not be sent before the end.
    pub unsent: u64,
    /// Cluster: requests that were redirected to another node.
    pub redirected: u64,
    /// Open loop: delay of requests caused by the generator itself (ns).
    pub lag: Histogram,
}

impl Tally {
    /// An empty tally.
    pub fn empty() -> Tally {
        let now = Ticks::now();
        Tally {
            kinds: Vec::new(),
            error_codes: BTreeMap::new(),
            pushes: 0,
            received_bytes: 0,
            sent_bytes: 0,
            begun: now,
            ended: now,
            processor: Duration::ZERO,
            waits: 0,
            unsent: 0,
            redirected: 0,
            lag: new_histogram(),
        }
    }

    /// Adds another thread's counts of the same pass.
    pub fn add(&mut self, other: &Tally) {
        for (own, other) in self.kinds.iter_mut().zip(&other.kinds) {
            own.add(other);
        }
        for (code, (count, text)) in &other.error_codes {
            self.error_codes.entry(code.clone()).or_insert((0, text.clone())).0 += count;
        }
        self.pushes += other.pushes;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.begun = self.begun.min(other.begun);
        self.ended = self.ended.max(other.ended);
        self.processor += other.processor;
        self.waits += other.waits;
        self.unsent += other.unsent;
        self.redirected += other.redirected;
        self.lag.add(&other.lag).expect("same bounds");
    }

    /// From the first request to the last reply.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.ended.nanos_since(self.begun))
    }

    pub fn replies(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.replies).sum()
    }

    /// Error replies, including those within arrays.
    pub fn errors(&self) -> u64 {
        self.error_codes.values().map(|(count, _)| count).sum()
    }

    /// Latencies of all kinds together.
    pub fn latency(&self) -> Histogram {
        let mut all = new_histogram();
        self.kinds.iter().for_each(|kind| all.add(&kind.latency).expect("same bounds"));
        all
    }

    /// Replies per second.
    pub fn throughput(&self) -> f64 {
        let seconds = self.elapsed().as_secs_f64();
        if seconds > 0.0 { self.replies() as f64 / seconds } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_to_a_thousandth() {
        let mut histogram = new_histogram();
        (1..=1_000_000u64).for_each(|micros| histogram.record(micros * 1000).unwrap());
        for (quantile, expected) in [(0.5, 5e8), (0.99, 9.9e8), (0.999, 9.99e8), (1.0, 1e9)] {
            let measured = histogram.value_at_quantile(quantile) as f64;
            assert!((measured / expected - 1.0).abs() < 1.1e-3, "{quantile}: {measured}");
        }
        // Values beyond the range are recorded at its end, not dropped.
        histogram.saturating_record(u64::MAX);
        assert_eq!(histogram.len(), 1_000_001);
    }

    #[test]
    fn threads_add_up() {
        let tally = |latency: u64, replies: u64| {
            let mut kind = KindTally { replies, misses: 1, ..KindTally::default() };
            kind.latency.record_n(latency, replies).unwrap();
            let now = Ticks::now();
            Tally {
                kinds: vec![kind],
                error_codes: [("MOVED".to_owned(), (2, "MOVED 1 x".to_owned()))].into(),
                begun: now,
                ended: now,
                unsent: 1,
                ..Tally::empty()
            }
        };
        let mut sum = tally(1000, 3);
        std::thread::sleep(Duration::from_millis(2));
        sum.add(&tally(2000, 1));
        assert_eq!((sum.replies(), sum.errors(), sum.kinds[0].misses, sum.unsent), (4, 4, 2, 2));
        assert_eq!(sum.latency().len(), 4);
        assert!(sum.elapsed() >= Duration::from_millis(2));
        assert!(sum.throughput() > 0.0 && sum.throughput() <= 2000.0);
    }
}
