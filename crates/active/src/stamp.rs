// SPDX-License-Identifier: BSD-3-Clause
//! Stamps: the time of an effect by its region's hybrid clock, in 8 bytes.
//!
//! A stamp has three uses, so a mark needs one word for all of them: the time by which the last
//! writer wins, the *dot* that names the effect (no region gives a stamp twice), and the effect's
//! position in its region's order (a region's stamps only rise; a unit names the stamp before it,
//! so gaps show). Layout from the top: a bit that is always 0 and is free for places in lists, 41
//! bits of milliseconds since 2020 (until 2089), a 16-bit counter within the millisecond that
//! carries into it, 6 bits of region. Comparing words compares times, with ties broken by region.

use std::fmt;

/// The number of regions in a system.
pub const REGIONS: u8 = 64;
/// 2020-01-01 in Unix time.
const EPOCH_MS: u64 = 1_577_836_800_000;
const REGION_BITS: u32 = 6;
const COUNTER_BITS: u32 = 16;
const MS_BITS: u32 = 41;

/// A region's number, 0 to 63.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Region(u8);

impl Region {
    pub fn new(number: u8) -> Option<Region> {
        (number < REGIONS).then_some(Region(number))
    }

    pub fn number(self) -> u8 {
        self.0
    }
}

/// A moment of a region's clock; see the module documentation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Stamp(u64);

impl Stamp {
    /// Earlier than every effect.
    pub const ZERO: Stamp = Stamp(0);

    /// Earlier than every effect of a region: the start of its first run.
    pub fn start(region: Region) -> Stamp {
        Stamp(u64::from(region.0))
    }

    /// A region's first stamp in a millisecond of Unix time.
    pub fn at(unix_ms: u64, region: Region) -> Stamp {
        let ms = unix_ms.saturating_sub(EPOCH_MS).min((1 << MS_BITS) - 1);
        Stamp(ms << (COUNTER_BITS + REGION_BITS) | u64::from(region.0))
    }

    /// The stamp in a word; `None` if the word cannot be a stamp.
    pub fn from_word(word: u64) -> Option<Stamp> {
        (word >> 63 == 0).then_some(Stamp(word))
    }

    pub fn word(self) -> u64 {
        self.0
    }

    pub fn region(self) -> Region {
        Region((self.0 & (u64::from(REGIONS) - 1)) as u8)
    }

    pub fn unix_ms(self) -> u64 {
        (self.0 >> (COUNTER_BITS + REGION_BITS)) + EPOCH_MS
    }

    /// The position in the region's order.
    pub fn position(self) -> u64 {
        self.0 >> REGION_BITS
    }

    /// The stamp at a position in a region's order; `None` if the position is out of range.
    pub fn of(region: Region, position: u64) -> Option<Stamp> {
        (position >> (MS_BITS + COUNTER_BITS) == 0)
            .then_some(Stamp(position << REGION_BITS | u64::from(region.0)))
    }

    /// The stamp `count` positions later in the same region. Saturates at the last stamp (2089).
    pub fn plus(self, count: u64) -> Stamp {
        let last = (1 << (MS_BITS + COUNTER_BITS)) - 1;
        Stamp(self.position().saturating_add(count).min(last) << REGION_BITS | u64::from(self.region().0))
    }

    /// The preceding stamp of the same region.
    pub fn before(self) -> Stamp {
        Stamp(self.position().saturating_sub(1) << REGION_BITS | u64::from(self.region().0))
    }

    /// The first stamp of a region that is later than this one.
    pub fn next_of(self, region: Region) -> Stamp {
        Stamp(self.position() << REGION_BITS | u64::from(region.0)).plus(1)
    }
}

/// Puts a list in the order of its stamps, by moving each element to its place: the lists of values
/// written concurrently have few, and all but the last are in order already.
pub(crate) fn sort_few<T>(list: &mut [T], stamp: impl Fn(&T) -> Stamp) {
    for end in 1..list.len() {
        let mut at = end;
        while at > 0 && stamp(&list[at - 1]) > stamp(&list[at]) {
            list.swap(at - 1, at);
            at -= 1;
        }
    }
}

impl crate::stored::Stored for Stamp {
    fn store(&self, out: &mut Vec<u8>) {
        self.0.store(out);
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        Stamp::from_word(crate::stored::Stored::load(from)?)
    }
}

impl fmt::Debug for Stamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counter = self.position() & ((1 << COUNTER_BITS) - 1);
        write!(formatter, "{}.{counter}@{}", self.unix_ms(), self.region().0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_order_by_time_then_counter_then_region() {
        let (one, two) = (Region::new(1).unwrap(), Region::new(2).unwrap());
        let stamp = Stamp::at(1_800_000_000_000, one);
        assert_eq!(stamp.unix_ms(), 1_800_000_000_000);
        assert_eq!(stamp.region(), one);
        assert!(stamp < Stamp::at(1_800_000_000_000, two));
        assert!(Stamp::at(1_800_000_000_000, two) < stamp.plus(1));
        assert!(stamp.plus(65_535) < Stamp::at(1_800_000_000_001, one));
        assert_eq!(stamp.plus(65_536), Stamp::at(1_800_000_000_001, one));
        assert_eq!(stamp.plus(7).before(), stamp.plus(6));
        assert_eq!(Stamp::of(one, stamp.position()), Some(stamp));
        assert!(stamp.next_of(two) > stamp);
        assert_eq!(Region::new(64), None);
        assert_eq!(Stamp::from_word(1 << 63), None);
        // Times before the epoch and after the end do not wrap.
        assert_eq!(Stamp::at(5, one), Stamp::start(one));
        assert!(Stamp::at(u64::MAX, one).plus(u64::MAX).word() >> 63 == 0);
    }
}
