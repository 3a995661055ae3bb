// SPDX-License-Identifier: BSD-3-Clause
//! A compressed chunk: the form of the Gorilla paper (Pelkonen et al., 2015), with the field widths
//! that Redis Stack's DUMP shows, so that chunks are read and written without being recoded.
//!
//! The first sample is in the head. Each further one is two codes:
//!
//! ```text
//! time    difference between this interval and the last one, in two's complement
//!         0                    the same interval
//!         10     + 5 bits      110    + 8 bits     1110   + 11 bits
//!         11110  + 15 bits     111110 + 32 bits    111111 + 64 bits
//! value   its bits xor those of the last value
//!         0                    the same value
//!         10 + the bits in the last window
//!         11 + 5 bits: zeros above + 6 bits: width less one + the bits: a new window
//! ```
//! Codes are shown in the order in which their bits are written. The last window is used again if
//! the bits fit and it is less than 11 bits wider than they need.

use braid_base::relocation::Mover;

use super::Sample;
use super::bits::{self, Reader};

/// Width of the time codes' fields, by the number of ones before them.
const TIME_BITS: [u32; 7] = [0, 5, 8, 11, 15, 32, 64];
/// Bits that a new window costs.
const WINDOW_BITS: u32 = 11;
/// Leading zeros that a window can state at most.
const LEADING_MAX: u32 = 31;
/// Bytes by which a chunk grows for a sample in its middle.
const GROWTH_BYTES: u32 = 32;
/// Bounds of the window before there is one: nothing fits.
const NO_WINDOW: u8 = 32;

/// The head of a chunk, as DUMP has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Head {
    pub count: u32,
    /// Bits in use.
    pub bits: u32,
    pub first: Sample,
    pub last: Sample,
    /// The last interval.
    pub interval: u64,
    pub leading: u8,
    pub trailing: u8,
}

impl Head {
    const EMPTY: Head = Head {
        count: 0,
        bits: 0,
        first: Sample { time: 0, value: 0.0 },
        last: Sample { time: 0, value: 0.0 },
        interval: 0,
        leading: NO_WINDOW,
        trailing: NO_WINDOW,
    };
}

/// A compressed chunk.
#[derive(Clone, Debug)]
pub(super) struct Packed {
    head: Head,
    /// Bytes that it may use.
    pub size: u32,
    words: Vec<u64>,
}

/// The two codes of a sample, each as bits and length.
struct Codes {
    time: (u64, u32),
    interval: u64,
    /// The rest of a time code of more than 64 bits.
    time_rest: (u64, u32),
    value: (u64, u32),
    bits: (u64, u32),
    window: (u8, u8),
}

impl Codes {
    fn len(&self) -> u32 {
        self.time.1 + self.time_rest.1 + self.value.1 + self.bits.1
    }
}

/// The code of a change of the interval.
#[inline]
fn time_code(change: i64) -> ((u64, u32), (u64, u32)) {
    if change == 0 {
        return ((0, 1), (0, 0));
    }
    for ones in 1..5u32 {
        let len = TIME_BITS[ones as usize];
        let half = 1i64 << (len - 1);
        if (-half..half).contains(&change) {
            let field = change as u64 & ((1 << len) - 1);
            return ((((1 << ones) - 1) | field << (ones + 1), ones + 1 + len), (0, 0));
        }
    }
    if i32::try_from(change).is_ok() {
        return ((0b011111 | u64::from(change as u32) << 6, 6 + 32), (0, 0));
    }
    ((0b111111, 6), (change as u64, 64))
}

impl Packed {
    /// Moves the bits to a better place.
    pub fn relocate(&mut self, mover: &mut Mover) {
        mover.relocate_vec(&mut self.words);
    }

    pub fn new(size: u32) -> Packed {
        Packed { head: Head::EMPTY, size, words: Vec::new() }
    }

    /// A chunk of a dump. `None` if it is damaged.
    pub fn from_parts(head: Head, size: u32, words: Vec<u64>) -> Option<Packed> {
        let words: Vec<u64> = words.into_iter().take((head.bits as usize).div_ceil(64)).collect();
        let mut packed = Packed { head, size, words };
        if u64::from(head.bits) > u64::from(size) * 8 || packed.words.len() * 64 < head.bits as usize {
            return None;
        }
        if head.count == 0 {
            packed = Packed::new(size);
            return (head.bits == 0).then_some(packed);
        }
        // Bits beyond the end must be zero: what follows is written with "or".
        if let (Some(last), used @ 1..) = (packed.words.last_mut(), head.bits % 64) {
            *last &= u64::MAX >> (64 - used);
        }
        let mut samples = packed.iter();
        let (mut before, mut count) = (None, 0);
        for sample in samples.by_ref() {
            let grows = before.is_none_or(|before| before < sample.time) && sample.time <= i64::MAX as u64;
            if !grows {
                return None;
            }
            (before, count) = (Some(sample.time), count + 1);
        }
        let is_whole = samples.reader.position() == head.bits as usize && count == head.count;
        let fits = samples.last.time == head.last.time
            && samples.last.value.to_bits() == head.last.value.to_bits()
            && (head.count == 1 || samples.interval == head.interval)
            && (samples.leading, samples.trailing) == (u32::from(head.leading), u32::from(head.trailing));
        (is_whole && fits).then_some(packed)
    }

    pub fn head(&self) -> &Head {
        &self.head
    }

    pub fn words(&self) -> &[u64] {
        &self.words
    }

    fn codes(&self, sample: Sample) -> Codes {
        let head = &self.head;
        let interval = sample.time.wrapping_sub(head.last.time);
        let (time, time_rest) = time_code(interval.wrapping_sub(head.interval) as i64);
        let change = sample.value.to_bits() ^ head.last.value.to_bits();
        let mut codes = Codes {
            time,
            interval,
            time_rest,
            value: (0, 1),
            bits: (0, 0),
            window: (head.leading, head.trailing),
        };
        if change == 0 {
            return codes;
        }
        let (leading, trailing) = (change.leading_zeros().min(LEADING_MAX), change.trailing_zeros());
        let width = 64 - leading - trailing;
        let (last_leading, last_trailing) = (u32::from(head.leading), u32::from(head.trailing));
        let last_width = 64 - last_leading - last_trailing;
        if leading >= last_leading && trailing >= last_trailing && last_width < width + WINDOW_BITS {
            codes.value = (0b01, 2);
            codes.bits = (change >> last_trailing, last_width);
        } else {
            codes.value = (0b11 | u64::from(leading) << 2 | u64::from(width - 1) << 7, 13);
            codes.bits = (change >> trailing, width);
            codes.window = (leading as u8, trailing as u8);
        }
        codes
    }

    /// Appends a sample later than all others. False if it does not fit.
    #[inline]
    pub fn push(&mut self, sample: Sample) -> bool {
        if self.head.count == 0 {
            self.head = Head { count: 1, first: sample, last: sample, ..Head::EMPTY };
            return true;
        }
        let codes = self.codes(sample);
        if u64::from(self.head.bits + codes.len()) > u64::from(self.size) * 8 {
            return false;
        }
        self.reserve(codes.len());
        for (code, len) in [codes.time, codes.time_rest, codes.value, codes.bits] {
            bits::put(&mut self.words, self.head.bits, code, len);
            self.head.bits += len;
        }
        self.head.count += 1;
        self.head.last = sample;
        self.head.interval = codes.interval;
        (self.head.leading, self.head.trailing) = codes.window;
        true
    }

    /// Appends a sample later than all others; the chunk grows if it does not fit.
    pub fn push_growing(&mut self, sample: Sample) {
        while !self.push(sample) {
            self.size += GROWTH_BYTES;
        }
    }

    /// Makes room for more bits, in steps that leave little unused.
    #[inline]
    fn reserve(&mut self, more: u32) {
        let needed = ((self.head.bits + more) as usize).div_ceil(64);
        if needed > self.words.capacity() {
            let len = self.words.len();
            let most = (self.size as usize / 8).max(needed);
            let wanted = (len + len / 4 + 4).clamp(needed, most);
            self.words.reserve_exact(wanted - len);
        }
    }

    /// The samples before a time as a chunk of the same size, and the others.
    pub fn cut(&self, time: u64) -> (Packed, Vec<Sample>) {
        let mut rest = self.iter();
        let mut kept = Packed::new(self.size);
        loop {
            let before = rest.clone();
            match rest.next() {
                Some(sample) if sample.time < time => kept.head.count += 1,
                _ => {
                    rest = before;
                    break;
                }
            }
        }
        if kept.head.count > 0 {
            let bits = rest.reader.position() as u32;
            kept.head = Head {
                count: kept.head.count,
                bits,
                first: self.head.first,
                last: rest.last,
                interval: rest.interval,
                leading: rest.leading as u8,
                trailing: rest.trailing as u8,
            };
            kept.words.reserve_exact(self.words.len() + 4);
            kept.words.extend_from_slice(&self.words[..bits.div_ceil(64) as usize]);
            if let (Some(last), used @ 1..) = (kept.words.last_mut(), bits % 64) {
                *last &= u64::MAX >> (64 - used);
            }
        }
        (kept, rest.collect())
    }

    /// Gives unused memory back.
    pub fn shrink(&mut self) {
        self.words.shrink_to_fit();
    }

    pub fn memory_bytes(&self) -> usize {
        if self.words.capacity() == 0 { 0 } else { braid_base::alloc::size_class(self.words.capacity() * 8) }
    }

    #[inline]
    pub fn iter(&self) -> PackedIter<'_> {
        PackedIter {
            reader: Reader::new(&self.words),
            left: self.head.count,
            is_first: true,
            last: self.head.first,
            interval: 0,
            leading: NO_WINDOW.into(),
            trailing: NO_WINDOW.into(),
        }
    }
}

/// The samples of a chunk, in order.
#[derive(Clone)]
pub(super) struct PackedIter<'a> {
    reader: Reader<'a>,
    left: u32,
    is_first: bool,
    last: Sample,
    interval: u64,
    // Bounds of the last window, of which there are at most 64 bits together.
    leading: u32,
    trailing: u32,
}

impl PackedIter<'_> {
    /// Reads the samples that follow into a block, until it is full; their number.
    #[inline]
    pub fn fill(&mut self, block: &mut [Sample]) -> usize {
        // A copy of its own can stay in registers.
        let mut samples = self.clone();
        let mut count = 0;
        for (place, sample) in block.iter_mut().zip(samples.by_ref()) {
            *place = sample;
            count += 1;
        }
        *self = samples;
        count
    }

    /// Reads a time; the 64 bits after it, or fewer and then zeros, but at least a value's code.
    #[inline]
    fn read_time(&mut self) -> u64 {
        let next = self.reader.peek();
        let ones = (!next).trailing_zeros().min(6);
        if ones == 0 {
            self.reader.skip(1);
            self.last.time = self.last.time.wrapping_add(self.interval);
            return next >> 1;
        }
        let change = match ones {
            6 => {
                self.reader.skip(6);
                self.reader.take(64)
            }
            _ => {
                let len = TIME_BITS[ones as usize];
                self.reader.skip(ones + 1 + len);
                let field = next >> (ones + 1) << (64 - len);
                (field as i64 >> (64 - len)) as u64
            }
        };
        self.interval = self.interval.wrapping_add(change);
        self.last.time = self.last.time.wrapping_add(self.interval);
        self.reader.peek()
    }

    /// Reads a value, whose code is at the start of these bits.
    #[inline]
    fn read_value(&mut self, next: u64) {
        if next & 1 == 0 {
            self.reader.skip(1);
            return;
        }
        // New windows come at random, so this is not to be a branch.
        let is_new = next & 2 != 0;
        let (leading, width) = ((next >> 2 & 31) as u32, (next >> 7 & 63) as u32 + 1);
        // Only damaged chunks have windows beyond the value.
        let trailing = 64u32.saturating_sub(leading + width);
        self.leading = if is_new { leading } else { self.leading };
        self.trailing = if is_new { trailing } else { self.trailing };
        self.reader.skip(if is_new { 13 } else { 2 });
        // Nothing is left of the bits if there has been no window, which again is damage.
        let change = self.reader.peek() << self.leading << self.trailing >> self.leading;
        self.reader.skip(64 - self.leading - self.trailing);
        self.last.value = f64::from_bits(self.last.value.to_bits() ^ change);
    }
}

impl Iterator for PackedIter<'_> {
    type Item = Sample;

    #[inline]
    fn next(&mut self) -> Option<Sample> {
        self.left = self.left.checked_sub(1)?;
        if self.is_first {
            self.is_first = false;
        } else {
            let next = self.read_time();
            self.read_value(next);
        }
        Some(self.last)
    }
}
