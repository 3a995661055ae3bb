// SPDX-License-Identifier: BSD-3-Clause
//! How a [block](super) stores its stamps: all in the same number of bytes, as few as they need.
//!
//! Elements of a block have mostly been written by one region, at times close to each other and far
//! from the start of 2020. Therefore a form states what the stamps have in common, and a stamp's
//! code has the rest: milliseconds since the form's, the counter in as many bits as the largest
//! needs, and the region unless it is the same everywhere. A form that cannot express a stamp says
//! so; it never changes one.

use crate::stamp::Stamp;

/// The size of a stamp that is stored as it is.
const WHOLE: usize = size_of::<Stamp>();
/// The longest code of a stamp that is not whole.
const SHORT_MAX: usize = 6;
const REGION_BITS: u32 = 6;
const COUNTER_BITS: u32 = 16;
/// A form is renewed after this many overwritten entries, in case they need fewer bytes by then.
const OVERWRITES_MAX: u64 = 128;

// The fields of a form's word; those of a stamp above and below them.
const ONE_OVERWRITE: u64 = 1 << REGION_BITS;
const HAS_REGIONS: u64 = 1 << 16;
const COUNTER_BITS_AT: u32 = 17;
const MS_AT: u32 = COUNTER_BITS + REGION_BITS;

/// See the module documentation. The word is like a stamp, but has other fields in place of the
/// counter: 5 bits for the length of the codes' counters, 1 bit for codes with regions, and 10
/// bits for the number of entries that have been overwritten in this form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StampForm {
    /// Bytes of a code.
    pub width: usize,
    pub word: u64,
}

fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

fn bits(number: u64) -> u32 {
    u64::BITS - number.leading_zeros()
}

impl StampForm {
    /// Stamps as they are.
    pub const WHOLE: StampForm = StampForm { width: WHOLE, word: 0 };

    /// The shortest form for some stamps.
    pub fn of(stamps: impl Iterator<Item = Stamp>) -> StampForm {
        let (mut count, mut first, mut last, mut counters) = (0, u64::MAX, 0, 0);
        let (mut all, mut any) = (u64::MAX, 0);
        for word in stamps.map(Stamp::word) {
            count += 1;
            (first, last) = (first.min(word), last.max(word));
            counters |= word >> REGION_BITS & mask(COUNTER_BITS);
            (all, any) = (all & word, any | word);
        }
        let has_regions = (all ^ any) & mask(REGION_BITS) != 0;
        let counter_bits = bits(counters);
        // Room for an eighth more time, so that a block of which all entries are overwritten in
        // turn is not renewed with each.
        let span = (last >> MS_AT).saturating_sub(first >> MS_AT);
        let needs = bits(span + span / 8) + counter_bits + if has_regions { REGION_BITS } else { 0 };
        let width = needs.div_ceil(8) as usize;
        if width > SHORT_MAX || count * (WHOLE - width) <= WHOLE {
            return StampForm::WHOLE;
        }
        let (region, has_regions) = if has_regions { (0, HAS_REGIONS) } else { (any & mask(REGION_BITS), 0) };
        let base = first >> MS_AT << MS_AT;
        StampForm { width, word: base | u64::from(counter_bits) << COUNTER_BITS_AT | has_regions | region }
    }

    #[inline]
    pub fn is_whole(&self) -> bool {
        self.width == WHOLE
    }

    #[inline]
    fn counter_bits(&self) -> u32 {
        (self.word >> COUNTER_BITS_AT & mask(MS_AT - COUNTER_BITS_AT)) as u32
    }

    /// The form after an entry has been overwritten; `None` if it should be renewed.
    #[inline]
    pub fn overwritten(&self) -> Option<StampForm> {
        let word = self.word + ONE_OVERWRITE;
        (word >> REGION_BITS & mask(10) < OVERWRITES_MAX).then_some(StampForm { word, ..*self })
    }

    /// The code of a stamp; `None` if the form cannot express it.
    #[inline]
    pub fn code(&self, stamp: Stamp) -> Option<u64> {
        let word = stamp.word();
        if self.is_whole() {
            return Some(word);
        }
        let ms = (word >> MS_AT).checked_sub(self.word >> MS_AT)?;
        let (counter, counter_bits) = (word >> REGION_BITS & mask(COUNTER_BITS), self.counter_bits());
        let time = ms << counter_bits | counter;
        let region = word & mask(REGION_BITS);
        let (code, fits) = match self.word & HAS_REGIONS {
            0 => (time, region == self.word & mask(REGION_BITS)),
            _ => (time << REGION_BITS | region, true),
        };
        (fits && counter >> counter_bits == 0 && code >> (8 * self.width) == 0).then_some(code)
    }

    /// The word of the stamp with a code.
    #[inline]
    pub fn stamp_word(&self, code: u64) -> u64 {
        if self.is_whole() {
            return code;
        }
        let (time, region) = match self.word & HAS_REGIONS {
            0 => (code, self.word & mask(REGION_BITS)),
            _ => (code >> REGION_BITS, code & mask(REGION_BITS)),
        };
        let counter_bits = self.counter_bits();
        let ms = (self.word >> MS_AT) + (time >> counter_bits);
        ms << MS_AT | (time & mask(counter_bits)) << REGION_BITS | region
    }
}
