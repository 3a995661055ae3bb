// SPDX-License-Identifier: BSD-3-Clause
//! Errors in encoded values.

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
    /// The data end within a value.
    #[error("unexpected end of data")]
    Short,
    /// They could not be read.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// They cannot be what they should be.
    #[error("{0}")]
    Corrupt(&'static str),
    /// A dump file begins otherwise.
    #[error("Wrong signature trying to load DB from file")]
    Signature,
    /// A dump file of a version that is not known.
    #[error("Can't handle RDB format version {0}")]
    Version(u16),
    /// A dump file ends with another checksum than its content has.
    #[error("RDB CRC error: Wrong RDB checksum expected: ({expected:x}) but got ({found:x})")]
    Checksum { expected: u64, found: u64 },
    /// A collection without members. (Dump files of some old servers have such keys: they are to be skipped.)
    #[error("a key without a value")]
    Empty,
    /// A value of a kind that has no place here. What follows it can be read.
    #[error("{0}")]
    LeftOut(&'static str),
    /// A type of value that is not known.
    #[error("unknown type of value {0}")]
    UnknownType(u8),
    /// A value that a module of this name made.
    #[error("a value of the module type '{0}', for which there is no module")]
    Module(String),
}
