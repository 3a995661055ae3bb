// SPDX-License-Identifier: BSD-3-Clause
//! Time series, as in Redis Stack 7.4: samples in compressed chunks, labels, compaction rules.
//!
//! ```text
//! bits.rs      fields of bits in words
//! packed.rs    a compressed chunk           chunk.rs   chunks of both kinds
//! value.rs     a series: chunks, retention, duplicate policies
//! labels.rs    names and values of labels
//! fold.rs      aggregators                  buckets.rs ranges of samples and of buckets
//! links.rs     what a series has to do with other keys
//! rules.rs     what a change of a series does to the targets of its rules
//! index.rs     series by their labels
//! rdb.rs       the form in dump files       rewrite.rs a series as requests
//! ```

mod bits;
pub mod buckets;
mod chunk;
pub mod fold;
pub mod index;
pub mod labels;
pub mod links;
mod packed;
mod rdb;
mod rewrite;
pub mod rules;
pub mod value;

#[cfg(test)]
mod tests;

use std::io;

use braid_base::relocation::Mover;
use braid_keyspace::Type;
use braid_keyspace::object::{
    AccessFns, Collection, Descriptor, DigestSink, Object, ObjectType, RequestSink,
};

pub use value::Series;

/// A value at a time, in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sample {
    pub time: u64,
    pub value: f64,
}

/// The time series type's descriptor, with the name that Redis's module uses.
pub static DESCRIPTOR: Descriptor = Descriptor {
    number: Series::TYPE,
    name: "TSDB-TYPE",
    digest_number: 5,
    forms: &[],
    module: Some(rdb::ID),
    decode: rdb::decode,
    members: None,
    may_need_expiry_version: || false,
    is_refused_elsewhere: true,
    access: AccessFns::of::<Series>(),
};

impl ObjectType for Series {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const TYPE: Type = Type::new(17);
}

impl Collection for Series {
    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn memory_bytes(&self) -> usize {
        Series::memory_bytes(self)
    }

    fn release_effort(&self) -> usize {
        self.chunk_count() * 2
    }

    fn is_large(&self) -> bool {
        Series::is_large(self)
    }

    fn is_empty(&self) -> bool {
        // A series without samples is kept.
        false
    }

    fn duplicate(&self) -> Object {
        Object::new(self.without_links())
    }

    fn cow(&mut self) -> Object {
        // Chunks are shared until they change.
        Object::new(self.clone())
    }

    fn is_catalogued(&self) -> bool {
        true
    }

    fn linked_keys(&self, see: &mut dyn FnMut(&[u8])) {
        Series::linked_keys(self).for_each(see);
    }

    fn relink(&mut self, from: &[u8], to: &[u8]) {
        Series::relink(self, from, to);
    }

    fn rewrite(&self, name: &[u8], out: &mut dyn RequestSink) -> io::Result<()> {
        rewrite::rewrite(self, name, out)
    }

    fn digest(&self, out: &mut dyn DigestSink) {
        for (name, value) in self.labels().iter() {
            out.mix(name);
            out.mix(value);
        }
        for sample in self.samples(0, u64::MAX) {
            out.mix(&sample.time.to_le_bytes());
            out.mix(&sample.value.to_bits().to_le_bytes());
        }
    }

    fn relocate_blocks(&mut self, from: u64, mover: &mut Mover) -> Option<u64> {
        Series::relocate_blocks(self, from, mover)
    }
}
