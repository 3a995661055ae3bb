// SPDX-License-Identifier: BSD-3-Clause
//! Cuckoo filters: CF.ADD and its relatives, as in Redis Stack 7.4.

pub mod chunks;
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

pub use value::Cuckoo;

/// The type's descriptor, with the name that Redis's module uses.
pub static DESCRIPTOR: Descriptor = Descriptor {
    number: Cuckoo::TYPE,
    name: "MBbloomCF",
    digest_number: 5,
    forms: &[],
    module: Some(rdb::ID),
    decode: rdb::decode,
    members: None,
    may_need_expiry_version: || false,
    is_refused_elsewhere: true,
    access: AccessFns::of::<Cuckoo>(),
};

impl ObjectType for Cuckoo {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const TYPE: Type = Type::new(12);
}

impl Collection for Cuckoo {
    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_bytes(&self) -> usize {
        Cuckoo::memory_bytes(self)
    }

    fn release_effort(&self) -> usize {
        self.block_count()
    }

    fn is_large(&self) -> bool {
        self.block_count() > 128
    }

    fn is_empty(&self) -> bool {
        // A filter without items is kept.
        false
    }

    fn duplicate(&self) -> Object {
        Object::new(self.clone())
    }

    fn cow(&mut self) -> Object {
        Object::new(Cuckoo::cow(self))
    }

    fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        Cuckoo::relocate_blocks(self, from, mover)
    }

    fn rewrite(&self, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
        rewrite::rewrite(self, name, out)
    }

    fn digest(&self, out: &mut dyn DigestSink) {
        out.mix(&chunks::header(self));
        (0..self.layer_count()).for_each(|index| self.layer(index).2.for_each(|piece| out.mix(&piece)));
    }
}
