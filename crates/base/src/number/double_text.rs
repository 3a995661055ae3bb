// SPDX-License-Identifier: BSD-3-Clause
//! Doubles as text, as written by Redis 7.2 and later and by Valkey.
//!
//! With rare exceptions the digits (`grisu`) are the shortest that read back as the same double.
//! Their layout follows the rules of those servers, which differ from the usual number formatters.
//! With `n` digits and the last digit worth `10^k`:
//! - `k >= 0` and at most 7 zeros to add: all digits, then the zeros (`71662779439830360000`);
//! - `k < 0`, and either `k > -7` or the first digit is worth between `10^-3` and `10^3`: a
//!   decimal point (`0.000001`, `3.3333333333333335`);
//! - otherwise an exponent (`1.649621036435732e+4`, `1e-7`, `1e+21`).
//!
//! Whole numbers up to 2^62 are an exception: they are written as integers.
//!
//! HOT PATH: no allocation, no lock, no logging, no system call.

use super::grisu::Digits;
use super::{INTEGER_LEN_MAX, write_i64};

/// Buffer size in bytes: the longest text is `-2.2250738585072014e-308`, or about as long with
/// zeros.
const TEXT_LEN_MAX: usize = 32;

pub struct DoubleText {
    bytes: [u8; TEXT_LEN_MAX],
    len: usize,
}

impl DoubleText {
    /// The text of a double.
    pub fn new(value: f64) -> DoubleText {
        // Up to this limit every whole double converts to i64 and back exactly.
        const WHOLE_MAX: f64 = (i64::MAX / 2) as f64;
        if value.abs() <= WHOLE_MAX && value.trunc() == value && value != 0.0 {
            let mut text = DoubleText { bytes: [0; TEXT_LEN_MAX], len: 0 };
            text.put_integer(value as i64);
            return text;
        }
        DoubleText::of_digits(value)
    }

    /// The text without the exception for whole numbers, as in stock servers' digests: `1e+9`.
    pub fn of_digits(value: f64) -> DoubleText {
        let mut text = DoubleText { bytes: [0; TEXT_LEN_MAX], len: 0 };
        if value.is_nan() {
            text.put(b"nan");
        } else if value.is_infinite() {
            text.put(if value > 0.0 { b"inf" } else { b"-inf" });
        } else if value == 0.0 {
            text.put(if value.is_sign_negative() { b"-0" } else { b"0" });
        } else {
            text.put_digits(value);
        }
        text
    }

    /// The bytes of the text, in ASCII.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    fn put_zeros(&mut self, count: usize) {
        self.bytes[self.len..self.len + count].fill(b'0');
        self.len += count;
    }

    fn put_integer(&mut self, value: i64) {
        self.put(write_i64(&mut [0; INTEGER_LEN_MAX], value));
    }

    fn put_digits(&mut self, value: f64) {
        let digits = Digits::of(value.abs());
        let (all, last_power) = (digits.as_slice(), digits.last_power);
        let first_power = last_power + all.len() as i32 - 1;
        if value < 0.0 {
            self.put(b"-");
        }
        if (0..=7).contains(&last_power) {
            self.put(all);
            self.put_zeros(last_power as usize);
        } else if last_power < 0 && (last_power > -7 || first_power.abs() < 4) {
            if first_power < 0 {
                self.put(b"0.");
                self.put_zeros(first_power.unsigned_abs() as usize - 1);
                self.put(all);
            } else {
                let (whole, fraction) = all.split_at(first_power as usize + 1);
                self.put(whole);
                self.put(b".");
                self.put(fraction);
            }
        } else {
            self.put(&all[..1]);
            if all.len() > 1 {
                self.put(b".");
                self.put(&all[1..]);
            }
            self.put(if first_power < 0 { b"e-" } else { b"e+" });
            self.put_integer(i64::from(first_power.abs()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(value: f64, text: &str) {
        assert_eq!(std::str::from_utf8(DoubleText::new(value).as_bytes()), Ok(text));
    }

    /// Pairs recorded from Redis 8.0.6 and Valkey 9.1.2, which agree on all of them.
    #[test]
    fn the_layout_is_that_of_the_stock_servers() {
        check(0.1, "0.1");
        check(1.0 / 3.0, "0.3333333333333333");
        check(123456.789, "123456.789");
        check(1e-5, "0.00001");
        check(1e-6, "0.000001");
        check(1e-7, "1e-7");
        check(1.5e-7, "1.5e-7");
        check(0.000123, "0.000123");
        check(0.00012345678901234567, "1.2345678901234567e-4");
        check(-0.0009212699695217657, "-9.212699695217657e-4");
        check(16496.21036435732, "1.649621036435732e+4");
        check(151984.53466050475, "1.5198453466050475e+5");
        check(-3352868541.4092593, "-3.3528685414092593e+9");
        check(4e18, "4000000000000000000");
        check(4.7e18, "4.7e+18");
        check(2f64.powi(62), "4611686018427387904");
        check(-(2f64.powi(62)), "-4611686018427387904");
        check(4611686018427388928.0, "4611686018427389000");
        check(2f64.powi(63), "9223372036854776000");
        check(1e19, "1e+19");
        check(1.2345e19, "1.2345e+19");
        check(7.166277943983036e19, "71662779439830360000");
        check(-1.782181656534274e21, "-1782181656534274000000");
        check(2.1459414347414834e23, "214594143474148340000000");
        check(1e21, "1e+21");
        check(1.7976931348623157e308, "1.7976931348623157e+308");
        check(-2.2250738585072014e-308, "-2.2250738585072014e-308");
        check(5e-324, "5e-324");
    }

    /// Texts that a perfect algorithm would not choose: as near as another candidate, or one digit
    /// too long. From the same servers.
    #[test]
    fn digits_match_stock_servers() {
        check(3618602805838.0 + 29.0 / 32.0, "3618602805838.9063");
        check(3620708879951.0 + 5.0 / 32.0, "3620708879951.1563");
        check(2001632096290286.0 + 3.0 / 4.0, "2001632096290286.7");
        check(1827052.0 + 13.0 / 2048.0, "1.8270520063476563e+6");
        check(13725241.0 + 627.0 / 1024.0, "1.3725241612304687e+7");
        check(1e23, "99999999999999990000000");
    }

    #[test]
    fn special_and_integral_values() {
        check(f64::NAN, "nan");
        check(f64::INFINITY, "inf");
        check(f64::NEG_INFINITY, "-inf");
        check(0.0, "0");
        check(-0.0, "-0");
        check(3.0, "3");
        check(-1e15, "-1000000000000000");
    }

    proptest! {
        #[test]
        fn any_double_reads_back_the_same(bits: u64) {
            let value = f64::from_bits(bits);
            let text = DoubleText::new(value);
            let back: f64 = std::str::from_utf8(text.as_bytes()).unwrap().parse().unwrap();
            prop_assert!(back == value || value.is_nan() && back.is_nan(), "{value:?}");
        }

        #[test]
        fn usual_scores_read_back_the_same(whole in -1_000_000_000i64..1_000_000_000, power in -40i32..40) {
            let value = whole as f64 * 10f64.powi(power);
            let text = DoubleText::new(value);
            let back: f64 = std::str::from_utf8(text.as_bytes()).unwrap().parse().unwrap();
            prop_assert_eq!(back, value);
        }
    }
}
