// SPDX-License-Identifier: BSD-3-Clause
//! JSON documents, as in Redis Stack 7.4.
//!
//! ```text
//! packed.rs    the form of a document in memory, and how to read it
//! builder.rs   makes packed bytes       parse.rs    text to packed bytes
//! number.rs    numbers and arithmetic   print.rs    packed bytes to text
//! floats.rs    numbers of 16 bits
//! doc.rs       packed bytes in one block or in pieces, for readers
//! location.rs  the containers around an offset
//! rope.rs      the pieces of a large document
//! value.rs     a document in memory
//! edit.rs      changes at one place or many
//! path/        paths of both syntaxes
//! ```

pub mod builder;
pub mod doc;
pub mod edit;
pub mod floats;
pub mod location;
pub mod number;
pub mod packed;
pub mod parse;
pub mod path;
pub mod print;
mod rdb;
mod rewrite;
mod rope;
pub mod value;

#[cfg(test)]
mod tests;

use std::io;

use braid_base::relocation::Mover;
use braid_keyspace::Type;
use braid_keyspace::object::{
    AccessFns, Collection, Descriptor, DigestSink, Object, ObjectType, RequestSink,
};

use doc::Doc;
use packed::{Slot, Value};
pub use value::Json;

/// The JSON type's descriptor, with the name that Redis's module uses.
pub static DESCRIPTOR: Descriptor = Descriptor {
    number: Json::TYPE,
    name: "ReJSON-RL",
    digest_number: 5,
    forms: &[],
    module: Some(rdb::ID),
    decode: rdb::decode,
    members: None,
    may_need_expiry_version: || false,
    is_refused_elsewhere: true,
    access: AccessFns::of::<Json>(),
};

impl ObjectType for Json {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const TYPE: Type = Type::new(7);
    const INLINE: bool = true;
}

impl Collection for Json {
    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_bytes(&self) -> usize {
        Json::memory_bytes(self)
    }

    fn release_effort(&self) -> usize {
        self.block_count()
    }

    fn is_large(&self) -> bool {
        Json::is_large(self)
    }

    fn is_empty(&self) -> bool {
        // A document without members is kept.
        false
    }

    fn duplicate(&self) -> Object {
        Object::new(self.clone())
    }

    fn cow(&mut self) -> Object {
        Object::new(Json::cow(self))
    }

    fn rewrite(&self, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
        rewrite::rewrite(self, name, out)
    }

    fn digest(&self, out: &mut dyn DigestSink) {
        digest(self.doc(), Slot::whole(0), &mut Vec::new(), out);
    }

    fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        Json::relocate_blocks(self, from, mover)
    }
}

/// Adds a value to a digest, with the path to it: objects regardless of the order of their members.
fn digest(doc: Doc<'_>, slot: Slot, path: &mut Vec<u8>, out: &mut dyn DigestSink) {
    let Value::Object(object) = packed::value(doc, slot) else {
        let mut text = Vec::new();
        print::compact(doc, slot, &mut text);
        return out.part(&[path, &text], false);
    };
    out.part(&[path, b"{}"], false);
    let len = path.len();
    for (name, at) in packed::members(doc, object) {
        print::string(name, path);
        digest(doc, Slot::whole(at), path, out);
        path.truncate(len);
    }
}

/// Checks a text: that it can be packed and printed again, that paths of both syntaxes are found
/// in it and changed. For fuzzing.
#[doc(hidden)]
pub fn check(text: &str, path: &[u8]) {
    let Ok(bytes) = parse::parse(text) else { return };
    let (root, doc) = (packed::Slot::whole(0), doc::Doc::flat(&bytes));
    let mut printed = Vec::new();
    print::compact(doc, root, &mut printed);
    let again = parse::parse(std::str::from_utf8(&printed).expect("printed text is UTF-8"));
    let again = again.expect("a printed document is valid");
    assert!(packed::equal(doc, root, doc::Doc::flat(&again), root), "a document changed when printed");
    let Ok(path) = path::Path::parse(path) else { return };
    let slots = path::eval::all(doc, &path).expect("few visits");
    let mut document = Json::new(&bytes).expect("a small document");
    for &slot in slots.iter().take(8) {
        assert_eq!(location::follow(doc, &location::route(doc, slot)), Some(slot));
        let route = location::route(doc, slot);
        let mut changed = document.clone();
        edit::replace(&mut changed, slot, &parse::parse("[true,\"a\"]").expect("valid")).expect("small");
        changed.check();
        if !route.is_empty() {
            let mut changed = document.clone();
            edit::remove(&mut changed, slot).expect("smaller");
            changed.check();
        }
        if let Some(len) = packed::array_len(doc, slot) {
            let mut changed = document.clone();
            let value = parse::parse("{\"a\":-1}").expect("valid");
            edit::insert(&mut changed, slot, len / 2, &[value]).expect("small");
            changed.check();
            let slot = location::follow(changed.doc(), &route).expect("the array is where it was");
            edit::keep(&mut changed, slot, len / 3..len).expect("smaller");
            changed.check();
        }
    }
    document.check();
    if let Some(&slot) = slots.first() {
        edit::set_number(&mut document, slot, number::Num::Float(0.1)).expect("small");
        document.check();
    }
}
