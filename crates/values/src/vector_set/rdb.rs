// SPDX-License-Identifier: BSD-3-Clause
//! Vector sets in this server's own dump files: with the links of the graph, so that nothing is
//! built when a file is loaded.
//!
//! ```text
//! string   version (1), serial number (8), kind of projection (1), input dimension (4), head of
//!          the graph (braid_vectors)
//! string   the factors of an explicit projection, else empty
//! groups   of up to 256 elements, two strings each:
//!          for each element the length of its name, the name, the length of its attribute plus
//!          one or 0, the attribute (lengths in 4 bytes)
//!          a piece of the graph
//! ```
//! All numbers are little endian. Stock servers refuse the form by its number; those that have
//! vector sets get `redis.rs`.

use std::io;

use braid_keyspace::object::Object;
use braid_rdb::{Error, Limits, Part, RdbType, SavedObject, Target, ValueDecoder, ValueEncoder, ValueForm};
use braid_vectors::{Loader, Projection};

use super::redis;
use super::value::{Names, VectorSet};

static FORM: ValueForm =
    ValueForm::new(243, "VectorSet", &[Part::Text, Part::Text, Part::Members(&[Part::Text, Part::Text])]);

pub(super) static FORMS: &[&ValueForm] = &[&FORM];

const VERSION: u8 = 1;
/// Elements of a group.
const GROUP: u32 = 256;

const NO_PROJECTION: u8 = 0;
const WALSH: u8 = 1;
const EXPLICIT: u8 = 2;

impl SavedObject for VectorSet {
    fn form(&self, target: Target) -> &'static ValueForm {
        if target == Target::Own { &FORM } else { &braid_rdb::MODULE }
    }

    fn is_known_to(&self, target: Target) -> bool {
        matches!(target, Target::Own | Target::Redis8)
    }

    fn encode(&self, form: &ValueForm, _: i64, out: &mut ValueEncoder<'_>) -> io::Result<()> {
        if form.number == FORM.number { encode(self, out) } else { redis::encode(self, out) }
    }
}

/// A string that is not worth compressing.
fn plain(out: &mut ValueEncoder<'_>, bytes: &[u8]) -> io::Result<()> {
    out.length(bytes.len() as u64)?;
    out.bytes(bytes)
}

fn encode(set: &VectorSet, out: &mut ValueEncoder<'_>) -> io::Result<()> {
    let (kind, input, factors) = match set.projection() {
        None => (NO_PROJECTION, 0, Vec::new()),
        Some(projection) if projection.is_walsh() => (WALSH, projection.input(), Vec::new()),
        Some(projection) => (EXPLICIT, projection.input(), redis::factor_bytes(projection)),
    };
    let mut head = vec![VERSION];
    head.extend_from_slice(&set.serial().to_le_bytes());
    head.push(kind);
    head.extend_from_slice(&input.to_le_bytes());
    head.extend_from_slice(&set.graph().save_head());
    plain(out, &head)?;
    plain(out, &factors)?;
    let len = set.len() as u32;
    out.length(u64::from(len.div_ceil(GROUP)))?;
    let (mut names, mut piece) = (Vec::new(), Vec::new());
    for from in (0..len).step_by(GROUP as usize) {
        names.clear();
        piece.clear();
        for id in from..len.min(from + GROUP) {
            let (name, attribute) = set.name_and_attribute(id);
            names.extend_from_slice(&(name.len() as u32).to_le_bytes());
            names.extend_from_slice(name);
            let len = attribute.map_or(0, |attribute| attribute.len() as u32 + 1);
            names.extend_from_slice(&len.to_le_bytes());
            names.extend_from_slice(attribute.unwrap_or_default());
            set.graph().save_vector(id, &mut piece);
        }
        out.string(&names)?;
        plain(out, &piece)?;
    }
    Ok(())
}

fn head(bytes: &[u8]) -> Option<(u64, u8, u32, &[u8])> {
    let (&version, rest) = bytes.split_first()?;
    let (serial, rest) = rest.split_first_chunk()?;
    let (&kind, rest) = rest.split_first()?;
    let (input, graph) = rest.split_first_chunk()?;
    (version == VERSION).then_some((u64::from_le_bytes(*serial), kind, u32::from_le_bytes(*input), graph))
}

/// The next text of a group's names, whose length is one less than written if `is_optional`.
fn take<'a>(bytes: &mut &'a [u8], is_optional: bool) -> Option<Option<&'a [u8]>> {
    let (len, rest) = bytes.split_first_chunk()?;
    let len = u32::from_le_bytes(*len);
    let len = if is_optional { len.checked_sub(1) } else { Some(len) };
    let Some(len) = len else {
        *bytes = rest;
        return Some(None);
    };
    let (text, rest) = rest.split_at_checked(len as usize)?;
    *bytes = rest;
    Some(Some(text))
}

/// Adds the names of a group; their labels, or `None` if they are damaged.
fn labels(mut bytes: &[u8], names: &mut Names) -> Option<Vec<u64>> {
    let mut labels = Vec::new();
    while !bytes.is_empty() {
        let name = take(&mut bytes, false)??;
        let attribute = take(&mut bytes, true)?;
        labels.push(names.push(name, attribute)?);
    }
    Some(labels)
}

/// Reads a set of either form.
pub(super) fn decode(
    decoder: &mut ValueDecoder<'_>,
    kind: RdbType,
    _: &Limits,
    _: i64,
) -> Result<Object, Error> {
    let set = if kind.number() == FORM.number { decode_own(decoder)? } else { redis::decode(decoder)? };
    Ok(Object::new(set))
}

fn decode_own(decoder: &mut ValueDecoder<'_>) -> Result<VectorSet, Error> {
    let head_bytes = decoder.string()?.to_vec();
    let unknown = || decoder.corrupt("a vector set with an unknown head");
    let (serial, kind, input, graph_head) = head(&head_bytes).ok_or_else(unknown)?;
    let mut loader = Loader::new(graph_head).map_err(|_| unknown())?;
    let output = loader.shape().dim;
    let factors = decoder.string()?;
    let projection = match kind {
        NO_PROJECTION => Ok(None),
        WALSH => Projection::walsh(input, output).map(Some),
        EXPLICIT => redis::projection(input, output, factors).map(Some),
        _ => Err(braid_vectors::Error::Shape),
    };
    let projection = projection.map_err(|_| decoder.corrupt("a vector set with an unknown projection"))?;
    let mut names = Names::new();
    for _ in 0..decoder.members(2)? {
        let known = labels(decoder.string()?, &mut names);
        let labels = known.ok_or_else(|| decoder.corrupt("a vector set with invalid names"))?;
        let (from, mut missing) = (loader.loaded(), false);
        let pushed = loader.push(decoder.string()?, &mut |id| {
            let label = labels.get(id as usize - from).copied();
            missing |= label.is_none();
            label.unwrap_or_default()
        });
        let is_sound = pushed.is_ok() && !missing && loader.loaded() - from == labels.len();
        decoder.ensure(is_sound, "a vector set with an invalid graph")?;
    }
    let graph = loader.finish().map_err(|_| decoder.corrupt("a vector set with an invalid graph"))?;
    Ok(VectorSet::from_parts(graph, names, projection, serial))
}
