// SPDX-License-Identifier: BSD-3-Clause
//! Which commands a set of servers is sent: those that all of them know.

use super::servers::ServerKind;
use crate::families::FAMILIES;
use crate::family::Family;

/// Families of commands on data, as all servers know them from Redis 7.0 on.
pub const OF_DATA: [&str; 12] = [
    "strings",
    "bitmaps",
    "keys",
    "transactions",
    "lists",
    "hashes",
    "sets",
    "sorted_sets",
    "streams",
    "hyperloglog",
    "geo",
    "scripts",
];

/// What the servers of a set share.
#[derive(Clone)]
pub struct Commands {
    /// Families besides those of [`OF_DATA`].
    newer: &'static [&'static str],
    rdb_target: Option<&'static str>,
    has_stock: bool,
    /// Redis 8 and another stock server take part.
    splits_redis_8: bool,
    /// Valkey and another stock server take part.
    splits_valkey: bool,
}

impl Commands {
    /// What servers of these kinds share.
    pub fn of(kinds: &[ServerKind]) -> Commands {
        let mut stock: Vec<&str> =
            kinds.iter().filter(|kind| !kind.is_under_test).map(|kind| kind.name.as_str()).collect();
        stock.sort_unstable();
        stock.dedup();
        let none: &[&str] = &[];
        let (newer, rdb_target): (&[&str], _) = match stock[..] {
            [] => (&["newer-valkey", "newer-redis", "newer-streams", "hash-expiry-valkey"], None),
            [one] if one.starts_with("valkey 9") => (&["newer-valkey", "hash-expiry-valkey"], None),
            [one] if one.starts_with("redis 8") => (&["newer-redis", "hash-expiry"], Some("redis-8")),
            _ => (none, None),
        };
        let splits = |name: &str| stock.len() > 1 && stock.iter().any(|one| one.starts_with(name));
        let (splits_redis_8, splits_valkey) = (splits("redis 8"), splits("valkey"));
        Commands { newer, rdb_target, has_stock: !stock.is_empty(), splits_redis_8, splits_valkey }
    }

    /// Whom the servers under test write full syncs for, if that is to be said.
    pub fn rdb_target(&self) -> Option<&'static str> {
        self.rdb_target
    }

    /// Whether servers take part that do not replicate all that happens to a stream's groups.
    pub fn has_stock(&self) -> bool {
        self.has_stock
    }

    /// Whether all know fields with an expiry of their own.
    pub fn has_times_of_fields(&self) -> bool {
        !self.newer.is_empty()
    }

    pub fn families(&self) -> Vec<&'static Family> {
        let is_shared = |name: &str| OF_DATA.contains(&name) || self.newer.contains(&name);
        FAMILIES.iter().filter(|family| is_shared(family.name)).collect()
    }

    /// Not what ends the connection or its server, nor what means different things to different
    /// stock servers, and seldom what removes everything.
    pub fn allow(&self, line: &[Vec<u8>], random: &mut fastrand::Rng) -> bool {
        let name = line.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        match &name[..] {
            b"quit" | b"reset" | b"client" | b"hello" | b"subscribe" | b"monitor" | b"debug" | b"config"
            | b"shutdown" => false,
            b"flushall" | b"flushdb" => random.u32(..10) == 0,
            // Redis 8 replicates it as its own HSETEX.
            b"hincrbyfloat" => !self.splits_redis_8,
            // Valkey does not read hexadecimal scores.
            _ => !self.splits_valkey || !line.iter().any(|word| word.starts_with(b"0x")),
        }
    }
}
