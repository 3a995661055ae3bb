// SPDX-License-Identifier: BSD-3-Clause
//! Bloom filters: BF.ADD and its relatives, as in Redis 8.

pub mod chunks;
mod hash;
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

pub use value::Bloom;

/// The Bloom filter type's descriptor, with the name that Redis's module uses.
pub static DESCRIPTOR: Descriptor = Descriptor {
    number: Bloom::TYPE,
    name: "MBbloom--",
    digest_number: 5,
    forms: rdb::FORMS,
    module: Some(rdb::ID),
    decode: rdb::decode,
    members: None,
    may_need_expiry_version: || false,
    is_refused_elsewhere: true,
    access: AccessFns::of::<Bloom>(),
};

impl ObjectType for Bloom {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const TYPE: Type = Type::new(6);
}

impl Collection for Bloom {
    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_bytes(&self) -> usize {
        Bloom::memory_bytes(self)
    }

    fn release_effort(&self) -> usize {
        self.segment_count()
    }

    fn is_large(&self) -> bool {
        Bloom::is_large(self)
    }

    fn is_empty(&self) -> bool {
        // A filter without items is kept.
        false
    }

    fn duplicate(&self) -> Object {
        Object::new(self.clone())
    }

    fn cow(&mut self) -> Object {
        Object::new(Bloom::cow(self))
    }

    fn rewrite(&self, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
        rewrite::rewrite(self, name, out)
    }

    fn digest(&self, out: &mut dyn DigestSink) {
        out.mix(&chunks::header(self));
        self.layers().iter().flat_map(|layer| layer.segments()).for_each(|block| out.mix(block));
    }

    fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        Bloom::relocate_blocks(self, from, mover)
    }
}
