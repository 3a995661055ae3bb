// SPDX-License-Identifier: BSD-3-Clause
//! The stamps of the values that a region has [evicted](crate::evicted) from a key.

use crate::stamp::Stamp;

/// The stamps of evicted values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lost {
    /// In order. Unless `is_exact`, only the latest of each run is certain to be listed.
    stamps: Vec<Stamp>,
    /// The list is complete: only strings were evicted.
    is_exact: bool,
}

impl Default for Lost {
    fn default() -> Lost {
        Lost::none()
    }
}

impl Lost {
    pub const fn none() -> Lost {
        Lost { stamps: Vec::new(), is_exact: true }
    }

    pub fn is_empty(&self) -> bool {
        self.stamps.is_empty()
    }

    /// Creates it from stamps in any order.
    pub fn of(mut stamps: Vec<Stamp>, is_exact: bool) -> Lost {
        stamps.sort_unstable();
        Lost { stamps, is_exact }
    }

    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    pub fn latest(&self) -> Stamp {
        self.stamps.last().copied().unwrap_or(Stamp::ZERO)
    }

    pub fn stamps(&self) -> &[Stamp] {
        &self.stamps
    }

    /// Adds stamps of evicted values; `is_exact` if they are all the stamps, as for a string.
    pub fn add(&mut self, stamps: impl IntoIterator<Item = Stamp>, is_exact: bool) {
        let had = self.stamps.len();
        self.stamps.extend(stamps);
        if self.stamps.len() > had {
            self.is_exact &= is_exact;
            self.stamps.sort_unstable();
            self.stamps.dedup();
        }
    }

    /// Keeps only the latest stamp of each run, unless the list is exact. `run` returns the start
    /// of a stamp's run.
    pub fn shorten(&mut self, run: impl Fn(Stamp) -> Option<Stamp>) {
        if self.is_exact || self.stamps.len() < 2 {
            return;
        }
        let mut latest: Vec<(Option<Stamp>, Stamp)> = Vec::new();
        for stamp in self.stamps.drain(..) {
            let run = run(stamp).or(Some(Stamp::start(stamp.region())));
            match latest.iter_mut().find(|(other, _)| *other == run) {
                Some((_, last)) => *last = stamp,
                None => latest.push((run, stamp)),
            }
        }
        self.stamps = latest.into_iter().map(|(_, stamp)| stamp).collect();
        self.stamps.sort_unstable();
    }

    /// True if a value with this stamp may have been evicted.
    pub fn may_have(&self, stamp: Stamp) -> bool {
        if self.is_exact {
            return self.stamps.binary_search(&stamp).is_ok();
        }
        self.stamps.iter().any(|lost| lost.region() == stamp.region() && stamp <= *lost)
    }

    pub fn retain(&mut self, keeps: impl Fn(Stamp) -> bool) {
        self.stamps.retain(|stamp| keeps(*stamp));
        self.is_exact |= self.stamps.is_empty();
    }
}
