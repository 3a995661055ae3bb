// SPDX-License-Identifier: BSD-3-Clause
//! Function libraries: keys of a database that no client can choose. The name is the library's, the
//! value a string, its code. So the later LOAD wins, a deletion removes what it saw, and libraries
//! are in states, copies and digests as all keys are.
//!
//! Two libraries that regions load at the same time may have a function of one name. Which those
//! are the server finds out that can run their code: it takes the latest library first, and leaves
//! out those that do not fit to what it has. These stay hidden, as values of another type do.

/// The database of libraries.
pub const LIBRARIES: u32 = u32::MAX;

/// Whether a flush of a database, or of all, is about one: FLUSHALL leaves libraries.
pub fn flushes(flushed: Option<u32>, database: u32) -> bool {
    flushed.map_or(database != LIBRARIES, |flushed| flushed == database)
}
