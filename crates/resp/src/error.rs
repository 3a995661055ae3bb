// SPDX-License-Identifier: BSD-3-Clause
//! Protocol violations in requests, and the error texts for the client.
//!
//! After any of these, the position in the stream is lost: the caller sends the text and closes
//! the connection. The texts are part of the protocol (client libraries and the Redis test suite
//! match on them), so tests pin them.

use std::borrow::Cow;
use std::fmt;

/// A protocol violation. The connection must be closed after the text is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    /// More than 64 KiB after `*` without a line end.
    TooBigMultibulkCountString,
    /// The number of arguments is not an integer, or above 2^31 - 1.
    InvalidMultibulkLength,
    /// More than ten arguments before authentication.
    UnauthenticatedMultibulkLength,
    /// Another byte in place of the `$` of an argument.
    ExpectedDollar(u8),
    /// More than 64 KiB without a line end in place of an argument's length.
    TooBigBulkCountString,
    /// The length of an argument is not an integer, negative, or above `proto-max-bulk-len`.
    InvalidBulkLength,
    /// An argument above 16 KiB before authentication.
    UnauthenticatedBulkLength,
    /// More than 64 KiB of an inline request without a line end.
    TooBigInlineRequest,
    /// An inline request with a quote left open, or closed in the middle of a word.
    UnbalancedQuotes,
    /// A request whose arguments reach 4 GiB past its start. Redis has no such text: there the
    /// query buffer limit (1 GB by default) closes the connection long before, and so should the
    /// caller's.
    TooBigRequest,
}

impl ProtocolError {
    /// The text that follows `-ERR ` on the wire. A byte above 127 in it appears as the character
    /// U+FFFD; [`ProtocolError::write_message`] is exact.
    pub fn message(&self) -> Cow<'static, str> {
        match self.fixed_text() {
            Some(text) => Cow::Borrowed(text),
            None => {
                let mut text = Vec::new();
                self.write_message(&mut text);
                Cow::Owned(String::from_utf8_lossy(&text).into_owned())
            }
        }
    }

    /// Appends the exact bytes that follow `-ERR ` on the wire, without the line end.
    pub fn write_message(&self, out: &mut Vec<u8>) {
        if let Some(text) = self.fixed_text() {
            out.extend_from_slice(text.as_bytes());
        } else if let ProtocolError::ExpectedDollar(byte) = *self {
            out.extend_from_slice(b"Protocol error: expected '$', got '");
            // A line end inside the reply would end it early, so it is sent as a space.
            out.push(if matches!(byte, b'\r' | b'\n') { b' ' } else { byte });
            out.push(b'\'');
        }
    }

    /// The text for the server's own log, which differs in places from the client's.
    pub fn log_reason(&self) -> &'static str {
        match self {
            ProtocolError::TooBigMultibulkCountString => "too big mbulk count string",
            ProtocolError::InvalidMultibulkLength => "invalid mbulk count",
            ProtocolError::UnauthenticatedMultibulkLength => "unauth mbulk count",
            ProtocolError::ExpectedDollar(_) => "expected $ but got something else",
            ProtocolError::TooBigBulkCountString => "too big bulk count string",
            ProtocolError::InvalidBulkLength => "invalid bulk length",
            ProtocolError::UnauthenticatedBulkLength => "unauth bulk length",
            ProtocolError::TooBigInlineRequest => "too big inline request",
            ProtocolError::UnbalancedQuotes => "unbalanced quotes in inline request",
            ProtocolError::TooBigRequest => "too big request",
        }
    }

    fn fixed_text(&self) -> Option<&'static str> {
        Some(match self {
            ProtocolError::TooBigMultibulkCountString => "Protocol error: too big mbulk count string",
            ProtocolError::InvalidMultibulkLength => "Protocol error: invalid multibulk length",
            ProtocolError::UnauthenticatedMultibulkLength => {
                "Protocol error: unauthenticated multibulk length"
            }
            ProtocolError::ExpectedDollar(_) => return None,
            ProtocolError::TooBigBulkCountString => "Protocol error: too big bulk count string",
            ProtocolError::InvalidBulkLength => "Protocol error: invalid bulk length",
            ProtocolError::UnauthenticatedBulkLength => "Protocol error: unauthenticated bulk length",
            ProtocolError::TooBigInlineRequest => "Protocol error: too big inline request",
            ProtocolError::UnbalancedQuotes => "Protocol error: unbalanced quotes in request",
            ProtocolError::TooBigRequest => "Protocol error: too big request",
        })
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message())
    }
}

impl std::error::Error for ProtocolError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unexpected_byte_is_sent_as_it_came_except_for_line_ends() {
        let wire = |byte| {
            let mut out = Vec::new();
            ProtocolError::ExpectedDollar(byte).write_message(&mut out);
            out
        };
        assert_eq!(wire(b'x'), b"Protocol error: expected '$', got 'x'");
        assert_eq!(wire(0xff), b"Protocol error: expected '$', got '\xff'");
        assert_eq!(wire(b'\r'), b"Protocol error: expected '$', got ' '");
        assert_eq!(wire(b'\n'), b"Protocol error: expected '$', got ' '");
    }

    #[test]
    fn message_display_and_wire_agree() {
        for error in [
            ProtocolError::TooBigMultibulkCountString,
            ProtocolError::ExpectedDollar(b'-'),
            ProtocolError::UnbalancedQuotes,
        ] {
            let mut out = Vec::new();
            error.write_message(&mut out);
            assert_eq!(error.message().as_bytes(), out);
            assert_eq!(error.to_string().as_bytes(), out);
        }
    }
}
