// SPDX-License-Identifier: BSD-3-Clause
//! Whoever keeps a catalogue of values by their contents, such as series by their labels, is told
//! here of each value that comes to a key, under the lock of the key's shard (`links.rs`).

use std::any::Any;

use crate::object::ObjectRef;

/// Learns of values that are kept in catalogues ([`crate::object::Collection::is_catalogued`]).
pub trait Catalogue: Any + Send + Sync {
    /// A key has this value now. Its shard is held: this must not take a shard's lock. When a value
    /// goes, nothing is told.
    fn placed(&self, db: u32, key: &[u8], object: ObjectRef<'_>);

    /// The keys of a database, or of all, are others now. The world is stopped.
    fn replaced(&self, db: Option<u32>);
}
