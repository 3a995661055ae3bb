// SPDX-License-Identifier: BSD-3-Clause
//! The request parser. HOT PATH: no allocation, no system call, no logging for requests that arrive
//! whole.
//!
//! A request is `*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n`, or an inline line (see
//! [`crate::inline`]). The parser copies nothing: it returns each argument as a [`Span`] of the
//! buffer.
//!
//! Flow: [`RequestParser::next`] first tries the shape of nearly every request (up to nine
//! arguments, all received) in one stateless pass. Anything else goes through `resume`, which
//! implements every rule and keeps its position:
//! - a short incomplete request is parsed again later from its start, since keeping its state would
//!   cost an allocation;
//! - past [`KEEP_PLACE_MIN`] bytes the position is kept, so a request in many pieces costs linear
//!   time;
//! - a big argument is left to the caller, who receives it into memory of its own.
//!
//! The rules (limits, line ends, error texts) are those of Redis 7.2, byte for byte, including its
//! quirks: a line ends at `\r` and any next byte; the two bytes after an argument are not checked;
//! a NUL byte in a line hides its end. One rule is stricter: a line above 64 KiB is always refused,
//! while Redis may accept one that happens to arrive in a single read, so the meaning of a stream
//! never depends on how it is split.
//!
//! The parser must never panic on any input, read beyond the buffer, or reserve memory for
//! announced counts.

use crate::error::ProtocolError;
use crate::inline::split_words;
use std::ops::Range;

/// Maximum length of a line (counts, lengths, inline requests) in bytes, without its end.
const LINE_LEN_MAX: usize = 64 * 1024;
/// Maximum number of arguments of a request.
const ARGUMENTS_MAX: i64 = i32::MAX as i64;
/// Maximum number of arguments of a request before authentication.
const UNAUTHENTICATED_ARGUMENTS_MAX: i64 = 10;
/// Maximum length of an argument in bytes before authentication.
const UNAUTHENTICATED_BULK_LEN_MAX: u64 = 16 * 1024;
/// An incomplete request of at least this many bytes keeps its state. Below that, parsing again
/// costs less than an allocation.
const KEEP_PLACE_MIN: usize = 512;
/// Maximum number of spans reserved for an announced count.
const RESERVE_MAX: u32 = 1024;

/// One argument: bytes `start..start + len` of the buffer given to [`RequestParser::next`], or,
/// if [`Span::is_big`], the `len`-th big argument of its request (0, 1, ...), which the caller
/// received itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: u32,
    pub len: u32,
}

impl Span {
    const BIG: u32 = u32::MAX;

    /// True for an argument that was received separately; its index is `len`.
    #[inline]
    pub fn is_big(self) -> bool {
        self.start == Span::BIG
    }

    /// The range of the argument's bytes; meaningless for a big one.
    #[inline]
    pub fn range(self) -> Range<usize> {
        debug_assert!(!self.is_big(), "a big argument is not in the buffer");
        let start = self.start as usize;
        start..start + self.len as usize
    }
}

/// Limits for a client. Lengths in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Longest argument (`proto-max-bulk-len`).
    pub bulk_len_max: u64,
    /// False until the client has authenticated: the limit is then ten arguments of 16 KiB.
    pub authenticated: bool,
    /// Incomplete arguments of at least this length are left to the caller.
    pub big_argument_min: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { bulk_len_max: 512 * 1024 * 1024, authenticated: true, big_argument_min: 32 * 1024 }
    }
}

impl Limits {
    /// The longest argument currently allowed.
    #[inline]
    fn bulk_len_max_now(&self) -> u64 {
        if self.authenticated {
            self.bulk_len_max
        } else {
            self.bulk_len_max.min(UNAUTHENTICATED_BULK_LEN_MAX)
        }
    }
}

/// The result of [`RequestParser::next`] for the start of the buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A whole request; its spans have been pushed. It occupied `buf[..consumed]`, not counting
    /// big arguments. An empty request (`*0`, `*-1`, an empty line) has no spans.
    Request { consumed: usize },
    /// A whole inline request: its unquoted arguments, and the bytes it occupied.
    Inline { consumed: usize, arguments: Vec<Vec<u8>> },
    /// `buf` ends within a request (or is empty). Call again with the same bytes followed by more.
    Incomplete,
    /// The next argument has `len` bytes, at least [`Limits::big_argument_min`], and it or its
    /// line end is incomplete. It starts at `buf[start..]`, where up to `len + 1` bytes of it and
    /// its line end may have arrived. The caller takes these, receives the rest of the `len + 2`
    /// bytes into its own memory, truncates its buffer to `..start`, calls
    /// [`RequestParser::big_argument_done`] and then `next` with `..start` followed by later
    /// bytes.
    BigArgument { start: usize, len: usize },
    /// The rest of the stream is invalid. The parser is reset; the connection must be closed.
    Error(ProtocolError),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// At the start of a request, before any of its bytes.
    #[default]
    Idle,
    /// At the start of a request that was seen in part and will be parsed again from its start.
    Again,
    /// Within an inline line.
    Inline,
    /// Within the line of the argument count.
    Count,
    /// Within the line of an argument's length, or after the last argument if none remain.
    Length,
    /// Within an argument of known length.
    Body,
}

/// The state of one connection's request stream: 64 bytes, and no heap memory unless a long
/// request is partly read.
#[derive(Debug, Default)]
pub struct RequestParser {
    /// Spans of an incomplete request, from its start. Used only while the state is kept.
    partial: Vec<Span>,
    /// Bytes of the request already parsed; the current line or body starts here.
    position: usize,
    /// Length of the current argument, in phase `Body`.
    bulk_len: usize,
    /// Bytes of the current line already searched for its end.
    scanned: u32,
    /// Arguments left, including the current one.
    remaining: u32,
    /// Big arguments left to the caller.
    big_count: u32,
    phase: Phase,
}

impl RequestParser {
    /// Reads one request from the start of `buf`. Pushes its spans to `spans`, which may contain
    /// spans of earlier requests and is unchanged unless the result is [`Step::Request`]. Spans
    /// count from the start of this call's `buf`.
    ///
    /// After [`Step::Incomplete`] the next call must pass the same bytes again, followed by more.
    #[inline]
    pub fn next(&mut self, buf: &[u8], limits: &Limits, spans: &mut Vec<Span>) -> Step {
        if matches!(self.phase, Phase::Idle | Phase::Again)
            && let Some(consumed) = plain_request(buf, limits, spans)
        {
            self.phase = Phase::Idle;
            return Step::Request { consumed };
        }
        self.resume(buf, limits, spans)
    }

    /// Must be called once the argument of [`Step::BigArgument`] has been received.
    pub fn big_argument_done(&mut self) {
        debug_assert_eq!(self.phase, Phase::Body, "no big argument is being received");
        if self.phase == Phase::Body {
            self.partial.push(Span { start: Span::BIG, len: self.big_count });
            self.big_count += 1;
            self.argument_done();
        }
    }

    /// True if part of a request has been seen and the rest is expected.
    pub fn is_mid_request(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// Drops all state of an incomplete request.
    pub fn reset(&mut self) {
        *self = RequestParser::default();
    }

    /// Parses by the full set of rules, from where the last call stopped.
    #[inline(never)]
    fn resume(&mut self, buf: &[u8], limits: &Limits, spans: &mut Vec<Span>) -> Step {
        if matches!(self.phase, Phase::Idle | Phase::Again) {
            self.begin(buf, limits, spans)
        } else {
            let mut partial = std::mem::take(&mut self.partial);
            let step = self.advance(buf, limits, &mut partial);
            match step {
                Step::Incomplete | Step::BigArgument { .. } => self.partial = partial,
                Step::Request { .. } => {
                    spans.extend_from_slice(&partial);
                    self.reset();
                }
                Step::Inline { .. } | Step::Error(_) => self.reset(),
            }
            step
        }
    }

    /// Starts a request: spans go directly to the caller, and move to `self` only if the state
    /// must be kept.
    fn begin(&mut self, buf: &[u8], limits: &Limits, spans: &mut Vec<Span>) -> Step {
        self.reset();
        self.phase = match buf.first() {
            None => return Step::Incomplete,
            Some(b'*') => Phase::Count,
            Some(_) => Phase::Inline,
        };
        let before = spans.len();
        let step = self.advance(buf, limits, spans);
        match step {
            Step::Request { .. } => {
                self.reset();
                return step;
            }
            Step::Incomplete if self.position + self.scanned as usize <= KEEP_PLACE_MIN => {
                self.reset();
                self.phase = Phase::Again;
            }
            Step::Incomplete | Step::BigArgument { .. } => self.partial = spans[before..].to_vec(),
            Step::Inline { .. } | Step::Error(_) => self.reset(),
        }
        spans.truncate(before);
        step
    }

    /// Continues from the current phase; spans are pushed to `out`.
    fn advance(&mut self, buf: &[u8], limits: &Limits, out: &mut Vec<Span>) -> Step {
        if self.phase == Phase::Inline {
            return self.inline_line(buf);
        }
        if self.phase == Phase::Count {
            match self.count_line(buf, limits) {
                Ok(()) => out.reserve(self.remaining.min(RESERVE_MAX) as usize),
                Err(step) => return step,
            }
        }
        while self.remaining > 0 {
            if self.phase == Phase::Length {
                self.plain_arguments(buf, limits, out);
                if self.remaining == 0 {
                    break;
                }
                if let Err(step) = self.length_line(buf, limits) {
                    return step;
                }
            }
            match self.body(buf, limits) {
                Ok(span) => out.push(span),
                Err(step) => return step,
            }
            self.argument_done();
        }
        Step::Request { consumed: self.position }
    }

    /// Parses arguments while they are plain and complete, in a tight loop.
    #[inline]
    fn plain_arguments(&mut self, buf: &[u8], limits: &Limits, out: &mut Vec<Span>) {
        if self.scanned > 0 || buf.len() > u32::MAX as usize {
            return;
        }
        let len_max = limits.bulk_len_max_now();
        let (mut position, mut remaining) = (self.position, self.remaining);
        while remaining > 0
            && let Some((span, end)) = plain_argument(buf, position, len_max)
        {
            out.push(span);
            position = end;
            remaining -= 1;
        }
        (self.position, self.remaining) = (position, remaining);
    }

    fn argument_done(&mut self) {
        self.remaining -= 1;
        self.scanned = 0;
        self.phase = Phase::Length;
    }

    /// Reads `*N\r\n`. `Err` holds the step to return.
    fn count_line(&mut self, buf: &[u8], limits: &Limits) -> Result<(), Step> {
        let line = self.line(buf, ProtocolError::TooBigMultibulkCountString)?;
        let count = match integer(line.get(1..).unwrap_or(&[])) {
            Some(count) if count <= ARGUMENTS_MAX => count,
            _ => return Err(Step::Error(ProtocolError::InvalidMultibulkLength)),
        };
        if count > UNAUTHENTICATED_ARGUMENTS_MAX && !limits.authenticated {
            return Err(Step::Error(ProtocolError::UnauthenticatedMultibulkLength));
        }
        self.position += line.len() + 2;
        self.scanned = 0;
        self.remaining = count.max(0) as u32;
        self.phase = Phase::Length;
        Ok(())
    }

    /// Reads `$len\r\n`. `Err` holds the step to return.
    fn length_line(&mut self, buf: &[u8], limits: &Limits) -> Result<(), Step> {
        let line = self.line(buf, ProtocolError::TooBigBulkCountString)?;
        let digits = match line {
            [b'$', digits @ ..] => digits,
            [other, ..] => return Err(Step::Error(ProtocolError::ExpectedDollar(*other))),
            [] => return Err(Step::Error(ProtocolError::ExpectedDollar(b'\r'))),
        };
        let len = match integer(digits).map(u64::try_from) {
            Some(Ok(len)) if len <= limits.bulk_len_max => len,
            _ => return Err(Step::Error(ProtocolError::InvalidBulkLength)),
        };
        if len > UNAUTHENTICATED_BULK_LEN_MAX && !limits.authenticated {
            return Err(Step::Error(ProtocolError::UnauthenticatedBulkLength));
        }
        self.bulk_len = usize::try_from(len).map_err(|_| Step::Error(ProtocolError::InvalidBulkLength))?;
        self.position += line.len() + 2;
        self.scanned = 0;
        self.phase = Phase::Body;
        Ok(())
    }

    /// Parses an argument's bytes. `Err` holds the step to return.
    fn body(&mut self, buf: &[u8], limits: &Limits) -> Result<Span, Step> {
        let (start, len) = (self.position, self.bulk_len);
        match start.checked_add(len).and_then(|end| end.checked_add(2)) {
            Some(end) if end <= buf.len() => {
                // `start` is below u32::MAX, the marker of a big argument, whenever the end fits.
                if u32::try_from(end).is_err() {
                    return Err(Step::Error(ProtocolError::TooBigRequest));
                }
                self.position = end;
                Ok(Span { start: start as u32, len: len as u32 })
            }
            _ if len >= limits.big_argument_min => Err(Step::BigArgument { start, len }),
            _ => Err(Step::Incomplete),
        }
    }

    /// The current line up to its `\r`, if the `\r` and one more byte have arrived. `Err` holds
    /// the step to return.
    fn line<'a>(&mut self, buf: &'a [u8], too_long: ProtocolError) -> Result<&'a [u8], Step> {
        let rest = buf.get(self.position..).unwrap_or(&[]);
        match self.find_line_end(rest, b'\r') {
            Some(end) if end + 2 <= rest.len() => Ok(&rest[..end]),
            Some(_) => Err(Step::Incomplete),
            None if rest.len() > LINE_LEN_MAX => Err(Step::Error(too_long)),
            None => Err(Step::Incomplete),
        }
    }

    /// Reads an inline request.
    fn inline_line(&mut self, buf: &[u8]) -> Step {
        let Some(end) = self.find_line_end(buf, b'\n') else {
            let too_long = buf.len() > LINE_LEN_MAX;
            return if too_long { Step::Error(ProtocolError::TooBigInlineRequest) } else { Step::Incomplete };
        };
        let line = &buf[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match split_words(line) {
            Ok(arguments) if arguments.is_empty() => {
                self.position = end + 1;
                Step::Request { consumed: end + 1 }
            }
            Ok(arguments) => Step::Inline { consumed: end + 1, arguments },
            Err(_) => Step::Error(ProtocolError::UnbalancedQuotes),
        }
    }

    /// Finds `end` in the first [`LINE_LEN_MAX`] + 1 bytes of `rest`, skipping bytes already
    /// searched. A NUL byte stops the search permanently: no line that contains one ever ends.
    fn find_line_end(&mut self, rest: &[u8], end: u8) -> Option<usize> {
        let window = &rest[..rest.len().min(LINE_LEN_MAX + 1)];
        let from = (self.scanned as usize).min(window.len());
        let found = window[from..].iter().position(|byte| *byte == end || *byte == 0);
        let at = found.map_or(window.len(), |offset| from + offset);
        self.scanned = at as u32;
        window.get(at).is_some_and(|byte| *byte == end).then_some(at)
    }
}

/// Parses a whole request of one to nine plain arguments. `None`, with `spans` unchanged, for
/// anything else.
#[inline(always)]
fn plain_request(buf: &[u8], limits: &Limits, spans: &mut Vec<Span>) -> Option<usize> {
    let [b'*', count @ b'1'..=b'9', b'\r', _, ..] = buf else { return None };
    if buf.len() > u32::MAX as usize {
        return None;
    }
    let len_max = limits.bulk_len_max_now();
    let before = spans.len();
    let mut position = 4;
    for _ in b'0'..*count {
        let Some((span, end)) = plain_argument(buf, position, len_max) else {
            spans.truncate(before);
            return None;
        };
        spans.push(span);
        position = end;
    }
    Some(position)
}

/// Parses one argument at `position`. Returns its span and the position after it; `None` if it is
/// incomplete, too long, or in an unusual form. `buf` must be shorter than 4 GiB.
#[inline(always)]
fn plain_argument(buf: &[u8], position: usize, len_max: u64) -> Option<(Span, usize)> {
    let (len, header) = match buf.get(position..)? {
        [b'$', ones @ b'0'..=b'9', b'\r', _, ..] => (digit(*ones), 4),
        [b'$', tens @ b'1'..=b'9', ones @ b'0'..=b'9', b'\r', _, ..] => (digit(*tens) * 10 + digit(*ones), 5),
        rest => long_length(rest)?,
    };
    let start = position + header;
    let end = start + len + 2;
    if end > buf.len() || len as u64 > len_max {
        return None;
    }
    Some((Span { start: start as u32, len: len as u32 }, end))
}

/// Reads `$len\r\n` with three to seven digits. Returns the length of the argument and of the
/// line.
#[inline]
fn long_length(rest: &[u8]) -> Option<(usize, usize)> {
    let [b'$', first @ b'1'..=b'9', rest @ ..] = rest else { return None };
    let mut len = digit(*first);
    for (index, byte) in rest.iter().enumerate().take(7) {
        match byte {
            b'0'..=b'9' => len = len * 10 + digit(*byte),
            b'\r' if index + 1 < rest.len() => return Some((len, index + 4)),
            _ => return None,
        }
    }
    None
}

#[inline(always)]
fn digit(byte: u8) -> usize {
    (byte - b'0') as usize
}

/// An integer by Redis's rules: no plus sign, no blanks, no leading zeros, no `-0`, within 64 bits.
fn integer(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        b"0" => return Some(0),
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if !matches!(digits.first(), Some(b'1'..=b'9')) {
        return None;
    }
    let mut value = 0i64;
    for byte in digits {
        if !byte.is_ascii_digit() {
            return None;
        }
        // Counting downwards includes i64::MIN.
        value = value.checked_mul(10)?.checked_sub(i64::from(byte - b'0'))?;
    }
    if negative { Some(value) } else { value.checked_neg() }
}

#[cfg(test)]
mod tests;
