// SPDX-License-Identifier: BSD-3-Clause
//! Vector sets: VADD, VREM and VSETATTR.

use braid_base::number::parse_f64;

use super::{Reason, number};
use crate::Name;
use crate::change::Kind;
use crate::local::Transaction;
use crate::vector_set::{Element, Quantisation, Shape};

type Outcome = Result<(), Reason>;

/// The most links of an element if VADD does not say.
const LINKS: u16 = 16;

/// The arguments of a VADD after the key.
struct Addition<'a> {
    vector: Vec<u8>,
    element: &'a [u8],
    quantisation: Option<Quantisation>,
    links: Option<u16>,
    attribute: Option<&'a [u8]>,
}

impl<'a> Addition<'a> {
    fn parse(args: &[&'a [u8]]) -> Result<Addition<'a>, Reason> {
        let mut args = args.iter().copied();
        let mut next = || args.next().ok_or(Reason::Malformed);
        let form = next()?;
        let vector = match form {
            word if word.eq_ignore_ascii_case(b"FP32") => next()?.to_vec(),
            word if word.eq_ignore_ascii_case(b"VALUES") => {
                let count = usize::try_from(number(next()?)?).map_err(|_| Reason::Malformed)?;
                let mut vector = Vec::new();
                for _ in 0..count {
                    let component = parse_f64(next()?).ok_or(Reason::Malformed)?;
                    vector.extend((component as f32).to_le_bytes());
                }
                vector
            }
            // A projection is not known.
            _ => return Err(Reason::Unknown),
        };
        let mut addition =
            Addition { vector, element: next()?, quantisation: None, links: None, attribute: None };
        while let Some(word) = args.next() {
            let mut next = || args.next().ok_or(Reason::Malformed);
            match &word.to_ascii_uppercase()[..] {
                b"SETATTR" => addition.attribute = Some(next()?),
                b"M" => addition.links = u16::try_from(number(next()?)?).ok(),
                b"EF" => drop(next()?),
                b"CAS" => {}
                word => {
                    let quantisation = Quantisation::of_word(word).ok_or(Reason::Unknown)?;
                    addition.quantisation = Some(quantisation);
                }
            }
        }
        Ok(addition)
    }
}

/// `VADD key ...`, with what follows the key as `args`.
pub(super) fn add(transaction: &mut Transaction<'_>, database: u32, key: &Name, args: &[&[u8]]) -> Outcome {
    let addition = Addition::parse(args)?;
    let dimension = u32::try_from(addition.vector.len() / 4).map_err(|_| Reason::Malformed)?;
    let quantisation = addition.quantisation.unwrap_or(Quantisation::Integer);
    let shape = transaction.shape(database, key).unwrap_or(Shape { quantisation, dimension });
    if shape.dimension != dimension {
        return Err(Reason::WrongType);
    }
    let links = transaction.links(database, key).or(addition.links).unwrap_or(LINKS);
    let part = shape.part(addition.element);
    let before = transaction.live_part(database, key, &part).unwrap_or_default();
    let before = Element::of_part(&part, &before).map(|before| before.attribute);
    let attribute = addition.attribute.or(before).unwrap_or_default();
    let value = Element { name: addition.element, links, vector: &addition.vector, attribute }.value();
    transaction.part(database, key, Kind::VectorSet, part, Some(value));
    Ok(())
}

/// `VREM key element`.
pub(super) fn remove(
    transaction: &mut Transaction<'_>,
    database: u32,
    key: &Name,
    element: &[u8],
) -> Outcome {
    let shape = transaction.shape(database, key).ok_or(Reason::WrongType)?;
    transaction.part(database, key, Kind::VectorSet, shape.part(element), None);
    Ok(())
}

/// `VSETATTR key element attribute`; an empty attribute removes it.
pub(super) fn set_attribute(
    transaction: &mut Transaction<'_>,
    database: u32,
    key: &Name,
    element: &[u8],
    attribute: &[u8],
) -> Outcome {
    let part = transaction.shape(database, key).ok_or(Reason::WrongType)?.part(element);
    let before = transaction.live_part(database, key, &part).ok_or(Reason::WrongType)?;
    let before = Element::of_part(&part, &before).ok_or(Reason::WrongType)?;
    let value = Element { attribute, ..before }.value();
    transaction.part(database, key, Kind::VectorSet, part, Some(value));
    Ok(())
}
