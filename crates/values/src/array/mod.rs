// SPDX-License-Identifier: BSD-3-Clause
//! Arrays: ARSET and its relatives, as in Redis 8.8.
//!
//! ```text
//! value.rs     the array: texts at indexes, a cursor
//! chunk.rs     64 indexes that follow each other
//! rdb.rs       its form in dump files
//! rewrite.rs   an array as requests
//! ```

mod chunk;
mod rdb;
mod rewrite;
pub mod value;

#[cfg(test)]
mod tests;

use std::io;

use braid_base::relocation::Mover;
use braid_keyspace::Type;
use braid_keyspace::object::{
    AccessFns, Collection, Descriptor, DigestSink, Object, ObjectType, RequestSink,
};

pub use value::Array;

/// The array type's descriptor.
pub static DESCRIPTOR: Descriptor = Descriptor {
    number: Array::TYPE,
    name: "array",
    digest_number: 5,
    forms: rdb::FORMS,
    module: None,
    decode: rdb::decode,
    members: None,
    may_need_expiry_version: || false,
    is_refused_elsewhere: true,
    access: AccessFns::of::<Array>(),
};

impl ObjectType for Array {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const TYPE: Type = Type::new(15);
}

impl Collection for Array {
    fn encoding(&self) -> &'static str {
        "sliced-array"
    }

    fn memory_bytes(&self) -> usize {
        Array::memory_bytes(self)
    }

    fn release_effort(&self) -> usize {
        Array::release_effort(self)
    }

    fn is_large(&self) -> bool {
        Array::is_large(self)
    }

    fn is_empty(&self) -> bool {
        Array::is_empty(self)
    }

    fn duplicate(&self) -> Object {
        Object::new(self.clone())
    }

    fn cow(&mut self) -> Object {
        Object::new(self.clone())
    }

    fn rewrite(&self, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
        rewrite::rewrite(self, name, out)
    }

    fn digest(&self, out: &mut dyn DigestSink) {
        for (index, text) in self.iter() {
            out.part(&[&index.to_le_bytes(), text.bytes()], false);
        }
        out.mix(&self.cursor().to_le_bytes());
        out.mix(&self.ring().to_le_bytes());
    }

    fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        Array::relocate_blocks(self, from, mover)
    }
}
