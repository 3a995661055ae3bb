// SPDX-License-Identifier: BSD-3-Clause
//! A message as it is sent, encoded once for all who get it.
//!
//! The forms of RESP2 and RESP3 differ in the first header only, so the rest is the same bytes for everybody.

use braid_base::blob::Blob;
use braid_resp::reply::ReplyBuffer;
use braid_resp::request;
use smallvec::SmallVec;

/// Messages of at least this many bytes are sent from where they are, if they came in an allocation
/// of their own.
const SHARED_MIN: usize = 16 * 1024;

/// Texts of so many bytes need no allocation of their own.
const INLINE: usize = 96;
type Text = SmallVec<[u8; INLINE]>;

/// An encoded message.
#[derive(Debug)]
pub struct Frame {
    /// Elements of the array or push that it is.
    elements: usize,
    /// What comes behind the header.
    text: Text,
    /// The last element, if it is not part of the text.
    big: Option<Blob>,
}

impl Frame {
    /// A message of some strings, of which the last is the body; `blob` holds its bytes too if they
    /// have an allocation of their own.
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

    /// A message of `elements` whose encoding, without the header, is given.
    pub fn encoded(elements: usize, text: Vec<u8>) -> Frame {
        Frame { elements, text: text.into(), big: None }
    }

    /// Adds it to what a client is sent.
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
    fn the_room_is_just_what_is_written() {
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
