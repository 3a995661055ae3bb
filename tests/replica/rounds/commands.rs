// SPDX-License-Identifier: BSD-3-Clause
//! The commands sent to a set of servers: those that all of them support.

use super::servers::ServerKind;
use crate::families::FAMILIES;
use crate::family::Family;

/// Families of commands on data, supported by all servers since Redis 7.0.
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

/// The common features of a set's servers.
#[derive(Clone)]
pub struct Commands {
    /// Families in addition to [`OF_DATA`].
    newer: &'static [&'static str],
    rdb_target: Option<&'static str>,
    has_stock: bool,
    /// True if Redis 8 and another stock server take part.
    splits_redis_8: bool,
    /// True if Valkey and another stock server take part.
    splits_valkey: bool,
}

impl Commands {
    /// The common features of servers of these kinds.
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

    /// The `rdb-target` of servers under test, if it must be set.
    pub fn rdb_target(&self) -> Option<&'static str> {
        self.rdb_target
    }

    /// True if some servers do not replicate all state of a stream's groups.
    pub fn has_stock(&self) -> bool {
        self.has_stock
    }

    /// True if all servers support expiring fields.
    pub fn has_times_of_fields(&self) -> bool {
        !self.newer.is_empty()
    }

    pub fn families(&self) -> Vec<&'static Family> {
        let is_shared = |name: &str| OF_DATA.contains(&name) || self.newer.contains(&name);
        FAMILIES.iter().filter(|family| is_shared(family.name)).collect()
    }

    /// Rejects commands that end the connection or the server and commands that stock servers
    /// interpret differently, and most commands that delete everything.
    pub fn allow(&self, line: &[Vec<u8>], random: &mut fastrand::Rng) -> bool {
        let name = line.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        match &name[..] {
            b"quit" | b"reset" | b"client" | b"hello" | b"subscribe" | b"monitor" | b"debug" | b"config"
            | b"shutdown" => false,
            b"flushall" | b"flushdb" => random.u32(..10) == 0,
            // Redis 8 replicates it as its own HSETEX.
            b"hincrbyfloat" => !self.splits_redis_8,
            // Valkey does not parse hexadecimal scores.
            _ => !self.splits_valkey || !line.iter().any(|word| word.starts_with(b"0x")),
        }
    }
}
