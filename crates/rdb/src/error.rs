// SPDX-License-Identifier: BSD-3-Clause
//! Errors in encoded values.

use braid_base::system_text::reason;

/// An error with its position.
#[derive(Debug, thiserror::Error)]
#[error("{fault} (at byte {position})")]
pub struct Error {
    /// Bytes read before the fault was found.
    pub position: u64,
    pub fault: Fault,
}

/// Kind of error.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The data ends within a value.
    #[error("unexpected end of data")]
    Short,
    /// Reading failed.
    #[error("{}", reason(.0))]
    Io(#[from] std::io::Error),
    /// Invalid data.
    #[error("{0}")]
    Corrupt(&'static str),
    /// A dump file has a different signature.
    #[error("Wrong signature trying to load DB from file")]
    Signature,
    /// A dump file has an unknown version.
    #[error("Can't handle RDB format version {0}")]
    Version(u16),
    /// A dump file's checksum does not match its content.
    #[error("RDB CRC error: Wrong RDB checksum expected: ({expected:x}) but got ({found:x})")]
    Checksum { expected: u64, found: u64 },
    /// A collection without members. (Dump files of some old servers contain such keys; the caller
    /// skips them.)
    #[error("a key without a value")]
    Empty,
    /// A value of a type that this server does not support. Reading can continue after it.
    #[error("{0}")]
    LeftOut(&'static str),
    /// An unknown value type.
    #[error("unknown value type {0}")]
    UnknownType(u8),
    /// A value of the module with this name. Reading can continue after it.
    #[error("a value of the module type '{0}', which is not supported")]
    Module(String),
}
