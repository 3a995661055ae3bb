// SPDX-License-Identifier: BSD-3-Clause
//! Streams: a log of entries, and consumer groups.

mod rdb;
pub mod rewrite;
mod value;

use std::io;

use braid_base::relocation::Mover;
use braid_keyspace::Type;
use braid_keyspace::object::{
    AccessFns, Collection, Descriptor, DigestSink, Object, ObjectType, RequestSink,
};

pub use value::*;

/// The stream type's descriptor.
pub static DESCRIPTOR: Descriptor = Descriptor {
    number: Stream::TYPE,
    name: "stream",
    digest_number: 6,
    forms: rdb::FORMS,
    module: None,
    decode: rdb::decode,
    members: None,
    may_need_expiry_version: || false,
    is_refused_elsewhere: false,
    access: AccessFns::of::<Stream>(),
};

impl ObjectType for Stream {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const TYPE: Type = Type::new(5);
}

impl Collection for Stream {
    fn encoding(&self) -> &'static str {
        "stream"
    }

    fn memory_bytes(&self) -> usize {
        Stream::memory_bytes(self)
    }

    fn release_effort(&self) -> usize {
        effort(self)
    }

    fn is_large(&self) -> bool {
        Stream::is_large(self)
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn duplicate(&self) -> Object {
        Object::new(self.clone())
    }

    fn cow(&mut self) -> Object {
        Object::new(Stream::cow(self))
    }

    fn rewrite(&self, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
        rewrite::rewrite(self, name, out)
    }

    fn digest(&self, out: &mut dyn DigestSink) {
        let (mut text, mut value_text) = (itoa::Buffer::new(), itoa::Buffer::new());
        for entry in self.log().range(StreamId::MIN, StreamId::MAX) {
            out.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
            for (field, value) in entry.fields {
                out.mix(field.text(&mut text));
                out.mix(value.text(&mut value_text));
            }
        }
    }

    fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        Stream::relocate_blocks(self, from, mover)
    }
}

/// The approximate number of a stream's allocations: its blocks, and its groups' pending entries
/// (several of which share a tree node).
fn effort(stream: &Stream) -> usize {
    let pending: usize = stream.groups().iter().map(|(_, group)| group.pending_len()).sum();
    stream.log().block_count() + pending / 8
}
