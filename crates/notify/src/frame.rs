// SPDX-License-Identifier: BSD-3-Clause
//! An encoded message, shared by all receivers.
//!
//! RESP2 and RESP3 differ only in the first header, so all receivers share the remaining bytes.

use braid_base::blob::Blob;
use braid_resp::reply::ReplyBuffer;
use braid_resp::request;
use smallvec::SmallVec;

/// Minimum size in bytes of a message that is sent without a copy, if it has its own allocation.
const SHARED_MIN: usize = 16 * 1024;

/// More than the longest header line.
const HEADER_LEN_MAX: usize = 24;
/// Maximum size in bytes of a text stored inline.
const INLINE: usize = 96;
type Text = SmallVec<[u8; INLINE]>;

/// An encoded message.
#[derive(Debug)]
pub struct Frame {
    /// Number of elements of the array or push.
    elements: usize,
    /// The encoding after the header.
    text: Text,
    /// The last element, unless the text includes it.
    big: Option<Blob>,
}

impl Frame {
    /// A message of strings, the last of which is the body. `blob` shares the body's bytes if
    /// they have their own allocation.
    pub fn new(head: &[&[u8]], body: &[u8], blob: Option<&Blob>) -> Frame {
        let big = blob.filter(|blob| blob.len() >= SHARED_MIN).cloned();
        let inline = big.is_none().then_some(body);
        let room: usize = head.iter().chain(&inline).map(|part| request::bulk_len(part.len())).sum();
        let mut text = if room <= INLINE {
            Text::from_buf_and_len([0; INLINE], room)
        } else {
            Text::from_vec(vec![0; room])
        };
        let mut rest = &mut text[..];
        for part in head.iter().copied().chain(inline) {
            request::write_bulk(&mut rest, part);
        }
        Frame { elements: head.len() + 1, text, big }
    }

    /// A message of `elements` elements, encoded without the header.
    pub fn encoded(elements: usize, text: Vec<u8>) -> Frame {
        Frame { elements, text: text.into(), big: None }
    }

    /// Bytes copied for each receiver, at most.
    pub fn copied_len(&self) -> usize {
        HEADER_LEN_MAX + self.text.len() + self.big.as_ref().map_or(0, |_| HEADER_LEN_MAX)
    }

    /// Appends the message to a reply buffer.
    pub fn write(&self, reply: &mut ReplyBuffer) {
        reply.push(self.elements);
        reply.raw(&self.text);
        if let Some(big) = &self.big {
            reply.bulk_blob(big);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_buffer_is_sized_exactly() {
        for len in [0, 1, 9, 10, 62, 63, 64, 65, 99, 100, 101, 12_345] {
            let body = vec![b'x'; len];
            let frame = Frame::new(&[b"message", b"c"], &body, None);
            let mut expected = Vec::new();
            for part in [&b"message"[..], b"c", &body] {
                request::push_bulk(&mut expected, part);
            }
            assert_eq!(&frame.text[..], expected, "{len}");
        }
    }
}
