// SPDX-License-Identifier: BSD-3-Clause
//! Vector sets, as in Redis 8: names with vectors, searched for the most similar ones.
//!
//! ```text
//! value.rs     the set: a graph of vectors (crate `vectors`) and the names of its numbers
//! filter/      expressions over the attributes of elements
//! columns/     members of attributes, for filters that are used often
//! rdb.rs       its own form in dump files
//! redis.rs     the form of Redis 8
//! rewrite.rs   a set as requests
//! ```

mod columns;
pub mod filter;
mod rdb;
mod redis;
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

pub use value::VectorSet;

/// The vector set type's descriptor.
pub static DESCRIPTOR: Descriptor = Descriptor {
    number: VectorSet::TYPE,
    name: "vectorset",
    digest_number: 5,
    forms: rdb::FORMS,
    module: Some(redis::ID),
    decode: rdb::decode,
    members: None,
    may_need_expiry_version: || false,
    is_refused_elsewhere: true,
    access: AccessFns::of::<VectorSet>(),
};

impl ObjectType for VectorSet {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const TYPE: Type = Type::new(9);
}

impl Collection for VectorSet {
    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_bytes(&self) -> usize {
        VectorSet::memory_bytes(self)
    }

    fn release_effort(&self) -> usize {
        self.block_count()
    }

    fn is_large(&self) -> bool {
        VectorSet::is_large(self)
    }

    fn is_empty(&self) -> bool {
        VectorSet::is_empty(self)
    }

    fn duplicate(&self) -> Object {
        Object::new(self.clone())
    }

    fn cow(&mut self) -> Object {
        Object::new(VectorSet::cow(self))
    }

    fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        VectorSet::relocate_blocks(self, from, mover)
    }

    fn rewrite(&self, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
        rewrite::rewrite(self, name, out)
    }

    /// Elements, attributes and vectors; not the links, which may differ after the vectors were
    /// added in another order.
    fn digest(&self, out: &mut dyn DigestSink) {
        for id in 0..self.len() as u32 {
            let (name, attribute) = self.name_and_attribute(id);
            let norm = self.graph().norm(id).to_bits().to_le_bytes();
            out.part(&[name, attribute.unwrap_or_default(), &self.graph().raw(id), &norm], false);
        }
    }
}
