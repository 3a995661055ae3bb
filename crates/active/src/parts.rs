// SPDX-License-Identifier: BSD-3-Clause
//! Values that consist of named parts: [JSON documents](crate::document) and
//! [vector sets](crate::vector_set). Parts merge like the fields of a hash. Which of them show, and
//! what a client's change means for them, is up to the type.

use std::collections::BTreeMap;

use crate::change::Kind;
use crate::hash::Hash;
use crate::part_change::PartChange;
use crate::vector_set::Shape;
use crate::{Bytes, Parts, document, string, vector_set};

/// The parts that are there from a name on, whether or not they show.
pub(crate) fn live_from<'p>(parts: &'p Hash, name: &'p [u8]) -> impl Iterator<Item = (Bytes, Bytes)> + 'p {
    parts.iter_from(name).filter_map(|(name, cell)| Some((name, string::shown(&cell)?)))
}

/// All parts that are there.
pub(crate) fn live(parts: &Hash) -> impl Iterator<Item = (Bytes, Bytes)> {
    live_from(parts, &[])
}

/// The shape that a vector set shows.
pub(crate) fn shape(parts: &Hash) -> Option<Shape> {
    live(parts).next().and_then(|(part, _)| Shape::of_part(&part))
}

/// The parts that show.
pub(crate) fn visible(kind: Kind, parts: &Hash) -> Parts {
    match kind {
        Kind::VectorSet => vector_set::visible(live(parts)),
        _ => document::visible(live(parts)),
    }
}

/// The changes of the present parts that lead to those of a client.
pub(crate) fn changes(kind: Kind, live: &BTreeMap<Bytes, Bytes>, to: &[(Bytes, Bytes)]) -> Vec<PartChange> {
    match kind {
        Kind::VectorSet => vector_set::changes(live, to),
        _ => document::changes(live, to),
    }
}
