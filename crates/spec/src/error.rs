// SPDX-License-Identifier: BSD-3-Clause
//! Errors of command bodies, and their text on the wire.
//!
//! Client libraries match on the first word; the texts are Redis's.

use std::borrow::Cow;

use braid_base::WrongType;

/// Result of a body: it has written its reply, or returns the error to reply with.
pub type CommandResult = Result<(), CommandError>;

/// An error reply: one line, including the code (`ERR syntax error`).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    #[error("WRONGTYPE Operation against a key holding the wrong kind of value")]
    WrongType,
    #[error("ERR syntax error")]
    Syntax,
    #[error("ERR value is not an integer or out of range")]
    NotAnInteger,
    #[error("ERR value is not a valid float")]
    NotAFloat,
    #[error("ERR no such key")]
    NoSuchKey,
    #[error("ERR index out of range")]
    IndexOutOfRange,
    #[error("ERR offset is out of range")]
    OffsetOutOfRange,
    #[error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")]
    StringTooLong,
    #[error("ERR invalid expire time in '{0}' command")]
    InvalidExpire(Cow<'static, str>),
    #[error("ERR wrong number of arguments for '{0}' command")]
    WrongArity(Cow<'static, str>),
    /// Any other text, including the code.
    #[error("{0}")]
    Text(Cow<'static, str>),
    /// A text, including the code, that quotes a client's bytes, which need not be UTF-8.
    #[error("{}", String::from_utf8_lossy(.0))]
    Bytes(Vec<u8>),
    /// An error that was already counted when a script's command failed.
    #[error("{}", String::from_utf8_lossy(.0))]
    Counted(Vec<u8>),
}

impl CommandError {
    /// An error with its own text, including the code.
    pub fn text(text: impl Into<Cow<'static, str>>) -> CommandError {
        CommandError::Text(text.into())
    }

    /// An error that quotes a client's bytes up to a NUL.
    pub fn quoting(before: &str, bytes: &[u8], after: &str) -> CommandError {
        let bytes = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        CommandError::Bytes([before.as_bytes(), bytes, after.as_bytes()].concat())
    }

    /// The error line, without the leading `-` and the line end.
    pub fn line(&self) -> Cow<'_, [u8]> {
        match self {
            CommandError::Bytes(bytes) | CommandError::Counted(bytes) => Cow::Borrowed(bytes),
            CommandError::Text(text) => Cow::Borrowed(text.as_bytes()),
            other => Cow::Owned(other.to_string().into_bytes()),
        }
    }
}

impl From<WrongType> for CommandError {
    fn from(_: WrongType) -> CommandError {
        CommandError::WrongType
    }
}
