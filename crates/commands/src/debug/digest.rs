// SPDX-License-Identifier: BSD-3-Clause
//! DEBUG DIGEST: one number for a whole data set, equal to that of any server that computes it the same way.
//!
//! A digest is 20 bytes. Bytes are put in by exclusive-or with their SHA-1, so that their order does not
//! matter; where it does, the result is hashed again. Stock servers of Redis 7 compute the same for the same
//! keys, values, databases and presence of expiries.

use braid_base::number::DoubleText;
use braid_containers::stream::StreamId;
use braid_keyspace::object::ObjectRef;
use braid_keyspace::{Entry, Type, ValueRef};
use sha1::{Digest as _, Sha1};

/// A digest under way.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct DataDigest([u8; 20]);

impl DataDigest {
    /// Puts bytes in, in no particular order with others.
    pub fn xor(&mut self, bytes: &[u8]) {
        for (to, from) in self.0.iter_mut().zip(Sha1::digest(bytes).as_slice()) {
            *to ^= from;
        }
    }

    /// Puts bytes in after all that was put in before.
    pub fn mix(&mut self, bytes: &[u8]) {
        self.xor(bytes);
        let digest = Sha1::digest(self.0);
        self.0.copy_from_slice(digest.as_slice());
    }

    /// Puts the value of an entry in, and whether it expires.
    pub fn value(&mut self, entry: Entry<'_>) {
        self.mix(&type_number(entry.value_type()).to_be_bytes());
        match entry.value() {
            ValueRef::Bytes(bytes) => self.mix(bytes),
            ValueRef::Blob(blob) => self.mix(blob),
            ValueRef::Integer(number) => self.mix(number.to_string().as_bytes()),
            ValueRef::Object(object) => self.collection(object),
        }
        if entry.has_expiry() {
            self.xor(b"!!expire!!");
        }
    }

    /// Puts the elements of a collection in, however they are kept. Those past their expiry count until they
    /// are removed.
    fn collection(&mut self, object: ObjectRef<'_>) {
        let mut text = itoa::Buffer::new();
        match object {
            ObjectRef::List(list) => {
                list.range(0, list.len(), |element| self.mix(element.text(&mut text)));
            }
            ObjectRef::Set(set) => {
                for (member, expiry) in set.iter_with_expiry() {
                    match expiry {
                        None => self.xor(member.text(&mut text)),
                        Some(_) => self.part(&[member.text(&mut text)], true),
                    }
                }
            }
            ObjectRef::SortedSet(set) => {
                let view = set.view(i64::MIN);
                for (member, score) in view.iter(0..view.len()) {
                    let member = member.text(&mut text);
                    let score = DoubleText::of_digits(score);
                    let expires = set.next_expiry().is_some() && view.expiry(member).flatten().is_some();
                    self.part(&[member, score.as_bytes()], expires);
                }
            }
            ObjectRef::Hash(hash) => {
                let mut value_text = itoa::Buffer::new();
                for (field, value, expiry) in hash.iter_with_expiry() {
                    self.part(&[field.text(&mut text), value.text(&mut value_text)], expiry.is_some());
                }
            }
            ObjectRef::Stream(stream) => {
                let mut value_text = itoa::Buffer::new();
                for entry in stream.log().range(StreamId::MIN, StreamId::MAX) {
                    self.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
                    for (field, value) in entry.fields {
                        self.mix(field.text(&mut text));
                        self.mix(value.text(&mut value_text));
                    }
                }
            }
        }
    }

    /// Puts one element of several parts in, which has no particular order with others.
    fn part(&mut self, texts: &[&[u8]], expires: bool) {
        let mut own = DataDigest::default();
        texts.iter().for_each(|text| own.mix(text));
        if expires {
            own.xor(b"!!expire!!");
        }
        self.xor(&own.0);
    }

    /// Puts a key with its value in.
    pub fn entry(&mut self, entry: Entry<'_>) {
        let mut own = DataDigest::default();
        own.mix(entry.key());
        own.value(entry);
        self.xor(&own.0);
    }

    /// As 40 hexadecimal digits.
    pub fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The number of a type in Redis; 5 stands for types of modules.
fn type_number(kind: Type) -> u32 {
    match kind {
        Type::String => 0,
        Type::List => 1,
        Type::Set => 2,
        Type::SortedSet => 3,
        Type::Hash => 4,
        Type::Stream => 6,
    }
}
