// SPDX-License-Identifier: BSD-3-Clause
//! Bytes waiting to be sent: one growing buffer, and big values attached to it by reference.
//!
//! HOT PATH: no system call; allocation only to grow.
//!
//! The stream is `bytes[sent..end]` with each attachment inserted at its position. `bytes` is
//! kept initialised beyond `end` (with zeros or stale replies), so writing is a store and an
//! addition, without zero-filling or unsafe code. Stale bytes are never sent, since only `..end`
//! is ever exposed.
//!
//! Positions returned to callers ([`Mark`], header positions) count from the start of `bytes` and
//! are valid until the next [`Pending::consume`].

use braid_base::blob::Blob;
use std::collections::VecDeque;
use std::io::IoSlice;

/// The first growth, in bytes.
const CAPACITY_MIN: usize = 512;
/// Number of sent bytes from which they are removed from the front of a buffer that never runs
/// empty.
const COMPACT_MIN: usize = 64 * 1024;

#[derive(Debug)]
struct Attachment {
    /// Number of buffer bytes before the attachment.
    at: usize,
    blob: Blob,
}

/// A point in a reply buffer to which it can be rolled back.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    end: usize,
    attachments: usize,
}

#[derive(Debug, Default)]
pub(crate) struct Pending {
    bytes: Vec<u8>,
    /// Bytes written.
    end: usize,
    /// Bytes sent, at most `end`.
    sent: usize,
    attachments: VecDeque<Attachment>,
    /// Bytes of the first attachment already sent. If above zero, `sent` equals the attachment's
    /// position.
    attachment_sent: usize,
    /// Bytes in all attachments.
    attached_bytes: usize,
}

impl Pending {
    /// Takes over a buffer; its content is sent first.
    pub fn from_vec(bytes: Vec<u8>) -> Pending {
        Pending { end: bytes.len(), bytes, ..Pending::default() }
    }

    /// Returns the buffer with its pending bytes, leaving `self` empty and without memory.
    /// Attachments are dropped.
    pub fn take_vec(&mut self) -> Vec<u8> {
        let mut taken = std::mem::take(self);
        taken.bytes.truncate(taken.end);
        if taken.sent > 0 {
            taken.bytes.drain(..taken.sent);
        }
        taken.bytes
    }

    /// Returns the buffer as it is, with stale bytes that need no zero-filling, leaving `self`
    /// without memory.
    pub fn take_spare(&mut self) -> Vec<u8> {
        self.clear();
        std::mem::take(&mut self.bytes)
    }

    /// Drops everything pending, and writes into `spare` from now on, over its content.
    pub fn reuse(&mut self, spare: Vec<u8>) {
        self.clear();
        self.bytes = spare;
    }

    /// The next `len` bytes of the buffer, for writing. They count only after [`Pending::advance`].
    #[inline(always)]
    pub fn room(&mut self, len: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < len {
            self.grow(len);
        }
        &mut self.bytes[self.end..][..len]
    }

    /// As [`Pending::room`] for a number of bytes known at compile time.
    #[inline(always)]
    pub fn room_of<const LEN: usize>(&mut self) -> &mut [u8; LEN] {
        if self.bytes.len() - self.end < LEN {
            self.grow(LEN);
        }
        self.bytes[self.end..].first_chunk_mut().expect("the buffer was grown")
    }

    /// Adds `len` bytes, already written through [`Pending::room`], to the pending bytes.
    #[inline(always)]
    pub fn advance(&mut self, len: usize) {
        debug_assert!(self.end + len <= self.bytes.len());
        self.end += len;
    }

    #[inline(always)]
    pub fn put<const LEN: usize>(&mut self, bytes: &[u8; LEN]) {
        *self.room_of::<LEN>() = *bytes;
        self.end += LEN;
    }

    #[inline]
    pub fn put_slice(&mut self, bytes: &[u8]) {
        self.room(bytes.len()).copy_from_slice(bytes);
        self.end += bytes.len();
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, len: usize) {
        let want = self.end.checked_add(len).expect("replies fit the address space");
        // Doubling amortises both the copying of a growing buffer and the zeroing of new memory.
        let initialised = want.max(self.bytes.len() * 2).max(CAPACITY_MIN);
        let capacity = self.bytes.capacity();
        self.bytes.resize(if want <= capacity { initialised.min(capacity) } else { initialised }, 0);
    }

    /// Appends `blob` by reference.
    pub fn attach(&mut self, blob: Blob) {
        self.attached_bytes += blob.len();
        self.attachments.push_back(Attachment { at: self.end, blob });
    }

    /// Opens a gap of `len` bytes at `mark`, moving everything after it. Returns the gap for
    /// writing.
    pub fn open_gap(&mut self, mark: Mark, len: usize) -> &mut [u8] {
        self.room(len);
        self.bytes.copy_within(mark.end..self.end, mark.end + len);
        self.end += len;
        for attachment in self.attachments.range_mut(mark.attachments..) {
            attachment.at += len;
        }
        &mut self.bytes[mark.end..mark.end + len]
    }

    /// The `len` bytes written right after `mark`.
    #[inline]
    pub fn written_at(&mut self, mark: Mark, len: usize) -> &mut [u8] {
        debug_assert!(mark.end + len <= self.end);
        &mut self.bytes[mark.end..mark.end + len]
    }

    /// The last `len` bytes written, excluding the last `tail` of them.
    #[inline(always)]
    pub fn written_before(&mut self, len: usize, tail: usize) -> &mut [u8] {
        &mut self.bytes[self.end - len..self.end - tail]
    }

    #[inline]
    pub fn mark(&self) -> Mark {
        Mark { end: self.end, attachments: self.attachments.len() }
    }

    /// Drops everything written after `mark`.
    pub fn truncate(&mut self, mark: Mark) {
        debug_assert!(
            mark.end >= self.sent && mark.end <= self.end,
            "the mark is older than the last consume"
        );
        while self.attachments.len() > mark.attachments {
            if let Some(dropped) = self.attachments.pop_back() {
                self.attached_bytes -= dropped.blob.len();
            }
        }
        self.end = mark.end.clamp(self.sent, self.end);
    }

    /// Bytes still to be sent, including attachments.
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.sent + self.attached_bytes - self.attachment_sent
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.end == self.sent && self.attachments.is_empty()
    }

    /// Drops everything pending; keeps the memory.
    pub fn clear(&mut self) {
        (self.end, self.sent) = (0, 0);
        self.attachments.clear();
        (self.attachment_sent, self.attached_bytes) = (0, 0);
    }

    /// All pending bytes, if there are no attachments.
    #[inline]
    pub fn as_contiguous(&self) -> Option<&[u8]> {
        self.attachments.is_empty().then(|| &self.bytes[self.sent..self.end])
    }

    /// Capacity of the buffer.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Capacity that the buffer is about to get, if `len` more bytes do not fit; else 0.
    pub fn growth(&self, len: usize) -> usize {
        let (want, capacity) = (self.end + len, self.bytes.capacity());
        if want <= capacity { 0 } else { want.max(2 * capacity) }
    }

    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.attachments.capacity() * size_of::<Attachment>() + self.attached_bytes
    }

    /// Frees memory above `capacity_max`, if nothing is pending.
    pub fn shrink(&mut self, capacity_max: usize) {
        if self.is_empty() && self.bytes.capacity() > capacity_max {
            self.clear();
            self.bytes.truncate(capacity_max);
            self.bytes.shrink_to(capacity_max);
            self.attachments = VecDeque::new();
        }
    }

    /// Lists the pending bytes, in order, until `out` has `max` slices. Empty slices are left
    /// out.
    pub fn io_slices<'a>(&'a self, out: &mut Vec<IoSlice<'a>>, max: usize) {
        let mut push = |slice: &'a [u8]| {
            if !slice.is_empty() && out.len() < max {
                out.push(IoSlice::new(slice));
            }
            out.len() < max
        };
        let (mut from, mut skip) = (self.sent, self.attachment_sent);
        for attachment in &self.attachments {
            if !push(&self.bytes[from..attachment.at]) || !push(&attachment.blob[skip..]) {
                return;
            }
            (from, skip) = (attachment.at, 0);
        }
        push(&self.bytes[from..self.end]);
    }

    /// Removes the first `count` pending bytes, which have been sent.
    pub fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.len(), "more was sent than was pending");
        let mut count = count;
        while let Some(first) = self.attachments.front() {
            let before = first.at - self.sent;
            let left = first.blob.len() - self.attachment_sent;
            if count < before {
                break;
            }
            self.sent = first.at;
            count -= before;
            if count < left {
                self.attachment_sent += count;
                return;
            }
            count -= left;
            self.attached_bytes -= first.blob.len();
            self.attachment_sent = 0;
            self.attachments.pop_front();
        }
        self.sent = self.end.min(self.sent + count);
        if self.is_empty() {
            (self.end, self.sent) = (0, 0);
        } else if self.sent >= COMPACT_MIN && self.sent >= self.end - self.sent {
            self.compact();
        }
    }

    /// Moves the pending bytes to the front. Moves fewer bytes than were sent since the last
    /// compaction.
    #[cold]
    fn compact(&mut self) {
        self.bytes.copy_within(self.sent..self.end, 0);
        for attachment in &mut self.attachments {
            attachment.at -= self.sent;
        }
        self.end -= self.sent;
        self.sent = 0;
    }
}
