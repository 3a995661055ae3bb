// SPDX-License-Identifier: BSD-3-Clause
//! Sorted sets: members with scores; members may expire.

mod rdb;
mod rewrite;
mod value;

use std::io;

use braid_base::number::DoubleText;
use braid_base::relocation::Mover;
use braid_containers::listpack::{Element, Listpack};
use braid_keyspace::object::{
    AccessFns, Collection, Descriptor, DigestSink, ExpiredMembers, Expiring, MemberWords, Object, ObjectType,
    RequestSink,
};
use braid_keyspace::{Event, Type};

pub use value::*;

/// The sorted set type's descriptor.
pub static DESCRIPTOR: Descriptor = Descriptor {
    number: SortedSet::TYPE,
    name: "zset",
    digest_number: 3,
    forms: rdb::FORMS,
    module: None,
    decode: rdb::decode,
    members: Some(MemberWords {
        count: "MEMBERS",
        persist: "ZPERSIST",
        remove: "ZREM",
        expired: Event::zset("zexpired"),
    }),
    may_need_expiry_version: || false,
    is_refused_elsewhere: false,
    access: AccessFns::of::<SortedSet>(),
};

impl ObjectType for SortedSet {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const TYPE: Type = Type::new(3);
}

impl Collection for SortedSet {
    fn encoding(&self) -> &'static str {
        SortedSet::encoding(self)
    }

    fn memory_bytes(&self) -> usize {
        SortedSet::memory_bytes(self)
    }

    fn release_effort(&self) -> usize {
        self.len()
    }

    fn is_large(&self) -> bool {
        SortedSet::is_large(self)
    }

    fn is_empty(&self) -> bool {
        SortedSet::is_empty(self)
    }

    fn duplicate(&self) -> Object {
        Object::new(self.clone())
    }

    fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        SortedSet::relocate_blocks(self, from, mover)
    }

    fn cow(&mut self) -> Object {
        Object::new(SortedSet::cow(self))
    }

    fn rewrite(&self, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
        rewrite::rewrite(self, name, out)
    }

    fn digest(&self, out: &mut dyn DigestSink) {
        let mut text = itoa::Buffer::new();
        let view = self.view(i64::MIN);
        for (member, score) in view.iter(0..view.len()) {
            let member = member.text(&mut text);
            let score = DoubleText::of_digits(score);
            let expires = SortedSet::next_expiry(self).is_some() && view.expiry(member).flatten().is_some();
            out.part(&[member, score.as_bytes()], expires);
        }
    }

    fn next_expiry(&self) -> Option<i64> {
        SortedSet::next_expiry(self)
    }

    fn remove_expired(&mut self, now: i64, most: usize) -> ExpiredMembers {
        let mut gone = ExpiredMembers::new();
        SortedSet::remove_expired(self, now, most, |member: Element<'_>, _| {
            gone.push(member.to_vec().into())
        });
        gone
    }

    fn set_member_expiry(&mut self, member: &[u8], at: i64, now: i64) {
        if at <= now {
            self.remove(member);
        } else if self.view(now).expiry(member).is_some() {
            self.set_expiry(member, Some(at));
        }
    }

    fn as_packed_list(&self) -> Option<&Listpack> {
        self.as_listpack()
    }

    fn table_segments(&self) -> Option<Vec<usize>> {
        self.segment_lens()
    }
}

impl Expiring for SortedSet {}
