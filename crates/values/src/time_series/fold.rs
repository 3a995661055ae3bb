// SPDX-License-Identifier: BSD-3-Clause
//! Aggregators: what is kept of the samples of one bucket, and the value that follows from it.

use super::Sample;

/// An aggregator, with its number in dumps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    Min = 1,
    Max,
    Sum,
    Avg,
    Count,
    First,
    Last,
    Range,
    StdP,
    StdS,
    VarP,
    VarS,
    Twa,
}

impl Kind {
    /// All aggregators with their names.
    pub const ALL: [(Kind, &'static str); 13] = [
        (Kind::Min, "MIN"),
        (Kind::Max, "MAX"),
        (Kind::Sum, "SUM"),
        (Kind::Avg, "AVG"),
        (Kind::Count, "COUNT"),
        (Kind::First, "FIRST"),
        (Kind::Last, "LAST"),
        (Kind::Range, "RANGE"),
        (Kind::StdP, "STD.P"),
        (Kind::StdS, "STD.S"),
        (Kind::VarP, "VAR.P"),
        (Kind::VarS, "VAR.S"),
        (Kind::Twa, "TWA"),
    ];

    /// The aggregator of this name, in any case.
    pub fn named(name: &[u8]) -> Option<Kind> {
        let mut all = Kind::ALL.into_iter();
        all.find(|(_, known)| known.as_bytes().eq_ignore_ascii_case(name)).map(|(kind, _)| kind)
    }

    pub fn name(self) -> &'static str {
        Kind::ALL[self as usize - 1].1
    }

    pub(super) fn numbered(number: u64) -> Option<Kind> {
        Kind::ALL.into_iter().map(|(kind, _)| kind).find(|kind| *kind as u64 == number)
    }
}

/// The start of the bucket of a time: the greatest time not after it that is a whole number of
/// buckets from `align`, or 0.
pub fn bucket_of(time: u64, span: u64, align: u64) -> u64 {
    let span = span.max(1);
    let past = match time.checked_sub(align) {
        Some(since) => since % span,
        None => match (align - time) % span {
            0 => 0,
            until => span - until,
        },
    };
    time.saturating_sub(past)
}

/// The end of the bucket that begins here: the first one may be cut off at 0.
pub fn bucket_end(start: u64, span: u64, align: u64) -> u64 {
    match start {
        0 if !align.is_multiple_of(span.max(1)) => align % span,
        _ => start.saturating_add(span),
    }
}

/// The weighted average over time: the area under the line through the samples.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub(super) struct Area {
    pub area: f64,
    /// The last sample, of this bucket or an earlier one.
    pub last: Sample,
    pub start: u64,
    pub end: u64,
    /// Where the area begins and ends.
    pub from: u64,
    pub to: u64,
    /// There was no sample before the bucket.
    pub is_first: bool,
    pub count: u64,
}

/// The value between two samples at a time.
pub(super) fn between(one: Sample, other: Sample, time: u64) -> f64 {
    let span = other.time.saturating_sub(one.time);
    if span == 0 || time == other.time {
        return other.value;
    }
    let part = time.saturating_sub(one.time) as f64;
    one.value + (other.value - one.value) * part / span as f64
}

impl Area {
    fn add(&mut self, sample: Sample) {
        if self.count == 0 && self.is_first {
            (self.from, self.to) = (sample.time, sample.time);
        } else if self.count == 0 {
            let value = between(self.last, sample, self.start);
            self.from = self.start;
            self.area += (value + sample.value) / 2.0 * sample.time.saturating_sub(self.start) as f64;
        } else {
            let span = sample.time.saturating_sub(self.last.time) as f64;
            self.area += (self.last.value + sample.value) / 2.0 * span;
        }
        (self.last, self.to) = (sample, sample.time);
        self.count += 1;
    }

    /// Adds the part up to the bucket's end, when the next sample is known.
    fn finish(&mut self, next: Sample) {
        let value = between(self.last, next, self.end);
        self.area += (self.last.value + value) / 2.0 * self.end.saturating_sub(self.last.time) as f64;
        self.to = self.end;
    }

    fn value(&self) -> f64 {
        match self.to.saturating_sub(self.from) {
            0 => self.last.value,
            span => self.area / span as f64,
        }
    }
}

/// The samples of a bucket so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum State {
    /// Sum and number; once the sum overflows, the average instead of the sum.
    Mean {
        sum: f64,
        count: f64,
        overflown: bool,
    },
    Sum(f64),
    Extremes {
        max: f64,
        min: f64,
    },
    Count(f64),
    First(Option<f64>),
    Last(f64),
    Moments {
        sum: f64,
        squares: f64,
        count: u64,
    },
    Area(Area),
}

/// An aggregator at work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fold {
    pub(super) kind: Kind,
    pub(super) state: State,
}

impl Fold {
    pub fn new(kind: Kind) -> Fold {
        let state = match kind {
            Kind::Min | Kind::Max | Kind::Range => State::Extremes { max: f64::MIN, min: f64::MAX },
            Kind::Sum => State::Sum(0.0),
            Kind::Avg => State::Mean { sum: 0.0, count: 0.0, overflown: false },
            Kind::Count => State::Count(0.0),
            Kind::First => State::First(None),
            Kind::Last => State::Last(0.0),
            Kind::StdP | Kind::StdS | Kind::VarP | Kind::VarS => {
                State::Moments { sum: 0.0, squares: 0.0, count: 0 }
            }
            Kind::Twa => State::Area(Area { is_first: true, ..Area::default() }),
        };
        Fold { kind, state }
    }

    /// Starts a bucket. `before`: the last sample before it.
    pub fn start(&mut self, start: u64, end: u64, before: Option<Sample>) {
        *self = Fold::new(self.kind);
        if let State::Area(area) = &mut self.state {
            (area.start, area.end) = (start, end);
            (area.last, area.is_first) = (before.unwrap_or_default(), before.is_none());
        }
    }

    /// Adds a sample, later than those before.
    #[inline]
    pub fn add(&mut self, sample: Sample) {
        let value = sample.value;
        match &mut self.state {
            State::Mean { sum, count, overflown } => {
                *count += 1.0;
                if *overflown {
                    *sum += (value - *sum) / *count;
                } else if (*sum + value).is_infinite() && sum.is_finite() && value.is_finite() {
                    let mean = *sum / (*count - 1.0);
                    *sum = mean + (value - mean) / *count;
                    *overflown = true;
                } else {
                    *sum += value;
                }
            }
            State::Sum(sum) => *sum += value,
            State::Extremes { max, min } => {
                if self.kind != Kind::Min && value > *max {
                    *max = value;
                }
                if self.kind != Kind::Max && value < *min {
                    *min = value;
                }
            }
            State::Count(count) => *count += 1.0,
            State::First(first) => *first = first.or(Some(value)),
            State::Last(last) => *last = value,
            State::Moments { sum, squares, count } => {
                *sum += value;
                *squares += value * value;
                *count += 1;
            }
            State::Area(area) => area.add(sample),
        }
    }

    /// Adds samples in order, later than those before.
    pub fn add_run(&mut self, run: &[Sample]) {
        if let State::Mean { sum, count, overflown: false } = &mut self.state {
            let total = run.iter().fold(*sum, |sum, sample| sum + sample.value);
            // If it overflowed on the way, the samples are looked at one by one.
            if total.is_finite() {
                *sum = total;
                *count += run.len() as f64;
                return;
            }
        }
        run.iter().for_each(|&sample| self.add(sample));
    }

    /// Ends a bucket, now that the next sample is known.
    pub fn finish(&mut self, next: Sample) {
        if let State::Area(area) = &mut self.state {
            area.finish(next);
        }
    }

    /// The value of a bucket that has samples.
    pub fn value(&self) -> f64 {
        match self.state {
            State::Mean { sum, overflown: true, .. } => sum,
            State::Mean { sum, count, .. } => sum / count,
            State::Sum(sum) => sum,
            State::Extremes { max, .. } if self.kind == Kind::Max => max,
            State::Extremes { min, .. } if self.kind == Kind::Min => min,
            State::Extremes { max, min } => max - min,
            State::Count(count) => count,
            State::First(first) => first.unwrap_or(0.0),
            State::Last(last) => last,
            State::Moments { sum, squares, count } => self.spread(sum, squares, count as f64),
            State::Area(area) => area.value(),
        }
    }

    fn spread(&self, sum: f64, squares: f64, count: f64) -> f64 {
        let mean = sum / count;
        let deviations = squares - 2.0 * sum * mean + mean * mean * count;
        match self.kind {
            Kind::VarP => deviations / count,
            Kind::StdP => (deviations / count).sqrt(),
            _ if count < 2.0 => 0.0,
            Kind::VarS => deviations / (count - 1.0),
            _ => (deviations / (count - 1.0)).sqrt(),
        }
    }
}
