// SPDX-License-Identifier: BSD-3-Clause
//! The reply encoder: every RESP2 and RESP3 type. HOT PATH: no system call; allocation only to grow
//! the buffer.
//!
//! A command body writes its reply by meaning (a map, a double, a null), and the buffer picks the
//! form in the client's protocol. Bytes are written where they are sent from; values of 16 KiB
//! and more are attached by reference and never copied. The event loop takes the result from
//! [`ReplyBuffer::io_slices`].
//!
//! A status or error line must never contain a line end, and a header's count must be right. This
//! module ensures the first; the second is the caller's duty, made easier by deferred headers
//! ([`ReplyBuffer::begin_array`]).

use crate::decimal::{DECIMAL_LEN_MAX, digit_count, write_signed, write_unsigned};
use crate::error::ProtocolError;
use crate::pending::Pending;
use braid_base::blob::Blob;
use braid_base::number::DoubleText;
use std::borrow::Cow;
use std::io::IoSlice;

pub use crate::pending::Mark;

/// Blobs of at least this many bytes are attached by reference.
const ATTACH_MIN: usize = 16 * 1024;
/// The longest `*` or `$` line: the sign, the digits, the line end.
const HEADER_LEN_MAX: usize = DECIMAL_LEN_MAX + 3;
/// Bytes reserved for a deferred header: enough for counts up to 9.
const DEFERRED_LEN: usize = 4;

/// A client's protocol: RESP2 until `HELLO 3`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    #[default]
    Resp2,
    Resp3,
}

/// The place of a header that is written once its count is known. See [`ReplyBuffer::begin_array`].
#[derive(Debug)]
#[must_use = "the header has to be written: call end_array, end_map or end_set"]
pub struct Deferred {
    mark: Mark,
}

/// The memory of an empty reply buffer, kept for reuse. See [`ReplyBuffer::take_spare`].
#[derive(Debug, Default)]
pub struct SpareBuffer(Vec<u8>);

impl SpareBuffer {
    /// Capacity in bytes.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

/// Pending replies to a client.
#[derive(Debug, Default)]
pub struct ReplyBuffer {
    /// The client's protocol. May change between two replies.
    pub protocol: Protocol,
    pending: Pending,
    /// See [`ReplyBuffer::set_limit`]; 0 = none.
    limit: usize,
}

/// Scalars.
impl ReplyBuffer {
    /// `+OK`.
    #[inline]
    pub fn ok(&mut self) {
        self.pending.put(b"+OK\r\n");
    }

    /// A status line, without `+`. Line ends in the text are sent as spaces.
    #[inline]
    pub fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    /// An error line, without `-` but with its code: `ERR no such key`. Line ends in the text are
    /// sent as spaces; trailing ones are left out.
    pub fn error(&mut self, text: &str) {
        self.line(b'-', text.trim_end_matches(['\r', '\n']).as_bytes());
    }

    /// As [`ReplyBuffer::error`], for texts that quote a client's bytes.
    pub fn error_bytes(&mut self, text: &[u8]) {
        let end = text.iter().rposition(|byte| !is_line_end(*byte)).map_or(0, |last| last + 1);
        self.line(b'-', &text[..end]);
    }

    /// The error line for a protocol violation.
    pub fn protocol_error(&mut self, error: &ProtocolError) {
        let mut text = b"ERR ".to_vec();
        error.write_message(&mut text);
        self.line(b'-', &text);
    }

    /// A string of any bytes.
    #[inline]
    pub fn bulk(&mut self, bytes: &[u8]) {
        self.bulk_reserve(bytes.len()).copy_from_slice(bytes);
    }

    /// A string of `len` bytes; the caller must fill the whole returned slice (it may contain
    /// stale bytes).
    #[inline]
    pub fn bulk_reserve(&mut self, len: usize) -> &mut [u8] {
        let room = self.pending.room(len + HEADER_LEN_MAX + 2);
        let header = write_header(b'$', len as u64, room);
        let end = header + len;
        room[end..end + 2].copy_from_slice(b"\r\n");
        self.pending.advance(end + 2);
        self.pending.written_before(len + 2, 2)
    }

    /// An integer as a string, as in replies of `INCRBYFLOAT` or `OBJECT`.
    #[inline]
    pub fn bulk_integer(&mut self, value: i64) {
        let mut digits = [0; DECIMAL_LEN_MAX];
        let len = write_signed(value, &mut digits);
        self.bulk(&digits[..len]);
    }

    /// A string held by a blob: attached by reference if it is large, copied otherwise.
    #[inline]
    pub fn bulk_blob(&mut self, blob: &Blob) {
        if blob.len() < ATTACH_MIN {
            self.bulk(blob);
        } else {
            self.header(b'$', blob.len() as u64);
            self.pending.attach(blob.clone());
            self.pending.put(b"\r\n");
        }
    }

    /// `:value`.
    #[inline]
    pub fn integer(&mut self, value: i64) {
        let room = self.pending.room_of::<HEADER_LEN_MAX>();
        let len = if let 0..=9 = value {
            room[..4].copy_from_slice(&[b':', b'0' + value as u8, b'\r', b'\n']);
            4
        } else {
            room[0] = b':';
            let digits = write_signed(value, digits_of(room));
            end_line(room, digits)
        };
        self.pending.advance(len);
    }

    /// A null: the null string of RESP2, the null of RESP3.
    #[inline]
    pub fn null(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.pending.put(b"$-1\r\n"),
            Protocol::Resp3 => self.pending.put(b"_\r\n"),
        }
    }

    /// A null in place of an array: the null array of RESP2, the null of RESP3.
    #[inline]
    pub fn null_array(&mut self) {
        match self.protocol {
            Protocol::Resp2 => self.pending.put(b"*-1\r\n"),
            Protocol::Resp3 => self.pending.put(b"_\r\n"),
        }
    }

    /// True or false; 1 or 0 in RESP2.
    #[inline]
    pub fn boolean(&mut self, value: bool) {
        match (self.protocol, value) {
            (Protocol::Resp2, true) => self.pending.put(b":1\r\n"),
            (Protocol::Resp2, false) => self.pending.put(b":0\r\n"),
            (Protocol::Resp3, true) => self.pending.put(b"#t\r\n"),
            (Protocol::Resp3, false) => self.pending.put(b"#f\r\n"),
        }
    }

    /// A double in its shortest round-trip form; a string in RESP2.
    pub fn double(&mut self, value: f64) {
        let text = DoubleText::new(value);
        match self.protocol {
            Protocol::Resp2 => self.bulk(text.as_bytes()),
            Protocol::Resp3 => self.line(b',', text.as_bytes()),
        }
    }

    /// A double that is text already; a string in RESP2.
    pub fn double_text(&mut self, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => self.line(b',', text),
        }
    }

    /// An integer of any size, as decimal text; a string in RESP2.
    pub fn big_number(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits.as_bytes()),
            Protocol::Resp3 => self.line(b'(', digits.as_bytes()),
        }
    }

    /// A text with its format (`txt`, `mkd`; three bytes, padded or cut); a string in RESP2.
    pub fn verbatim(&mut self, format: &str, text: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(text),
            Protocol::Resp3 => {
                let mut prefix = *b"   :";
                for (to, from) in prefix[..3].iter_mut().zip(format.bytes()) {
                    *to = from;
                }
                self.header(b'=', text.len() as u64 + 4);
                self.pending.put(&prefix);
                self.pending.put_slice(text);
                self.pending.put(b"\r\n");
            }
        }
    }

    /// Bytes that already are an encoded reply, or a part of one.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.pending.put_slice(bytes);
    }

    /// As [`ReplyBuffer::raw`]; a large vector is not copied if nothing else is pending.
    pub fn raw_vec(&mut self, bytes: Vec<u8>) {
        if bytes.len() >= ATTACH_MIN && self.is_empty() {
            self.pending = Pending::from_vec(bytes);
        } else {
            self.raw(&bytes);
        }
    }

    /// A line of its own. Line ends within `text` become spaces.
    #[inline]
    fn line(&mut self, kind: u8, text: &[u8]) {
        let len = text.len();
        let room = self.pending.room(len + 3);
        room[0] = kind;
        room[1..=len].copy_from_slice(text);
        for byte in &mut room[1..=len] {
            *byte = if is_line_end(*byte) { b' ' } else { *byte };
        }
        room[len + 1..].copy_from_slice(b"\r\n");
        self.pending.advance(len + 3);
    }

    #[inline]
    fn header(&mut self, kind: u8, count: u64) {
        let len = write_header(kind, count, self.pending.room_of::<HEADER_LEN_MAX>());
        self.pending.advance(len);
    }
}

/// Aggregates: each method writes the header, and the elements follow as separate replies.
impl ReplyBuffer {
    /// `count` elements follow.
    #[inline]
    pub fn array(&mut self, count: usize) {
        self.header(b'*', count as u64);
    }

    /// `count` pairs follow, key before value; an array of twice as many in RESP2.
    #[inline]
    pub fn map(&mut self, count: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', count as u64 * 2),
            Protocol::Resp3 => self.header(b'%', count as u64),
        }
    }

    /// `count` elements in no particular order follow; an array in RESP2.
    #[inline]
    pub fn set(&mut self, count: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', count as u64),
            Protocol::Resp3 => self.header(b'~', count as u64),
        }
    }

    /// A push message of `count` elements, which answers no request; an array in RESP2.
    #[inline]
    pub fn push(&mut self, count: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', count as u64),
            Protocol::Resp3 => self.header(b'>', count as u64),
        }
    }

    /// Attributes of the following reply: `count` pairs follow. RESP2 has no attributes: then
    /// nothing is written, the result is false, and the caller must leave out the pairs.
    #[inline]
    pub fn attribute(&mut self, count: usize) -> bool {
        if self.protocol == Protocol::Resp3 {
            self.header(b'|', count as u64);
        }
        self.protocol == Protocol::Resp3
    }

    /// Starts an array whose count is not known yet. The elements follow, then
    /// [`ReplyBuffer::end_array`]. Deferred headers nest: the last one begun ends first. Nothing
    /// may be consumed between begin and end; to give up, truncate to a [`ReplyBuffer::mark`]
    /// taken before.
    #[inline]
    pub fn begin_array(&mut self) -> Deferred {
        let mark = self.pending.mark();
        self.pending.put(&[0; DEFERRED_LEN]);
        Deferred { mark }
    }

    /// As [`ReplyBuffer::begin_array`], for a map.
    #[inline]
    pub fn begin_map(&mut self) -> Deferred {
        self.begin_array()
    }

    /// As [`ReplyBuffer::begin_array`], for a set.
    #[inline]
    pub fn begin_set(&mut self) -> Deferred {
        self.begin_array()
    }

    /// Writes the header of an array of `count` elements.
    #[inline]
    pub fn end_array(&mut self, deferred: Deferred, count: usize) {
        self.end_deferred(deferred, b'*', count as u64);
    }

    /// Writes the header of a map of `count` pairs.
    #[inline]
    pub fn end_map(&mut self, deferred: Deferred, count: usize) {
        match self.protocol {
            Protocol::Resp2 => self.end_deferred(deferred, b'*', count as u64 * 2),
            Protocol::Resp3 => self.end_deferred(deferred, b'%', count as u64),
        }
    }

    /// Writes the header of a set of `count` elements.
    #[inline]
    pub fn end_set(&mut self, deferred: Deferred, count: usize) {
        match self.protocol {
            Protocol::Resp2 => self.end_deferred(deferred, b'*', count as u64),
            Protocol::Resp3 => self.end_deferred(deferred, b'~', count as u64),
        }
    }

    fn end_deferred(&mut self, deferred: Deferred, kind: u8, count: u64) {
        let len = digit_count(count) + 3;
        if len > DEFERRED_LEN {
            self.pending.open_gap(deferred.mark, len - DEFERRED_LEN);
        }
        let mut header = [0; HEADER_LEN_MAX];
        write_header(kind, count, &mut header);
        self.pending.written_at(deferred.mark, len).copy_from_slice(&header[..len]);
    }
}

/// The buffer as a whole.
impl ReplyBuffer {
    /// An empty buffer without memory.
    pub fn new(protocol: Protocol) -> ReplyBuffer {
        ReplyBuffer { protocol, pending: Pending::default(), limit: 0 }
    }

    /// A buffer that uses the memory of `bytes`, whose content is pending first (pass a cleared
    /// vector).
    pub fn from_vec(protocol: Protocol, bytes: Vec<u8>) -> ReplyBuffer {
        ReplyBuffer { protocol, pending: Pending::from_vec(bytes), limit: 0 }
    }

    /// Takes the memory with the pending bytes; drops attachments. The buffer is then like a new
    /// one.
    pub fn take_vec(&mut self) -> Vec<u8> {
        self.pending.take_vec()
    }

    /// Takes the memory for use by another client, leaving this buffer without any. Pending bytes
    /// are dropped.
    #[inline]
    pub fn take_spare(&mut self) -> SpareBuffer {
        SpareBuffer(self.pending.take_spare())
    }

    /// Uses `spare` from now on. Pending bytes are dropped.
    #[inline]
    pub fn reuse(&mut self, spare: SpareBuffer) {
        self.pending.reuse(spare.0);
    }

    /// The current end, to return to with [`ReplyBuffer::truncate`]. Valid until the next
    /// `consume`.
    #[inline]
    pub fn mark(&self) -> Mark {
        self.pending.mark()
    }

    /// Drops everything written since `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        self.pending.truncate(mark);
    }

    /// Pending bytes, including attachments.
    #[inline]
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Sets the number of pending bytes beyond which the client is dropped (0 means never).
    /// Nothing is enforced here: bodies with unbounded output check [`ReplyBuffer::is_full`] as
    /// they go.
    #[inline]
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// See [`ReplyBuffer::set_limit`].
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// True if the pending bytes exceed the limit: the client will be dropped, and further output
    /// is never sent.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.limit != 0 && self.pending.len() > self.limit
    }

    /// True if there is nothing to send.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Drops everything pending; keeps the memory.
    pub fn clear(&mut self) {
        self.pending.clear();
    }

    /// Appends the pending slices to `out`, in order, until `out` has `max` slices.
    pub fn io_slices<'a>(&'a self, out: &mut Vec<IoSlice<'a>>, max: usize) {
        self.pending.io_slices(out, max);
    }

    /// All pending bytes.
    pub fn to_bytes(&self) -> Cow<'_, [u8]> {
        if let Some(bytes) = self.as_contiguous() {
            return Cow::Borrowed(bytes);
        }
        let mut slices = Vec::new();
        self.io_slices(&mut slices, usize::MAX);
        Cow::Owned(slices.iter().flat_map(|slice| slice.iter().copied()).collect())
    }

    /// All pending bytes, if no value is attached.
    #[inline]
    pub fn as_contiguous(&self) -> Option<&[u8]> {
        self.pending.as_contiguous()
    }

    /// Removes the first `count` pending bytes, which have been sent. At most
    /// [`ReplyBuffer::len`].
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.pending.consume(count);
    }

    /// Capacity of the buffer, without attached values.
    pub fn capacity(&self) -> usize {
        self.pending.capacity()
    }

    /// Capacity of the buffer that `len` more bytes require; 0 if they fit.
    pub fn growth(&self, len: usize) -> usize {
        self.pending.growth(len)
    }

    /// Memory held: the buffer's capacity and the attached values.
    pub fn memory_bytes(&self) -> usize {
        self.pending.memory_bytes()
    }

    /// Frees memory above `capacity_max` bytes, if nothing is pending.
    pub fn shrink(&mut self, capacity_max: usize) {
        self.pending.shrink(capacity_max);
    }
}

#[inline(always)]
fn is_line_end(byte: u8) -> bool {
    byte == b'\r' || byte == b'\n'
}

/// Writes `kind`, the digits and the line end at the start of `out`, which has at least
/// [`HEADER_LEN_MAX`] bytes. Returns the length.
#[inline(always)]
fn write_header(kind: u8, count: u64, out: &mut [u8]) -> usize {
    let out: &mut [u8; HEADER_LEN_MAX] = out.first_chunk_mut().expect("callers leave room for a header");
    out[0] = kind;
    let digits = write_unsigned(count, digits_of(out));
    end_line(out, digits)
}

/// The room for digits after the first byte of a header.
#[inline(always)]
fn digits_of(header: &mut [u8; HEADER_LEN_MAX]) -> &mut [u8; DECIMAL_LEN_MAX] {
    header[1..].first_chunk_mut().expect("a header has room for all digits")
}

/// Ends a header after its digits. Returns the length of the line.
#[inline(always)]
fn end_line(header: &mut [u8; HEADER_LEN_MAX], digits: usize) -> usize {
    header[digits + 1..digits + 3].copy_from_slice(b"\r\n");
    digits + 3
}

#[cfg(test)]
mod tests;
