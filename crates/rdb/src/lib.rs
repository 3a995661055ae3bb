// SPDX-License-Identifier: BSD-3-Clause
//! RDB: Redis's format for values, used by DUMP, RESTORE and dump files.
//!
//! ```text
//! payload:  type, body, version of the format (2 bytes), CRC-64 of all before it (8 bytes)
//! ```
//! A value is written in its in-memory encoding, with the types of Redis 7.2 ([`VERSION`]), so
//! that stock servers since that version can read it; `target.rs` serves other targets. The one
//! exception is a hash with expiring fields, which Redis 7.2 does not support: it is written in
//! the format of Valkey 9 ([`VERSION_FIELD_EXPIRY`]). Sets and sorted sets with expiring members,
//! which no other server has, use Braid's own types, which other servers reject. All types of all
//! versions that Redis 7.2 reads, back to version 1, can be read, and those of Valkey 9 and Redis
//! 8. KeyDB files are those of Redis 6 with additional notes (`file.rs`).
//!
//! Input is never trusted: lengths are checked against the remaining bytes before any allocation,
//! packed encodings are checked entry by entry, and duplicate members and empty collections are
//! rejected. (Stock servers can skip such checks by `sanitize-dump-payload`; here that would save
//! little, because loading visits every entry anyway.)
//!
//! This crate knows strings and the structure of the format; the types read and write their own
//! values (crate `types`, [`SavedObject`], [`ValueForm`]). It must not know keys, databases or
//! clocks.
#![forbid(unsafe_code)]

mod compression;
mod decode;
mod dump;
mod encode;
mod error;
mod file;
mod limits;
mod object;
mod rdb_type;
mod read;
mod skip;
mod source;
mod staged;
mod target;
mod write;
pub mod ziplist;
pub mod zipmap;

pub use decode::{Decoder, Length, Text, ValueDecoder};
pub use dump::{PayloadError, dump, open, seal};
pub use encode::{Encoder, ValueEncoder};
pub use error::{Error, Fault};
pub use file::{Access, FileReader, FileWriter, Record, Traits, encode_key};
pub use limits::Limits;
pub use object::SavedObject;
pub use rdb_type::{MODULE, Part, RdbType, ValueForm, register};
pub use source::{Bytes, Source, Stream};
pub use target::{Format, Target};
pub use write::{NO_TIME, ValueRef};

/// The version of the format that this server writes: that of Redis 7.2.
pub const VERSION: u16 = 11;
/// The version written for hashes with expiring fields: that of Valkey 9.
pub const VERSION_FIELD_EXPIRY: u16 = 80;
/// The version of Redis 7.0, and the one before it: that of KeyDB and of Redis 5 and 6.
const VERSION_REDIS_7_0: u16 = 10;
const VERSION_KEYDB: u16 = 9;
/// The newest Redis version that can be read: that of Redis 8.
pub const VERSION_REDIS_MAX: u16 = 12;

/// True for versions whose values can be read. No version between Redis's and Valkey's is known
/// to be in use.
pub const fn is_known_version(version: u16) -> bool {
    version <= VERSION_REDIS_MAX || version == VERSION_FIELD_EXPIRY
}
