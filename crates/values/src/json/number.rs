// SPDX-License-Identifier: BSD-3-Clause
//! Numbers of documents: integers and floating-point numbers are kept apart, as in Redis Stack.
//! `1` stays an integer and `1.0` a floating-point number, through every increment and every file.

/// A number.
#[derive(Clone, Copy, Debug)]
pub enum Num {
    Int(i64),
    /// An integer above `i64::MAX`.
    Unsigned(u64),
    /// Always finite.
    Float(f64),
}

impl PartialEq for Num {
    fn eq(&self, other: &Num) -> bool {
        match (self, other) {
            (Num::Int(a), Num::Int(b)) => a == b,
            (Num::Unsigned(a), Num::Unsigned(b)) => a == b,
            (Num::Float(a), Num::Float(b)) => a == b,
            _ => false,
        }
    }
}

/// The operations of JSON.NUMINCRBY, JSON.NUMMULTBY and JSON.NUMPOWBY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Add,
    Multiply,
    Power,
}

impl Num {
    pub fn as_f64(self) -> f64 {
        match self {
            Num::Int(value) => value as f64,
            Num::Unsigned(value) => value as f64,
            Num::Float(value) => value,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, Num::Float(_))
    }

    /// Compares by value, regardless of the kind.
    pub fn compare(self, other: Num) -> Option<std::cmp::Ordering> {
        match (self, other) {
            (Num::Int(a), Num::Int(b)) => Some(a.cmp(&b)),
            (Num::Unsigned(a), Num::Unsigned(b)) => Some(a.cmp(&b)),
            (Num::Int(_), Num::Unsigned(_)) => Some(std::cmp::Ordering::Less),
            (Num::Unsigned(_), Num::Int(_)) => Some(std::cmp::Ordering::Greater),
            (a, b) => a.as_f64().partial_cmp(&b.as_f64()),
        }
    }

    /// Calculates; integers wrap around, and `None` is a result that is not finite.
    pub fn apply(self, operation: Operation, by: Num) -> Option<Num> {
        if let (Num::Int(a), Num::Int(b)) = (self, by) {
            return match operation {
                Operation::Add => Some(Num::Int(a.wrapping_add(b))),
                Operation::Multiply => Some(Num::Int(a.wrapping_mul(b))),
                Operation::Power => Some(Num::Int(integer_power(a, b))),
            };
        }
        let (a, b) = (self.as_f64(), by.as_f64());
        let result = match operation {
            Operation::Add => a + b,
            Operation::Multiply => a * b,
            Operation::Power => a.powf(b),
        };
        result.is_finite().then_some(Num::Float(result))
    }

    /// Appends the number's text.
    pub fn print(self, out: &mut Vec<u8>) {
        match self {
            Num::Int(value) => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
            Num::Unsigned(value) => out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()),
            Num::Float(value) => out.extend_from_slice(ryu::Buffer::new().format_finite(value).as_bytes()),
        }
    }
}

/// The power of an integer, whose exponent is taken modulo 2^32 as an unsigned number.
fn integer_power(base: i64, exponent: i64) -> i64 {
    base.wrapping_pow(exponent as u32)
}

/// 10^0 to 10^9.
const POWERS: [f64; 10] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
/// The largest scale of a packed decimal.
pub const SCALE_MAX: u8 = 9;

/// The number nearest to `mantissa / 10^scale`: both are exact, so one division rounds correctly.
#[inline]
pub fn decimal(mantissa: i32, scale: u8) -> f64 {
    f64::from(mantissa) / POWERS[usize::from(scale)]
}

/// As [`POWERS`].
const WHOLE_POWERS: [u32; 10] =
    [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

/// Appends the text of [`decimal`], as [`Num::print`] does. An integer of up to ten digits is what
/// a search for the shortest text would find again, so there is no need for one.
pub fn print_decimal(mantissa: i32, scale: u8, out: &mut Vec<u8>) {
    let (magnitude, power) = (mantissa.unsigned_abs(), WHOLE_POWERS[usize::from(scale)]);
    // Smaller ones may print with an exponent.
    if magnitude < power / 1000 {
        return Num::Float(decimal(mantissa, scale)).print(out);
    }
    let (whole, rest) = (magnitude / power, magnitude % power);
    if mantissa < 0 {
        out.push(b'-');
    }
    let mut digits = itoa::Buffer::new();
    out.extend_from_slice(digits.format(whole).as_bytes());
    out.push(b'.');
    if rest == 0 {
        return out.push(b'0');
    }
    // The power in front keeps the zeros behind the point.
    let fraction = &digits.format(power + rest).as_bytes()[1..];
    let zeros = fraction.iter().rev().take_while(|&&digit| digit == b'0').count();
    out.extend_from_slice(&fraction[..fraction.len() - zeros]);
}

/// The smallest scale and the integer that give this number, if it is such a decimal.
pub fn as_decimal(value: f64) -> Option<(i32, u8)> {
    if value == 0.0 {
        return (!value.is_sign_negative()).then_some((0, 0));
    }
    let magnitude = value.abs();
    if !(1e-9..=2_147_483_647.0).contains(&magnitude) {
        return None;
    }
    (0..=SCALE_MAX).find_map(|scale| Some((at_scale(value, scale)?, scale)))
}

/// The integer that gives this number at a scale.
pub fn at_scale(value: f64, scale: u8) -> Option<i32> {
    let scaled = (value * POWERS[usize::from(scale)]).round();
    if scaled.abs() > f64::from(i32::MAX) {
        return None;
    }
    let mantissa = scaled as i32;
    (decimal(mantissa, scale).to_bits() == value.to_bits()).then_some(mantissa)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        for (value, want) in [
            (1.0, Some((1, 0))),
            (0.1, Some((1, 1))),
            (19.99, Some((1999, 2))),
            (-122.419_415_5, Some((-1_224_194_155, 7))),
            (0.0, Some((0, 0))),
            (-0.0, None),
            (1.0 / 3.0, None),
            (1e15, None),
            (1e-10, None),
        ] {
            assert_eq!(as_decimal(value), want, "{value}");
        }
    }

    #[test]
    fn decimals_print_as_floats_do() {
        let mut random = fastrand::Rng::with_seed(7);
        let ends =
            [0, 1, -1, 9, 10, 99, 100, 1000, 999_999_999, 1_000_000_000, i32::MAX, -i32::MAX, i32::MIN];
        let some = (0..20_000).map(|_| random.i32(..) >> random.u32(0..31));
        for mantissa in some.chain(ends) {
            for scale in 0..=SCALE_MAX {
                let (mut decimal_text, mut float_text) = (Vec::new(), Vec::new());
                print_decimal(mantissa, scale, &mut decimal_text);
                Num::Float(decimal(mantissa, scale)).print(&mut float_text);
                assert_eq!(decimal_text, float_text, "{mantissa} {scale}");
            }
        }
    }

    #[test]
    fn integers_wrap_and_floats_must_be_finite() {
        let max = Num::Int(i64::MAX);
        assert_eq!(max.apply(Operation::Add, Num::Int(1)), Some(Num::Int(i64::MIN)));
        assert_eq!(Num::Float(1e308).apply(Operation::Add, Num::Float(1e308)), None);
        assert_eq!(Num::Int(1).apply(Operation::Add, Num::Float(1.0)), Some(Num::Float(2.0)));
        assert_eq!(Num::Int(0).apply(Operation::Power, Num::Int(-1)), Some(Num::Int(0)));
    }
}
