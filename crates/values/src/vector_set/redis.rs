// SPDX-License-Identifier: BSD-3-Clause
//! The form of Redis 8 for vector sets, found by comparing DUMPs of redis-server 8.0.6.
//!
//! ```text
//! 7                 a module's value
//! module's ID       "vectorset" in nine characters of 6 bits, then the version 0 of the form
//! 2, number         dimension
//! 2, number         elements
//! 2, number         M times 256 plus quantisation: 0 f32, 1 int8, 2 bin
//! 2, number         1: there is a projection, 2: there are attributes
//! with projection:  2, input dimension; 5, the factors row by row, as floats
//! each element:     5, name; with attributes 5, attribute, empty for none; 5, components;
//!                   2, count of the numbers that follow, each after a 2:
//!                     its serial number; its level, and a 1 in bit 24;
//!                     for each level from the lowest: links, most links, the serial numbers
//!                     linked to, distance of the farthest (upper half) and its place;
//!                     range of the components (upper half) and length of the vector
//! 0                 the end
//! ```
//! A graph from elsewhere need not be one that this server would build. It is taken as it is if it
//! holds this server's invariants; otherwise the vectors are added anew.

use std::collections::HashMap;
use std::io;

use braid_rdb::{Error, ValueDecoder, ValueEncoder};
use braid_vectors::{Graph, Loader, Metric, Projection, Quantisation, Shape};

use super::value::{Names, VectorSet};

/// The name as six bits a character, and the version of the form.
pub(super) const ID: u64 = 0xbde7_2da2_bb1e_b400;
const NUMBER: u64 = 2;
const STRING: u64 = 5;
const END: u64 = 0;

const HAS_PROJECTION: u64 = 1;
const HAS_ATTRIBUTES: u64 = 2;
const LEVEL_MARK: u64 = 1 << 24;
const QUANTISATIONS: [Quantisation; 3] = [Quantisation::F32, Quantisation::I8, Quantisation::Bin];
/// Candidates for the links of vectors that are added anew.
const REBUILD_EF: usize = 200;
/// Highest level in a form that is read.
const LEVELS_MAX: u64 = 64;

fn number(out: &mut ValueEncoder<'_>, number: u64) -> io::Result<()> {
    out.length(NUMBER)?;
    out.length(number)
}

fn text(out: &mut ValueEncoder<'_>, text: &[u8]) -> io::Result<()> {
    out.length(STRING)?;
    out.string(text)
}

fn pair(upper: f32, lower: u32) -> u64 {
    u64::from(upper.to_bits()) << 32 | u64::from(lower)
}

/// The factors of a projection as bytes.
pub(super) fn factor_bytes(projection: &Projection) -> Vec<u8> {
    projection.factors().iter().flat_map(|factor| factor.to_le_bytes()).collect()
}

/// A projection from the bytes of its factors.
pub(super) fn projection(input: u32, output: u32, bytes: &[u8]) -> Result<Projection, braid_vectors::Error> {
    let (factors, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(braid_vectors::Error::Shape);
    }
    Projection::new(input, output, factors.iter().map(|factor| f32::from_le_bytes(*factor)).collect())
}

pub(super) fn encode(set: &VectorSet, out: &mut ValueEncoder<'_>) -> io::Result<()> {
    let graph = set.graph();
    let shape = graph.shape();
    let quantisation = QUANTISATIONS.iter().position(|kind| *kind == shape.quantisation).unwrap_or_default();
    let has_attributes = set.attributes() > 0;
    let flags = if set.projection().is_some() { HAS_PROJECTION } else { 0 }
        | if has_attributes { HAS_ATTRIBUTES } else { 0 };
    out.length(ID)?;
    number(out, u64::from(shape.dim))?;
    number(out, set.len() as u64)?;
    number(out, u64::from(shape.links) << 8 | quantisation as u64)?;
    number(out, flags)?;
    if let Some(projection) = set.projection() {
        number(out, u64::from(projection.input()))?;
        text(out, &factor_bytes(projection))?;
    }
    for id in 0..set.len() as u32 {
        let (name, attribute) = set.name_and_attribute(id);
        text(out, name)?;
        if has_attributes {
            text(out, attribute.unwrap_or_default())?;
        }
        text(out, &graph.raw(id))?;
        let numbers = numbers_of(graph, id);
        number(out, numbers.len() as u64)?;
        numbers.iter().try_for_each(|&value| number(out, value))?;
    }
    out.length(END)
}

/// The numbers of an element: serial number, level, links, range and length.
fn numbers_of(graph: &Graph, id: u32) -> Vec<u64> {
    let links = u64::from(graph.shape().links);
    let level = graph.level(id);
    let mut numbers = vec![u64::from(id) + 1, LEVEL_MARK | u64::from(level)];
    for level in 0..=level {
        let neighbours: Vec<u32> = graph.links(id, level).collect();
        numbers.push(neighbours.len() as u64);
        numbers.push(if level == 0 { 2 * links } else { links });
        let (mut worst, mut place) = (0.0, 0);
        for (at, &neighbour) in neighbours.iter().enumerate() {
            numbers.push(u64::from(neighbour) + 1);
            let distance = graph.distance_between(id, neighbour);
            if distance > worst {
                (worst, place) = (distance, at as u32);
            }
        }
        numbers.push(pair(worst, place));
    }
    numbers.push(pair(graph.range(id).unwrap_or(0.0), graph.norm(id).to_bits()));
    numbers
}

fn read_number(decoder: &mut ValueDecoder<'_>) -> Result<u64, Error> {
    let opcode = decoder.length()?;
    decoder.ensure(opcode == NUMBER, "a vector set with a value of the wrong kind")?;
    decoder.length()
}

fn read_text<'d>(decoder: &'d mut ValueDecoder<'_>) -> Result<&'d [u8], Error> {
    let opcode = decoder.length()?;
    decoder.ensure(opcode == STRING, "a vector set with a value of the wrong kind")?;
    decoder.string()
}

/// An element as read.
struct Element {
    label: u64,
    components: Vec<u8>,
    level: usize,
    /// For each level, serial numbers.
    links: Vec<Vec<u64>>,
    range: f32,
    norm: f32,
}

/// Reads a set, after the module's ID.
pub(super) fn decode(decoder: &mut ValueDecoder<'_>) -> Result<VectorSet, Error> {
    let (dim, count, packed) = (read_number(decoder)?, read_number(decoder)?, read_number(decoder)?);
    let flags = read_number(decoder)?;
    let kind = QUANTISATIONS.get((packed & 0xff) as usize).copied();
    let shape = kind.and_then(|quantisation| {
        let (dim, links) = (u32::try_from(dim).ok()?, u32::try_from(packed >> 8).ok()?);
        Some(Shape { metric: Metric::Cosine, quantisation, dim, links })
    });
    let is_known = flags & !(HAS_PROJECTION | HAS_ATTRIBUTES) == 0;
    decoder.ensure(is_known, "a vector set with an unknown feature")?;
    let shape = shape.filter(|shape| Graph::new(*shape).is_ok());
    let shape = shape.ok_or_else(|| decoder.corrupt("a vector set with an unknown shape"))?;
    let mut matrix = None;
    if flags & HAS_PROJECTION != 0 {
        let input = u32::try_from(read_number(decoder)?).unwrap_or(0);
        let made = projection(input, shape.dim, read_text(decoder)?);
        matrix = Some(made.map_err(|_| decoder.corrupt("a vector set with an invalid projection"))?);
    }
    decoder.ensure(count > 0, "a vector set without elements")?;
    let (mut names, mut elements, mut places) = (Names::new(), Vec::new(), HashMap::new());
    for _ in 0..count {
        let (serial, element) = read_element(decoder, shape, flags, &mut names)?;
        let is_new = places.insert(serial, elements.len() as u32).is_none();
        decoder.ensure(is_new, "a vector set with a serial number twice")?;
        elements.push(element);
    }
    let end = decoder.length()?;
    decoder.ensure(end == END, "a vector set with more than its elements")?;
    let last = places.keys().copied().max().unwrap_or(0);
    let graph = load(shape, &elements, &places).map_or_else(|_| rebuild(shape, &elements), Ok);
    let graph = graph.map_err(|_| decoder.corrupt("a vector set with an invalid graph"))?;
    Ok(VectorSet::from_parts(graph, names, matrix, last))
}

fn read_element(
    decoder: &mut ValueDecoder<'_>,
    shape: Shape,
    flags: u64,
    names: &mut Names,
) -> Result<(u64, Element), Error> {
    let name = read_text(decoder)?.to_vec();
    let mut attribute = Vec::new();
    if flags & HAS_ATTRIBUTES != 0 {
        attribute = read_text(decoder)?.to_vec();
    }
    let label = names.push(&name, (!attribute.is_empty()).then_some(&attribute));
    let label = label.ok_or_else(|| decoder.corrupt("a vector set with a name twice"))?;
    let components = read_text(decoder)?.to_vec();
    let dim = shape.dim as usize;
    let wanted = match shape.quantisation {
        Quantisation::F32 => dim * 4,
        Quantisation::I8 => dim,
        Quantisation::Bin => dim.div_ceil(64) * 8,
    };
    decoder.ensure(components.len() == wanted, "a vector of the wrong size")?;
    let mut left = read_number(decoder)?;
    let mut next = |decoder: &mut ValueDecoder<'_>| {
        decoder.ensure(left > 0, "an element with too few numbers")?;
        left -= 1;
        read_number(decoder)
    };
    let serial = next(decoder)?;
    let level = next(decoder)? & (LEVEL_MARK - 1);
    decoder.ensure(level <= LEVELS_MAX, "an element with an impossible level")?;
    let mut links = Vec::new();
    for _ in 0..=level {
        let count = next(decoder)?;
        let _most = next(decoder)?;
        let mut serials = Vec::new();
        for _ in 0..count {
            serials.push(next(decoder)?);
        }
        links.push(serials);
        let _worst = next(decoder)?;
    }
    let sizes = next(decoder)?;
    decoder.ensure(left == 0, "an element with too many numbers")?;
    let (range, norm) = (f32::from_bits((sizes >> 32) as u32), f32::from_bits(sizes as u32));
    Ok((serial, Element { label, components, level: level as usize, links, range, norm }))
}

/// Takes over the links; an error if they do not hold the invariants of a graph.
fn load(
    shape: Shape,
    elements: &[Element],
    places: &HashMap<u64, u32>,
) -> Result<Graph, braid_vectors::Error> {
    const DAMAGED: braid_vectors::Error = braid_vectors::Error::Damaged("a link to nowhere");
    let level = |element: &Element| element.level.min(usize::from(braid_vectors::LEVEL_MAX));
    let (entry, top) = elements
        .iter()
        .enumerate()
        .map(|(id, element)| (id as u32, level(element)))
        .max_by_key(|(id, level)| (*level, std::cmp::Reverse(*id)))
        .ok_or(DAMAGED)?;
    let mut loader = Loader::new(&Loader::head(shape, elements.len() as u32, entry, top as u8))?;
    let mut record = Vec::new();
    for element in elements {
        record.clear();
        record.push(level(element) as u8);
        record.extend_from_slice(&element.norm.to_le_bytes());
        if shape.quantisation == Quantisation::I8 {
            record.extend_from_slice(&element.range.to_le_bytes());
        }
        record.extend_from_slice(&element.components);
        record.resize((record.len() - 1).next_multiple_of(4) + 1, 0);
        for serials in &element.links[..=level(element)] {
            record.extend_from_slice(&u16::try_from(serials.len()).map_err(|_| DAMAGED)?.to_le_bytes());
            for serial in serials {
                record.extend_from_slice(&places.get(serial).ok_or(DAMAGED)?.to_le_bytes());
            }
        }
        loader.push(&record, &mut |_| element.label)?;
    }
    loader.finish()
}

/// Adds all vectors anew.
fn rebuild(shape: Shape, elements: &[Element]) -> Result<Graph, braid_vectors::Error> {
    let mut graph = Graph::new(shape)?;
    for element in elements {
        let vector: Vec<f32> = match shape.quantisation {
            Quantisation::F32 => {
                let (floats, _) = element.components.as_chunks::<4>();
                floats.iter().map(|float| f32::from_le_bytes(*float) * element.norm).collect()
            }
            Quantisation::I8 => {
                let scale = element.range / 127.0 * element.norm;
                element.components.iter().map(|&byte| f32::from(byte as i8) * scale).collect()
            }
            Quantisation::Bin => {
                let bit = |at: usize| element.components[at / 8] >> (at % 8) & 1;
                let size = element.norm / (shape.dim as f32).sqrt();
                (0..shape.dim as usize).map(|at| if bit(at) == 1 { size } else { -size }).collect()
            }
        };
        graph.add(
            &vector,
            element.label,
            REBUILD_EF,
            element.level.min(usize::from(braid_vectors::LEVEL_MAX)) as u8,
        )?;
    }
    Ok(graph)
}
