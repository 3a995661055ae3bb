// SPDX-License-Identifier: BSD-3-Clause
//! The value details that active-active replication needs: the HyperLogLog register that PFADD
//! sets for an element, the parts of JSON documents and vector sets, and the names and code of
//! function libraries.

use braid_active::Parts;
use braid_active::change::Kind;
use braid_active::document::{OBJECT, push_member};
use braid_active::translate::Values;
use braid_active::vector_set::{self, Element};
use braid_active::view::View;
use braid_active::{Bytes, Name};
use braid_containers::hyperloglog;
use braid_keyspace::Value;
use braid_keyspace::object::ObjectType;
use braid_scripting::function_libraries::{codes_of, name_of};
use braid_values::json::doc::Doc;
use braid_values::json::packed::{self, Slot};
use braid_values::json::path::{Path, Selector};
use braid_values::json::{Json, parse, print};
use braid_values::vector_set::VectorSet;
use braid_vectors::{Codec, Metric, Quantisation, Shape};

/// [`Values`] for the types of this crate.
pub struct ActiveValues;

impl Values for ActiveValues {
    fn decode(&self, payload: &[u8]) -> Option<View> {
        let mut decoder = braid_rdb::open(payload, true).ok()?;
        let kind = decoder.kind().ok()?;
        let mut forms = VectorSet::DESCRIPTOR.forms.iter().copied().chain([&braid_rdb::MODULE]);
        if !forms.any(|form| form.number == kind.number()) {
            return None;
        }
        let limits = braid_rdb::Limits::default();
        let value = braid_persistence::read_value(&mut decoder, kind, &limits, i64::MIN).ok()?;
        let Value::Object(object) = value else { return None };
        if let Some(set) = object.as_ref().get::<VectorSet>() {
            return Some(View::Parts(Kind::VectorSet, elements(set)?));
        }
        let document = object.as_ref().get::<Json>()?;
        Some(View::Parts(Kind::Json, members(document.doc())))
    }

    fn document(&self, text: &[u8]) -> Option<Parts> {
        let bytes = parse::parse(std::str::from_utf8(text).ok()?).ok()?;
        Some(members(Doc::flat(&bytes)))
    }

    fn document_text(&self, text: &[u8]) -> Option<Bytes> {
        let bytes = parse::parse(std::str::from_utf8(text).ok()?).ok()?;
        let mut out = Vec::new();
        print::compact(Doc::flat(&bytes), Slot::whole(0), &mut out);
        Some(out.into())
    }

    fn document_part(&self, path: &[u8]) -> Option<Bytes> {
        let mut part = Vec::new();
        for step in Path::parse(path).ok()?.steps {
            match step.selector {
                Selector::Name(name) if !step.descends => push_member(&mut part, &name),
                _ => return None,
            }
        }
        Some(part.into())
    }

    fn vector(&self, quantisation: vector_set::Quantisation, vector: &[u8]) -> Vec<u8> {
        let (components, _) = vector.as_chunks::<4>();
        let components: Vec<f32> = components.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        let quantisation = match quantisation {
            vector_set::Quantisation::None => Quantisation::F32,
            vector_set::Quantisation::Integer => Quantisation::I8,
            vector_set::Quantisation::Binary => Quantisation::Bin,
        };
        // A set has at most 65,536 dimensions, and clients' vectors as many as the set.
        let shape = Shape { metric: Metric::Cosine, quantisation, dim: components.len() as u32, links: 2 };
        bytes_of(&Codec::new(shape).stored(&components))
    }

    fn register(&self, element: &[u8]) -> (u16, u8) {
        let (register, rank) = hyperloglog::place_of(element);
        // There are 2^14 registers.
        (register as u16, rank)
    }

    fn library_name(&self, code: &[u8]) -> Option<Name> {
        name_of(code).ok().map(Name::from)
    }

    fn libraries(&self, payload: &[u8]) -> Option<Vec<Bytes>> {
        codes_of(payload).ok()
    }
}

fn bytes_of(vector: &[f32]) -> Vec<u8> {
    vector.iter().flat_map(|component| component.to_le_bytes()).collect()
}

/// The elements of a set as parts; `None` for one with a projection, which is not known elsewhere.
fn elements(set: &VectorSet) -> Option<Parts> {
    let shape = set.graph().shape();
    if set.projection().is_some() {
        return None;
    }
    let quantisation = match shape.quantisation {
        Quantisation::F32 => vector_set::Quantisation::None,
        Quantisation::I8 => vector_set::Quantisation::Integer,
        Quantisation::Bin => vector_set::Quantisation::Binary,
    };
    let shape_of_parts = vector_set::Shape { quantisation, dimension: shape.dim };
    // A set has at most 4,096 links an element.
    let links = u16::try_from(shape.links).unwrap_or(u16::MAX);
    let numbers = 0..u32::try_from(set.len()).ok()?;
    let mut all: Parts = numbers
        .map(|number| {
            let (name, attribute) = set.name_and_attribute(number);
            let vector = bytes_of(&set.graph().vector(number));
            let attribute = attribute.unwrap_or_default();
            let element = Element { name, links, vector: &vector, attribute };
            (shape_of_parts.part(name), element.value())
        })
        .collect();
    all.sort_unstable();
    Some(vector_set::visible(all.into_iter()))
}

/// A document as parts.
fn members(doc: Doc<'_>) -> Parts {
    let mut parts = Parts::new();
    push_parts(doc, Slot::whole(0), &mut Vec::new(), &mut parts);
    parts.sort_unstable();
    parts
}

/// Adds the value at a place, and what is inside it if it is an object.
fn push_parts(doc: Doc<'_>, slot: Slot, name: &mut Vec<u8>, parts: &mut Parts) {
    if let packed::Value::Object(object) = packed::value(doc, slot) {
        parts.push((name[..].into(), OBJECT.into()));
        let len = name.len();
        for (member, at) in packed::members(doc, object) {
            push_member(name, member);
            push_parts(doc, Slot::whole(at), name, parts);
            name.truncate(len);
        }
        return;
    }
    let mut text = Vec::new();
    print::compact(doc, slot, &mut text);
    parts.push((name[..].into(), text.into()));
}
