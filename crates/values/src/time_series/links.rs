// SPDX-License-Identifier: BSD-3-Clause
//! What a series has to do with other keys: its rules, with what is known of their open buckets,
//! and its source.

use super::Sample;
use super::fold::{Fold, Kind, bucket_end, bucket_of};

/// A compaction rule of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    pub target: Box<[u8]>,
    pub kind: Kind,
    pub span: u64,
    pub align: u64,
    /// The start of the open bucket; none before the first sample.
    pub(super) open: Option<u64>,
    pub(super) fold: Fold,
}

/// What a series has to do with other keys.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// The series' own key.
    pub name: Box<[u8]>,
    pub source: Option<Box<[u8]>>,
    pub rules: Vec<Rule>,
}

impl Links {
    pub(super) fn memory_bytes(&self) -> usize {
        let class = |len: usize| if len == 0 { 0 } else { braid_base::alloc::size_class(len) };
        let rules: usize = self.rules.iter().map(|rule| class(rule.target.len())).sum();
        let names = class(self.name.len()) + self.source.as_ref().map_or(0, |source| class(source.len()));
        class(size_of::<Links>()) + class(self.rules.capacity() * size_of::<Rule>()) + rules + names
    }
}

impl Rule {
    pub fn new(target: &[u8], kind: Kind, span: u64, align: u64) -> Rule {
        Rule { target: target.into(), kind, span, align, open: None, fold: Fold::new(kind) }
    }

    pub(super) fn bucket(&self, time: u64) -> u64 {
        bucket_of(time, self.span, self.align)
    }

    /// Takes a sample that was appended after `before`. Returns the bucket that it ended, if any.
    pub(super) fn append(&mut self, before: Option<Sample>, sample: Sample) -> Option<Sample> {
        let start = self.bucket(sample.time);
        let mut ended = None;
        if self.open != Some(start) {
            if let Some(open) = self.open {
                self.fold.finish(sample);
                ended = Some(Sample { time: open, value: self.fold.value() });
            }
            let before = before.filter(|_| self.open.is_some());
            self.fold.start(start, bucket_end(start, self.span, self.align), before);
            self.open = Some(start);
        }
        self.fold.add(sample);
        ended
    }

    /// The value of the open bucket so far.
    pub fn latest(&self) -> Option<Sample> {
        self.open.map(|time| Sample { time, value: self.fold.value() })
    }
}
