// SPDX-License-Identifier: BSD-3-Clause
//! Count-min sketches: CMS.INCRBY and its relatives, as in Redis 8.12.

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

pub use value::CountMin;

/// The type's descriptor, with the name that Redis's module uses.
pub static DESCRIPTOR: Descriptor = Descriptor {
    number: CountMin::TYPE,
    name: "CMSk-TYPE",
    digest_number: 5,
    forms: rdb::FORMS,
    module: Some(rdb::ID),
    decode: rdb::decode,
    members: None,
    may_need_expiry_version: || false,
    is_refused_elsewhere: true,
    access: AccessFns::of::<CountMin>(),
};

impl ObjectType for CountMin {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const TYPE: Type = Type::new(14);
}

impl Collection for CountMin {
    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_bytes(&self) -> usize {
        CountMin::memory_bytes(self)
    }

    fn release_effort(&self) -> usize {
        self.block_count()
    }

    fn is_large(&self) -> bool {
        self.block_count() > 128
    }

    fn is_empty(&self) -> bool {
        // A sketch that has counted nothing is kept.
        false
    }

    fn duplicate(&self) -> Object {
        Object::new(self.clone())
    }

    fn cow(&mut self) -> Object {
        Object::new(CountMin::cow(self))
    }

    fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        CountMin::relocate_blocks(self, from, mover)
    }

    fn rewrite(&self, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
        rewrite::rewrite(self, name, out)
    }

    fn digest(&self, out: &mut dyn DigestSink) {
        let shape = self.shape();
        for number in [shape.width, shape.depth, shape.cell.into(), self.total() as u64] {
            out.mix(&number.to_le_bytes());
        }
        self.pieces().for_each(|piece| out.mix(&piece));
    }
}
