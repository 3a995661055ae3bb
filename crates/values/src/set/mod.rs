// SPDX-License-Identifier: BSD-3-Clause
//! Sets of byte strings; members may expire.

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

/// The set type's descriptor.
pub static DESCRIPTOR: Descriptor = Descriptor {
    number: Set::TYPE,
    name: "set",
    digest_number: 2,
    forms: rdb::FORMS,
    module: None,
    decode: rdb::decode,
    members: Some(MemberWords {
        count: "MEMBERS",
        persist: "SPERSIST",
        remove: "SREM",
        expired: Event::set("sexpired"),
    }),
    may_need_expiry_version: || false,
    is_refused_elsewhere: false,
    access: AccessFns::of::<Set>(),
};

impl ObjectType for Set {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const TYPE: Type = Type::new(2);
}

impl Collection for Set {
    fn encoding(&self) -> &'static str {
        Set::encoding(self)
    }

    fn memory_bytes(&self) -> usize {
        Set::memory_bytes(self)
    }

    fn release_effort(&self) -> usize {
        self.len() / 16
    }

    fn is_large(&self) -> bool {
        Set::is_large(self)
    }

    fn is_empty(&self) -> bool {
        Set::is_empty(self)
    }

    fn duplicate(&self) -> Object {
        Object::new(self.clone())
    }

    fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        Set::relocate_blocks(self, from, mover)
    }

    fn cow(&mut self) -> Object {
        Object::new(Set::cow(self))
    }

    fn rewrite(&self, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
        rewrite::rewrite(self, name, out)
    }

    fn digest(&self, out: &mut dyn DigestSink) {
        let mut text = itoa::Buffer::new();
        for (member, expiry) in self.iter_with_expiry() {
            match expiry {
                None => out.xor(member.text(&mut text)),
                Some(_) => out.part(&[member.text(&mut text)], true),
            }
        }
    }

    fn next_expiry(&self) -> Option<i64> {
        Set::next_expiry(self)
    }

    fn remove_expired(&mut self, now: i64, most: usize) -> ExpiredMembers {
        let mut gone = ExpiredMembers::new();
        Set::remove_expired(self, now, most, |member: &[u8]| gone.push(member.into()));
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
}

impl Expiring for Set {}
