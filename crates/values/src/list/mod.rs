// SPDX-License-Identifier: BSD-3-Clause
//! Lists: LPUSH and its relatives (`commands`).

mod rdb;
mod rewrite;
mod value;

use std::io;

use braid_base::relocation::Mover;
use braid_containers::listpack::Listpack;
use braid_keyspace::Type;
use braid_keyspace::object::{
    AccessFns, Collection, Descriptor, DigestSink, Object, ObjectType, RequestSink,
};

pub use value::*;

/// The list type's descriptor.
pub static DESCRIPTOR: Descriptor = Descriptor {
    number: List::TYPE,
    name: "list",
    digest_number: 1,
    forms: rdb::FORMS,
    module: None,
    decode: rdb::decode,
    members: None,
    may_need_expiry_version: || false,
    is_refused_elsewhere: false,
    access: AccessFns::of::<List>(),
};

impl ObjectType for List {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const TYPE: Type = Type::new(1);
}

impl Collection for List {
    fn encoding(&self) -> &'static str {
        List::encoding(self)
    }

    fn memory_bytes(&self) -> usize {
        List::memory_bytes(self)
    }

    fn release_effort(&self) -> usize {
        self.len() / 64
    }

    fn is_large(&self) -> bool {
        List::is_large(self)
    }

    fn is_empty(&self) -> bool {
        List::is_empty(self)
    }

    fn duplicate(&self) -> Object {
        Object::new(self.clone())
    }

    fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        List::relocate_blocks(self, from, mover)
    }

    fn cow(&mut self) -> Object {
        Object::new(List::cow(self))
    }

    fn rewrite(&self, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
        rewrite::rewrite(self, name, out)
    }

    fn digest(&self, out: &mut dyn DigestSink) {
        self.range(0, self.len(), |element| out.mix(element.text(&mut itoa::Buffer::new())));
    }

    fn as_packed_list(&self) -> Option<&Listpack> {
        self.as_listpack()
    }
}
