// SPDX-License-Identifier: BSD-3-Clause
//! The floating-point types that JSON.SET's FPHA names. A number of an array becomes the nearest
//! one of its type, and then has the value of the shortest decimal that is nearest to that one:
//! `0.1` stays `0.1` in each of them.
//!
//! Such decimals of the two types of 16 bits are stored in two bytes (`packed.rs`), whether an
//! array was set with FPHA or not: so they take no more after they were read from a file.

/// A type of FPHA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatType {
    Bf16,
    F16,
    F32,
    F64,
}

/// A type of 16 bits: one for the sign, then the exponent, then the rest of the significand.
#[derive(Clone, Copy, Debug)]
pub struct Short {
    /// Bits of the significand behind its first one.
    fraction: u32,
    /// Exponent of the smallest number with a whole significand.
    least: i32,
    max: f64,
}

pub const F16: Short = Short { fraction: 10, least: -14, max: 65_504.0 };
pub const BF16: Short = Short { fraction: 7, least: -126, max: 255.0 * power_of_two(120) };

/// Most digits that a decimal of 16 bits needs.
const DIGITS: i32 = 5;

impl FloatType {
    /// The type with a name of FPHA, in any case.
    pub fn named(word: &[u8]) -> Option<FloatType> {
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let names = [
            ("BF16", FloatType::Bf16),
            ("FP16", FloatType::F16),
            ("FP32", FloatType::F32),
            ("FP64", FloatType::F64),
        ];
        names.into_iter().find_map(|(name, kind)| is(name).then_some(kind))
    }

    /// The message for a number that is too large for the type.
    pub(super) fn out_of_range(self) -> &'static str {
        match self {
            FloatType::Bf16 => "value out of range for BF16",
            FloatType::F16 => "value out of range for F16",
            FloatType::F32 => "value out of range for F32",
            FloatType::F64 => "value out of range for F64",
        }
    }

    /// What a number becomes; `None` if it is too large.
    pub(super) fn fit(self, value: f64) -> Option<f64> {
        match self {
            FloatType::Bf16 => BF16.round(value).map(|value| BF16.shortest(value)),
            FloatType::F16 => F16.round(value).map(|value| F16.shortest(value)),
            FloatType::F32 => Some(value as f32).filter(|value| value.is_finite()).map(widen),
            FloatType::F64 => Some(value),
        }
    }
}

/// The number nearest to the shortest decimal of an f32.
pub fn widen(value: f32) -> f64 {
    ryu::Buffer::new().format_finite(value).parse().unwrap_or(f64::NAN)
}

/// For exponents of normal numbers.
const fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}

fn exponent_of(value: f64) -> i32 {
    (value.to_bits() >> 52 & 0x7ff) as i32 - 1023
}

impl Short {
    /// Distance of the numbers of this type around a value.
    fn step(self, value: f64) -> f64 {
        power_of_two(exponent_of(value).max(self.least) - self.fraction as i32)
    }

    /// The nearest number of this type, if it is not infinite.
    fn round(self, value: f64) -> Option<f64> {
        let step = self.step(value);
        let rounded = (value / step).round_ties_even() * step;
        (rounded.abs() <= self.max).then_some(rounded)
    }

    /// The value of the shortest decimal that is nearest to a number of this type.
    fn shortest(self, value: f64) -> f64 {
        if value == 0.0 {
            return value;
        }
        let exponent = value.abs().log10().floor() as i32;
        let decimals = (1..=DIGITS).map(|digits| with_places(value, digits - 1 - exponent));
        let mut nearest = decimals.filter(|&decimal| self.round(decimal) == Some(value));
        nearest.next().unwrap_or(value)
    }

    /// True if a number is the value of such a decimal.
    pub fn is_decimal(self, value: f64) -> bool {
        self.round(value).is_some_and(|short| self.shortest(short).to_bits() == value.to_bits())
    }

    /// The bits of the nearest number of this type.
    pub fn bits(self, value: f64) -> u16 {
        let rounded = self.round(value).unwrap_or(0.0);
        let exponent = exponent_of(rounded).max(self.least);
        // With the first bit of the significand, which adds one to the exponent's field.
        let significand = (rounded.abs() / self.step(rounded)) as u16;
        let field = ((exponent - self.least) as u16) << self.fraction;
        u16::from(rounded.is_sign_negative()) << 15 | (field + significand)
    }

    /// The number with these bits, as its shortest decimal.
    pub fn number(self, bits: u16) -> f64 {
        let (field, first) = ((bits & 0x7fff) >> self.fraction, 1 << self.fraction);
        let fraction = bits & (first - 1);
        let (significand, above) = if field == 0 { (fraction, 0) } else { (fraction | first, field - 1) };
        let step = power_of_two(self.least + i32::from(above) - self.fraction as i32);
        let magnitude = self.shortest(f64::from(significand) * step);
        if bits >> 15 == 1 { -magnitude } else { magnitude }
    }
}

/// The number rounded to so many decimal places, which may be less than none.
fn with_places(value: f64, places: i32) -> f64 {
    match places {
        0..=22 => (value * 10f64.powi(places)).round() / 10f64.powi(places),
        _ => {
            let digits = places + value.abs().log10().floor() as i32;
            format!("{value:.*e}", digits.max(0) as usize).parse().unwrap_or(value)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_16_bits_has_a_decimal_that_leads_back_to_it() {
        for (kind, infinite) in [(F16, 0x7c00), (BF16, 0x7f80)] {
            for bits in (0..infinite).chain(0x8000..0x8000 + infinite) {
                let number = kind.number(bits);
                assert_eq!(kind.bits(number), bits, "{number}");
                assert!(kind.is_decimal(number), "{number}");
                assert!(format!("{:e}", number.abs()).len() <= 10, "{number}");
            }
        }
    }

    #[test]
    fn numbers_become_the_nearest_of_a_type() {
        for (kind, value, want) in [
            (FloatType::F16, 65_519.0, Some(65_500.0)),
            (FloatType::F16, 65_520.0, None),
            (FloatType::F16, 6e-8, Some(6e-8)),
        ] {
            assert_eq!(kind.fit(value), want, "{kind:?} {value}");
        }
    }
}
