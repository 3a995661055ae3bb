// SPDX-License-Identifier: BSD-3-Clause
//! Amounts: exact sums of increments.
//!
//! An amount is a 128-bit count of steps of 10^-17, the precision in which Redis prints the
//! results of INCRBYFLOAT. Sums are exact, so they do not depend on the order in which regions
//! receive increments, and a forgotten part can be subtracted again. A number that does not fit
//! (10^20 or more, or finer than 17 places) must be written by the caller as a whole value.

/// The number of decimal places.
const PLACES: usize = 17;
const ONE: i128 = 100_000_000_000_000_000;
/// Bound for amounts from texts and floats, so that the sum of many cannot overflow.
const LIMIT: i128 = 1_000_000_000_000_000_000_000 * ONE / 10;

/// An exact sum; see the module documentation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Amount(i128);

impl crate::stored::Stored for Amount {
    fn store(&self, out: &mut Vec<u8>) {
        self.0.store(out);
    }

    fn load(from: &mut &[u8]) -> Option<Self> {
        crate::stored::Stored::load(from).map(Amount)
    }
}

impl Amount {
    pub const ZERO: Amount = Amount(0);

    pub fn of_integer(value: i64) -> Amount {
        Amount(i128::from(value) * ONE)
    }

    pub fn from_steps(steps: i128) -> Amount {
        Amount(steps)
    }

    pub fn steps(self) -> i128 {
        self.0
    }

    /// The amount of a float, rounded to the last place.
    pub fn of_float(value: f64) -> Option<Amount> {
        if !value.is_finite() || value.abs() >= LIMIT as f64 / ONE as f64 {
            return None;
        }
        let whole = value.trunc();
        let rest = (value - whole) * ONE as f64;
        Some(Amount(whole as i128 * ONE + rest.round() as i128))
    }

    /// Parses a plain decimal number: no exponent, no white space, at most 17 places.
    pub fn parse(text: &[u8]) -> Option<Amount> {
        let (is_negative, digits) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let dot = digits.iter().position(|&byte| byte == b'.');
        let (whole, places) = match dot {
            Some(at) => (&digits[..at], &digits[at + 1..]),
            None => (digits, &[][..]),
        };
        let is_number = !(whole.is_empty() && places.is_empty())
            && whole.len() <= 21
            && places.len() <= PLACES
            && whole.iter().chain(places).all(u8::is_ascii_digit);
        if !is_number {
            return None;
        }
        let zeros = std::iter::repeat_n(&b'0', PLACES - places.len());
        let steps = whole.iter().chain(places).chain(zeros);
        let steps = steps.fold(0i128, |sum, digit| sum * 10 + i128::from(digit - b'0'));
        (steps < LIMIT).then_some(Amount(if is_negative { -steps } else { steps }))
    }

    /// Appends the decimal text, without trailing zeros.
    pub fn write(self, out: &mut Vec<u8>) {
        let steps = self.0.unsigned_abs();
        let one = ONE.unsigned_abs();
        let (whole, places) = (steps / one, steps % one);
        let text = if places == 0 { format!("{whole}") } else { format!("{whole}.{places:017}") };
        if self.0 < 0 {
            out.push(b'-');
        }
        let text = if places == 0 { &text } else { text.trim_end_matches('0') };
        out.extend_from_slice(text.as_bytes());
    }

    pub fn to_float(self) -> f64 {
        (self.0 / ONE) as f64 + (self.0 % ONE) as f64 / ONE as f64
    }

    /// The integer, if it is one that INCR can return.
    pub fn to_integer(self) -> Option<i64> {
        (self.0 % ONE == 0).then(|| i64::try_from(self.0 / ONE).ok()).flatten()
    }

    /// Saturates: sums from peers may be anything, and must not overflow.
    pub fn plus(self, other: Amount) -> Amount {
        Amount(self.0.saturating_add(other.0))
    }

    pub fn minus(self, other: Amount) -> Amount {
        Amount(self.0.saturating_sub(other.0))
    }

    /// The sum, if it is in range.
    pub fn checked_plus(self, other: Amount) -> Option<Amount> {
        self.0.checked_add(other.0).filter(|sum| sum.unsigned_abs() < LIMIT.unsigned_abs()).map(Amount)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(amount: Amount) -> String {
        let mut out = Vec::new();
        amount.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn amounts_are_exact() {
        let sum = Amount::parse(b"0.1").unwrap().plus(Amount::parse(b"0.2").unwrap());
        assert_eq!(text(sum), "0.3");
        assert_eq!(text(sum.minus(Amount::parse(b"5").unwrap())), "-4.7");
        assert_eq!(text(Amount::of_integer(i64::MIN)), i64::MIN.to_string());
        assert_eq!(Amount::of_integer(i64::MAX).to_integer(), Some(i64::MAX));
        assert_eq!(sum.to_integer(), None);
        assert_eq!(Amount::of_float(0.1), Amount::parse(b"0.1"));
        assert_eq!(Amount::of_float(-3_479_099_956_230_698.0).unwrap().to_float(), -3_479_099_956_230_698.0);
        assert_eq!(Amount::of_float(-2.5).unwrap().to_float(), -2.5);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for bad in ["", "-", ".", "1e5", " 1", "1.2.3", "0x10", "abc", "0.123456789012345678"] {
            assert_eq!(Amount::parse(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(Amount::parse(b"999999999999999999999999"), None);
        for bad in [f64::INFINITY, f64::NAN, 1e30] {
            assert_eq!(Amount::of_float(bad), None);
        }
        assert_eq!(Amount(i128::MAX).plus(Amount(1)), Amount(i128::MAX));
        assert_eq!(Amount(LIMIT - 1).checked_plus(Amount(1)), None);
    }
}
