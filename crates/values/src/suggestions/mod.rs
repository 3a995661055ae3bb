// SPDX-License-Identifier: BSD-3-Clause
//! Texts that are suggested while one is typed: FT.SUGADD and its relatives, as in Redis Stack.

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

pub use value::Suggestions;

/// The type's descriptor, with the name that Redis's module uses.
pub static DESCRIPTOR: Descriptor = Descriptor {
    number: Suggestions::TYPE,
    name: "trietype0",
    digest_number: 5,
    forms: &[],
    module: Some(rdb::ID),
    decode: rdb::decode,
    members: None,
    may_need_expiry_version: || false,
    is_refused_elsewhere: true,
    access: AccessFns::of::<Suggestions>(),
};

impl ObjectType for Suggestions {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const TYPE: Type = Type::new(10);
}

impl Collection for Suggestions {
    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_bytes(&self) -> usize {
        Suggestions::memory_bytes(self)
    }

    fn release_effort(&self) -> usize {
        // Two allocations a text, about.
        self.chunk_count() + 2 * self.len()
    }

    fn is_large(&self) -> bool {
        Suggestions::is_large(self)
    }

    fn is_empty(&self) -> bool {
        // A key whose last text is removed stays.
        false
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
        for entry in self.iter() {
            let payload = entry.payload.as_deref().unwrap_or_default();
            out.part(&[entry.text.as_bytes(), &entry.score.to_le_bytes(), payload], false);
        }
    }

    fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        Suggestions::relocate_blocks(self, from, mover)
    }
}
