// SPDX-License-Identifier: BSD-3-Clause
//! Top-k values: TOPK.ADD and its relatives, as in Redis Stack 7.4.

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

pub use value::TopK;

/// The type's descriptor, with the name that Redis's module uses.
pub static DESCRIPTOR: Descriptor = Descriptor {
    number: TopK::TYPE,
    name: "TopK-TYPE",
    digest_number: 5,
    forms: &[],
    module: Some(rdb::ID),
    decode: rdb::decode,
    members: None,
    may_need_expiry_version: || false,
    is_refused_elsewhere: true,
    access: AccessFns::of::<TopK>(),
};

impl ObjectType for TopK {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const TYPE: Type = Type::new(11);
}

impl Collection for TopK {
    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_bytes(&self) -> usize {
        TopK::memory_bytes(self)
    }

    fn release_effort(&self) -> usize {
        self.block_count()
    }

    fn is_large(&self) -> bool {
        self.block_count() > 128
    }

    fn is_empty(&self) -> bool {
        // A value without items is kept.
        false
    }

    fn duplicate(&self) -> Object {
        Object::new(self.clone())
    }

    fn cow(&mut self) -> Object {
        Object::new(TopK::cow(self))
    }

    fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        TopK::relocate_blocks(self, from, mover)
    }

    fn rewrite(&self, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
        rewrite::rewrite(self, name, out)
    }

    fn digest(&self, out: &mut dyn DigestSink) {
        let shape = self.shape();
        for number in [shape.k, shape.width, shape.depth, shape.decay.to_bits(), self.random()] {
            out.mix(&number.to_le_bytes());
        }
        self.pieces().for_each(|piece| out.mix(&piece));
        for kept in self.heap() {
            out.mix(kept.item.as_deref().unwrap_or_default());
            out.mix(&kept.count.to_le_bytes());
        }
    }
}
