// SPDX-License-Identifier: BSD-3-Clause
//! Vector sets as parts: each element is one, with its vector and its attribute. The later of two
//! versions of an element wins, and an element that is added while another region removes it
//! stays.
//!
//! All elements of a set have the same dimension and quantisation, its shape. Two regions that
//! create a set concurrently may choose different ones. Then the elements of one shape show, the
//! same everywhere, and the others are hidden until a client changes the set, which removes them.
//! Names of parts begin with the shape, so those of one shape are next to each other.

use std::collections::BTreeMap;

use crate::lookup::Lookup;
use crate::part_change::PartChange;
use crate::{Bytes, Parts};

/// How the vectors of a set are stored, and how many components they have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    pub quantisation: Quantisation,
    pub dimension: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Quantisation {
    None,
    Integer,
    Binary,
}

impl Quantisation {
    const ALL: [Quantisation; 3] = [Quantisation::None, Quantisation::Integer, Quantisation::Binary];

    /// The option of VADD.
    pub fn word(self) -> &'static [u8] {
        match self {
            Quantisation::None => b"NOQUANT",
            Quantisation::Integer => b"Q8",
            Quantisation::Binary => b"BIN",
        }
    }

    /// The quantisation that an option of VADD selects.
    pub fn of_word(word: &[u8]) -> Option<Quantisation> {
        Quantisation::ALL.into_iter().find(|one| one.word().eq_ignore_ascii_case(word))
    }
}

/// Bytes of a shape in the name of a part. The name that has nothing else stands for the shape.
const SHAPE: usize = 5;
/// Bytes of the number of links, before the vector.
const LINKS: usize = 2;

impl Shape {
    fn prefix(self) -> [u8; SHAPE] {
        let [a, b, c, d] = self.dimension.to_be_bytes();
        [self.quantisation as u8, a, b, c, d]
    }

    /// The shape that is part of a name.
    pub fn of_part(part: &[u8]) -> Option<Shape> {
        let [quantisation, a, b, c, d] = *part.first_chunk::<SHAPE>()?;
        let quantisation = *Quantisation::ALL.get(usize::from(quantisation))?;
        Some(Shape { quantisation, dimension: u32::from_be_bytes([a, b, c, d]) })
    }

    /// The first name after those of the shape's parts.
    pub(crate) fn end(self) -> Vec<u8> {
        let mut end = self.prefix().to_vec();
        // The byte that names of elements begin with, and one more.
        end.push(b'=' + 1);
        end
    }

    /// The name of an element's part.
    pub fn part(self, element: &[u8]) -> Bytes {
        [&self.prefix()[..], b"=", element].concat().into()
    }
}

/// An element of a set, as a part has it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Element<'a> {
    pub name: &'a [u8],
    /// The most links of an element on a layer of the graph (`M` of VADD), if the set is new.
    pub links: u16,
    /// The components as a client gave them, each a little-endian `f32`: from these every region's
    /// set gets the same. If they are read from a set, they are those that it returns.
    pub vector: &'a [u8],
    /// Empty if there is none.
    pub attribute: &'a [u8],
}

impl<'a> Element<'a> {
    /// The element that a part stands for; `None` if it stands for none.
    pub fn of_part(part: &'a [u8], value: &'a [u8]) -> Option<Element<'a>> {
        let name = part.get(SHAPE..)?.strip_prefix(b"=")?;
        let bytes = usize::try_from(Shape::of_part(part)?.dimension).ok()?.checked_mul(4)?;
        let (links, rest) = value.split_first_chunk::<LINKS>()?;
        let (vector, attribute) = rest.split_at_checked(bytes)?;
        Some(Element { name, links: u16::from_le_bytes(*links), vector, attribute })
    }

    /// The value of the element's part.
    pub fn value(&self) -> Bytes {
        [&self.links.to_le_bytes()[..], self.vector, self.attribute].concat().into()
    }
}

/// The parts that show of some, which are in the order of their names, if the set shows the
/// elements of this shape: the shape, and its elements.
pub fn visible_of(shape: Shape, some: impl Iterator<Item = (Bytes, Bytes)>) -> Parts {
    let shows = |(part, value): &(Bytes, Bytes)| {
        part.starts_with(&shape.prefix()) && Element::of_part(part, value).is_some()
    };
    std::iter::once((shape.prefix().into(), Bytes::default())).chain(some.filter(shows)).collect()
}

/// The parts that show of all, which are in the order of their names.
pub fn visible(live: impl Iterator<Item = (Bytes, Bytes)>) -> Parts {
    let mut live = live.peekable();
    let shape = live.peek().and_then(|(part, _)| Shape::of_part(part));
    shape.map_or_else(Parts::new, |shape| visible_of(shape, live))
}

/// Parts that were read from the keyspace, but with the vectors that clients gave where the set's
/// came from these. `stored`: a vector as the set returns it.
pub fn with_given(read: Parts, given: &[(Bytes, Bytes)], stored: impl Fn(Shape, &[u8]) -> Vec<u8>) -> Parts {
    let given = Lookup::new(given, |(part, _)| part);
    let original = |part: &Bytes, value: &Bytes| {
        let element = Element::of_part(part, value)?;
        let given = Element::of_part(part, &given.get(part)?.1)?;
        let is_from = stored(Shape::of_part(part)?, given.vector) == element.vector;
        is_from.then(|| Element { vector: given.vector, ..element }.value())
    };
    let with_original = |(part, value)| {
        let value = original(&part, &value).unwrap_or(value);
        (part, value)
    };
    read.into_iter().map(with_original).collect()
}

/// See [`crate::parts::changes`]. Parts of other shapes are not among the present ones.
pub(crate) fn changes(live: &BTreeMap<Bytes, Bytes>, to: &[(Bytes, Bytes)]) -> Vec<PartChange> {
    let wanted = Lookup::new(to, |(part, _)| part);
    let is_new = |(part, value): &&(Bytes, Bytes)| part.len() > SHAPE && live.get(part) != Some(value);
    let written =
        to.iter().filter(is_new).map(|(part, value)| PartChange::Write(part.clone(), value.clone()));
    let gone = live.keys().filter(|part| !wanted.has(part));
    written.chain(gone.cloned().map(PartChange::Remove)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE_OF_TWO: Shape = Shape { quantisation: Quantisation::Binary, dimension: 2 };

    fn value(vector: &[f32], attribute: &str) -> Bytes {
        let vector: Vec<u8> = vector.iter().flat_map(|one| one.to_le_bytes()).collect();
        Element { name: b"", links: 16, vector: &vector, attribute: attribute.as_bytes() }.value()
    }

    #[test]
    fn elements_survive_their_form() {
        let (part, value) = (SHAPE_OF_TWO.part(b"e"), value(&[1.0, -1.0], "{}"));
        assert_eq!(Shape::of_part(&part), Some(SHAPE_OF_TWO));
        let element = Element::of_part(&part, &value).unwrap();
        assert_eq!((element.name, element.links, element.attribute), (&b"e"[..], 16, &b"{}"[..]));
        assert_eq!(element.value(), value);
        assert_eq!((0..LINKS + 8).filter(|len| Element::of_part(&part, &value[..*len]).is_some()).count(), 0);
        assert_eq!((0..=SHAPE).filter(|len| Element::of_part(&part[..*len], &value).is_some()).count(), 0);
    }

    #[test]
    fn elements_of_one_shape_show() {
        let other = Shape { dimension: 1, ..SHAPE_OF_TWO };
        let mut live: Parts = vec![
            (SHAPE_OF_TWO.part(b"a"), value(&[1.0, 0.0], "")),
            (other.part(b"b"), value(&[1.0], "")),
            (SHAPE_OF_TWO.part(b"c"), value(&[0.0, 1.0], "")),
        ];
        live.sort();
        let names = |parts: &Parts| -> Vec<Vec<u8>> {
            parts
                .iter()
                .filter_map(|(part, value)| Some(Element::of_part(part, value)?.name.to_vec()))
                .collect()
        };
        assert_eq!(names(&visible(live.clone().into_iter())), [b"b"]);
        let shown = visible_of(SHAPE_OF_TWO, live.into_iter());
        assert_eq!(names(&shown), [b"a", b"c"]);
        let there: BTreeMap<Bytes, Bytes> = shown[1..].iter().cloned().collect();
        assert_eq!(changes(&there, &shown), []);
        assert_eq!(changes(&there, &shown[..2]), [PartChange::Remove(SHAPE_OF_TWO.part(b"c"))]);
        assert_eq!(visible(std::iter::empty()), []);
    }
}
