// SPDX-License-Identifier: BSD-3-Clause
//! Values that results are sorted by.

use std::cmp::Ordering;

/// A value of a sortable field.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum SortValue {
    /// The document lacks the field. Such documents come last, whatever the direction.
    #[default]
    None,
    Number(f64),
    Text(Box<str>),
}

impl SortValue {
    /// Numbers before texts; a missing value is equal to another only.
    pub fn compare(&self, other: &SortValue) -> Ordering {
        match (self, other) {
            (SortValue::Number(one), SortValue::Number(other)) => one.total_cmp(other),
            (SortValue::Text(one), SortValue::Text(other)) => one.cmp(other),
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            SortValue::Number(_) => 0,
            SortValue::Text(_) => 1,
            SortValue::None => 2,
        }
    }

    pub fn is_none(&self) -> bool {
        *self == SortValue::None
    }

    pub fn heap_bytes(&self) -> usize {
        if let SortValue::Text(text) = self { text.len() } else { 0 }
    }
}
