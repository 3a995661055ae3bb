// SPDX-License-Identifier: BSD-3-Clause
//! The binary format of units: an encoder, and a decoder for untrusted bytes.
//!
//! A version, then numbers as varints, texts after their length, and the stamps that the unit saw
//! as differences from its own. Decoding is strict: bytes that this version would not have
//! written are refused with a reason, nothing is allocated that the bytes cannot fill, and
//! nothing panics.

mod reader;
mod writer;

use crate::Stamp;
use crate::change::UnitWrite;
use crate::effect::{Head, Unit, Write};
use crate::keys::Hashed;

/// The version of nearly all units.
pub const VERSION: u8 = 1;
/// The version of units with effects that had [seen less](crate::effect::SeenLess). Servers that
/// do not know it refuse such a unit.
const VERSION_SEEN_LESS: u8 = 2;
/// The latest version that is read.
pub const VERSION_MAX: u8 = VERSION_SEEN_LESS;
/// The maximum number of steps in a list element's place.
const STEPS_MAX: usize = 10_000;

/// Reasons for refusing bytes as a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("the unit has version {0}, this server supports {VERSION_MAX}")]
    Version(u8),
    #[error("the unit is truncated")]
    Short,
    #[error("{0} bytes follow the unit")]
    Trailing(usize),
    #[error("the unit is damaged: {0}")]
    Damaged(&'static str),
}

pub fn encode(unit: &Unit) -> Vec<u8> {
    let mut out = Vec::new();
    encode_into(unit, &mut out);
    out
}

/// Appends the bytes of a unit to `out`.
pub fn encode_into(unit: &Unit, out: &mut Vec<u8>) {
    writer::encode(unit, out);
}

/// # Errors
/// If the bytes end early, have another version, are damaged, or more bytes follow the unit.
pub fn decode(bytes: &[u8]) -> Result<Unit, DecodeError> {
    reader::decode(bytes)
}

/// The first stamp of a unit. The rest is not decoded.
///
/// # Errors
/// If the bytes end within the stamps, or have another version.
pub fn first(bytes: &[u8]) -> Result<Stamp, DecodeError> {
    reader::first(bytes)
}

/// Appends the bytes of a unit that is a plain write. `head.seen` may include the unit's own run,
/// which starts at `run` and is left out.
pub(crate) fn write_write(
    head: &Head<'_>,
    run: Stamp,
    key: Hashed<'_>,
    written: UnitWrite<'_>,
    out: &mut Vec<u8>,
) {
    writer::encode_write(head, run, key, written, out);
}

/// Decodes the output of [`write_write`]; `None` for other bytes.
pub(crate) fn read_write(bytes: &[u8]) -> Option<Write> {
    reader::decode_write(bytes).ok().flatten()
}

/// Tags of changes. A tag never changes its meaning.
mod tag {
    pub const FLUSH_ALL: u8 = 0;
    pub const FLUSH: u8 = 1;
    pub const REMOVE: u8 = 2;
    pub const CLEAR: u8 = 3;
    pub const LIVE: u8 = 4;
    pub const STRING: u8 = 5;
    pub const HASH: u8 = 6;
    pub const SET: u8 = 7;
    pub const SORTED_SET: u8 = 8;
    pub const PUSH_LEFT: u8 = 9;
    pub const PUSH_RIGHT: u8 = 10;
    pub const ELEMENT: u8 = 11;
    pub const ENTRY: u8 = 12;
    pub const LAST: u8 = 13;
    pub const GROUP: u8 = 14;
    pub const COUNT: u8 = 15;
    pub const PART: u8 = 16;
    /// Flag: the same key as in the previous effect.
    pub const SAME_KEY: u8 = 0x80;

    pub const CELL_PUT: u8 = 0;
    pub const CELL_PUT_UNTIL: u8 = 1;
    pub const CELL_REMOVE: u8 = 2;
    pub const CELL_ADD: u8 = 3;
    pub const CELL_LIVE: u8 = 4;

    pub const GROUP_CREATE: u8 = 0;
    pub const GROUP_DESTROY: u8 = 1;
    pub const GROUP_DELIVER: u8 = 2;
    pub const GROUP_SET_ID: u8 = 3;
    pub const GROUP_PENDING: u8 = 4;
    pub const GROUP_ACKNOWLEDGE: u8 = 5;
    pub const GROUP_CONSUMER: u8 = 6;
    pub const GROUP_NO_CONSUMER: u8 = 7;
}
