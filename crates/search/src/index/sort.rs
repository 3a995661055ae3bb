// SPDX-License-Identifier: BSD-3-Clause
//! Values that results are sorted by.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::moving::Walk;

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
}

/// The values of a sortable field, by document.
#[derive(Debug)]
pub enum Column {
    /// NaN where there is none.
    Numbers(Vec<f64>),
    Texts(Vec<Option<Box<str>>>),
}

impl Column {
    /// An empty column for values like this one.
    pub fn of(value: &SortValue) -> Column {
        if matches!(value, SortValue::Text(_)) {
            Column::Texts(Vec::new())
        } else {
            Column::Numbers(Vec::new())
        }
    }

    pub fn get(&self, doc: u32) -> SortValue {
        match self {
            Column::Numbers(numbers) => match numbers.get(doc as usize) {
                Some(number) if !number.is_nan() => SortValue::Number(*number),
                _ => SortValue::None,
            },
            Column::Texts(texts) => {
                texts.get(doc as usize).cloned().flatten().map_or(SortValue::None, SortValue::Text)
            }
        }
    }

    /// Moves the texts to better places.
    pub fn relocate(&mut self, walk: &mut Walk<'_>) -> ControlFlow<u64> {
        match self {
            Column::Numbers(_) => ControlFlow::Continue(()),
            Column::Texts(texts) => walk.each(texts.iter_mut(), |text, mover| {
                text.iter_mut().for_each(|text| mover.relocate_text(text));
            }),
        }
    }

    pub fn clear(&mut self, doc: u32) {
        match self {
            Column::Numbers(numbers) => {
                numbers.get_mut(doc as usize).into_iter().for_each(|place| *place = f64::NAN)
            }
            Column::Texts(texts) => texts.get_mut(doc as usize).into_iter().for_each(|place| *place = None),
        }
    }

    /// A field's values are all of one type; another value is none.
    pub fn set(&mut self, doc: u32, value: &SortValue) {
        match (self, value) {
            (Column::Numbers(numbers), SortValue::Number(number)) => *place(numbers, doc, f64::NAN) = *number,
            (Column::Texts(texts), SortValue::Text(text)) => *place(texts, doc, None) = Some(text.clone()),
            (column, _) => column.clear(doc),
        }
    }

    pub fn heap_bytes(&self) -> usize {
        match self {
            Column::Numbers(numbers) => numbers.capacity() * size_of::<f64>(),
            Column::Texts(texts) => {
                let lens: usize = texts.iter().flatten().map(|text| text.len()).sum();
                lens + texts.capacity() * size_of::<Option<Box<str>>>()
            }
        }
    }
}

/// A place in a column, which grows by an eighth.
fn place<T: Clone>(column: &mut Vec<T>, doc: u32, none: T) -> &mut T {
    let at = doc as usize;
    if column.len() <= at {
        if column.capacity() <= at {
            column.reserve_exact(at + 1 - column.len() + at / 8);
        }
        column.resize(at + 1, none);
    }
    &mut column[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_the_values_set_last() {
        let mut numbers = Column::of(&SortValue::Number(0.0));
        numbers.set(3, &SortValue::Number(1.5));
        numbers.set(1, &SortValue::Number(-1.0));
        numbers.set(1, &SortValue::None);
        assert_eq!(
            [0, 1, 3, 9].map(|doc| numbers.get(doc)),
            [SortValue::None, SortValue::None, SortValue::Number(1.5), SortValue::None]
        );
        let text = SortValue::Text("x".into());
        let mut texts = Column::of(&text);
        texts.set(2, &text);
        assert_eq!((texts.get(2), texts.get(0)), (text, SortValue::None));
        texts.clear(2);
        assert!(texts.get(2).is_none());
        assert_eq!(texts.heap_bytes() % 16, 0);
    }
}
