//! DEBUG DIGEST: one number for a whole data set, equal to that of any server that computes it the same way.
//!
//! A digest is 20 bytes. Bytes are put in by exclusive-or with their SHA-1, so that their order does not
//! matter; where it does, the result is hashed again. Stock servers of Redis 7 compute the same for the same
//! keys, values, databases and presence of expiries.

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
            // Collections put their elements in here when they arrive.
            ValueRef::Object(_) => {}
        }
        if entry.has_expiry() {
            self.xor(b"!!expire!!");
        }
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
