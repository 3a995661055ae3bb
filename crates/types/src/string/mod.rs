// SPDX-License-Identifier: BSD-3-Clause
//! String commands. GET and SET need static dispatch, so the rest of the type has no descriptor
//! but is built into the crates below:
//!
//! ```text
//! keyspace/entry.rs                encodings: integer, embedded in the entry, blob
//! keyspace/txn/{read,set}.rs       reading, setting and editing under the key's lock
//! rdb/write.rs, rdb/read.rs        its form in dump files (between both: persistence/value.rs)
//! persistence/aof/requests.rs      its value as a request
//! commands/debug/digest.rs         its part of DEBUG DIGEST
//! ```

pub mod commands;
