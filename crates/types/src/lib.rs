// SPDX-License-Identifier: BSD-3-Clause
//! The commands on values, a folder or file for each type: rows and bodies.
//!
//! The types themselves are in the crate `values`, in folders of the same names. A type's commands
//! need its line in [`FAMILIES`] (and one for an ACL category of its own). `string`, `bitmap`,
//! `hyperloglog` and `geo` have commands only; what they work on is built into the crates below, or
//! is another type's.
//!
//! Code shared by commands of several types is next to the folders: `collection` (counts, ranges,
//! elements), `scan_options`, `lifetime` (EX, PX ...), `member_expiry`, `decimal`.
//!
//! A body has the locks of the keys that its row names, and takes none. Commands are tested in the
//! crate `commands` (`tests/types/`), which has all of them.

#![forbid(unsafe_code)]

pub mod active;
pub mod array;
pub mod bitmap;
pub mod bloom;
pub mod collection;
pub mod count_min;
pub mod cuckoo;
pub mod decimal;
mod family;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod json;
pub mod lifetime;
pub mod list;
pub mod member_expiry;
pub mod scan_options;
pub mod set;
pub mod sorted_set;
pub mod stream;
pub mod string;
pub mod suggestions;
pub mod t_digest;
pub mod time_series;
pub mod top_k;
pub mod vector_set;

use braid_executor::Row;

/// The command families of all types, and those on several types.
#[rustfmt::skip]
static FAMILIES: &[&[Row]] = &[
    list::COMMANDS,
    set::COMMANDS, set::MEMBER_EXPIRY,
    sorted_set::COMMANDS, sorted_set::MEMBER_EXPIRY,
    hash::COMMANDS, hash::MEMBER_EXPIRY,
    stream::COMMANDS,
    bloom::COMMANDS,
    json::COMMANDS,
    vector_set::COMMANDS,
    suggestions::COMMANDS,
    count_min::COMMANDS,
    top_k::COMMANDS,
    cuckoo::COMMANDS,
    t_digest::COMMANDS,
    time_series::COMMANDS,
    array::COMMANDS,
    string::COMMANDS,
    bitmap::COMMANDS,
    hyperloglog::COMMANDS,
    geo::COMMANDS,
    member_expiry::COMMANDS,
];

/// Command families whose values cannot be merged; active-active servers lack these commands.
pub fn unmergeable_families() -> impl Iterator<Item = &'static [Row]> {
    #[rustfmt::skip]
    let families = [
        bloom::COMMANDS, count_min::COMMANDS, top_k::COMMANDS, cuckoo::COMMANDS, t_digest::COMMANDS,
        suggestions::COMMANDS, time_series::COMMANDS, array::COMMANDS,
    ];
    families.into_iter()
}

/// The command families of the types' folders.
pub fn families() -> impl Iterator<Item = &'static [Row]> {
    FAMILIES.iter().copied()
}
