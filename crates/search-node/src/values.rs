// SPDX-License-Identifier: BSD-3-Clause
//! What an index wants of a hash or a JSON document, read from the value.

mod expanded;
mod json;

use braid_keyspace::{Entry, ValueRef};
use braid_search::aggregate;
use braid_search::index;
use braid_search::schema::{FieldId, Kind};
use braid_search::text::Language;
use braid_values::hash::Hash;
use braid_values::json::value::Json;

use crate::definition::{Definition, ElementType, VectorField};

pub use expanded::reply_json;
pub use json::{all_text, compact, one_text};

/// A value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Owned {
    Text(Vec<u8>),
    Number(f64),
    Bool(bool),
}

impl Owned {
    pub fn borrowed(&self) -> index::Value<'_> {
        match self {
            Owned::Text(text) => index::Value::Text(text),
            Owned::Number(number) => index::Value::Number(*number),
            Owned::Bool(value) => index::Value::Bool(*value),
        }
    }
}

/// A document as an index sees it.
#[derive(Debug)]
pub struct Document {
    pub values: Vec<(FieldId, Owned)>,
    pub vectors: Vec<(FieldId, Vec<f32>)>,
    pub language: Language,
    pub score: f32,
}

/// Why a document is not indexed: the field, and what is wrong.
#[derive(Debug)]
pub struct Unfit {
    pub field: Option<FieldId>,
    pub why: String,
}

/// Either kind of document.
pub enum Source<'a> {
    Hash(&'a Hash),
    Json(&'a Json),
}

impl<'a> Source<'a> {
    /// The entry's value, if it is of the kind that the index is about.
    pub fn of(entry: Entry<'a>, is_json: bool) -> Option<Source<'a>> {
        let ValueRef::Object(object) = entry.value() else { return None };
        if is_json { object.get::<Json>().map(Source::Json) } else { object.get::<Hash>().map(Source::Hash) }
    }

    /// A value by the path of a field, or the name of a hash's field, as text. JSON: the only
    /// match, as it is in texts.
    pub fn text(&self, path: &str, now_ms: i64) -> Option<Vec<u8>> {
        match self {
            Source::Hash(hash) => hash.get(path.as_bytes(), now_ms).map(|value| value.to_vec()),
            Source::Json(json) => one_text(json, path),
        }
    }
}

/// Reads what the index wants. `None`: the document is not one of the index's.
pub fn read(
    definition: &Definition,
    key: &[u8],
    source: &Source<'_>,
    now_ms: i64,
) -> Option<Result<Document, Unfit>> {
    if let Some(filter) = &definition.filter {
        let values = filter.inputs.iter().map(|name| property(definition, key, source, name, now_ms));
        let row: Vec<aggregate::Value> = values.collect();
        if !filter.expression.evaluate(&row).is_ok_and(|value| value.is_true()) {
            return None;
        }
    }
    let own = |path: &Option<Box<[u8]>>| {
        path.as_ref().and_then(|path| source.text(&String::from_utf8_lossy(path), now_ms))
    };
    let language = own(&definition.language_field).and_then(|name| Language::parse(&name));
    let score = own(&definition.score_field)
        .and_then(|text| String::from_utf8(text).ok())
        .and_then(|text| text.parse().ok())
        .filter(|score| (0.0..=1.0).contains(score));
    let mut document = Document {
        values: Vec::new(),
        vectors: Vec::new(),
        language: language.unwrap_or(definition.language),
        score: score.unwrap_or(definition.score),
    };
    for (id, field) in (0..).zip(definition.schema.fields()) {
        let vector = definition.extras[usize::from(id)].vector.as_ref();
        let read = match source {
            Source::Hash(hash) => read_hash(hash, &field.path, id, vector, now_ms, &mut document),
            Source::Json(json) => json::read(json, field, id, vector, &mut document),
        };
        if let Err(why) = read {
            return Some(Err(Unfit { field: Some(id), why }));
        }
    }
    Some(Ok(document))
}

fn read_hash(
    hash: &Hash,
    path: &str,
    id: FieldId,
    vector: Option<&VectorField>,
    now_ms: i64,
    document: &mut Document,
) -> Result<(), String> {
    let Some(value) = hash.get(path.as_bytes(), now_ms) else { return Ok(()) };
    let text = value.to_vec();
    match vector {
        None => document.values.push((id, Owned::Text(text))),
        Some(field) => {
            if text.len() != field.bytes() {
                return Err(format!(
                    "Could not add vector with blob size {} (expected size {})",
                    text.len(),
                    field.bytes()
                ));
            }
            document.values.push((id, Owned::Bool(true)));
            document.vectors.push((id, components(&text, field.element)));
        }
    }
    Ok(())
}

/// The numbers of a vector given as bytes.
pub fn components(bytes: &[u8], element: ElementType) -> Vec<f32> {
    let half = |pair: &[u8]| u16::from_le_bytes([pair[0], pair[1]]);
    match element {
        ElementType::Float32 => {
            let (numbers, _) = bytes.as_chunks::<4>();
            numbers.iter().map(|number| f32::from_le_bytes(*number)).collect()
        }
        ElementType::Float64 => {
            let (numbers, _) = bytes.as_chunks::<8>();
            numbers.iter().map(|number| f64::from_le_bytes(*number) as f32).collect()
        }
        ElementType::BFloat16 => {
            bytes.chunks_exact(2).map(|pair| f32::from_bits(u32::from(half(pair)) << 16)).collect()
        }
        ElementType::Int8 => bytes.iter().map(|byte| f32::from(byte.cast_signed())).collect(),
        ElementType::UInt8 => bytes.iter().map(|byte| f32::from(*byte)).collect(),
        ElementType::Float16 => bytes.chunks_exact(2).map(|pair| from_half(half(pair))).collect(),
    }
}

/// A number of 16 bits as IEEE 754 defines it.
fn from_half(bits: u16) -> f32 {
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> 10 & 0x1f);
    let fraction = u32::from(bits & 0x3ff);
    let magnitude = match exponent {
        0 => return f32::from_bits(sign | (fraction as f32 * 2f32.powi(-24)).to_bits()),
        0x1f => 0xff << 23 | fraction << 13,
        _ => (exponent + 112) << 23 | fraction << 13,
    };
    f32::from_bits(sign | magnitude)
}

/// A property in an expression over documents.
pub fn property(
    definition: &Definition,
    key: &[u8],
    source: &Source<'_>,
    name: &str,
    now_ms: i64,
) -> aggregate::Value {
    if name == "__key" {
        return aggregate::Value::of_bytes(key);
    }
    let field = definition.field(name);
    let path = field.map_or(name, |field| &field.path);
    let is_number = field.is_some_and(|field| field.kind == Kind::Numeric);
    let Some(text) = source.text(path, now_ms) else { return aggregate::Value::None };
    let number = std::str::from_utf8(&text).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
    number.map_or_else(|| aggregate::Value::of_bytes(&text), aggregate::Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_all_element_types() {
        let floats = [1.0f32, -2.5];
        let bytes: Vec<u8> = floats.iter().flat_map(|number| number.to_le_bytes()).collect();
        assert_eq!(components(&bytes, ElementType::Float32), floats);
        let bytes: Vec<u8> = floats.iter().flat_map(|number| f64::from(*number).to_le_bytes()).collect();
        assert_eq!(components(&bytes, ElementType::Float64), floats);
        assert_eq!(components(&[0x80, 0x3f, 0x20, 0xc0], ElementType::BFloat16), floats);
        assert_eq!(components(&[0x00, 0x3c, 0x00, 0xc1], ElementType::Float16), floats);
        assert_eq!(components(&[0x01, 0x00], ElementType::Float16), [2f32.powi(-24)]);
        assert_eq!(components(&[0xff, 0x80, 0x01], ElementType::Int8), [-1.0, -128.0, 1.0]);
        assert_eq!(components(&[0xff, 0x80, 0x01], ElementType::UInt8), [255.0, 128.0, 1.0]);
        assert!(components(&[0x00, 0x7c], ElementType::Float16)[0].is_infinite());
    }
}
