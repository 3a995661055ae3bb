// SPDX-License-Identifier: BSD-3-Clause
//! Function libraries: keys in a database that no client can select. The key name is the library's
//! name and the value is its code, a string. Therefore the later LOAD wins, a deletion removes only
//! what it saw, and libraries are part of states, copies and digests like all keys.
//!
//! Two libraries that regions load concurrently may define a function of the same name. Only a
//! server that can run their code detects this: it takes the latest library first and leaves out
//! those that conflict with libraries already taken. These stay hidden, like values of another
//! type.

/// The database that holds libraries.
pub const LIBRARIES: u32 = u32::MAX;

/// True if a flush covers `database`. `flushed` is the flushed database, or `None` for FLUSHALL,
/// which leaves libraries.
pub fn flushes(flushed: Option<u32>, database: u32) -> bool {
    flushed.map_or(database != LIBRARIES, |flushed| flushed == database)
}
