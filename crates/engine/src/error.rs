//! The errors a command body can end with, and their text on the wire.
//!
//! Client libraries match on the first word; the texts are the ones that users of Redis know.

use std::borrow::Cow;

use braid_keyspace::txn::WrongType;

/// What a body returns: nothing when it has written its reply, or the error to reply with.
pub type CommandResult = Result<(), CommandError>;

/// A refusal, sent to the client as one error line. The text holds the code: `ERR syntax error`.
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
    /// Any other text, code included.
    #[error("{0}")]
    Text(Cow<'static, str>),
}

impl CommandError {
    /// An error with a text of its own, code included.
    pub fn text(text: impl Into<Cow<'static, str>>) -> CommandError {
        CommandError::Text(text.into())
    }

    /// An error whose text quotes bytes from the client; what is not UTF-8 is replaced.
    pub fn quoting(before: &str, bytes: &[u8], after: &str) -> CommandError {
        CommandError::Text(Cow::Owned(format!("{before}{}{after}", String::from_utf8_lossy(bytes))))
    }
}

impl From<WrongType> for CommandError {
    fn from(_: WrongType) -> CommandError {
        CommandError::WrongType
    }
}
