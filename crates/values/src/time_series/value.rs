// SPDX-License-Identifier: BSD-3-Clause
//! A series: chunks of samples in the order of their times, and its settings.
//!
//! Invariants: there is at least one chunk; chunks are not empty, but for a series without samples,
//! which has one empty chunk; the times of a chunk are later than those of the chunk before.

use std::collections::VecDeque;
use std::ops::ControlFlow;

use braid_base::relocation::Mover;
use braid_containers::cow::CowBox;

use super::Sample;
use super::chunk::{Chunk, ChunkIter, Upsert};
use super::labels::Labels;
use super::links::Links;

/// Sizes of chunks in bytes: multiples of 8 in a range.
pub const CHUNK_SIZE_MIN: u64 = 48;
pub const CHUNK_SIZE_MAX: u64 = 1_048_576;
pub const CHUNK_SIZE_DEFAULT: u32 = 4096;

/// Memory from which on a full read takes so long that requests should not wait for it.
const LARGE_BYTES: usize = 256 << 10;

/// What happens to a sample at a time that has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Policy {
    Block = 1,
    Last,
    First,
    Min,
    Max,
    Sum,
}

impl Policy {
    const ALL: [(Policy, &'static str); 6] = [
        (Policy::Block, "block"),
        (Policy::Last, "last"),
        (Policy::First, "first"),
        (Policy::Min, "min"),
        (Policy::Max, "max"),
        (Policy::Sum, "sum"),
    ];

    /// The policy of this name, in any case.
    pub fn named(name: &[u8]) -> Option<Policy> {
        let mut all = Policy::ALL.into_iter();
        all.find(|(_, known)| known.as_bytes().eq_ignore_ascii_case(name)).map(|(policy, _)| policy)
    }

    pub fn name(self) -> &'static str {
        Policy::ALL[self as usize - 1].1
    }

    pub(super) fn numbered(number: u64) -> Option<Policy> {
        Policy::ALL.into_iter().map(|(policy, _)| policy).find(|policy| *policy as u64 == number)
    }

    /// The value that results from an old and a new one; `None` if there may be no new one.
    fn merge(self, old: f64, new: f64) -> Option<f64> {
        match self {
            Policy::Block => None,
            Policy::Last => Some(new),
            Policy::First => Some(old),
            Policy::Min => Some(old.min(new)),
            Policy::Max => Some(old.max(new)),
            Policy::Sum => Some(old + new),
        }
    }
}

/// Settings of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Samples older than the last one by more are not kept; 0 keeps all.
    pub retention_ms: u64,
    pub chunk_size: u32,
    pub is_packed: bool,
    pub policy: Option<Policy>,
    /// Samples that follow the last one by at most so much time, and differ by at most so much, are
    /// left out, under the policy LAST.
    pub ignore_ms: u64,
    pub ignore_difference: f64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            retention_ms: 0,
            chunk_size: CHUNK_SIZE_DEFAULT,
            is_packed: true,
            policy: None,
            ignore_ms: 0,
            ignore_difference: 0.0,
        }
    }
}

/// Why a sample was not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refusal {
    #[error("ERR TSDB: Timestamp is older than retention")]
    Old,
    #[error("ERR TSDB: Error at upsert, update is not supported when DUPLICATE_POLICY is set to BLOCK mode")]
    Blocked,
}

/// What became of a sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Added {
    /// It is the last one.
    Appended,
    /// It is before the last one, or was merged with one at its time.
    Upserted,
    /// It was left out; the time of the last one.
    Ignored(u64),
}

/// A series.
#[derive(Clone, Debug)]
pub struct Series {
    pub settings: Settings,
    pub(super) chunks: VecDeque<CowBox<Chunk>>,
    pub(super) total: u64,
    labels: Labels,
    pub(super) links: Option<Box<Links>>,
}

impl Series {
    pub fn new(settings: Settings, labels: Labels) -> Series {
        let chunk = Chunk::new(settings.is_packed, settings.chunk_size);
        Series::from_parts(settings, labels, [CowBox::new(chunk)].into(), 0)
    }

    /// A series of a dump, whose chunks hold the invariants.
    pub(super) fn from_parts(
        settings: Settings,
        labels: Labels,
        chunks: VecDeque<CowBox<Chunk>>,
        total: u64,
    ) -> Series {
        Series { settings, chunks, total, labels, links: None }
    }

    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    pub fn set_labels(&mut self, labels: Labels) {
        self.labels = labels;
    }

    /// A copy that is neither source nor target of rules.
    pub fn without_links(&self) -> Series {
        Series { links: None, ..self.clone() }
    }

    /// Number of samples in all chunks.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Number of samples from a time on.
    pub fn count_from(&self, from: u64) -> u64 {
        let place = self.place(from);
        let before = self.chunks[place].iter().take_while(|sample| sample.time < from).count();
        let from_place = self.chunks.range(place..).map(|chunk| u64::from(chunk.count())).sum::<u64>();
        from_place - before as u64
    }

    pub fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// The last sample.
    #[inline]
    pub fn last(&self) -> Option<Sample> {
        self.chunks.back().and_then(|chunk| chunk.last())
    }

    /// The earliest time that is kept.
    #[inline]
    pub fn kept_from(&self) -> u64 {
        match (self.settings.retention_ms, self.last()) {
            (retention @ 1.., Some(last)) => last.time.saturating_sub(retention),
            _ => 0,
        }
    }

    /// Adds a sample, under this policy or else its own.
    ///
    /// # Errors
    /// If it is too old, or there is a sample at its time and the policy is to refuse it.
    pub fn add(&mut self, sample: Sample, policy: Option<Policy>) -> Result<Added, Refusal> {
        let policy = policy.or(self.settings.policy).unwrap_or(Policy::Block);
        let Some(last) = self.last() else {
            self.append(sample);
            return Ok(Added::Appended);
        };
        if policy == Policy::Last && self.ignores(last, sample) {
            return Ok(Added::Ignored(last.time));
        }
        if sample.time > last.time {
            self.append(sample);
            return Ok(Added::Appended);
        }
        if sample.time < self.kept_from() {
            return Err(Refusal::Old);
        }
        self.upsert(sample, policy)?;
        Ok(Added::Upserted)
    }

    fn ignores(&self, last: Sample, sample: Sample) -> bool {
        // Targets of rules take what the rules make.
        let is_target = self.links.as_ref().is_some_and(|links| links.source.is_some());
        let (most_ms, most) = (self.settings.ignore_ms, self.settings.ignore_difference);
        !is_target
            && (most_ms > 0 || most > 0.0)
            && sample.time >= last.time
            && sample.time - last.time <= most_ms
            && (sample.value - last.value).abs() <= most
    }

    fn append(&mut self, sample: Sample) {
        self.total += 1;
        let Some(chunk) = self.chunks.back_mut() else { return };
        if chunk.push(sample) {
            return;
        }
        chunk.shrink();
        self.trim();
        let mut chunk = Chunk::new(self.settings.is_packed, self.settings.chunk_size);
        let fits = chunk.push(sample);
        debug_assert!(fits, "a new chunk has room for a sample");
        self.chunks.push_back(CowBox::new(chunk));
    }

    /// Removes the chunks all of whose samples are too old.
    fn trim(&mut self) {
        let from = self.kept_from();
        while self.chunks.len() > 1
            && let Some(first) = self.chunks.front()
            && first.last().is_none_or(|last| last.time < from)
        {
            self.total -= u64::from(first.count());
            self.chunks.pop_front();
        }
    }

    /// The place of the chunk for a time: the last one that begins before, or the first.
    fn place(&self, time: u64) -> usize {
        let begins = |chunk: &CowBox<Chunk>| chunk.first().is_some_and(|first| first.time <= time);
        self.chunks.partition_point(begins).saturating_sub(1)
    }

    pub(super) fn upsert(&mut self, sample: Sample, policy: Policy) -> Result<(), Refusal> {
        let mut at = self.place(sample.time);
        // A chunk that has grown much beyond its size is cut into halves first.
        let size = u64::from(self.chunks[at].size());
        if size * 5 > u64::from(self.settings.chunk_size) * 6 && self.chunks[at].count() > 1 {
            let (one, other) = self.chunks[at].split();
            let is_later = other.first().is_some_and(|first| first.time <= sample.time);
            self.chunks[at] = CowBox::new(one);
            self.chunks.insert(at + 1, CowBox::new(other));
            at += usize::from(is_later);
        }
        let chunk = &mut *self.chunks[at];
        match chunk.upsert(sample, |old| policy.merge(old, sample.value)) {
            Some(Upsert::Inserted) => self.total += 1,
            Some(Upsert::Replaced) => {}
            None => return Err(Refusal::Blocked),
        }
        Ok(())
    }

    /// Removes the samples in a range of times; their number.
    pub fn remove(&mut self, from: u64, to: u64) -> u64 {
        let (mut at, mut removed) = (self.place(from), 0);
        while at < self.chunks.len() {
            let chunk = &mut self.chunks[at];
            let (Some(first), Some(last)) = (chunk.first(), chunk.last()) else { break };
            if first.time > to {
                break;
            }
            if last.time < from {
                at += 1;
            } else if first.time >= from && last.time <= to {
                removed += u64::from(chunk.count());
                self.chunks.remove(at);
            } else {
                removed += u64::from(chunk.remove(from, to));
                if chunk.count() == 0 {
                    self.chunks.remove(at);
                } else {
                    at += 1;
                }
            }
        }
        if self.chunks.is_empty() {
            let chunk = Chunk::new(self.settings.is_packed, self.settings.chunk_size);
            self.chunks.push_back(CowBox::new(chunk));
        }
        self.total -= removed;
        removed
    }

    /// The samples in a range of times, in order, whether they are too old or not.
    pub fn samples(&self, from: u64, to: u64) -> Samples<'_> {
        let mut chunks = self.chunks.range(self.place(from)..);
        let current = chunks.next().map(|chunk| chunk.iter());
        Samples { chunks, current, from, to }
    }

    /// Shows the samples in a range of times, in order and in runs, until `see` breaks off: much
    /// less work than [`Series::samples`] for many samples.
    pub fn runs<B>(
        &self,
        from: u64,
        to: u64,
        mut see: impl FnMut(&[Sample]) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        for chunk in self.chunks.range(self.place(from)..) {
            if chunk.first().is_none_or(|first| first.time > to) {
                break;
            }
            chunk.runs(from, to, &mut see)?;
        }
        ControlFlow::Continue(())
    }

    /// The samples in a range of times, last first.
    pub fn samples_back(&self, from: u64, to: u64) -> impl Iterator<Item = Sample> {
        let first = self.place(from);
        let chunks = self.chunks.range(first..=self.place(to).max(first)).rev();
        chunks.flat_map(move |chunk| {
            let within = |sample: &Sample| (from..=to).contains(&sample.time);
            let samples: Vec<Sample> = chunk.iter().filter(within).collect();
            samples.into_iter().rev()
        })
    }

    /// The sample at a time, or the last one before it.
    pub fn at_or_before(&self, time: u64) -> Option<Sample> {
        self.chunks[self.place(time)].iter().take_while(|sample| sample.time <= time).last()
    }

    /// First and last sample, number and size in bytes of each chunk.
    pub fn chunk_facts(&self) -> impl Iterator<Item = (Option<(Sample, Sample)>, u32, u32)> {
        self.chunks.iter().map(|chunk| (chunk.first().zip(chunk.last()), chunk.count(), chunk.size()))
    }

    /// Bytes of all allocations, without the series itself.
    pub fn memory_bytes(&self) -> usize {
        let head = braid_base::alloc::size_class(CowBox::<Chunk>::bytes());
        let places = braid_base::alloc::size_class(self.chunks.capacity() * size_of::<CowBox<Chunk>>());
        let chunks: usize = self.chunks.iter().map(|chunk| head + chunk.memory_bytes()).sum();
        let links = self.links.as_ref().map_or(0, |links| links.memory_bytes());
        places + chunks + self.labels.memory_bytes() + links
    }

    /// See `Collection::relocate_blocks`.
    pub fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        if from == 0 {
            self.labels.relocate(mover);
        }
        for (number, chunk) in (0..).zip(&mut self.chunks).skip(usize::try_from(from).unwrap_or(usize::MAX)) {
            if mover.is_over() {
                return Some(number);
            }
            if let Some(own) = chunk.own_mut() {
                own.relocate(mover);
                chunk.relocate(mover);
            }
        }
        None
    }

    pub fn is_large(&self) -> bool {
        self.chunks.len() as u64 * u64::from(self.settings.chunk_size) > LARGE_BYTES as u64
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut before = None;
        for chunk in &self.chunks {
            assert!(chunk.count() > 0 || self.chunks.len() == 1);
            for sample in chunk.iter() {
                assert!(before < Some(sample.time));
                before = Some(sample.time);
            }
        }
        let total: u64 = self.chunks.iter().map(|chunk| u64::from(chunk.count())).sum();
        assert_eq!(total, self.total);
    }
}

/// Samples in order.
#[derive(Clone)]
pub struct Samples<'a> {
    chunks: std::collections::vec_deque::Iter<'a, CowBox<Chunk>>,
    current: Option<ChunkIter<'a>>,
    from: u64,
    to: u64,
}

impl Iterator for Samples<'_> {
    type Item = Sample;

    #[inline]
    fn next(&mut self) -> Option<Sample> {
        loop {
            match self.current.as_mut()?.next() {
                Some(sample) if sample.time > self.to => {
                    self.current = None;
                    return None;
                }
                Some(sample) if sample.time >= self.from => return Some(sample),
                Some(_) => {}
                None => self.current = self.chunks.next().map(|chunk| chunk.iter()),
            }
        }
    }
}
