// SPDX-License-Identifier: BSD-3-Clause
//! DEBUG DIGEST: a hash of the whole dataset, equal on all servers that compute it the same way.
//!
//! A digest is 20 bytes. The SHA-1 of each piece is combined by exclusive or, so order does not
//! matter; where order does matter, the result is hashed again. Stock servers of Redis 7 compute
//! the same digest from the same keys, values, databases and presence of expiries.

use braid_keyspace::object::DigestSink;
use braid_keyspace::{Entry, ValueRef};
use sha1::{Digest as _, Sha1};

/// A digest being computed.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct DataDigest([u8; 20]);

impl DataDigest {
    /// Adds an entry's value, and whether the entry expires.
    pub fn value(&mut self, entry: Entry<'_>) {
        let known = entry.value_type().descriptor();
        self.mix(&known.map_or(0, |known| known.digest_number).to_be_bytes());
        match entry.value() {
            ValueRef::Bytes(bytes) => self.mix(bytes),
            ValueRef::Blob(blob) => self.mix(blob),
            ValueRef::Integer(number) => self.mix(number.to_string().as_bytes()),
            ValueRef::Object(object) => object.collection().digest(self),
        }
        if entry.has_expiry() {
            self.xor(b"!!expire!!");
        }
    }

    /// Adds a key with its value.
    pub fn entry(&mut self, entry: Entry<'_>) {
        let mut own = DataDigest::default();
        own.mix(entry.key());
        own.value(entry);
        self.xor(&own.0);
    }

    /// The digest as 40 hexadecimal digits.
    pub fn hex(self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl DigestSink for DataDigest {
    fn xor(&mut self, bytes: &[u8]) {
        for (to, from) in self.0.iter_mut().zip(Sha1::digest(bytes).as_slice()) {
            *to ^= from;
        }
    }

    fn mix(&mut self, bytes: &[u8]) {
        self.xor(bytes);
        let digest = Sha1::digest(self.0);
        self.0.copy_from_slice(digest.as_slice());
    }

    fn part(&mut self, texts: &[&[u8]], expires: bool) {
        let mut own = DataDigest::default();
        texts.iter().for_each(|text| own.mix(text));
        if expires {
            own.xor(b"!!expire!!");
        }
        self.xor(&own.0);
    }
}
