// SPDX-License-Identifier: BSD-3-Clause
//! Finds short strings that have not been written for a while, so that the server can hold the
//! keyspace's entries in place of copies ([`Replica::hold`](crate::Replica::hold)). Those that are
//! written often stay copies: a held string costs its next write more.
//!
//! A search visits all keys in pieces, while they change. It may miss strings that move meanwhile;
//! the next search finds them.

use braid_base::number::parse_i64;

use crate::Name;
use crate::keys::Keys;

/// Most buckets to visit, and strings to find, in one piece.
const BUCKETS: usize = 1 << 15;
const FOUND: usize = 1024;

/// A search in progress.
#[derive(Clone, Debug, Default)]
pub struct ColdSearch {
    /// Where to continue.
    database: u32,
    bucket: usize,
    /// It has visited all keys.
    pub is_done: bool,
    /// It has passed strings that were written too recently.
    pub has_left: bool,
}

impl ColdSearch {
    pub(crate) fn advance(&mut self, keys: &Keys, before_ms: u64) -> Vec<(u32, Name)> {
        let mut found = Vec::new();
        for _ in 0..BUCKETS {
            let Some((database, plain)) = keys.plain_from(self.database) else {
                self.is_done = true;
                break;
            };
            if self.database != database {
                (self.database, self.bucket) = (database, 0);
            }
            for (name, plain) in plain.packed_of(self.bucket).filter(|(_, plain)| !is_number(plain.value)) {
                match plain.stamp.unix_ms() < before_ms {
                    true => found.push((database, Name::from(name))),
                    false => self.has_left = true,
                }
            }
            self.bucket += 1;
            if self.bucket >= plain.buckets() {
                (self.database, self.bucket) = (database + 1, 0);
            }
            if found.len() >= FOUND {
                break;
            }
        }
        found
    }
}

/// True for strings that the keyspace keeps as numbers, and which cannot be held.
fn is_number(value: &[u8]) -> bool {
    parse_i64(value).is_some()
}
