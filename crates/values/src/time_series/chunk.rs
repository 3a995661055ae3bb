// SPDX-License-Identifier: BSD-3-Clause
//! Chunks: runs of samples, compressed or not. A chunk has a size in bytes that limits it, as in
//! Redis Stack, but takes only the memory of what is in it.

use std::ops::ControlFlow;

use braid_base::relocation::Mover;

use super::Sample;
use super::packed::{Packed, PackedIter};

/// Bytes of a sample that is not compressed.
pub(super) const SAMPLE_BYTES: u32 = 16;

/// Samples of a packed chunk that are unpacked at once: few are in vain at the end of a range.
const RUN_LEN: usize = 32;

/// Samples that are not compressed.
#[derive(Clone, Debug)]
pub(super) struct Plain {
    pub samples: Vec<Sample>,
    /// Bytes that it may use.
    pub size: u32,
}

/// A run of samples, later than those of the chunk before.
#[derive(Clone, Debug)]
pub(super) enum Chunk {
    Packed(Packed),
    Plain(Plain),
}

/// What a sample was before an upsert, and is now.
pub(super) enum Upsert {
    Inserted,
    Replaced,
}

impl Chunk {
    pub fn new(packed: bool, size: u32) -> Chunk {
        match packed {
            true => Chunk::Packed(Packed::new(size)),
            false => Chunk::Plain(Plain { samples: Vec::new(), size }),
        }
    }

    /// Moves the samples to a better place.
    pub fn relocate(&mut self, mover: &mut Mover) {
        match self {
            Chunk::Packed(packed) => packed.relocate(mover),
            Chunk::Plain(plain) => mover.relocate_vec(&mut plain.samples),
        }
    }

    pub fn count(&self) -> u32 {
        match self {
            Chunk::Packed(packed) => packed.head().count,
            Chunk::Plain(plain) => plain.samples.len() as u32,
        }
    }

    /// The limit in bytes.
    pub fn size(&self) -> u32 {
        match self {
            Chunk::Packed(packed) => packed.size,
            Chunk::Plain(plain) => plain.size,
        }
    }

    pub fn first(&self) -> Option<Sample> {
        match self {
            Chunk::Packed(packed) => (packed.head().count > 0).then_some(packed.head().first),
            Chunk::Plain(plain) => plain.samples.first().copied(),
        }
    }

    pub fn last(&self) -> Option<Sample> {
        match self {
            Chunk::Packed(packed) => (packed.head().count > 0).then_some(packed.head().last),
            Chunk::Plain(plain) => plain.samples.last().copied(),
        }
    }

    /// Appends a sample later than all others. False if it does not fit.
    #[inline]
    pub fn push(&mut self, sample: Sample) -> bool {
        match self {
            Chunk::Packed(packed) => packed.push(sample),
            Chunk::Plain(plain) => {
                let fits = (plain.samples.len() as u32 + 1) * SAMPLE_BYTES <= plain.size;
                if fits {
                    plain.samples.push(sample);
                }
                fits
            }
        }
    }

    pub fn iter(&self) -> ChunkIter<'_> {
        match self {
            Chunk::Packed(packed) => ChunkIter::Packed(packed.iter()),
            Chunk::Plain(plain) => ChunkIter::Plain(plain.samples.iter()),
        }
    }

    /// Shows the samples in a range of times, in order and in runs, until `see` breaks off.
    pub fn runs<B>(
        &self,
        from: u64,
        to: u64,
        mut see: impl FnMut(&[Sample]) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        match self {
            Chunk::Packed(packed) => {
                let mut samples = packed.iter();
                let mut block = [Sample::default(); RUN_LEN];
                while let count @ 1.. = samples.fill(&mut block) {
                    let run = within(&block[..count], from, to);
                    if !run.is_empty() {
                        see(run)?;
                    }
                    if block[count - 1].time >= to {
                        break;
                    }
                }
            }
            Chunk::Plain(plain) => {
                let run = within(&plain.samples, from, to);
                if !run.is_empty() {
                    see(run)?;
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Gives unused memory back.
    pub fn shrink(&mut self) {
        match self {
            Chunk::Packed(packed) => packed.shrink(),
            Chunk::Plain(plain) => plain.samples.shrink_to_fit(),
        }
    }

    /// A chunk of the same kind with these samples and at least this size.
    fn rebuilt(&self, samples: &[Sample], size: u32) -> Chunk {
        match self {
            Chunk::Plain(_) => Chunk::Plain(Plain { samples: samples.to_vec(), size }),
            Chunk::Packed(_) => {
                let mut packed = Packed::new(size);
                samples.iter().for_each(|&sample| packed.push_growing(sample));
                packed.shrink();
                Chunk::Packed(packed)
            }
        }
    }

    /// The same samples, with a size that is just enough.
    fn fitted(&self, samples: &[Sample]) -> Chunk {
        let mut chunk = self.rebuilt(samples, self.size());
        match &mut chunk {
            Chunk::Packed(packed) => packed.size = packed.head().bits.div_ceil(64).max(1) * 8,
            Chunk::Plain(plain) => plain.size = plain.samples.len() as u32 * SAMPLE_BYTES,
        }
        chunk
    }

    /// Cuts the chunk into two halves.
    pub fn split(&self) -> (Chunk, Chunk) {
        let samples: Vec<Sample> = self.iter().collect();
        let (one, other) = samples.split_at(samples.len() - samples.len() / 2);
        (self.fitted(one), self.fitted(other))
    }

    /// Inserts a sample, or replaces the one at its time by what `merge` makes of the value there.
    /// `None` if `merge` returns none.
    pub fn upsert(&mut self, sample: Sample, merge: impl FnOnce(f64) -> Option<f64>) -> Option<Upsert> {
        let change = |known: Option<&Sample>| match known.filter(|known| known.time == sample.time) {
            Some(known) => Some((merge(known.value)?, Upsert::Replaced)),
            None => Some((sample.value, Upsert::Inserted)),
        };
        let at_same_time = |done: &Upsert| usize::from(matches!(done, Upsert::Replaced));
        match self {
            Chunk::Packed(packed) => {
                // What is before the sample stays as it is.
                let (mut kept, rest) = packed.cut(sample.time);
                let (value, done) = change(rest.first())?;
                kept.push_growing(Sample { value, ..sample });
                rest[at_same_time(&done)..].iter().for_each(|&later| kept.push_growing(later));
                kept.shrink();
                *packed = kept;
                Some(done)
            }
            Chunk::Plain(plain) => {
                let samples = &mut plain.samples;
                let at = samples.partition_point(|known| known.time < sample.time);
                let (value, done) = change(samples.get(at))?;
                samples.splice(at..at + at_same_time(&done), [Sample { value, ..sample }]);
                plain.size = plain.size.max(samples.len() as u32 * SAMPLE_BYTES);
                Some(done)
            }
        }
    }

    /// Removes the samples in a range of times; their number.
    pub fn remove(&mut self, from: u64, to: u64) -> u32 {
        let kept: Vec<Sample> = self.iter().filter(|sample| sample.time < from || sample.time > to).collect();
        let removed = self.count() - kept.len() as u32;
        if removed > 0 {
            *self = self.rebuilt(&kept, self.size());
        }
        removed
    }

    /// Bytes allocated beyond the chunk itself.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Chunk::Packed(packed) => packed.memory_bytes(),
            Chunk::Plain(plain) if plain.samples.capacity() == 0 => 0,
            Chunk::Plain(plain) => {
                braid_base::alloc::size_class(plain.samples.capacity() * size_of::<Sample>())
            }
        }
    }
}

/// The part of a run that is in a range of times.
fn within(run: &[Sample], from: u64, to: u64) -> &[Sample] {
    let is_whole =
        run.first().is_some_and(|first| first.time >= from) && run.last().is_some_and(|last| last.time <= to);
    if is_whole {
        return run;
    }
    let first = run.partition_point(|sample| sample.time < from);
    let end = run.partition_point(|sample| sample.time <= to);
    run.get(first..end).unwrap_or_default()
}

/// The samples of a chunk, in order.
#[derive(Clone)]
pub(super) enum ChunkIter<'a> {
    Packed(PackedIter<'a>),
    Plain(std::slice::Iter<'a, Sample>),
}

impl Iterator for ChunkIter<'_> {
    type Item = Sample;

    #[inline]
    fn next(&mut self) -> Option<Sample> {
        match self {
            ChunkIter::Packed(samples) => samples.next(),
            ChunkIter::Plain(samples) => samples.next().copied(),
        }
    }
}
