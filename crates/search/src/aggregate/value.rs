// SPDX-License-Identifier: BSD-3-Clause
//! Values of rows.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::index::SortValue;

#[derive(Clone, Debug, Default)]
pub enum Value {
    /// The document has no such value, or an expression over such a value.
    #[default]
    None,
    Number(f64),
    Text(Arc<str>),
    /// A text that is not UTF-8: a vector, or a key's name.
    Bytes(Arc<[u8]>),
    List(Arc<[Value]>),
}

impl Value {
    pub fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    /// A value as a document has it.
    pub fn of_bytes(bytes: &[u8]) -> Value {
        match std::str::from_utf8(bytes) {
            Ok(text) => Value::text(text),
            Err(_) => Value::Bytes(bytes.into()),
        }
    }

    pub fn truth(value: bool) -> Value {
        Value::Number(f64::from(u8::from(value)))
    }

    pub fn is_none(&self) -> bool {
        matches!(self, Value::None)
    }

    /// As a number, texts too if they are one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(number) => Some(*number),
            Value::Text(text) => text.trim().parse().ok(),
            Value::None | Value::Bytes(_) | Value::List(_) => None,
        }
    }

    pub fn is_true(&self) -> bool {
        match self {
            Value::None => false,
            Value::Number(number) => *number != 0.0,
            Value::Text(text) => text.parse().map_or(!text.is_empty(), |number: f64| number != 0.0),
            Value::Bytes(bytes) => !bytes.is_empty(),
            Value::List(list) => !list.is_empty(),
        }
    }

    /// As replies show it: numbers with 12 digits.
    pub fn shown(&self) -> String {
        match self {
            Value::None => String::new(),
            Value::Number(number) => show_number(*number),
            Value::Text(text) => text.as_ref().to_owned(),
            Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Value::List(list) => list.iter().map(Value::shown).collect::<Vec<_>>().join(", "),
        }
    }

    /// Numbers by size, also beside texts that are numbers; texts by their bytes; nothing last.
    pub fn compare(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Number(one), Value::Number(other)) => one.total_cmp(other),
            (Value::Text(one), Value::Text(other)) => one.cmp(other),
            (Value::Bytes(one), Value::Bytes(other)) => one.cmp(other),
            (Value::Number(_), Value::Text(_)) | (Value::Text(_), Value::Number(_)) => {
                match (self.number(), other.number()) {
                    (Some(one), Some(other)) => one.total_cmp(&other),
                    _ => self.rank().cmp(&other.rank()),
                }
            }
            (Value::List(one), Value::List(other)) => {
                let unequal =
                    one.iter().zip(other.iter()).map(|(a, b)| a.compare(b)).find(|order| order.is_ne());
                unequal.unwrap_or_else(|| one.len().cmp(&other.len()))
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Number(_) => 0,
            Value::Text(_) => 1,
            Value::Bytes(_) => 2,
            Value::List(_) => 3,
            Value::None => 4,
        }
    }
}

impl From<SortValue> for Value {
    fn from(value: SortValue) -> Value {
        match value {
            SortValue::None => Value::None,
            SortValue::Number(number) => Value::Number(number),
            SortValue::Text(text) => Value::text(&text),
        }
    }
}

/// Equal as keys of groups: of one type and of one content.
impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::None, Value::None) => true,
            (Value::Number(one), Value::Number(other)) => one.to_bits() == other.to_bits(),
            (Value::Text(one), Value::Text(other)) => one == other,
            (Value::Bytes(one), Value::Bytes(other)) => one == other,
            (Value::List(one), Value::List(other)) => one == other,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.rank().hash(state);
        match self {
            Value::None => {}
            Value::Number(number) => number.to_bits().hash(state),
            Value::Text(text) => text.hash(state),
            Value::Bytes(bytes) => bytes.hash(state),
            Value::List(list) => list.hash(state),
        }
    }
}

/// A number with up to 12 digits, as C's `%.12g` writes it.
pub fn show_number(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // Whole numbers that fit 64 bits are shown as such.
    if number == number.trunc() && number.abs() < -(i64::MIN as f64) {
        return format!("{}", number as i64);
    }
    let scientific = format!("{number:.11e}");
    let Some((digits, exponent)) = scientific.split_once('e') else { return scientific };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trim = |text: &str| text.trim_end_matches('0').trim_end_matches('.').to_owned();
    if (-4..12).contains(&exponent) {
        trim(&format!("{number:.*}", (11 - exponent).max(0) as usize))
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", trim(digits), exponent.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_with_twelve_digits() {
        let shown = [
            3.0,
            3.5,
            1.0 / 3.0,
            0.1 + 0.2,
            1e20,
            9.2e18,
            -9.3e18,
            123_456_789_012_345_678.0,
            1e-7,
            -2.5e-5,
            1.0f64.exp(),
        ]
        .map(show_number);
        let expected = [
            "3",
            "3.5",
            "0.333333333333",
            "0.3",
            "1e+20",
            "9200000000000000000",
            "-9.3e+18",
            "123456789012345680",
            "1e-07",
            "-2.5e-05",
            "2.71828182846",
        ];
        assert_eq!(shown, expected);
        assert_eq!([f64::NAN, f64::NEG_INFINITY].map(show_number), ["nan", "-inf"]);
    }

    #[test]
    fn values_compare_by_what_they_are() {
        let (two, ten) = (Value::text("2"), Value::Number(10.0));
        assert_eq!(two.compare(&ten), Ordering::Less);
        assert_eq!(two.compare(&Value::text("10")), Ordering::Greater);
        assert_eq!(Value::None.compare(&Value::text("x")), Ordering::Greater);
        assert_eq!(Value::of_bytes(b"x"), Value::text("x"));
        assert_eq!(Value::of_bytes(b"\xff").compare(&Value::of_bytes(b"\xfe")), Ordering::Greater);
        assert_eq!(Value::text("x").compare(&Value::of_bytes(b"\xff")), Ordering::Less);
        assert!(!Value::text("0").is_true() && Value::text("x").is_true() && !Value::None.is_true());
    }
}
