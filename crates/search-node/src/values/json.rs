// SPDX-License-Identifier: BSD-3-Clause
//! Values of JSON documents, by the paths of fields.
//!
//! A field may have several values: the matches of its path, or the elements of an array that is
//! the only match. Nulls are no values. A path that cannot be parsed matches nothing.

use braid_search::schema::{Field, FieldId, Kind};
use braid_values::json::doc::Doc;
use braid_values::json::packed::{self, Slot, Value};
use braid_values::json::path::{Path, eval};
use braid_values::json::print;
use braid_values::json::value::Json;

use super::{Document, Owned};
use crate::definition::VectorField;

fn matches(doc: Doc<'_>, path: &str) -> Vec<Slot> {
    let path = if path.starts_with(['$', '.']) { path.to_owned() } else { format!("$.{path}") };
    let parsed = Path::parse(path.as_bytes());
    parsed.ok().and_then(|path| eval::all(doc, &path).ok()).unwrap_or_default()
}

/// Reads a field's values.
///
/// # Errors
/// If a value is of a kind that the field cannot have.
pub fn read(
    json: &Json,
    field: &Field,
    id: FieldId,
    vector: Option<&VectorField>,
    document: &mut Document,
) -> Result<(), String> {
    let doc = json.doc();
    let found = matches(doc, &field.path);
    if let Some(vector) = vector {
        return read_vector(doc, &found, id, vector, document);
    }
    let is_list = |slot: Slot| matches!(packed::value(doc, slot), Value::Array(_) | Value::Typed(_));
    if let [only] = found[..]
        && is_list(only)
    {
        // A position may be an array of two texts; a list of texts, a tag each.
        return packed::items(doc, only).try_for_each(|item| push(doc, item, field, id, document));
    }
    found.into_iter().try_for_each(|slot| push(doc, slot, field, id, document))
}

fn push(doc: Doc<'_>, slot: Slot, field: &Field, id: FieldId, document: &mut Document) -> Result<(), String> {
    let value = match (packed::value(doc, slot), &field.kind) {
        (Value::Null, _) => return Ok(()),
        (Value::Str(text), Kind::Numeric) => {
            return Err(format!("Invalid numeric value: '{}'", String::from_utf8_lossy(text)));
        }
        (Value::Str(text), _) => Owned::Text(text.to_vec()),
        (Value::Num(number), _) => Owned::Number(number.as_f64()),
        (Value::Bool(value), _) => Owned::Bool(value),
        (Value::Object(_), _) => {
            return Err("Invalid JSON type: Object type is not supported".to_owned());
        }
        (Value::Array(_) | Value::Typed(_), _) => {
            return Err("Invalid JSON type: Array type should contain values of the field's type".to_owned());
        }
    };
    document.values.push((id, value));
    Ok(())
}

fn read_vector(
    doc: Doc<'_>,
    found: &[Slot],
    id: FieldId,
    vector: &VectorField,
    document: &mut Document,
) -> Result<(), String> {
    let &[slot] = found else {
        let several = || "Several vectors of one document are not supported".to_owned();
        return if found.is_empty() { Ok(()) } else { Err(several()) };
    };
    match packed::value(doc, slot) {
        Value::Null => return Ok(()),
        Value::Array(_) | Value::Typed(_) => {}
        _ => return Err("Invalid vector: an array of numbers is expected".to_owned()),
    }
    let mut numbers = Vec::with_capacity(vector.dimensions as usize);
    for item in packed::items(doc, slot) {
        match packed::value(doc, item) {
            Value::Num(number) => numbers.push(number.as_f64() as f32),
            _ => return Err("Invalid vector element: a number is expected".to_owned()),
        }
    }
    if numbers.len() != vector.dimensions as usize {
        return Err(format!(
            "Could not add vector with dimension {} (expected {})",
            numbers.len(),
            vector.dimensions
        ));
    }
    document.values.push((id, Owned::Bool(true)));
    document.vectors.push((id, numbers));
    Ok(())
}

/// One value as text: what a string contains, other values as JSON.
fn text_of(doc: Doc<'_>, slot: Slot) -> Vec<u8> {
    match packed::value(doc, slot) {
        Value::Str(text) => text.to_vec(),
        _ => {
            let mut out = Vec::new();
            print::compact(doc, slot, &mut out);
            out
        }
    }
}

/// The first match of a path as text.
pub fn one_text(json: &Json, path: &str) -> Option<Vec<u8>> {
    matches(json.doc(), path).first().map(|slot| text_of(json.doc(), *slot))
}

/// All matches of a path, as a JSON array (dialect 3).
pub fn all_text(json: &Json, path: &str) -> Option<Vec<u8>> {
    let doc = json.doc();
    let found = matches(doc, path);
    if found.is_empty() {
        return None;
    }
    let mut out = vec![b'['];
    for (nth, slot) in found.into_iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        print::compact(doc, slot, &mut out);
    }
    out.push(b']');
    Some(out)
}

/// The whole document.
pub fn compact(json: &Json) -> Vec<u8> {
    json.text()
}
