// SPDX-License-Identifier: BSD-3-Clause
//! What a server has besides keys: function libraries, and definitions of search indexes. They are
//! keys in databases that no client can select. So the later change wins, a deletion removes only
//! what it saw, and they are part of states, copies and digests like all keys.
//!
//! A library's key has its name, and the value is its code. Two libraries that regions load
//! concurrently may define a function of the same name. Only a server that can run their code
//! detects this: it takes the latest library first and leaves out those that conflict with
//! libraries already taken. These stay hidden, like values of another type.
//!
//! A definition is the requests that make an index, an alias or a dictionary. FLUSHALL removes
//! definitions, as it does in the keyspace, and leaves libraries.

/// The database that holds libraries.
pub const LIBRARIES: u32 = u32::MAX;
/// The database that holds definitions.
pub const DEFINITIONS: u32 = u32::MAX - 1;

/// True for a database with clients' keys.
pub fn is_of_clients(database: u32) -> bool {
    database < DEFINITIONS
}

/// True if a flush covers `database`. `flushed` is the flushed database, or `None` for FLUSHALL.
pub fn flushes(flushed: Option<u32>, database: u32) -> bool {
    flushed.map_or(database != LIBRARIES, |flushed| flushed == database)
}

/// What effects touched that is in no clients' database.
#[derive(Clone, Copy, Default, Debug)]
pub struct Touches {
    pub libraries: bool,
    pub definitions: bool,
}

impl Touches {
    pub(crate) fn note(&mut self, database: u32) {
        self.libraries |= database == LIBRARIES;
        self.definitions |= database == DEFINITIONS;
    }
}
