// SPDX-License-Identifier: BSD-3-Clause
//! Hashes: fields and values; fields may expire.

mod rdb;
mod rewrite;
mod value;

use std::io;

use braid_base::relocation::Mover;
use braid_containers::listpack::Listpack;
use braid_keyspace::object::{
    AccessFns, Collection, Descriptor, DigestSink, ExpiredMembers, Expiring, MemberWords, Object, ObjectType,
    RequestSink,
};
use braid_keyspace::{Event, Type};

pub use value::*;

/// The hash type's descriptor.
pub static DESCRIPTOR: Descriptor = Descriptor {
    number: Hash::TYPE,
    name: "hash",
    digest_number: 4,
    forms: rdb::FORMS,
    module: None,
    decode: rdb::decode,
    members: Some(MemberWords {
        count: "FIELDS",
        persist: "HPERSIST",
        remove: "HDEL",
        expired: Event::hash("hexpired"),
    }),
    may_need_expiry_version: value::ever_expires,
    is_refused_elsewhere: false,
    access: AccessFns::of::<Hash>(),
};

impl ObjectType for Hash {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const TYPE: Type = Type::new(4);
    const INLINE: bool = true;
}

impl Collection for Hash {
    fn encoding(&self) -> &'static str {
        Hash::encoding(self)
    }

    fn memory_bytes(&self) -> usize {
        Hash::memory_bytes(self)
    }

    fn release_effort(&self) -> usize {
        self.len() / 16
    }

    fn is_large(&self) -> bool {
        Hash::is_large(self)
    }

    fn is_empty(&self) -> bool {
        Hash::is_empty(self)
    }

    fn duplicate(&self) -> Object {
        Object::new(self.clone())
    }

    fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        Hash::relocate_blocks(self, from, mover)
    }

    fn cow(&mut self) -> Object {
        Object::new(Hash::cow(self))
    }

    fn rewrite(&self, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
        rewrite::rewrite(self, name, out)
    }

    fn digest(&self, out: &mut dyn DigestSink) {
        let (mut text, mut value_text) = (itoa::Buffer::new(), itoa::Buffer::new());
        for (field, value, expiry) in self.iter_with_expiry() {
            out.part(&[field.text(&mut text), value.text(&mut value_text)], expiry.is_some());
        }
    }

    fn next_expiry(&self) -> Option<i64> {
        Hash::next_expiry(self)
    }

    fn remove_expired(&mut self, now: i64, most: usize) -> ExpiredMembers {
        let mut gone = ExpiredMembers::new();
        Hash::remove_expired(self, now, most, |field: &[u8]| gone.push(field.into()));
        gone
    }

    fn set_member_expiry(&mut self, member: &[u8], at: i64, now: i64) {
        if at <= now {
            self.remove(member, now);
        } else if self.expiry(member, now).is_some() {
            self.set_expiry(member, Some(at), now);
        }
    }

    fn as_packed_list(&self) -> Option<&Listpack> {
        self.as_listpack()
    }

    fn table_segments(&self) -> Option<Vec<usize>> {
        self.segment_lens()
    }

    fn needs_expiry_version(&self) -> bool {
        self.expiring_len() > 0
    }
}

impl Expiring for Hash {}
