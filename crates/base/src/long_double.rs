// SPDX-License-Identifier: BSD-3-Clause
//! The 80-bit extended floats of x86, in software: they define INCRBYFLOAT and HINCRBYFLOAT.
//!
//! Redis parses both numbers as C `long double`, adds them and prints `%.17Lf` without trailing
//! zeros: 0.1 and 0.2 give `0.3` and not `0.30000000000000004`. Clients may compare these texts,
//! and replicas and stock servers must agree, so every machine computes the same bits here: a
//! 64-bit mantissa, exponents from -16382 to 16383, denormals, rounding to nearest with ties to
//! even, in parsing, adding and printing.
//!
//! Ordinary numbers take a path of 128-bit integers; long or extreme numbers take a small exact
//! big-number.

use std::cmp::Ordering;

use crate::number::{
    INTEGER_LEN_MAX, is_infinity, push_i64, read_exponent, read_hexadecimal, split_sign, write_u64,
};

/// A value of `(-1)^negative * mantissa * 2^exponent`. A nonzero finite mantissa has its top bit
/// set unless the exponent is the minimum (a denormal); zero has mantissa 0 and the minimum
/// exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LongDouble {
    negative: bool,
    kind: NumberClass,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NumberClass {
    Finite { mantissa: u64, exponent: i32 },
    Infinite,
    NotANumber,
}

/// Exponents of the last mantissa bit of the smallest and the largest numbers.
const EXPONENT_MIN: i32 = -16382 - 63;
const EXPONENT_MAX: i32 = 16383 - 63;
/// Redis copies the text into a buffer of 5 KiB including its NUL, and refuses longer texts.
const TEXT_LEN_MAX: usize = 5 * 1024 - 1;
/// Number of decimal places in the output.
const PLACES: u32 = 17;

impl LongDouble {
    pub const ZERO: LongDouble = LongDouble::finite(false, 0, EXPONENT_MIN);
    /// The largest finite number.
    pub const MAX: LongDouble = LongDouble::finite(false, u64::MAX, EXPONENT_MAX);
    /// The smallest finite number.
    pub const MIN: LongDouble = LongDouble::finite(true, u64::MAX, EXPONENT_MAX);

    const fn finite(negative: bool, mantissa: u64, exponent: i32) -> LongDouble {
        LongDouble { negative, kind: NumberClass::Finite { mantissa, exponent } }
    }

    const fn infinite(negative: bool) -> LongDouble {
        LongDouble { negative, kind: NumberClass::Infinite }
    }

    /// Parses a whole text like Redis (C's `strtold` and Redis's checks): decimal or hexadecimal,
    /// `inf`, `infinity`. `None` (Redis replies "value is not a valid float") for white space or
    /// junk anywhere, for NaN, for texts of 5,120 bytes or more, and for numbers that overflow to
    /// infinity or underflow to zero.
    pub fn parse(text: &[u8]) -> Option<LongDouble> {
        if text.len() > TEXT_LEN_MAX {
            return None;
        }
        let (negative, body) = split_sign(text);
        let (value, significant) = match body {
            [b'0', b'x' | b'X', hexadecimal @ ..] => {
                let (mantissa, exponent, sticky) = read_hexadecimal(hexadecimal)?;
                // Exponents thousands beyond the format's range all behave alike.
                let exponent = exponent.clamp(-100_000, 100_000) as i32;
                (round(negative, mantissa, exponent, sticky), mantissa != 0)
            }
            [b'i' | b'I', ..] => return is_infinity(body).then_some(LongDouble::infinite(negative)),
            _ => {
                let decimal = Decimal::read(body)?;
                let significant = !decimal.digits.is_empty();
                (decimal.to_long_double(negative), significant)
            }
        };
        let vanished = significant && value.is_zero();
        (value.is_finite() && !vanished).then_some(value)
    }

    pub fn from_i64(value: i64) -> LongDouble {
        round(value < 0, u128::from(value.unsigned_abs()), 0, false)
    }

    /// Converts a double, without loss. GEOPOS and HUMAN replies print doubles in this form.
    pub fn from_f64(value: f64) -> LongDouble {
        let negative = value.is_sign_negative();
        if !value.is_finite() {
            let kind = if value.is_nan() { NumberClass::NotANumber } else { NumberClass::Infinite };
            return LongDouble { negative: negative && kind == NumberClass::Infinite, kind };
        }
        let bits = value.to_bits();
        let (fraction, exponent) = (bits & ((1 << 52) - 1), (bits >> 52 & 0x7ff) as i32);
        let mantissa = if exponent == 0 { fraction } else { fraction | 1 << 52 };
        round(negative, u128::from(mantissa), exponent.max(1) - 1075, false)
    }

    /// False for infinities and NaN, to which commands reply "increment would produce NaN or
    /// Infinity".
    pub fn is_finite(&self) -> bool {
        matches!(self.kind, NumberClass::Finite { .. })
    }

    fn is_zero(&self) -> bool {
        matches!(self.kind, NumberClass::Finite { mantissa: 0, .. })
    }

    /// The sum, rounded to nearest, ties to even. Infinities of opposite signs give NaN.
    #[expect(clippy::should_implement_trait, reason = "rounding should be visible: a call, not an operator")]
    pub fn add(self, other: LongDouble) -> LongDouble {
        let ((left, left_exponent), (right, right_exponent)) = match (self.kind, other.kind) {
            (
                NumberClass::Finite { mantissa, exponent },
                NumberClass::Finite { mantissa: mantissa2, exponent: exponent2 },
            ) => ((mantissa, exponent), (mantissa2, exponent2)),
            (NumberClass::NotANumber, _) | (_, NumberClass::NotANumber) => {
                return LongDouble { negative: false, kind: NumberClass::NotANumber };
            }
            (NumberClass::Infinite, NumberClass::Infinite) if self.negative != other.negative => {
                return LongDouble { negative: false, kind: NumberClass::NotANumber };
            }
            (NumberClass::Infinite, _) => return self,
            (_, NumberClass::Infinite) => return other,
        };
        if left == 0 && right == 0 {
            return LongDouble::finite(self.negative && other.negative, 0, EXPONENT_MIN);
        }
        if left == 0 {
            return other;
        }
        if right == 0 {
            return self;
        }
        // Put the larger exponent first; both numbers get 62 bits below the mantissa, and one
        // above it for the carry.
        let (first, second) = if left_exponent >= right_exponent {
            ((self.negative, left, left_exponent), (other.negative, right, right_exponent))
        } else {
            ((other.negative, right, right_exponent), (self.negative, left, left_exponent))
        };
        let exponent = first.2 - 62;
        let large = u128::from(first.1) << 62;
        let distance = first.2.abs_diff(second.2);
        let wide = u128::from(second.1) << 62;
        let (small, lost) = if distance < 128 {
            (wide >> distance, wide & ((1u128 << distance) - 1) != 0)
        } else {
            (0, second.1 != 0)
        };
        if first.0 == second.0 {
            return round(first.0, large + small, exponent, lost);
        }
        // Lost bits of the subtrahend make the difference smaller: borrow one and keep the
        // remainder as sticky "a little more".
        match large.cmp(&small) {
            Ordering::Equal if !lost => LongDouble::ZERO,
            Ordering::Less => round(second.0, small - large, exponent, lost),
            _ => round(first.0, large - small - u128::from(lost), exponent, lost),
        }
    }

    /// The number with the opposite sign.
    pub fn negated(self) -> LongDouble {
        LongDouble { negative: !self.negative, kind: self.kind }
    }

    /// The order of two numbers; none if one of them is no number. Zeros are equal.
    pub fn compare(self, other: LongDouble) -> Option<Ordering> {
        // The top bit of a mantissa is set unless the exponent is the minimum, so exponents are
        // compared first.
        let magnitude = |number: LongDouble| match number.kind {
            NumberClass::Finite { mantissa, exponent } => Some((exponent, mantissa)),
            NumberClass::Infinite => Some((i32::MAX, 0)),
            NumberClass::NotANumber => None,
        };
        let (one, two) = (magnitude(self)?, magnitude(other)?);
        Some(match (self.negative && !self.is_zero(), other.negative && !other.is_zero()) {
            (false, false) => one.cmp(&two),
            (true, true) => two.cmp(&one),
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
        })
    }

    /// The product, rounded to nearest, ties to even.
    pub fn times(self, factor: u32) -> LongDouble {
        match self.kind {
            NumberClass::Finite { mantissa, exponent } => {
                round(self.negative, u128::from(mantissa) * u128::from(factor), exponent, false)
            }
            _ => self,
        }
    }

    /// The smallest integer not below the value; `i64::MIN` for smaller values, `None` for larger
    /// values and NaN.
    pub fn ceil_i64(self) -> Option<i64> {
        let (mantissa, exponent) = match self.kind {
            NumberClass::Finite { mantissa, exponent } => (mantissa, exponent),
            NumberClass::Infinite => return self.negative.then_some(i64::MIN),
            NumberClass::NotANumber => return None,
        };
        let magnitude = match exponent {
            0.. if mantissa == 0 => 0,
            // The top bit is set: at least 2^63.
            0.. => return self.negative.then_some(i64::MIN),
            -63..0 => {
                let down = mantissa >> -exponent;
                let rest = mantissa & ((1 << -exponent) - 1) != 0;
                down + u64::from(rest && !self.negative)
            }
            _ => u64::from(mantissa != 0 && !self.negative),
        };
        let magnitude = i64::try_from(magnitude).ok()?;
        Some(if self.negative { -magnitude } else { magnitude })
    }

    /// Appends the text that Redis prints for a sum: 17 decimal places, rounded to nearest with
    /// ties to even, without trailing zeros or a trailing point. Never an exponent; up to 4,933
    /// digits. A value that rounds to minus zero is `0`. Otherwise `inf`, `-inf`, `nan`.
    pub fn write_human(&self, out: &mut Vec<u8>) {
        let (mantissa, exponent) = match self.kind {
            NumberClass::NotANumber => return out.extend_from_slice(b"nan"),
            NumberClass::Infinite => {
                return out.extend_from_slice(if self.negative { b"-inf" } else { b"inf" });
            }
            NumberClass::Finite { mantissa, exponent } => (mantissa, exponent),
        };
        let (whole, fraction) = split_at_point(mantissa, exponent);
        if self.negative && (whole != 0 || fraction != 0) {
            out.push(b'-');
        }
        if exponent > 0 {
            return BigNumber::from_shifted(mantissa, exponent as u32).write(out);
        }
        let mut buffer = [0; INTEGER_LEN_MAX];
        out.extend_from_slice(write_u64(&mut buffer, whole));
        if fraction != 0 {
            out.push(b'.');
            let digits = write_u64(&mut buffer, fraction);
            out.extend(std::iter::repeat_n(b'0', PLACES as usize - digits.len()));
            let kept = digits.iter().rposition(|&digit| digit != b'0').map_or(0, |last| last + 1);
            out.extend_from_slice(&digits[..kept]);
        }
    }
}

/// Rounds `value * 2^exponent`, plus a little more if `sticky`, to the format. With `sticky`, the
/// value must have well over 65 significant bits (or be exact to the last significant bit).
fn round(negative: bool, value: u128, exponent: i32, sticky: bool) -> LongDouble {
    if value == 0 {
        return LongDouble::finite(negative, 0, EXPONENT_MIN);
    }
    let len = 128 - value.leading_zeros() as i32;
    // Bits to drop so that 64 remain, or fewer for a denormal.
    let drop = (len - 64).max(EXPONENT_MIN - exponent);
    let (mantissa, exponent) = if drop <= 0 {
        // All bits fit: shift them up as far as the smallest exponent allows.
        ((value << -drop) as u64, exponent + drop)
    } else if drop > 128 {
        (0, EXPONENT_MIN)
    } else {
        let (kept, rest) = if drop == 128 { (0, value) } else { (value >> drop, value & ((1 << drop) - 1)) };
        let half = 1u128 << (drop - 1);
        let round_up = rest > half || (rest == half && (sticky || kept & 1 == 1));
        let rounded = kept + u128::from(round_up);
        if rounded >> 64 == 0 { (rounded as u64, exponent + drop) } else { (1 << 63, exponent + drop + 1) }
    };
    if mantissa == 0 {
        LongDouble::finite(negative, 0, EXPONENT_MIN)
    } else if exponent > EXPONENT_MAX {
        LongDouble::infinite(negative)
    } else {
        LongDouble::finite(negative, mantissa, exponent)
    }
}

/// For exponents up to 0: the part before the point, and the part after it as an integer of
/// `PLACES` rounded digits.
fn split_at_point(mantissa: u64, exponent: i32) -> (u64, u64) {
    const SCALE: u128 = 10u128.pow(PLACES);
    if exponent >= 0 {
        return (mantissa, 0);
    }
    let places = exponent.unsigned_abs();
    let (whole, fraction) = match places {
        1..=63 => (mantissa >> places, mantissa & ((1 << places) - 1)),
        _ => (0, mantissa),
    };
    // Below 2^64 * 10^17 < 2^121.
    let scaled = u128::from(fraction) * SCALE;
    if places > 127 {
        return (whole, 0);
    }
    let (digits, rest, half) = (scaled >> places, scaled & ((1 << places) - 1), 1u128 << (places - 1));
    let round_up = rest > half || (rest == half && digits & 1 == 1);
    let digits = digits + u128::from(round_up);
    if digits == SCALE { (whole + 1, 0) } else { (whole, digits as u64) }
}

/// A decimal number: `digits` (values 0 to 9, no zero at either end) as a whole number, times
/// `10^exponent`.
struct Decimal {
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    fn read(text: &[u8]) -> Option<Decimal> {
        let mut digits = Vec::with_capacity(text.len().min(32));
        let mut exponent = 0i64;
        let mut digits_seen = false;
        let mut point_seen = false;
        let mut index = 0;
        while let Some(&byte) = text.get(index) {
            match byte {
                b'.' if !point_seen => point_seen = true,
                b'0'..=b'9' => {
                    digits_seen = true;
                    exponent -= i64::from(point_seen);
                    if byte != b'0' || !digits.is_empty() {
                        digits.push(byte - b'0');
                    }
                }
                _ => break,
            }
            index += 1;
        }
        if !digits_seen {
            return None;
        }
        match text.get(index) {
            None => {}
            Some(b'e' | b'E') => exponent += read_exponent(&text[index + 1..])?,
            Some(_) => return None,
        }
        while digits.last() == Some(&0) {
            digits.pop();
            exponent += 1;
        }
        Some(Decimal { digits, exponent })
    }

    fn to_long_double(&self, negative: bool) -> LongDouble {
        /// The largest exponent of a power of five below 2^64.
        const POWER_MAX: u32 = 27;
        let Some(magnitude) = i64::try_from(self.digits.len()).ok().map(|len| self.exponent + len) else {
            return LongDouble::ZERO;
        };
        if self.digits.is_empty() || magnitude < -5000 {
            return LongDouble::finite(negative, 0, EXPONENT_MIN);
        }
        if magnitude > 5000 {
            return LongDouble::infinite(negative);
        }
        // The exponent is also small here: there are at most 5,119 digits.
        let exponent = self.exponent as i32;
        let power = exponent.unsigned_abs();
        if self.digits.len() <= 19 && power <= POWER_MAX {
            let whole = self.digits.iter().fold(0u64, |value, &digit| value * 10 + u64::from(digit));
            let five = u128::from(5u64.pow(power));
            if exponent >= 0 {
                return round(negative, u128::from(whole) * five, exponent, false);
            }
            // A 128-bit dividend over a divisor of at most 63 bits leaves a quotient of at least
            // 65 bits, one of them for rounding.
            let up = whole.leading_zeros();
            let dividend = u128::from(whole << up) << 64;
            let shift = -64 - up as i32;
            return round(negative, dividend / five, exponent + shift, dividend % five != 0);
        }
        let mut whole = BigNumber::from_digits(&self.digits);
        if exponent >= 0 {
            whole.multiply_by_power_of_five(power);
            let (top, shift, sticky) = whole.top_bits();
            return round(negative, top, exponent + shift, sticky);
        }
        let mut five = BigNumber::from_u64(1);
        five.multiply_by_power_of_five(power);
        // Shifted so that the quotient has 68 or 69 bits, which are found bit by bit.
        let shift = five.bits() as i32 + 68 - whole.bits() as i32;
        if shift >= 0 {
            whole.shift_left(shift as u32);
        } else {
            five.shift_left(shift.unsigned_abs());
        }
        let (quotient, inexact) = whole.divide_small_quotient(five);
        round(negative, quotient, exponent - shift, inexact)
    }
}

/// An unsigned integer of any size, least significant word first, without leading zero words.
struct BigNumber {
    words: Vec<u64>,
}

impl BigNumber {
    fn from_u64(value: u64) -> BigNumber {
        BigNumber { words: if value == 0 { Vec::new() } else { vec![value] } }
    }

    fn from_shifted(value: u64, shift: u32) -> BigNumber {
        let mut number = BigNumber::from_u64(value);
        number.shift_left(shift);
        number
    }

    fn from_digits(digits: &[u8]) -> BigNumber {
        let mut number = BigNumber { words: Vec::with_capacity(digits.len() / 19 + 1) };
        for chunk in digits.chunks(19) {
            let value = chunk.iter().fold(0u64, |value, &digit| value * 10 + u64::from(digit));
            number.multiply_add(10u64.pow(chunk.len() as u32), value);
        }
        number
    }

    fn multiply_add(&mut self, factor: u64, addend: u64) {
        let mut carry = u128::from(addend);
        for word in &mut self.words {
            carry += u128::from(*word) * u128::from(factor);
            *word = carry as u64;
            carry >>= 64;
        }
        if carry != 0 {
            self.words.push(carry as u64);
        }
    }

    fn multiply_by_power_of_five(&mut self, mut power: u32) {
        while power > 0 {
            let step = power.min(27);
            self.multiply_add(5u64.pow(step), 0);
            power -= step;
        }
    }

    fn shift_left(&mut self, shift: u32) {
        if self.words.is_empty() {
            return;
        }
        let bits = shift % 64;
        if bits > 0 {
            self.multiply_add(1 << bits, 0);
        }
        self.words.splice(0..0, std::iter::repeat_n(0, (shift / 64) as usize));
    }

    fn bits(&self) -> usize {
        self.words.last().map_or(0, |top| self.words.len() * 64 - top.leading_zeros() as usize)
    }

    /// The two topmost words: the number is `top * 2^shift`, plus a smaller remainder if the last
    /// part is true.
    fn top_bits(&self) -> (u128, i32, bool) {
        let (rest, top) = self.words.split_at(self.words.len().saturating_sub(3));
        let mut value = 0u128;
        let mut shift = rest.len() * 64;
        let mut sticky = rest.iter().any(|&word| word != 0);
        // Take three words, so that the two words kept begin with the topmost set bit.
        let up = top.last().map_or(0, |word| word.leading_zeros());
        match *top {
            [low, middle, high] => {
                value = u128::from(high) << 64 | u128::from(middle);
                if up > 0 {
                    value = value << up | u128::from(low >> (64 - up));
                }
                sticky |= low << up != 0;
                shift += 64;
                return (value, shift as i32 - up as i32, sticky);
            }
            _ => {
                for &word in top.iter().rev() {
                    value = value << 64 | u128::from(word);
                }
            }
        }
        (value, shift as i32, sticky)
    }

    /// `self / divisor` for a quotient below 2^128, and whether there is a remainder: schoolbook
    /// division in base two.
    fn divide_small_quotient(mut self, divisor: BigNumber) -> (u128, bool) {
        let mut quotient = 0u128;
        let steps = self.bits().saturating_sub(divisor.bits()) as u32;
        let mut subtrahend = divisor;
        subtrahend.shift_left(steps);
        for _ in 0..=steps {
            quotient <<= 1;
            if self.at_least(&subtrahend) {
                self.subtract(&subtrahend);
                quotient |= 1;
            }
            subtrahend.halve();
        }
        (quotient, !self.words.is_empty())
    }

    fn at_least(&self, other: &BigNumber) -> bool {
        self.words
            .len()
            .cmp(&other.words.len())
            .then_with(|| self.words.iter().rev().cmp(other.words.iter().rev()))
            .is_ge()
    }

    /// Subtracts `other`, which must not be larger.
    fn subtract(&mut self, other: &BigNumber) {
        let mut borrow = false;
        for (index, word) in self.words.iter_mut().enumerate() {
            let (partial, borrow1) = word.overflowing_sub(other.words.get(index).copied().unwrap_or(0));
            let (result, borrow2) = partial.overflowing_sub(u64::from(borrow));
            *word = result;
            borrow = borrow1 || borrow2;
        }
        self.trim();
    }

    fn halve(&mut self) {
        let mut carry = 0;
        for word in self.words.iter_mut().rev() {
            let next = *word << 63;
            *word = *word >> 1 | carry;
            carry = next;
        }
        self.trim();
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }

    /// Appends the decimal digits, consuming the number.
    fn write(mut self, out: &mut Vec<u8>) {
        const GROUP: u64 = 10u64.pow(18);
        let mut groups = Vec::with_capacity(self.words.len() + self.words.len() / 8 + 1);
        while !self.words.is_empty() {
            let mut rest = 0u128;
            for word in self.words.iter_mut().rev() {
                rest = rest << 64 | u128::from(*word);
                *word = (rest / u128::from(GROUP)) as u64;
                rest %= u128::from(GROUP);
            }
            self.trim();
            groups.push(rest as i64);
        }
        push_i64(out, groups.pop().unwrap_or(0));
        for group in groups.into_iter().rev() {
            let mut buffer = [0; INTEGER_LEN_MAX];
            let digits = write_u64(&mut buffer, group as u64);
            out.extend(std::iter::repeat_n(b'0', 18 - digits.len()));
            out.extend_from_slice(digits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(text: &str) -> LongDouble {
        LongDouble::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a number"))
    }

    fn human(value: LongDouble) -> String {
        let mut out = Vec::new();
        value.write_human(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn thousandths_are_rounded_up_as_timeouts_are() {
        let millis = |text: &str| LongDouble::parse(text.as_bytes()).unwrap().times(1000).ceil_i64();
        for (text, expected) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("1", Some(1000)),
            ("0.001", Some(1)),
            ("0.0010001", Some(2)),
            ("0.07", Some(70)),
            ("-0.001", Some(0)),
            ("-0.0011", Some(-1)),
            ("-7", Some(-7000)),
            ("1e-4000", Some(1)),
            ("-1e-4000", Some(0)),
            ("9223372036854775.807", Some(i64::MAX)),
            ("9223372036854775.808", None),
            ("1e4000", None),
            ("inf", None),
            ("-inf", Some(i64::MIN)),
            ("-1e30", Some(i64::MIN)),
        ] {
            assert_eq!(millis(text), expected, "{text}");
        }
    }

    #[test]
    fn refused_texts() {
        for text in [
            "",
            " 1",
            "1 ",
            "nan",
            "-nan",
            "1e",
            "0x",
            "0x.p1",
            "1e5000",
            "-1e5000",
            "1e-5000",
            "1e4933",
            "1.2e4932",
            "1e-4951",
            "0x1p16384",
            "0x1p-16446",
            "1e99999999999999999999",
            "1d",
            "--1",
            ".",
            "infinite",
        ] {
            assert_eq!(LongDouble::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(LongDouble::parse(&b"0".repeat(5120)), None);
        assert_eq!(LongDouble::parse(&b"0".repeat(5119)), Some(LongDouble::ZERO));
        assert!(!number("-Infinity").is_finite());
    }

    #[test]
    fn known_bit_patterns() {
        let cases = [
            ("1", 1 << 63, -63),
            ("0.1", 0xcccc_cccc_cccc_cccd, -67),
            ("3.14159265358979323846", 0xc90f_daa2_2168_c235, -62),
            ("0x1p-16445", 1, EXPONENT_MIN),
            ("3.6e-4951", 1, EXPONENT_MIN),
            ("1.18973149535723176502e4932", u64::MAX, EXPONENT_MAX),
            ("3.3621031431120935063e-4932", 1 << 63, EXPONENT_MIN),
            ("18446744073709551615", u64::MAX, 0),
            ("18446744073709551617", 1 << 63, 1),
            ("18446744073709551619", (1 << 63) + 2, 1),
            ("0x1.fffffffffffffffffp0", 1 << 63, -62),
        ];
        for (text, mantissa, exponent) in cases {
            assert_eq!(number(text), LongDouble::finite(false, mantissa, exponent), "{text}");
        }
    }

    #[test]
    fn not_finite() {
        let infinity = number("inf");
        assert_eq!(human(infinity), "inf");
        assert_eq!(human(number("-inf").add(number("1"))), "-inf");
        assert_eq!(human(infinity.add(number("-inf"))), "nan");
        assert!(!infinity.add(infinity).is_finite());
        let largest = number("1.18973149535723176502e4932");
        assert!(!largest.add(largest).is_finite());
        assert!(largest.add(number("1e4900")).is_finite());
    }

    #[test]
    fn doubles_are_taken_exactly() {
        for (value, text) in [
            (14.000_001_847_743_988, "14.00000184774398804"),
            (0.1, "0.10000000000000001"),
            (0.1 + 0.2, "0.30000000000000004"),
            (-2.5, "-2.5"),
            (-0.0, "0"),
            (f64::MIN_POSITIVE / 2.0, "0"),
            (1e22, "10000000000000000000000"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(human(LongDouble::from_f64(value)), text);
        }
        assert_eq!(LongDouble::from_f64(5e-324), number("0x1p-1074"));
        assert_eq!(LongDouble::from_f64(f64::MAX), number("0x1.fffffffffffffp1023"));
    }

    proptest! {
        #[test]
        fn whole_numbers_are_exact(left: i64, right: i64) {
            prop_assert_eq!(human(LongDouble::from_i64(left)), left.to_string());
            prop_assert_eq!(number(&left.to_string()), LongDouble::from_i64(left));
            let sum = i128::from(left) + i128::from(right);
            if sum.unsigned_abs() <= u128::from(u64::MAX) {
                let added = LongDouble::from_i64(left).add(LongDouble::from_i64(right));
                prop_assert_eq!(human(added), sum.to_string());
            }
        }

        #[test]
        fn both_ways_of_reading_agree(whole: u64, exponent in -27i32..=27, zeros in 1usize..40) {
            let short = number(&format!("{whole}e{exponent}"));
            // Leading zeros, which parsing skips, force the slow path.
            let mut digits = vec![0; 20];
            digits.extend(whole.to_string().bytes().map(|byte| byte - b'0'));
            let big = BigNumber::from_digits(&digits);
            prop_assert_eq!(big.bits() as u32, 64 - whole.leading_zeros());
            let long = Decimal { digits, exponent: i64::from(exponent) };
            prop_assert_eq!(long.to_long_double(false), short);
            let padded = format!("{whole}{}e{}", "0".repeat(zeros), exponent - zeros as i32);
            prop_assert_eq!(number(&padded), short);
        }

        #[test]
        fn hexadecimal_agrees_with_bits(mantissa in 1u64.., exponent in -16500i32..16400) {
            let text = format!("0x{mantissa:x}p{exponent}");
            let expected = round(false, u128::from(mantissa), exponent, false);
            let parsed = LongDouble::parse(text.as_bytes());
            prop_assert_eq!(parsed, (expected.is_finite() && !expected.is_zero()).then_some(expected));
        }

        #[test]
        fn sums_commute_and_cancel(a: u64, b: u64, shift in -150i32..150) {
            let left = round(false, u128::from(a), shift, false);
            let right = round(true, u128::from(b), -shift, false);
            prop_assert_eq!(left.add(right), right.add(left));
            let negated = LongDouble { negative: true, ..left };
            prop_assert_eq!(left.add(negated), LongDouble::ZERO);
        }

        #[test]
        fn sums_round_once(a in 1u64 << 63.., b in 1u64 << 63.., distance in 0u32..60, subtract: bool) {
            // The exact sum fits in 128 bits, so rounding it directly is the definition.
            let wide = u128::from(a) << 60;
            let small = u128::from(b) << 60 >> distance;
            let exact = if subtract { wide.abs_diff(small) } else { wide + small };
            let right = LongDouble::finite(subtract, b, -(distance as i32));
            let sum = LongDouble::finite(false, a, 0).add(right);
            let negative = subtract && small > wide;
            let expected = if exact == 0 { LongDouble::ZERO } else { round(negative, exact, -60, false) };
            prop_assert_eq!(sum, expected);
        }

        #[test]
        fn any_bytes_are_survived(text: Vec<u8>, tail in "[-+]?[0-9.]{0,30}([eE][-+]?[0-9]{0,5})?") {
            for text in [text.as_slice(), tail.as_bytes()] {
                if let Some(value) = LongDouble::parse(text) {
                    human(value);
                }
            }
        }
    }
}
