// SPDX-License-Identifier: BSD-3-Clause
//! The list of command families: one file each in the folder `families`, and one line here.
//! [`ENABLED`] switches families on.

mod absent;
pub mod access;
mod bitmaps;
mod blocking;
mod connection;
mod geo;
mod hashes;
mod hyperloglog;
mod introspection;
mod keys;
mod lists;
mod newer;
pub mod scripts;
mod sets;
mod sorted_sets;
mod streams;
mod strings;
mod transactions;

use crate::family::Family;

/// All families.
pub const FAMILIES: &[Family] = &[
    strings::FAMILY,
    bitmaps::FAMILY,
    keys::FAMILY,
    transactions::FAMILY,
    connection::FAMILY,
    introspection::FAMILY,
    lists::FAMILY,
    hashes::FAMILY,
    sets::FAMILY,
    sorted_sets::FAMILY,
    streams::FAMILY,
    hyperloglog::FAMILY,
    geo::FAMILY,
    blocking::FAMILY,
    absent::FAMILY,
    scripts::FAMILY,
    access::FAMILY,
    newer::VALKEY,
    newer::REDIS,
    newer::STREAMS,
    newer::HASH_EXPIRY,
    newer::HASH_EXPIRY_VALKEY,
];

/// The families that Braid supports. The others follow with their types; `BRAID_FAMILIES` (names
/// separated by commas, or `all`) overrides this list. A stock server under test gets all
/// families.
///
/// `hash-expiry` and `hash-expiry-valkey` are the same commands against two peers that disagree
/// on some replies: at most one of them can be enabled.
pub const ENABLED: &[&str] = &[
    "strings",
    "bitmaps",
    "keys",
    "transactions",
    "connection",
    "introspection",
    "lists",
    "hashes",
    "sets",
    "sorted_sets",
    "streams",
    "hyperloglog",
    "geo",
    "blocking",
    "access",
    "newer-valkey",
    "newer-redis",
    "hash-expiry-valkey",
];

/// Families of collections, which are also compared with newer peers.
pub const TYPES: &[&str] = &["lists", "hashes", "sets", "sorted_sets", "streams", "hyperloglog", "geo"];

/// The families selected for this run.
pub fn enabled() -> Vec<&'static Family> {
    let chosen = match std::env::var("BRAID_FAMILIES") {
        Ok(names) => names.split(',').map(|name| name.trim().to_owned()).collect(),
        Err(_) if !braid_tests::server::is_braid() => vec!["all".to_owned()],
        Err(_) => ENABLED.iter().map(|&name| name.to_owned()).collect::<Vec<String>>(),
    };
    for name in &chosen {
        let known = name == "all" || FAMILIES.iter().any(|family| family.name == name);
        assert!(known, "no family is named {name}");
    }
    FAMILIES.iter().filter(|family| chosen.iter().any(|name| name == "all" || name == family.name)).collect()
}
