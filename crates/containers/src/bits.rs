// SPDX-License-Identifier: BSD-3-Clause
//! Bitmaps: strings as arrays of bits, for the BIT commands.
//!
//! Bit 0 is the most significant bit of byte 0, as in Redis. All functions are pure and none grows
//! a string: callers do so first ([`bytes_for_bit`], [`bytes_for_field`]). Loops run over 64-bit
//! words in a form that the compiler can vectorise.

use std::ops::RangeInclusive;

/// Length in bytes of the shortest string that has bit `offset`.
pub fn bytes_for_bit(offset: u64) -> u64 {
    offset / 8 + 1
}

/// Length in bytes of the shortest string that has a field of `width` bits (at least 1) at
/// `offset`.
pub fn bytes_for_field(offset: u64, width: u32) -> u64 {
    bytes_for_bit(offset.saturating_add(u64::from(width.max(1)) - 1))
}

/// The bit at `offset`; bits past the end are zero.
pub fn get(bytes: &[u8], offset: u64) -> bool {
    byte_at(bytes, offset / 8) >> (7 - offset % 8) & 1 == 1
}

/// Sets the bit at `offset` and returns its old value. Past the end nothing changes: the caller
/// grows the string first.
pub fn set(bytes: &mut [u8], offset: u64, bit: bool) -> bool {
    let Some(byte) = usize::try_from(offset / 8).ok().and_then(|index| bytes.get_mut(index)) else {
        return false;
    };
    let mask = 0x80 >> (offset % 8);
    let old = *byte & mask != 0;
    if bit {
        *byte |= mask;
    } else {
        *byte &= !mask;
    }
    old
}

fn byte_at(bytes: &[u8], index: u64) -> u8 {
    usize::try_from(index).ok().and_then(|index| bytes.get(index)).copied().unwrap_or(0)
}

/// Converts the `start` and `end` of BITCOUNT and BITPOS to positions, like Redis, for a string of
/// `len` units (bytes, or bits with the BIT option). Negative numbers count from the end (-1 is
/// the last unit), numbers that are still negative become 0, and an `end` past the last unit
/// becomes the last unit. `None` is the empty range: `len` zero, or `start` after `end`.
///
/// BITCOUNT replies 0 immediately if both arguments are negative and `start > end`, even where
/// clamping would leave a range (`-1 -2` of a one-byte string); BITPOS does not. See
/// [`is_backward`].
pub fn normalize_range(start: i64, end: i64, len: u64) -> Option<RangeInclusive<u64>> {
    let last = i64::try_from(len).unwrap_or(i64::MAX).checked_sub(1).filter(|&last| last >= 0)?;
    let resolve =
        |position: i64| if position < 0 { (position + 1).saturating_add(last).max(0) } else { position };
    let (start, end) = (resolve(start), resolve(end).min(last));
    (start <= end).then_some(start as u64..=end as u64)
}

/// BITCOUNT's extra rule, see [`normalize_range`].
pub fn is_backward(start: i64, end: i64) -> bool {
    start < 0 && end < 0 && start > end
}

/// Number of set bits.
pub fn count_ones(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() >= 64 {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") && has!("avx512vl") && has!("avx512vpopcntdq") && has!("popcnt") {
            // SAFETY: the processor has all features that the function needs, as just checked.
            return unsafe { count_ones_avx512(bytes) };
        }
        if has!("avx2") && has!("popcnt") {
            // SAFETY: as above.
            return unsafe { count_ones_avx2(bytes) };
        }
    }
    count_ones_portable(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512vpopcntdq,popcnt")]
fn count_ones_avx512(bytes: &[u8]) -> u64 {
    count_ones_portable(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
fn count_ones_avx2(bytes: &[u8]) -> u64 {
    count_ones_portable(bytes)
}

#[inline(always)]
fn count_ones_portable(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let words: u64 = words.iter().map(|&word| u64::from(u64::from_ne_bytes(word).count_ones())).sum();
    words + rest.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>()
}

/// Number of set bits in `range`, which may extend past the end.
pub fn count_ones_in_bit_range(bytes: &[u8], range: RangeInclusive<u64>) -> u64 {
    let Some(Span { bytes, first, last }) = Span::of(bytes, range) else { return 0 };
    let Some((&head, &tail)) = bytes.first().zip(bytes.last()) else { return 0 };
    let outside = (head & !first).count_ones() + (tail & !last).count_ones();
    count_ones(bytes) - u64::from(outside)
}

/// Number of set bits in the bytes of `range`, which may extend past the end.
pub fn count_ones_in_byte_range(bytes: &[u8], range: RangeInclusive<u64>) -> u64 {
    count_ones_in_bit_range(bytes, to_bits(range))
}

/// Converts a range of bytes to the range of their bits.
pub fn to_bits(range: RangeInclusive<u64>) -> RangeInclusive<u64> {
    range.start().saturating_mul(8)..=range.end().saturating_mul(8).saturating_add(7)
}

/// The bytes touched by a range of bits, with masks for the first and the last byte.
struct Span<'a> {
    bytes: &'a [u8],
    first: u8,
    last: u8,
}

impl Span<'_> {
    fn of(bytes: &[u8], range: RangeInclusive<u64>) -> Option<Span<'_>> {
        let (start, end) = (*range.start(), *range.end());
        let end = end.min((bytes.len() as u64).saturating_mul(8).checked_sub(1)?);
        if start > end {
            return None;
        }
        // Both are below the length of a slice.
        let bytes = &bytes[(start / 8) as usize..=(end / 8) as usize];
        Some(Span { bytes, first: 0xff >> (start % 8), last: 0xff << (7 - end % 8) })
    }
}

/// Position, counted from bit 0 of the string, of the first bit in `range` that equals `bit`;
/// `None` if no existing bit does. For a range of bytes see [`to_bits`].
///
/// BITPOS 0 without an explicit end treats the string as followed by endless zeros: on `None` the
/// caller then replies with the length of the string in bits (if the range was not empty).
pub fn position(bytes: &[u8], bit: bool, range: RangeInclusive<u64>) -> Option<u64> {
    let origin = *range.start() / 8 * 8;
    let Span { bytes, first, last } = Span::of(bytes, range)?;
    // The wanted bit becomes a one.
    let flip = if bit { 0 } else { 0xff };
    let (&head, behind) = bytes.split_first()?;
    let head = (head ^ flip) & first & if behind.is_empty() { last } else { 0xff };
    if head != 0 {
        return Some(origin + u64::from(head.leading_zeros()));
    }
    let (&tail, middle) = behind.split_last()?;
    if let Some(found) = first_one(middle, flip) {
        return Some(origin + 8 + found);
    }
    let tail = (tail ^ flip) & last;
    (tail != 0).then(|| origin + 8 + middle.len() as u64 * 8 + u64::from(tail.leading_zeros()))
}

/// Passes the offsets of the bits in `range` that equal `bit` to `visit`, in ascending order,
/// `most` at most. Bits behind the end of `bytes` do not exist here.
pub fn each_offset(
    bytes: &[u8],
    bit: bool,
    range: RangeInclusive<u64>,
    most: u64,
    mut visit: impl FnMut(u64),
) {
    let origin = *range.start() / 8 * 8;
    let Some(Span { bytes, first, last }) = Span::of(bytes, range) else { return };
    let flip = if bit { 0 } else { 0xff };
    let (mut left, end) = (most, bytes.len() - 1);
    for (index, &byte) in bytes.iter().enumerate() {
        let mut wanted = byte ^ flip;
        wanted &= if index == 0 { first } else { 0xff };
        wanted &= if index == end { last } else { 0xff };
        while wanted != 0 {
            if left == 0 {
                return;
            }
            left -= 1;
            let zeros = wanted.leading_zeros();
            visit(origin + index as u64 * 8 + u64::from(zeros));
            wanted &= !(0x80 >> zeros);
        }
    }
}

/// The first set bit of `bytes` after XOR of each byte with `flip`.
fn first_one(bytes: &[u8], flip: u8) -> Option<u64> {
    const BLOCK: usize = 64;
    let plain = [flip; BLOCK];
    // Compare whole blocks; only a differing block is examined bit by bit.
    let skipped = bytes.chunks_exact(BLOCK).take_while(|block| *block == plain).count() * BLOCK;
    let (words, rest) = bytes[skipped..].as_chunks::<8>();
    let flip_word = u64::from_ne_bytes([flip; 8]);
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_be_bytes(*word) ^ flip_word;
        if word != 0 {
            return Some((skipped + index * 8) as u64 * 8 + u64::from(word.leading_zeros()));
        }
    }
    let at = rest.iter().position(|&byte| byte != flip)?;
    let before = (skipped + words.len() * 8 + at) as u64 * 8;
    Some(before + u64::from((rest[at] ^ flip).leading_zeros()))
}

/// The operations of BITOP. The last four were added in Redis 8.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    And,
    Or,
    Xor,
    /// Inverts all bits of the single source.
    Not,
    /// Bits of the first source that are in none of the others.
    Diff,
    /// Bits of any of the other sources that are not in the first.
    Diff1,
    /// Bits of the first source that are in at least one of the others.
    AndOr,
    /// Bits that are in exactly one source.
    One,
}

/// Combines `sources` bit by bit; the result is as long as the longest source, and shorter ones
/// are padded with zeros. The caller checks the number of sources: one for NOT (others are
/// ignored), at least two for DIFF, DIFF1 and ANDOR. Without a source the result is empty.
pub fn operate(operation: Operation, sources: &[&[u8]]) -> Vec<u8> {
    let Some((&first, others)) = sources.split_first() else { return Vec::new() };
    let sources = if operation == Operation::Not { &sources[..1] } else { sources };
    let len = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    match operation {
        Operation::Not => first.iter().map(|byte| !byte).collect(),
        Operation::And => {
            let mut result = padded(first, len);
            for source in others {
                combine(&mut result, source, |result, byte| result & byte);
                result[source.len()..].fill(0);
            }
            result
        }
        Operation::Or => any_of(sources, len),
        Operation::Xor => {
            let mut result = padded(first, len);
            for source in others {
                combine(&mut result, source, |result, byte| result ^ byte);
            }
            result
        }
        Operation::Diff | Operation::Diff1 | Operation::AndOr => {
            let mut result = any_of(others, len);
            let rule = match operation {
                Operation::Diff => |others: u8, first: u8| first & !others,
                Operation::Diff1 => |others: u8, first: u8| others & !first,
                _ => |others: u8, first: u8| first & others,
            };
            combine(&mut result, first, rule);
            if operation != Operation::Diff1 {
                result[first.len()..].fill(0);
            }
            result
        }
        Operation::One => {
            let mut once = padded(first, len);
            let mut more = vec![0; len];
            for source in others {
                for ((once, more), &byte) in once.iter_mut().zip(&mut more).zip(source.iter()) {
                    *more |= *once & byte;
                    *once ^= byte;
                }
            }
            combine(&mut once, &more, |once, more| once & !more);
            once
        }
    }
}

fn any_of(sources: &[&[u8]], len: usize) -> Vec<u8> {
    let mut result = padded(sources.first().copied().unwrap_or_default(), len);
    for source in sources.iter().skip(1) {
        combine(&mut result, source, |result, byte| result | byte);
    }
    result
}

fn padded(source: &[u8], len: usize) -> Vec<u8> {
    let mut result = Vec::with_capacity(len);
    result.extend_from_slice(source);
    result.resize(len, 0);
    result
}

/// Applies `rule` to the bytes that both slices have. A plain loop over bytes, which compiles to
/// vector instructions.
#[inline(always)]
fn combine(result: &mut [u8], source: &[u8], rule: impl Fn(u8, u8) -> u8) {
    for (result, &byte) in result.iter_mut().zip(source) {
        *result = rule(*result, byte);
    }
}

/// The type of a BITFIELD field: `i1` to `i64`, `u1` to `u63`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldType {
    signed: bool,
    width: u32,
}

/// BITFIELD's handling of a value that does not fit the field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// Keep only the low bits.
    #[default]
    Wrap,
    /// Use the nearest value that fits.
    Saturate,
    /// Change nothing; the reply is nil.
    Fail,
}

impl FieldType {
    /// `None` for widths outside 1 to 64 (signed) or 1 to 63 (unsigned; replies could not carry
    /// more).
    pub fn new(signed: bool, width: u32) -> Option<FieldType> {
        let width_max = if signed { 64 } else { 63 };
        (1..=width_max).contains(&width).then_some(FieldType { signed, width })
    }

    /// Parses `i8`, `u63` and so on. `None`: Redis replies "Invalid bitfield type. Use something
    /// like i16 u8. Note that u64 is not supported but i64 is."
    pub fn parse(text: &[u8]) -> Option<FieldType> {
        let (kind, width) = text.split_first()?;
        let signed = match kind {
            b'i' => true,
            b'u' => false,
            _ => return None,
        };
        let width = braid_base::number::parse_i64(width)?;
        FieldType::new(signed, u32::try_from(width).ok()?)
    }

    pub fn width(self) -> u32 {
        self.width
    }

    pub fn is_signed(self) -> bool {
        self.signed
    }

    fn bounds(self) -> (i128, i128) {
        if self.signed {
            let half = 1i128 << (self.width - 1);
            (-half, half - 1)
        } else {
            (0, (1i128 << self.width) - 1)
        }
    }

    /// The low bits of `value`, read as this type.
    fn wrap(self, value: i128) -> i64 {
        let unused = 64 - self.width;
        let top = (value as u64) << unused;
        if self.signed { top as i64 >> unused } else { (top >> unused) as i64 }
    }

    /// `None` if `value` does not fit and the rule is to fail.
    fn fit(self, value: i128, overflow: Overflow) -> Option<i64> {
        let (min, max) = self.bounds();
        if (min..=max).contains(&value) {
            // Within 64 bits by the bounds.
            return Some(value as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.wrap(value)),
            Overflow::Saturate => Some(value.clamp(min, max) as i64),
            Overflow::Fail => None,
        }
    }
}

/// BITFIELD GET: the field at bit `offset`; bits past the end are zero.
pub fn field_get(bytes: &[u8], field: FieldType, offset: u64) -> i64 {
    // A field touches at most nine bytes.
    let first = offset / 8;
    let window = (0..9)
        .fold(0u128, |window, index| window << 8 | u128::from(byte_at(bytes, first.saturating_add(index))));
    field.wrap((window >> (72 - (offset % 8) as u32 - field.width)) as i128)
}

/// Writes the low bits of `value` into the field. Ignores bytes past the end: the caller grows the
/// string first ([`bytes_for_field`]).
fn field_write(bytes: &mut [u8], field: FieldType, offset: u64, value: i64) {
    let shift = 72 - (offset % 8) as u32 - field.width;
    let mask = ((1u128 << field.width) - 1) << shift;
    let value = (u128::from(value as u64) << shift) & mask;
    let Ok(first) = usize::try_from(offset / 8) else { return };
    for (index, byte) in bytes.iter_mut().skip(first).take(9).enumerate() {
        let place = 64 - 8 * index as u32;
        *byte = *byte & !((mask >> place) as u8) | (value >> place) as u8;
    }
}

/// BITFIELD SET: stores `value` under the overflow rule and returns the old value; `None` (nil) if
/// nothing was stored. As in Redis, the value for an unsigned field is read as a 64-bit unsigned
/// number, so -1 is too large, not too small; and a value more than 2^63 - 1 below a signed
/// field's maximum saturates at the maximum.
pub fn field_set(
    bytes: &mut [u8],
    field: FieldType,
    offset: u64,
    value: i64,
    overflow: Overflow,
) -> Option<i64> {
    let (_, max) = field.bounds();
    let mut wide = if field.signed { i128::from(value) } else { i128::from(value as u64) };
    // Redis's own 64-bit test wraps around for values this far below the maximum: they saturate at
    // the maximum on every stock server.
    if overflow == Overflow::Saturate && field.width < 64 && max - wide > i128::from(i64::MAX) {
        wide = max;
    }
    let stored = field.fit(wide, overflow)?;
    let old = field_get(bytes, field, offset);
    field_write(bytes, field, offset, stored);
    Some(old)
}

/// BITFIELD INCRBY: adds to the field under the overflow rule and returns the new value; `None`
/// (nil) if nothing was stored.
pub fn field_increment(
    bytes: &mut [u8],
    field: FieldType,
    offset: u64,
    increment: i64,
    overflow: Overflow,
) -> Option<i64> {
    let old = field_get(bytes, field, offset);
    let new = field.fit(i128::from(old) + i128::from(increment), overflow)?;
    field_write(bytes, field, offset, new);
    Some(new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn bools(bytes: &[u8]) -> Vec<bool> {
        (0..bytes.len() as u64 * 8)
            .map(|offset| bytes[(offset / 8) as usize] & 0x80 >> (offset % 8) != 0)
            .collect()
    }

    #[test]
    fn ranges() {
        assert_eq!(normalize_range(0, -1, 3), Some(0..=2));
        assert_eq!(normalize_range(-2, 100, 3), Some(1..=2));
        assert_eq!(normalize_range(-100, -100, 3), Some(0..=0));
        assert_eq!(normalize_range(-1, -2, 3), None);
        assert_eq!(normalize_range(-1, -2, 1), Some(0..=0));
        assert!(is_backward(-1, -2));
        assert_eq!(normalize_range(3, 5, 3), None);
        assert_eq!(normalize_range(0, 0, 0), None);
        assert_eq!(normalize_range(i64::MIN, i64::MAX, u64::MAX), Some(0..=i64::MAX as u64 - 1));
    }

    #[test]
    fn fields_of_the_manual() {
        let mut bytes = [0; 2];
        let u5 = FieldType::parse(b"u5").unwrap();
        assert_eq!(field_set(&mut bytes, u5, 7, 23, Overflow::Wrap), Some(0));
        assert_eq!(bytes, [0b0000_0001, 0b0111_0000]);
        assert_eq!(field_get(&bytes, u5, 7), 23);
        assert_eq!(field_increment(&mut bytes, u5, 7, 10, Overflow::Fail), None);
        assert_eq!(field_increment(&mut bytes, u5, 7, 10, Overflow::Saturate), Some(31));
        assert_eq!(field_increment(&mut bytes, u5, 7, 1, Overflow::Wrap), Some(0));
        assert_eq!(field_set(&mut bytes, u5, 7, -1, Overflow::Saturate), Some(0));
        assert_eq!(field_get(&bytes, u5, 7), 31);
        let i8_type = FieldType::parse(b"i8").unwrap();
        for (value, stored) in
            [(i64::MIN, 127), (i64::MIN + 127, 127), (i64::MIN + 128, -128), (-129, -128), (128, 127)]
        {
            field_set(&mut bytes, i8_type, 4, value, Overflow::Saturate);
            assert_eq!(field_get(&bytes, i8_type, 4), stored, "{value}");
        }
        for text in ["u64", "i65", "i0", "u", "", "x8", "i-1", "u08", "i+8"] {
            assert_eq!(FieldType::parse(text.as_bytes()), None, "{text}");
        }
        let i64_type = FieldType::parse(b"i64").unwrap();
        assert_eq!(field_get(&[0xff; 8], i64_type, u64::MAX), 0);
        let mut bytes = [0xff; 9];
        assert_eq!(field_set(&mut bytes, i64_type, 3, i64::MIN, Overflow::Fail), Some(-1));
        assert_eq!(bytes, [0xf0, 0, 0, 0, 0, 0, 0, 0, 0x1f]);
        assert_eq!(field_increment(&mut bytes, i64_type, 3, -1, Overflow::Saturate), Some(i64::MIN));
        assert_eq!(field_increment(&mut bytes, i64_type, 3, -1, Overflow::Wrap), Some(i64::MAX));
    }

    /// All implementations that this processor supports give the same count.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn all_ways_of_counting_agree() {
        let bytes: Vec<u8> = (0..1000u32).map(|index| (index * 7 + index / 3) as u8).collect();
        for start in 0..40 {
            let bytes = &bytes[start..];
            let expected: u64 = bytes.iter().map(|byte| u64::from(byte.count_ones())).sum();
            assert_eq!(count_ones_portable(bytes), expected);
            assert_eq!(count_ones(bytes), expected);
            if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("popcnt") {
                // SAFETY: the processor has the features, as just checked.
                assert_eq!(unsafe { count_ones_avx2(bytes) }, expected);
            }
        }
    }

    proptest! {
        #[test]
        fn counting_and_searching(
            bytes in vec(prop_oneof![Just(0u8), Just(0xff), any::<u8>()], 0..300),
            start in 0u64..2500, len in 0u64..2500, bit: bool,
        ) {
            let range = start..=start + len;
            let model = bools(&bytes);
            let inside = || model.iter().enumerate().filter(|(index, _)| range.contains(&(*index as u64)));
            let ones = inside().filter(|(_, bit)| **bit).count() as u64;
            prop_assert_eq!(count_ones_in_bit_range(&bytes, range.clone()), ones);
            let first = inside().find(|(_, found)| **found == bit).map(|(index, _)| index as u64);
            prop_assert_eq!(position(&bytes, bit, range.clone()), first);
            prop_assert_eq!(count_ones(&bytes), model.iter().filter(|bit| **bit).count() as u64);
        }

        #[test]
        fn long_runs(len in 0usize..500, at in 0usize..500, fill: bool, start in 0u64..100) {
            let mut bytes = vec![if fill { 0xff } else { 0 }; len];
            if let Some(byte) = bytes.get_mut(at) { *byte ^= 0x10; }
            let expected = (at < len && at as u64 * 8 + 3 >= start).then_some(at as u64 * 8 + 3);
            prop_assert_eq!(position(&bytes, !fill, start..=u64::MAX), expected);
        }

        #[test]
        fn single_bits(mut bytes in vec(any::<u8>(), 0..20), offset in 0u64..200, bit: bool) {
            let mut model = bools(&bytes);
            let old = model.get(offset as usize).copied().unwrap_or(false);
            prop_assert_eq!(get(&bytes, offset), old);
            prop_assert_eq!(set(&mut bytes, offset, bit), old);
            if let Some(place) = model.get_mut(offset as usize) { *place = bit; }
            prop_assert_eq!(bools(&bytes), model);
        }

        #[test]
        fn operations(sources in vec(vec(any::<u8>(), 0..70), 1..5)) {
            let slices: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
            let len = sources.iter().map(Vec::len).max().unwrap();
            use Operation::{And, AndOr, Diff, Diff1, One, Or, Xor};
            for operation in [And, Or, Xor, Diff, Diff1, AndOr, One] {
                let result = operate(operation, &slices);
                prop_assert_eq!(result.len(), len);
                for offset in 0..len as u64 * 8 {
                    let first = get(slices[0], offset);
                    let all = slices.iter().filter(|source| get(source, offset)).count();
                    let others = all - usize::from(first);
                    let expected = match operation {
                        Operation::And => all == slices.len(),
                        Operation::Or => all > 0,
                        Operation::Xor => all % 2 == 1,
                        Operation::Diff => first && others == 0,
                        Operation::Diff1 => !first && others > 0,
                        Operation::AndOr => first && others > 0,
                        Operation::One | Operation::Not => all == 1,
                    };
                    prop_assert_eq!(get(&result, offset), expected, "{:?} at {}", operation, offset);
                }
            }
            let turned: Vec<u8> = sources[0].iter().map(|byte| !byte).collect();
            prop_assert_eq!(operate(Operation::Not, &slices), turned);
        }

        #[test]
        fn fields(
            mut bytes in vec(any::<u8>(), 30), signed: bool, width in 1u32..=64,
            offset in 0u64..176, value: i64, shift in 0u32..64,
        ) {
            prop_assume!(signed || width < 64);
            let field = FieldType::new(signed, width).unwrap();
            let before = bools(&bytes);
            let value = value >> shift;
            let bits = &before[offset as usize..offset as usize + width as usize];
            let mut old = bits.iter().fold(0i128, |sum, &bit| sum * 2 + i128::from(bit));
            if signed && bits[0] { old -= 1 << width; }
            prop_assert_eq!(i128::from(field_get(&bytes, field, offset)), old);
            let sum = old + i128::from(value);
            let (min, max) = field.bounds();
            let fits = (min..=max).contains(&sum);
            let failing = field_increment(&mut bytes.clone(), field, offset, value, Overflow::Fail);
            prop_assert_eq!(failing, fits.then_some(sum as i64));
            let saturated = field_increment(&mut bytes.clone(), field, offset, value, Overflow::Saturate);
            prop_assert_eq!(saturated.map(i128::from), Some(sum.clamp(min, max)));
            let wrapped = field_increment(&mut bytes, field, offset, value, Overflow::Wrap).unwrap();
            prop_assert_eq!((i128::from(wrapped) - sum).rem_euclid(1 << width), 0);
            prop_assert!((min..=max).contains(&i128::from(wrapped)));
            prop_assert_eq!(field_get(&bytes, field, offset), wrapped);
            // Bits around the field are unchanged.
            for (index, (old, new)) in before.iter().zip(bools(&bytes)).enumerate() {
                let inside = (offset..offset + u64::from(width)).contains(&(index as u64));
                prop_assert!(inside || *old == new);
            }
        }
    }
}
