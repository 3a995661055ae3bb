// SPDX-License-Identifier: BSD-3-Clause
//! Decimal text of integers, written directly into a buffer. HOT PATH: no allocation, no system
//! call.
//!
//! Lengths in replies rarely have more than three digits, so those take a few instructions;
//! larger numbers take two digits per step from a table.

/// The longest text: `-9223372036854775808`, or `18446744073709551615`.
pub(crate) const DECIMAL_LEN_MAX: usize = 20;

const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// Writes `value` at the start of `out` and returns the number of digits.
#[inline(always)]
pub(crate) fn write_unsigned(value: u64, out: &mut [u8; DECIMAL_LEN_MAX]) -> usize {
    if value < 10 {
        out[0] = b'0' + value as u8;
        1
    } else if value < 100 {
        [out[0], out[1]] = PAIRS[value as usize];
        2
    } else {
        write_long(value, out)
    }
}

/// Writes `value` at the start of `out` and returns the number of bytes.
#[inline(always)]
pub(crate) fn write_signed(value: i64, out: &mut [u8; DECIMAL_LEN_MAX]) -> usize {
    if value >= 0 { write_unsigned(value as u64, out) } else { write_negative(value, out) }
}

#[inline(never)]
fn write_negative(value: i64, out: &mut [u8; DECIMAL_LEN_MAX]) -> usize {
    let mut digits = [0; DECIMAL_LEN_MAX];
    let len = write_unsigned(value.unsigned_abs(), &mut digits);
    out[0] = b'-';
    // The magnitude of an i64 has at most 19 digits.
    out[1..].copy_from_slice(&digits[..DECIMAL_LEN_MAX - 1]);
    len + 1
}

#[inline(never)]
fn write_long(value: u64, out: &mut [u8; DECIMAL_LEN_MAX]) -> usize {
    let len = digit_count(value);
    let mut rest = value;
    let mut end = len;
    while end >= 2 {
        [out[end - 2], out[end - 1]] = PAIRS[(rest % 100) as usize];
        rest /= 100;
        end -= 2;
    }
    if end == 1 {
        out[0] = b'0' + rest as u8;
    }
    len
}

/// The number of decimal digits of `value`; 1 for zero.
#[inline]
pub(crate) fn digit_count(value: u64) -> usize {
    match value.checked_ilog10() {
        Some(power) => power as usize + 1,
        None => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: i64) {
        let mut out = [b'#'; DECIMAL_LEN_MAX];
        let len = write_signed(value, &mut out);
        assert_eq!(std::str::from_utf8(&out[..len]).unwrap(), value.to_string());
        let len = write_unsigned(value as u64, &mut out);
        assert_eq!(std::str::from_utf8(&out[..len]).unwrap(), (value as u64).to_string());
        assert_eq!(digit_count(value as u64), len);
    }

    #[test]
    fn every_length_matches_the_standard_library() {
        (-1100..1100).for_each(check);
        let mut power = 1i64;
        for _ in 0..18 {
            power *= 10;
            for near in [power - 1, power, power + 1] {
                check(near);
                check(-near);
            }
        }
        [i64::MIN, i64::MIN + 1, i64::MAX].into_iter().for_each(check);
    }
}
