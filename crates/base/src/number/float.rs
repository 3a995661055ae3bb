// SPDX-License-Identifier: BSD-3-Clause
//! Doubles as text: the spellings that Redis accepts, and the two forms in which it writes them.
//!
//! Parsing follows C's `strtod` with Redis's checks on top; the parts shared with the 80-bit
//! floats of `long_double` are here too. The written forms are those of Redis 7.0
//! ([`format_f64_17`]) and the short one of Redis 8 and Valkey 9 ([`format_f64_shortest`]). The
//! current locale never matters, and no function here may ever panic.

use super::{DoubleText, digits_len, is_c_space, parse_i64, push_i64};

/// Parses a double like ZADD, HINCRBYFLOAT's relatives and the GEO commands (the rules of Redis
/// 7.2: C's `strtod` over the whole text): decimal and hexadecimal (`0x1.8p3`) numbers, `inf` and
/// `infinity` in any case, each with an optional sign. `None` for white space or junk anywhere,
/// for NaN, for a finite number too large for a double (`1e400`) and for a nonzero number that
/// would become zero (`1e-400`); denormals pass. Valkey 9 refuses hexadecimal numbers; Redis up to
/// 8 accepts them.
#[inline]
pub fn parse_f64(text: &[u8]) -> Option<f64> {
    // A short run of digits, the most common score, is exact as an integer.
    if text.len() <= 15
        && let Some(value) = parse_i64(text)
    {
        return Some(value as f64);
    }
    match read_float(text)? {
        Float::Given(value) => Some(value),
        Float::Overflow(_) | Float::Underflow(_) => None,
    }
}

/// Parses the bound of a score range like Redis 7, where plain `strtod` decides (the caller has
/// removed a leading `(`): like [`parse_f64`], but leading white space is accepted, the empty text
/// is zero, a number too large is infinite, one too small is zero, and the text ends at the first
/// NUL byte.
pub fn parse_f64_bound(text: &[u8]) -> Option<f64> {
    let text = text.split(|&byte| byte == 0).next().unwrap_or_default();
    if text.is_empty() {
        return Some(0.0);
    }
    let start = text.iter().position(|&byte| !is_c_space(byte))?;
    match read_float(&text[start..])? {
        Float::Given(value) | Float::Overflow(value) | Float::Underflow(value) => Some(value),
    }
}

enum Float {
    Given(f64),
    /// Finite in the text, infinite as a double.
    Overflow(f64),
    /// Not zero in the text, zero as a double.
    Underflow(f64),
}

/// `None` if the text is not a number, or is NaN.
fn read_float(text: &[u8]) -> Option<Float> {
    let (negative, body) = split_sign(text);
    let sign = if negative { -1.0 } else { 1.0 };
    match body {
        [b'0', b'x' | b'X', hexadecimal @ ..] => {
            let (mantissa, exponent, sticky) = read_hexadecimal(hexadecimal)?;
            // 64 bits are more than enough to round from; the remaining bits become one sticky bit.
            let sticky = sticky || mantissa as u64 != 0;
            let value = compose_f64((mantissa >> 64) as u64, exponent.saturating_add(64), sticky);
            return Some(classify(value * sign, mantissa != 0));
        }
        [b'i' | b'I', ..] => return is_infinity(body).then_some(Float::Given(f64::INFINITY * sign)),
        [b'0'..=b'9' | b'.', ..] => {}
        _ => return None,
    }
    let value: f64 = fast_float2::parse(body).ok()?;
    let significant = body
        .iter()
        .take_while(|&&byte| !matches!(byte, b'e' | b'E'))
        .any(|&byte| matches!(byte, b'1'..=b'9'));
    Some(classify(value * sign, significant))
}

fn classify(value: f64, significant: bool) -> Float {
    if value.is_infinite() {
        Float::Overflow(value)
    } else if value == 0.0 && significant {
        Float::Underflow(value)
    } else {
        Float::Given(value)
    }
}

/// True if the text begins with a minus sign; and the text after the sign.
pub(crate) fn split_sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', body @ ..] => (true, body),
        [b'+', body @ ..] => (false, body),
        _ => (false, text),
    }
}

/// True for `inf` or `infinity`, in any case, without a sign.
pub(crate) fn is_infinity(body: &[u8]) -> bool {
    body.eq_ignore_ascii_case(b"inf") || body.eq_ignore_ascii_case(b"infinity")
}

/// Parses the text after `0x`: hexadecimal digits with an optional point, and an optional `p`
/// exponent. The value is `mantissa * 2^exponent`, plus less than one unit of the mantissa if the
/// last part is true. The mantissa is zero or has its top bit set. `None` if the text is not such
/// a number.
pub(crate) fn read_hexadecimal(text: &[u8]) -> Option<(u128, i64, bool)> {
    let mut mantissa = 0u128;
    let mut exponent = 0i64;
    let mut sticky = false;
    let mut digits_seen = false;
    let mut point_seen = false;
    let mut index = 0;
    while let Some(&byte) = text.get(index) {
        if byte == b'.' && !point_seen {
            point_seen = true;
        } else if let Some(digit) = (byte as char).to_digit(16) {
            digits_seen = true;
            if mantissa >> 124 == 0 {
                mantissa = mantissa << 4 | u128::from(digit);
                exponent -= if point_seen { 4 } else { 0 };
            } else {
                sticky |= digit != 0;
                exponent += if point_seen { 0 } else { 4 };
            }
        } else {
            break;
        }
        index += 1;
    }
    if !digits_seen {
        return None;
    }
    match text.get(index) {
        None => {}
        Some(b'p' | b'P') => exponent = exponent.saturating_add(read_exponent(&text[index + 1..])?),
        Some(_) => return None,
    }
    let shift = mantissa.leading_zeros() & 127;
    Some((mantissa << shift, exponent.saturating_sub(i64::from(shift)), sticky))
}

/// The signed decimal exponent that ends a number, clamped to +-1e15, far outside any format's
/// range.
pub(crate) fn read_exponent(text: &[u8]) -> Option<i64> {
    const LIMIT: i64 = 1_000_000_000_000_000;
    let (negative, digits) = split_sign(text);
    if digits.is_empty() {
        return None;
    }
    let mut value = 0i64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = (value * 10 + i64::from(digit)).min(LIMIT);
    }
    Some(if negative { -value } else { value })
}

/// `mantissa * 2^exponent` (the mantissa has its top bit set, or is zero), rounded to the nearest
/// double, ties to even.
fn compose_f64(mantissa: u64, exponent: i64, sticky: bool) -> f64 {
    if mantissa == 0 {
        return 0.0;
    }
    // The value lies in [2^top, 2^(top+1)).
    let top = exponent.saturating_add(63);
    if top > 1023 {
        return f64::INFINITY;
    }
    // A double keeps 53 bits, and fewer below 2^-1022; `dropped` of the 64 bits are lost.
    let dropped = if top >= -1022 { 11 } else { (11 + (-1022 - top)).min(65) };
    let (kept, rest, half) = match dropped {
        0..=63 => (mantissa >> dropped, mantissa & ((1 << dropped) - 1), 1u64 << (dropped - 1)),
        64 => (0, mantissa, 1 << 63),
        _ => return 0.0,
    };
    let up = rest > half || (rest == half && (sticky || kept & 1 == 1));
    let rounded = kept + u64::from(up);
    // In the bit pattern, a mantissa that rounds up to the next power of two carries into the
    // exponent automatically.
    let bits = if top >= -1022 { (((top + 1022) as u64) << 52) + rounded } else { rounded };
    f64::from_bits(bits)
}

/// Appends a double in the form of Redis 7.2, Redis 8 and Valkey 9: see [`DoubleText`].
pub fn format_f64_shortest(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(DoubleText::new(value).as_bytes());
}

/// Appends a double in the form of Redis 7.0, C's `%.17g`: 17 significant digits without trailing
/// zeros, exponents of at least two digits. Non-finite values: `inf`, `-inf`, `nan`.
pub fn format_f64_17(out: &mut Vec<u8>, value: f64) {
    if let Some(text) = special_f64(value) {
        return out.extend_from_slice(text);
    }
    let text = format!("{:.16e}", value.abs());
    let Decimal { digits, len, exponent } = Decimal::read(&text);
    let digits = &digits[..len];
    if value < 0.0 {
        out.push(b'-');
    }
    let point = exponent + len as i32;
    match point - 1 {
        ..-4 | 17.. => push_scientific(out, digits, point - 1, 2),
        ..0 => {
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', point.unsigned_abs() as usize));
            out.extend_from_slice(digits);
        }
        _ if exponent >= 0 => {
            out.extend_from_slice(digits);
            out.extend(std::iter::repeat_n(b'0', exponent as usize));
        }
        _ => {
            out.extend_from_slice(&digits[..point as usize]);
            out.push(b'.');
            out.extend_from_slice(&digits[point as usize..]);
        }
    }
}

/// Appends `d.ddde+XX`, with the exponent padded to `width` digits.
fn push_scientific(out: &mut Vec<u8>, digits: &[u8], exponent: i32, width: usize) {
    out.push(digits[0]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    let magnitude = i64::from(exponent.unsigned_abs());
    out.extend(std::iter::repeat_n(b'0', width.saturating_sub(digits_len(magnitude))));
    push_i64(out, magnitude);
}

fn special_f64(value: f64) -> Option<&'static [u8]> {
    if value.is_nan() {
        Some(b"nan")
    } else if value.is_infinite() {
        Some(if value > 0.0 { b"inf" } else { b"-inf" })
    } else if value == 0.0 {
        Some(if value.is_sign_negative() { b"-0" } else { b"0" })
    } else {
        None
    }
}

/// Significant digits without zeros at either end; the last digit is worth `10^exponent`.
struct Decimal {
    digits: [u8; 32],
    len: usize,
    exponent: i32,
}

impl Decimal {
    /// Parses a formatter's output for a finite positive number: `12.5`, `0.001`, `1.25e-7`.
    fn read(text: &str) -> Decimal {
        let mut decimal = Decimal { digits: [0; 32], len: 0, exponent: 0 };
        let mut zeros_pending = 0;
        let mut point_seen = false;
        for (index, byte) in text.bytes().enumerate() {
            match byte {
                b'.' => point_seen = true,
                b'0' => {
                    zeros_pending += i32::from(decimal.len > 0);
                    decimal.exponent -= i32::from(point_seen);
                }
                b'1'..=b'9' => {
                    for _ in 0..zeros_pending {
                        decimal.push(b'0');
                    }
                    zeros_pending = 0;
                    decimal.push(byte);
                    decimal.exponent -= i32::from(point_seen);
                }
                _ => {
                    decimal.exponent += text[index + 1..].parse().unwrap_or(0);
                    break;
                }
            }
        }
        decimal.exponent += zeros_pending;
        decimal
    }

    fn push(&mut self, digit: u8) {
        if let Some(place) = self.digits.get_mut(self.len) {
            *place = digit;
            self.len += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shortest(value: f64) -> String {
        let mut out = Vec::new();
        format_f64_shortest(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    fn seventeen(value: f64) -> String {
        let mut out = Vec::new();
        format_f64_17(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    /// Replies of ZADD by a stock server of version 7.0.
    #[test]
    fn float_spellings() {
        for (text, value) in [
            ("+1", 1.0),
            ("inf", f64::INFINITY),
            ("-INF", f64::NEG_INFINITY),
            ("+Infinity", f64::INFINITY),
            ("0x10", 16.0),
            ("0x1p3", 8.0),
            ("0x.8p1", 1.0),
            ("-0X1P-2", -0.25),
            ("0x1.8p-1075", 5e-324),
            ("0x0", 0.0),
            ("0x0.00p99999", 0.0),
            ("0x1.fffffffffffff7p1023", f64::MAX),
            ("0x10000000000000000000000000000000000001p-144", 16.0),
            ("4e-324", 5e-324),
            ("1e-320", 1e-320),
            ("0e999", 0.0),
            ("0.0e99999999999999999999", 0.0),
            ("1.", 1.0),
            (".5", 0.5),
            ("1e0005", 1e5),
            ("00012", 12.0),
            ("-0", -0.0),
            ("1.7976931348623157e308", f64::MAX),
            ("2.4703282292062328e-324", 5e-324),
        ] {
            assert_eq!(parse_f64(text.as_bytes()).map(f64::to_bits), Some(value.to_bits()), "{text}");
        }
        for text in [
            "",
            ".",
            "-",
            "+",
            "1e",
            "1e+",
            " 1",
            "1 ",
            "1\0",
            "\t1",
            "1_000",
            "--1",
            "+-1",
            "1d5",
            "1f",
            "nan",
            "NAN",
            "-nan",
            "nan(1)",
            "infinit",
            "infinityx",
            "0x",
            "0xg",
            "0x.",
            "0x1p",
            "1e400",
            "-1e400",
            "1e-400",
            "2e-324",
            "1e99999999999999999999",
            "1.7976931348623159e308",
            "2.4703282292062327e-324",
            "0x1p1024",
            "0x1p-1080",
            "0x1.fffffffffffff8p1023",
            "e5",
            ".e5",
            "+.",
            "0x1p1p1",
            "+inf+",
        ] {
            assert_eq!(parse_f64(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(parse_f64_bound(b""), Some(0.0));
        assert_eq!(parse_f64_bound(b" 1"), Some(1.0));
        assert_eq!(parse_f64_bound(b"1\0x"), Some(1.0));
        assert_eq!(parse_f64_bound(b"-1e400"), Some(f64::NEG_INFINITY));
        assert_eq!(parse_f64_bound(b"1e-400"), Some(0.0));
        for text in ["nan", "1 ", "x", " ", "("] {
            assert_eq!(parse_f64_bound(text.as_bytes()), None, "{text:?}");
        }
    }

    /// Replies of ZSCORE by stock servers: value, Redis 7.0, Redis 8.0 and Valkey 9.1.
    #[test]
    fn float_forms_of_stock_servers() {
        for (value, old, new) in [
            (1e17, "1e+17", "100000000000000000"),
            (4e18, "4e+18", "4000000000000000000"),
            (5e18, "5e+18", "5e+18"),
            (4.6e18, "4.6e+18", "4600000000000000000"),
            (12345678901234567890.0, "1.2345678901234567e+19", "12345678901234567000"),
            (123456789012345680000.0, "1.2345678901234568e+20", "123456789012345680000"),
            (1e20, "1e+20", "1e+20"),
            (-1e21, "-1e+21", "-1e+21"),
            (1e-4, "0.0001", "0.0001"),
            (1e-5, "1.0000000000000001e-05", "0.00001"),
            (1e-6, "9.9999999999999995e-07", "0.000001"),
            (1e-7, "9.9999999999999995e-08", "1e-7"),
            (1.5e-5, "1.5e-05", "0.000015"),
            (0.00001234, "1.234e-05", "1.234e-5"),
            (0.0001234, "0.00012339999999999999", "1.234e-4"),
            (0.1, "0.10000000000000001", "0.1"),
            (1.5e300, "1.5000000000000001e+300", "1.5e+300"),
            (5e-324, "4.9406564584124654e-324", "5e-324"),
            (f64::MAX, "1.7976931348623157e+308", "1.7976931348623157e+308"),
            (4611686018427387904.0, "4.6116860184273879e+18", "4611686018427387904"),
            (9223372036854775807.0, "9.2233720368547758e+18", "9223372036854776000"),
            (123456789.123, "123456789.123", "123456789.123"),
            (483.5739785214587, "483.57397852145868", "483.5739785214587"),
            (2f64.powi(-25), "2.9802322387695312e-08", "2.9802322387695313e-8"),
            (f64::NEG_INFINITY, "-inf", "-inf"),
            (f64::NAN, "nan", "nan"),
            (-0.0, "-0", "-0"),
            (-2.5, "-2.5", "-2.5"),
        ] {
            assert_eq!(seventeen(value), old);
            assert_eq!(shortest(value), new);
        }
    }

    proptest! {
        #[test]
        fn floats_round_trip(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assume!(!value.is_nan());
            prop_assert_eq!(parse_f64(shortest(value).as_bytes()), Some(value));
            prop_assert_eq!(parse_f64(seventeen(value).as_bytes()), Some(value));
            let mantissa = bits & ((1 << 52) - 1);
            let exponent = (bits >> 52 & 0x7ff) as i32;
            if exponent < 2047 {
                let lead = i32::from(exponent > 0);
                let sign = if bits >> 63 == 1 { "-" } else { "" };
                let text = format!("{sign}0x{lead}.{mantissa:013x}p{}", exponent.max(1) - 1023);
                prop_assert_eq!(parse_f64(text.as_bytes()), Some(value));
            }
        }

        #[test]
        fn any_bytes_are_survived(text: Vec<u8>, tail in "[-+0-9.eExXpPinfINFtyaA]{0,30}") {
            for text in [text.as_slice(), tail.as_bytes()] {
                let strict = parse_f64(text);
                if strict.is_some() {
                    prop_assert_eq!(parse_f64_bound(text), strict);
                }
            }
        }
    }
}
