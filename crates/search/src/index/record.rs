// SPDX-License-Identifier: BSD-3-Clause
//! What a part keeps of each document to find its entries again: its key, its words and tags by
//! number, and its numbers.
//!
//! One block of bytes a document, made once and replaced as a whole.

use braid_base::relocation::Mover;

use super::dictionary::TermId;
use super::varint;
use crate::schema::FieldId;

#[derive(Debug, Default)]
pub struct Record(Box<[u8]>);

impl Record {
    /// Words and tags must ascend.
    pub fn new(
        key: &[u8],
        words: impl ExactSizeIterator<Item = TermId>,
        tags: &[TermId],
        numbers: &[(FieldId, f64)],
    ) -> Record {
        let mut bytes =
            Vec::with_capacity(key.len() + 3 * (words.len() + tags.len()) + 9 * numbers.len() + 8);
        varint::push(&mut bytes, key.len() as u128);
        bytes.extend_from_slice(key);
        push_terms(&mut bytes, words);
        push_terms(&mut bytes, tags.iter().copied());
        for (field, number) in numbers {
            varint::push(&mut bytes, u128::from(*field));
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        Record(bytes.into())
    }

    fn parts(&self) -> (&[u8], &[u8]) {
        let mut rest = &self.0[..];
        let len = varint::take(&mut rest) as usize;
        rest.split_at_checked(len).unwrap_or_default()
    }

    pub fn key(&self) -> &[u8] {
        self.parts().0
    }

    /// The words, the tags, and the numbers.
    pub fn terms(&self) -> (Vec<TermId>, Vec<TermId>, Vec<(FieldId, f64)>) {
        let mut rest = self.parts().1;
        let words = take_terms(&mut rest);
        let tags = take_terms(&mut rest);
        let mut numbers = Vec::new();
        while let Some(number) = take_number(&mut rest) {
            numbers.push(number);
        }
        (words, tags, numbers)
    }

    /// The field's first number.
    pub fn number(&self, field: FieldId) -> Option<f64> {
        self.numbers_of(field).next()
    }

    /// The field's numbers.
    pub fn numbers_of(&self, field: FieldId) -> impl Iterator<Item = f64> {
        let mut rest = self.parts().1;
        for _ in 0..2 {
            for _ in 0..varint::take(&mut rest) {
                varint::take(&mut rest);
            }
        }
        let numbers = std::iter::from_fn(move || take_number(&mut rest));
        numbers.filter(move |(one, _)| *one == field).map(|(_, number)| number)
    }

    /// Moves the block to a better place.
    pub fn relocate(&mut self, mover: &mut Mover) {
        mover.relocate_slice(&mut self.0);
    }

    pub fn heap_bytes(&self) -> usize {
        self.0.len()
    }
}

fn push_terms(bytes: &mut Vec<u8>, terms: impl ExactSizeIterator<Item = TermId>) {
    varint::push(bytes, terms.len() as u128);
    let mut last = 0;
    for term in terms {
        varint::push(bytes, u128::from(term - last));
        last = term;
    }
}

fn take_terms(rest: &mut &[u8]) -> Vec<TermId> {
    let mut last = 0;
    let len = varint::take(rest);
    let next = |_| {
        last += varint::take(rest);
        last
    };
    (0..len).map(next).collect()
}

fn take_number(rest: &mut &[u8]) -> Option<(FieldId, f64)> {
    if rest.is_empty() {
        return None;
    }
    let field = varint::take(rest) as FieldId;
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    Some((field, f64::from_le_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_gives_back_what_it_was_made_of() {
        let record = Record::new(b"key:1", [3, 500, 70_000].into_iter(), &[9], &[(2, 1.5), (300, -0.0)]);
        assert_eq!(record.key(), b"key:1");
        assert_eq!(record.terms(), (vec![3, 500, 70_000], vec![9], vec![(2, 1.5), (300, -0.0)]));
        assert_eq!((record.number(300), record.number(2), record.number(1)), (Some(-0.0), Some(1.5), None));
        let empty = Record::new(b"", [].into_iter(), &[], &[]);
        assert_eq!((empty.key(), empty.terms()), (&b""[..], (vec![], vec![], vec![])));
    }
}
