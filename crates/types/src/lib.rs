// SPDX-License-Identifier: BSD-3-Clause
//! Value types, one folder each.
//!
//! ```text
//! <type>/mod.rs       the descriptor: the type as the keyspace, files and generic commands see it
//! <type>/value/       the structure and its encodings
//! <type>/rdb.rs       its forms in dump files
//! <type>/rewrite.rs   its values as requests
//! <type>/commands/    its commands: rows and bodies
//! ```
//! A new type is one folder, its `mod` line and its line in [`TYPES`] (and one for an ACL category
//! of its own). No crate below this one knows any type but strings: those crates see
//! `braid_keyspace::object::Descriptor` and `Collection`, which the folders implement, and find
//! them in the table that [`register`] fills at startup. This crate is above `engine`, because
//! command bodies take its `Call`.
//!
//! `string`, `bitmap`, `hyperloglog` and `geo` have commands only: see their `mod.rs`. Code shared
//! by commands of several types is next to the folders: `collection` (counts, ranges, elements),
//! `scan_options`, `lifetime` (EX, PX ...), `member_expiry`, `decimal`.
//!
//! Tests here cover values and their forms; `tests/files/` saves and loads them with the crate
//! `persistence`. Commands are tested in the crate `commands` (`tests/types/`), which has all of
//! them.

pub mod active;
pub mod bitmap;
pub mod bloom;
pub mod collection;
pub mod decimal;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod json;
pub mod lifetime;
pub mod list;
pub mod member_expiry;
mod requests;
mod saved;
pub mod scan_options;
pub mod set;
pub mod sorted_set;
pub mod stream;
pub mod string;

use braid_executor::Row;
use braid_keyspace::object::Descriptor;

/// All types, each with its command families.
#[rustfmt::skip]
static TYPES: &[(&Descriptor, &[&[Row]])] = &[
    (&list::DESCRIPTOR, &[list::commands::COMMANDS]),
    (&set::DESCRIPTOR, &[set::commands::COMMANDS, set::commands::MEMBER_EXPIRY]),
    (&sorted_set::DESCRIPTOR, &[sorted_set::commands::COMMANDS, sorted_set::commands::MEMBER_EXPIRY]),
    (&hash::DESCRIPTOR, &[hash::commands::COMMANDS, hash::commands::MEMBER_EXPIRY]),
    (&stream::DESCRIPTOR, &[stream::commands::COMMANDS]),
    (&bloom::DESCRIPTOR, &[bloom::commands::COMMANDS]),
    (&json::DESCRIPTOR, &[json::commands::COMMANDS]),
];

/// Commands on strings, on other views of strings and sorted sets, and on several types.
#[rustfmt::skip]
static WITHOUT_DESCRIPTOR: &[&[Row]] = &[
    string::commands::COMMANDS,
    bitmap::commands::COMMANDS,
    hyperloglog::commands::COMMANDS,
    geo::commands::COMMANDS,
    member_expiry::COMMANDS,
];

/// Registers all types with the keyspace and the readers of dump files. Call it once at startup;
/// further calls do nothing.
pub fn register() {
    TYPES.iter().for_each(|(descriptor, _)| braid_keyspace::object::register(descriptor));
}

/// Command families whose values cannot be merged; active-active servers lack these commands.
pub fn unmergeable_families() -> impl Iterator<Item = &'static [Row]> {
    [bloom::commands::COMMANDS, json::commands::COMMANDS].into_iter()
}

/// The command families of the types' folders.
pub fn families() -> impl Iterator<Item = &'static [Row]> {
    TYPES.iter().flat_map(|(_, families)| *families).chain(WITHOUT_DESCRIPTOR).copied()
}
