// SPDX-License-Identifier: BSD-3-Clause
//! T-digests: TDIGEST.ADD and its relatives, as in Redis Stack 7.4.

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

pub use value::TDigest;

/// The type's descriptor, with the name that Redis's module uses.
pub static DESCRIPTOR: Descriptor = Descriptor {
    number: TDigest::TYPE,
    name: "TDIS-TYPE",
    digest_number: 5,
    forms: rdb::FORMS,
    module: Some(rdb::ID),
    decode: rdb::decode,
    members: None,
    may_need_expiry_version: || false,
    is_refused_elsewhere: true,
    access: AccessFns::of::<TDigest>(),
};

impl ObjectType for TDigest {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const TYPE: Type = Type::new(13);
}

impl Collection for TDigest {
    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_bytes(&self) -> usize {
        TDigest::memory_bytes(self)
    }

    fn release_effort(&self) -> usize {
        1
    }

    fn is_large(&self) -> bool {
        self.merged().len() + self.waiting().len() > 16_384
    }

    fn is_empty(&self) -> bool {
        // A digest without numbers is kept.
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
        out.mix(&rdb::own_bytes(self));
    }

    fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        TDigest::relocate_blocks(self, from, mover)
    }
}
