// SPDX-License-Identifier: BSD-3-Clause
//! Numbers as text: the forms that Redis parses and writes, to the byte.
//!
//! HOT PATH: no allocation, no lock, no logging, no system call (the float writers reserve room in
//! the caller's vector).
//!
//! A string value is stored as an integer only if [`parse_i64`] accepts it, so its rules decide
//! the reply of `OBJECT ENCODING` and the refusals of INCR: only the canonical spelling of each
//! number passes. Floats have two spellings: that of Redis 7.0 ([`format_f64_17`]) and the short
//! one of Redis 8 and Valkey 9 ([`format_f64_shortest`]). Integers that Redis parses with the C
//! library's `strtoull` (SCAN cursors, stream ids) have their own, laxer parsers. No function here
//! may ever panic, whatever the input.

mod double_text;
mod float;
mod grisu;

pub use double_text::DoubleText;
pub use float::{format_f64_17, format_f64_shortest, parse_f64, parse_f64_bound};
pub(crate) use float::{is_infinity, read_exponent, read_hexadecimal, split_sign};

/// A word for each float but NaN, in the same order; that of `-0` is before that of `0`.
#[inline]
pub fn ordered_bits(number: f64) -> u64 {
    let bits = number.to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

/// The float of a word of [`ordered_bits`].
#[inline]
pub fn from_ordered_bits(word: u64) -> f64 {
    f64::from_bits(if word >> 63 == 1 { word & !(1 << 63) } else { !word })
}

/// Longest text of an `i64` or `u64`, in bytes: `-9223372036854775808`, `18446744073709551615`.
pub const INTEGER_LEN_MAX: usize = 20;

/// Parses a canonical decimal integer: an optional `-`, then digits without leading zeros; `0`
/// itself is accepted, but not `-0`, `+1`, spaces or the empty string. `None` also if the number
/// does not fit.
#[inline]
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let &first = text.first()?;
    let negative = first == b'-';
    let digits = if negative { &text[1..] } else { text };
    let magnitude = parse_canonical_magnitude(digits)?;
    if negative {
        // Of texts with magnitude zero, only "-0" gets here.
        if magnitude == 0 || magnitude > i64::MIN.unsigned_abs() {
            return None;
        }
        Some((magnitude as i64).wrapping_neg())
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// Parses digits without a sign or leading zeros, at most 19 of them: 19 digits always fit in 64
/// bits, and a 20-digit number never fits an `i64`, so no step needs an overflow check. Eight
/// digits are parsed per step.
#[inline]
fn parse_canonical_magnitude(digits: &[u8]) -> Option<u64> {
    let (&first, rest) = digits.split_first()?;
    if rest.is_empty() {
        let digit = first.wrapping_sub(b'0');
        return (digit <= 9).then_some(u64::from(digit));
    }
    if rest.len() > 18 || first == b'0' {
        return None;
    }
    if digits.len() < 8 {
        return eight_digits(right_aligned(digits));
    }
    let (groups, tail) = digits.as_chunks::<8>();
    let mut value = 0;
    for group in groups {
        value = value * 100_000_000 + eight_digits(u64::from_le_bytes(*group))?;
    }
    if !tail.is_empty() {
        let scale = const { [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000] }[tail.len()];
        value = value * scale + eight_digits(right_aligned(tail))?;
    }
    Some(value)
}

const EIGHT_ZEROS: u64 = u64::from_le_bytes([b'0'; 8]);

/// One to seven bytes of text as the last of eight bytes; the other bytes are `0`.
#[inline]
fn right_aligned(text: &[u8]) -> u64 {
    let len = text.len();
    // Overlapping pieces agree where they overlap, so they can simply be combined.
    let packed = if let (Some(&head), Some(&tail)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        u64::from(u32::from_le_bytes(head)) | u64::from(u32::from_le_bytes(tail)) << ((len - 4) * 8)
    } else {
        u64::from(text[0])
            | u64::from(text[len / 2]) << (len / 2 * 8)
            | u64::from(text[len - 1]) << ((len - 1) * 8)
    };
    packed << ((8 - len) * 8) | EIGHT_ZEROS >> (len * 8)
}

/// The value of eight digits, the first in the lowest byte. `None` if any byte is not a digit.
#[inline]
fn eight_digits(text: u64) -> Option<u64> {
    let digits = text ^ EIGHT_ZEROS;
    // A digit plus 0x76 stays below 0x80. (Only bytes that are refused anyway can carry into the
    // next byte.)
    if (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    // Digits are combined into pairs, pairs into fours, fours into the whole.
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours * 10_000 + (fours >> 32)) & 0xffff_ffff)
}

/// Parses a canonical unsigned integer: like [`parse_i64`] without the sign, up to `u64::MAX`.
#[inline]
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    if text.len() <= 19 {
        return parse_canonical_magnitude(text);
    }
    if text.len() > INTEGER_LEN_MAX || text[0] == b'0' {
        return None;
    }
    digits_checked(text)
}

fn digits_checked(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// White space as in C's `isspace` in the C locale (Rust's own test excludes vertical tab).
#[inline]
pub fn is_c_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The result of C's `strtoull(text, &end, 10)` for the whole text: leading white space, a sign
/// and leading zeros are accepted, a negative number is taken modulo 2^64. `None` on overflow, if
/// text is left over, or without any digits; callers handle the empty string themselves.
fn strtoull(text: &[u8]) -> Option<u64> {
    // C strings end at the first NUL.
    let text = text.split(|&byte| byte == 0).next()?;
    let start = text.iter().position(|&byte| !is_c_space(byte))?;
    let (negative, digits) = match text[start] {
        b'-' => (true, &text[start + 1..]),
        b'+' => (false, &text[start + 1..]),
        _ => (false, &text[start..]),
    };
    if digits.is_empty() {
        return None;
    }
    let magnitude = digits_checked(digits)?;
    Some(if negative { magnitude.wrapping_neg() } else { magnitude })
}

/// Parses one half of a stream id like Redis: a canonical integer must not be negative; any other
/// text is parsed by `strtoull`, so ` 5`, `+5`, `007` and `-0` pass too.
pub fn parse_u64_lenient(text: &[u8]) -> Option<u64> {
    match parse_i64(text) {
        Some(value) => u64::try_from(value).ok(),
        None => strtoull(text),
    }
}

/// Parses a SCAN cursor like Redis: by the rules of `strtoul`, but without leading white space;
/// the empty string is zero.
pub fn parse_cursor(text: &[u8]) -> Option<u64> {
    match text.first() {
        None | Some(0) => Some(0),
        Some(&first) if is_c_space(first) => None,
        Some(_) => strtoull(text),
    }
}

const DIGIT_PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

/// Writes `value` in decimal at the end of `buffer` and returns the written part.
#[inline]
pub fn write_i64(buffer: &mut [u8; INTEGER_LEN_MAX], value: i64) -> &[u8] {
    let mut start = write_magnitude(buffer, value.unsigned_abs());
    if value < 0 {
        // An i64 has at most 19 digits, so one byte is left for the sign.
        start -= 1;
        buffer[start] = b'-';
    }
    &buffer[start..]
}

/// Writes `value` in decimal at the end of `buffer` and returns the written part.
#[inline]
pub fn write_u64(buffer: &mut [u8; INTEGER_LEN_MAX], value: u64) -> &[u8] {
    let start = write_magnitude(buffer, value);
    &buffer[start..]
}

#[inline]
fn write_magnitude(buffer: &mut [u8; INTEGER_LEN_MAX], mut rest: u64) -> usize {
    let mut start = INTEGER_LEN_MAX;
    while rest >= 100 {
        let pair = (rest % 100) as usize * 2;
        rest /= 100;
        start -= 2;
        buffer[start..start + 2].copy_from_slice(&DIGIT_PAIRS[pair..pair + 2]);
    }
    if rest >= 10 {
        let pair = rest as usize * 2;
        start -= 2;
        buffer[start..start + 2].copy_from_slice(&DIGIT_PAIRS[pair..pair + 2]);
    } else {
        start -= 1;
        buffer[start] = b'0' + rest as u8;
    }
    start
}

/// Appends `value` in decimal.
#[inline]
pub fn push_i64(out: &mut Vec<u8>, value: i64) {
    let mut buffer = [0; INTEGER_LEN_MAX];
    out.extend_from_slice(write_i64(&mut buffer, value));
}

/// Length in bytes of `value` written in decimal, sign included.
#[inline]
pub fn digits_len(value: i64) -> usize {
    let magnitude = value.unsigned_abs();
    let digits = magnitude.checked_ilog10().map_or(1, |log| log as usize + 1);
    digits + usize::from(value < 0)
}

/// Parses a memory size of the configuration: digits and an optional unit in any case. `b` is
/// bytes; `k`, `m`, `g` are powers of 1000; `kb`, `mb`, `gb` powers of 1024. As in Redis, a text
/// without digits is zero. `None` (Redis replies "argument must be a memory value") for a sign,
/// another unit, or a size beyond 64 bits, for which Redis would wrap around.
pub fn parse_memory_size(text: &[u8]) -> Option<u64> {
    let split = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let factor: u64 = match unit.to_ascii_lowercase().as_slice() {
        b"" | b"b" => 1,
        b"k" => 1000,
        b"kb" => 1 << 10,
        b"m" => 1_000_000,
        b"mb" => 1 << 20,
        b"g" => 1_000_000_000,
        b"gb" => 1 << 30,
        _ => return None,
    };
    digits_checked(digits)?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_floats_are_in_their_order() {
        let floats =
            [f64::NEG_INFINITY, -1e300, -1.5, -f64::MIN_POSITIVE, -0.0, 0.0, 5e-324, 1.0, f64::INFINITY];
        assert!(floats.map(ordered_bits).is_sorted_by(|one, next| one < next));
        for float in floats {
            assert_eq!(from_ordered_bits(ordered_bits(float)).to_bits(), float.to_bits());
        }
    }
    use proptest::prelude::*;

    #[test]
    fn canonical_integers_only() {
        for (text, value) in [
            ("0", 0),
            ("7", 7),
            ("-1", -1),
            ("1234567890123456789", 1234567890123456789),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(parse_i64(text.as_bytes()), Some(value));
        }
        for text in [
            "",
            "-",
            "-0",
            "+1",
            "01",
            "-01",
            "00",
            " 1",
            "1 ",
            "1a",
            "0x1",
            "1.0",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
            "18446744073709551616",
            "\u{661}",
            "--1",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        assert_eq!(parse_u64(b"00000000000000000001"), None);
        assert_eq!(parse_u64(b"-1"), None);
    }

    #[test]
    fn lenient_integers() {
        for (text, value) in
            [(" 5", Some(5)), ("+5", Some(5)), ("007", Some(7)), ("-0", Some(0)), ("-5", None)]
        {
            assert_eq!(parse_u64_lenient(text.as_bytes()), value, "{text}");
        }
        assert_eq!(parse_u64_lenient(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64_lenient(b"18446744073709551616"), None);
        assert_eq!(parse_u64_lenient(b"5x"), None);
        assert_eq!(parse_u64_lenient(b""), None);
        assert_eq!(parse_cursor(b""), Some(0));
        assert_eq!(parse_cursor(b"-1"), Some(u64::MAX));
        assert_eq!(parse_cursor(b" 1"), None);
        assert_eq!(parse_cursor(b"+1"), Some(1));
        assert_eq!(parse_cursor(b"1x"), None);
    }

    #[test]
    fn memory_sizes() {
        for (text, bytes) in [
            ("100", 100),
            ("100b", 100),
            ("1k", 1000),
            ("1kB", 1024),
            ("5m", 5_000_000),
            ("5MB", 5 << 20),
            ("1g", 1_000_000_000),
            ("1Gb", 1 << 30),
            ("", 0),
            ("kb", 0),
        ] {
            assert_eq!(parse_memory_size(text.as_bytes()), Some(bytes), "{text}");
        }
        for text in
            ["-1", "+1", "1t", "1 kb", "1.5gb", "10%", "99999999999999999999", "18446744073709551615k", "kbb"]
        {
            assert_eq!(parse_memory_size(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn integers_round_trip(value: i64, shift in 0u32..64) {
            let value = value >> shift;
            let mut buffer = [0; INTEGER_LEN_MAX];
            let text = write_i64(&mut buffer, value);
            prop_assert_eq!(std::str::from_utf8(text).unwrap(), value.to_string());
            prop_assert_eq!(text.len(), digits_len(value));
            prop_assert_eq!(parse_i64(text), Some(value));
            let value = value as u64;
            let text = write_u64(&mut buffer, value);
            prop_assert_eq!(std::str::from_utf8(text).unwrap(), value.to_string());
            prop_assert_eq!(parse_u64(text), Some(value));
        }

        #[test]
        fn integers_are_canonical_or_refused(text in "[-+0-9 ]{0,21}") {
            let canonical = text.parse::<i64>().ok().filter(|value| value.to_string() == text);
            prop_assert_eq!(parse_i64(text.as_bytes()), canonical);
            let canonical = text.parse::<u64>().ok().filter(|value| value.to_string() == text);
            prop_assert_eq!(parse_u64(text.as_bytes()), canonical);
        }

        #[test]
        fn one_wrong_byte_is_noticed(value in 0u64..10_000_000_000_000_000_000, at in 0usize..19, wrong: u8) {
            let mut text = value.to_string().into_bytes();
            let at = at % text.len();
            text[at] = wrong;
            let expected = std::str::from_utf8(&text).ok().and_then(|text| {
                text.parse::<u64>().ok().filter(|value| value.to_string() == text)
            });
            prop_assert_eq!(parse_u64(&text), expected);
        }

        #[test]
        fn any_bytes_are_survived(text: Vec<u8>, tail in "[-+0-9.eExXpPinfINFtyaA]{0,30}") {
            for text in [text.as_slice(), tail.as_bytes()] {
                if let Some(value) = parse_i64(text) {
                    prop_assert_eq!(parse_u64_lenient(text), u64::try_from(value).ok());
                }
                parse_u64_lenient(text);
                parse_cursor(text);
                parse_memory_size(text);
            }
        }
    }
}
