// SPDX-License-Identifier: BSD-3-Clause
//! Ranges of a series: its samples, or values of buckets of equal length.

use std::ops::ControlFlow;

use super::Sample;
use super::fold::{Fold, Kind, between, bucket_end, bucket_of};
use super::value::Series;

/// Takes samples that follow those before, and may break off.
pub(super) type See<'a> = dyn FnMut(&[Sample]) -> ControlFlow<()> + 'a;

/// Most empty buckets that a reply may report: they cost memory although there is no sample.
pub const EMPTY_BUCKETS_MAX: usize = 1_000_000;

/// The time that is reported for a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stamp {
    Start,
    Middle,
    End,
}

/// How samples are put into buckets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Buckets {
    pub kind: Kind,
    pub span: u64,
    /// A time at which a bucket begins.
    pub align: u64,
    pub stamp: Stamp,
    /// Buckets without samples are reported too.
    pub with_empty: bool,
}

/// What is asked of a series.
#[derive(Clone, PartialEq, Debug)]
pub struct Range {
    pub from: u64,
    pub to: u64,
    /// Only these times, in order.
    pub times: Option<Vec<u64>>,
    /// Only values from here to there.
    pub values: Option<(f64, f64)>,
    /// At most so many.
    pub most: usize,
    pub is_reverse: bool,
    pub buckets: Option<Buckets>,
}

/// More empty buckets than a reply may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("ERR TSDB: EMPTY would report more than 1000000 empty buckets")]
pub struct TooManyEmpty;

impl Range {
    fn takes(&self, sample: Sample) -> bool {
        let listed = self.times.as_ref().is_none_or(|times| times.binary_search(&sample.time).is_ok());
        listed && self.values.is_none_or(|(least, most)| sample.value >= least && sample.value <= most)
    }

    /// Shows the samples of a series from a time on that are asked for, and the one after them.
    fn runs(&self, series: &Series, from: u64, extra: Option<Sample>, see: &mut See) -> ControlFlow<()> {
        let is_filtered = self.times.is_some() || self.values.is_some();
        let mut taken = Vec::new();
        let mut see = |run: &[Sample]| {
            if !is_filtered {
                return see(run);
            }
            taken.clear();
            taken.extend(run.iter().filter(|sample| self.takes(**sample)));
            if taken.is_empty() { ControlFlow::Continue(()) } else { see(&taken) }
        };
        series.runs(from, self.to, &mut see)?;
        extra.map_or(ControlFlow::Continue(()), |extra| see(&[extra]))
    }

    /// The samples or buckets of a series. `extra`: a sample after all of the series.
    ///
    /// # Errors
    /// If there are too many empty buckets.
    pub fn of(&self, series: &Series, extra: Option<Sample>) -> Result<Vec<Sample>, TooManyEmpty> {
        let from = self.from.max(series.kept_from());
        if from > self.to || self.most == 0 {
            return Ok(Vec::new());
        }
        let last = series.last().map(|last| last.time);
        let extra = extra.filter(|extra| (from..=self.to).contains(&extra.time) && Some(extra.time) > last);
        if self.is_reverse && self.buckets.is_none() {
            let samples = extra.into_iter().chain(series.samples_back(from, self.to));
            return Ok(samples.filter(|sample| self.takes(*sample)).take(self.most).collect());
        }
        let runs = |see: &mut See| self.runs(series, from, extra, see);
        let Some(buckets) = &self.buckets else {
            let mut out = Vec::new();
            let _ = runs(&mut |run| {
                out.extend_from_slice(&run[..run.len().min(self.most - out.len())]);
                if out.len() < self.most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            return Ok(out);
        };
        let kept = |sample: &Sample| sample.time >= series.kept_from();
        let ends = || Ends {
            from,
            to: self.to,
            before: from.checked_sub(1).and_then(|before| series.at_or_before(before)).filter(kept),
            after: self.to.checked_add(1).and_then(|after| series.samples(after, u64::MAX).next()),
        };
        let most = if self.is_reverse { usize::MAX } else { self.most };
        let mut buckets = *buckets;
        if self.is_reverse {
            // As in Redis Stack the first sample is the one that is read first.
            buckets.kind = match buckets.kind {
                Kind::First => Kind::Last,
                Kind::Last => Kind::First,
                kind => kind,
            };
        }
        let mut all = buckets.of(runs, ends, most)?;
        if self.is_reverse {
            all.reverse();
        }
        all.truncate(self.most);
        Ok(all)
    }
}

/// A range of times and the samples around it, for the weighted average.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub from: u64,
    pub to: u64,
    pub before: Option<Sample>,
    pub after: Option<Sample>,
}

impl Buckets {
    /// The values of the buckets of samples, until there are `most`. `runs` shows the samples.
    pub(super) fn of(
        &self,
        runs: impl FnOnce(&mut See) -> ControlFlow<()>,
        ends: impl FnOnce() -> Ends,
        most: usize,
    ) -> Result<Vec<Sample>, TooManyEmpty> {
        if self.kind == Kind::Twa {
            let line = Line::new(runs, ends());
            return line.map_or(Ok(Vec::new()), |line| self.weighted(&line, most));
        }
        let mut out = Vec::new();
        let mut fold = Fold::new(self.kind);
        // Start and end of the current bucket.
        let mut current: Option<(u64, u64)> = None;
        let (mut last_value, mut empty) = (0.0, 0);
        let mut outcome = Ok(());
        let is_cut = runs(&mut |mut run| {
            while let Some(first) = run.first() {
                let mut until = current.map_or(0, |(_, end)| end);
                if first.time >= until {
                    let start = bucket_of(first.time, self.span, self.align);
                    if let Some((last, end)) = current {
                        out.push(Sample { time: self.stamp(last), value: fold.value() });
                        if self.with_empty && end < start {
                            outcome = self.fill(end..start, last_value, &mut out, &mut empty, most);
                        }
                        if outcome.is_err() || out.len() >= most {
                            return ControlFlow::Break(());
                        }
                    }
                    until = bucket_end(start, self.span, self.align);
                    fold.start(start, until, None);
                    current = Some((start, until));
                }
                let is_within = |sample: &&Sample| sample.time < until;
                let (these, later) = match run.last().filter(is_within) {
                    Some(_) => (run, &[][..]),
                    None => run.split_at(run.iter().take_while(is_within).count().max(1)),
                };
                fold.add_run(these);
                last_value = these.last().map_or(last_value, |last| last.value);
                run = later;
            }
            ControlFlow::Continue(())
        });
        outcome?;
        if let (Some((last, _)), ControlFlow::Continue(())) = (current, is_cut) {
            out.push(Sample { time: self.stamp(last), value: fold.value() });
        }
        Ok(out)
    }

    fn stamp(&self, start: u64) -> u64 {
        match self.stamp {
            Stamp::Start => start,
            Stamp::Middle => start.saturating_add(self.span / 2),
            Stamp::End => start.saturating_add(self.span),
        }
    }

    /// Adds the empty buckets of a gap after a sample.
    fn fill(
        &self,
        gap: std::ops::Range<u64>,
        last_value: f64,
        out: &mut Vec<Sample>,
        empty: &mut usize,
        most: usize,
    ) -> Result<(), TooManyEmpty> {
        let value = match self.kind {
            Kind::Sum | Kind::Count => 0.0,
            Kind::Last => last_value,
            _ => f64::NAN,
        };
        let mut start = gap.start;
        while start < gap.end && out.len() < most {
            *empty += 1;
            if *empty > EMPTY_BUCKETS_MAX {
                return Err(TooManyEmpty);
            }
            out.push(Sample { time: self.stamp(start), value });
            start = start.saturating_add(self.span);
        }
        Ok(())
    }

    /// The averages weighted by time: of the line through the samples, within each bucket.
    fn weighted(&self, line: &Line, most: usize) -> Result<Vec<Sample>, TooManyEmpty> {
        let (mut out, mut empty, mut at) = (Vec::new(), 0, 0);
        let mut within = line.within.clone();
        let mut start = bucket_of(line.from, self.span, self.align);
        while out.len() < most {
            let end = bucket_end(start, self.span, self.align);
            while within.start < within.end && line.points[within.start].time < start {
                within.start += 1;
            }
            let next = line.points[within.clone()].first();
            let is_filled = next.is_some_and(|next| next.time < end);
            if !is_filled && !self.with_empty {
                // The next bucket with a sample.
                let Some(next) = next else { break };
                start = bucket_of(next.time, self.span, self.align);
                continue;
            }
            empty += usize::from(!is_filled);
            if empty > EMPTY_BUCKETS_MAX {
                return Err(TooManyEmpty);
            }
            let value = line.average(start.max(line.from), end.min(line.to), &mut at);
            out.push(Sample { time: self.stamp(start), value });
            if end > line.to || end <= start {
                break;
            }
            start = end;
        }
        Ok(out)
    }
}

/// The line through the samples of a range, and to those around it.
struct Line {
    points: Vec<Sample>,
    /// The points that are samples of the range.
    within: std::ops::Range<usize>,
    from: u64,
    to: u64,
}

impl Line {
    /// `None` if there is no line in the range.
    fn new(runs: impl FnOnce(&mut See) -> ControlFlow<()>, ends: Ends) -> Option<Line> {
        let mut points: Vec<Sample> = ends.before.into_iter().collect();
        let first = points.len();
        let _ = runs(&mut |run| {
            points.extend_from_slice(run);
            ControlFlow::Continue(())
        });
        let within = first..points.len();
        points.extend(ends.after);
        let from = points.first()?.time.max(ends.from);
        let to = points.last()?.time.min(ends.to);
        (from <= to).then_some(Line { points, within, from, to })
    }

    /// The average between two times of the line. `at`: a point before them, moved on.
    fn average(&self, from: u64, to: u64, at: &mut usize) -> f64 {
        while self.points.get(*at + 1).is_some_and(|next| next.time <= from) {
            *at += 1;
        }
        let mut last = Sample { time: from, value: self.value(*at, from) };
        if to <= from {
            return last.value;
        }
        let (mut area, mut point) = (0.0, *at + 1);
        loop {
            let next = match self.points.get(point) {
                Some(next) if next.time < to => *next,
                _ => Sample { time: to, value: self.value(point - 1, to) },
            };
            area += (last.value + next.value) / 2.0 * (next.time - last.time) as f64;
            last = next;
            if last.time == to {
                return area / (to - from) as f64;
            }
            point += 1;
        }
    }

    /// The value at a time from a point on, up to the next one.
    fn value(&self, point: usize, time: u64) -> f64 {
        let one = self.points[point];
        match self.points.get(point + 1) {
            Some(other) if time > one.time => between(one, *other, time),
            _ => one.value,
        }
    }
}
