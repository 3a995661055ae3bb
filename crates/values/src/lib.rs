// SPDX-License-Identifier: BSD-3-Clause
//! Types of values, one folder each: structures, dump forms, rewrites, digests.
//!
//! ```text
//! <type>/mod.rs       the descriptor: the type as the keyspace, files and generic commands see it
//! <type>/value/       the structure and its encodings
//! <type>/rdb.rs       its forms in dump files
//! <type>/rewrite.rs   its values as requests
//! ```
//! A new type is one folder, its `mod` line and its line in [`DESCRIPTORS`]; its commands are a
//! folder of the same name in the crate `types`. Crates below this one know no type but strings:
//! they see `braid_keyspace::object::Descriptor` and `Collection`, which the folders implement, and
//! find them in the table that [`register`] fills at startup.
//!
//! A value knows no session, no configuration and no command; limits of its encodings are
//! arguments. `tests/files/` saves and loads all types with the crate `persistence`.

pub mod array;
pub mod bloom;
mod cells;
pub mod count_min;
pub mod cuckoo;
pub mod hash;
pub mod json;
pub mod list;
mod module_fields;
mod murmur;
mod requests;
mod saved;
pub mod set;
pub mod sorted_set;
pub mod stream;
pub mod suggestions;
pub mod t_digest;
pub mod time_series;
pub mod top_k;
pub mod vector_set;

use braid_keyspace::object::Descriptor;

/// All types but strings.
#[rustfmt::skip]
static DESCRIPTORS: &[&Descriptor] = &[
    &list::DESCRIPTOR,
    &set::DESCRIPTOR,
    &sorted_set::DESCRIPTOR,
    &hash::DESCRIPTOR,
    &stream::DESCRIPTOR,
    &bloom::DESCRIPTOR,
    &json::DESCRIPTOR,
    &vector_set::DESCRIPTOR,
    &suggestions::DESCRIPTOR,
    &count_min::DESCRIPTOR,
    &top_k::DESCRIPTOR,
    &cuckoo::DESCRIPTOR,
    &t_digest::DESCRIPTOR,
    &time_series::DESCRIPTOR,
    &array::DESCRIPTOR,
];

/// Registers all types with the keyspace and the readers of dump files. Call it once at startup;
/// further calls do nothing.
pub fn register() {
    DESCRIPTORS.iter().for_each(|descriptor| braid_keyspace::object::register(descriptor));
}
